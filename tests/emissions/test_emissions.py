"""Each emission against densities of SciPy, brute force, and its own contract."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, stats

from sktem import emissions
from sktem.emissions.covariances import COVARIANCES

K, D, N = 3, 3, 60
GAUSSIANS = [emissions.Gaussian(kind) for kind in sorted(COVARIANCES)]
OTHERS = [
    emissions.Bernoulli(),
    emissions.Categorical(),
    emissions.Poisson(),
    emissions.NegativeBinomial(),
    emissions.Multinomial(),
    emissions.Exponential(),
    emissions.Gamma(),
    emissions.LogNormal("diag", reg_covar=0.0),
    emissions.LogNormal("full", reg_covar=0.0),
    emissions.VonMises(),
    emissions.VonMisesFisher(),
    emissions.StudentT("full", reg_covar=0.0),
    emissions.StudentT("diag", reg_covar=0.0),
    emissions.StudentT("tied", reg_covar=0.0, degrees_of_freedom=4.0),
    emissions.FactorAnalyser(1, reg_covar=0.0),
    emissions.Columns(
        [
            ("g", emissions.Gaussian(reg_covar=0.0), [2, 0]),
            ("c", emissions.Poisson(), [1]),
        ]
    ),
]
ALL = [*GAUSSIANS, *OTHERS]
POSITIVE = (emissions.Exponential, emissions.Gamma, emissions.LogNormal)


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
    if isinstance(emission, emissions.NegativeBinomial):
        return rng.negative_binomial(1.5, [0.5, 0.2, 0.1], size=(n, D)).astype(float)
    if isinstance(emission, POSITIVE):
        return rng.gamma([1.0, 2.0, 3.0], size=(n, D))
    if isinstance(emission, emissions.VonMises):
        return rng.vonmises([0.0, 3.0, -2.0], 2.0, size=(n, D))
    if isinstance(emission, emissions.VonMisesFisher):
        X = rng.normal(size=(n, D)) + [1.0, 0.5, 0.0]
        return X / np.linalg.norm(X, axis=1, keepdims=True)
    if isinstance(emission, emissions.StudentT):
        return rng.standard_t(3.0, size=(n, D)) @ rng.normal(size=(D, D))
    if isinstance(emission, emissions.Columns):
        X = rng.normal(size=(n, D)) @ rng.normal(size=(D, D))
        X[:, 1] = rng.poisson(3.0, size=n)
        return X
    if isinstance(emission, (emissions.Poisson, emissions.Multinomial)):
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


def column_density(emission, params, k, j, x):
    """Return the log-density of one column in a state, by SciPy."""
    p = [part[k, j] for part in params if np.ndim(part) == 2]
    return {
        "Bernoulli": lambda: stats.bernoulli.logpmf(x, p[0]),
        "Categorical": lambda: np.log(params.probabilities[k, j, int(x)]),
        "Poisson": lambda: stats.poisson.logpmf(x, p[0]),
        "NegativeBinomial": lambda: stats.nbinom.logpmf(x, p[1], p[1] / (p[0] + p[1])),
        "Exponential": lambda: stats.expon.logpdf(x, scale=p[0]),
        "Gamma": lambda: stats.gamma.logpdf(x, p[0], scale=p[1]),
        "VonMises": lambda: stats.vonmises.logpdf(x, p[1], loc=p[0]),
    }[type(emission).__name__]()


def joint_density(emission, params, k, row):
    """Return the log-density of what is observed of a row, by SciPy."""
    seen = np.flatnonzero(~np.isnan(row))
    if not len(seen):
        return 0.0
    x = row[seen]
    if isinstance(emission, emissions.Columns):
        return sum(
            joint_density(one, block, k, row[columns])
            for (_, one, _), columns, block in zip(
                emission.emissions, params.columns, params.blocks, strict=True
            )
        )
    if isinstance(emission, emissions.Multinomial):
        p = params.probabilities[k, seen]
        return stats.multinomial.logpmf(x, x.sum(), p / p.sum())
    if isinstance(emission, emissions.VonMisesFisher):
        mean, c = params.directions[k], params.concentrations[k]
        whole = stats.vonmises_fisher(mean, c)
        if len(seen) == D:
            return whole.logpdf(x)
        rest = np.sqrt(1 - (x**2).sum())
        hidden = np.flatnonzero(np.isnan(row))
        if len(hidden) == 1:
            ends = np.tile(row, (2, 1))
            ends[:, hidden[0]] = rest, -rest
            return np.log(np.exp(whole.logpdf(ends)).sum() / rest)
        angles = 2 * np.pi * np.arange(200) / 200
        circle = np.tile(row, (200, 1))
        circle[:, hidden] = rest * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return np.log(2 * np.pi * np.exp(whole.logpdf(circle)).mean())
    if not hasattr(params, "means") or isinstance(emission, emissions.NegativeBinomial):
        return sum(column_density(emission, params, k, j, row[j]) for j in seen)
    if isinstance(emission, emissions.FactorAnalyser):
        W = params.loadings[k]
        full = W @ W.T + np.diag(params.noise_variances[k])
    else:
        structure = COVARIANCES[emission.covariance_type](*params.means.shape)
        full = structure.full(params.covariances)[k]
    where = (params.means[k, seen], full[np.ix_(seen, seen)])
    if isinstance(emission, emissions.StudentT):
        df = params.degrees_of_freedom[k]
        return stats.multivariate_t.logpdf(x, *where, df=df)
    if isinstance(emission, emissions.LogNormal):
        return stats.multivariate_normal.logpdf(np.log(x), *where) - np.log(x).sum()
    return stats.multivariate_normal.logpdf(x, *where)


def expected_density(emission, X, params):
    """Return log-densities of what has been observed, row by row."""
    return np.array(
        [[joint_density(emission, params, k, row) for k in range(K)] for row in X]
    )


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


def observed_likelihood(emission, X, R, params):
    return float((R * emission.log_density(X, params)).sum())


@each
def test_a_state_without_data_keeps_its_parameters(emission):
    X, R, params = problem(emission, seed=4)
    R[:, 1] = 0.0
    after = emission.maximize(emission.statistics(X, R, params), params)
    blocks = len(getattr(emission, "emissions", [0]))
    assert emission.degeneracies(after) == blocks
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
    R = np.eye(K)[states]
    fitted = emission.maximize(emission.statistics(X, R, params), params)
    n = emission.n_parameters(K, D, params)
    gain = 2 * (
        observed_likelihood(emission, X, R, fitted)
        - observed_likelihood(emission, X, R, params)
    )
    # Wilks: twice the gain is chi-square with the number of free parameters.
    assert stats.chi2(n).ppf(1e-5) * 0.5 < gain < stats.chi2(n).ppf(1 - 1e-5) + 0.5


@each
def test_check_emission_agrees(emission):
    X, _, _ = problem(emission, seed=7)
    done = emissions.check_emission(emission, X)
    assert done[-1] == "n_parameters" and len(done) == 10


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


def test_totals_to_draw_are_those_of_the_rows():
    """Rows of which nothing is observed have none, and weights are repetition."""
    X = np.array([[4.0, 6.0], [np.nan, np.nan], [2.0, 0.0], [np.nan, np.nan]])
    weights = np.array([[3.0], [1.0], [1.0], [2.0]])
    assert emissions.Multinomial().start(X, weights).n_trials == 8
    assert emissions.Multinomial(5).start(X, weights).n_trials == 5


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


def test_categories_that_a_state_cannot_have():
    """They keep the probability 0, and the prior is of the others."""
    emission = emissions.Categorical(3, smoothing=0.2)
    X, p = np.array([[0.0], [1.0], [1.0], [2.0]]), np.array([[0.5, 0.5, 0.0]] * 2)
    p[1] = 1 / 3
    params = emission.start(X, np.ones((4, 2)))._replace(probabilities=p[:, None])
    with np.errstate(all="raise"):
        values = emission.log_density(X, params)
    np.testing.assert_allclose(values[:, 0], [np.log(0.5)] * 3 + [-np.inf])
    R = np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [0.0, 1.0]])
    found = emission.maximize(emission.statistics(X, R, params), params)
    prior, masses = 0.2 * 4, np.array([1.5, 2.5])
    priors = [[prior / 2, prior / 2, 0], [prior / 3] * 3]
    expected = np.add([[0.5, 1, 0], [0.5, 1, 1]], priors) / (masses + prior)[:, None]
    np.testing.assert_allclose(found.probabilities[:, 0], expected, rtol=1e-12)
    assert emission.n_parameters(2, 1, found) == 3
    assert np.isfinite(emission.penalty(found))


@pytest.mark.parametrize("name", ["NegativeBinomial", "Gamma", "VonMises"])
def test_m_step_by_numerical_maximisation(name):
    emission = getattr(emissions, name)()
    X, R, params = problem(emission, seed=8)
    for _ in range(50):
        params = emission.maximize(emission.statistics(X, R, params), params)

    def loss(theta):
        first = theta[0] if name == "VonMises" else np.exp(theta[0])
        pair = (np.full((K, D), value) for value in (first, np.exp(theta[1])))
        own = type(params)(*pair)
        return -float(R[:, 0] @ column_density(emission, own, 0, 0, X[:, 0]))

    first = params[0][0, 0] if name == "VonMises" else np.log(params[0][0, 0])
    begin = np.array([first, np.log(params[1][0, 0])])
    best = optimize.minimize(
        loss, begin + 0.3, method="Nelder-Mead", options={"fatol": 1e-10}
    )
    assert loss(begin) <= best.fun + 1e-7
    assert_allclose(begin, best.x, atol=1e-3)


def test_student_t_by_numerical_maximisation():
    emission = emissions.StudentT("diag", reg_covar=0.0)
    rng = np.random.default_rng(0)
    X, R = rng.standard_t(2.5, size=(300, 1)), np.ones((300, 1))
    params = emission.start(X, R)
    for _ in range(2000):
        params = emission.maximize(emission.statistics(X, R, params), params)
    best = optimize.minimize(
        lambda t: -stats.t.logpdf(X, np.exp(t[0]), t[1], np.exp(t[2])).sum(),
        [1.0, 0.0, 0.0],
    )
    found = [
        np.log(params.degrees_of_freedom[0]),
        params.means[0, 0],
        np.log(params.covariances[0, 0]) / 2,
    ]
    assert_allclose(found, best.x, atol=1e-4)


def test_counts_that_vary_less_than_poisson_have_no_size():
    X = np.tile([2.0, 3.0, 3.0, 4.0], 20)[:, None]
    emission, R = emissions.NegativeBinomial(), np.ones((80, 1))
    params = emission.start(X, R)
    for _ in range(20):
        params = emission.maximize(emission.statistics(X, R, params), params)
    assert params.sizes[0, 0] > 1e6
    poisson = emissions.Poisson().start(X, R)
    assert_allclose(
        emission.log_density(X, params),
        emissions.Poisson().log_density(X, poisson),
        rtol=1e-5,
    )


@pytest.mark.parametrize(
    "emission",
    [
        emissions.Gaussian("full"),
        emissions.StudentT("full", degrees_of_freedom=5.0),
        emissions.FactorAnalyser(1),
        emissions.LogNormal("full"),
        emissions.VonMisesFisher(),
    ],
    ids=name_of,
)
def test_completed_rows_have_the_joint_distribution(emission):
    # Rows with holes punched at random and filled again are rows of the model.
    _, _, params = problem(emission, seed=9)
    rng = np.random.default_rng(1)
    n = 400 if isinstance(emission, emissions.VonMisesFisher) else 4000
    states = np.zeros(n, dtype=int)
    X = emission.sample(params, states, rng)
    holes = X.copy()
    holes[np.arange(n), rng.integers(D, size=n)] = np.nan
    holes[::3, 0] = np.nan
    filled = emission.draw(holes, states, params, rng)
    R = np.eye(K)[states]
    gain = 0.0
    for rows in (X, filled):
        own = params
        for _ in range(30):
            own = emission.maximize(emission.statistics(rows, R, own), own)
        gain = 2 * float(
            (emission.log_density(rows, own) - emission.log_density(rows, params))[
                :, 0
            ].sum()
        )
        assert gain < stats.chi2(emission.n_parameters(1, D)).ppf(1 - 1e-5)
    means = emission.expected(holes, R, params)
    draws = np.mean([emission.draw(holes, states, params, rng) for _ in range(40)], 0)
    missing = np.isnan(holes)
    error = (draws - means)[missing]
    spread = (X - means)[missing].std()
    assert abs(error.mean()) < 6 * spread / np.sqrt(40 * missing.sum())
    assert error.std() < 1.5 * spread / np.sqrt(40)


class WithFault(emissions.Poisson):
    """An emission with one fault."""

    def __init__(self, fault="none"):
        self.fault = fault

    def log_density(self, X, params):
        values = super().log_density(X, params)
        return values - 1.0 if self.fault == "log_density" else values

    def statistics(self, X, R, params):
        s = super().statistics(X, R, params)
        return s / s[0] if self.fault == "statistics" else s

    def maximize(self, s, params):
        found = super().maximize(s, params)
        if self.fault != "maximize":
            return found
        return found._replace(rates=found.rates * 1.2)

    def project(self, s, params=None):
        return (
            (s + 1.0, False) if self.fault == "project" else (np.maximum(s, 0), False)
        )

    def marginal(self, params, columns):
        found = super().marginal(params, columns)
        if self.fault != "marginal":
            return found
        return found._replace(rates=found.rates[:, ::-1])

    def sample(self, params, states, rng):
        X = super().sample(params, states, rng)
        return X + 1.0 if self.fault == "sample" else X

    def draw(self, X, states, params, rng):
        return X if self.fault == "draw" else super().draw(X, states, params, rng)

    def mean(self, params):
        if self.fault == "none":  # as of an emission of which none is known
            raise TypeError("no means")
        return params.rates

    def free_directions(self, params, following, X):
        for _ in range(2 if self.fault == "n_parameters" else 1):
            yield from super().free_directions(params, following, X)


@pytest.mark.parametrize(
    "fault",
    [
        "log_density",
        "statistics",
        "maximize",
        "project",
        "marginal",
        "sample",
        "draw",
        "n_parameters",
    ],
)
def test_faults_are_found(fault):
    X = rows_for(emissions.Poisson(), np.random.default_rng(0))
    emissions.check_emission(WithFault(), X)
    with pytest.raises(ValueError, match=f"^{fault} of WithFault"):
        emissions.check_emission(WithFault(fault), X)
