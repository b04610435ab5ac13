"""Incremental SAEM, incremental EM."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sktem.e_step.memory import LatentMemory
from sktem.solvers.base import Solver

__all__ = ["ISAEM", "Remembered", "first_memory", "refresh_memory"]


@dataclass
class Remembered:
    """Latents and mean statistics of the last visits of rows.

    Attributes
    ----------
    latents : LatentMemory
        The latents.
    mean : ndarray of shape (n_statistics,)
        Mean of their statistics over all rows.
    """

    latents: LatentMemory
    mean: np.ndarray


def first_memory(state, expectation, params):
    """Visit every row, and begin with the mean of the statistics."""
    latents = expectation.new_memory()
    state.s = state.S_tts = expectation.full_pass(params, 0, latents)
    return Remembered(latents, state.s)


def refresh_memory(memory, expectation, batch, params, iteration):
    """Replace remembered latents and update the mean of their statistics."""
    batch = batch._replace(coefficients=expectation.shares(batch.rows))
    if len(batch.rows) == expectation.n_rows:
        # All rows: the mean itself costs half of its change.
        memory.mean = expectation.renew(batch, memory.latents, params, iteration)
        return
    change = expectation.replace(batch, memory.latents, params, iteration)
    memory.mean = memory.mean + change


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
    sweep_name = "isaem"

    def start(self, state, expectation, params, batch_size):
        """Visit every row once to fill the memory."""
        return first_memory(state, expectation, params)

    def proxy(self, state, expectation, batches, params):
        """Replace the visited rows' share of the mean."""
        (batch,) = batches
        if len(batch.rows):
            refresh_memory(state.own, expectation, batch, params, state.iteration)
        return state.own.mean
