"""The strength of a penalty on weights, chosen by rows that are left out."""

from __future__ import annotations

from zlib import crc32

import numpy as np

__all__ = ["chosen_decay", "parts_of"]

#: Parts of the rows, each of which is left out once.
FOLDS = 5


def parts_of(X, y, n_rows, most):
    """Return to which part each row belongs, -1 if to none: the same for equal rows.

    All parts together are about `most` of the rows, whose weights add up to `n_rows`.
    """
    keys = np.array([crc32(row.tobytes()) for row in np.hstack([X, y])])
    parts = keys % FOLDS
    parts[keys // FOLDS % max(1, int(np.ceil(n_rows / most))) > 0] = -1
    return parts


def chosen_decay(penalties, learn, judge, rows, parts, n_rows) -> float:
    """Return the weight decay under which rows left out are most likely.

    Parameters
    ----------
    penalties : sequence of float
        Penalties of all rows together, the largest first.
    learn : callable
        Returns the machine of a weight decay and its parameters, given those of the
        next smaller one (None for the first), and inputs, outputs and shares.
    judge : callable
        Returns the log-likelihood of each row of inputs and outputs, given both.
    rows : tuple of ndarray
        Inputs, outputs and shares of the rows.
    parts : ndarray of shape (n,)
        `parts_of` them.
    n_rows : float
        Sum of the weights of the rows.

    Returns
    -------
    float
        A penalty over the number of rows. It is the largest, unless the gain of another
        is more than its standard error.
    """
    X, y, shares = rows
    found = np.full((len(penalties), len(X)), np.nan)
    for part in range(FOLDS):
        out, taken = parts == part, (parts >= 0) & (parts != part)
        mass = shares[taken].sum()
        if not out.any() or not mass > 0:
            continue
        own = X[taken], y[taken], shares[taken] / mass
        params = None
        for place in reversed(range(len(penalties))):
            decay = penalties[place] / (n_rows * mass)
            machine, params = learn(decay, params, *own)
            found[place, out] = judge(machine, params, X[out], y[out])
    judged = np.isfinite(found).all(axis=0)
    mass = shares[judged].sum()
    if not mass > 0:
        return penalties[0] / n_rows
    weights, gains = shares[judged] / mass, found[:, judged] - found[0, judged]
    means = gains @ weights
    variances = (gains - means[:, None]) ** 2 @ weights
    sure = means - np.sqrt(variances / (n_rows * mass))
    return penalties[int(sure.argmax())] / n_rows
