"""The contract of a solver: the recursion on averaged statistics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from sktem.choices import is_auto
from sktem.schedules import Constant, Polynomial, Schedule

__all__ = ["Solver", "SolverState"]


@dataclass
class SolverState:
    """Mutable state of a run.

    Attributes
    ----------
    iteration : int
        Iterations done.
    s : ndarray or None
        Averaged statistics, s-hat of (7), from which the parameters follow.
    S_tts : ndarray or None
        Variance-reduced statistics of (8).
    own : object
        The solver's own record, as returned by :meth:`Solver.start`.
    """

    iteration: int = 0
    s: np.ndarray | None = None
    S_tts: np.ndarray | None = None
    own: Any = None


class Solver(BaseEstimator, ABC):
    """One recursion of Table 1 of Karimi and Li, or a relative of it.

    A solver defines how a proxy of the full-batch statistics is computed from the rows
    visited in an iteration. It does not depend on the meaning of the statistics, and it
    holds settings only: the state of a run is kept in :class:`SolverState`.

    Attributes
    ----------
    n_index_sets : int
        Number of batches of rows needed at each iteration; 0 means all rows.
    anchored : bool
        Whether all rows are visited once per epoch in addition to the batches.
    remembers_rows : bool
        Whether the proxy of a batch depends on earlier visits of its rows. On a stream
        such a solver treats each chunk as its population.
    convex : bool
        Whether averaged statistics stay in the convex hull of the rows' statistics, so
        that they never need to be projected back.
    is_monotone : bool
        Whether passes over all rows with exact expectations never lower the objective.
    """

    n_index_sets: ClassVar[int] = 1
    anchored: ClassVar[bool] = False
    remembers_rows: ClassVar[bool] = True
    convex: ClassVar[bool] = True
    is_monotone: ClassVar[bool] = True

    def start(
        self, state: SolverState, expectation, params: Any, batch_size: int
    ) -> Any:
        """Do the initial pass, if the recursion needs one, and return the record.

        Parameters
        ----------
        state : SolverState
            Gets the first statistics, if there is an initial pass.
        expectation : Expectation
            The E-step.
        params : object
            Starting parameters.
        batch_size : int
            Rows per batch.

        Returns
        -------
        object
            The solver's record, kept between iterations as ``state.own``; None if there
            is none.
        """
        return None

    def iterations_per_anchor(self, n_rows: int, batch_size: int) -> int:
        """Return how many iterations lie between calls of :meth:`refresh`, 0 for never.

        Parameters
        ----------
        n_rows : int
            Rows of the data.
        batch_size : int
            Rows per batch.

        Returns
        -------
        int
            Iterations.
        """
        return 0

    def feasible_mean(self, state: SolverState) -> np.ndarray | None:
        """Return statistics to replace a proxy that no data could produce.

        Parameters
        ----------
        state : SolverState
            The state.

        Returns
        -------
        ndarray of shape (n_statistics,) or None
            A mean over remembered rows, None if there is none.
        """
        return None

    def settled(self, state: SolverState) -> np.ndarray | None:
        """Return the statistics with which a run ends.

        Parameters
        ----------
        state : SolverState
            The state.

        Returns
        -------
        ndarray of shape (n_statistics,) or None
            The averaged statistics, unless the solver tries others during the run.
        """
        return state.s

    def refresh(self, state: SolverState, expectation, params: Any) -> None:
        """Visit every row, for solvers with anchors.

        Parameters
        ----------
        state : SolverState
            Its record gets the anchor.
        expectation : Expectation
            The E-step.
        params : object
            Current parameters.
        """

    @abstractmethod
    def proxy(
        self, state: SolverState, expectation, batches: tuple, params: Any
    ) -> np.ndarray:
        """Return the proxy of the full-batch statistics, and update the memory.

        Parameters
        ----------
        state : SolverState
            The state; the solver's own record is updated.
        expectation : Expectation
            The E-step.
        batches : tuple of Batch
            The rows of this iteration, one batch for each index set.
        params : object
            Current parameters.

        Returns
        -------
        ndarray of shape (n_statistics,)
            The proxy, calligraphic S of Table 1.
        """

    def step_rho(self, n_rows: int, batch_size: float) -> float:
        """Return the step rho of the Inc-step (8).

        Parameters
        ----------
        n_rows : int
            Rows of the data.
        batch_size : float
            Rows per batch, on average.

        Returns
        -------
        float
            Step in (0, 1]; 1 unless the solver reduces variance.
        """
        return 1.0

    def keeps_latents(self, sampler) -> bool:
        """Return whether latents of rows are kept from one iteration to the next.

        Parameters
        ----------
        sampler : Sampler
            The sampler.

        Returns
        -------
        bool
            Whether they are kept, apart from the states of Markov chains.
        """
        return self.remembers_rows

    def rows_per_iteration(self, n_rows: int, batch_size: float, sampler) -> float:
        """Return the number of row visits of one iteration.

        Parameters
        ----------
        n_rows : int
            Rows of the data.
        batch_size : float
            Rows per batch, on average.
        sampler : Sampler
            The sampler.

        Returns
        -------
        float
            Row visits, not including the passes at anchors.
        """
        return self.n_index_sets * batch_size if self.n_index_sets else n_rows

    def default_step_size(self, sampler) -> Schedule:
        """Return the schedule that ``step_size="auto"`` means.

        Parameters
        ----------
        sampler : Sampler
            With exact expectations there is no Monte Carlo noise to average out.

        Returns
        -------
        Schedule
            Step sizes gamma.
        """
        return Constant(1.0) if sampler.deterministic else Polynomial(alpha=0.5)


class VarianceReducedSolver(Solver):
    """Base of the solvers with a constant rho below 1.

    Their records have a field ``mean``, the mean statistics over remembered rows.

    Parameters
    ----------
    rho : float or "auto", default="auto"
        Step of the Inc-step (8). "auto" is ``(n / batch_size) ** (-2 / 3)``, the
        theorems' rate per batch; with a batch of one it is ``n ** (-2 / 3)``.
    """

    convex = False

    def __init__(self, rho="auto"):
        self.rho = rho

    def step_rho(self, n_rows, batch_size):
        """Return the step rho of the Inc-step (8)."""
        if is_auto(self.rho):
            return float((n_rows / batch_size) ** (-2 / 3))
        if not isinstance(self.rho, Real) or not 0 < float(self.rho) <= 1:
            raise ValueError(f'rho must be "auto" or in (0, 1], got {self.rho!r}')
        return float(self.rho)

    def feasible_mean(self, state):
        """Return the ``mean`` of the solver's record."""
        return state.own.mean
