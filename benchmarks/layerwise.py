"""Layer-wise pretraining of deep machines by restricted ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from sktem.arrays import arrays_of
from sktem.boltzmann.learning.e_steps import ExactPosterior
from sktem.boltzmann.learning.loop import ContrastiveEpochs
from sktem.boltzmann.learning.solvers import CONTRASTIVE_SOLVERS, StepRule
from sktem.boltzmann.learning.state import ContrastiveState
from sktem.boltzmann.machines.layer_dynamics import LayerDynamics
from sktem.boltzmann.machines.layered_machine import LayeredMachine
from sktem.boltzmann.settings import MachineSettings
from sktem.e_step.random import seed_sequence, spawn_generators
from sktem.loop.runner import run_epochs
from sktem.rows.held import carrier_of

__all__ = ["pretrained"]

#: Steps of CD-1, linear over the epochs, for binary and for Gaussian visible units.
STEPS = (0.05, 0.005)
GAUSSIAN_STEPS = (0.01, 0.001)


class DoubledDynamics(LayerDynamics):
    """States of a restricted machine whose layers see each other twice.

    In a deep machine a unit between two layers has input from both. A restricted
    machine that is to be part of it has two copies of the layer that would otherwise
    give too little, so that its fields are doubled (Salakhutdinov and Hinton 2009).

    Parameters
    ----------
    layout : LayerLayout
        Where units and parameters are.
    up, down : float
        Factors of the fields of the hidden and of the visible units.
    """

    def __init__(self, layout, up, down):
        super().__init__(layout)
        self.up, self.down = up, down

    def odd_fields(self, params, even, first=0):
        """Return the fields of the hidden units, without biases."""
        return super().odd_fields(params, even, first) * self.up

    def even_fields(self, params, odd, first=0):
        """Return the fields of the visible units, without biases."""
        return super().even_fields(params, odd, first) * self.down


class DoubledMachine(LayeredMachine):
    """Restricted machine of `DoubledDynamics`.

    Parameters
    ----------
    sizes : tuple of int
        Visible and hidden units.
    gaussian : bool
        Whether the visible units are real-valued.
    n_jobs : int or None
        Threads.
    variance_floor : float
        Least variance of a Gaussian unit.
    up, down : float
        Factors of the fields of the hidden and of the visible units.
    """

    def __init__(self, sizes, gaussian, n_jobs, variance_floor, up, down):
        super().__init__(sizes, gaussian, n_jobs, variance_floor)
        self.dynamics = DoubledDynamics(self.layout, up, down)


def pretrained(machine, X, n_epochs):
    """Return a fit whose layers were learned in turn, for `n_epochs` of CD-1 each.

    Layers are restricted machines with doubled inputs (Salakhutdinov and Hinton 2009);
    learning goes on from it by ``warm_start=True``.
    """
    machine.set_params(max_iter=0, warm_start=False).fit(X)
    model, units = machine.fitted_.model, machine.fitted_.units
    settings = MachineSettings.of(machine.get_params())
    settings = settings.of_run(model, carrier_of(X).has_nan, X.shape[0])
    params = machine.params_.copy()
    generators = spawn_generators(seed_sequence(machine.random_state))
    learn_layers(
        settings, units.inputs(X, np.float32), units, params, generators, n_epochs
    )
    machine.params_ = params
    return machine


def learn_layers(settings, X, units, params, generators, n_epochs) -> None:
    """Replace a start by one whose layers were learned in turn."""
    model = settings.model
    data = X.toarray() if sparse.issparse(X) else X
    arrays = arrays_of(data)
    xp = arrays.xp
    if carrier_of(data).has_nan:
        # Of Gaussian units, which are centred, the mean is zero.
        mean = 0.0 * units.logits if model.gaussian else 1 / (1 + xp.exp(-units.logits))
        mean = arrays.astype(mean, data.dtype)
        data = xp.where(xp.isnan(data), mean, data)
    n, top = data.shape[0], len(model.sizes) - 2
    biases: list[list] = [[] for _ in model.sizes]
    for lower in range(top + 1):
        machine = DoubledMachine(
            model.sizes[lower : lower + 2],
            model.gaussian and lower == 0,
            model.n_jobs,
            model.variance_floor,
            up=2.0 if lower < top else 1.0,
            down=2.0 if lower > 0 else 1.0,
        )
        logits = units.logits
        if lower:
            mean = xp.sum(data, axis=0, dtype=xp.float64)
            mean = (mean + 0.5) / (n + 1.0)
            logits = xp.log(mean) - xp.log1p(-mean)
        steps = GAUSSIAN_STEPS if machine.gaussian else STEPS
        own = replace(
            settings,
            model=machine,
            solver=CONTRASTIVE_SOLVERS["cd"],
            posterior=ExactPosterior(),
            step_size_m=StepRule(steps, "steps", 1.0),
            n_epochs=n_epochs,
            by_cost=False,
            n_replicas=1,
            adaptive=False,
            averaging=False,
            momentum=0.0 if settings.adaptive else settings.momentum,
            n_gibbs_m=1,
            binarize=settings.binarize and lower == 0,
        )
        start = machine.initial_params(logits, generators.initialisation)
        state = ContrastiveState(start, generators)
        run_epochs(ContrastiveEpochs(own, data, state, None), state)
        if state.interrupted:
            raise state.interrupted
        learned = state.params
        model.layout.weights_between(params, lower)[...] = (
            machine.layout.weights_between(learned, 0)
        )
        biases[lower].append(machine.layout.layer_biases(learned, 0))
        biases[lower + 1].append(machine.layout.layer_biases(learned, 1))
        if machine.gaussian:
            model.layout.precisions(params)[:] = machine.layout.precisions(learned)
        data = machine.hidden_means(learned, data, 1)
    # A layer in the middle has a bias from the machine below and from that above.
    for layer, given in enumerate(biases):
        model.layout.layer_biases(params, layer)[:] = sum(given) / len(given)
