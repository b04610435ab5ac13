"""Markov-switching regressions and autoregressions."""

import warnings

import numpy as np
import pytest
from scipy.stats import norm

from sktem import HiddenMarkovModel
from sktem.emissions import Regression, check_emission
from tests.hidden_markov.peers import at, growth, optimum

RNG = np.random.default_rng(0)
LENGTHS = [150, 1, 100, 149]
N = sum(LENGTHS)


ignored = pytest.mark.filterwarnings("ignore")


def switching():
    """Return an autoregression with a regressor, and its states."""
    rng = np.random.default_rng(1)
    states, x = np.repeat(rng.integers(2, size=N // 25), 25), rng.normal(size=N)
    y = np.zeros(N)
    for t in range(N):
        past = y[t - 1] if t else 0.0
        k = states[t]
        mean = [1.0, -1.0][k] + [0.8, -0.5][k] * past + [2.0, 0.0][k] * x[t]
        y[t] = mean + [0.5, 1.0][k] * rng.normal()
    return np.column_stack([x, y]), states


X, STATES = switching()


@pytest.mark.parametrize("unit", [1e-9, 1e9])
@pytest.mark.parametrize("shared", [[], [0]])
@ignored
def test_units_of_regressors_do_not_matter(unit, shared):
    emission = Regression(order=1, exog=[0], shared=shared)
    hmm = HiddenMarkovModel(2, emission=emission, random_state=0)
    expected = hmm.fit(X, lengths=LENGTHS).score(X, lengths=LENGTHS)
    by_x = hmm.emission_params_.coefficients[:, 0, 1]
    errors = hmm.standard_errors(X, lengths=LENGTHS).emission["coefficients"]
    far = X * [unit, 1.0]
    found = hmm.fit(far, lengths=LENGTHS).score(far, lengths=LENGTHS)
    assert found == pytest.approx(expected, abs=1e-8)
    ours = hmm.emission_params_.coefficients[:, 0, 1]
    np.testing.assert_allclose(ours * unit, by_x, rtol=1e-6)
    again = hmm.standard_errors(far, lengths=LENGTHS).emission["coefficients"]
    np.testing.assert_allclose(again[..., 1] * unit, errors[..., 1], rtol=1e-4)
    hmm.set_params(solver="isaem", max_iter=20).fit(far, lengths=LENGTHS)
    assert hmm.score(far, lengths=LENGTHS) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("shared", [True, False])
def test_contract(shared):
    rows = RNG.normal(size=(60, 3))
    check_emission(Regression(switching_variance=shared, reg_covar=0.0), rows)


@pytest.mark.parametrize("variance", [True, False])
def test_shared_coefficients_are_generalised_least_squares(variance):
    emission = Regression(0, [0], True, variance, shared=[0], reg_covar=0.0)
    R = RNG.dirichlet(np.ones(2), N)
    params = emission.start(X, R)
    assert np.ptp(params.coefficients[:, 0, 1]) < 1e-12
    assert np.ptp(params.coefficients[:, 0, 0]) > 1e-3

    def short(intercepts, slope, variances):
        left = X[:, 1:] - intercepts - slope * X[:, :1]
        return (R * (left**2 / variances + np.log(variances))).sum()

    own, slope = params.coefficients[:, 0, 0], params.coefficients[0, 0, 1]
    best = short(own, slope, params.variances[:, 0])
    for k in range(2):  # no step goes down
        for h in (-1e-4, 1e-4):
            step = h * np.eye(2)[k]
            assert short(own + step, slope, params.variances[:, 0]) > best
            assert short(own, slope + h, params.variances[:, 0]) > best
            if variance:
                assert short(own, slope, params.variances[:, 0] + step) > best


def test_densities_and_least_squares_by_state():
    emission = Regression(order=2, exog=[0], reg_covar=0.0)
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
    holes = X.copy()
    holes[20, 1], holes[40, 0] = np.nan, np.nan
    rows = emission.with_lags(holes, offsets)
    R = np.eye(2)[STATES]
    params = emission.start(rows, R)
    found = emission.log_density(rows, params)
    used = np.ones(N, bool)
    for first in offsets[:-1]:
        used[first : first + 2] = False
    used[[20, 21, 22, 40]] = False
    assert (found[~used] == 0).all()
    at = np.flatnonzero(used)
    Z = np.column_stack([np.ones(len(at)), X[at, 0], X[at - 1, 1], X[at - 2, 1]])
    for k in range(2):
        own = STATES[at] == k
        expected = np.linalg.lstsq(Z[own], X[at[own], 1], rcond=None)[0]
        np.testing.assert_allclose(params.coefficients[k, 0], expected, rtol=1e-8)
        left = X[at, 1] - Z @ expected
        variance = (left[own] ** 2).mean()
        assert params.variances[k, 0] == pytest.approx(variance, rel=1e-8)
        logs = norm.logpdf(left, scale=np.sqrt(variance))
        np.testing.assert_allclose(found[at, k], logs, rtol=1e-8)
    far = holes + [3e5, 1e6]
    far_rows = emission.with_lags(far, offsets)
    moved = emission.start(far_rows, R)
    np.testing.assert_allclose(
        emission.log_density(far_rows, moved), found, rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(
        moved.coefficients[..., 1:], params.coefficients[..., 1:], rtol=1e-6
    )


@pytest.mark.parametrize("solver", ["em", "fittem", "saem", "daarem"])
def test_states_are_found(solver):
    emission = Regression(order=1, exog=[0])
    fit = HiddenMarkovModel(2, emission=emission, solver=solver, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit.set_params(max_iter=50).fit(X, lengths=LENGTHS)
    path = fit.predict(X, lengths=LENGTHS)
    same = (path == STATES).mean()
    assert max(same, 1 - same) > 0.97
    one = fit.emission_params_.coefficients[:, 0, 2].argmax()
    np.testing.assert_allclose(
        fit.emission_params_.coefficients[one, 0], [1.0, 2.0, 0.8], atol=0.2
    )
    assert fit.n_features_in_ == 2 and np.isfinite(fit.bic(X, lengths=LENGTHS))
    with pytest.raises(ValueError, match="exog have no distribution.*n_draws=0"):
        fit.forecast(X, lengths=LENGTHS)
    found = fit.forecast(X, lengths=LENGTHS, n_draws=0)
    assert found.probabilities.shape == (len(LENGTHS), 1, 2)
    assert found.draws.shape == (0, len(LENGTHS), 1, 2)
    with pytest.raises(TypeError, match=r"does not fill holes where .*order=1"):
        fit.impute(X, lengths=LENGTHS)


def test_responses_are_filled_given_regressors():
    """Means are those of the regressions, by the probabilities of the states."""
    rng, n = np.random.default_rng(0), 300
    states, x = np.arange(n) // 30 % 2, rng.normal(3.0, size=n)
    y = np.where(states, 2.0, -1.0) * x + 0.1 * rng.normal(size=n)
    rows, lost = np.column_stack([x, y]), np.arange(7, n, 9)
    rows[lost, 1] = np.nan
    fit = HiddenMarkovModel(2, emission=Regression(exog=[0]), random_state=0).fit(rows)
    filled = fit.impute(rows)
    assert np.abs(filled[lost, 1] - y[lost]).max() < 0.5
    observed = ~np.isnan(rows)
    np.testing.assert_array_equal(filled[observed], rows[observed])
    coefficients = fit.emission_params_.coefficients[:, 0]
    means = coefficients[:, 0] + np.outer(x, coefficients[:, 1])
    expected = (fit.predict_proba(rows) * means).sum(axis=1)[lost]
    np.testing.assert_allclose(filled[lost, 1], expected)
    mode = fit.impute(rows, method="mode")[lost, 1]
    likeliest = fit.predict(rows, method="marginal")[lost]
    np.testing.assert_allclose(mode, means[lost, likeliest])
    draws = [fit.set_params(random_state=k).impute(rows, method="draw")[lost, 1]
             for k in range(200)]  # fmt: skip
    error = np.std(draws, axis=0) / np.sqrt(200)
    assert (np.abs(np.mean(draws, axis=0) - expected) < 5 * error + 1e-12).all()
    rows[3, 0] = np.nan
    with pytest.raises(ValueError, match="column 0, of exog, is NaN in row 3"):
        fit.impute(rows)


@ignored
@pytest.mark.parametrize("order", [0, 1])
def test_forecasts_given_future_regressors(order):
    """Draws have the mean and variance of the recursion, and the regressors given."""
    rng, a, b, c, steps = np.random.default_rng(0), 0.7 * order, 0.3, 2.0, 3
    rows = np.column_stack([rng.normal(size=40), np.append(np.zeros(39), 5.0)])
    slopes = [b, c, a][: 2 + order]
    given = {"coefficients": np.array([[slopes]]), "variances": np.ones((1, 1))}
    emission = Regression(order=order, exog=[0])
    fit = at(emission, [1.0], [[1.0]], given, rows)
    future = rng.normal(size=(1, steps, 1))
    draws = fit.forecast(rows, steps, n_draws=4000, future_exog=future).draws[:, 0]
    np.testing.assert_array_equal(draws[7, :, 0], future[0, :, 0])
    mean, variance = 5.0, 0.0
    for k in range(steps):
        mean = b + c * future[0, k, 0] + a * mean
        variance = 1.0 + a**2 * variance
        assert abs(draws[:, k, 1].mean() - mean) < 5 * np.sqrt(variance / 4000)
        assert abs(draws[:, k, 1].var() / variance - 1) < 5 * np.sqrt(2 / 4000)
    same = fit.forecast(rows, steps, n_draws=9, future_exog=future[0, :, 0]).draws
    np.testing.assert_array_equal(same[..., 0], np.tile(future[..., 0], (9, 1, 1)))
    with pytest.raises(ValueError, match=r"future_exog must have the shape \(3, 1\)"):
        fit.forecast(rows, steps, future_exog=np.zeros((2, 1)))
    with pytest.raises(ValueError, match="future_exog contains NaN"):
        fit.forecast(rows, steps, future_exog=np.full(3, np.nan))
    plain = HiddenMarkovModel(1).fit(rows)
    with pytest.raises(ValueError, match="is of a Regression with exog"):
        plain.forecast(rows, future_exog=[[1.0]])


@ignored
def test_forecasts_follow_the_last_rows():
    """Draws of an autoregression with one state have its mean and variance."""
    a, b, steps = 0.7, 0.3, 4
    y = np.full((50, 1), 5.0)
    given = {"coefficients": np.array([[[b, a]]]), "variances": np.ones((1, 1))}
    fit = at(Regression(order=1), [1.0], [[1.0]], given, y)
    draws = fit.forecast(y, steps, n_draws=4000).draws[:, 0, :, 0]
    mean, variance = 5.0, 0.0
    for k in range(steps):
        mean, variance = b + a * mean, 1.0 + a**2 * variance
        error = np.sqrt(variance / 4000)
        assert abs(draws[:, k].mean() - mean) < 5 * error
        assert abs(draws[:, k].var() / variance - 1) < 5 * np.sqrt(2 / 4000)
    rows, _ = fit.sample(3000)
    lagged = np.corrcoef(rows[:-1, 0], rows[1:, 0])[0, 1]
    assert abs(lagged - a) < 5 * np.sqrt((1 - a**2) / 3000)


PEERS = ["switching mean", "switching regression", "switching variance", "lags",
         "shared slope"]  # fmt: skip


@pytest.mark.parametrize("name", PEERS)
@ignored
def test_statsmodels(name):
    """The likelihood at its optimum is ours, and our optimum is not below."""
    api = pytest.importorskip("statsmodels.api")
    macro = api.datasets.macrodata.load_pandas().data
    funds = macro["tbilrate"].to_numpy()
    returns = macro["infl"].to_numpy()
    regression, autoregression = api.tsa.MarkovRegression, api.tsa.MarkovAutoregression
    emission = Regression(exog=[1], switching_variance=False, reg_covar=0.0)
    if name == "switching mean":
        emission.set_params(exog=[])
        rows, peer = funds[:, None], regression(funds, 2)
    elif name == "switching regression":
        rows = np.column_stack([funds[1:], funds[:-1]])
        peer = regression(rows[:, 0], 2, exog=rows[:, 1])
    elif name == "switching variance":
        emission.set_params(switching_variance=True)
        rows = np.column_stack([returns[1:], returns[:-1]])
        peer = regression(rows[:, 0], 2, exog=rows[:, 1], switching_variance=True)
    elif name == "shared slope":
        emission.set_params(switching_variance=True, shared=[1])
        rows = np.column_stack([returns[1:], returns[:-1]])
        options = {"switching_variance": True, "switching_exog": False}
        peer = regression(rows[:, 0], 2, exog=rows[:, 1], **options)
    else:
        emission.set_params(exog=[], order=2, fit_intercept=False)
        rows = growth()[:, None]
        peer = autoregression(rows[:, 0], 2, order=2, trend="n", switching_ar=True)
    found, values, start, transitions = optimum(peer)
    if name == "shared slope":  # which statsmodels names after one of the states
        values["x1[0]"] = values["x1[1]"]
    names = ["const", "x1", "ar.L1", "ar.L2"]
    coefficients = [
        [[values[f"{one}[{k}]"] for one in names if f"{one}[{k}]" in values]]
        for k in range(2)
    ]
    variances = [[values.get(f"sigma2[{k}]", values.get("sigma2"))] for k in range(2)]
    params = {"coefficients": coefficients, "variances": variances}
    there = at(emission, start, transitions, params, rows)
    value = there.score_samples(rows)[0]
    assert value == pytest.approx(found.llf, abs=1e-6)
    ours = HiddenMarkovModel(2, emission=emission, random_state=0).fit(rows)
    assert ours.score_samples(rows)[0] > found.llf - 1e-6
