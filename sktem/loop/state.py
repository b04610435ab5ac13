"""Settings and state of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sktem.e_step.batches import RowSelector
from sktem.e_step.chains import ChainTable
from sktem.e_step.random import Generators
from sktem.history import History
from sktem.loop.iterates import IterateRule
from sktem.loop.monitor import Monitor, SampleSize
from sktem.solvers.base import SolverState

__all__ = ["Phase", "RunSettings", "RunState"]


class Phase(NamedTuple):
    """The phase of a run whose burn-in is as long as necessary.

    Attributes
    ----------
    burn_in_end : int or None
        Iterations at the end of the burn-in; None while it lasts.
    average : bool, int, "tail" or "random"
        Which iterate is returned, in place of that of the settings.
    """

    burn_in_end: int | None = None
    average: Any = False


@dataclass(frozen=True)
class RunSettings:
    """Settings of a run.

    Attributes
    ----------
    model, sampler, solver : LatentModel, Sampler, Solver
        The three parts.
    step_size : Schedule
        Steps gamma of the SA-step (7).
    batch_size : int
        Rows per batch.
    sampling : {"fixed", "shuffle", "inclusion"}
        How batches are drawn.
    max_passes : float
        Passes over the data, at most.
    tol : float
        Threshold of the convergence check; 0 turns it off.
    patience : int
        Epochs without progress before a noisy run counts as converged.
    average : bool, int, "tail" or "random"
        Which iterate is returned, see :class:`sktem.loop.iterates.IterateRule`.
    monitor : bool
        Whether objective and mean field are measured at the end of each epoch, which
        costs further draws.
    stopping : {"change", "gap"}
        Whether ``tol`` bounds the change in an epoch or the remaining gain.
    extrapolates : bool
        Whether EM that ends by a small change continues where more is left to gain.
    leaves_saddles : bool
        Whether a run with exact expectations is disturbed once it has converged, to see
        whether it stays.
    sample : SampleSize
        How many rows progress is measured on.
    on_all_rows : bool
        Whether it is measured on all rows instead.
    memory : str or None
        Folder for what is remembered of each row; None keeps it in memory.
    """

    model: Any
    sampler: Any
    solver: Any
    step_size: Callable
    batch_size: int
    sampling: str
    max_passes: float
    tol: float
    patience: int = 3
    average: Any = False
    monitor: bool = True
    stopping: str = "change"
    extrapolates: bool = False
    leaves_saddles: bool = False
    sample: SampleSize = SampleSize()
    on_all_rows: bool = False
    memory: str | None = None


@dataclass
class RunState:
    """Everything a run changes. At the end of an epoch it can be pickled and resumed.

    An estimator that keeps further records of a run adds fields in a subclass.

    Attributes
    ----------
    params : object
        Current parameters.
    generators : Generators
        Random generators.
    solver : SolverState
        State of the recursion.
    selectors : list of RowSelector
        What draws the batches, one for each index set.
    monitor : Monitor or None
        What measures objective and mean field; None before the first epoch.
    iterates : IterateRule
        Average of the iterates.
    history : History
        Records of the finished epochs.
    chains : ChainTable or None
        Chain states of all rows; None for exact samplers.
    n_rows, rows_visited : int
        Rows of the data, and visits of rows so far.
    first_row : int
        Rows before those of the data, on a stream.
    cpu_time : float
        CPU seconds so far.
    best_objective : float
        Largest objective of an epoch.
    stale_epochs : int
        Epochs since it was reached.
    converged, stopped : bool
        Whether the run has converged, or was stopped between two epochs.
    interrupted : BaseException or None
        What interrupted it: Ctrl-C, or rows that could no longer be read.
    hidden_by_noise : bool
        Whether the noise of the objective hides whether the run has converged.
    judged_from : int
        Epochs before those that decide whether the run has converged: passes of EM
        at the end of a run with noise, extrapolated ones at the end of EM that creeps,
        or epochs measured on all rows; 0 if there are none.
    accelerated : bool
        Whether the run has entered the stage of extrapolated EM steps.
    ends_by_em : bool
        Whether it continues with passes of EM, whatever the solver, from an edge or a
        saddle point.
    saddle_checks : int
        Times that it has been disturbed, see :mod:`sktem.loop.saddles`.
    edges_left : int
        Times that it has left an edge, see :mod:`sktem.loop.saddles`.
    of_sample : bool
        Whether the last objective is of a sample of the rows.
    objective : float
        Objective of the returned parameters on all rows, where the history does not
        end with it; NaN if it does.
    finished_epoch : tuple
        Parameters and averaged statistics at the end of the last epoch.
    phase : Phase or None
        Where the burn-in stands, for schedules that ask; None for runs without one.
    failure : str
        The reason why the run stopped early, for the user; empty if there is none.
    """

    params: Any
    generators: Generators
    solver: SolverState = field(default_factory=SolverState)
    selectors: list[RowSelector] = field(default_factory=list)
    monitor: Monitor | None = None
    iterates: IterateRule = field(default_factory=lambda: IterateRule(False))
    history: History = field(default_factory=History)
    chains: ChainTable | None = None
    n_rows: int = 0
    rows_visited: int = 0
    first_row: int = 0
    cpu_time: float = 0.0
    best_objective: float = -np.inf
    stale_epochs: int = 0
    converged: bool = False
    hidden_by_noise: bool = False
    stopped: bool = False
    interrupted: BaseException | None = None
    judged_from: int = 0
    accelerated: bool = False
    ends_by_em: bool = False
    saddle_checks: int = 0
    edges_left: int = 0
    of_sample: bool = False
    objective: float = np.nan
    finished_epoch: tuple[Any, Any] = (None, None)
    phase: Phase | None = None
    failure: str = ""

    def enter(self, phase: Phase) -> None:
        """Enter a phase; an average of iterates begins anew."""
        self.phase = phase
        self.iterates = IterateRule(phase.average)

    @property
    def returned(self):
        """Statistics of the returned iterate."""
        if self.interrupted:
            return self.finished_epoch[1]
        return self.iterates.result(self.solver.s)
