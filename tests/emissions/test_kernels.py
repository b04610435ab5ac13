"""Compiled loops of emissions, and the NumPy expressions that they equal."""

import numpy as np
import pytest

from sktem.emissions import Categorical, Gaussian, StudentT
from sktem.emissions.kernels import categories, groups, rows
from sktem.emissions.patterns import grouped


@pytest.mark.parametrize("n", [1, 64, 150])
@pytest.mark.parametrize("K, d", [(1, 1), (3, 2), (4, 5)])
def test_distances_and_moments(K, d, n):
    rng = np.random.default_rng(0)
    X, centre, means = (
        rng.normal(size=(n, d)),
        rng.normal(size=d),
        rng.normal(size=(K, d)),
    )
    R, widths = rng.random((n, K)), rng.random((K, d))
    factors, z = np.triu(rng.normal(size=(K, d, d))), X - centre
    found, constants = np.empty((n, K)), rng.normal(size=K)
    rows.diagonal_distances(X, centre, means, widths, constants, 0.3, found)
    expected = (((z[:, None] - means) * widths) ** 2).sum(axis=2)
    np.testing.assert_allclose(found, constants + 0.3 * expected, rtol=1e-12)
    rows.full_distances(X, centre, means, factors, constants, 0.3, found)
    y = np.einsum("nkd,kde->nke", z[:, None] - means, factors)
    expected = constants + 0.3 * (y**2).sum(axis=2)
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    for name, second in (
        ("diagonal_moments", np.einsum("nk,nd->kd", R, z**2)),
        ("full_moments", np.einsum("nk,nd,ne->kde", R, z, z)),
    ):
        sums = np.zeros(K), np.zeros((K, d)), np.zeros(second.shape)
        getattr(rows, name)(X, centre, R, *sums)
        for value, wanted in zip(sums, (R.sum(axis=0), R.T @ z, second), strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-11, atol=1e-12)


def conditional(row, mean, covariance):
    """Return distance, log-determinant, conditional mean and covariance of a row."""
    o, h = np.flatnonzero(~np.isnan(row)), np.flatnonzero(np.isnan(row))
    inverse = np.linalg.inv(covariance[np.ix_(o, o)])
    y = row[o] - mean[o]
    filled, spread = row.copy(), np.zeros_like(covariance)
    slopes = covariance[np.ix_(h, o)] @ inverse
    filled[h] = mean[h] + slopes @ y
    spread[np.ix_(h, h)] = covariance[np.ix_(h, h)] - slopes @ covariance[np.ix_(o, h)]
    return y @ inverse @ y, 0.5 * np.linalg.slogdet(inverse)[1], filled, spread


@pytest.mark.parametrize("K, d", [(1, 2), (3, 5), (7, 4), (8, 4), (11, 3), (8, 36)])
def test_groups_of_rows_with_holes(K, d):
    rng = np.random.default_rng(0)
    X, centre = rng.normal(size=(20, d)), rng.normal(size=d)
    X[rng.random(X.shape) < 0.4] = np.nan
    X[3] = np.nan
    filled_rows = np.flatnonzero(~np.isnan(X).all(axis=1))
    means, roots = rng.normal(size=(K, d)), rng.normal(size=(K, d, d))
    covariances = roots @ np.swapaxes(roots, 1, 2) + np.eye(d)
    R, W, weights = rng.random((20, K)), rng.random((20, K)), rng.random(20)
    found = grouped(X, 100)
    places = found.rows, found.starts
    assert sorted(found.rows) == filled_rows.tolist() and not found.large
    own = centre, np.ascontiguousarray((means - centre).T)
    own += (np.ascontiguousarray(np.moveaxis(covariances, 0, 2)),)
    squares, log_dets = np.zeros((20, K)), np.zeros((20, K))
    groups.group_distances(X, *places, *own, squares, log_dets)
    filled = X.copy()
    groups.group_means(X, R, *places, *own, filled)
    first, second = np.zeros((d, K)), np.zeros((d, d, K))
    groups.group_moments(X, R, W, *places, *own, first, second)
    log_weights = np.log(rng.dirichlet(np.ones(K)))
    sums = np.zeros(K), np.zeros((d, K)), np.zeros((d, d, K))
    total = groups.group_expected(X, weights, *places, log_weights, *own, sums)

    wanted = np.zeros((K, d)), np.zeros((K, d, d))
    value, expected = 0.0, (np.zeros(K), np.zeros((K, d)), np.zeros((K, d, d)))
    for i in filled_rows:
        parts = [
            conditional(X[i], m, c) for m, c in zip(means, covariances, strict=True)
        ]
        np.testing.assert_allclose(squares[i], [p[0] for p in parts], rtol=1e-10)
        np.testing.assert_allclose(log_dets[i], [p[1] for p in parts], rtol=1e-10)
        average = sum(r * p[2] for r, p in zip(R[i], parts, strict=True))
        hole = np.isnan(X[i])
        np.testing.assert_allclose(filled[i, hole], average[hole], rtol=1e-10)
        size = np.log(2 * np.pi) * (~hole).sum()
        joint = log_weights + [p[1] - 0.5 * (p[0] + size) for p in parts]
        likelihood = np.logaddexp.reduce(joint)
        value += weights[i] * likelihood
        shares = weights[i] * np.exp(joint - likelihood)
        expected[0][:] += shares
        for k, (_, _, row, spread) in enumerate(parts):
            z = row - centre
            for (one, two), w, r in (
                (wanted, W[i, k], R[i, k]),
                (expected[1:], shares[k], shares[k]),
            ):
                one[k] += w * z
                two[k] += w * np.outer(z, z) + r * spread
    for one, other in zip((first, second, *sums), (*wanted, *expected), strict=True):
        np.testing.assert_allclose(np.moveaxis(one, -1, 0), other, rtol=1e-9)
    assert total == pytest.approx(value, rel=1e-11)


@pytest.mark.parametrize("name", ["gaussian", "student_t"])
@pytest.mark.parametrize("kind", ["full", "tied", "diag"])
def test_large_and_small_groups_agree(name, kind):
    rng = np.random.default_rng(1)
    X, R = rng.normal(size=(12, 4)), rng.random((12, 2))
    X[rng.random(X.shape) < 0.4] = np.nan
    X = X[~np.isnan(X).all(axis=1)]
    R = R[: len(X)]
    emission = {"gaussian": Gaussian, "student_t": StudentT}[name](kind)
    params = emission.start(X, R)
    many, weights = np.repeat(X, 40, axis=0), np.repeat(R, 40, axis=0)
    for method in ("statistics", "expected"):
        few = getattr(emission, method)(X, R, params)
        found = getattr(emission, method)(many, weights, params)
        found = found / 40 if method == "statistics" else found[::40]
        np.testing.assert_allclose(found, few, rtol=1e-9, atol=1e-9)
    found = emission.log_density(many, params)[::40]
    np.testing.assert_allclose(found, emission.log_density(X, params), rtol=1e-10)


@pytest.mark.parametrize("n", [1, 100, 3000])
@pytest.mark.parametrize("counts", [[1], [3, 2, 5], [4] * 12, [2, 1500, 3, 40, 40]])
def test_log_probabilities_and_weighted_counts(counts, n):
    rng = np.random.default_rng(0)
    widths, K, d = np.array(counts) + 1, 3, len(counts)
    codes = rng.integers(widths, size=(n, d))
    X = np.where(codes < counts, codes, np.nan)
    R, table = rng.random((n, K)), rng.normal(size=(K, d, widths.max()))
    found = np.empty((K, n))
    assert categories.log_probabilities(X, widths, table, found)
    expected = table[:, np.arange(d), codes].sum(axis=2)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
    sums = np.empty((d, widths.max(), K))
    assert categories.weighted_counts(X, widths, R, sums)
    for j in range(d):
        for code in range(widths.max()):
            wanted = R[codes[:, j] == code].sum(axis=0)
            np.testing.assert_allclose(sums[j, code], wanted, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("value", [-1.0, 0.5, 2.0, np.inf, -np.inf, 1e300])
def test_values_that_are_no_codes_are_found(value):
    X = np.zeros((300, 3))
    X[150, 1] = value
    widths, table = np.array([3, 3, 3]), np.zeros((2, 3, 3))
    assert not categories.log_probabilities(X, widths, table, np.empty((2, 300)))
    R, sums = np.ones((300, 2)), np.empty((3, 3, 2))
    assert not categories.weighted_counts(X, widths, R, sums)
    emission = Categorical(2)
    params = emission.start(np.tile([[0.0], [1.0]], (1, 3)), np.ones((2, 2)))
    for call in (
        lambda: emission.log_density(X, params),
        lambda: emission.statistics(X, R, params),
    ):
        with pytest.raises(ValueError, match="column 1 has the code"):
            call()
