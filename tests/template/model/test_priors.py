"""The M-step of templates against a numerical optimiser."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

from sktem.models import (
    DeformableTemplateModel,
    ImageGrid,
    TemplateParams,
    TemplatePriors,
)
from tests.template.oracles import Dense, kernel, random_params, simulate

GRIDS = {
    "signal": ImageGrid((7,), (4,), (2,), 1.7, 3.0),
    "image": ImageGrid((4, 3), (2, 2), (2, 1), 1.8, 3.0),
}
PRIORS = {
    "none": TemplatePriors(0.4, 0.0),
    "weak": TemplatePriors(0.4, 5.0, 2.0, 0.5, 10.0),
    "strong": TemplatePriors(0.4, 100.0, 0.3, 0.5, 1000.0),
}
N = 12
OF_GRID = pytest.mark.parametrize("name", GRIDS)
OF_PRIORS = pytest.mark.parametrize("priors", PRIORS.values(), ids=PRIORS)
OF_TYPE = pytest.mark.parametrize("kind", ["full", "shared", "isotropic"])


def problem(name, priors, kind, seed=0):
    grid, rng = GRIDS[name], np.random.default_rng(seed)
    params = random_params(grid, rng)
    Y, Z = simulate(grid, params, N, rng)
    Y[0, 1] = np.nan
    model = DeformableTemplateModel(grid, priors, covariance_type=kind, n_rows=N)
    start = random_params(grid, rng, noise_variance=1.0)
    return model, Y, Z, model.maximize(model.mean_statistics(Y, Z), start)


def log_prior(model, params):
    """Return the logarithm of the priors' density, as the documentation states it."""
    priors, grid = model.priors, model.grid
    beta, gamma = params.coefficients[0], params.covariances[0]
    variance = params.noise_variances[0]
    dense = Dense(grid)

    def gram(points, scale):
        gaps = points[:, None] - points[None]
        return np.exp(-(gaps**2).sum(axis=2) / (2 * scale**2))

    mode = np.linalg.inv(
        gram(dense.places, grid.deformation_width) + 1e-8 * np.eye(grid.n_places)
    )
    mode = np.kron(np.eye(grid.n_axes), priors.deformation_scale**2 * mode)
    total = np.linalg.slogdet(gamma)[1] + np.trace(np.linalg.solve(gamma, mode))
    total = -priors.strength / 2 * total
    roughness = beta @ gram(dense.nodes, grid.template_scale) @ beta
    total -= roughness / (2 * priors.template_scale**2)
    noise = np.log(variance) + priors.noise_scale**2 / variance
    return total - priors.noise_strength / 2 * noise


class Posterior:
    """Complete-data log-posterior of images with given deformations."""

    def __init__(self, model, Y, Z):
        self.model, self.Z = model, Z
        self.seen = ~np.isnan(Y)
        self.Y = np.where(self.seen, Y, 0.0)
        self.K = np.array([Dense(model.grid).design(z) for z in Z])

    def __call__(self, params):
        gamma, variance = params.covariances[0], params.noise_variances[0]
        errors = self.seen * (self.Y - self.K @ params.coefficients[0])
        total = self.seen.sum() * np.log(variance) + (errors**2).sum() / variance
        total += len(self.Z) * np.linalg.slogdet(gamma)[1]
        total += np.einsum("ij,ji->", self.Z, np.linalg.solve(gamma, self.Z.T))
        return -total / 2 + log_prior(self.model, params)


def covariance_of(free, grid, kind):
    """Return a covariance of the structure for unconstrained numbers."""

    def from_root(free, size):
        root = np.zeros((size, size))
        root[np.tril_indices(size)] = free
        np.fill_diagonal(root, np.exp(np.diag(root)))
        return root @ root.T

    if kind == "isotropic":
        return np.exp(free[0]) * np.eye(grid.n_latents)
    if kind == "shared":
        return np.kron(np.eye(grid.n_axes), from_root(free, grid.n_places))
    return from_root(free, grid.n_latents)


def free_of(params, grid, kind):
    gamma = params.covariances[0]
    if kind == "isotropic":
        return np.log(gamma[:1, 0])
    if kind == "shared":
        gamma = gamma[: grid.n_places, : grid.n_places]
    root = np.linalg.cholesky(gamma)
    root[np.diag_indices(len(root))] = np.log(np.diag(root))
    return root[np.tril_indices(len(root))]


@OF_GRID
@OF_PRIORS
@OF_TYPE
def test_m_step_is_that_of_an_optimiser(name, priors, kind):
    model, Y, Z, params = problem(name, priors, kind)
    grid = model.grid
    n_beta = grid.n_template

    def unpack(x):
        return TemplateParams(
            np.ones(1),
            x[None, :n_beta],
            covariance_of(x[n_beta + 1 :], grid, kind)[None],
            np.exp(x[n_beta : n_beta + 1]),
        )

    posterior = Posterior(model, Y, Z)

    def loss(x):
        return -posterior(unpack(x)) / N

    found = np.concatenate(
        [
            params.coefficients[0],
            np.log(params.noise_variances),
            free_of(params, grid, kind),
        ]
    )
    # The structure is as it should be.
    np.testing.assert_allclose(
        unpack(found).covariances, params.covariances, rtol=1e-4, atol=1e-5
    )
    # It is stationary, and an optimiser that starts elsewhere finds nothing better.
    slope = approx_fprime(found, loss, 1e-6)
    assert np.abs(slope).max() < 2e-4
    rng = np.random.default_rng(1)
    best = minimize(loss, found + 0.3 * rng.normal(size=found.shape), method="BFGS")
    assert loss(found) < best.fun + 1e-5
    beta = best.x[:n_beta] - found[:n_beta]
    image = Dense(grid).design() @ beta
    assert np.abs(image).max() < 5e-3
    np.testing.assert_allclose(best.x[n_beta:], found[n_beta:], atol=5e-3)
    # Elsewhere it is worse, and the slope is far from zero.
    assert np.abs(approx_fprime(found + 0.1, loss, 1e-6)).max() > 0.05


@OF_GRID
@OF_PRIORS
@OF_TYPE
def test_penalty_is_the_prior(name, priors, kind):
    """The differences of ``penalty`` are those of the log-density, per image."""
    model, _, _, one = problem(name, priors, kind, seed=0)
    *_, two = problem(name, priors, kind, seed=1)
    found = model.penalty(one) - model.penalty(two)
    expected = -(log_prior(model, one) - log_prior(model, two)) / N
    assert found == pytest.approx(expected, rel=1e-8, abs=1e-10)


def test_penalty_of_weights():
    grid = GRIDS["signal"]
    priors = TemplatePriors(0.4, 0.0, weight_concentration=3.0)
    model = DeformableTemplateModel(grid, priors, n_components=2, n_rows=10.0)
    params = random_params(grid, np.random.default_rng(0), n_components=2)
    even = model.penalty(params)
    params = replace(params, weights=np.array([0.9, 0.1]))
    difference = model.penalty(params) - even
    assert difference == pytest.approx(-0.3 * np.log(0.09 / 0.25))
    # The M-step of the weights is the mode of multinomial times Dirichlet.
    Z = model.chain_states(10, np.repeat([[1.0, 0.0], [0.0, 1.0]], [8, 2], axis=0))
    Y = np.random.default_rng(1).normal(size=(10, 7))
    weights = model.maximize(model.mean_statistics(Y, Z), params).weights
    np.testing.assert_allclose(weights, [11 / 16, 5 / 16])


@OF_TYPE
def test_m_step_raises_the_expected_posterior(kind):
    """Also from statistics that are means over several draws of each image."""
    model, Y, Z, _ = problem("signal", PRIORS["weak"], kind)
    rng = np.random.default_rng(5)
    draws = [Z + 0.3 * rng.normal(size=Z.shape) for _ in range(3)]
    s = np.mean([model.mean_statistics(Y, z) for z in draws], axis=0)

    posteriors = [Posterior(model, Y, z) for z in draws]

    def expected(params):
        return np.mean([posterior(params) for posterior in posteriors])

    params = model.params_of(Y, np.ones((N, 1)))
    before, params = expected(params), model.maximize(s, params)
    assert expected(params) > before + 1
    again = model.maximize(s, params)
    np.testing.assert_allclose(again.noise_variances, params.noise_variances, rtol=1e-8)
    for _ in range(10):
        other = TemplateParams(
            params.weights,
            params.coefficients + 0.1 * rng.normal(size=params.coefficients.shape),
            params.covariances * np.exp(0.3 * rng.normal()),
            params.noise_variances * np.exp(0.3 * rng.normal()),
        )
        assert expected(other) < expected(params)


def test_prior_of_displacements():
    """Displacements at landmarks have the stated deviation, and are smooth."""
    grid = GRIDS["image"]
    gamma = TemplatePriors(0.4, 1.0).deformation_covariance(grid)
    places = Dense(grid).places
    K = np.kron(np.eye(2), kernel(places, places, grid.deformation_width))
    np.testing.assert_allclose(K @ gamma @ K.T, 0.16 * K, atol=1e-6)


def test_few_images_without_a_prior():
    """Gamma has less than full rank: it is mended, and counted."""
    model, Y, Z, _ = problem("image", PRIORS["none"], "full")
    start = random_params(model.grid, np.random.default_rng(0))
    s = model.mean_statistics(Y[:1], 0 * Z[:1])
    params = model.maximize(s, start)
    assert np.linalg.eigvalsh(params.covariances[0])[0] > 0
    assert np.isfinite(params.coefficients).all()
    assert (params.noise_variances > 0).all()


def test_noise_has_a_floor():
    """As many coefficients as pixels explain an image without rest."""
    grid = ImageGrid((3,), (5,), (1,), 0.8, 2.0)
    priors = TemplatePriors(0.4, 1.0, noise_floor=1e-4)
    model = DeformableTemplateModel(grid, priors)
    params = model.params_of(np.array([[1.0, -2.0, 3.0]]), np.ones((1, 1)))
    assert params.noise_variances[0] == 1e-4
    assert model.degeneracies(params) == 1


def test_no_pixels_at_all():
    grid = GRIDS["signal"]
    model = DeformableTemplateModel(grid, PRIORS["weak"])
    params = model.params_of(np.full((3, 7), np.nan), np.ones((3, 1)))
    np.testing.assert_array_equal(params.coefficients, 0)
    assert params.noise_variances[0] > 0
    assert np.isfinite(params.covariances).all()


def test_the_prior_of_a_template_is_the_same_in_every_channel():
    """Equal channels have equal templates, though panels at the ends have one side."""
    shape, rng = (8, 8), np.random.default_rng(0)
    grid = ImageGrid(shape, (10, 10), (2, 2), 1.085, 3.0, n_channels=3)
    image = rng.normal(size=shape).cumsum(axis=0).cumsum(axis=1).ravel()
    image /= image.std()
    model = DeformableTemplateModel(grid, PRIORS["strong"], n_rows=1)
    params = model.params_of(np.tile(image, 3)[None], np.ones((1, 1)))
    still = np.zeros(grid.n_latents)
    channels = grid.deformed(params.coefficients[0], still).reshape(3, -1)
    assert np.abs(channels - channels[0]).max() < 1e-3 * channels.std()
