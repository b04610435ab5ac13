"""Online EM: a step towards the statistics of each batch."""

from __future__ import annotations

from sktem.e_step.expectation import Batch
from sktem.schedules import Polynomial
from sktem.solvers.base import Solver

__all__ = ["OnlineEM"]

#: Rows whose statistics are the start.
ROWS_OF_THE_START = 1000


class OnlineEM(Solver):
    """Online EM of Cappe and Moulines: the proxy is the average over the batch.

    It stores no past rows and needs no initial pass. If a run has no initial
    statistics, it starts from those of a thousand random rows (or of one batch, if that
    is larger), because a single row could not separate mixture components. A run with
    exact expectations that has converged ends with passes of EM, because its last steps
    leave noise in the parameters.

    References
    ----------
    O. Cappe and E. Moulines, On-line expectation-maximization algorithm for latent
    data models, JRSS B 71, 2009, equation (5).

    Examples
    --------
    >>> from sktem.solvers import OnlineEM
    >>> OnlineEM().n_index_sets
    1
    """

    remembers_rows = False
    #: Name under which compiled sweeps are registered.
    sweep_name = "online"

    def start(self, state, expectation, params, batch_size):
        """Visit some rows, if there are no statistics to start from."""
        if state.s is not None:
            return
        n_rows = expectation.n_rows
        size = min(n_rows, max(batch_size, ROWS_OF_THE_START))
        rng = expectation.generators.initialisation
        rows = rng.choice(n_rows, size, replace=False, shuffle=False)
        shares = expectation.shares(rows)
        batch = Batch(rows, shares / shares.sum())
        state.s = state.S_tts = expectation.statistics(batch, params, 0)

    def proxy(self, state, expectation, batches, params):
        """Return the average over the batch."""
        (batch,) = batches
        if len(batch.rows) == 0:  # independent inclusion can leave a batch empty
            return state.s
        total = batch.coefficients.sum()
        return expectation.statistics(batch, params, state.iteration) / total

    def default_step_size(self, sampler):
        """Return ``(k + 2) ** -0.6``."""
        return Polynomial(alpha=0.6, offset=2.0)
