"""Each emission against densities of SciPy, brute force, and its own contract."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from sktem import emissions
from sktem.emissions.covariances import COVARIANCES

K, D, N = 3, 3, 60
GAUSSIANS = [emissions.Gaussian(kind) for kind in sorted(COVARIANCES)]
OTHERS = [emissions.Bernoulli(), emissions.Categorical(), emissions.Poisson()]
ALL = [*GAUSSIANS, *OTHERS]


def name_of(emission):
    return f"{type(emission).__name__}-{getattr(emission, 'covariance_type', '')}"


each = pytest.mark.parametrize("emission", ALL, ids=name_of)


def rows_for(emission, rng, n=N):
    if isinstance(emission, emissions.Bernoulli):
        return (rng.random((n, D)) < 0.4).astype(float)
    if isinstance(emission, emissions.Categorical):
        X = rng.integers(0, [2, 3, 4], size=(n, D)).astype(float)
        X[:4] = np.minimum(np.arange(4)[:, None], [1, 2, 3])
        return X
    if isinstance(emission, emissions.Poisson):
        return rng.poisson([1.0, 4.0, 9.0], size=(n, D)).astype(float)
    return rng.normal(size=(n, D)) @ rng.normal(size=(D, D)) + rng.normal(size=D)


def problem(emission, seed=0, holes=0.0):
    rng = np.random.default_rng(seed)
    X = rows_for(emission, rng)
    R = rng.dirichlet(np.ones(K), size=N)
    params = emission.start(X, R)
    if holes:
        X[rng.random(X.shape) < holes] = np.nan
    return X, R, params


def column_density(emission, params, k, j, values):
    """Return the log-density of one column in a state, by SciPy."""
    if isinstance(emission, emissions.Bernoulli):
        return stats.bernoulli.logpmf(values, params.probabilities[k, j])
    if isinstance(emission, emissions.Categorical):
        return np.log(params.probabilities[k, j, values.astype(int)])
    return stats.poisson.logpmf(values, params.rates[k, j])


def expected_density(emission, X, params):
    """Return log-densities of what has been observed, row by row."""
    result = np.zeros((len(X), K))
    for i, row in enumerate(X):
        seen = np.flatnonzero(~np.isnan(row))
        for k in range(K):
            if isinstance(emission, emissions.Gaussian):
                full = emission.structure(K, D).full(params.covariances)[k]
                if len(seen):
                    result[i, k] = stats.multivariate_normal.logpdf(
                        row[seen], params.means[k, seen], full[np.ix_(seen, seen)]
                    )
            else:
                for j in seen:
                    result[i, k] += column_density(emission, params, k, j, row[j])
    return result


@each
@pytest.mark.parametrize("holes", [0.0, 0.4])
def test_density(emission, holes):
    X, _, params = problem(emission, holes=holes)
    assert np.isnan(X).any() == bool(holes)
    assert_allclose(
        emission.log_density(X, params),
        expected_density(emission, X, params),
        rtol=1e-10,
        atol=1e-10,
    )


@each
def test_marginal_is_the_density_of_some_columns(emission):
    X, _, params = problem(emission, seed=1)
    columns = np.array([2, 0])
    holes = X.copy()
    holes[:, 1] = np.nan
    found = emission.log_density(X[:, columns], emission.marginal(params, columns))
    assert_allclose(found, emission.log_density(holes, params), rtol=1e-10)


@each
@pytest.mark.parametrize("holes", [0.0, 0.4])
def test_statistics_are_sums_linear_in_the_weights(emission, holes):
    X, R, params = problem(emission, seed=2, holes=holes)
    s = emission.statistics(X, R, params)
    assert s.ndim == 1 and s.dtype == np.float64
    parts = [emission.statistics(X[i::2], R[i::2], params) for i in range(2)]
    assert_allclose(sum(parts), s, rtol=1e-10, atol=1e-10)
    assert_allclose(emission.statistics(X, 3 * R, params), 3 * s, rtol=1e-10)
    one, other = (
        emission.maximize(c * s, params)._replace(degenerate=0) for c in (1.0, 0.01)
    )
    for a, b in zip(one, other, strict=True):
        assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    same, left = emission.project(s, params)
    assert not left and same is s


@each
def test_rows_of_which_nothing_is_observed_count_for_nothing(emission):
    X, R, params = problem(emission, holes=0.3)
    more = np.vstack([X, np.full((5, D), np.nan)])
    shares = np.vstack([R, R[:5]])
    assert_allclose(emission.log_density(more, params)[-5:], 0.0)
    assert_allclose(
        emission.statistics(more, shares, params),
        emission.statistics(X, R, params),
        rtol=1e-12,
        atol=1e-12,
    )


def observed_likelihood(emission, X, R, params):
    return float((R * emission.log_density(X, params)).sum())


@each
@pytest.mark.parametrize("holes", [0.0, 0.4])
def test_the_likelihood_rises_to_a_maximum(emission, holes):
    X, R, params = problem(emission, seed=3, holes=holes)
    if getattr(emission, "reg_covar", 0):
        emission = emissions.Gaussian(emission.covariance_type, reg_covar=0.0)
    params = emission.start(X, R)
    values = [observed_likelihood(emission, X, R, params)]
    for _ in range(2000):
        params = emission.maximize(emission.statistics(X, R, params), params)
        values.append(observed_likelihood(emission, X, R, params))
        if values[-1] - values[-2] < 1e-11:
            break
    assert (np.diff(values) > -1e-9 * abs(values[0])).all()
    # No parameters of data with slightly other weights are better; others are worse.
    rng = np.random.default_rng(0)
    for _ in range(10):
        noise = np.exp(0.02 * rng.normal(size=R.shape))
        other = emission.maximize(emission.statistics(X, R * noise, params), params)
        assert observed_likelihood(emission, X, R, other) <= values[-1] + 1e-8
        far = emission.maximize(emission.statistics(X, R * noise**40, params), params)
        assert observed_likelihood(emission, X, R, far) < values[-1] - 1e-4


@each
def test_a_state_without_data_keeps_its_parameters(emission):
    X, R, params = problem(emission, seed=4)
    R[:, 1] = 0.0
    after = emission.maximize(emission.statistics(X, R, params), params)
    assert emission.degeneracies(after) == 1
    if getattr(emission, "covariance_type", "") == "tied":
        after = after._replace(covariances=params.covariances)
    before_density = emission.log_density(X, params)[:, 1]
    if getattr(emission, "covariance_type", "") != "tied":
        assert_allclose(emission.log_density(X, after)[:, 1], before_density, rtol=1e-9)
    started = emission.start(X, R)
    assert np.isfinite(emission.log_density(X, started)).all()


@each
def test_samples_have_the_density(emission, global_random_seed):
    _, _, params = problem(emission, seed=5)
    rng = np.random.default_rng(global_random_seed)
    states = np.repeat(np.arange(K), 4000)
    X = emission.sample(params, states, rng)
    assert X.shape == (len(states), D)
    emission.check(X)
    for k in range(K):
        own = X[states == k]
        other = (own.mean(axis=0), own.var(axis=0))
        again = emission.sample(params, np.full(4000, k), rng)
        error = np.sqrt(2 * own.var(axis=0) / 4000) + 1e-9
        assert (abs(other[0] - again.mean(axis=0)) < 5 * error).all()
    R = np.eye(K)[states]
    fitted = emission.maximize(emission.statistics(X, R, params), params)
    n = emission.n_parameters(K, D, params)
    gain = 2 * (
        observed_likelihood(emission, X, R, fitted)
        - observed_likelihood(emission, X, R, params)
    )
    # Wilks: twice the gain is chi-square with the number of free parameters.
    assert stats.chi2(n).ppf(1e-5) * 0.5 < gain < stats.chi2(n).ppf(1 - 1e-5) + 0.5


@pytest.mark.parametrize("emission", [*GAUSSIANS], ids=name_of)
def test_offsets_cost_no_digits(emission):
    X, R, _ = problem(emission, seed=6, holes=0.3)
    near, far = emission.start(X, R), emission.start(X + 1e6, R)
    assert_allclose(far.means - 1e6, near.means, atol=1e-8)
    assert_allclose(far.covariances, near.covariances, rtol=1e-7, atol=1e-8)


def test_negative_masses_are_projected():
    for emission in (emissions.Gaussian("full"), emissions.Bernoulli()):
        X, R, params = problem(emission)
        s = emission.statistics(X, R, params)
        s[0] = -1.0
        inside, left = emission.project(s, params)
        assert left and not emission.project(inside, params)[1]
        assert np.isfinite(emission.maximize(inside, params)[0]).all()


@pytest.mark.parametrize(
    "emission, value",
    [
        (emissions.Bernoulli(), 2.0),
        (emissions.Poisson(), -1.0),
        (emissions.Poisson(), 0.5),
        (emissions.Categorical(), 0.5),
    ],
)
def test_values_that_cannot_be(emission, value):
    with pytest.raises(ValueError, match="column 1 has"):
        emission.check(np.array([[0.0, value], [np.nan, 1.0]]))


def test_unknown_category():
    X, _, params = problem(emissions.Categorical())
    X[7, 0] = 3.0
    with pytest.raises(ValueError, match="column 0 has the code 3"):
        emissions.Categorical().log_density(X, params)


@pytest.mark.parametrize("emission", [emissions.Bernoulli, emissions.Categorical])
def test_smoothing_is_the_penalty(emission):
    one = emission(smoothing=0.2)
    X, R, params = problem(one)
    s = one.statistics(X, R, params) / len(X)

    def objective(params):
        own = params._replace(prior_mass=best.prior_mass)
        value = observed_likelihood(one, X, R, params) / len(X)
        return value - one.penalty(own)

    best = one.maximize(s, params)
    rng = np.random.default_rng(0)
    for _ in range(20):
        noise = np.exp(0.05 * rng.normal(size=R.shape))
        near = one.maximize(one.statistics(X, R * noise, params) / len(X), params)
        assert objective(near) < objective(best)
    plain = emission().maximize(s, params)
    assert objective(plain) < objective(best) - 1e-4
