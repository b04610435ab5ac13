"""The complete-data model of deformable templates."""

from dataclasses import replace

import numpy as np
import pytest

from sktem.models import (
    DeformableTemplateModel,
    ImageGrid,
    TemplateParams,
    TemplatePriors,
)
from sktem.template.model.statistics import split
from tests.oracles import LIMIT
from tests.template.oracles import (
    SHAPES,
    Dense,
    Lattice,
    gram_of,
    grid_of,
    model_of,
    random_params,
    simulate,
    two_landmarks,
)

OF_SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=str)


def setting(shape, n=4, seed=0, **options):
    grid, rng = grid_of(shape), np.random.default_rng(seed)
    params = random_params(grid, rng)
    Y, Z = simulate(grid, params, n, rng)
    Y[0, [0, 3]] = np.nan
    return model_of(grid, **options), params, Y, Z


# ---------------------------------------------------------------------- densities


@OF_SHAPE
def test_log_joint_and_its_gradient(shape):
    model, params, Y, Z = setting(shape)
    dense = Dense(model.grid)
    args = (params.coefficients[0], params.covariances[0], params.noise_variances[0])
    expected = [dense.log_joint(y, z, *args) for y, z in zip(Y, Z, strict=True)]
    # As near as the spline: its error is about 1e-3, residuals are about 0.2.
    atol = 0.02 * model.grid.n_pixels
    np.testing.assert_allclose(model.log_joint(Y, Z, params), expected, atol=atol)
    gradient = model.grad_log_joint(Y, Z, params)
    dense_gradient = [dense.gradient(y, z, *args) for y, z in zip(Y, Z, strict=True)]
    scale = np.abs(dense_gradient).max()
    np.testing.assert_allclose(gradient, dense_gradient, atol=0.05 * scale)
    for g in range(model.grid.n_latents):
        shift = 1e-5 * (np.arange(model.grid.n_latents) == g)
        right = model.log_joint(Y, Z + shift, params)
        left = model.log_joint(Y, Z - shift, params)
        slope = (right - left) / 2e-5
        np.testing.assert_allclose(gradient[:, g], slope, rtol=1e-5, atol=1e-5)


@OF_SHAPE
def test_a_fine_spline_gives_the_dense_density(shape):
    model, params, Y, Z = setting(shape)
    model.grid.nodes_per_scale = 24.0
    dense = Dense(model.grid)
    args = (params.coefficients[0], params.covariances[0], params.noise_variances[0])
    expected = [dense.log_joint(y, z, *args) for y, z in zip(Y, Z, strict=True)]
    np.testing.assert_allclose(model.log_joint(Y, Z, params), expected, rtol=1e-4)
    expected = [dense.gradient(y, z, *args) for y, z in zip(Y, Z, strict=True)]
    found = model.grad_log_joint(Y, Z, params)
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())


@OF_SHAPE
def test_mean_curvature(shape):
    """That of draws from the model; with exact kernels, as near as the spline is."""
    model, params, *_ = setting(shape)
    grid, rng = model.grid, np.random.default_rng(1)
    chains = model.chains._replace(draws=2_000)
    found = chains.mean_curvature(model.component(params, 0))
    draws = rng.multivariate_normal(
        np.zeros(grid.n_latents), params.covariances[0], size=2_000
    )
    J = np.array([Dense(grid).jacobian(z, params.coefficients[0]) for z in draws])
    products = np.einsum("nug,nuh->ngh", J, J)
    mean, errors = products.mean(axis=0), products.std(axis=0) / np.sqrt(len(J))
    bound = 0.02 * np.abs(mean).max()  # of the spline
    assert (np.abs(found - mean) < LIMIT * np.sqrt(2) * errors + bound).all()
    assert np.abs(found).max() > 10 * bound


def test_missing_pixels_are_as_if_they_were_not_there():
    """A frame of NaN around a signal is the same as the signal without it."""
    inner = ImageGrid((6,), (5,), (3,), 1.5, 3.0)
    outer = ImageGrid((10,), (5,), (3,), 1.5, 3.0)
    outer.template_axes, outer.deformation_axes = (
        inner.template_axes, inner.deformation_axes,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    params = random_params(inner, rng)
    Y, Z = simulate(inner, params, 5, rng)
    framed = np.full((5, 10), np.nan)
    framed[:, 2:8] = Y
    small, large = model_of(inner), model_of(outer)
    for method in ("log_joint", "grad_log_joint"):
        found = getattr(large, method)(framed, Z, params)
        expected = getattr(small, method)(Y, Z, params)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    a, b = small.modes_of(Y, params, 0), large.modes_of(framed, params, 0)
    np.testing.assert_allclose(b[0], a[0], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(b[1], a[1], rtol=1e-10)
    a, b = (
        model.importance(images, params, 0, 50, 0)
        for model, images in ((small, Y), (large, framed))
    )
    np.testing.assert_allclose(b, a, rtol=1e-7)
    np.testing.assert_allclose(
        large.mean_statistics(framed, Z), small.mean_statistics(Y, Z), rtol=1e-12
    )


# --------------------------------------------------------------------- statistics


@OF_SHAPE
def test_statistics(shape):
    model, _, Y, Z = setting(shape)
    dense, weights = Dense(model.grid), np.array([1.0, 0.5, 0.0, 2.0])
    part = split(model.grid, model.mean_statistics(Y, Z, weights))
    square = observed = cross = gram = outer = 0.0
    for y, z, w in zip(Y, Z, weights / weights.sum(), strict=True):
        seen = ~np.isnan(y)
        K = dense.design(z)[seen]
        square, observed = square + w * (y[seen] @ y[seen]), observed + w * seen.sum()
        cross, gram = cross + w * K.T @ y[seen], gram + w * K.T @ K
        outer = outer + w * np.outer(z, z)
    assert part.square == pytest.approx(square, rel=1e-12)
    assert part.observed == pytest.approx(observed, rel=1e-12)
    for found, expected in (
        (part.cross, cross),
        (gram_of(model.grid, part.middle), gram),
        (part.outer, outer),
    ):
        bound = 1e-12 * np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=0, atol=bound)


def test_a_weight_is_a_repetition():
    model, params, Y, Z = setting((7, 4), n=5)
    weights = np.array([1, 3, 0, 2, 1])
    whole = model.mean_statistics(Y, Z, weights.astype(float))
    repeated = model.mean_statistics(
        np.repeat(Y, weights, axis=0), np.repeat(Z, weights, axis=0)
    )
    np.testing.assert_allclose(whole, repeated, rtol=1e-12, atol=1e-14)
    model.n_rows = 7.0
    found, expected = model.maximize(whole, params), model.maximize(repeated, params)
    np.testing.assert_allclose(found.coefficients, expected.coefficients, rtol=1e-6)
    np.testing.assert_allclose(found.covariances, expected.covariances, rtol=1e-10)
    np.testing.assert_allclose(found.noise_variances, expected.noise_variances)


def test_statistics_of_a_mixture_are_those_of_its_parts():
    model, _, Y, _ = setting((7, 4), n=4, n_components=2)
    rng = np.random.default_rng(0)
    shares = np.array([[1.0, 0.0], [0.3, 0.7], [0.0, 1.0], [0.5, 0.5]])
    states = model.chain_states(4, shares).reshape(4, 2, -1)
    dim = model.grid.n_latents
    states[:, :, :dim] = 0.3 * rng.normal(size=(4, 2, dim))
    s = model.mean_statistics(Y, states.reshape(4, -1))
    alone = model_of(model.grid)
    for t in range(2):
        own = shares[:, t] > 0
        expected = alone.mean_statistics(Y[own], states[own, t, :dim], shares[own, t])
        pair = split(model.grid, s.reshape(2, -1)[t]), split(alone.grid, expected)
        for a, b in zip(*pair, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
        share = s.reshape(2, -1)[t, 0]
        assert share == pytest.approx(shares[:, t].mean(), rel=1e-14)


@pytest.mark.parametrize("adjusted", [True, False])
def test_draws_depend_on_seed_number_and_component_only(adjusted):
    model, params, Y, _ = setting((7, 4), n=20)
    Z, numbers, options = model.chain_states(20), np.arange(20), {"adjusted": adjusted}

    def moved(rows, seed=7):
        options.update(first=0.1, numbers=numbers[rows])
        return model.move_chains(Y[rows], Z[rows], params, seed, 3, **options)[0]

    whole, some = moved(numbers), np.array([19, 4, 11])
    np.testing.assert_array_equal(moved(some), whole[some])
    assert (Z[:, :-1] == 0).all()
    assert (moved(numbers, seed=8) != whole).any(axis=1).all()


def test_components_of_a_mixture_draw_on_their_own():
    model, _, Y, _ = setting((5,), n=200, n_components=2)
    one = random_params(model.grid, np.random.default_rng(0))
    twins = TemplateParams(
        np.full(2, 0.5), *(np.repeat(v, 2, axis=0) for v in (
            0 * one.coefficients, one.covariances, one.noise_variances,
        )),
    )  # fmt: skip
    Z, *_ = model.move_chains(Y, model.chain_states(200), twins, 0, 20, first=0.5)
    dim = model.grid.n_latents
    states = Z.reshape(200, 2, -1)[:, :, :dim]
    correlation = np.corrcoef(states[:, 0].T, states[:, 1].T)[:dim, dim:]
    assert np.abs(correlation).max() < LIMIT / np.sqrt(200)


# -------------------------------------------------------------------------- project


def test_possible_statistics_are_left_alone():
    model, _, Y, Z = setting((7, 4), n=6)
    s = model.mean_statistics(Y, Z)
    found, left = model.project(s)
    assert not left
    np.testing.assert_array_equal(found, s)


@pytest.mark.parametrize("wrong", ["square", "observed", "share", "middle", "outer"])
def test_impossible_statistics_are_mended(wrong):
    model, params, Y, Z = setting((7, 4), n=6)
    s = model.mean_statistics(Y, Z)
    start = {
        "share": 0,
        "square": 1,
        "observed": 2,
        "middle": 3 + model.grid.n_template,
    }
    if wrong == "outer":
        s[-(model.grid.n_latents**2) :] *= -1e6  # more than the prior can mend
    else:
        s[start[wrong]] *= -0.5
    found, left = model.project(s)
    assert left
    if wrong != "middle":  # a table can be positive, and its matrix still indefinite
        again, still = model.project(found)
        assert not still
        np.testing.assert_array_equal(again, found)
    new = model.maximize(found, params)
    assert np.isfinite(new.coefficients).all() and (new.noise_variances > 0).all()
    assert np.linalg.eigvalsh(new.covariances[0])[0] > 0


def test_a_component_without_images_keeps_its_parameters():
    model, _, Y, _ = setting((5,), n=4, n_components=2)
    params = random_params(model.grid, np.random.default_rng(1), 2)
    Z = model.chain_states(4, np.repeat([[1.0, 0.0]], 4, axis=0))
    new = model.maximize(model.mean_statistics(Y, Z), params)
    np.testing.assert_array_equal(new.coefficients[1], params.coefficients[1])
    np.testing.assert_array_equal(new.covariances[1], params.covariances[1])
    assert (new.coefficients[0] != params.coefficients[0]).any()


# ---------------------------------------------------------- likelihoods by quadrature


@pytest.fixture(scope="module")
def lattice():
    model, params, y = two_landmarks()

    def log_joint(Z):
        return model.log_joint(np.repeat(y[None], len(Z), axis=0), Z, params)

    return model, params, y, Lattice(log_joint)


def test_lattice_is_exact_enough(lattice):
    """Half of its points give the same, and so does the dense density, nearly."""
    model, params, y, whole = lattice
    args = (params.coefficients[0], params.covariances[0], params.noise_variances[0])
    dense = Dense(model.grid)
    coarse = Lattice(
        lambda Z: np.array([dense.log_joint(y, z, *args) for z in Z]), count=61
    )
    assert coarse.log_likelihood == pytest.approx(whole.log_likelihood, abs=5e-3)
    np.testing.assert_allclose(
        coarse.mean(lambda Z: Z), whole.mean(lambda Z: Z), atol=0.01
    )


@pytest.mark.parametrize("freedom", [0, 5])
def test_importance_sampling_against_quadrature(lattice, freedom, global_random_seed):
    model, params, y, exact = lattice
    estimates = np.array(
        [
            [v[0] for v in model.importance(y[None], params, 0, 400, seed, freedom)]
            for seed in range(200 * global_random_seed, 200 * global_random_seed + 200)
        ]
    )
    logs, errors, sizes = estimates.T
    ratios = np.exp(logs - exact.log_likelihood)
    off = (ratios.mean() - 1) / (ratios.std() / np.sqrt(len(ratios)))
    assert abs(off) < LIMIT
    # The stated standard errors are those that are seen; heavy tails make the
    # estimate from few draws the better one.
    if freedom:
        assert np.sqrt((errors**2).mean()) == pytest.approx(logs.std(), rel=0.25)
        assert np.median(sizes) > 300
    assert (sizes <= 400).all()
    # A likelihood that is 5 % off would be seen.
    assert abs(ratios.mean() - 1.05) / (ratios.std() / np.sqrt(200)) > 3


def test_laplace_is_near(lattice):
    model, params, y, exact = lattice
    found = model.modes_of(y[None], params, 0)[1][0]
    assert abs(found - exact.log_likelihood) < 0.5
    # With little noise the posterior is narrow, and nearly Gaussian.
    sharp = replace(params, noise_variances=np.array([1e-4]))
    image = Dense(model.grid).design(np.array([0.2, 0.1])) @ params.coefficients[0]
    values = Lattice(
        lambda Z: model.log_joint(np.repeat(image[None], len(Z), axis=0), Z, sharp),
        half=0.6, count=201,
    )  # fmt: skip
    found = model.modes_of(image[None], sharp, 0)[1][0]
    assert found == pytest.approx(values.log_likelihood, abs=0.02)


def test_importance_of_images_that_follow_the_prior():
    """A flat template: the posterior is the prior, and the likelihood Gaussian."""
    grid = grid_of((7, 4))
    params = random_params(grid, np.random.default_rng(0))
    params.coefficients[:] = 0
    Y = np.random.default_rng(1).normal(size=(3, 28))
    Y[0, 5] = np.nan
    model = model_of(grid)
    seen, variance = ~np.isnan(Y), params.noise_variances[0]
    expected = -0.5 * (
        seen.sum(axis=1) * np.log(2 * np.pi * variance)
        + np.where(seen, Y**2, 0).sum(axis=1) / variance
    )
    logs, errors, sizes = model.importance(Y, params, 0, 20, 0, 0)
    np.testing.assert_allclose(logs, expected, rtol=1e-10)
    np.testing.assert_allclose(sizes, 20)
    np.testing.assert_allclose(errors, 0, atol=1e-7)
    np.testing.assert_allclose(model.modes_of(Y, params, 0)[1], expected, rtol=1e-10)


def laplace_shares(model, Y, params):
    logs = [model.modes_of(Y, params, t)[1] for t in range(2)]
    logs = np.stack(logs, axis=1) + np.log(params.weights)
    return np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None])


def mixture_setting(noise_variance, **options):
    model, _, Y, _ = setting((7, 4), n=12, n_components=2, **options)
    params = random_params(
        model.grid, np.random.default_rng(1), 2, noise_variance=noise_variance
    )
    return model, replace(params, weights=np.array([0.2, 0.8])), Y


def test_shares_are_those_of_laplace():
    # Much noise, so that images are of both kinds.
    model, params, Y = mixture_setting(3.0, start_at_mode=True)
    _, shares = model.parts(model.start_chains(Y, params, None))
    expected = laplace_shares(model, Y, params)
    np.testing.assert_allclose(shares, expected, atol=5e-3)
    assert 0.01 < shares.min() and np.ptp(shares[:, 0]) > 0.05


def test_shares_of_an_image_do_not_depend_on_others():
    model, params, Y = mixture_setting(3.0)
    fresh = model.chain_states(len(Y))
    model.update_shares(Y, fresh, params)
    mixed = model.chain_states(len(Y))
    known = mixed[:5].copy()
    model.update_shares(Y[:5], known, params)
    mixed[:5] = known
    model.update_shares(Y, mixed, params)
    np.testing.assert_allclose(mixed[5:], fresh[5:], rtol=0, atol=0)


def test_labels_are_hard_at_first_and_then_free():
    model, params, Y = mixture_setting(3.0)
    Z = model.start_chains(Y, params, None)
    _, shares = model.parts(Z)
    images = params.coefficients @ Dense(model.grid).design().T
    nearest = np.nansum((Y[:, None] - images) ** 2, axis=2).argmin(axis=1)
    np.testing.assert_array_equal(shares, np.eye(2)[nearest])
    moved, *_ = model.move_chains(Y, Z, params, 0, 1, first=0.1)
    np.testing.assert_array_equal(model.parts(moved)[1], shares)
    for k in range(4):
        Z, *_ = model.move_chains(Y, Z, params, k, 20, first=0.1)
    expected = laplace_shares(model, Y, params)
    np.testing.assert_allclose(model.parts(Z)[1], expected, atol=5e-3)
    # Images that are not seen have the shares of the population.
    Z, *_ = model.move_chains(np.nan * Y, Z, params, 9, 1)
    np.testing.assert_allclose(model.parts(Z)[1], [params.weights] * 12, atol=1e-9)


def test_chains_may_start_at_modes():
    model, params, Y, _ = setting((7, 4), n=5, start_at_mode=True)
    Z = model.start_chains(Y, params, None)
    modes = model.modes_of(Y, params, 0)[0]
    np.testing.assert_array_equal(Z[:, : model.grid.n_latents], modes)
    np.testing.assert_array_equal(model.initial_latents(Y, params, None), modes)
    model.start_at_mode = False
    assert (model.initial_latents(Y, params, None) == 0).all()


def test_a_mixture_has_no_plain_latents():
    model, params, Y, _ = setting((5,), n_components=2)
    with pytest.raises(TypeError, match="own chains"):
        model.initial_latents(Y, params, None)


def test_params_of_images():
    """Without deformation the template is the penalised fit of the mean image."""
    grid = grid_of((7, 4), template_scale=0.9)
    Y = np.random.default_rng(0).normal(size=(6, 28))
    model = DeformableTemplateModel(grid, TemplatePriors(0.3, 4.0), n_rows=6)
    params = model.params_of(Y, np.ones((6, 1)))
    K = Dense(grid).design()
    fitted = K @ np.linalg.lstsq(K, Y.mean(axis=0), rcond=None)[0]
    np.testing.assert_allclose(K @ params.coefficients[0], fitted, atol=1e-4)
    variance = ((Y - fitted) ** 2).mean()
    np.testing.assert_allclose(params.noise_variances, variance, rtol=1e-4)
    prior = model.priors.deformation_covariance(grid)
    np.testing.assert_array_equal(params.covariances[0], prior)


def test_maximize_keeps_the_mean_deformations():
    """Averages over the images of a component, which weigh by their shares."""
    grid = ImageGrid((5, 5), (4, 4), (2, 2), 1.5, 3.0)
    model, rng = model_of(grid, n_components=2), np.random.default_rng(0)
    Y, shares = rng.normal(size=(6, 25)), rng.dirichlet([1, 1], 6)
    states = model.chain_states(6, shares).reshape(6, 2, -1)
    states[:, :, :8] = rng.normal(size=(6, 2, 8))
    params = model.params_of(Y, shares)
    assert not params.means.any()
    weights = np.arange(1.0, 7.0)
    s = model.mean_statistics(Y, states.reshape(6, -1), weights)
    for t in range(2):
        expected = np.average(states[:, t, :8], axis=0, weights=weights * shares[:, t])
        np.testing.assert_allclose(model.maximize(s, params).means[t], expected)
