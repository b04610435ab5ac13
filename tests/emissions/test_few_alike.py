"""Rows of many columns with few holes, completed by blocks of precisions."""

import time

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from sktem import StochasticEMGaussianMixture, StochasticEMMixture
from sktem.emissions import Gaussian
from sktem.emissions.few_alike import has_few_holes
from sktem.emissions.gaussian import GaussianParams
from sktem.emissions.patterns import grouped


def params_of(means, covariances, centre):
    """Return parameters of Gaussian states."""
    structure = Gaussian().structure(*means.shape)
    factors = structure.precisions_cholesky(covariances)
    return GaussianParams(means, covariances, factors, centre)


def rows_and_params(d=120, n=12, K=2):
    """Return rows with holes, some of them alike, and parameters."""
    rng = np.random.default_rng(0)
    X, centre = rng.normal(size=(n, d)), rng.normal(size=d)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[0], X[2] = rng.normal(size=d), np.nan
    X[5, np.isnan(X[4])] = np.nan
    X[5, ~np.isnan(X[4])] = rng.normal(size=(~np.isnan(X[4])).sum())
    roots = rng.normal(size=(K, d, d))
    covariances = roots @ np.swapaxes(roots, 1, 2) + np.eye(d)
    return X, params_of(rng.normal(size=(K, d)), covariances, centre), rng


def test_closed_forms():
    X, params, rng = rows_and_params()
    n, K = len(X), len(params.means)
    assert has_few_holes(X, grouped(X, 32), params)
    emission, R = Gaussian(), rng.random((n, K))
    logs, sums = np.zeros((n, K)), [np.zeros((K, 120)), np.zeros((K, 120, 120))]
    filled = X.copy()
    for i, row in enumerate(X):
        o, h = np.flatnonzero(~np.isnan(row)), np.flatnonzero(np.isnan(row))
        mean_of_holes = 0.0
        for k, (mean, covariance) in enumerate(
            zip(params.means, params.covariances, strict=True)
        ):
            completed, spread = row.copy(), np.zeros((120, 120))
            inverse = np.linalg.inv(covariance[np.ix_(o, o)])
            slopes = covariance[np.ix_(h, o)] @ inverse
            completed[h] = mean[h] + slopes @ (row[o] - mean[o])
            rest = covariance[np.ix_(h, h)] - slopes @ covariance[np.ix_(o, h)]
            spread[np.ix_(h, h)] = rest
            mean_of_holes = mean_of_holes + R[i, k] * completed[h]
            if len(o):
                normal = multivariate_normal(mean[o], covariance[np.ix_(o, o)])
                logs[i, k] = normal.logpdf(row[o])
                z = completed - params.centre
                sums[0][k] += R[i, k] * z
                sums[1][k] += R[i, k] * (np.outer(z, z) + spread)
        filled[i, h] = mean_of_holes
    np.testing.assert_allclose(emission.log_density(X, params), logs, rtol=1e-9)
    np.testing.assert_allclose(emission.expected(X, R, params), filled, rtol=1e-7)
    mass, first, second = np.split(
        emission.statistics(X, R, params), [K, K + sums[0].size]
    )
    np.testing.assert_allclose(mass, R[~np.isnan(X).all(axis=1)].sum(axis=0))
    np.testing.assert_allclose(first, sums[0].ravel(), rtol=1e-7, atol=1e-9)
    packed = emission.structure(K, 120).pack(sums[1])
    np.testing.assert_allclose(second, packed, rtol=1e-7, atol=1e-8)


def test_precisions_without_digits_are_not_used():
    X, params, _ = rows_and_params()
    covariances = params.covariances.copy()
    covariances[:, 1] = covariances[:, 0]
    covariances[:, :, 1] = covariances[:, :, 0]
    covariances[:, 1, 1] *= 1 + 1e-13
    copied = params_of(params.means, covariances, params.centre)
    assert not has_few_holes(X, grouped(X, 32), copied)


@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
@pytest.mark.parametrize("kind", ["full", "tied"])
def test_both_mixtures_agree(kind):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 120)) + 3.0 * np.repeat([[0.0], [1.0]], 75, axis=0)
    X[rng.random(X.shape) < 0.05] = np.nan
    start = np.repeat(np.eye(2), 75, axis=0)
    options = {"init_params": lambda *_: start, "max_iter": 3, "tol": 0}
    one = StochasticEMGaussianMixture(2, covariance_type=kind, **options).fit(X)
    emission = Gaussian(kind, reg_covar=one.reg_covar)
    other = StochasticEMMixture(2, emission=emission, **options).fit(X)
    np.testing.assert_allclose(one.means_, other.params_.means, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(one.score(X), other.score(X), rtol=1e-8)


@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
def test_time_of_wide_tables():
    """The time of a pass is not that of a factorisation for each row."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 200))
    X[rng.random(X.shape) < 0.1] = np.nan
    emission, R = Gaussian(), np.ones((200, 1))
    params = emission.start(X, R)
    begin = time.process_time()
    emission.statistics(X, R, params)
    taken, begin = time.process_time() - begin, time.process_time()
    for _ in range(200):
        np.linalg.inv(params.covariances[0])
    assert taken < 0.5 * (time.process_time() - begin)
