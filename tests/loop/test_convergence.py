"""The stopping rule of noisy runs on progress that is known."""

from types import SimpleNamespace

import numpy as np
import pytest

from sktem.history import History
from sktem.loop.convergence import check_gap
from sktem.samplers import RandomWalk
from sktem.schedules import BurnInThenDecay

SETTINGS = SimpleNamespace(
    tol=1e-4, patience=3, step_size=BurnInThenDecay(50, 0.6), sampler=RandomWalk()
)
STEPS = np.array([float(SETTINGS.step_size(k)) for k in range(1, 101)])


def stop(gap, noise, seed):
    """Return whether and where a run ends whose distance to the maximum is given."""
    rng = np.random.default_rng(seed)
    state = SimpleNamespace(
        converged=False, stale_epochs=0, hidden_by_noise=False, history=History()
    )
    for k in range(len(gap)):
        state.history.objective.append(noise * rng.standard_normal() - gap[k])
        state.history.step_size.append(STEPS[k])
        check_gap(state, SETTINGS, monotone=False)
        if state.converged:
            break
    return state, k


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
