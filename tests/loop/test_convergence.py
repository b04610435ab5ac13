"""The stopping rule of noisy runs on progress that is known."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sktem import StochasticEM
from sktem.exceptions import FitWarning
from sktem.history import History
from sktem.loop.convergence import GAP_RULE, _left_to_gain, check_gap, creeps
from sktem.models import RandomInterceptModel
from sktem.models.random_intercept import RandomInterceptParams
from sktem.samplers import ExactExpectation, RandomWalk
from sktem.schedules import BurnInThenDecay, Constant
from sktem.solvers import FullBatch
from tests.oracles import closed_form_mle, random_intercept_data

SETTINGS = SimpleNamespace(
    tol=1e-4, patience=3, step_size=BurnInThenDecay(50, 0.6), sampler=RandomWalk()
)
STEPS = np.array([float(SETTINGS.step_size(k)) for k in range(1, 101)])


def fresh(stale_epochs=0):
    """Return the fields of a run's state that the rule reads and writes."""
    return SimpleNamespace(
        converged=False,
        stale_epochs=stale_epochs,
        hidden_by_noise=False,
        of_sample=True,  # which moves by noise
        judged_from=0,
        history=History(),
    )


def stop(gap, noise, seed):
    """Return whether and where a run ends whose distance to the maximum is given."""
    rng = np.random.default_rng(seed)
    state = fresh()
    for k in range(len(gap)):
        state.history.objective.append(noise * rng.standard_normal() - gap[k])
        state.history.step_size.append(STEPS[k])
        check_gap(state, SETTINGS, monotone=False)
        if state.converged:
            break
    return state, k


@pytest.mark.parametrize("rate", [0.9, 0.99, 0.999])
@pytest.mark.parametrize("left", [0.2, 0.8, 1.01, 30.0])
def test_em_creeps_where_more_than_a_few_tol_are_left(rate, left):
    """Of a geometric series what is left is known."""
    settings = SimpleNamespace(
        tol=1e-4, sampler=ExactExpectation(), solver=FullBatch(), extrapolates=True
    )
    limit = left * GAP_RULE.creep * settings.tol
    state = fresh()
    state.history.objective.extend(2.0 - limit * rate ** np.arange(-20.0, 1.0))
    assert creeps(settings, state) == (left > 1)
    settings.extrapolates = False
    assert not creeps(settings, state)


@pytest.mark.parametrize("pace", [10.0, 20.0, 40.0])
@pytest.mark.parametrize("noise", [1e-5, 1e-4])
def test_slow_progress_is_no_convergence(pace, noise, global_random_seed):
    """Small steps make changes small: here 0.0007 to 0.07 are left in the end."""
    gap = 0.3 * np.exp(-np.cumsum(STEPS) / pace)
    assert gap[-1] > 5 * SETTINGS.tol
    seeds = range(100 * global_random_seed, 100 * global_random_seed + 40)
    share = np.mean([stop(gap, noise, seed)[0].converged for seed in seeds])
    assert share < 0.3
    if pace > 10:
        assert share == 0


@pytest.mark.parametrize("noise", [1e-5, 1e-4, 1e-3])
@pytest.mark.parametrize("pace", [2.0, 5.0])
def test_noise_alone_does_not_keep_a_run_going(pace, noise, global_random_seed):
    gap = 0.3 * np.exp(-np.cumsum(STEPS) / pace)
    seeds = range(100 * global_random_seed, 100 * global_random_seed + 40)
    stops = [stop(gap, noise, seed) for seed in seeds]
    assert np.mean([state.converged for state, _ in stops]) > 0.95
    assert all(gap[epoch] < SETTINGS.tol for state, epoch in stops if state.converged)


@pytest.mark.parametrize("pace", [5.0, 10.0, 20.0, 40.0, 100.0])
@pytest.mark.parametrize("noise", [1e-4, 3e-4, 1e-3, 1e-2])
def test_drift_hidden_in_noise_is_no_convergence(pace, noise, global_random_seed):
    """With 7 to 10 tol left the run has not converged, whatever hides the drift."""
    passed = np.cumsum(STEPS)
    approach = np.exp((passed[-1] - passed) / pace)
    states = []
    for seed in range(100 * global_random_seed, 100 * global_random_seed + 20):
        left = SETTINGS.tol * np.random.default_rng(seed).uniform(7, 10)
        states.append(stop(left * approach, noise, seed + 50)[0])
    assert np.mean([state.converged for state in states]) < 0.15


def test_noise_that_hides_everything_is_said(global_random_seed):
    """Nothing but noise, a hundred times as large as what is asked."""
    seeds = range(100 * global_random_seed, 100 * global_random_seed + 20)
    flat = [stop(np.zeros(100), 100 * SETTINGS.tol, seed)[0] for seed in seeds]
    hidden = [s.hidden_by_noise and not s.converged for s in flat]
    assert np.mean(hidden) > 0.7


def test_flat_with_little_noise_is_convergence(global_random_seed):
    seeds = range(100 * global_random_seed, 100 * global_random_seed + 20)
    flat = [stop(np.zeros(100), 0.3 * SETTINGS.tol, seed)[0] for seed in seeds]
    assert np.mean([state.converged for state in flat]) > 0.95


@pytest.mark.parametrize("scale", [0.003, 0.01, 0.03])
def test_an_approach_slower_than_exponential_is_no_convergence(scale):
    """A gap that falls as 1 / k looks settled to an exponential, not to two windows."""
    settings = SimpleNamespace(
        tol=1e-4, patience=3, step_size=Constant(1.0), sampler=RandomWalk()
    )
    gaps = scale / np.arange(1, 2001)
    left = gap_at_the_stop(gaps, monotone=False, settings=settings)
    assert 0.2 < left < 1


@pytest.mark.parametrize("of_sample", [False, True])
def test_a_run_that_has_been_higher_has_not_converged(of_sample):
    """Slow chains lead away by 5 tol and stand: the likelihood of all rows says so."""
    away = 5 * SETTINGS.tol * np.append(np.linspace(0, 1, 60) ** 2, np.ones(40))
    state = fresh()
    state.of_sample = of_sample
    for k in range(len(away)):
        noise = 0.02 * SETTINGS.tol * (-1) ** k
        state.history.objective.append(noise - away[k])
        state.history.step_size.append(STEPS[k])
        check_gap(state, SETTINGS, monotone=False)
        if state.converged:
            break
    assert state.converged == of_sample
    assert state.hidden_by_noise != of_sample


# ------------------------------------------------------- exact expectations, known gaps

EXACT = SimpleNamespace(
    tol=1e-6, patience=3, step_size=Constant(1.0), sampler=ExactExpectation()
)


def gap_at_the_stop(gaps, monotone, settings=EXACT):
    """Return what is left, in units of tol, where the rule stops; None if nowhere."""
    state = fresh()
    for gap in gaps:
        state.history.objective.append(-gap)
        state.history.step_size.append(1.0)
        check_gap(state, settings, monotone)
        if state.converged:
            return gap / settings.tol
    return None


@pytest.mark.parametrize("pace", [1.0, 5.0, 30.0])
def test_em_stops_when_no_more_than_tol_is_left(pace):
    """A small change says little: at a pace of 30 epochs it is a 30th of the rest."""
    gaps = 3.0 * np.exp(-np.arange(20 * pace) / pace)
    left = gap_at_the_stop(gaps, monotone=True)
    # No more than a few epochs too late.
    assert 0.1 * np.exp(-GAP_RULE.exact_window / pace) < left <= 1.0


def test_rises_and_falls_by_turns_are_rounding_errors():
    """Of singular covariances they are above the last digits; large ones are none."""
    turns = np.resize([3e-11, -5e-11, 8e-11, -6e-11, 2e-11], 60)
    gaps = np.exp(-np.arange(60.0)) + turns
    assert gap_at_the_stop(gaps, monotone=True) <= 1.0
    assert gap_at_the_stop(gaps + 1e6 * turns, monotone=True) is None
    drift = -3e-14 * np.arange(60) * (1 + 0.3 * np.sin(np.arange(60)))
    assert gap_at_the_stop(drift, monotone=True) is not None
    falling = 1e-3 - 1e-7 * np.arange(60)  # slower than any pace, and never turns
    assert gap_at_the_stop(falling, monotone=True) is None


@pytest.mark.parametrize("slow", [1e-5, 1e-4, 1e-3])
def test_fast_directions_that_die_out_are_no_end(slow):
    """Two changes of a run that begins near a ridge look as if there were no more."""
    epochs = np.arange(3000)
    for fast in (1e-3, 1e-2, 1e-1, 1.0):
        gaps = fast * np.exp(-2.3 * epochs) + slow * np.exp(-epochs / 100)
        assert gap_at_the_stop(gaps, monotone=True) <= 1.0
        ends = [
            n for n in range(3, 60) if _left_to_gain(-gaps[:n], GAP_RULE) < EXACT.tol
        ]
        if fast == 1e-1 and slow == 1e-5:  # two changes alone are deceived
            assert gaps[ends[0] - 1] > 3 * EXACT.tol


def test_slowest_of_two_rates_counts():
    epochs = np.arange(1000)
    gaps = 3.0 * np.exp(-epochs / 5) + 0.001 * np.exp(-epochs / 100)
    assert gap_at_the_stop(gaps, monotone=True) <= 1.0
    assert gap_at_the_stop(gaps, monotone=False) <= 1.0


@pytest.mark.parametrize("pace", [1.0, 5.0, 30.0, 100.0])
@pytest.mark.parametrize("jumps", [0.0, 0.2, 0.5])
def test_exact_constant_steps_stop_when_no_more_than_tol_is_left(
    pace, jumps, global_random_seed
):
    """Batches make jumps, which shrink with the gap where expectations are exact."""
    for seed in range(5 * global_random_seed, 5 * global_random_seed + 5):
        epochs = np.arange(50 + 12 * pace)
        noise = np.random.default_rng(seed).standard_normal(len(epochs))
        left = gap_at_the_stop(1e-3 * np.exp(jumps * noise - epochs / pace), False)
        assert left is not None
        assert left <= 1.0 + 4 * jumps


@pytest.mark.parametrize(
    "gaps",
    [
        (1.5, 0.084, 0.017, 0.0029, 0.034, 0.0073),
        (3.0, 0.05, 1.19, 0.20, 0.31, 0.06, 0.11),
    ],
)
def test_epochs_that_jump_are_no_convergence(gaps):
    """Series of fitTEM on a hidden Markov model and on random intercepts."""
    settings = SimpleNamespace(**{**vars(EXACT), "tol": 1e-4})
    assert gap_at_the_stop(gaps, False, settings) is None
    assert gap_at_the_stop(gaps * 20, False, settings) is None
    # The same jumps, a million times smaller, are convergence.
    assert gap_at_the_stop(1e-6 * np.array(gaps * 3), False, settings) is not None


def test_a_second_slow_phase_is_no_noise():
    """The difference of the windows is many standard errors, and more than tol."""
    rng = np.random.default_rng(0)
    for n_epochs in range(60, 100):
        state = fresh(stale_epochs=10)
        epochs = np.arange(n_epochs)
        drift = 4 * SETTINGS.tol * (n_epochs - epochs) / (n_epochs // 3)
        gaps = 0.3 * np.exp(-epochs / 2) + drift
        noise = 0.1 * SETTINGS.tol * rng.standard_normal(n_epochs)
        state.history.objective.extend(noise - gaps)
        state.history.step_size.extend(np.full(n_epochs, 0.5))
        check_gap(state, SETTINGS, monotone=False)
        assert not state.converged


@pytest.mark.parametrize("solver", ["iem", "vrttem", "fittem"])
@pytest.mark.parametrize("seed", [14, 15, 16])
def test_batches_end_where_em_does(solver, seed):
    """Seed 14 of fitTEM stopped with 0.114 a row left, 1,144 times tol."""
    rng = np.random.default_rng(seed)
    X = rng.normal(50, 1, size=(600, 1)) + rng.normal(0, 0.5, size=(600, 6))
    best = log_likelihood(X, closed_form_mle(X))
    em = StochasticEM(RandomInterceptModel(), solver=solver, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # some steps are infeasible
        em.fit(X)
    assert em.converged_
    assert 0 <= best - em.score(X) + 1e-12 < em.tol


def log_likelihood(X, estimate):
    params = RandomInterceptParams(*estimate)
    return RandomInterceptModel().log_likelihood(X, params).mean()


class WithoutLikelihood(RandomInterceptModel):
    log_likelihood = None


class FarStart(WithoutLikelihood):
    def initial_params(self, X, rng):
        return RandomInterceptParams(20.0, 1.0, 1.0)


@pytest.mark.parametrize("seed", range(5))
def test_models_without_a_likelihood_hear_that_noise_hides_their_end(seed):
    """The mean field of draws falls to their noise, which is far above tol."""
    rows = random_intercept_data(seed, n_rows=200)
    options = {"sampler": RandomWalk(0.5, n_steps=3), "random_state": seed}
    em = StochasticEM(WithoutLikelihood(), solver="saem", max_iter=100, **options)
    with pytest.warns(ConvergenceWarning, match="noise of the draws.* log_likelihood"):
        em.fit(rows)
    # The negative control: a run that still approaches its end by steps of .02.
    em = StochasticEM(
        FarStart(), solver="isaem", step_size=Constant(0.02), batch_size=200,
        max_iter=30, **options,
    )  # fmt: skip
    with pytest.warns(ConvergenceWarning, match="before it converged. Increase"):
        em.fit(rows)
