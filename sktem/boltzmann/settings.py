"""Checked parameters of Boltzmann machines, from which models and runs are made."""

from __future__ import annotations

from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from sktem.arrays import NUMPY
from sktem.boltzmann.learning.e_steps import (
    ExactPosterior,
    GibbsPosterior,
    HybridPosterior,
    MeanFieldPosterior,
)
from sktem.boltzmann.learning.prior import Prior
from sktem.boltzmann.learning.solvers import (
    CONTRASTIVE_SOLVERS,
    ContrastiveSolver,
    SolverRule,
    StepRule,
    as_solver,
)
from sktem.boltzmann.learning.state import ContrastiveSettings
from sktem.boltzmann.machines.graph_machine import GraphMachine
from sktem.boltzmann.machines.layered_machine import LayeredMachine
from sktem.boltzmann.tables import COLUMN_KINDS
from sktem.choices import check_choice, check_number, is_auto
from sktem.graphs import as_graph

__all__ = ["MachineSettings", "StepDefaults"]

E_STEPS = ("auto", "exact", "gibbs", "mean_field")
VISIBLE = ("binary", "spin", "gaussian", "categorical", "auto")
#: Parameters that may be "auto", and otherwise of what type and how large at least.
AUTO = (
    ("max_iter", Integral, 0), ("n_replicas", Integral, 1), ("weight_decay", Real, 0)
)  # fmt: skip
#: Parameters that are positive integers.
COUNTS = ("n_chains", "n_chains_e", "n_gibbs_e", "n_gibbs_m", "n_mean_field",
          "batch_size")  # fmt: skip


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


@dataclass(frozen=True)
class MachineSettings:
    """Checked parameters of a Boltzmann machine and of its learning.

    Attributes
    ----------
    graph : array-like, graph or None
        The pairs of units that are joined, None for layers.
    hidden : array-like or None
        Which units of the graph are hidden.
    hidden_layer_sizes : int, tuple of int or None
        Units of the hidden layers.
    visible : str or list of str
        Kind of the visible units, or of each column.
    binarize : float, "sample" or None
        How values become binary.
    variance_floor : float
        Least variance of Gaussian units, as a share of that of their column.
    solver : ContrastiveSolver
        The solver, with its options.
    e_step : str
        Expectations under the posterior.
    n_chains, n_chains_e : int
        Chains of the model, and of the posterior of each row.
    n_replicas : int or "auto"
        Temperatures.
    n_gibbs_e, n_gibbs_m, n_mean_field : int
        Transitions of both, and iterations of mean field.
    step_size_e, step_size_m : float, pair of float, callable or "auto"
        Steps a_t and b_t.
    batch_size : int
        Rows of an update.
    weight_decay : float or "auto"
        Strength of the prior.
    centering : bool
        Whether updates are about the mean of each unit.
    max_iter : int or "auto"
        Epochs.
    tol : float or None
        Rise of the likelihood that is not worth a longer run.
    n_jobs : int or None
        Threads.
    defaults : StepDefaults
        What "auto" means.
    """

    graph: Any
    hidden: Any
    hidden_layer_sizes: Any
    visible: Any
    binarize: Any
    variance_floor: float
    solver: ContrastiveSolver
    e_step: str
    n_chains: int
    n_chains_e: int
    n_replicas: Any
    n_gibbs_e: int
    n_gibbs_m: int
    n_mean_field: int
    step_size_e: Any
    step_size_m: Any
    batch_size: int
    weight_decay: Any
    centering: bool
    max_iter: Any
    tol: float | None
    n_jobs: int | None
    defaults: StepDefaults = StepDefaults()

    @classmethod
    def of(cls, parameters) -> MachineSettings:
        """Return the settings of parameters by name, checked."""
        names = [field.name for field in fields(cls)][:-1]
        values = {name: parameters[name] for name in names}
        settings = cls(**{**values, "solver": as_solver(parameters["solver"])})
        settings._check()
        return settings

    @property
    def rule(self) -> SolverRule:
        """The rule of the solver."""
        return CONTRASTIVE_SOLVERS[self.solver.name]

    def _check(self):
        """Raise if a parameter is out of range."""
        for name in COUNTS:
            check_number(name, getattr(self, name), Integral, 1)
        for name, kind, least in AUTO:
            value = getattr(self, name)
            if not is_auto(value):
                check_number(name, value, kind, least)
        if self.tol is not None:
            check_number("tol", self.tol, Real, 0)
        check_number("variance_floor", self.variance_floor, Real, 0, strict=True)
        if self.variance_floor > 1:
            raise ValueError(
                f"variance_floor must be in (0, 1], got {self.variance_floor!r}"
            )
        if self.binarize is not None and self.binarize != "sample":
            threshold = isinstance(self.binarize, Real)
            if not threshold or isinstance(self.binarize, (bool, np.bool_)):
                raise ValueError(
                    "binarize must be None, 'sample' or a threshold, got "
                    f"{self.binarize!r}"
                )
        self._check_visible()
        check_choice("e_step", self.e_step, E_STEPS)
        if not isinstance(self.centering, (bool, np.bool_)):
            raise ValueError(f"centering must be a bool, got {self.centering!r}")
        if self.graph is not None and self.hidden_layer_sizes is not None:
            raise ValueError("give either graph or hidden_layer_sizes, not both")
        if self.graph is None and self.hidden is not None:
            number = isinstance(self.hidden, (Integral, tuple))
            meant = f"did you mean hidden_layer_sizes={self.hidden!r}?"
            raise ValueError(
                "hidden says which units of graph are hidden: "
                + (meant if number else "give graph")
            )

    def _check_visible(self):
        """Raise if the kinds of the columns are unknown, or do not suit the machine."""
        visible = self.visible
        if isinstance(visible, str):
            check_choice("visible", visible, VISIBLE)
            if visible in ("auto", "binary", "spin"):
                return
        else:
            if isinstance(visible, dict):
                raise ValueError(
                    "visible must be a kind or a list with one for each column of X, "
                    "got a dict"
                )
            for kind in visible:
                check_choice("visible", kind, ("auto", *COLUMN_KINDS))
        if self.graph is not None:
            raise ValueError(f"visible={visible!r} needs layers, not a graph")
        if self.binarize is not None:
            raise ValueError("binarize needs visible='binary' or 'spin'")

    def model(self, n_features, arrays=NUMPY, table=None, kind=None):
        """Return the machine of rows of a kind, by default of the given one."""
        kind = self.visible if kind is None else kind
        if self.graph is not None:
            return _graph_machine(self.graph, self.hidden, n_features, self.n_jobs)
        return LayeredMachine(
            (n_features, *_layer_sizes(self.hidden_layer_sizes)),
            table.n_normal if table else kind == "gaussian",
            self.n_jobs,
            float(self.variance_floor),
            eliminates=arrays.is_numpy,
            groups=table.groups if table else (),
        )

    def _posterior(self, model, missing):
        """Return the expectations of the E-step."""
        solver = self.rule
        gibbs = GibbsPosterior(self.n_gibbs_e, bool(self.solver.rao_blackwell))
        mean_field = MeanFieldPosterior(self.n_mean_field)
        exact = model.has_exact_posterior and not missing
        e_step = self.e_step
        if solver.e_step == "hybrid":
            if e_step != "auto":
                raise ValueError(
                    "solver='hapcd' goes from mean field to Gibbs: it needs "
                    f"e_step='auto', got {e_step!r}"
                )
            return HybridPosterior(mean_field, gibbs)
        if solver.e_step == "mean_field" and e_step == "gibbs":
            raise ValueError(
                "solver='mfpcd' with e_step='gibbs' is solver='pcd': use that"
            )
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

    def _n_epochs(self, model, n_rows):
        """Return the largest number of epochs of a fit to n_rows."""
        if not isinstance(self.max_iter, str):
            return int(self.max_iter)
        updates = self.defaults.n_updates(model.n_parameters)
        size = min(self.batch_size, n_rows or self.batch_size)
        per_epoch = -(-(n_rows or size) // size)
        # At least a round of one epoch and one of the rest.
        return max(round(updates / per_epoch), 7)

    def prior(self, model, mass) -> Prior:
        """Return the prior for rows whose weights add up to `mass`."""
        if not isinstance(self.weight_decay, str):
            return Prior(float(self.weight_decay))
        n_visible, n = model.n_visible, model.n_parameters - model.weights_from
        if n_visible < 64 and not model.gaussian:
            # No distribution of binary units has more parameters.
            n = min(n, 2**n_visible - 1 - n_visible)
        # Of fewer rows than that a maximum far away would describe each of them.
        enough = mass >= self.defaults.rows_per_weight * n
        most = float(max(n, 1)) if enough else np.inf
        # The mean log-density of a standard normal prior of each weight.
        return Prior(float(1 / mass), True, most)

    def _steps(self, model, posterior):
        """Return the rules of both steps, and whether the second is adapted."""
        step_size_e, step_size_m = self.step_size_e, self.step_size_m
        if is_auto(step_size_e):
            step_size_e = self.defaults.step_size_e if posterior.keeps_chains else 1.0
        elif not self.rule.averages:
            raise ValueError(
                f"solver={self.solver.name!r} does not average posterior statistics: "
                f"step_size_e must be 'auto', got {step_size_e!r}"
            )
        adaptive = is_auto(step_size_m)
        if adaptive:
            scale = 1 / np.sqrt(max(model.largest_degree, 1))
            step_size_m = tuple(scale * step for step in self.defaults.step_size_m)
        rules = (
            StepRule(step_size_e, "step_size_e", 1.0),
            StepRule(step_size_m, "step_size_m", np.inf),
        )
        return *rules, adaptive

    def of_run(self, model, missing, n_rows=None, mass=None) -> ContrastiveSettings:
        """Return the settings of a run over rows, or of a stream.

        `mass` is the sum of the weights of the rows, None for their number or, on
        streams, one batch.
        """
        posterior = self._posterior(model, missing)
        options, solver = self.solver, self.rule
        step_size_e, step_size_m, adaptive = self._steps(model, posterior)
        n_replicas = None if self.n_replicas == "auto" else int(self.n_replicas)
        if not solver.persistent and (n_replicas or 1) > 1:
            raise ValueError(
                f"solver={options.name!r} starts chains anew at each update: it needs "
                f"n_replicas=1, got {self.n_replicas!r}"
            )
        if adaptive and options.averaging:
            raise ValueError(
                "averaging=True needs a given step_size_m, as 0.05 or a schedule: with "
                "'auto' the steps end short, and there is little to average"
            )
        momentum = options.momentum
        if isinstance(momentum, str):
            momentum = self.defaults.momentum if adaptive else 0.0
        return ContrastiveSettings(
            model=model,
            solver=solver,
            posterior=posterior,
            step_size_e=step_size_e,
            step_size_m=step_size_m,
            batch_size=int(self.batch_size),
            n_epochs=self._n_epochs(model, n_rows),
            by_cost=self.max_iter == "auto",
            n_chains=int(self.n_chains),
            n_chains_e=int(self.n_chains_e),
            n_replicas=n_replicas,
            n_gibbs_e=int(self.n_gibbs_e),
            n_gibbs_m=int(self.n_gibbs_m),
            momentum=float(momentum),
            prior=self.prior(model, mass or n_rows or self.batch_size),
            adaptive=adaptive,
            tol=None if self.tol is None else float(self.tol),
            centering=bool(self.centering),
            averaging=bool(options.averaging),
            rao_blackwell=bool(options.rao_blackwell),
            binarize=self.binarize == "sample",
        )


def _graph_machine(graph, hidden, n_features, n_jobs):
    """Return the machine of a graph, of which some units are hidden."""
    graph = as_graph(graph)
    hidden = _hidden_units(hidden, graph.n_units)
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
    return GraphMachine(graph, hidden, n_jobs)


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
