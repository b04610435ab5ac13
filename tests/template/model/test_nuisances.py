"""Nuisances of images: similarities and light apart from deformations."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from sktem import DeformableTemplateEstimator
from sktem.models import ImageGrid
from sktem.samplers import MALA
from sktem.template.geometry.flow import FlowGrid
from sktem.template.model.light import Light
from sktem.template.model.nuisances import NUISANCES, Nuisances, checked_names
from sktem.template.model.statistics import split, statistic_size, sum_statistics
from sktem.template.settings import Frame
from tests.oracles import LIMIT
from tests.template.oracles import SMALL, Dense, blobs, gram_of, model_of, random_params

PLANE = (16, 16), (18, 18), (6, 6), 1.2, 3.0
SHAPES = {
    "signal": ImageGrid((40,), (30,), (8,), 1.5, 6.0),
    "image": ImageGrid(*PLANE),
    "flow": FlowGrid(*PLANE),
    "volume": ImageGrid((9, 8, 9), (6, 6, 6), (4, 4, 4), 1.5, 3.0),
}
GEOMETRIC = NUISANCES[:3]


def names_for(grid, names=NUISANCES):
    return tuple(name for name in names if grid.n_axes == 2 or name != "rotation")


def random_columns(nuisances, n, rng, frame):
    """Return plausible nuisances, by columns."""
    sizes = {
        "translation": lambda: rng.normal(size=n),
        "rotation": lambda: 0.3 * rng.normal(size=n),
        "scale": lambda: np.exp(0.2 * rng.normal(size=n)),
        "gain": lambda: rng.uniform(0.5, 2.0, n),
        "offset": lambda: rng.normal(size=n) * frame.scale,
    }
    return np.stack([sizes[name.split()[0]]() for name in nuisances.columns], axis=1)


# --------------------------------------------------------------------- straight fields


@pytest.mark.parametrize("kind", SHAPES)
def test_kernels_carry_pixels_by_similarities(kind):
    """Against ``R(-angle) (x - translation) / scale`` at the pixels of the inside."""
    grid, rng = SHAPES[kind], np.random.default_rng(0)
    nuisances = Nuisances(grid, names_for(grid, GEOMETRIC))
    frame = Frame(grid, 0.0, 1.0)
    columns = random_columns(nuisances, 5, rng, frame)
    mean = np.zeros((1, len(nuisances.deviations)))
    fields, light = nuisances.restored(columns, mean, frame)
    assert light is None
    found = dict(zip(nuisances.columns, columns.T, strict=True))
    size = np.array(grid.half_widths)[:, None]
    inside = (np.abs(grid.pixels) < 0.75 * size).all(axis=0)
    for k, z in enumerate(fields @ nuisances.basis.T):
        moved = grid.pixels - columns[k, : grid.n_axes, None]
        if grid.n_axes == 2:
            angle = found["rotation"][k]
            c, s = np.cos(angle), np.sin(angle)
            moved = np.array([[c, s], [-s, c]]) @ moved
        moved = moved / found["scale"][k]
        error = (grid.moved(z) - moved)[:, inside]
        moves = np.abs(moved - grid.pixels).max()
        assert np.abs(error).max() < 0.05 * moves
        assert np.sqrt((error**2).mean()) < 0.02 * moves


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize(
    "names", [NUISANCES, ("translation",), ("rotation", "offset"), ("scale", "gain")]
)
def test_what_is_reported_leads_back(kind, names):
    grid, rng = SHAPES[kind], np.random.default_rng(1)
    names = names_for(grid, names)
    nuisances, frame = Nuisances(grid, names), Frame(grid, 3.0, 2.0)
    k = len(nuisances.deviations)
    mean = 0.1 * rng.normal(size=(1, k + 2))
    mean[:, k] = 1.2
    columns = random_columns(nuisances, 6, rng, frame)
    fields, lights = nuisances.restored(columns, mean, frame)
    found = nuisances.reported(fields, lights, mean, frame)
    np.testing.assert_allclose(found, columns, atol=1e-9)
    # At the mean ones there are none.
    own = mean[:, k:] if nuisances.light is not None else None
    at_mean = nuisances.reported(mean[:, :k], own, mean, frame)[0]
    absent = [float(name in ("scale", "gain")) for name in nuisances.columns]
    np.testing.assert_allclose(at_mean, absent, atol=1e-12)


# ------------------------------------------------------------------------------ M-step


def test_covariance_without_nuisances_is_a_step_of_em():
    """Its fixed point is exact, and the likelihood of any second moments grows."""
    grid, rng = SHAPES["image"], np.random.default_rng(2)
    nuisances = Nuisances(grid, GEOMETRIC)
    params = random_params(grid, rng)
    gamma = params.covariances[0]
    total = gamma + nuisances.covariance
    np.testing.assert_allclose(
        nuisances.outer_without(total, gamma), gamma, atol=1e-9 * np.trace(gamma)
    )
    Z = 2.0 * rng.normal(size=(200, grid.n_latents))
    outer = Z.T @ Z / len(Z)

    def log_likelihood(gamma):
        total = gamma + nuisances.covariance
        return -np.linalg.slogdet(total)[1] - np.trace(np.linalg.solve(total, outer))

    values = [log_likelihood(gamma)]
    for _ in range(5):
        gamma = nuisances.outer_without(outer, gamma)
        values.append(log_likelihood(gamma))
    assert (np.diff(values) > 0).all()


def test_expected_fields_are_those_of_gaussians():
    """Monte Carlo: regressions of drawn fields on the drawn landmarks."""
    grid, rng = ImageGrid((8, 8), (6, 6), (3, 3), 1.5, 3.5), np.random.default_rng(3)
    nuisances = Nuisances(grid, ("translation",))
    gamma = random_params(grid, rng).covariances[0]
    n = 20000
    fields = rng.normal(size=(n, 2)) * nuisances.deviations
    rest = rng.multivariate_normal(np.zeros(grid.n_latents), gamma, n)
    Z = rest + fields @ nuisances.basis.T
    found, left = nuisances.fields_of(Z, gamma)
    np.testing.assert_allclose(found @ nuisances.basis.T + left, Z, atol=1e-10)
    # The errors of conditional means are uncorrelated with what they depend on.
    errors = fields - found
    products = errors[:, :, None] * Z[:, None]
    scores = products.mean(axis=0) / (products.std(axis=0) / np.sqrt(n))
    assert np.abs(scores).max() < LIMIT
    # Negative control: half of the means.
    products = (fields - 0.5 * found)[:, :, None] * Z[:, None]
    scores = products.mean(axis=0) / (products.std(axis=0) / np.sqrt(n))
    assert np.abs(scores).max() > LIMIT


def test_density_and_gradient_with_nuisances():
    grid, rng = ImageGrid((7, 7), (6, 6), (3, 3), 1.6, 3.0), np.random.default_rng(4)
    nuisances = Nuisances(grid, GEOMETRIC)
    model, params = model_of(grid, nuisances=nuisances), random_params(grid, rng)
    Z = rng.normal(size=(2, grid.n_latents))
    Y = rng.normal(size=(2, grid.n_pixels))
    Y[0, :5] = np.nan
    total = params.covariances[0] + nuisances.covariance
    beta, variance = params.coefficients[0], params.noise_variances[0]
    dense = Dense(grid)
    expected = [
        dense.log_joint(y, z, beta, total, variance) for y, z in zip(Y, Z, strict=True)
    ]
    found = model.log_joint(Y, Z, params)
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    gradient, step = model.grad_log_joint(Y, Z, params), 1e-5
    for j in range(0, grid.n_latents, 5):
        move = step * np.eye(grid.n_latents)[j]
        ends = [model.log_joint(Y, Z + sign * move, params) for sign in (1, -1)]
        slope = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(slope, gradient[:, j], rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------------------------- light


def test_light_is_linear_regression():
    """Posterior and evidence against the Gaussian of the image with all of them."""
    rng, variance = np.random.default_rng(5), 0.07
    light = Light(np.array([0.25, 0.6]))
    Y, images = rng.normal(size=(4, 30)), rng.normal(size=(4, 30))
    Y[1, ::3] = np.nan
    means, covariances = light.posterior(Y, images, variance)
    for y, image, mean, covariance in zip(Y, images, means, covariances, strict=True):
        seen = ~np.isnan(y)
        design = np.stack([image[seen], np.ones(seen.sum())], axis=1)
        noise = variance * np.eye(seen.sum())
        whole = noise + design * light.variances @ design.T
        evidence = multivariate_normal(image[seen], whole).logpdf(y[seen])
        share = light.variances[:, None] * np.linalg.solve(whole, design).T
        expected = [1, 0] + share @ (y[seen] - image[seen])
        if expected[0] > 0.05:
            np.testing.assert_allclose(mean, expected, atol=1e-10)
            given = multivariate_normal(design @ mean, noise).logpdf(y[seen])
            found = given + light.log_evidence(mean[None], covariance[None])[0]
            np.testing.assert_allclose(found, evidence, atol=1e-8)
    assert (means[:, 0] > 0.05).any()
    start = light.start(2.0 * images + 0.3, images)
    np.testing.assert_allclose(start[:, 0], 2.0, rtol=1e-10)
    np.testing.assert_allclose(start[:, 1], 0.3, atol=1e-10)


def test_statistics_of_lit_images():
    """Sums of squares, of kernels and of light against dense matrices."""
    grid, rng = ImageGrid((5, 4), (4, 4), (2, 2), 1.6, 3.0), np.random.default_rng(6)
    dense, n = Dense(grid), 5
    Y, Z = rng.normal(size=(n, 20)), 0.5 * rng.normal(size=(n, grid.n_latents))
    Y[0, 3] = np.nan
    masses, light = rng.uniform(0.5, 2, n), rng.uniform(0.5, 1.5, (n, 2))
    found = sum_statistics(grid, Y, Z, masses, np.arange(n), None, light)
    part, mass = split(grid, found), masses.sum()
    seen, gain, offset = ~np.isnan(Y), light[:, 0], light[:, 1]
    rest = np.where(seen, Y - offset[:, None], 0.0)
    designs = [dense.design(z) * own[:, None] for z, own in zip(Z, seen, strict=True)]
    square = masses @ (rest**2).sum(axis=1) / mass
    cross = sum(
        m * g * K.T @ r for m, g, K, r in zip(masses, gain, designs, rest, strict=True)
    )
    gram = sum(
        m * g**2 * K.T @ K for m, g, K in zip(masses, gain, designs, strict=True)
    )
    np.testing.assert_allclose(part.square, square)
    np.testing.assert_allclose(part.observed, masses @ seen.sum(axis=1) / mass)
    np.testing.assert_allclose(part.cross, cross / mass, atol=1e-10)
    np.testing.assert_allclose(gram_of(grid, part.middle), gram / mass, atol=1e-10)
    np.testing.assert_allclose(part.mean, masses @ Z / mass)
    products = [gain, offset, gain**2, gain * offset, offset**2]
    sums = found[statistic_size(grid) :]
    np.testing.assert_allclose(sums, [masses @ product for product in products])


# ---------------------------------------------------------------------------- recovery


def letter(x):
    """Return the values of a figure without symmetries, about the origin."""
    strokes = [(-3, -2, 1.4, 1), (0, -2, 1.4, 1), (3, -2, 1.4, 1), (3, 1, 1.3, 0.9)]
    strokes.append((-3, 2, 1.2, 0.6))
    return sum(
        w * np.exp(-((x[0] - a) ** 2 + (x[1] - b) ** 2) / (2 * s**2))
        for a, b, s, w in strokes
    )


def posed(n, names, seed=0, noise=0.03):
    """Return images of the figure with known nuisances, and these."""
    rng = np.random.default_rng(seed)
    truth = {
        "translation": rng.normal(size=(n, 2)),
        "rotation": 0.25 * rng.normal(size=n),
        "scale": np.exp(0.12 * rng.normal(size=n)),
        "gain": rng.uniform(0.6, 1.6, n),
        "offset": 0.3 * rng.normal(size=n),
    }
    for name in set(NUISANCES) - set(names):
        truth[name] = np.full_like(truth[name], name in ("scale", "gain"))
    x, images = ImageGrid(*PLANE).pixels, []
    for k in range(n):
        c, s = np.cos(truth["rotation"][k]), np.sin(truth["rotation"][k])
        turned = np.array([[c, s], [-s, c]]) @ (x - truth["translation"][k][:, None])
        image = letter(turned / truth["scale"][k])
        images.append(truth["gain"][k] * image + truth["offset"][k])
    X = np.array(images) + noise * rng.normal(size=(n, 256))
    return X, {name: truth[name] for name in names}


def errors_of(found, truth):
    """Return the root mean square errors of nuisances about their means."""
    errors = {}
    for name, values in truth.items():
        pair = [found[name], values]
        if name in ("scale", "gain"):
            pair = [np.log(part) for part in pair]
        gap = np.subtract(*[part - part.mean(axis=0) for part in pair])
        errors[name] = np.sqrt((gap**2).mean())
    return errors


LARGEST = {
    "translation": 0.15, "rotation": 0.04, "scale": 0.03, "gain": 0.03, "offset": 0.02,
}  # fmt: skip


@pytest.fixture(scope="module")
def lit():
    """Images with all nuisances, and their fit."""
    X, truth = posed(24, NUISANCES)
    settings = {"nuisances": NUISANCES, "max_iter": 10, "random_state": 0}
    return X, truth, DeformableTemplateEstimator((16, 16), **settings).fit(X)


def test_nuisances_are_recovered(lit):
    """Errors are small beside what nuisances vary by, also of images with holes."""
    X, truth, fitted = lit
    found = fitted.nuisances_of(X)
    assert list(found) == list(NUISANCES)
    errors = errors_of(found, truth)
    assert all(errors[name] < LARGEST[name] for name in NUISANCES), errors
    nothing = {name: 0 * values + (name in ("scale", "gain"))
               for name, values in truth.items()}  # fmt: skip
    control = errors_of(nothing, truth)
    assert all(control[name] > 3 * LARGEST[name] for name in NUISANCES), control
    new, truth = posed(12, NUISANCES, seed=1)
    new[:, 100:110] = np.nan
    new[::2, :32] = np.nan
    errors = errors_of(fitted.registration(new).nuisances, truth)
    assert all(errors[name] < 2 * LARGEST[name] for name in NUISANCES), errors


def test_deformations_do_not_explain_nuisances(lit):
    X, _, fitted = lit
    plain = DeformableTemplateEstimator((16, 16), max_iter=10, random_state=0).fit(X)
    grid = fitted.grid_
    unit = np.eye(grid.n_latents)
    means = (
        grid.expanded_at(unit, grid.points).reshape(grid.n_latents, 2, -1).mean(axis=2)
    )

    def shift_variance(covariance):
        return np.trace(means.T @ covariance @ means)

    prior = 0.3**2 * shift_variance(grid.smooth_covariance)
    assert shift_variance(fitted.covariances_[0]) < 1.2 * prior
    assert shift_variance(plain.covariances_[0]) > 3 * prior


def test_images_with_nuisances_go_there_and_back(lit):
    X, _, fitted = lit
    columns = fitted.modes_of(X)
    assert columns.shape == (24, 72 + 6)
    assert len(fitted.get_feature_names_out()) == 78
    fits = fitted.inverse_transform(columns)
    assert np.sqrt(((fits - X) ** 2).mean()) < 1.5 * 0.03
    template = fitted.inverse_transform(fitted.mean_deformations_)
    np.testing.assert_allclose(template.reshape(1, 16, 16), fitted.templates_)
    # Nuisances that are none: the template, but for the mean deformation.
    none = np.append(np.zeros(72), [0, 0, 0, 1, 1, 0])
    gap = fitted.inverse_transform(none[None]).reshape(16, 16) - fitted.templates_[0]
    assert np.abs(gap).max() < 0.2 * fitted.templates_.max()
    means = fitted.transform(X)
    np.testing.assert_allclose(means[:, 72:], columns[:, 72:], atol=0.25)
    registered = fitted.register(X).reshape(24, 16, 16)[:, 3:13, 3:13]
    spread = registered.std(axis=0).mean() / X.std(axis=0).mean()
    assert spread < 0.3


def test_samples_have_nuisances(lit):
    """Means and deviations of the brightness, and of where it is, as in the images."""
    X, _, fitted = lit
    drawn, _ = fitted.sample(200, random_state=1)

    def features(X):
        level = np.median(X, axis=1)
        weights = np.maximum(X - level[:, None], 0) ** 2
        place = weights @ fitted.grid_.pixels.T / weights.sum(axis=1)[:, None]
        return np.column_stack([place, level, X.std(axis=1)])

    old, new = features(X), features(drawn)
    error = np.sqrt(old.var(axis=0) / len(old) + new.var(axis=0) / len(new))
    assert (np.abs(old.mean(axis=0) - new.mean(axis=0)) < LIMIT * error).all()
    ratio = old.std(axis=0) / new.std(axis=0)
    assert (ratio > 0.5).all() and (ratio < 2.0).all()


def test_draws_of_light_have_their_posterior(lit):
    X, _, fitted = lit
    own = fitted._template
    lit_images = own.model.lit(own.params)
    Y = np.repeat(own.standardised(X[:1]), 4000, axis=0)
    Z = np.repeat(own.modes_under(Y[:1])[0], 4000, axis=0)
    means, covariances = lit_images.posterior(Y, Z)
    draws = lit_images.draw(Y, Z, 7, np.arange(4000))
    factor = np.linalg.cholesky(covariances[0])
    whitened = np.linalg.solve(factor, (draws - means).T).T
    assert (np.abs(whitened.mean(axis=0)) < LIMIT / np.sqrt(4000)).all()
    np.testing.assert_allclose(np.cov(whitened.T), np.eye(2), atol=LIMIT / 45)


def test_flows_with_nuisances():
    X, truth = posed(4, GEOMETRIC)
    fitted = DeformableTemplateEstimator(
        (16, 16), nuisances=GEOMETRIC, deformation="diffeomorphic",
        deformation_landmarks=4, max_iter=2, random_state=0,
    ).fit(X)  # fmt: skip
    found = fitted.registration(X)
    errors = errors_of(found.nuisances, truth)
    assert all(errors[name] < 2 * LARGEST[name] for name in GEOMETRIC), errors
    assert found.jacobians().min() > 0


def test_signals_and_mixtures_with_translations():
    rng = np.random.default_rng(0)
    shifts, x = 2 * rng.normal(size=20), np.arange(40.0)
    X = np.exp(-((x - 20 - shifts[:, None]) ** 2) / 18) + 0.03 * rng.normal(
        size=(20, 40)
    )
    fitted = DeformableTemplateEstimator(
        (40,), nuisances=["translation", "offset"], max_iter=5, random_state=0
    ).fit(X)
    found = fitted.nuisances_of(X)["translation"][:, 0]
    assert np.corrcoef(found, shifts)[0, 1] > 0.99
    images = blobs(24, (8, 8), jitter=1.0)
    mixed = DeformableTemplateEstimator(
        n_components=2, nuisances="translation", **SMALL
    ).fit(images)
    assert mixed.nuisances_of(images)["translation"].shape == (24, 2)
    assert mixed.sample(3)[0].shape == (3, 64)
    first = mixed.templates_.copy()
    mixed.set_params(warm_start=True, max_iter=1).fit(images)
    assert np.abs(mixed.templates_ - first).max() < 0.5 * first.max()
    with pytest.raises(ValueError, match="nuisances cannot change"):
        mixed.set_params(nuisances=None).fit(images)


def test_streams_of_lit_images():
    X, truth = posed(40, ("gain", "offset"))
    fitted = DeformableTemplateEstimator(
        (16, 16), nuisances=("gain", "offset"), max_iter=4, random_state=0
    )
    fitted.partial_fit(X[:20]).partial_fit(X[20:])
    errors = errors_of(fitted.nuisances_of(X), truth)
    assert all(errors[name] < LARGEST[name] for name in truth), errors


def test_nuisances_that_cannot_be_had():
    assert checked_names(None, 2) == ()
    assert checked_names(["offset", "scale"], 2) == ("scale", "offset")
    with pytest.raises(ValueError, match="did you mean 'rotation'"):
        checked_names("rotations", 2)
    with pytest.raises(ValueError, match="two axes, not of 1"):
        checked_names("rotation", 1)
    for options in ({"n_components": 2}, {"n_channels": 3}):
        with pytest.raises(ValueError, match="one component and one channel"):
            checked_names("gain", 2, **options)
    X = blobs(6)
    lit = DeformableTemplateEstimator(nuisances="gain", **SMALL)
    with pytest.raises(ValueError, match="one that draws them"):
        lit.set_params(sampler=MALA()).fit(X)
    lit.set_params(sampler="auto").fit(X)
    with pytest.raises(ValueError, match="importance sampling"):
        lit.likelihood_estimates(X)
    narrow = DeformableTemplateEstimator(
        nuisances="scale", **{**SMALL, "deformation_width": 0.5}
    )
    with pytest.raises(ValueError, match="increase deformation_landmarks"):
        narrow.fit(X)
