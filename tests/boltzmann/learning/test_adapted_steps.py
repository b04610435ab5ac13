"""Steps in one pass against the array operations that they stand for."""

import numpy as np
import pytest

from sktem.boltzmann.learning.pretraining import DoubledStates
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
        model=model, adaptive=True, momentum=0.9, weight_decay=0.01, centering=True,
        step_size_m=StepRule((0.2, 0.1), "step_size_m", np.inf),
    )  # fmt: skip
    run_settings = settings(**(options | changes))
    for _ in range(n_updates):
        state.mean, state.n_updates = draws(0.3), state.n_updates + 1
        state.centre = rng.random(model.weights_from).astype(np.float32)
        m_step(run_settings, state, draws(0.3))
        gaps.append(state.gap)
    return state, gaps


NOTHING = {"centering": False, "weight_decay": 0.0}
CHANGES = {
    "adapted": {},
    "adapted, neither centred nor decaying": NOTHING,
    "plain": {"adaptive": False, "momentum": 0.0},
    "plain, with momentum": {"adaptive": False},
    "plain, neither centred nor decaying": {"adaptive": False, **NOTHING},
    "the gradient": {"adaptive": False, "momentum": 0.0, **NOTHING},
}


@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize("case", CHANGES)
def test_one_pass_is_the_same_step(kind, case, monkeypatch):
    model, changes = MACHINES[kind], CHANGES[case]
    one, gaps = run(model, 4, **changes)
    monkeypatch.setattr(LayeredMachine, "fuses", lambda *_: False)
    two, others = run(model, 4, **changes)
    for name in ("params", "first", "second", "velocity"):
        found, expected = getattr(one, name), getattr(two, name)
        assert (found is None) == (expected is None)
        if found is not None:
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(gaps, others, rtol=1e-5)
    assert one.reach == pytest.approx(two.reach, rel=1e-5)
    assert one.rounds.travelled == two.rounds.travelled
    other, _ = run(model, 4, **changes | {"weight_decay": 0.1, "centering": True})
    assert np.abs(other.params - one.params).max() > 1e-3


@pytest.mark.parametrize("adaptive", [True, False])
def test_doubled_layers(adaptive, monkeypatch):
    model = LayeredMachine((7, 5))
    model.states = DoubledStates(model.layout, 2.0, 1.0)
    one, _ = run(model, 3, adaptive=adaptive)
    monkeypatch.setattr(LayeredMachine, "fuses", lambda *_: False)
    two, _ = run(model, 3, adaptive=adaptive)
    np.testing.assert_allclose(one.params, two.params, rtol=2e-5, atol=2e-6)
