"""The returned iterate: last, average of statistics, or random."""

import numpy as np
import pytest

from sktem.loop.iterates import IterateRule, check_average
from sktem.loop.loop import run
from sktem.loop.state import Phase
from sktem.samplers import ExactDraws
from sktem.schedules import Constant, Polynomial
from sktem.solvers import FITTEM, ISAEM, FullBatch
from tests.oracles import (
    Recording,
    chi_square_p,
    m_step,
    random_intercept_data,
    run_solver,
    start_run,
)

X = random_intercept_data(0, n_rows=20)
SOLVERS = [FullBatch(), ISAEM(), FITTEM()]


def recorded_run(solver, **options):
    model = Recording()
    state = run_solver(
        solver, X, model=model, sampler=ExactDraws(2), batch_size=4, **options
    )
    per_epoch = np.diff([0, *state.history.n_iterations])
    iterates = model.seen[: per_epoch.sum()]
    epochs = np.repeat(np.arange(len(per_epoch)), per_epoch)  # finished before it
    return state, model, np.array(iterates), epochs


@pytest.mark.parametrize("solver", SOLVERS)
def test_last(solver):
    state, model, iterates, _ = recorded_run(solver)
    np.testing.assert_array_equal(state.returned, iterates[-1])
    assert state.params == m_step(iterates[-1])
    assert len(model.seen) == len(iterates)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("average", [0, 1, 3, True])
def test_average(solver, average):
    state, model, iterates, epochs = recorded_run(solver, average=average, max_passes=8)
    chosen = iterates[epochs >= int(average)]
    assert 0 < len(chosen) <= len(iterates)
    np.testing.assert_allclose(state.returned, chosen.mean(axis=0), rtol=1e-12)
    # One M-step at the end, from the average.
    assert len(model.seen) == len(iterates) + 1
    np.testing.assert_allclose(state.params, m_step(chosen.mean(axis=0)), rtol=1e-12)
    # It is not the average of the parameters: variances are not linear in statistics.
    of_params = np.mean([m_step(s) for s in chosen], axis=0)
    assert np.abs(of_params - state.params).max() > 1e-8


def test_average_later_than_the_run_is_the_last():
    state, _, iterates, _ = recorded_run(FullBatch(), average=50)
    np.testing.assert_array_equal(state.returned, iterates[-1])


@pytest.mark.parametrize("average", [False, np.False_])
def test_false_in_any_form_is_the_last(average):
    state, _, iterates, _ = recorded_run(FullBatch(), average=check_average(average))
    np.testing.assert_array_equal(state.returned, iterates[-1])


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_tail_average_has_known_weights(n):
    """Iterate k has the weight k (k + 1) (k + 2), as the products of steps give."""
    iterates = np.random.default_rng(n).standard_normal((n, 3))
    rule = IterateRule("tail")
    for s in iterates:
        rule.add(s)
    k = np.arange(1.0, n + 1)
    weights = k * (k + 1) * (k + 2)
    expected = weights @ iterates / weights.sum()
    np.testing.assert_allclose(rule.result(None), expected, rtol=1e-12)


class Falls(Constant):
    """Step 1 in the burn-in, and one half after it."""

    def in_phase(self, phase):
        return self if phase.burn_in_end is None else Constant(0.5)


def test_schedule_and_average_follow_the_phase_of_the_run():
    model = Recording()
    settings, state = start_run(
        FullBatch(), X, model=model, sampler=ExactDraws(2), step_size=Falls(),
        max_passes=8,
    )  # fmt: skip
    state.enter(Phase())

    def on_epoch(state):
        if len(state.history) == 3:
            state.enter(Phase(state.solver.iteration, average=5))

    run(settings, X, state, on_epoch=on_epoch)
    assert state.history.step_size == [1.0] * 3 + [0.5] * 5
    np.testing.assert_allclose(state.returned, np.mean(model.seen[5:8], axis=0))


def random_choices(n_runs, schedule, lengths, seed):
    """Return how often each iterate is the random one, iterations cut in segments."""
    counts = np.zeros(sum(lengths))
    rng = np.random.default_rng(seed)
    for _ in range(n_runs):
        rule, done, chosen = IterateRule("random"), 0, None
        for length in lengths:
            gammas = np.array([schedule(done + k) for k in range(1, length + 1)])
            taken = rule.segment(gammas, rng)
            chosen = chosen if taken is None else done + taken
            done += length
        counts[chosen - 1] += 1
    return counts


@pytest.mark.parametrize("lengths", [[12], [1] * 12, [5, 1, 6]])
def test_random_is_proportional_to_the_steps(lengths, global_random_seed):
    schedule = Polynomial(alpha=0.5)
    gammas = schedule(np.arange(1, 13))
    counts = random_choices(1000, schedule, lengths, global_random_seed)
    assert chi_square_p(counts, gammas) > 1e-5
    assert chi_square_p(counts, np.ones(12)) < 1e-8  # uniform is something else


def test_random_in_a_run(global_random_seed):
    schedule = Polynomial(alpha=1.0)
    counts = np.zeros(6)
    small = X[:5]
    for seed in range(150):
        model = Recording()
        state = run_solver(
            ISAEM(),
            small,
            model=model,
            average="random",
            step_size=schedule,
            batch_size=2,
            max_passes=3.4,
            seed=1000 * global_random_seed + seed,
        )
        iterates = np.array(model.seen[:-1])
        assert len(iterates) == 6
        [k] = np.flatnonzero((iterates == state.returned).all(axis=1))
        assert state.params == m_step(iterates[k])
        counts[k] += 1
    assert chi_square_p(counts, schedule(np.arange(1, 7))) > 1e-5
    assert chi_square_p(counts, np.ones(6)) < 1e-8


def test_random_choice_leaves_the_iterations_alone():
    *_, plain, _ = recorded_run(FITTEM())
    *_, random, _ = recorded_run(FITTEM(), average="random")
    np.testing.assert_array_equal(plain, random[: len(plain)])


@pytest.mark.parametrize("average", [-1, 0.5, "last", None, [1]])
def test_wrong_average(average):
    with pytest.raises(ValueError, match="average must be"):
        check_average(average)
