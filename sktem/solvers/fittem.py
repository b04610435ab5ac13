"""Fast incremental two-timescale EM, FIEM."""

from __future__ import annotations

from sktem.solvers.base import VarianceReducedSolver
from sktem.solvers.isaem import first_memory, refresh_memory

__all__ = ["FITTEM"]


class FITTEM(VarianceReducedSolver):
    """Fast incremental two-timescale EM, line 3 of Table 1.

    Two independent sets of rows are drawn. The first gives the proxy, with the
    remembered latents as a control variate; the second refreshes the memory. The old
    value is always the stored one, never redrawn. With exact expectations and step 1 it
    is FIEM (Karimi, Wai, Moulines and Lavielle 2019).

    Parameters
    ----------
    rho : float or "auto", default="auto"
        Step of the Inc-step (8). "auto" is ``(n / batch_size) ** (-2 / 3)``.

    References
    ----------
    B. Karimi and P. Li, Two-Timescale Stochastic EM Algorithms, 2021, Table 1.

    Examples
    --------
    >>> from sktem.solvers import FITTEM
    >>> FITTEM().n_index_sets
    2
    """

    n_index_sets = 2
    #: Name under which compiled sweeps are registered.
    sweep_name = "fittem"

    def start(self, state, expectation, params, batch_size):
        """Visit every row once to fill the memory."""
        return first_memory(state, expectation, params)

    def proxy(self, state, expectation, batches, params):
        """Return the memory's mean plus the change of the first rows."""
        first, second = batches
        memory = state.own
        proxy = memory.mean
        if len(first.rows):
            change = expectation.change(first, memory.latents, params, state.iteration)
            proxy = proxy + change
        if len(second.rows):
            refresh_memory(memory, expectation, second, params, state.iteration)
        return proxy
