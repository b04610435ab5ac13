"""Variance-reduced two-timescale EM, sEM-VR."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from sktem.e_step.memory import LatentMemory
from sktem.solvers.base import VarianceReducedSolver

__all__ = ["VRTTEM", "Anchor"]


@dataclass
class Anchor:
    """Anchor from which the differences of vrTTEM are taken.

    Attributes
    ----------
    mean : ndarray of shape (n_statistics,)
        Mean statistics of all rows.
    params : object
        Parameters, from which exact expectations are computed again.
    latents : LatentMemory or None
        Draws of all rows, None for exact expectations.
    """

    mean: np.ndarray
    params: Any = None
    latents: LatentMemory | None = None


class VRTTEM(VarianceReducedSolver):
    """Variance-reduced two-timescale EM, line 2 of Table 1.

    At an anchor, all rows are visited. In the iterations that follow, the proxy is the
    anchor's mean plus the change of the visited rows since the anchor. With exact
    expectations and step 1 this is sEM-VR (Chen, Zhu, Teh and Zhang 2018). With exact
    expectations, the anchor's values are recomputed from the anchor's parameters when
    needed, so that no table is kept; otherwise the anchor's draws are remembered.

    Parameters
    ----------
    rho : float or "auto", default="auto"
        Step of the Inc-step (8). "auto" is ``(n / batch_size) ** (-2 / 3)``.
    epoch_length : int or None, default=None
        Number of iterations between anchors; None means one pass, ``n / batch_size``.

    References
    ----------
    B. Karimi and P. Li, Two-Timescale Stochastic EM Algorithms, 2021, Table 1.

    Examples
    --------
    >>> from sktem.solvers import VRTTEM
    >>> VRTTEM(rho=0.1).step_rho(1000, 10)
    0.1
    """

    #: Name under which compiled sweeps are registered.
    sweep_name = "vrttem"
    anchored = True

    def __init__(self, rho="auto", epoch_length=None):
        super().__init__(rho=rho)
        self.epoch_length = epoch_length

    def iterations_per_anchor(self, n_rows, batch_size):
        """Return ``epoch_length``, or the iterations of a pass."""
        length = self.epoch_length
        if length is None:
            length = -(-n_rows // batch_size)
        if not isinstance(length, Integral) or length < 1:
            raise ValueError(f"epoch_length must be a positive integer, got {length!r}")
        return int(length)

    def refresh(self, state, expectation, params):
        """Visit every row: the anchor."""
        if expectation.sampler.deterministic:
            mean = expectation.full_pass(params, state.iteration)
            state.own = Anchor(mean, params=params)
        else:
            latents = expectation.new_memory()
            mean = expectation.full_pass(params, state.iteration, latents)
            state.own = Anchor(mean, latents=latents)

    def start(self, state, expectation, params, batch_size):
        """Visit every row: the first anchor."""
        self.refresh(state, expectation, params)
        state.s = state.S_tts = state.own.mean
        return state.own

    def proxy(self, state, expectation, batches, params):
        """Return the anchor's mean plus the change of the visited rows."""
        (batch,), anchor = batches, state.own
        if len(batch.rows) == 0:
            return anchor.mean
        if anchor.latents is not None:
            change = expectation.change(batch, anchor.latents, params, state.iteration)
            return anchor.mean + change
        now = expectation.statistics(batch, params, state.iteration)
        then = expectation.statistics(batch, anchor.params, state.iteration)
        return anchor.mean + (now - then)

    def keeps_latents(self, sampler):
        """Return whether the anchor is of draws."""
        return not sampler.deterministic

    def rows_per_iteration(self, n_rows, batch_size, sampler):
        """Return the number of row visits of one iteration."""
        return (2 if sampler.deterministic else 1) * batch_size
