"""Steps of the parameters against their formulas in float64."""

import numpy as np
import pytest

from sktem.boltzmann.learning.prior import Prior
from sktem.boltzmann.learning.solvers import StepRule
from sktem.boltzmann.learning.state import ContrastiveState
from sktem.boltzmann.learning.steps import m_step
from sktem.boltzmann.machines.layered_machine import LayeredMachine
from sktem.e_step.random import spawn_generators
from tests.boltzmann.learning.test_loop import settings

MACHINES = {
    "restricted": LayeredMachine((7, 5)),
    "deep": LayeredMachine((6, 4, 3, 5)),
    "gaussian": LayeredMachine((4, 3, 2), gaussian=True),
    "groups": LayeredMachine((6, 3), groups=(2, 3)),
}


def run(model, n_updates, **changes):
    """Return the state after steps along random statistics, with their gaps."""
    rng = np.random.default_rng(0)

    def draws(scale=1.0):
        return (scale * rng.normal(size=model.n_parameters)).astype(np.float32)

    params = draws()
    if model.gaussian:
        model.layout.precisions(params)[:] = 1.5
    state, gaps = ContrastiveState(params, spawn_generators(0)), []
    options = dict(
        model=model, adaptive=True, momentum=0.9, prior=DECAY, centering=True,
        step_size_m=StepRule((0.2, 0.1), "step_size_m", np.inf),
    )  # fmt: skip
    run_settings = settings(**(options | changes))
    for _ in range(n_updates):
        state.mean, state.n_updates = draws(0.3), state.n_updates + 1
        state.centre = rng.random(model.weights_from).astype(np.float32)
        m_step(run_settings, state, draws(0.3))
        gaps.append(state.steps.gap)
    return state, gaps


DECAY = Prior(0.01)
CHANGES = {
    "adapted": {},
    "adapted, not decaying": {"prior": Prior(0.0)},
    "plain": {"adaptive": False, "momentum": 0.0},
    "plain, with momentum": {"adaptive": False},
}


def reference(model, n_updates, adaptive=True, momentum=0.9, prior=DECAY):
    """Return the parameters after the same steps: Kingma and Ba (2015), Algorithm 1."""
    rng, n = np.random.default_rng(0), model.n_parameters
    params = rng.normal(size=n)
    if model.gaussian:
        model.layout.precisions(params)[:] = 1.5
    first, second, weights = np.zeros(n), np.zeros(n), slice(model.weights_from, None)
    for update in range(1, n_updates + 1):
        gradient = 0.3 * rng.normal(size=n)
        rng.random(model.weights_from)
        gradient -= 0.3 * rng.normal(size=n)
        gradient[weights] -= prior.strength * params[weights]
        if not adaptive:
            first = momentum * first + 0.2 * gradient
            params = params + first
            continue
        first = momentum * first + (1 - momentum) * gradient
        second = 0.999 * second + 0.001 * gradient**2
        root = np.sqrt(second / (1 - 0.999**update)) + 0.03
        params = params + 0.2 * first / (1 - momentum**update) / root
    return params


@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize("case", CHANGES)
def test_steps(kind, case):
    model, changes = MACHINES[kind], CHANGES[case]
    state, _ = run(model, 4, centering=False, **changes)
    expected = reference(model, 4, **changes)
    model.project(expected)
    np.testing.assert_allclose(state.params, expected, rtol=2e-4, atol=2e-5)
    other, _ = run(model, 4, centering=False, **changes | {"prior": Prior(0.1)})
    assert np.abs(other.params - state.params).max() > 1e-3
    centred, _ = run(model, 4, centering=True, **changes)
    assert np.abs(centred.params - state.params).max() > 1e-3
