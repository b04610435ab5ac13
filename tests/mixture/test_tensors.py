"""Mixtures of arrays of other namespaces are those of NumPy arrays."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone

from sktem import GaussianMixturePrior, StochasticEMGaussianMixture
from sktem.arrays import TensorRows, arrays_of
from sktem.mixture import tensors
from sktem.mixture.kernels import e_step as kernels
from sktem.mixture.model import GaussianMixtureModel
from tests.oracles import to_numpy

KINDS = ["full", "tied", "diag", "spherical", "unit"]
ATTRIBUTES = ("weights_", "means_", "covariances_", "precisions_cholesky_")


def rows_of(xp, X):
    return TensorRows(arrays_of(xp.asarray([0.0])).asarray(X))


def clusters(seed, separation, d=4, n=700):
    rng = np.random.default_rng(seed)
    centres = separation * rng.normal(size=(3, d))
    return rng.normal(size=(n, d)) + centres[rng.integers(3, size=n)]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch, memory_budget):
    """Several blocks, the last of them shorter; and scikit-learn dispatches."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    memory_budget(cached=1 << 10)


@pytest.mark.parametrize("d", [1, 4])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("separation", [2.0, 1e6])
def test_kernels_are_those_of_numpy(kind, d, separation, xp):
    X = clusters(0, separation, d)
    rng = np.random.default_rng(1)
    model = GaussianMixtureModel(3, covariance_type=kind, centre=np.median(X, axis=0))
    params = model.kernel_params(model.initial_params(X, rng))
    weights = rng.random(len(X))
    rows = rows_of(xp, X)
    for one, two in (
        (rows, X),
        (rows[100:], X[100:]),
        (rows[np.arange(0, 700, 3)], X[::3]),
    ):
        for w in (None, weights[: len(two)]):
            sums, total = tensors.expected_statistics(one, params, w)
            expected, total_expected = kernels.expected_statistics(two, params, w)
            np.testing.assert_allclose(sums, expected, rtol=1e-9, atol=1e-9 * len(two))
            np.testing.assert_allclose(total, total_expected, rtol=1e-10)
        Z = rng.multinomial(2, [0.2, 0.3, 0.5], size=len(two))
        Z[0] = 0  # a row without latents adds nothing
        found = tensors.statistics(one, Z, params.centre, kind, weights[: len(two)])
        expected = kernels.statistics(two, Z, params.centre, kind, weights[: len(two)])
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * len(two))
        found = tensors.posterior(one, params)
        expected = kernels.posterior(two, params)
        np.testing.assert_allclose(to_numpy(found[0]), expected[0], atol=1e-8)
        np.testing.assert_allclose(to_numpy(found[1]), expected[1], rtol=1e-8)
        labels = to_numpy(tensors.predict(one, params))
        np.testing.assert_array_equal(labels, kernels.predict(two, params))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("offset", "separation"), [(0.0, 2.0), (1e3, 2.0), (0.0, 3e3)])
def test_single_precision_keeps_digits(kind, offset, separation, xp):
    """Far from the origin, and with means far apart in units of their widths."""
    X = (clusters(0, separation) + offset).astype(np.float32)
    rng = np.random.default_rng(1)
    # The centre of a fitted model is no number of float32.
    model = GaussianMixtureModel(3, covariance_type=kind, centre=X.mean(0, dtype=float))
    start = model.initial_params(X, rng)
    params = model.kernel_params(start)
    sums, _ = tensors.expected_statistics(rows_of(xp, X), params)
    expected, _ = kernels.expected_statistics(X, params)
    one, two = (model.maximize(s / len(X), start) for s in (sums, expected))
    np.testing.assert_allclose(one.means, two.means, atol=1e-4)
    np.testing.assert_allclose(one.covariances, two.covariances, atol=1e-3)
    found = to_numpy(tensors.log_density(rows_of(xp, X), params))
    np.testing.assert_allclose(found, kernels.log_density(X, params), atol=2e-3)


@pytest.mark.parametrize("kind", ["full", "diag"])
@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(1e-20, "float32"), (1e17, "float32"), (1e-100, "float64"), (1e100, "float64")],
)
def test_data_of_any_scale(kind, dtype, scale, xp):
    """Squares of such numbers are none of float32."""
    X = (scale * clusters(0, 3.0)).astype(dtype)
    model = GaussianMixtureModel(3, covariance_type=kind, reg_covar=0.0)
    params = model.kernel_params(model.initial_params(X, np.random.default_rng(1)))
    found = to_numpy(tensors.log_density(rows_of(xp, X), params))
    expected = kernels.log_density(X, params)
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_blocks_that_lose_rows_are_seen(monkeypatch, xp):
    """A negative control of the tests of equality."""
    X = clusters(0, 2.0)
    model = GaussianMixtureModel(3, covariance_type="diag")
    params = model.kernel_params(model.initial_params(X, np.random.default_rng(0)))
    blocks = tensors.blocks_of
    monkeypatch.setattr(tensors, "blocks_of", lambda *given: list(blocks(*given))[:-1])
    sums, _ = tensors.expected_statistics(rows_of(xp, X), params)
    expected, _ = kernels.expected_statistics(X, params)
    assert np.abs(sums / expected - 1).max() > 1e-3


def same_mixture(one, two, rtol=1e-7):
    for name in ATTRIBUTES:
        found = to_numpy(getattr(one, name))
        np.testing.assert_allclose(found, getattr(two, name), rtol=rtol, atol=1e-8)
    assert one.n_iter_ == two.n_iter_ and one.converged_ == two.converged_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("solver", "kind"),
    [
        *[("em", kind) for kind in KINDS],
        *[("vrttem", kind) for kind in ("full", "tied")],
        *[(s, "diag") for s in ("online", "isaem", "fittem", "saem", "mcem", "iem")],
    ],
)
def test_fits_are_those_of_numpy(solver, kind, xp):
    X = clusters(0, 3.0)
    weights = np.random.default_rng(0).integers(0, 3, size=len(X))
    mixture = StochasticEMGaussianMixture(
        3, covariance_type=kind, solver=solver, max_iter=8, random_state=0
    )
    two = clone(mixture).fit(X, sample_weight=weights)
    with config_context(array_api_dispatch=True):
        given = arrays_of(xp.asarray([0.0])).asarray(X)
        one = clone(mixture).fit(given, sample_weight=weights)
        same_mixture(one, two)
        assert arrays_of(one.means_).xp is arrays_of(given).xp
        for name in ("predict", "predict_proba", "score_samples"):
            values = getattr(one, name)(given)
            assert arrays_of(values).xp is arrays_of(given).xp
            expected = getattr(two, name)(X)
            np.testing.assert_allclose(to_numpy(values), expected, atol=1e-7)
            # A fitted mixture answers arrays of any kind.
            np.testing.assert_allclose(getattr(one, name)(X), expected, atol=1e-7)
            moved = to_numpy(getattr(two, name)(given))
            np.testing.assert_allclose(moved, expected, atol=1e-7)
        for name in ("score", "bic", "aic", "icl"):
            found = getattr(one, name)(given)
            np.testing.assert_allclose(found, getattr(two, name)(X), rtol=1e-9)
        np.testing.assert_allclose(
            to_numpy(one.sample(20)[0]), two.sample(20)[0], rtol=1e-6
        )


def test_parameters_may_be_tensors(xp):
    """Starts and priors, next to data of either kind."""
    X = clusters(0, 3.0, n=60)
    given = {
        "weights_init": np.array([0.2, 0.3, 0.5]),
        "means_init": X[:3],
        "precisions_init": np.ones((3, 4)),
        "prior__mean_prior": X[3],
        "prior__covariance_prior": np.ones(4),
    }
    mixture = StochasticEMGaussianMixture(
        3,
        covariance_type="diag",
        max_iter=2,
        tol=0,
        prior=GaussianMixturePrior(mean_penalty=1.0, covariance_prior_strength=1.0),
    )
    two = clone(mixture).set_params(**given).fit(X)
    mixture.set_params(**{
        name: arrays_of(xp.asarray([0.0])).asarray(value)
        for name, value in given.items()
    })  # fmt: skip
    with config_context(array_api_dispatch=True):
        same_mixture(clone(mixture).fit(X), two)
        given = arrays_of(xp.asarray([0.0])).asarray(X)
        same_mixture(clone(mixture).fit(given), two)


@pytest.mark.parametrize("solver", ["em", "vrttem"])
def test_streams_are_those_of_numpy(solver, xp):
    X = clusters(0, 3.0, n=3000)
    mixture = StochasticEMGaussianMixture(
        3, covariance_type="diag", solver=solver, random_state=0
    )
    one, two = clone(mixture), clone(mixture)
    with config_context(array_api_dispatch=True):
        for chunk in np.split(X, [2, 300, 1000, 2000]):
            one.partial_fit(arrays_of(xp.asarray([0.0])).asarray(chunk))
            two.partial_fit(chunk)
    for name in ATTRIBUTES:
        found = to_numpy(getattr(one, name))
        np.testing.assert_allclose(found, getattr(two, name), rtol=1e-7, atol=1e-9)


def test_batches_of_one_are_those_of_numpy(xp):
    """They have a compiled sweep for NumPy arrays only."""
    X = clusters(0, 3.0, n=60)
    mixture = StochasticEMGaussianMixture(
        3, covariance_type="diag", solver="isaem", batch_size=1, sampling="fixed",
        max_iter=2, tol=0, random_state=0,
    )  # fmt: skip
    two = clone(mixture).fit(X)
    with config_context(array_api_dispatch=True):
        one = clone(mixture).fit(arrays_of(xp.asarray([0.0])).asarray(X))
    same_mixture(one, two, rtol=1e-6)


def test_what_is_not_finite_is_refused(xp):
    X = clusters(0, 3.0)
    X[3, 1] = np.nan
    with (
        config_context(array_api_dispatch=True),
        pytest.raises(ValueError, match="NaN"),
    ):
        StochasticEMGaussianMixture(2).fit(arrays_of(xp.asarray([0.0])).asarray(X))
    X[3, 1] = 1e200
    with (
        config_context(array_api_dispatch=True),
        pytest.raises(ValueError, match="overflow: in column 1"),
    ):
        StochasticEMGaussianMixture(2).fit(arrays_of(xp.asarray([0.0])).asarray(X))
