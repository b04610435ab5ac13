"""Starts that are stationary: M-step, likelihood, other packages, standard errors."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax
from scipy.stats import norm
from sklearn.base import clone

from sktem import HiddenMarkovModel
from sktem.emissions import Autoregression, Regression
from sktem.hidden_markov.chain import Chain, ChainParams
from sktem.hidden_markov.stationary import stationary
from tests.hidden_markov.chains import all_paths, draw_sequences
from tests.hidden_markov.peers import growth, optimum

A = np.array([[0.7, 0.3], [0.1, 0.9]])
quiet = pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")


def by_equations(A):
    """Return the stationary distribution by linear equations."""
    K = len(A)
    sides = np.vstack([np.eye(K) - A.T, np.ones(K)])
    return np.abs(np.linalg.lstsq(sides, np.append(np.zeros(K), 1.0))[0])


def test_stationary_distributions(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    for K in (1, 2, 5):
        p = rng.dirichlet(np.ones(K), K)
        np.testing.assert_allclose(stationary(p), by_equations(p), atol=1e-12)
    # States that are hardly joined keep their digits, which equations lose.
    far = np.array([[1.0, 3e-30], [1e-30, 1.0]])
    np.testing.assert_allclose(stationary(far), [0.25, 0.75], rtol=1e-14)


@pytest.mark.parametrize("rows", [1, 2, 5, 200])
@pytest.mark.parametrize("case", ["free", "tied", "zeros", "prior"])
def test_the_m_step_maximizes(rows, case, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    K, tied, prior = 3, [0, 0, 1] if case == "tied" else None, 1.0
    before = rng.dirichlet(np.ones(K), K)
    if case == "tied":
        before[1] = before[0]
    if case == "zeros":
        before = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.4, 0.0, 0.6]])
    if case == "prior":
        prior = 1.0 + rng.random((K, K))
    chain = Chain(K, tied=tied, transitions_prior=prior, prior_share=0.1,
                  is_stationary=True)  # fmt: skip
    first = 30 * rng.dirichlet(np.ones(K))
    counts = rng.gamma(1.0, size=(K, K)) * (before > 0)
    counts *= 30 * (rows - 1) / counts.sum()
    start = stationary(before)
    found = ChainParams(start, before)
    passes = [
        found := chain.maximize(np.append(first, counts), found) for _ in range(5)
    ]
    weights = counts + 0.1 * (np.asarray(prior) - 1.0) * (before > 0)

    def value(p):
        logs = np.log(np.where(before > 0, p, 1.0))
        return (weights * logs).sum() + first @ np.log(by_equations(p))

    values = [value(before), *(value(params.transitions) for params in passes)]
    assert np.diff(values).min() > -1e-10

    def loss(x):
        logits = np.where(before > 0, x.reshape(K, K), -np.inf)
        p = softmax(logits, axis=1)
        return -value(p[[0, 0, 2]] if case == "tied" else p)

    at = np.log(np.where(before > 0, found.transitions, 1.0)).ravel()
    best = min(
        (
            minimize(loss, x, method="BFGS", options={"gtol": 1e-8})
            for x in (at, 0 * at)
        ),
        key=lambda run: run.fun,
    )
    assert value(found.transitions) >= -best.fun - 1e-7
    np.testing.assert_allclose(found.start, by_equations(found.transitions), atol=1e-9)
    assert ((found.transitions > 0) == (before > 0)).all()
    if case == "tied":
        np.testing.assert_array_equal(*found.transitions[:2])
    # The negative control: shares of the transitions alone are not the maximum.
    plain = Chain(K, tied=tied, transitions_prior=prior, prior_share=0.1)
    shares = plain.maximize(np.append(first, counts), ChainParams(start, before))
    assert value(shares.transitions) < value(passes[0].transitions)


@quiet
@pytest.mark.parametrize("lengths", [[8], [3, 1, 2, 2], [1] * 8])
def test_the_optimum_is_that_of_the_exact_likelihood(lengths, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.normal(size=(8, 1)) + [[2.0], [0], [0], [2], [0], [2], [2], [0]]
    means, offsets = np.array([0.0, 2.0]), np.concatenate([[0], np.cumsum(lengths)])
    L = norm.logpdf(X, means)

    def loss(x):
        p = softmax(np.column_stack([x, [0.0, 0.0]]), axis=1)
        pieces = zip(offsets[:-1], offsets[1:], strict=True)
        start = by_equations(p)
        return -sum(all_paths(L[slice(*piece)], start, p)[0] for piece in pieces)

    hmm = HiddenMarkovModel(
        2, start="stationary", transitions_init=A, fixed=["emission"], tol=1e-12,
        emission_init={"means": means[:, None], "covariances": np.ones((2, 1, 1))},
        max_iter=20_000,
    )  # fmt: skip
    hmm.fit(X, lengths=lengths)
    assert np.diff(hmm.lower_bounds_).min() > -1e-12
    value = hmm.score_samples(X, lengths=lengths).sum()
    logits = np.log(hmm.transitions_[:, 0] / hmm.transitions_[:, 1])
    assert value == pytest.approx(-loss(logits), abs=1e-9)
    limits = {"method": "L-BFGS-B", "bounds": [(-30, 30)] * 2}
    climbed = minimize(loss, np.clip(logits, -30, 30), **limits)
    assert value > -climbed.fun - 1e-5
    np.testing.assert_allclose(hmm.start_ @ hmm.transitions_, hmm.start_, atol=1e-9)


@quiet
@pytest.mark.parametrize("kind", ["regression", "autoregression"])
def test_statsmodels(kind):
    """The likelihood at its optimum is ours, and our optimum is not below."""
    api, y = pytest.importorskip("statsmodels.api"), growth()
    if kind == "regression":
        peer = api.tsa.MarkovRegression(y, 2, switching_variance=True)
        emission, names = Regression(reg_covar=0.0), ["const[{}]"]
    else:
        peer = api.tsa.MarkovAutoregression(y, 2, order=1, switching_ar=True,
                                            switching_variance=True)  # fmt: skip
        emission, names = Autoregression(1, reg_covar=0.0), ["const[{}]", "ar.L1[{}]"]
    found, values, expected, transitions = optimum(peer, search_reps=5)
    by_name = [[values[name.format(k)] for k in range(2)] for name in names]
    init = {"variances": [[values[f"sigma2[{k}]"]] for k in range(2)]}
    if kind == "regression":
        init["coefficients"] = np.reshape(by_name[0], (2, 1, 1))
    else:
        init["means"] = np.reshape(by_name[0], (2, 1))
        init["coefficients"] = np.reshape(by_name[1], (2, 1, 1))
    options = {
        "emission": emission, "start": "stationary", "emission_init": init,
        "transitions_init": transitions,
    }  # fmt: skip
    parts = ["transitions", "emission"]
    there = HiddenMarkovModel(2, **options, fixed=parts).fit(y[:, None])
    assert there.score_samples(y[:, None])[0] == pytest.approx(found.llf, abs=1e-6)
    np.testing.assert_allclose(there.start_, expected, rtol=1e-8)
    free = HiddenMarkovModel(2, **options, tol=1e-9).fit(y[:, None])
    assert free.score_samples(y[:, None])[0] > found.llf - 1e-6
    n_free = free.aic(y[:, None]) + 2 * free.score_samples(y[:, None])[0]
    assert n_free == pytest.approx(2 * len(found.params))


@pytest.fixture(scope="module")
def drawn():
    rng = np.random.default_rng(0)
    lengths = np.full(400, 3)
    X, _ = draw_sequences(lengths, by_equations(A), A, [[0.0], [3.0]], rng)
    return X, lengths


@pytest.fixture(scope="module")
def end_of_em(drawn):
    X, lengths = drawn
    hmm = HiddenMarkovModel(2, start="stationary", random_state=0, tol=1e-8)
    return hmm.fit(X, lengths=lengths)


@quiet
def test_short_sequences_say_more_of_transitions(drawn):
    X, lengths = drawn
    options = {"random_state": 0, "tol": 1e-8}
    hmm = HiddenMarkovModel(2, start="stationary", **options).fit(X, lengths=lengths)
    free = HiddenMarkovModel(2, **options).fit(X, lengths=lengths)
    value, most = (fit.score_samples(X, lengths=lengths).sum() for fit in (hmm, free))
    assert value < most < value + 5  # twice the difference is chi2 of one degree
    errors, more = (fit.standard_errors(X, lengths=lengths) for fit in (hmm, free))
    assert (np.unique(errors.transitions) < np.unique(more.transitions)).all()
    assert (errors.start < more.start).all() and np.isfinite(errors.start).all()
    order = hmm.emission_params_.means.ravel().argsort()
    off = np.diagonal(hmm.transitions_)[order] - np.diagonal(A)
    assert (np.abs(off) < 4 * np.diagonal(errors.transitions)[order]).all()


@quiet
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["squarem", "daarem", "online", "iem", "isaem",
                                    "vrttem", "fittem", "saem", "mcem"])  # fmt: skip
def test_other_solvers_come_to_the_end_of_em(drawn, end_of_em, solver):
    X, lengths = drawn
    hmm = clone(end_of_em).set_params(solver=solver, max_iter=60)
    hmm.fit(X, lengths=lengths)
    end = end_of_em.score(X, lengths=lengths)
    assert hmm.score(X, lengths=lengths) == pytest.approx(end, abs=2e-3)
    np.testing.assert_allclose(hmm.start_ @ hmm.transitions_, hmm.start_, atol=1e-12)


@quiet
def test_streams_and_searches(drawn):
    X, lengths = drawn
    stream = HiddenMarkovModel(2, start="stationary", random_state=0)
    for part in np.array_split(X, 4):
        stream.partial_fit(part, lengths=lengths[: len(part) // 3])
    p = stream.start_
    np.testing.assert_allclose(p @ stream.transitions_, p, atol=1e-12)
    searched = HiddenMarkovModel("auto", start="stationary", random_state=0)
    searched.fit(X, lengths=lengths)
    assert searched.n_states_ == 2
