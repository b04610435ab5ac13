"""Algorithm 1: passes, convergence, interrupts, resuming, weights."""

import pickle

import numpy as np
import pytest

from sktem.loop.loop import run
from sktem.models import RandomInterceptModel
from sktem.samplers import (
    MALA,
    ULA,
    ExactDraws,
    ExactExpectation,
    GrowingDraws,
    RandomWalk,
    positions,
)
from sktem.schedules import Polynomial
from sktem.solvers import FITTEM, ISAEM, VRTTEM, FullBatch, OnlineEM
from tests.oracles import (
    LIMIT,
    START,
    Counting,
    Fused,
    Interrupting,
    Recording,
    closed_form_mle,
    expected_statistics,
    m_step,
    random_intercept_data,
    run_solver,
    standard_errors,
    start_run,
    stop_after,
    student_limit,
)

N = 60
X = random_intercept_data(2, n_rows=N)
SOLVERS = [FullBatch(), OnlineEM(), ISAEM(), VRTTEM(), FITTEM()]
SAMPLERS = [ExactExpectation(), ExactDraws(2), RandomWalk(), MALA(), ULA(step=0.05)]
OF_SOLVER = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
OF_SAMPLER = pytest.mark.parametrize(
    "sampler", SAMPLERS, ids=lambda s: type(s).__name__
)
EVERYTHING = slice(0, N)

# ------------------------------------------------------------------ passes over data

# Passes before the first iteration, and rows of an iteration over the batch size.
COSTS = [
    (OnlineEM(), ExactExpectation(), 1, 1),  # of so few rows it takes all to start
    (OnlineEM(), ExactDraws(2), 1, 1),
    (ISAEM(), ExactExpectation(), 1, 1),
    (ISAEM(), ExactDraws(2), 1, 1),
    (VRTTEM(epoch_length=10**6), ExactExpectation(), 1, 2),
    (VRTTEM(epoch_length=10**6), ExactDraws(2), 1, 1),
    (FITTEM(), ExactExpectation(), 1, 2),
    (FITTEM(), ExactDraws(2), 1, 2),
]


def monitored_rows(state, sampler):
    return len(state.history) * N * (1 if sampler.deterministic else 2)


@pytest.mark.parametrize("solver, sampler, start, factor", COSTS)
@pytest.mark.parametrize("batch_size", [1, 7, 60])
def test_visits_are_counted_honestly(solver, sampler, start, factor, batch_size):
    model = Counting()
    state = run_solver(
        solver, X, model=model, sampler=sampler, batch_size=batch_size, max_passes=4
    )
    iterations = state.history.n_iterations[-1]
    by_hand = start * N + iterations * factor * batch_size
    assert state.history.passes[-1] * N == pytest.approx(by_hand)
    assert state.rows_visited == by_hand
    assert sum(model.visits) == by_hand + monitored_rows(state, sampler)
    # All that fits in is done, and not more.
    assert 0 <= 4 * N - by_hand < factor * batch_size


@pytest.mark.parametrize("batch_size, first", [(1, 1000), (1200, 1200)])
def test_online_em_starts_from_some_rows(batch_size, first):
    data = random_intercept_data(3, n_rows=2500)
    model = Counting()
    state = run_solver(
        OnlineEM(), data, model=model, batch_size=batch_size, on_epoch=stop_after(1)
    )
    assert model.visits[0] == first
    iterations = state.history.n_iterations[0]
    assert state.rows_visited == first + iterations * batch_size


@pytest.mark.parametrize("sampler", SAMPLERS[:2], ids=["exact", "mc"])
@pytest.mark.parametrize("length", [None, 7, 4, 25])
def test_anchors_are_counted_and_in_place(sampler, length):
    b, factor = 6, 2 if sampler.deterministic else 1
    period = 10 if length is None else length
    model, at = Counting(), []

    class Watched(VRTTEM):
        def refresh(self, state, expectation, params):
            at.append((state.iteration, params))
            super().refresh(state, expectation, params)

    recorded = Recording()
    for chosen in (model, recorded):
        at.clear()
        state = run_solver(
            Watched(epoch_length=length),
            X,
            model=chosen,
            sampler=sampler,
            batch_size=b,
            max_passes=7.5,
        )
    iterations = state.history.n_iterations[-1]
    assert [k for k, _ in at] == list(range(0, iterations, period))
    visits = len(at) * N + iterations * factor * b
    assert state.rows_visited == visits <= 7.5 * N
    assert sum(model.visits) == visits + monitored_rows(state, sampler)
    # The anchor is at the parameters of that moment.
    assert at[0][1] == START
    for k, params in at[1:]:
        assert params == m_step(recorded.seen[k - 1])


@OF_SOLVER
@pytest.mark.parametrize("sampler", SAMPLERS[:3], ids=["exact", "mc", "rwm"])
@pytest.mark.parametrize("sampling", ["fixed", "shuffle"])
@pytest.mark.parametrize("weights", [False, True], ids=["plain", "weights"])
def test_never_above_the_asked_passes(solver, sampler, sampling, weights):
    sample_weight = np.arange(1.0, N + 1) if weights else None
    for max_passes in (0, 1, 2, 5):
        state = run_solver(
            solver,
            X,
            sampler=sampler,
            batch_size=7,
            sampling=sampling,
            max_passes=max_passes,
            sample_weight=sample_weight,
        )
        assert state.rows_visited <= max_passes * N
        passes = np.array([0.0, *state.history.passes])
        assert (np.diff(passes) > 0).all()
        assert passes[-1] <= max_passes
        if max_passes == 1 and solver.remembers_rows:
            assert state.rows_visited == N  # the initial pass and nothing more
            assert state.params == m_step(state.returned)
        if max_passes == 0:
            assert state.params == START


def test_inclusion_keeps_to_the_passes_in_the_mean(global_random_seed):
    passes = [
        run_solver(
            OnlineEM(),
            X,
            batch_size=10,
            sampling="inclusion",
            max_passes=2,
            seed=1000 * global_random_seed + seed,
            on_epoch=stop_after(2),
        ).rows_visited
        / N
        for seed in range(40)
    ]
    assert max(passes) < 2 + 3 * np.sqrt(2 / N)


def test_epochs_and_iterations():
    state = run_solver(ISAEM(), X, batch_size=8, max_passes=3.2)
    # An epoch is 60 / 8 iterations, rounded up; 2.2 passes are left for 16.
    assert state.history.n_iterations == [8, 16]
    state = run_solver(FullBatch(), X, batch_size=8, max_passes=3)
    assert state.history.n_iterations == [1, 2, 3]


def test_history_has_one_entry_for_each_epoch():
    state = run_solver(
        ISAEM(), X, sampler=RandomWalk(), step_size=Polynomial(0.5), batch_size=10
    )
    history, k = state.history, 6 * np.arange(1, 5)
    for name in ("passes", "objective", "mean_field", "acceptance_rate", "cpu_time"):
        assert len(getattr(history, name)) == len(history) == 4
    assert history.n_iterations == k.tolist()
    np.testing.assert_allclose(history.step_size, k**-0.5)
    assert (np.diff(history.cpu_time) >= 0).all()
    assert all(0 < rate < 1 for rate in history.acceptance_rate)
    exact = run_solver(ISAEM(), X, batch_size=10)
    assert np.isnan(exact.history.acceptance_rate).all()


# ----------------------------------------------------------------- empty batches

INCLUSION = {"sampling": "inclusion", "batch_size": 1}


@OF_SOLVER
@OF_SAMPLER
def test_empty_batches_do_no_harm(solver, sampler, global_random_seed):
    maximum = START
    for _ in range(100):
        maximum = m_step(expected_statistics(X, maximum))
    model = RandomInterceptModel()
    best = model.log_likelihood(X, maximum).mean()
    for seed in range(3):
        state = run_solver(
            solver,
            X,
            sampler=sampler,
            step_size=0.5,
            max_passes=3,
            seed=10 * global_random_seed + seed,
            params=m_step(expected_statistics(X, START)),
            **INCLUSION,
        )
        assert np.isfinite(state.returned).all()
        # Single rows at step 1/2 leave online EM anywhere, the others near the maximum.
        if not isinstance(solver, OnlineEM):
            params = m_step(model.project(state.returned)[0])
            assert best - model.log_likelihood(X, params).mean() < 0.3
        if sampler.markov:
            assert np.isfinite(state.history.acceptance_rate).all()


def test_empty_first_batch_of_online_em():
    class Never(np.random.Generator):
        """Draws uniforms that include no row, for a while."""

        empty = 3

        def random(self, *args, **kwargs):
            self.empty -= 1
            values = super().random(*args, **kwargs)
            return np.ones_like(values) if self.empty >= 0 else values

    settings, state = start_run(OnlineEM(), X, step_size=0.5, **INCLUSION)
    state.generators.indices = Never(np.random.PCG64(0))
    run(settings, X, state, on_epoch=stop_after(1))
    assert np.isfinite(state.returned).all()
    assert state.history.n_iterations == [N]


def test_an_empty_batch_teaches_online_em_nothing():
    model = Recording()
    run_solver(OnlineEM(), X, model=model, step_size=0.5, max_passes=3, **INCLUSION)
    s = np.array(model.seen)
    settings, state = start_run(OnlineEM(), X, step_size=0.5, max_passes=3, **INCLUSION)
    included = [(state.generators.indices.random(N) < 1 / N).any() for _ in s]
    assert 0.2 < np.mean(included[1:]) < 0.9
    still = (np.diff(s, axis=0) == 0).all(axis=1)
    first = included.index(True)
    np.testing.assert_array_equal(~still[first:], included[first + 1 :])


# ------------------------------------------------------------------------- weights

REPEATS = 1 + 3 * (X.mean(axis=1) > 2) + np.arange(N) % 2
WEIGHTS = REPEATS / 2.0
REPEATED = np.repeat(X, REPEATS, axis=0)


@pytest.mark.parametrize("model", [RandomInterceptModel, Fused])
def test_em_with_weights_is_em_with_repeated_rows(model):
    weighted, repeated = Recording(), Recording()
    weighted.__class__ = repeated.__class__ = type("R", (Recording, model), {})
    run_solver(FullBatch(), X, model=weighted, max_passes=6, sample_weight=WEIGHTS)
    run_solver(FullBatch(), REPEATED, model=repeated, max_passes=6)
    np.testing.assert_allclose(weighted.seen, repeated.seen, rtol=1e-12)
    plain = run_solver(FullBatch(), X, max_passes=6)
    assert np.abs(plain.returned - weighted.seen[-1]).max() > 0.01


@pytest.mark.parametrize("sampling", ["fixed", "shuffle", "inclusion"])
@pytest.mark.parametrize(
    "solver", [ISAEM(), VRTTEM(), FITTEM()], ids=lambda s: type(s).__name__
)
def test_weights_lead_to_the_fixed_point_of_repeated_rows(solver, sampling):
    state = run_solver(
        solver,
        X,
        batch_size=6,
        sampling=sampling,
        max_passes=150,
        sample_weight=WEIGHTS,
    )
    expected = closed_form_mle(REPEATED)
    np.testing.assert_allclose(state.params, expected, rtol=1e-8)
    np.testing.assert_allclose(closed_form_mle(X, WEIGHTS), expected, rtol=1e-12)
    assert np.abs(closed_form_mle(X) - expected).max() > 0.01


@pytest.mark.parametrize("sampling", ["fixed", "shuffle", "inclusion"])
def test_online_em_with_weights(sampling, global_random_seed):
    def errors(weights):
        return [
            run_solver(
                OnlineEM(),
                X,
                batch_size=20,
                step_size=Polynomial(0.6, offset=2),
                sampling=sampling,
                max_passes=100,
                average=10,
                sample_weight=weights,
                seed=100 * global_random_seed + seed,
                on_epoch=stop_after(40),
            ).params
            for seed in range(8)
        ]

    expected, limit = closed_form_mle(REPEATED), student_limit(8)
    assert standard_errors(errors(WEIGHTS), expected).max() < limit
    if sampling == "fixed":
        assert standard_errors(errors(None), expected).max() > 2 * limit


# ------------------------------------------------------------- convergence, objective


@pytest.mark.parametrize("tol", [1e-3, 1e-8])
def test_em_stops_at_the_asked_change(tol):
    state = run_solver(FullBatch(), X, model=Fused(), max_passes=500, tol=tol)
    change = np.diff(state.history.objective)
    assert state.converged
    # EM never decreases the likelihood.
    assert 0 <= change[-1] < tol
    assert (change[:-1] >= tol).all()
    best = Fused().log_likelihood(X, m_step(state.returned)).mean()
    assert 0 <= best - state.history.objective[-1] < tol


def first_stop(objective, tol, patience):
    """Return after how many epochs the objective has not risen for so long."""
    best, stale = -np.inf, 0
    for epoch, value in enumerate(objective, start=1):
        stale = 0 if value >= best + tol else stale + 1
        best = max(best, value)
        if stale == patience:
            return epoch
    return None


@OF_SOLVER
def test_noisy_runs_stop_after_patience(solver):
    state = run_solver(
        solver,
        X,
        sampler=ExactDraws(5),
        step_size=Polynomial(0.7),
        batch_size=6,
        max_passes=500,
        tol=1e-3,
    )
    assert state.converged
    # Passes with exact expectations follow, which take the noise out.
    assert state.judged_from == first_stop(state.history.objective, 1e-3, 3)
    assert len(state.history) > state.judged_from


def test_without_a_likelihood_the_mean_field_decides():
    class NoLikelihood(RandomInterceptModel):
        log_likelihood = None

    for solver in (FullBatch(), ISAEM()):
        state = run_solver(
            solver, X, model=NoLikelihood(), batch_size=6, max_passes=400, tol=1e-5
        )
        s = state.returned
        field = expected_statistics(X, m_step(s)) - s
        assert state.converged
        assert np.isnan(state.history.objective).all()
        assert np.sqrt(field @ field / (s @ s)) < 1e-5
        assert state.history.mean_field[-1] == pytest.approx(field @ field, rel=1e-6)


@pytest.mark.parametrize("mean_field, stops", [(-1.0, False), (0.0, True)])
def test_a_mean_field_far_below_zero_is_noise(monkeypatch, mean_field, stops):
    """The unbiased estimate of a square can be negative, by as much as its noise."""

    class NoLikelihood(RandomInterceptModel):
        log_likelihood = None

    measured = lambda *_: (float("nan"), mean_field)  # noqa: E731
    monkeypatch.setattr("sktem.loop.monitor.Monitor.measure", measured)
    state = run_solver(
        ISAEM(), X, model=NoLikelihood(), batch_size=6, max_passes=20, tol=1e-2
    )
    assert state.converged == stops


def test_no_tolerance_means_all_passes():
    state = run_solver(FullBatch(), X, max_passes=70)
    assert not state.converged
    assert state.rows_visited == 70 * N


def test_infeasible_proxies_are_mended_and_counted():
    """A hostile start leads the differences of fitTEM out of the feasible set."""
    far = START._replace(noise_variance=50.0)
    options = {"sampler": ExactDraws(1), "max_passes": 10}
    model = Recording()
    state = run_solver(FITTEM(rho=1.0), X, model=model, params=far, **options)
    assert state.history.events["infeasible"] > 0
    s = np.array(model.seen)
    assert np.isfinite(s).all()
    assert (s[:, 1] > s[:, 0] ** 2).all()
    assert (s[:, 2] > 0).all()
    # Averages of what rows have given need no mending.
    state = run_solver(ISAEM(), X, params=far, **options)
    assert state.history.events["infeasible"] == 0


def test_degeneracies_are_counted():
    class Frozen(RandomInterceptModel):
        def degeneracies(self, params):
            return 2

    state = run_solver(FullBatch(), X, model=Frozen(), max_passes=3)
    assert state.history.events["degenerate"] == 6


# ----------------------------------------------------------------------- interrupts


@OF_SOLVER
@pytest.mark.parametrize("at", [1, 5, 17, 23])
def test_interrupt_leaves_the_last_finished_epoch(solver, at):
    """Ten iterations make an epoch; full batches make one each."""
    options = {"sampler": ExactDraws(2), "batch_size": 6, "max_passes": 40}
    model = Interrupting(at)
    state = run_solver(solver, X, model=model, **options)
    assert state.interrupted
    assert model.calls == at
    per_epoch = 1 if isinstance(solver, FullBatch) else 10
    finished = (at - 1) // per_epoch * per_epoch
    assert len(state.history) == finished // per_epoch
    if finished:
        assert state.params == model.seen[finished - 1]
        assert m_step(state.returned) == state.params
        # The same as a run that was asked to stop there.
        stopped = run_solver(
            solver, X, on_epoch=stop_after(finished // per_epoch), **options
        )
        assert stopped.params == state.params
        assert stopped.rows_visited == state.rows_visited
    else:
        assert state.params == START


def test_interrupt_with_an_average():
    """Of an unfinished average the last finished epoch is the safe choice."""
    model = Interrupting(37)
    state = run_solver(
        ISAEM(), X, model=model, batch_size=6, max_passes=40, average=True
    )
    assert state.params == model.seen[29] == m_step(state.returned)


# ---------------------------------------------------------- same bits, and resuming


def bits(state):
    """Return what a run has found and recorded, but for the time it took."""
    records = {k: v for k, v in vars(state.history).items() if k != "cpu_time"}
    words = [records.pop(name) for name in ("events", "solver", "sampler")]
    found = [state.params, state.returned, *records.values()]
    if state.chains is not None:
        found.append(positions(state.chains.get(EVERYTHING)))
    return [np.array(values, dtype=float).tobytes() for values in found], words


RESUMED = [
    (solver, sampler, {})
    for solver in SOLVERS
    for sampler in (ExactExpectation(), ExactDraws(2), RandomWalk(n_chains=2))
] + [
    (FITTEM(), ExactDraws(2), {"sampling": "shuffle"}),
    (VRTTEM(epoch_length=13), MALA(), {"sampling": "shuffle", "average": 2}),
    (ISAEM(), ULA(step=0.05), {"sampling": "inclusion", "average": "random"}),
    (FullBatch(), ExactDraws(3), {"average": 1, "tol": 1e-2}),
    (OnlineEM(), ExactDraws(3), {"average": 1, "tol": 1e-2}),
    (ISAEM(), ExactDraws(GrowingDraws(initial=1)), {}),
]


@pytest.mark.parametrize("solver, sampler, options", RESUMED)
def test_resuming_gives_the_same_bits(solver, sampler, options):
    options = {
        "sampler": sampler,
        "step_size": Polynomial(0.5),
        "batch_size": 7,
        "max_passes": 9,
        **options,
    }
    saved = []
    settings, state = start_run(solver, X, **options)
    whole = run(settings, X, state, on_epoch=lambda s: saved.append(pickle.dumps(s)))
    assert len(saved) == len(whole.history) >= 3
    for checkpoint in (saved[0], saved[len(saved) // 2]):
        state = pickle.loads(checkpoint)
        cpu_time = state.cpu_time
        resumed = run(settings, X, state)
        assert bits(resumed) == bits(whole)
        assert resumed.history.cpu_time[-1] >= cpu_time


def test_a_run_that_ends_with_em_is_resumed_anywhere():
    options = {"step_size": Polynomial(0.6), "batch_size": 7, "max_passes": 500}
    settings, state = start_run(OnlineEM(), X, tol=1e-6, **options)
    saved = []
    whole = run(settings, X, state, on_epoch=lambda s: saved.append(pickle.dumps(s)))
    assert whole.converged
    assert 0 < whole.judged_from < len(whole.history) - 1
    for checkpoint in saved[whole.judged_from - 2 :]:
        resumed = run(settings, X, pickle.loads(checkpoint))
        assert bits(resumed) == bits(whole)


def test_a_run_that_ends_by_extrapolated_steps_is_resumed_anywhere():
    X = np.random.default_rng(0).normal(size=(200, 3))  # no intercepts: EM is slow
    settings, state = start_run(
        FullBatch(), X, tol=1e-5, max_passes=500, extrapolates=True
    )
    saved = []
    whole = run(settings, X, state, on_epoch=lambda s: saved.append(pickle.dumps(s)))
    assert whole.converged
    assert whole.accelerated
    assert 0 < whole.judged_from < len(whole.history) - 1
    for checkpoint in saved[whole.judged_from - 2 :]:
        resumed = run(settings, X, pickle.loads(checkpoint))
        assert bits(resumed) == bits(whole)


def test_rows_do_not_depend_on_the_sampler():
    seen = []

    class Watched(ISAEM):
        def proxy(self, state, expectation, batches, params):
            seen[-1].append(batches[0].rows.tolist())
            return super().proxy(state, expectation, batches, params)

    for sampler in (*SAMPLERS, ExactDraws(7)):
        seen.append([])
        run_solver(Watched(), X, sampler=sampler, batch_size=4, step_size=0.5)
    assert len(seen[0]) > 50
    assert all(rows == seen[0] for rows in seen)


# ----------------------------------------------------------------- growing draws


@OF_SOLVER
def test_growing_draws(solver):
    """The number of draws follows the iteration, also where old draws are kept."""
    draws = GrowingDraws(initial=2, power=0.8, maximum=20)
    asked = []

    class Watched(RandomInterceptModel):
        def draw_posterior(self, X, params, n_draws, rng):
            asked.append(n_draws)
            return super().draw_posterior(X, params, n_draws, rng)

    state = run_solver(
        solver,
        X,
        model=Watched(),
        sampler=ExactDraws(draws),
        step_size=0.5,
        batch_size=6,
        max_passes=12,
    )
    iterations = state.history.n_iterations[-1]
    assert set(asked) <= {draws(k) for k in range(1, iterations + 1)}
    assert max(asked) == draws(iterations) > 5
    assert standard_errors([state.params] * 2 + [START], START).max() < np.inf


def test_growing_draws_let_monte_carlo_em_converge(global_random_seed):
    """With step 1, the error falls with the number of draws and not else."""

    def squared_error(n_draws):
        return np.mean(
            [
                (
                    np.subtract(
                        run_solver(
                            FullBatch(),
                            X,
                            sampler=ExactDraws(n_draws),
                            max_passes=40,
                            seed=100 * global_random_seed + seed,
                        ).params,
                        closed_form_mle(X),
                    )
                    ** 2
                ).sum()
                for seed in range(10)
            ]
        )

    growing = GrowingDraws(initial=2, power=1.0, maximum=10**6)
    ratio = squared_error(2) / squared_error(growing)
    assert growing(40) == 80
    # 40 times the draws at the end; both errors are means over 30 squares.
    assert 15 < ratio < 100
    assert LIMIT < ratio
