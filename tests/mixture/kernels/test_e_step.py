"""The compiled kernels of Gaussian mixtures against plain NumPy."""

from functools import partial

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chi2

from sktem.mixture.kernels.e_step import (
    GaussianKernelParams,
    draw_counts,
    expected_statistics,
    log_density,
    n_statistics,
    posterior,
    predict,
    statistics,
)
from tests.emissions.structures import KINDS as COVARIANCE_TYPES
from tests.emissions.structures import dense, reduced

SIZES = [1, 127, 128, 129, 1000]
LARGE = 20000


def make_params(kind, K, d, rng):
    """Return random parameters."""
    root = rng.normal(size=(K, d, d)) / np.sqrt(d)
    matrices = root @ root.transpose(0, 2, 1) + 0.3 * np.eye(d)
    factors = np.linalg.inv(np.linalg.cholesky(matrices)).transpose(0, 2, 1)
    return GaussianKernelParams(
        rng.normal(size=d),
        np.log(rng.dirichlet(np.full(K, 5.0))),
        2.0 * rng.normal(size=(K, d)),
        np.ascontiguousarray(reduced(kind, factors, np.eye(K)[0])),
        kind,
    )


def make_rows(params, n_samples, rng):
    """Return rows about the components of a mixture."""
    labels = rng.integers(len(params.means), size=n_samples)
    noise = rng.normal(size=(n_samples, len(params.centre)))
    return params.centre + params.means[labels] + 1.5 * noise


def reference_log_joint(X, params):
    """Return log(weight_k N(x; mean_k, covariance_k)) by NumPy alone."""
    centred = np.asarray(X, dtype=float) - params.centre
    n_features = len(params.centre)
    columns, shape = [], params.means.shape
    factors = dense(params.covariance_type, params.precisions_cholesky, *shape)
    for k, mean in enumerate(params.means):
        precision = factors[k]
        distances = ((centred - mean) @ precision) ** 2
        log_determinant = np.log(np.diag(precision)).sum()
        constant = log_determinant - 0.5 * n_features * np.log(2.0 * np.pi)
        columns.append(constant - 0.5 * distances.sum(axis=1))
    return np.transpose(columns) + params.log_weights


def reference_statistics(X, responsibilities, weights, centre, covariance_type):
    """Return the sums of the contract, and the sums of their absolute terms."""
    centred = np.asarray(X, dtype=float) - centre
    n_features = len(centre)
    i, j = np.tril_indices(n_features)
    second = {
        "full": centred[:, i] * centred[:, j],
        "tied": centred[:, i] * centred[:, j],
        "diag": centred**2,
        "spherical": (centred**2).sum(axis=1, keepdims=True),
        "unit": np.empty((len(centred), 0)),
    }[covariance_type]
    weighted = weights[:, None] * responsibilities

    def flat(features, products):
        over = weights[:, None] if covariance_type == "tied" else weighted
        parts = [weighted.sum(axis=0), weighted.T @ features, over.T @ products]
        return np.concatenate([part.ravel() for part in parts])

    return flat(centred, second), flat(np.abs(centred), np.abs(second))


def assert_same_sums(sums, reference):
    """Compare sums to a relative 1e-12 of the sums of absolute terms."""
    expected, scale = reference
    assert sums.shape == expected.shape
    np.testing.assert_array_less(np.abs(sums - expected), 1e-12 * scale + 1e-290)


@pytest.mark.parametrize("n_components", [1, 2, 7])
@pytest.mark.parametrize("n_features", [1, 2, 3, 5, 16])
@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
def test_equal_numpy(covariance_type, n_features, n_components):
    rng = np.random.default_rng(n_features * n_components)
    params = make_params(covariance_type, n_components, n_features, rng)
    sizes = [*SIZES, LARGE] if n_features in (2, 16) else SIZES
    data = make_rows(params, sizes[-1], rng)
    all_weights = rng.exponential(size=sizes[-1])
    for dtype in (np.float32, np.float64):
        X = data.astype(dtype)
        log_joint = reference_log_joint(X, params)
        expected_density = logsumexp(log_joint, axis=1)
        expected = np.exp(log_joint - expected_density[:, None])
        for n_samples in sizes:
            rows = X[:n_samples]
            responsibilities, densities = posterior(rows, params)
            assert responsibilities.dtype == densities.dtype == np.float64
            scale = 1.0 + np.abs(log_joint[:n_samples]).max()
            close = partial(np.testing.assert_allclose, rtol=0, atol=1e-12 * scale)
            close(densities, expected_density[:n_samples])
            close(responsibilities, expected[:n_samples])
            np.testing.assert_array_equal(log_density(rows, params), densities)
            labels = predict(rows, params)
            assert labels.dtype == np.intp
            np.testing.assert_array_equal(labels, responsibilities.argmax(axis=1))
            for weights in (None, all_weights[:n_samples]):
                used = np.ones(n_samples) if weights is None else weights
                sums, log_likelihood = expected_statistics(rows, params, weights)
                reference = reference_statistics(
                    rows, expected[:n_samples], used, params.centre, covariance_type
                )
                assert len(sums) == n_statistics(
                    covariance_type, n_components, n_features
                )
                slack = 1.0 + np.abs(log_joint).max()
                assert_same_sums(sums, (reference[0], slack * reference[1]))
                np.testing.assert_allclose(
                    log_likelihood,
                    used @ expected_density[:n_samples],
                    rtol=0,
                    atol=1e-12 * (used @ np.abs(expected_density[:n_samples])),
                )


@pytest.mark.parametrize("dtype", ["f8", "f4", "u1", "u2", "u4"])
@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
def test_statistics_of_given_latents(covariance_type, dtype):
    rng = np.random.default_rng(0)
    for n_samples, n_features, n_components in [(1, 1, 1), (300, 3, 7), (5000, 5, 2)]:
        X = rng.normal(size=(n_samples, n_features))
        Z = rng.random((n_samples, n_components))
        if dtype[0] == "u":
            Z = rng.multinomial(20, Z / (Z.sum(axis=1, keepdims=True) + 1e-9))
        Z = Z.astype(dtype)
        exact = Z.astype(float)
        exact /= exact.sum(axis=1, keepdims=True)
        centre = rng.normal(size=n_features)
        weights = rng.exponential(size=n_samples)
        for used in (None, weights):
            sums = statistics(X, Z, centre, covariance_type, used)
            reference = reference_statistics(
                X,
                exact,
                np.ones(n_samples) if used is None else used,
                centre,
                covariance_type,
            )
            assert_same_sums(sums, reference)


def test_latents_without_mass_add_nothing():
    X = np.arange(6.0).reshape(3, 2)
    Z = np.array([[1, 3], [0, 0], [2, 2]], dtype=np.uint8)
    sums = statistics(X, Z, np.zeros(2), "tied")
    expected = statistics(X[[0, 2]], Z[[0, 2]], np.zeros(2), "tied")
    np.testing.assert_array_equal(sums, expected)


@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
def test_threads_change_no_bit(covariance_type):
    rng = np.random.default_rng(2)
    params = make_params(covariance_type, 3, 4, rng)
    X = make_rows(params, 40001, rng)
    weights = rng.exponential(size=len(X))
    Z = rng.random((len(X), 3))
    for n_jobs in (2, -1):
        for function, arguments in [
            (expected_statistics, (X, params, weights)),
            (posterior, (X, params)),
            (log_density, (X, params)),
            (predict, (X, params)),
            (statistics, (X, Z, params.centre, covariance_type, weights)),
        ]:
            serial = function(*arguments)
            threaded = function(*arguments, n_jobs=n_jobs)
            if not isinstance(serial, tuple):
                serial, threaded = (serial,), (threaded,)
            for one, other in zip(serial, threaded, strict=True):
                assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
def test_centre_absorbs_an_offset(covariance_type):
    # Multiples of 2**-20 near 1e8 are exact, so the answer must be the same bits.
    rng = np.random.default_rng(3)
    params = make_params(covariance_type, 3, 2, rng)
    params = params._replace(centre=np.zeros(2))
    X = np.round(make_rows(params, 500, rng) * 2.0**20) / 2.0**20
    shifted = params._replace(centre=np.full(2, 1e8))
    sums, log_likelihood = expected_statistics(X, params)
    shifted_sums, shifted_log_likelihood = expected_statistics(X + 1e8, shifted)
    np.testing.assert_array_equal(sums, shifted_sums)
    assert log_likelihood == shifted_log_likelihood


@pytest.mark.parametrize("n_features", [1, 2, 5])
@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
def test_outliers_give_no_nan(covariance_type, n_features):
    rng = np.random.default_rng(4)
    params = make_params(covariance_type, 4, n_features, rng)
    log_weights = params.log_weights.copy()
    log_weights[[0, 2]] = -np.inf
    params = params._replace(log_weights=log_weights)
    sizes = np.array([1.0, 1e3, 1e12, 1e100, 1e160, 1e200, 1.7e308, 0.0])
    X = np.outer(np.concatenate([sizes, -sizes]), np.ones(n_features))
    X[3, 0] = -X[3, 0]
    responsibilities, densities = posterior(X, params)
    assert np.isfinite(densities).all()
    np.testing.assert_allclose(responsibilities.sum(axis=1), 1.0, rtol=1e-14)
    assert (responsibilities[:, [0, 2]] == 0.0).all()
    assert (np.diff(densities[:5]) < 0.0).all()
    sums, log_likelihood = expected_statistics(X, params)
    assert np.isfinite(sums).all()
    assert np.isfinite(log_likelihood)
    assert (sums[[0, 2]] == 0.0).all()
    np.testing.assert_array_equal(predict(X, params), responsibilities.argmax(axis=1))
    given = statistics(X, responsibilities, params.centre, covariance_type)
    assert np.isfinite(given).all()


@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
def test_extreme_precisions_give_no_nan(covariance_type):
    params = make_params(covariance_type, 3, 3, np.random.default_rng(5))
    X = np.array([[1e12, -1e12, 1e12], [1e-12, 0.0, 1.0], [0.0, 0.0, 0.0]])
    for factor in (1e-20, 1e20):
        scaled = params._replace(
            precisions_cholesky=params.precisions_cholesky * factor
        )
        responsibilities, densities = posterior(X, scaled)
        assert np.isfinite(densities).all()
        np.testing.assert_allclose(responsibilities.sum(axis=1), 1.0, rtol=1e-14)


def test_far_rows_stay_normalised():
    params = GaussianKernelParams(
        np.zeros(1), np.log([0.5, 0.5]), np.array([[-1.0], [1.0]]), np.ones(2), "unit"
    )
    responsibilities, densities = posterior(np.array([[1e4], [-1e6], [0.0]]), params)
    np.testing.assert_array_equal(responsibilities, [[0, 1], [1, 0], [0.5, 0.5]])
    # 0.918... is log(2 pi) / 2; the nearer component holds half of the mass.
    expected = -0.5 * 9999.0**2 - 0.5 * np.log(2 * np.pi) - np.log(2)
    np.testing.assert_allclose(densities[0], expected, rtol=1e-14)
    np.testing.assert_array_equal(predict(np.zeros((2, 1)), params), [0, 0])


def test_layouts_and_read_only_arrays():
    rng = np.random.default_rng(6)
    params = make_params("full", 3, 2, rng)
    X = make_rows(params, 300, rng)
    expected, log_likelihood = expected_statistics(X, params)
    frozen = X.copy()
    frozen.flags.writeable = False
    frozen_params = params._replace(means=params.means.copy())
    frozen_params.means.flags.writeable = False
    for rows in (frozen, np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2]):
        sums, value = expected_statistics(rows, frozen_params)
        np.testing.assert_array_equal(sums, expected)
        assert value == log_likelihood


def test_few_argument_types_are_compiled():
    from sktem.mixture.kernels import rows as gaussian_rows

    rng = np.random.default_rng(7)
    for covariance_type in COVARIANCE_TYPES:
        params = make_params(covariance_type, 2, 3, rng)
        X = make_rows(params, 10, rng)
        for dtype in (np.float32, np.float64):
            expected_statistics(X.astype(dtype), params, np.ones(10))
            posterior(X.astype(dtype), params)
    assert len(gaussian_rows.mixture_rows.signatures) == 1
    assert len(gaussian_rows.prepare.signatures) == 1


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
def test_draw_counts_equal_numpy(dtype):
    rng = np.random.default_rng(9)
    for n_samples, n_components, n_draws in [(1, 1, 1), (500, 7, 11), (20000, 3, 2)]:
        r = rng.dirichlet(np.full(n_components, 0.3), size=n_samples)
        uniforms = rng.random((n_samples, n_draws))
        counts = draw_counts(r, uniforms, dtype)
        assert counts.dtype == dtype
        assert counts.shape == r.shape
        chosen = (uniforms[:, :, None] >= r.cumsum(axis=1)[:, None, :]).sum(axis=2)
        chosen = np.minimum(chosen, n_components - 1)
        expected = (chosen[:, :, None] == np.arange(n_components)).sum(axis=1)
        np.testing.assert_array_equal(counts, expected)


def test_draws_at_the_edges():
    below_one = np.nextafter(1.0, 0.0)
    r = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5 - 1e-9], [0.0, 1.0 - 1e-9, 0.0]])
    uniforms = np.array([[0.5, below_one], [0.0, below_one], [0.0, below_one]])
    counts = draw_counts(r, uniforms, np.uint8)
    # A bound belongs to the component above it; what rounding leaves of the unit
    # interval falls to the last component that has mass.
    np.testing.assert_array_equal(counts, [[0, 2, 0], [0, 1, 1], [0, 2, 0]])


def test_draws_follow_the_responsibilities():
    rng = np.random.default_rng(10)
    r = np.array([0.1, 0.2, 0.3, 0.4])
    n_rows, n_draws = 2000, 50
    uniforms = rng.random((n_rows, n_draws))
    counts = draw_counts(np.tile(r, (n_rows, 1)), uniforms, np.uint8).sum(axis=0)

    def statistic(probabilities):
        expected = n_rows * n_draws * probabilities
        return ((counts - expected) ** 2 / expected).sum()

    limit = chi2(3).ppf(0.999)
    assert statistic(r) < limit
    # The control: two probabilities that differ by two hundredths are told apart.
    assert statistic(r + [0.01, -0.01, 0.0, 0.0]) > limit
