"""Objective and mean field, which has to be unbiased."""

import numpy as np
import pytest

from sktem.e_step.expectation import Expectation
from sktem.e_step.random import spawn_generators
from sktem.loop.monitor import Monitor, SampleSize, objective_of
from sktem.models import RandomInterceptModel
from sktem.samplers import ExactDraws, ExactExpectation, RandomWalk
from sktem.solvers import FITTEM, ISAEM, FullBatch
from tests.oracles import (
    LIMIT,
    START,
    Counting,
    Fused,
    expected_statistics,
    m_step,
    random_intercept_data,
    run_solver,
    standard_errors,
)

X = random_intercept_data(1, n_rows=240)
SORTED = X[np.argsort(X.mean(axis=1))]
WEIGHTS = np.random.default_rng(0).integers(1, 4, size=len(X)).astype(float)
# Close to the fixed point, where an uncorrected estimate is mostly noise.
S = expected_statistics(X, START) + np.array([0.05, 0.1, 0.02])


SMALL = 60  # rows of a sample


def exact_field(data, sample_weight=None):
    field = expected_statistics(data, m_step(S), sample_weight) - S
    return field @ field


def estimates(data, sampler, seed, *, model=None, weights=None, n=300, size=SMALL):
    model = RandomInterceptModel() if model is None else model
    found, naive = np.empty(n), np.empty(n)
    for i, child in enumerate(np.random.SeedSequence(seed).spawn(n)):
        generators = spawn_generators(child)
        expectation = Expectation(model, sampler, data, weights, generators)
        monitor = Monitor(len(data), generators.monitoring, size)
        _, found[i] = monitor.measure(expectation, m_step(S), S, 1)
        rows = np.arange(len(data)) if monitor.rows is None else monitor.rows
        Z, _ = sampler.draw(model, data[rows], None, m_step(S), generators)
        s = np.mean(
            [model.mean_statistics(data[rows], Z[:, m]) for m in range(Z.shape[1])],
            axis=0,
        )
        naive[i] = (s - S) @ (s - S)
    return found, naive


@pytest.mark.parametrize(
    "sampler", [ExactExpectation(), ExactDraws(2)], ids=["exact", "mc"]
)
@pytest.mark.parametrize("data", [X, SORTED], ids=["unordered", "sorted"])
def test_unbiased_on_a_sample(data, sampler, global_random_seed):
    found, naive = estimates(data, sampler, global_random_seed)
    assert standard_errors(found, exact_field(data)) < LIMIT
    assert standard_errors(naive, exact_field(data)) > 2 * LIMIT


def test_unbiased_on_a_sample_with_weights(global_random_seed):
    found, _ = estimates(X, ExactExpectation(), global_random_seed, weights=WEIGHTS)
    assert standard_errors(found, exact_field(X, WEIGHTS)) < LIMIT


def test_unbiased_with_draws_on_all_rows(global_random_seed):
    found, naive = estimates(X, ExactDraws(1), global_random_seed, size=len(X))
    assert standard_errors(found, exact_field(X)) < LIMIT
    assert standard_errors(naive, exact_field(X)) > 2 * LIMIT


@pytest.mark.parametrize("model", [RandomInterceptModel(), Fused()])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weights"])
def test_exact_without_noise(model, weights):
    generators = spawn_generators(0)
    expectation = Expectation(model, ExactExpectation(), X, weights, generators)
    monitor = Monitor(len(X), generators.monitoring, len(X))
    objective, mean_field = monitor.measure(expectation, m_step(S), S, 1)
    assert mean_field == pytest.approx(exact_field(X, weights), rel=1e-10)
    values = model.log_likelihood(X, m_step(S))
    assert objective == pytest.approx(np.average(values, weights=weights), rel=1e-12)
    assert monitor.rows_visited == len(X)
    assert expectation.rows_visited == 0


def test_fused_and_plain_agree_on_a_sample():
    results = []
    for model in (RandomInterceptModel(), Fused()):
        generators = spawn_generators(0)
        expectation = Expectation(model, ExactExpectation(), X, None, generators)
        monitor = Monitor(len(X), generators.monitoring, SMALL)
        assert monitor.rows_visited == 0
        results.append(monitor.measure(expectation, m_step(S), S, 1))
        assert monitor.rows_visited == 60
    np.testing.assert_allclose(*results, rtol=1e-10)


def test_the_sample_stays_the_same():
    monitor = Monitor(240, np.random.default_rng(0), 60)
    assert len(np.unique(monitor.rows)) == 60
    assert Monitor(50, np.random.default_rng(0), 50).rows is None


def test_size_of_the_sample():
    size = SampleSize(least=60)
    assert [size.of(n, False) for n in (50, 240, 4000)] == [50, 60, 200]
    assert size.of(10**7, True) == size.most_by_blocks < size.of(10**7, False)


def test_chains_and_streams_are_left_alone():
    """With or without monitoring, a run is the same to the last bit."""
    quiet = {"log_likelihood": None}

    class Silent(RandomInterceptModel):
        def __getattribute__(self, name):
            if name in quiet:
                raise AttributeError(name)
            return super().__getattribute__(name)

    def run(solver, sampler, model):
        return run_solver(
            solver, X, sampler=sampler, model=model, batch_size=30, max_passes=4
        )

    for sampler in (ExactDraws(2), RandomWalk()):
        for solver in (FullBatch(), ISAEM(), FITTEM()):
            states = [
                run(solver, sampler, model)
                for model in (RandomInterceptModel(), Silent())
            ]
            assert np.isnan(states[1].history.objective).all()
            assert np.isfinite(states[0].history.objective).all()
            np.testing.assert_array_equal(states[0].returned, states[1].returned)


def test_monitor_passes_are_separate():
    model = Counting()
    state = run_solver(
        ISAEM(), X, model=model, sampler=ExactDraws(2), batch_size=60, max_passes=4
    )
    epochs = len(state.history)
    assert state.history.passes[-1] == 4
    # Two sets of draws over all rows at each epoch.
    np.testing.assert_allclose(
        state.history.monitor_passes, 2 * np.arange(1, epochs + 1)
    )
    assert sum(model.visits) == (4 + 2 * epochs) * len(X)


def test_fused_full_batch_records_what_the_pass_found():
    """EM needs no monitoring: a pass gives objective and field before its M-step."""
    model = Fused()
    state = run_solver(FullBatch(), X, model=model, max_passes=4)
    params, s = START, None
    for epoch in range(4):
        new = expected_statistics(X, params)
        objective = model.log_likelihood(X, params).mean()
        assert state.history.objective[epoch] == pytest.approx(objective, rel=1e-12)
        if s is not None:
            field = (new - s) @ (new - s)
            assert state.history.mean_field[epoch] == pytest.approx(field, rel=1e-9)
        s, params = new, m_step(new)
    assert np.isnan(state.history.mean_field[0])
    assert state.history.monitor_passes == [0, 0, 0, 0]


@pytest.mark.parametrize("base", [RandomInterceptModel, Fused])
def test_penalty_enters_the_objective(base):
    class Penalised(base):
        def penalty(self, params):
            return 0.1 * params.variance

    assert objective_of(Penalised(), -2.0, START) == -2.0 - 0.1 * START.variance
    plain = run_solver(FullBatch(), X, model=base(), max_passes=3)
    penalised = run_solver(FullBatch(), X, model=Penalised(), max_passes=3)
    visited = [START]
    for _ in range(3):
        visited.append(m_step(expected_statistics(X, visited[-1])))
    at = visited[:3] if base is Fused else visited[1:]
    np.testing.assert_allclose(
        np.subtract(plain.history.objective, penalised.history.objective),
        [0.1 * params.variance for params in at],
        rtol=1e-9,
    )
