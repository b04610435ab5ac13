"""Model and settings of a run from the parameters of a Boltzmann machine."""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

import numpy as np

from sktem.arrays import NUMPY
from sktem.boltzmann.learning.e_steps import (
    ExactPosterior,
    GibbsPosterior,
    HybridPosterior,
    MeanFieldPosterior,
)
from sktem.boltzmann.learning.prior import Prior
from sktem.boltzmann.learning.solvers import CONTRASTIVE_SOLVERS, StepRule, as_solver
from sktem.boltzmann.learning.state import ContrastiveSettings
from sktem.boltzmann.machines.graph_machine import GraphMachine
from sktem.boltzmann.machines.layered_machine import LayeredMachine
from sktem.choices import is_auto
from sktem.graphs import as_graph

__all__ = ["StepDefaults", "new_model", "new_settings", "prior_of"]


class StepDefaults(NamedTuple):
    """Default steps, length and prior of a fit.

    Attributes
    ----------
    step_size_e : tuple of float
        a_t where posterior draws are averaged.
    step_size_m : tuple of float
        b_t, which is adapted, times the root of the largest number of neighbours.
    momentum : float
        Share of the past in the average of the gradient, with adapted steps.
    rows_per_weight : int
        Rows for each weight that they can determine from which on its prior may widen.
    fewest_updates, most_updates : int
        Updates of a fit. The most is half of it for the smallest machines, which need
        fewer.
    updates_per_parameter, updates_times_parameters : float
        Between both.
    """

    step_size_e: tuple[float, float] = (1.0, 0.05)
    step_size_m: tuple[float, float] = (0.28, 0.0028)
    momentum: float = 0.9
    rows_per_weight: int = 5
    fewest_updates: int = 3300
    most_updates: int = 16000
    updates_per_parameter: float = 160
    updates_times_parameters: float = 6.6e8

    def n_updates(self, n_parameters) -> float:
        """Return the updates of a fit of a machine of some size, at most."""
        n, most = n_parameters, self.most_updates
        updates = max(self.updates_times_parameters / n, self.fewest_updates)
        return min(updates, most, max(self.updates_per_parameter * n, most // 2))


def new_model(machine, n_features, arrays=NUMPY, table=None, kind=None):
    """Return the model that the parameters of an estimator mean.

    `kind` is that of the visible units, None for the one that is given.
    """
    kind = machine.visible if kind is None else kind
    if machine.graph is None:
        sizes = _layer_sizes(machine.hidden_layer_sizes)
        return LayeredMachine(
            (n_features, *sizes),
            table.n_normal if table else kind == "gaussian",
            machine.n_jobs,
            float(machine.variance_floor),
            eliminates=arrays.is_numpy,
            groups=table.groups if table else (),
        )
    graph = as_graph(machine.graph)
    hidden = _hidden_units(machine.hidden, graph.n_units)
    if graph.n_units == 0:
        raise ValueError("graph has no units")
    if len(hidden) == graph.n_units:
        raise ValueError("all units are hidden: at least one must be visible")
    if graph.n_units - len(hidden) != n_features:
        raise ValueError(
            f"graph has {graph.n_units - len(hidden)} visible units "
            f"({graph.n_units} less {len(hidden)} hidden), but X has {n_features} "
            "features"
        )
    return GraphMachine(graph, hidden, machine.n_jobs)


def _layer_sizes(value):
    sizes = (100,) if value is None else value
    sizes = (sizes,) if isinstance(sizes, Integral) else tuple(sizes)
    wrong = [s for s in sizes if not isinstance(s, Integral) or s < 1]
    if not sizes or wrong:
        raise ValueError(
            f"hidden_layer_sizes must be one or more positive integers, got {value!r}"
        )
    return tuple(int(size) for size in sizes)


def _hidden_units(hidden, n_units):
    """Return the indices of the hidden units, increasing."""
    if hidden is None:
        return np.array([], np.int64)
    hidden = np.asarray(hidden)
    if hidden.dtype == bool:
        if hidden.shape != (n_units,):
            raise ValueError(
                f"hidden as a mask must have shape ({n_units},), got {hidden.shape}"
            )
        return np.flatnonzero(hidden)
    if hidden.ndim != 1 or (hidden.size and hidden.dtype.kind not in "iu"):
        raise ValueError("hidden must be a mask or numbers of units")
    unique = np.unique(hidden).astype(np.int64)
    inside = not hidden.size or (unique[0] >= 0 and unique[-1] < n_units)
    if len(unique) != len(hidden) or not inside:
        raise ValueError(
            f"hidden must name each hidden unit once, from 0 to {n_units - 1}"
        )
    return unique


def _posterior(machine, model, missing):
    """Return the expectations of the E-step."""
    options = as_solver(machine.solver)
    solver = CONTRASTIVE_SOLVERS[options.name]
    gibbs = GibbsPosterior(machine.n_gibbs_e, bool(options.rao_blackwell))
    mean_field = MeanFieldPosterior(machine.n_mean_field)
    exact = model.has_exact_posterior and not missing
    if solver.e_step == "hybrid":
        if machine.e_step != "auto":
            raise ValueError(
                "solver='hapcd' goes from mean field to Gibbs: it needs "
                f"e_step='auto', got {machine.e_step!r}"
            )
        return HybridPosterior(mean_field, gibbs)
    if solver.e_step == "mean_field" and machine.e_step == "gibbs":
        raise ValueError("solver='mfpcd' with e_step='gibbs' is solver='pcd': use that")
    e_step = machine.e_step
    if e_step == "auto":
        e_step = solver.e_step
    if e_step == "auto":
        e_step = "exact" if exact else "gibbs"
    if e_step == "exact" and not exact:
        raise ValueError(
            "e_step='exact' needs data without NaN"
            if missing
            else "e_step='exact' needs hidden units that can be summed out, whose "
            "connected parts have a small treewidth (with two or more hidden "
            "layers, also X as a NumPy array); use 'gibbs' or 'mean_field'"
        )
    choices = {"exact": ExactPosterior(), "gibbs": gibbs, "mean_field": mean_field}
    return choices[e_step]


def _n_epochs(machine, model, n_rows):
    """Return the largest number of epochs of a fit to n_rows."""
    if not isinstance(machine.max_iter, str):
        return int(machine.max_iter)
    updates = machine._step_defaults.n_updates(model.n_parameters)
    size = min(machine.batch_size, n_rows or machine.batch_size)
    per_epoch = -(-(n_rows or size) // size)
    # At least a round of one epoch and one of the rest.
    return max(round(updates / per_epoch), 7)


def prior_of(machine, model, mass) -> Prior:
    """Return the prior for rows whose weights add up to `mass`."""
    if not isinstance(machine.weight_decay, str):
        return Prior(float(machine.weight_decay))
    n_visible, n = model.n_visible, model.n_parameters - model.weights_from
    if n_visible < 64 and not model.gaussian:
        # No distribution of binary units has more parameters.
        n = min(n, 2**n_visible - 1 - n_visible)
    # Of fewer rows than that a maximum far away would describe each of them.
    enough = mass >= machine._step_defaults.rows_per_weight * n
    most = float(max(n, 1)) if enough else np.inf
    # The mean log-density of a standard normal prior of each weight.
    return Prior(float(1 / mass), True, most)


def new_settings(machine, model, missing, n_rows=None, mass=None):
    """Return the settings of a run that the parameters of an estimator mean.

    `mass` is the sum of the weights of the rows, None for their number or, on streams,
    one batch.
    """
    posterior, defaults = _posterior(machine, model, missing), machine._step_defaults
    step_size_e, step_size_m = machine.step_size_e, machine.step_size_m
    options = as_solver(machine.solver)
    solver = CONTRASTIVE_SOLVERS[options.name]
    if is_auto(step_size_e):
        step_size_e = defaults.step_size_e if posterior.keeps_chains else 1.0
    elif not solver.averages:
        raise ValueError(
            f"solver={options.name!r} does not average posterior statistics: "
            f"step_size_e must be 'auto', got {step_size_e!r}"
        )
    n_replicas = None if machine.n_replicas == "auto" else int(machine.n_replicas)
    if not solver.persistent and (n_replicas or 1) > 1:
        raise ValueError(
            f"solver={options.name!r} starts chains anew at each update: it needs "
            f"n_replicas=1, got {machine.n_replicas!r}"
        )
    adaptive = is_auto(step_size_m)
    if adaptive:
        scale = 1 / np.sqrt(max(model.largest_degree, 1))
        step_size_m = tuple(scale * step for step in defaults.step_size_m)
    if adaptive and options.averaging:
        raise ValueError(
            "averaging=True needs a given step_size_m, as 0.05 or a schedule: with "
            "'auto' the steps end short, and there is little to average"
        )
    momentum = options.momentum
    if isinstance(momentum, str):
        momentum = defaults.momentum if adaptive else 0.0
    return ContrastiveSettings(
        model=model,
        solver=solver,
        posterior=posterior,
        step_size_e=StepRule(step_size_e, "step_size_e", 1.0),
        step_size_m=StepRule(step_size_m, "step_size_m", np.inf),
        batch_size=int(machine.batch_size),
        n_epochs=_n_epochs(machine, model, n_rows),
        by_cost=machine.max_iter == "auto",
        n_chains=int(machine.n_chains),
        n_chains_e=int(machine.n_chains_e),
        n_replicas=n_replicas,
        n_gibbs_e=int(machine.n_gibbs_e),
        n_gibbs_m=int(machine.n_gibbs_m),
        momentum=float(momentum),
        prior=prior_of(machine, model, mass or n_rows or machine.batch_size),
        adaptive=adaptive,
        tol=None if machine.tol is None else float(machine.tol),
        centering=bool(machine.centering),
        averaging=bool(options.averaging),
        rao_blackwell=bool(options.rao_blackwell),
        binarize=machine.binarize == "sample",
    )
