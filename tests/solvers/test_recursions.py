"""Limit cases that tie the solvers to EM and to each other."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from sktem.e_step.batches import RowSelector
from sktem.e_step.expectation import Batch, Expectation
from sktem.e_step.random import spawn_generators
from sktem.models import RandomInterceptModel
from sktem.models.random_intercept import RandomInterceptParams
from sktem.samplers import ExactDraws, ExactExpectation
from sktem.schedules import Constant, Polynomial
from sktem.solvers import (
    FITTEM,
    ISAEM,
    SOLVERS,
    VRTTEM,
    FullBatch,
    OnlineEM,
    Solver,
    SolverState,
)
from sktem.solvers.vrttem import Anchor
from tests.oracles import (
    LIMIT,
    START,
    DrawsByIteration,
    Recording,
    em_step,
    expected_statistics,
    m_step,
    random_intercept_data,
    run_solver,
    standard_errors,
    stop_after,
)

N = 30
X = random_intercept_data(1, n_rows=N)
FULL = [FullBatch(), OnlineEM(), ISAEM(), VRTTEM(rho=1.0), FITTEM(rho=1.0)]
DECREASING = Polynomial(alpha=0.7)


def iterates(solver, n, **options):
    """Return the statistics after each of n iterations with all rows."""
    model = Recording()
    run_solver(
        solver,
        X,
        model=model,
        batch_size=N,
        max_passes=1000,
        on_epoch=stop_after(n),
        **options,
    )
    return np.array(model.seen[:n])


@pytest.mark.parametrize("solver", FULL, ids=str)
def test_all_rows_and_steps_of_one_is_em(solver):
    params = START
    for s in iterates(solver, 4):
        params = em_step(X, params)
        np.testing.assert_allclose(m_step(s), params, rtol=0, atol=1e-12)


def saem_by_hand(n, schedule, draws=None):
    """Return the statistics of SAEM; by default with exact expectations."""
    s, params, path = None, START, []
    for k in range(1, n + 1):
        new = expected_statistics(X, params) if draws is None else draws(params, k)
        s = new if s is None else s + schedule(k) * (new - s)
        params = m_step(s)
        path.append(s)
    return np.array(path)


@pytest.mark.parametrize("solver", FULL, ids=str)
def test_all_rows_and_decreasing_steps_is_saem(solver):
    found = iterates(solver, 12, step_size=DECREASING)
    np.testing.assert_allclose(found, saem_by_hand(12, DECREASING), rtol=1e-12)


@pytest.mark.parametrize("schedule", [Constant(1.0), DECREASING], ids=str)
@pytest.mark.parametrize("solver", FULL, ids=str)
def test_all_rows_with_the_same_draws_is_saem(solver, schedule):
    """With step 1, Monte Carlo EM; the noise of an iteration is the same for all."""
    sampler = DrawsByIteration(3)

    def draws(params, k):
        Z = Recording().draw_posterior(X, params, 3, np.random.default_rng([17, k]))
        return np.mean(
            [Recording().mean_statistics(X, Z[:, m]) for m in range(3)], axis=0
        )

    found = iterates(solver, 12, sampler=sampler, step_size=schedule)
    expected = saem_by_hand(12, schedule, draws)
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    other = saem_by_hand(12, schedule)
    assert np.abs(found - other).max() > 1e-2


FAR = START._replace(mean=-3.0, variance=0.2, noise_variance=3.0)


class TooSmallShare(ISAEM):
    """A change counts a quarter of what it should."""

    def proxy(self, state, expectation, batches, params):
        before = state.own.mean
        after = super().proxy(state, expectation, batches, params)
        state.own.mean = before + (after - before) / 4
        return state.own.mean


@pytest.mark.parametrize("solver", [ISAEM(), VRTTEM(rho=1.0), FITTEM(rho=1.0)], ids=str)
def test_all_rows_with_own_draws_is_saem_in_distribution(solver, global_random_seed):
    """First and second moments of the statistics, over many seeds."""

    def last(solver):
        found = [
            iterates(
                solver,
                4,
                sampler=ExactDraws(1),
                step_size=DECREASING,
                params=FAR,
                seed=1000 * global_random_seed + seed,
            )[-1]
            for seed in range(100)
        ]
        return np.array(found)

    reference, found = last(FullBatch()), last(solver)
    centre = reference.mean(axis=0)

    def distance(found):
        pairs = [
            np.hstack([values - centre, (values - centre) ** 2])
            for values in (reference, found)
        ]
        errors = [p.std(axis=0, ddof=1) / np.sqrt(len(p)) for p in pairs]
        difference = pairs[0].mean(axis=0) - pairs[1].mean(axis=0)
        return np.max(np.abs(difference) / np.hypot(*errors))

    assert distance(found) < 4.5
    if isinstance(solver, ISAEM):
        assert distance(last(TooSmallShare())) > 9


# ------------------------------------------------------------------------- memory


def table_mean(state):
    """Return the mean over the table of remembered latents, row by row."""
    model = Recording()
    rows = [
        [
            model.mean_statistics(X[i : i + 1], z[None])
            for z in state.own.latents.get([i])[0]
        ]
        for i in range(N)
    ]
    return np.mean([np.mean(row, axis=0) for row in rows], axis=0)


class RedrawsTheOldValue(FITTEM):
    """Draws the old value of the second set again instead of looking it up."""

    def proxy(self, state, expectation, batches, params):
        first, second = batches
        now = expectation.statistics(first, params, state.iteration)
        memory = state.own
        proxy = memory.mean + now - expectation.remembered(first, memory.latents)
        Z = expectation.draw(second.rows, params, state.iteration)
        old = expectation.draw(second.rows, params, state.iteration)
        share = type(second)(second.rows, expectation.shares(second.rows))
        change = expectation.of(share, Z) - expectation.of(share, old)
        memory.mean = memory.mean + change
        memory.latents.put(second.rows, Z)
        return proxy


def test_all_rows_need_no_remembered_statistics(monkeypatch):
    monkeypatch.setattr(Expectation, "remembered", None)
    options = {"sampler": ExactDraws(2), "batch_size": N, "max_passes": 5}
    state = run_solver(ISAEM(), X, **options).solver
    np.testing.assert_allclose(state.own.mean, table_mean(state), atol=1e-12)
    with pytest.raises(TypeError):
        run_solver(ISAEM(), X, model=Recording(), batch_size=4, max_passes=2)


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("solver", [ISAEM(), FITTEM()], ids=str)
def test_running_mean_is_the_mean_of_the_table(solver, batch_size, global_random_seed):
    options = {
        "sampler": ExactDraws(2),
        "step_size": DECREASING,
        "batch_size": batch_size,
        "max_passes": 40,
        "seed": global_random_seed,
    }
    state = run_solver(solver, X, **options).solver
    assert state.iteration > 100
    np.testing.assert_allclose(state.own.mean, table_mean(state), atol=1e-10)
    state = run_solver(RedrawsTheOldValue(), X, **options).solver
    assert np.abs(state.own.mean - table_mean(state)).max() > 1e-3


def test_fittem_updates_its_memory_by_the_second_set_only():
    """Rows of the first set keep what they had."""
    drawn = []

    class Watched(FITTEM):
        def proxy(self, state, expectation, batches, params):
            before = state.own.latents.values.copy()
            result = super().proxy(state, expectation, batches, params)
            changed = (state.own.latents.values != before).any(axis=(1, 2))
            drawn.append([batch.rows.tolist() for batch in batches])
            np.testing.assert_array_equal(
                np.flatnonzero(changed), np.sort(batches[1].rows)
            )
            return result

    run_solver(Watched(), X, sampler=ExactDraws(2), batch_size=3, max_passes=20)
    first, second = (np.array(sets) for sets in zip(*drawn, strict=True))
    # Independent sets: a row of one is in the other with probability 3 / 30.
    both = [len(set(a) & set(b)) for a, b in zip(first, second, strict=True)]
    assert standard_errors(both, 3 * 3 / N) < 4.5


def test_the_anchor_is_remembered_only_where_it_has_to_be():
    exact = run_solver(VRTTEM(), X, batch_size=5).solver
    assert exact.own.latents is None
    assert exact.own.params is not None
    drawn = run_solver(VRTTEM(), X, sampler=ExactDraws(2), batch_size=5).solver
    np.testing.assert_allclose(drawn.own.mean, table_mean(drawn), atol=1e-12)


# ------------------------------------------------------------------ noise of proxies


def proxies(solver, n):
    """Return proxies of independent batches at the start's parameters."""
    found = []

    class Watched(type(solver)):
        def proxy(self, state, expectation, batches, params):
            found.append(super().proxy(state, expectation, batches, START))
            return found[-1]

    watched = Watched(**solver.get_params())
    for seed in range(n):
        run_solver(
            watched,
            X,
            sampler=ExactDraws(1),
            batch_size=3,
            max_passes=3,
            seed=seed,
            on_epoch=stop_after(1),
        )
    return np.array(found).reshape(n, -1, 3)


@pytest.mark.parametrize("solver", [OnlineEM(), VRTTEM(), FITTEM(), ISAEM()], ids=str)
def test_proxies_are_unbiased(solver):
    """At fixed parameters a proxy has the mean of the full E-step."""
    found = proxies(solver, n=100)
    assert standard_errors(found[:, 4], expected_statistics(X, START)).max() < 4.5


# ---------------------------------------------------------------------- parameters


def test_rho():
    assert VRTTEM().step_rho(1000, 1) == pytest.approx(0.01)
    assert FITTEM().step_rho(80_000, 10) == pytest.approx(1 / 400)
    assert FITTEM(rho=0.3).step_rho(1000, 1) == 0.3
    assert ISAEM().step_rho(1000, 1) == 1.0


@pytest.mark.parametrize("rho", [0, -0.1, 1.5, "fast", None, float("nan")])
@pytest.mark.parametrize("solver", [VRTTEM, FITTEM])
def test_wrong_rho(solver, rho):
    with pytest.raises(ValueError, match=r'rho must be "auto" or in \(0, 1\]'):
        run_solver(solver(rho=rho), X)


@pytest.mark.parametrize("length", [0, -3, 2.5, "epoch"])
def test_wrong_epoch_length(length):
    with pytest.raises(ValueError, match="epoch_length must be a positive integer"):
        run_solver(VRTTEM(epoch_length=length), X)


@pytest.mark.parametrize("name", SOLVERS)
def test_registry_and_protocol(name):
    cls, sampler, _ = SOLVERS[name]
    solver = cls()
    assert isinstance(solver, Solver)
    settings = dict(vars(solver))
    run_solver(solver, X, batch_size=5, max_passes=3)
    assert vars(solver) == settings  # a solver holds settings only
    for copied in (clone(solver), pickle.loads(pickle.dumps(solver))):
        assert copied.get_params() == solver.get_params()
        assert repr(copied) == repr(solver)
    exact, mc = ExactExpectation(), ExactDraws()
    if cls is OnlineEM:
        assert solver.default_step_size(exact)(1) == pytest.approx(3**-0.6)
    else:
        assert solver.default_step_size(exact)(9) == 1
        assert solver.default_step_size(mc)(9) == pytest.approx(1 / 3)


@pytest.mark.parametrize("weighted", [False, True])
def test_exact_vrttem_takes_differences_from_the_parameters_of_its_anchor(weighted):
    """Values of the anchor are those of its own parameters."""
    weights = (
        np.random.default_rng(0).integers(1, 4, len(X)) * 1.0 if weighted else None
    )
    now = RandomInterceptParams(1.0, 0.7, 1.3)
    rows = np.arange(3, 20)
    generators = spawn_generators(0)
    expectation = Expectation(
        RandomInterceptModel(), ExactExpectation(), X, weights, generators
    )
    batch = Batch(rows, np.full(len(rows), 1.0 / len(rows)))
    anchor = Anchor(expected_statistics(X, START, weights), params=START)
    state = SolverState(iteration=3, own=anchor)
    proxy = VRTTEM().proxy(state, expectation, (batch,), now)
    change = expected_statistics(X[rows], now) - expected_statistics(X[rows], START)
    np.testing.assert_allclose(proxy, anchor.mean + change, rtol=1e-12)


def test_batches_of_weighted_rows_count_a_row_as_often_as_it_was_drawn(
    global_random_seed,
):
    """Rows are drawn by their weights, with replacement: the mean has no bias."""
    weights = np.random.default_rng(1).integers(1, 20, len(X)) * 1.0
    expectation = Expectation(
        RandomInterceptModel(), ExactExpectation(), X, weights, spawn_generators(0)
    )
    selector = RowSelector(len(X), len(X) // 2, "fixed", expectation.weights)
    rng = np.random.default_rng(global_random_seed)
    means = []
    for _ in range(400):
        batch = selector.next(rng)
        total = batch.coefficients.sum()
        means.append(expectation.statistics(batch, START, 1) / total)
    expected = expected_statistics(X, START, weights)
    assert standard_errors(means, expected).max() < LIMIT
