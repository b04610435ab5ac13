"""Autoregressions about means of the states, those of the rows before included."""

import pickle
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

from sktem import HiddenMarkovModel
from sktem.emissions import Autoregression, AutoregressionParams, Regression
from tests.hidden_markov.peers import at, growth, optimum


def given(K, m, order, rng, q=0):
    """Return parameters as a start, and the same for the estimator."""
    params = {
        "means": rng.normal(size=(K, m)),
        "coefficients": 0.4 * rng.normal(size=(K, m, order)),
        "variances": rng.uniform(0.5, 2.0, (K, m)),
        "exog_coefficients": rng.normal(size=(K, m, q)),
    }
    start, transitions = rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), K)
    return start, transitions, params


def enumerated(y, start, transitions, params, order, x):
    """Return the probability of the rows with each path of states."""
    means, a, variances, by_exog = params.values()
    paths = {}
    for path in product(range(len(start)), repeat=len(y)):
        p = start[path[0]] * np.prod(transitions[path[:-1], path[1:]])
        for t in range(order, len(y)):
            level = [means[k] + by_exog[k] @ x[s] for s, k in enumerate(path)]
            apart = [y[t - i] - level[t - i] for i in range(1, order + 1)]
            mean = level[t] + (a[path[t]] * np.transpose(apart)).sum(axis=1)
            densities = norm.pdf(y[t], mean, np.sqrt(variances[path[t]]))
            p *= np.where(np.isnan(densities), 1.0, densities).prod()
        paths[path] = p
    return paths


@pytest.mark.parametrize(
    "K, m, order, q",
    [(2, 1, 1, 0), (2, 2, 2, 0), (3, 1, 1, 0), (2, 2, 2, 1), (3, 1, 1, 2)],
)
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_all_paths(K, m, order, q, holes, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    lengths, X = [6, 1, 5], rng.normal(size=(12, q + m))
    X[:, :q] += 1.0
    if holes:
        X[2, 0] = np.nan
    start, transitions, params = given(K, m, order, rng, q)
    emission = Autoregression(order, exog=range(q))
    hmm = at(emission, start, transitions, params, X, lengths)
    smooth, states = hmm.smooth(X, lengths=lengths), hmm.predict(X, lengths=lengths)
    filtered = hmm.filter(X, lengths=lengths)
    scores = hmm.score_samples(X, lengths=lengths)
    fitted, rows = hmm._asked(X, None, lengths)
    counts = np.zeros((K, K))
    for number, first in enumerate([0, 6, 7]):
        y, x = np.split(X[first : first + lengths[number]], [q], axis=1)[::-1]
        paths = enumerated(y, start, transitions, params, order, x)
        total = sum(paths.values())
        assert scores[number] == pytest.approx(np.log(total), abs=1e-10)
        gamma = np.zeros((len(y), K))
        for path, p in paths.items():
            gamma[np.arange(len(y)), path] += p / total
            np.add.at(counts, (path[:-1], path[1:]), p / total)
        place = slice(first, first + len(y))
        np.testing.assert_allclose(smooth[place], gamma, atol=1e-10)
        # What is filtered at the last row is what is smoothed there.
        np.testing.assert_allclose(filtered[place][-1], gamma[-1], atol=1e-10)
        best = max(paths.values())
        assert paths[tuple(states[place])] == pytest.approx(best, rel=1e-10)
    s, _ = fitted.model.expected_statistics(rows, fitted.params)
    visits = fitted.model.posterior(rows, fitted.params)
    np.testing.assert_allclose(
        s, fitted.model.mean_statistics(rows, visits), atol=1e-12
    )
    found = s[K : K + K * K].reshape(K, K) * 3  # a sequence
    np.testing.assert_allclose(found, counts, atol=1e-10)


def assert_maximum(emission, X, R, before, params, count):
    """Return the maximum, compared with that of a general minimiser.

    An M-step ends where it gains little more. None loses, and they come to the maximum.
    What is added to variances is a squared error more of each row.
    """
    mass = R[~np.isnan(X).any(axis=1)].sum(axis=0)
    first = emission.histories(len(before.means))[:, 0]

    def short(params):
        added = emission.reg_covar * (mass / params.variances[first, 0]).sum() / 2
        return added - (R * emission.log_density(X, params)).sum()

    s, found = emission.statistics(X, R, before), before
    for _ in range(100):
        found, last = emission.maximize(s, found), found
        assert short(found) <= short(last) + 1e-9 * abs(short(last))

    best = minimize(
        lambda x: short(params(x)), np.full(count, 0.1), method="BFGS",
        options={"gtol": 1e-9},
    )  # fmt: skip
    assert short(found) == pytest.approx(best.fun, rel=1e-9)
    assert short(found) < short(before) - 1
    for name in ("means", "coefficients", "variances", "exog_coefficients"):
        left, right = (getattr(one, name) for one in (found, params(best.x)))
        np.testing.assert_allclose(left, right, atol=2e-4)
    return found


@pytest.mark.parametrize("shared", [(), (2,)])
def test_the_m_step_maximizes_with_exog(shared):
    rng = np.random.default_rng(0)
    emission = Autoregression(1, reg_covar=0.0, exog=[0, 2], shared=shared)
    rows = rng.normal(size=(80, 3)) * [10.0, 1.0, 0.1] + [0.0, 0.0, 3.0]
    X = emission.with_lags(rows, np.array([0, 80]))
    R = rng.dirichlet(np.ones(4), 80)
    before = emission.start(X, rng.dirichlet(np.ones(2), 80))

    def params(x):
        by_exog = np.reshape(x[4:8], (2, 1, 2)) / [10.0, 0.1]
        if shared:
            by_exog[1, 0, 1] = by_exog[0, 0, 1]
        means = x[:2] - (by_exog @ [0.0, 3.0])[:, 0]
        return before._replace(
            means=means[:, None], coefficients=np.reshape(x[2:4], (2, 1, 1)),
            variances=np.exp(np.reshape(x[8:], (2, 1))), exog_coefficients=by_exog,
        )  # fmt: skip

    found = assert_maximum(emission, X, R, before, params, 10)
    # The negative control: with all else, the coefficients are not shared.
    by_exog = found.exog_coefficients[:, 0, 1]
    assert (by_exog[0] == by_exog[1]) == bool(shared)


@pytest.mark.parametrize("coefficients", [False, True])
@pytest.mark.parametrize("variance", [False, True])
@pytest.mark.parametrize("reg_covar", [0.0, 0.5])
def test_the_m_step_maximizes(coefficients, variance, reg_covar):
    rng = np.random.default_rng(0)
    emission = Autoregression(2, coefficients, variance, reg_covar=reg_covar)
    X = emission.with_lags(rng.normal(size=(60, 1)).cumsum(axis=0), np.array([0, 60]))
    R = rng.dirichlet(np.ones(8), 60)
    before = AutoregressionParams(
        rng.normal(size=(2, 1)), np.zeros((2, 1, 2)), np.ones((2, 1)), np.array([0.3]),
        exog_coefficients=np.zeros((2, 1, 0)),
    )  # fmt: skip

    def params(x):
        a = np.reshape(x[2 : 6 if coefficients else 4], (-1, 1, 2)) * np.ones((2, 1, 1))
        v = np.exp(np.reshape(x[6:] if coefficients else x[4:], (-1, 1)))
        return before._replace(
            means=x[:2, None], coefficients=a, variances=v * np.ones((2, 1))
        )

    count = 2 + (4 if coefficients else 2) + (2 if variance else 1)
    assert_maximum(emission, X, R, before, params, count)


@pytest.mark.parametrize("switching", [False, True])
@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_statsmodels(switching):
    """The likelihood at its optimum is ours, and our optimum is not below."""
    api, y = pytest.importorskip("statsmodels.api"), growth()
    order = 1 if switching else 4
    peer = api.tsa.MarkovAutoregression(y, 2, order=order, switching_ar=switching)
    found, values, start, transitions = optimum(peer)
    lags = [f"ar.L{i + 1}" for i in range(order)]
    ends = [f"[{k}]" if switching else "" for k in range(2)]
    params = {
        "means": [[values[f"const[{k}]"]] for k in range(2)],
        "coefficients": [[[values[lag + end] for lag in lags]] for end in ends],
        "variances": np.full((2, 1), values["sigma2"]),
    }
    emission = Autoregression(order, switching, False, reg_covar=0.0)
    there = at(emission, start, transitions, params, y[:, None])
    value = there.score_samples(y[:, None])[0]
    assert value == pytest.approx(found.llf, abs=1e-6)
    smoothed = found.smoothed_marginal_probabilities
    np.testing.assert_allclose(
        there.predict_proba(y[:, None])[order:], smoothed, atol=1e-6
    )
    ours = HiddenMarkovModel(2, emission=emission, random_state=0).fit(y[:, None])
    assert ours.score_samples(y[:, None])[0] > found.llf - 1e-6


@pytest.mark.parametrize("switching", [False, True])
@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_exog_of_statsmodels(switching):
    """The likelihood at its optimum is ours, and our optimum is not below."""
    api = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(3)
    x = rng.normal(size=(250, 2))
    states, apart, y = np.repeat([0, 1, 0, 1, 0], 50), 0.0, np.empty(250)
    effects = np.array([[1.0, 0.5], [-1.0, 0.5]])
    for t, k in enumerate(states):
        apart = 0.6 * apart + 0.5 * rng.normal()
        y[t] = 2.0 * k + x[t] @ effects[k] + apart
    peer = api.tsa.MarkovAutoregression(
        y, 2, order=1, exog=x, switching_ar=False, switching_exog=[True, switching]
    )
    found, values, _, transitions = optimum(peer)
    params = {
        "means": [[values[f"const[{k}]"]] for k in range(2)],
        "coefficients": np.full((2, 1, 1), values["ar.L1"]),
        "variances": np.full((2, 1), values["sigma2"]),
        "exog_coefficients": [
            [[values[f"x1[{k}]"], values[f"x2[{k if switching else 1}]"]]]
            for k in range(2)
        ],
    }
    emission = Autoregression(
        1, False, False, reg_covar=0.0, exog=[1, 2], shared=[] if switching else [2]
    )
    X = np.column_stack([y, x])
    hmm = HiddenMarkovModel(
        2, emission=emission, start="stationary", emission_init=params,
        transitions_init=transitions, fixed=["transitions", "emission"],
    )  # fmt: skip
    value = hmm.fit(X).score_samples(X)[0]
    assert value == pytest.approx(found.llf, abs=1e-6)
    ours = HiddenMarkovModel(2, emission=emission, start="stationary", random_state=0)
    ours.fit(X)
    assert ours.score_samples(X)[0] > found.llf - 1e-6
    assert ours.aic(X) + 2 * ours.score_samples(X)[0] == 2 * len(found.params)
    # Where columns begin does not matter.
    far = ours.fit(X + [0.0, 1e6, -1e6]).score_samples(X + [0.0, 1e6, -1e6])[0]
    assert far == pytest.approx(ours.fit(X).score_samples(X)[0], abs=1e-3)
    # The negative control: a model without the columns is far below.
    alone = HiddenMarkovModel(2, emission=Autoregression(), random_state=0).fit(
        X[:, :1]
    )
    assert alone.score_samples(X[:, :1])[0] < found.llf - 50


@pytest.fixture(scope="module")
def drawn():
    params = {"means": [[0.0], [3.0]], "coefficients": [[[0.6]], [[-0.4]]]}
    params["variances"] = [[0.5], [0.3]]
    rows, transitions = np.arange(9.0)[:, None] % 2, [[0.95, 0.05], [0.1, 0.9]]
    hmm = at(Autoregression(), [0.5, 0.5], transitions, params, rows)
    X, states = hmm.sample(6000)
    return hmm, X, states


@pytest.mark.filterwarnings("ignore:Only one of:sktem.exceptions.FitWarning")
def test_draws_have_the_moments_and_are_learned(drawn):
    hmm, X, states = drawn
    apart = X[:, 0] - np.array([0.0, 3.0])[states]
    assert abs(apart.mean()) < 0.06  # 4 standard errors of a series with memory
    for k, a, variance in ((0, 0.6, 0.5), (1, -0.4, 0.3)):
        now = np.flatnonzero(states[1:] == k) + 1
        left = apart[now] - a * apart[now - 1]
        assert abs(left.var() / variance - 1) < 4 * np.sqrt(2 / len(now))
    fit = HiddenMarkovModel(2, emission=Autoregression(), random_state=0).fit(X)
    assert np.diff(fit.lower_bounds_).min() > -1e-9
    order = fit.emission_params_.means[:, 0].argsort()
    errors, params = fit.standard_errors(X).emission, fit.emission_params_
    for name, truth in (("means", [0, 3]), ("coefficients", [0.6, -0.4])):
        off = getattr(params, name)[order].ravel() - truth
        assert (np.abs(off) < 4 * errors[name][order].ravel()).all()
    again = pickle.loads(pickle.dumps(fit))
    np.testing.assert_array_equal(again.predict(X), fit.predict(X))
    assert np.mean(fit.predict(X) == order[states]) > 0.97
    # The negative control: lags about intercepts approach the mean by and by.
    other = HiddenMarkovModel(2, emission=Regression(order=1), random_state=0).fit(X)
    assert other.score_samples(X)[0] < fit.score_samples(X)[0] - 50


def test_forecasts_come_to_the_long_run(drawn):
    hmm, X, _ = drawn
    forecast = hmm.forecast(X[:200], 60, n_draws=400)
    long_run = np.array([2 / 3, 1 / 3])
    np.testing.assert_allclose(forecast.probabilities[0, -1], long_run, atol=1e-3)
    last = forecast.draws[:, 0, -1, 0]
    assert abs(last.mean() - long_run @ [0, 3]) < 4 * last.std() / 20


@pytest.mark.parametrize("solver", ["squarem", "saem", "vrttem"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_other_solvers_come_to_the_end_of_em(drawn, solver):
    _, X, _ = drawn
    X, lengths = X[:2000], np.full(40, 50)
    hmm = HiddenMarkovModel(2, emission=Autoregression(), random_state=0)
    end = hmm.fit(X, lengths=lengths).score(X, lengths=lengths)
    hmm.set_params(solver=solver, max_iter=60)
    found = hmm.fit(X, lengths=lengths).score(X, lengths=lengths)
    assert found == pytest.approx(end, abs=2e-3)


def test_known_states(drawn):
    _, X, states = drawn
    known = np.where(np.arange(600) % 3 == 0, states[:600], -1)
    hmm = HiddenMarkovModel(2, emission=Autoregression(2), random_state=0)
    hmm.fit(X[:600], states=known)
    assert hmm.emission_params_.means[1, 0] > hmm.emission_params_.means[0, 0] + 2


def test_what_has_no_answer(drawn):
    hmm, X, _ = drawn
    pair = np.column_stack([X[:50], np.arange(50) % 7])
    driven = HiddenMarkovModel(1, emission=Autoregression(exog=[1])).fit(pair)
    for asked in (driven.sample, lambda: driven.forecast(pair)):
        with pytest.raises(ValueError, match="exog have no distribution"):
            asked()
    for method in ("mean", "mode", "draw"):
        with pytest.raises(TypeError, match="does not fill holes"):
            hmm.impute(X[:50], method=method)


@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("q", [1, 2])
def test_forecasts_given_future_regressors(q, global_random_seed):
    """Of states that take turns, draws have the mean and variance of the recursion."""
    rng = np.random.default_rng(global_random_seed)
    steps, n_draws = 4, 4000
    rows = rng.normal(size=(9, 1 + q))
    _, _, params = given(2, 1, 2, rng, q)
    turns = [[0.0, 1.0], [1.0, 0.0]]
    columns = [0, 2][:q]
    y_column = 1
    emission = Autoregression(2, exog=columns)
    fit = at(emission, [1.0, 0.0], turns, params, rows)
    with pytest.raises(ValueError, match="future_exog"):
        fit.forecast(rows, steps)
    assert fit.forecast(rows, steps, n_draws=0).draws.shape == (0, 1, steps, 1 + q)
    future = rng.normal(size=(1, steps, q))
    draws = fit.forecast(rows, steps, n_draws=n_draws, future_exog=future).draws[:, 0]
    np.testing.assert_array_equal(draws[7][:, columns], future[0])
    x = np.concatenate([rows[:, columns], future[0]])
    state = np.arange(len(x)) % 2
    levels = params["means"][state, 0] + (
        params["exog_coefficients"][state, 0] * x
    ).sum(axis=1)
    apart = np.concatenate([rows[:, y_column] - levels[: len(rows)], np.zeros(steps)])
    covariance = np.zeros((2, 2))
    for k in range(steps):
        t = len(rows) + k
        a = params["coefficients"][state[t], 0]
        apart[t] = a @ apart[[t - 1, t - 2]]
        step = np.array([a, [1.0, 0.0]])
        covariance = step @ covariance @ step.T
        covariance[0, 0] += params["variances"][state[t], 0]
        variance = covariance[0, 0]
        found = draws[:, k, y_column]
        error = found.mean() - levels[t] - apart[t]
        assert abs(error) < 5 * np.sqrt(variance / n_draws)
        assert abs(found.var() / variance - 1) < 5 * np.sqrt(2 / n_draws)
