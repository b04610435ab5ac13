"""Incremental SAEM, incremental EM."""

from __future__ import annotations

from sktem.e_step.expectation import Batch
from sktem.solvers.base import Solver

__all__ = ["ISAEM", "refresh_memory"]


def refresh_memory(state, expectation, rows, Z):
    """Replace remembered latents and update the mean of their statistics.

    Parameters
    ----------
    state : SolverState
        Holds the memory and its mean.
    expectation : Expectation
        The E-step.
    rows : ndarray of int
        Distinct rows.
    Z : ndarray
        Their new latents.
    """
    batch = Batch(rows, expectation.shares(rows))
    change = expectation.of(batch, Z) - expectation.remembered(batch, state.memory)
    state.memory_mean = state.memory_mean + change
    state.memory.put(rows, Z)


class ISAEM(Solver):
    """Incremental SAEM, line 1 of Table 1: only the visited rows' statistics change.

    The proxy is the mean of the statistics at the last visit of each row. With exact
    expectations and step 1 it is incremental EM (Neal and Hinton 1998).

    References
    ----------
    B. Karimi and P. Li, Two-Timescale Stochastic EM Algorithms, 2021, Table 1.

    Examples
    --------
    >>> from sktem.solvers import ISAEM
    >>> ISAEM().step_rho(1000, 10)
    1.0
    """

    #: Name under which compiled sweeps are registered.
    kernel = "isaem"

    def start(self, state, expectation, params, batch_size):
        """Visit every row once to fill the memory."""
        state.memory = expectation.new_memory()
        state.memory_mean = expectation.full_pass(params, 1, state.memory)
        state.s = state.S_tts = state.memory_mean

    def proxy(self, state, expectation, batches, params):
        """Replace the visited rows' share of the mean."""
        rows = batches[0].rows
        if len(rows):
            Z = expectation.draw(rows, params, state.iteration)
            refresh_memory(state, expectation, rows, Z)
        return state.memory_mean
