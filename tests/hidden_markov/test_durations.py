"""Explicit durations: all segmentations of small chains, families, the estimator."""

import itertools
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import nbinom, poisson

from sktem import Durations, HiddenMarkovModel
from sktem.emissions import Poisson, PoissonParams
from sktem.exceptions import FitWarning
from sktem.hidden_markov import recursions, segments
from sktem.hidden_markov.fit_warnings import _copies
from sktem.hidden_markov.recursions import Matrices
from sktem.hidden_markov.rows import ObservedSequences
from sktem.hidden_markov.segment_chain import SegmentChain, SegmentParams

quiet = pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")


def problem(K, D, size, rng, zeros=False, absorbing=False):
    A = rng.random((K, K)) * (1 - np.eye(K))
    table = rng.dirichlet(np.ones(D), size=K)
    L = 2.0 * rng.normal(size=(size, K))
    if zeros:
        table[0, 0] = table[-1, -1] = 0.0
        A[0, -1] = 0.0
        L[size // 2, : K - 1] = -np.inf
    if absorbing:
        A[-1] = np.eye(K)[-1]
    A, table = (one / one.sum(axis=1, keepdims=True) for one in (A, table))
    return L, SegmentParams(rng.dirichlet(np.ones(K)), A, table)


def all_segmentations(L, params):
    """Yield states, durations, whether the end cuts, and joint probabilities."""
    T, (K, D) = len(L), params.durations.shape
    tails = params.durations[:, ::-1].cumsum(axis=1)[:, ::-1]
    for cuts in itertools.product([0, 1], repeat=T - 1):
        edges = np.concatenate([[0], np.flatnonzero(cuts) + 1, [T]])
        sizes = np.diff(edges)
        if sizes.max() > D:
            continue
        for states in itertools.product(range(K), repeat=len(sizes)):
            p = params.start[states[0]]
            for i, (k, size) in enumerate(zip(states, sizes, strict=True)):
                p *= params.transitions[states[i - 1], k] if i else 1.0
                p *= (tails if i == len(sizes) - 1 else params.durations)[k, size - 1]
                p *= np.exp(L[edges[i] : edges[i + 1], k].sum())
            yield np.array(states), sizes, p


def enumerated(L, params):
    """Return what `smoothed` does, the best score, filtered and rows that are left."""
    T, (K, D) = len(L), params.durations.shape
    gamma, pairs, counts = np.zeros((T, K)), np.zeros((K, K)), np.zeros((K, D))
    left, total, best, best_path = np.zeros((K, D)), 0.0, -1.0, None
    for states, sizes, p in all_segmentations(L, params):
        path = np.repeat(states, sizes)
        gamma[np.arange(T), path] += p
        np.add.at(pairs, (path[:-1], path[1:]), p)
        np.add.at(counts, (states[:-1], sizes[:-1] - 1), p)
        last, size = states[-1], sizes[-1]
        if p > 0:
            share = params.durations[last, size - 1 :]
            share = p * share / share.sum()
            counts[last, size - 1 :] += share
            left[last, : len(share)] += share
        total += p
        if p > best:
            best, best_path = p, path
    found = [one / total for one in (gamma, pairs, counts, left)]
    return np.log(total), *found, np.log(best), best_path


@pytest.mark.parametrize(
    "K, D, sizes, options",
    [(2, 3, [7], {}), (3, 4, [6], {}), (3, 3, [6], {"zeros": True}),
     (2, 9, [5], {}), (2, 2, [1], {}), (3, 2, [4, 0, 5, 1], {}),
     (3, 3, [5, 6], {"absorbing": True})],
)  # fmt: skip
def test_all_segmentations(K, D, sizes, options, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    L, params = problem(K, D, sum(sizes), rng, **options)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    given = segments.Segments.of(*params)
    weights = rng.random(len(sizes)) + 0.5
    found = segments.smoothed(L, offsets, given, weights)
    filtered, values = segments.filtered_probabilities(L, offsets, given)
    states, scores = segments.most_probable(L, offsets, given)
    np.testing.assert_allclose(values, found.log_likelihood, rtol=1e-12)
    for s, (first, stop) in enumerate(itertools.pairwise(offsets)):
        rows, w = slice(first, stop), weights[s]
        if first == stop:
            assert found.log_likelihood[s] == scores[s] == 0.0
            continue
        total, gamma, pairs, counts, left, best, path = enumerated(L[rows], params)
        same = {"rtol": 1e-10, "atol": 1e-12}
        np.testing.assert_allclose(values[s], total, **same)
        np.testing.assert_allclose(found.gamma[rows], w * gamma, **same)
        np.testing.assert_allclose(found.pairs[s], w * pairs, **same)
        numbers = found.counts[s] + found.firsts[s]
        np.testing.assert_allclose(numbers, w * counts, **same)
        np.testing.assert_allclose(scores[s], best, **same)
        np.testing.assert_array_equal(states[rows], path)
        one = np.array([0, stop - first])
        so_far = segments.elapsed(L[rows], one, given)[0]
        rest = segments.rows_left(so_far, params.durations)
        np.testing.assert_allclose(rest, left, **same)
        for t in range(first, stop):
            expected = enumerated(L[first : t + 1], params)[1][-1]
            np.testing.assert_allclose(filtered[t], expected, **same)


def test_segments_are_a_chain_of_states_with_rows_left(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    L, params = problem(3, 15, 300, rng)
    L -= 1e3 * rng.random((300, 1))
    offsets, chain = np.array([0, 200, 300]), SegmentChain(3, longest=15)
    start, A, state = chain.expanded(params)
    expected = recursions.smoothed(L[:, state], offsets, Matrices.of(start, A))
    found = segments.smoothed(L, offsets, segments.Segments.of(*params))
    np.testing.assert_allclose(found.log_likelihood, expected.log_likelihood)
    gamma = expected.gamma @ np.eye(3)[state]
    np.testing.assert_allclose(found.gamma, gamma, atol=1e-10)
    rows = ObservedSequences(offsets, np.zeros((300, 1)))
    last = chain.last_rows(L, rows, segments.Segments.of(*params), params)
    filtered = recursions.filtered_probabilities(
        L[:, state], offsets, Matrices.of(start, A)
    )[0]
    np.testing.assert_allclose(last, filtered[offsets[1:] - 1], atol=1e-10)


def begun_before(L, params):
    """Return all segmentations of rows whose first segment may be of any age.

    A state and a whole duration of the first segment are met in proportion to ``start``
    and to the duration, and its rows before the first one are any number.
    """
    T, (K, D) = len(L), params.durations.shape
    means = params.durations @ np.arange(1, D + 1)
    total, gamma, pairs, counts = 0.0, np.zeros((T, K)), np.zeros((K, K)), 0.0
    for k, whole in itertools.product(range(K), range(1, D + 1)):
        for age in range(whole):
            left = whole - age
            share = params.start[k] * params.durations[k, whole - 1] / means[k]
            fixed = np.zeros((K, D))
            fixed[k, whole - 1] += 1.0
            here = share * np.exp(L[: min(left, T), k].sum())
            if left >= T:
                total += here
                gamma[:, k] += here
                pairs[k, k] += here * (T - 1)
                counts = counts + here * fixed
                continue
            for following in np.flatnonzero(params.transitions[k]):
                start = np.eye(K)[following]
                rest = SegmentParams(start, *params[1:])
                value, g, p, c, *_ = enumerated(L[left:], rest)
                joint = here * params.transitions[k, following] * np.exp(value)
                total += joint
                gamma[:left, k] += joint
                gamma[left:] += joint * g
                pairs += joint * p
                pairs[k, k] += joint * (left - 1)
                pairs[k, following] += joint
                counts = counts + joint * (c + fixed)
    return np.log(total), gamma / total, pairs / total, counts / total


@pytest.mark.parametrize("K, D, T", [(2, 3, 5), (3, 4, 4), (2, 6, 3), (2, 3, 1)])
def test_segments_that_have_begun_before(K, D, T, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    L, params = problem(K, D, T, rng)
    expected = begun_before(L, params)
    sets = [({"left_censored": True}, True), ({}, False)]
    for options, is_equal in sets:
        chain = SegmentChain(K, durations=Durations("table", **options), longest=D)
        X = ObservedSequences(np.array([0, T]), np.zeros((T, 1)))
        given = chain.matrices(params, X)
        found = segments.smoothed(L, X.offsets, given)
        s = chain.sums(found, given, X, params)
        pairs, counts = s[K : K + K * K].reshape(K, K), s[K + K * K :].reshape(K, D)
        values = (found.log_likelihood[0], found.gamma, pairs, counts)
        same = [
            np.allclose(a, b, rtol=1e-9, atol=1e-12)
            for a, b in zip(values, expected, strict=True)
        ]
        assert all(same) is is_equal
        np.testing.assert_allclose(chain.of_each(found, given, X, params)[0], s)


@pytest.mark.parametrize("left_censored", [False, True])
def test_pieces_are_those_of_the_whole_sequence(left_censored, global_random_seed):
    """What is carried, smoothed and counted after a cut is as without it."""
    rng = np.random.default_rng(global_random_seed)
    L, params = problem(3, 5, 12, rng)
    durations = Durations("table", left_censored=left_censored)
    chain = SegmentChain(3, durations=durations, longest=5)
    whole = ObservedSequences(np.array([0, 12]), np.zeros((12, 1)))
    given = chain.matrices(params, whole)
    found = segments.smoothed(L, whole.offsets, given)
    carried, blank, total = None, np.zeros((1, 3)), 0.0
    for first, stop in itertools.pairwise([0, 5, 6, 8, 12]):
        X, rows = whole, L[first:stop]
        X = ObservedSequences(np.array([0, stop - first]), np.zeros((len(rows), 1)))
        if carried is not None:
            X, rows = X.continued(carried), np.concatenate([blank, rows])
        matrices = chain.matrices(params, X)
        total += segments.log_likelihoods(rows, X.offsets, matrices)[0]
        carried = chain.carried(rows, X, matrices, params)[0]
        end = ObservedSequences(np.array([0, stop]), np.zeros((stop, 1)))
        expected = chain.carried(L[:stop], end, given, params)[0]
        np.testing.assert_allclose(carried, expected, atol=1e-12)
    np.testing.assert_allclose(total, found.log_likelihood[0])
    last = segments.smoothed(rows, X.offsets, matrices)
    np.testing.assert_allclose(last.gamma[1:], found.gamma[8:], atol=1e-12)
    # The change of the numbers of segments by duration is that by the new rows.
    s = chain.sums(last, matrices, X, params)[3 + 9 :].reshape(3, 5)
    before = ObservedSequences(np.array([0, 8]), np.zeros((8, 1)))
    counts = []
    for one, values in ((before, L[:8]), (whole, L)):
        of = segments.smoothed(values, one.offsets, given)
        counts.append(chain.sums(of, given, one, params)[3 + 9 :].reshape(3, 5))
    assert s.sum() == pytest.approx(counts[1].sum() - counts[0].sum(), abs=0.3)
    # Negative control: without an age a new segment begins at the cut.
    young = np.zeros((3, 5))
    young[:, 0] = carried.reshape(3, 5).sum(axis=1)
    assert np.abs(young.ravel() - carried).max() > 0.01


def test_rows_that_are_impossible():
    L, params = problem(2, 3, 5, np.random.default_rng(0))
    L[2] = -np.inf
    L = np.concatenate([L, np.zeros((2, 2))])
    given, offsets = segments.Segments.of(*params), np.array([0, 5, 7])
    found = segments.smoothed(L, offsets, given)
    assert found.log_likelihood[0] == -np.inf and np.isfinite(found.log_likelihood[1])
    np.testing.assert_allclose(found.gamma.sum(axis=1), 1.0)


def test_draws_have_the_marginals(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    L, params = problem(3, 4, 9, rng)
    offsets, n = np.array([0, 6, 9]), 4000
    given = segments.Segments.of(*params)
    found = segments.smoothed(L, offsets, given)
    draws = segments.drawn_states(L, offsets, given, 7, np.arange(2), n)
    shares = (draws[:, :, None] == np.arange(3)).mean(axis=0)
    error = np.sqrt(found.gamma * (1 - found.gamma) / n) + 1e-9
    assert (np.abs(shares - found.gamma) < 4.5 * error).all()
    chain = SegmentChain(3, longest=4)
    X = ObservedSequences(offsets, np.zeros((9, 1)))
    each = np.array([chain.of_states(one, X, params) for one in draws])
    expected = chain.of_each(found, given, X, params)
    error = each.std(axis=0) / np.sqrt(n) + 1e-9
    assert (np.abs(each.mean(axis=0) - expected) < 5 * error).all()


def test_families_have_the_highest_likelihood(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    counts = 1.0 + np.arange(60)
    # Exact shares give back what they are shares of.
    tables = [nbinom.pmf(counts - 1, 3.0, 0.3), nbinom.pmf(counts - 1, 0.5, 0.1)]
    tables = np.array([table / table.sum() for table in tables])
    flat = np.full((2, 60), 1 / 60)
    found = Durations().maximize(100 * tables, flat)
    np.testing.assert_allclose(found, tables, atol=1e-6)
    tables = np.array([poisson.pmf(counts - 1, rate) for rate in (4.0, 50.0)])
    tables /= tables.sum(axis=1, keepdims=True)
    found = Durations("poisson").maximize(tables, flat)
    np.testing.assert_allclose(found, tables, atol=1e-12)
    # Of others none nearby is more likely; where nothing is better the old ones stay.
    share = rng.dirichlet(np.ones(8), size=1)
    for family, met in itertools.product(("poisson", "negative_binomial"), (0.4, 1.0)):
        # The mean of a share of them counts against it.
        def gain(p, met=met):
            return share[0] @ np.log(p) - met * np.log(p @ np.arange(1, 9))

        met = np.array([met])
        best_of = Durations(family).maximize(share, np.full((1, 8), 1 / 8), met)[0]
        sizes = [500.0] if family == "poisson" else np.geomspace(0.02, 500, 60)
        for size, mean in itertools.product(sizes, np.geomspace(0.01, 100, 120)):
            p = nbinom.pmf(np.arange(8), size, size / (size + mean))
            if family == "poisson":
                p = poisson.pmf(np.arange(8), mean)
            assert gain(p / p.sum()) <= gain(best_of) + 1e-9
        table = Durations("table").maximize(share, np.full((1, 8), 1 / 8), met)[0]
        for p in rng.dirichlet(100 * table, size=200) + 1e-300:
            assert gain(p) <= gain(table)
    best = {}
    for family in ("poisson", "negative_binomial"):
        p = Durations(family).maximize(share, np.full((1, 8), 1 / 8))
        best[family] = (share * np.log(p)).sum()
    rates = np.geomspace(1e-3, 1e3, 4001)
    grid = np.array([poisson.logpmf(np.arange(8), rate) for rate in rates])
    grid -= logsumexp(grid, axis=1, keepdims=True)
    assert (grid @ share[0]).max() <= best["poisson"] + 1e-12
    assert best["negative_binomial"] >= best["poisson"] - 1e-3
    assert Durations("table").n_parameters(np.array([[0.5, 0.0, 0.5]])) == 1


A = np.array([[0.0, 0.7, 0.3], [0.5, 0.0, 0.5], [0.9, 0.1, 0.0]])
MEANS = np.array([0.0, 2.0, 4.0])


def drawn(n_segments, rng):
    """Return rows, states and lengths with durations that are far from geometric."""
    states, k = [], 0
    for _ in range(n_segments):
        states += [k] * (3 + rng.poisson(2 + 4 * k))
        k = rng.choice(3, p=A[k])
    states = np.array(states)
    X = rng.normal(size=(len(states), 1)) + MEANS[states][:, None]
    return X, states, [len(X) // 2, len(X) - len(X) // 2]


X, STATES, LENGTHS = drawn(70, np.random.default_rng(3))


@pytest.mark.parametrize("family", ["negative_binomial", "poisson", "table"])
@quiet
def test_em_rises_beyond_geometric_durations(family):
    durations = Durations(family, longest=30)
    fit = HiddenMarkovModel(3, durations=durations, random_state=0)
    fit.fit(X, lengths=LENGTHS)
    assert fit.converged_ and (np.diff(fit.lower_bounds_) > -1e-12).all()
    plain = HiddenMarkovModel(3, random_state=0).fit(X, lengths=LENGTHS)
    assert fit.lower_bound_ > plain.lower_bound_ + 0.01
    assert fit.lower_bounds_[-1] == pytest.approx(
        fit.score(X, lengths=LENGTHS), abs=1e-5
    )
    order = np.argsort(fit.emission_params_.means[:, 0])
    assert (order[STATES] == fit.predict(X, lengths=LENGTHS)).mean() > 0.93
    np.testing.assert_array_equal(np.diagonal(fit.transitions_), 0.0)
    found = fit.state_durations(30)
    np.testing.assert_allclose(found.mean[order], [5.0, 9.0, 13.0], rtol=0.2)
    np.testing.assert_allclose(found.probabilities, fit.durations_)
    np.testing.assert_allclose(found.mean, fit.durations_ @ np.arange(1, 31))
    if family != "table":
        assert fit.bic(X, lengths=LENGTHS) < plain.bic(X, lengths=LENGTHS)
        count = 2 + 3 + 6 + 3 * (2 if family == "negative_binomial" else 1)
        expected = -2 * fit.score_samples(X, lengths=LENGTHS).sum()
        expected += count * np.log(len(X))
        assert fit.bic(X, lengths=LENGTHS) == pytest.approx(expected)


def test_geometric_durations_are_a_hidden_markov_model():
    plain = HiddenMarkovModel(3, random_state=0, tol=1e-3).fit(X, lengths=LENGTHS)
    stay = np.diagonal(plain.transitions_)
    table = (1 - stay)[:, None] * stay[:, None] ** np.arange(400)
    params = plain.emission_params_
    fit = HiddenMarkovModel(
        3,
        durations=Durations(init=table),
        start_init=plain.start_,
        transitions_init=(plain.transitions_ - np.diag(stay)) / (1 - stay)[:, None],
        emission_init={"means": params.means, "covariances": params.covariances},
        fixed=("start", "transitions", "durations", "emission"),
    ).fit(X, lengths=LENGTHS)
    for name in ("score_samples", "predict_proba", "filter"):
        expected = getattr(plain, name)(X, lengths=LENGTHS)
        found = getattr(fit, name)(X, lengths=LENGTHS)
        np.testing.assert_allclose(found, expected, atol=1e-6)
    found = fit.forecast(X, 5, n_draws=0).probabilities
    expected = plain.forecast(X, 5, n_draws=0).probabilities
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize("solver", ["iem", "saem", "squarem"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@quiet
def test_solvers_end_where_em_does(solver):
    lengths = np.full(len(X) // 25, 25)
    rows = X[: lengths.sum()]
    options = {"durations": Durations("poisson", longest=20), "random_state": 0,
               "tol": 1e-8}  # fmt: skip
    em = HiddenMarkovModel(3, **options).fit(rows, lengths=lengths)
    other = HiddenMarkovModel(3, solver=solver, max_iter=90, **options)
    other.fit(rows, lengths=lengths)
    gap = em.score(rows, lengths=lengths) - other.score(rows, lengths=lengths)
    assert abs(gap) < (2e-3 if solver == "saem" else 1e-5)


@quiet
def test_samples_have_the_durations():
    fit = HiddenMarkovModel(
        3, durations=Durations(longest=25), random_state=0, tol=1e-3
    )
    fit.fit(X, lengths=LENGTHS)
    states = fit.sample(20_000)[1]
    edges = np.flatnonzero(np.diff(states)) + 1
    sizes, of = np.diff(edges), states[edges[:-1]]
    found = fit.state_durations()
    for k in range(3):
        one = sizes[of == k]
        error = found.standard_deviation[k] / np.sqrt(len(one))
        assert abs(one.mean() - found.mean[k]) < 4.5 * error
    known = np.where(np.arange(len(X)) < 100, STATES, -1)
    fit.fit(X, lengths=LENGTHS, states=known)
    np.testing.assert_array_equal(fit.predict(X[:100])[:100].shape, (100,))
    draws = fit.forecast(X, 4, n_draws=3).draws
    assert draws.shape == (3, 1, 4, 1) and np.isfinite(draws).all()
    before = fit.durations_.copy()
    fit.partial_fit(X[:50])
    assert fit.durations_.shape == before.shape


@quiet
def test_a_stream_of_pieces_learns_durations():
    """Pieces no longer than a stay: what began before a cut counts as a whole."""
    rows, *_ = drawn(600, np.random.default_rng(5))
    rows = rows[: len(rows) // 16 * 16]
    options = {"durations": Durations("poisson", longest=30), "random_state": 0}
    whole, stream = (HiddenMarkovModel(3, **options) for _ in range(2))
    whole.fit(rows)
    for part in np.split(rows, len(rows) // 16):
        stream.partial_fit(part, continues=True)
    assert whole.score(rows) - stream.score(rows) < 0.005
    found = np.sort(stream.state_durations().mean)
    np.testing.assert_allclose(found, [5.0, 9.0, 13.0], rtol=0.12)


@pytest.mark.parametrize("family", ["negative_binomial", "poisson", "table"])
@quiet
def test_segments_that_have_begun_before_are_learned(family, global_random_seed):
    """Watching begins at any time: first segments are long ones, and cut."""
    rng = np.random.default_rng(global_random_seed)
    rows = []
    for _ in range(150):
        X, *_ = drawn(6, rng)
        first = rng.integers(4, 16)
        rows.append(X[first : first + 14])
    found = {}
    for censored in (False, True):
        durations = Durations(family, longest=25, left_censored=censored)
        fit = HiddenMarkovModel(3, durations=durations, random_state=0, tol=1e-5)
        fit.fit(rows)
        assert (np.diff(fit.lower_bounds_) > -1e-12).all()
        order = np.argsort(fit.emission_params_.means[:, 0])
        found[censored] = fit.state_durations().mean[order], fit.score(rows)
    truth = np.array([5.0, 9.0, 13.0])
    errors = {name: np.abs(mean / truth - 1).max() for name, (mean, _) in found.items()}
    assert errors[True] < 0.2 < errors[False]
    assert found[True][1] > found[False][1]


def test_a_state_that_is_never_left():
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(40, 1)) + 5.0 * (np.arange(40) >= n)[:, None]
            for n in rng.poisson(8, size=20) + 1]  # fmt: skip
    chain = {"start_init": [1.0, 0.0], "transitions_init": [[0.0, 1.0], [0.0, 1.0]]}
    fit = HiddenMarkovModel(2, durations="poisson", random_state=0, **chain).fit(rows)
    found = fit.state_durations()
    assert np.isinf(found.mean[1]) and found.mean[0] == pytest.approx(9.0, abs=1.5)
    np.testing.assert_array_equal(fit.transitions_, chain["transitions_init"])


def test_the_longest_duration_follows_from_the_data():
    rng = np.random.default_rng(0)
    sizes = np.tile([100, 160], 8) + rng.integers(-20, 20, size=16)
    rows = 5.0 * np.repeat(np.arange(16) % 2, sizes) + rng.normal(size=sizes.sum())
    fit = HiddenMarkovModel(2, durations="poisson", random_state=0, n_init=2)
    fit.fit(rows[:, None])
    assert 300 < fit.durations_.shape[1] <= 500
    np.testing.assert_allclose(np.sort(fit.state_durations().mean), [98, 158], atol=15)
    assert fit.fit(X, lengths=LENGTHS).durations_.shape[1] < 100
    fit.set_params(warm_start=True, n_init=1).fit(rows[:200, None])
    assert fit.durations_.shape[1] < 100


def test_durations_that_are_cut_are_told():
    with pytest.warns(FitWarning, match=r"the longest duration, 6 rows"):
        HiddenMarkovModel(
            3, durations=Durations(longest=6), random_state=0, tol=1e-3
        ).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        HiddenMarkovModel(3, durations="poisson", random_state=0).fit(X)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"durations": "weibull"}, "durations must be"),
        ({"durations": Durations("weibull")}, "family must be"),
        ({"durations": Durations(longest=0)}, "longest"),
        ({"durations": "table", "tied_transitions": [0, 0]}, "tied_transitions needs"),
        ({"fixed": ("durations",)}, "durations=None has none"),
        ({"durations": "table", "transitions_init": np.full((2, 2), 0.5)}, "diagonal"),
        ({"durations": Durations(init=np.ones((3, 4)) / 4)}, "init of durations"),
    ],
)
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        HiddenMarkovModel(2, **options).fit(X[:50])


def test_filters_of_pieces_need_geometric_durations():
    fit = HiddenMarkovModel(2, durations="poisson", random_state=0).fit(X[:100])
    with pytest.raises(ValueError, match="previous needs durations=None"):
        fit.filter(X[:20], previous=[0.5, 0.5])


def test_states_that_differ_in_durations_are_no_copies():
    """One emission, short stays and long ones: two states, and not one in parts."""
    emission = PoissonParams(np.array([[3.0], [3.0]]))
    model = SimpleNamespace(
        chain=SimpleNamespace(n_states=2), emission_of_state=None, emission=Poisson()
    )
    start, transitions = np.array([0.5, 0.5]), np.array([[0.0, 1.0], [1.0, 0.0]])
    for table, is_copy in (([[1, 0], [0, 1]], False), ([[0.5, 0.5]] * 2, True)):
        chain = SegmentParams(start, transitions, np.array(table, float))
        params = SimpleNamespace(chain=chain, emission=emission)
        assert bool(_copies(model, params, 1e-3)) is is_copy
