"""Squared extrapolation of EM, SQUAREM."""

from __future__ import annotations

import numpy as np

from sktem.solvers.accelerated import AcceleratedEM

__all__ = ["SQUAREM"]


#: Says that an extrapolation has been tried, after which an EM step is due.
EXTRAPOLATED = "extrapolated"


class SQUAREM(AcceleratedEM):
    """EM with squared extrapolation (scheme S3) and a monotone safeguard.

    From two EM steps ``r = F(s) - s`` and ``v = F(F(s)) - F(s) - r`` the statistics
    ``s - 2 alpha r + alpha ** 2 v`` are tried, with ``alpha = -|r| / |v|``, at most -1,
    which is EM itself. If their objective is no lower than before, an EM step from
    there begins the next cycle, of three passes; otherwise the cycle counts as two EM
    steps. Expectations have to be exact, and the model needs ``log_likelihood``.

    References
    ----------
    R. Varadhan and C. Roland, Simple and globally convergent methods for accelerating
    the convergence of any EM algorithm, Scandinavian Journal of Statistics 35, 2008.

    Examples
    --------
    >>> from sktem.solvers import SQUAREM
    >>> SQUAREM().n_index_sets
    0
    """

    def next_point(self, record, point):
        """Return an EM step, or an extrapolation after two of them."""
        first, record.own = record.own, None
        if first is None:
            record.own = point
            return point.image
        if isinstance(first, str):
            return point.image
        r, v = first.residual, point.residual - first.residual
        norms = [np.linalg.norm(step / record.scale) for step in (r, v)]
        alpha = -norms[0] / norms[1] if norms[1] > 0 else -1.0
        if alpha >= -1.0:
            return point.image
        record.own = EXTRAPOLATED
        return first.s - 2 * alpha * r + alpha**2 * v

    def rejected(self, record):
        """Begin a new cycle."""
        record.own = None
