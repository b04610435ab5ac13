"""The strength of a penalty on weights, chosen by rows that are left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from sktem.estimators.copies import copies_of_each

__all__ = ["DecayChoice", "DecaySearch"]


class DecayChoice(NamedTuple):
    """A weight decay, with the likelihoods of rows left out.

    Attributes
    ----------
    decay : float
        The weight decay.
    log_likelihoods : ndarray of shape (n,)
        Log-likelihood of each row under a fit to other parts; NaN where there is none.
    """

    decay: float
    log_likelihoods: Any


@dataclass(frozen=True)
class DecaySearch:
    """Search for a weight decay by cross-validation.

    Attributes
    ----------
    penalties : tuple of float
        Penalties of all rows together, the largest first.
    tol : float
        Largest entry of the gradient where fits to parts of the rows end.
    max_iter : int
        Most iterations of each of them.
    n_folds : int
        Parts of the rows, each of which is left out once.
    n_rows : int
        About how many rows all parts have together, at most.
    """

    penalties: tuple[float, ...]
    tol: float
    max_iter: int = 300
    n_folds: int = 5
    n_rows: int = 1000

    def folds_of(self, X, y, n_rows):
        """Return the part of each row, -1 for none: equal rows are in one part.

        The weights of all rows add up to `n_rows`. Where rows are mostly equal to some
        others, as inputs of few categories are, so will new rows be: equal rows are
        then in several parts, but copies of rows never.
        """
        rows = np.hstack([X, y])
        keys = np.array([crc32(row.tobytes()) for row in rows])
        distinct, inverse = np.unique(keys, return_inverse=True)
        are_many = len(keys) >= self.n_folds * len(distinct)
        if are_many and copies_of_each(rows) == 1:
            order = np.argsort(inverse, kind="stable")
            begins = np.searchsorted(inverse[order], np.arange(len(distinct)))
            copies = np.empty(len(keys), np.int64)
            copies[order] = np.arange(len(keys)) - begins[inverse[order]]
            keys = keys + copies
        parts = keys % self.n_folds
        every = max(1, int(np.ceil(n_rows / self.n_rows)))
        parts[keys // self.n_folds % every > 0] = -1
        return parts

    def choose(self, learn, rows, parts, n_rows) -> DecayChoice:
        """Return the weight decay under which rows left out are most likely.

        Parameters
        ----------
        learn : callable
            Returns the machine of a weight decay and its parameters, given those of the
            next smaller one (None for the first), and inputs, outputs and shares.
        rows : tuple of ndarray
            Inputs, outputs and shares of the rows.
        parts : ndarray of shape (n,)
            `folds_of` them.
        n_rows : float
            Sum of the weights of the rows.

        Returns
        -------
        DecayChoice
            A penalty over the number of rows. It is the largest, unless the gain of
            another is more than its standard error.
        """
        X, y, shares = rows
        scores = np.full((len(self.penalties), len(X)), np.nan)
        for part in range(self.n_folds):
            out, taken = parts == part, (parts >= 0) & (parts != part)
            mass = shares[taken].sum()
            if not out.any() or not mass > 0:
                continue
            train = X[taken], y[taken], shares[taken] / mass
            params = None
            for place in reversed(range(len(self.penalties))):
                decay = self.penalties[place] / (n_rows * mass)
                machine, params = learn(decay, params, *train)
                scores[place, out] = machine.log_likelihoods(params, X[out], y[out])
        judged = np.isfinite(scores).all(axis=0)
        mass = shares[judged].sum()
        if not mass > 0:
            return DecayChoice(self.penalties[0] / n_rows, scores[0])
        weights, gains = shares[judged] / mass, scores[:, judged] - scores[0, judged]
        means = gains @ weights
        variances = (gains - means[:, None]) ** 2 @ weights
        sure = means - np.sqrt(variances / (n_rows * mass))
        best = int(sure.argmax())
        return DecayChoice(self.penalties[best] / n_rows, scores[best])
