"""Solvers that visit every row at every iteration."""

from __future__ import annotations

from sktem.solvers.base import Solver

__all__ = ["FullBatch"]


class FullBatch(Solver):
    """EM, Monte Carlo EM and SAEM: the proxy is the full-batch average (6).

    With exact expectations and step 1 it is EM (Dempster, Laird and Rubin 1977), with
    draws and step 1 Monte Carlo EM (Wei and Tanner 1990), with draws and decreasing
    steps SAEM (Delyon, Lavielle and Moulines 1999).

    Examples
    --------
    >>> from sktem.solvers import FullBatch
    >>> FullBatch().n_index_sets
    0
    """

    n_index_sets = 0
    remembers_rows = False

    def proxy(self, state, expectation, batches, params):
        """Return the mean statistics of all rows."""
        return expectation.full_pass(params, state.iteration)
