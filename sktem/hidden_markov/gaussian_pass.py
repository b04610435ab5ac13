"""Passes of EM over sequences of Gaussian rows, in arrays that stay in the cache."""

from __future__ import annotations

import math
import threading
from functools import reduce
from importlib import import_module

import numpy as np

from sktem.emissions.elliptical import DENSE, factors_of, packed
from sktem.emissions.gaussian import Gaussian
from sktem.hidden_markov.chain import Chain
from sktem.hidden_markov.rows import rows_of_part
from sktem.kernels.blocks import plain

__all__ = ["GaussianPass"]

ROWS, SCALED = "emissions.kernels.rows", "hidden_markov.kernels.scaled"
NOTHING, FIRST = np.empty(0), np.empty(0, np.int64)


class GaussianPass:
    """Sums over parts of sequences of Gaussian rows without holes.

    What is the same for all parts is computed once, and arrays of the rows of a part
    are used again for the next: new ones would come from the system page by page, and
    threads would wait for each other in the interpreter.

    Parameters
    ----------
    model : SequenceModel
        The model.
    X : ObservedSequences
        Sequences.
    params : HiddenMarkovParams
        Parameters.
    """

    def __init__(self, model, X, params):
        self.kind = model.emission.covariance_type
        self.X, self.offsets = plain(X.X), X.offsets
        self.matrices = model.chain.matrices(params.chain, X)
        factors, log_dets = factors_of(self.kind, params.emission)
        self.factors = plain(factors)
        self.centre = plain(params.emission.centre)
        self.means = params.emission.means - self.centre
        constants = log_dets - 0.5 * math.log(2 * math.pi) * X.X.shape[1]
        self.normal = self.means, self.factors, constants, -0.5
        self.size = rows_of_part()
        self.work = threading.local()
        rows, shape = _kernels(ROWS), "full" if self.kind in DENSE else "diagonal"
        self.distances = getattr(rows, f"{shape}_distances")
        self.add_moments = getattr(rows, f"{shape}_moments")
        scaled = _kernels(SCALED)
        self.forward, self.backward = scaled.forward, scaled.backward

    @classmethod
    def of(cls, model, X, params) -> GaussianPass | None:
        """Return the pass, None where rows, chain or emission are others."""
        is_plain = type(model.emission) is Gaussian and type(model.chain) is Chain
        known = X.labels, X.covariates, X.entry, model.emission_of_state
        if not is_plain or any(x is not None for x in known) or not X.is_complete:
            return None
        return cls(model, X, params)

    def arrays(self, n):
        """Return arrays for the densities of a block and the recursions of n rows."""
        if n > getattr(self.work, "n", 0):
            n, width = max(n, self.size), self.matrices.start.shape[1]
            self.work.densities = np.empty((self.size, len(self.means)))
            self.work.states, self.work.scales = np.empty((2, n, width)), np.empty(n)
            self.work.n = n
        return self.work.densities, *self.work.states, self.work.scales

    def totals(self, parts):
        """Return sums over all parts, and which sequences these leave out.

        Parameters
        ----------
        parts : list of tuple
            From `sums`, in order.

        Returns
        -------
        sums : tuple
            Statistics and log-likelihood.
        left_out : ndarray of int
            Sequences that only logarithms do, which are not in the sums.
        """
        left_out, *terms = zip(*parts, strict=True)
        value, starts, products, mass, first, second = (
            reduce(np.add, term) for term in terms
        )
        K = self.matrices.n_states
        pairs = products[:K, :K] * self.matrices.probabilities[0]
        moments = mass, first.ravel(), packed(self.kind, second).ravel()
        statistics = np.concatenate([starts, pairs.ravel(), *moments])
        return (statistics, float(value)), np.concatenate(left_out)

    def sums(self, part, weights):
        """Return the sequences of a part that are left out, and sums over the others.

        Sequences with more rows than a part go by blocks.

        Parameters
        ----------
        part : slice
            Sequences.
        weights : ndarray of shape (n_sequences,) or None
            Their weights.

        Returns
        -------
        left_out : ndarray of int
            Sequences that only logarithms do.
        value : float
            Log-likelihood.
        starts, products : ndarray of shape (K,) and (width, width)
            Of first states, and of transitions over their probabilities.
        mass, first, second : ndarray
            Of states, and moments of rows.
        """
        ends = self.offsets[part.start : part.stop + 1]
        Y, ends = self.X[ends[0] : ends[-1]], ends - ends[0]
        n, n_sequences = len(Y), len(ends) - 1
        start, transitions, _, K = self.matrices
        L, b, a, c = self.arrays(n)
        new, total = np.empty(n_sequences), np.zeros(n_sequences)
        failed = np.zeros(n_sequences, dtype=bool)
        starts, products = np.zeros(K), np.zeros(transitions.shape[2:])
        mass, first = np.zeros(K), np.zeros(self.means.shape)
        second, next_row = np.zeros(self.factors.shape), NOTHING
        sums = starts, products, mass, first, second
        blocks = [slice(k, min(k + self.size, n)) for k in range(0, n, self.size)]
        for rows in blocks:
            block = L[: rows.stop - rows.start]
            self.distances(Y[rows], self.centre, *self.normal, block)
            bounds = ends if len(blocks) == 1 else np.array([0, len(block)])
            states = b[rows], a[rows], c[rows]
            self.forward(block, bounds, start, transitions, FIRST, *states, new, failed)
            total += new
            if len(blocks) > 1:
                if failed[0]:
                    return [part.start], 0.0, *sums
                last = rows.stop - 1
                start = (a[last] / c[last] @ transitions[0, 0])[None]
        own = NOTHING if weights is None else plain(weights)
        for rows in reversed(blocks):
            gamma, end = L[: rows.stop - rows.start], min(rows.stop, n - 1)
            bounds = ends if len(blocks) == 1 else np.array([0, len(gamma)])
            states = b[rows], a[rows], c[rows]
            self.backward(
                *states, bounds, transitions, FIRST, own, next_row, gamma, failed
            )
            if len(blocks) > 1 and failed[0]:
                return [part.start], 0.0, *map(np.zeros_like, sums)
            for i in np.flatnonzero(failed) if failed.any() else ():
                gamma[bounds[i] : bounds[i + 1]] = 0.0
            if rows.start == 0:
                firsts = bounds[:-1][bounds[1:] > bounds[:-1]]
                starts += gamma[firsts].sum(axis=0)
            products += a[rows.start : end].T @ b[rows.start + 1 : end + 1]
            self.add_moments(Y[rows], self.centre, gamma, mass, first, second)
            next_row = b[rows.start]
        total[failed] = 0.0
        value = total.sum() if weights is None else weights @ total
        left_out = part.start + np.flatnonzero(failed)
        return left_out, value, *sums


def _kernels(name):
    """Return compiled loops, imported on first use: numba is slow to import."""
    return import_module(f"sktem.{name}")
