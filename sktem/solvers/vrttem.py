"""Variance-reduced two-timescale EM, sEM-VR."""

from __future__ import annotations

from numbers import Integral

from sktem.solvers.base import VarianceReducedSolver

__all__ = ["VRTTEM"]


class VRTTEM(VarianceReducedSolver):
    """Variance-reduced two-timescale EM, line 2 of Table 1.

    At an anchor all rows are visited; in the iterations that follow, the proxy is the
    anchor's mean plus the change of the visited rows since the anchor. With exact
    expectations and step 1 it is sEM-VR (Chen, Zhu, Teh and Zhang 2018): the anchor's
    values are then computed again from the anchor's parameters when they are needed, so
    that no table is kept; otherwise the anchor's draws are remembered.

    Parameters
    ----------
    rho : float or "auto", default="auto"
        Step of the Inc-step (8). "auto" is ``(n / batch_size) ** (-2 / 3)``.
    epoch_length : int or None, default=None
        Iterations between anchors; None means one pass, ``n / batch_size``.

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
    kernel = "vrttem"
    anchored = True

    def __init__(self, rho="auto", epoch_length=None):
        super().__init__(rho=rho)
        self.epoch_length = epoch_length

    def refresh(self, state, expectation, params):
        """Visit every row: the anchor."""
        if expectation.sampler.deterministic:
            state.anchor_params = params
        else:
            state.memory = expectation.new_memory()
        state.memory_mean = expectation.full_pass(
            params, max(state.iteration, 1), state.memory
        )

    def start(self, state, expectation, params, batch_size):
        """Visit every row: the first anchor."""
        length = self.epoch_length
        if length is None:
            length = -(-expectation.n_rows // batch_size)
        if not isinstance(length, Integral) or length < 1:
            raise ValueError(f"epoch_length must be a positive integer, got {length!r}")
        state.iterations_per_anchor = int(length)
        self.refresh(state, expectation, params)
        state.s = state.S_tts = state.memory_mean

    def proxy(self, state, expectation, batches, params):
        """Return the anchor's mean plus the change of the visited rows."""
        (batch,) = batches
        if len(batch.rows) == 0:
            return state.memory_mean
        now = expectation.statistics(batch, params, state.iteration)
        if state.memory is None:
            then = expectation.statistics(batch, state.anchor_params, state.iteration)
        else:
            then = expectation.remembered(batch, state.memory)
        return state.memory_mean + (now - then)

    def rows_per_iteration(self, n_rows, batch_size, sampler):
        """Return the number of row visits of one iteration."""
        return (2 if sampler.deterministic else 1) * batch_size
