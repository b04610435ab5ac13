"""The chain whose transitions depend on covariates, by multinomial logits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from sktem.emissions.directions import FREE, Direction
from sktem.hidden_markov.chain import Chain, ChainParams
from sktem.hidden_markov.recursions import Matrices

__all__ = ["CovariateScale", "LogitChain", "LogitParams"]

#: numba is imported on first use.
KERNELS = "sktem.hidden_markov.kernels.logits"
#: A column varies if its deviation is more than this share of its size.
VARIES = 1e-12
#: Directions in which the curvature is below this share of the largest do not move.
SINGULAR = 1e-10


class LogitParams(NamedTuple):
    """Parameters of a chain with covariates.

    Attributes
    ----------
    start : ndarray of shape (K,)
        Probabilities of the first state.
    transitions : ndarray of shape (K, K)
        Probabilities of transitions where the covariates are at their centre.
    slopes : ndarray of shape (K, K, p)
        Slopes of the logarithms of the odds of each transition against staying in the
        state, or against the first one that is possible where staying is not.
    """

    start: np.ndarray
    transitions: np.ndarray
    slopes: np.ndarray


class CovariateScale(NamedTuple):
    """Scale of the covariates.

    Attributes
    ----------
    centre : ndarray of shape (p,)
        Values at which ``transitions`` are the probabilities.
    spread : ndarray of shape (p,)
        Deviations from the centre, 1 for columns that do not vary.
    reach : ndarray of shape (p,)
        Largest distances from the centre, in deviations; 0 for columns that do not
        vary, which have no coefficients.
    """

    centre: np.ndarray
    spread: np.ndarray
    reach: np.ndarray

    @classmethod
    def of(cls, covariates, centre=None) -> CovariateScale:
        """Return the scale of some rows, about a centre if it is known."""
        centre = covariates.mean(axis=0) if centre is None else centre
        spread = np.sqrt(((covariates - centre) ** 2).mean(axis=0))
        low, high = covariates.min(axis=0), covariates.max(axis=0)
        return cls.of_range(centre, spread, low, high)

    @classmethod
    def of_range(cls, centre, spread, low, high) -> CovariateScale:
        """Return the scale for deviations, lowest and highest values."""
        varies = spread > VARIES * np.maximum(np.abs(low), np.abs(high))
        spread = np.where(varies, spread, 1.0)
        reach = np.maximum(high - centre, centre - low) / spread
        return cls(centre, spread, np.where(varies, reach, 0.0))

    @classmethod
    def known(cls, centre) -> CovariateScale:
        """Return the scale of a fitted chain, which does not learn."""
        return cls(centre, np.ones(len(centre)), np.zeros(len(centre)))


@dataclass(eq=False)
class LogitChain(Chain):
    """A chain whose transitions to a row depend on the covariates of that row.

    From state i to j they have the probability ``softmax_j(log A[i, j] + B[i, j] @ (x -
    centre))``. The M-step is a Newton step on the expected complete log-likelihood,
    which is concave, shortened so that it cannot fall (Sun and Tran-Dinh 2019, theorem
    2): the third derivative along the step is at most the second times the range of
    what it adds to the logits of a row. Statistics are the slope and the curvature, as
    coefficients of the quadratic function with these at the parameters of the E-step.

    Parameters
    ----------
    n_states, fixed, tied, start_prior, transitions_prior, prior_share
        As of :class:`Chain`; the prior is about ``transitions``.
    scale : CovariateScale
        Scale of the covariates.

    References
    ----------
    K. Lange, A gradient algorithm locally equivalent to the EM algorithm, Journal of
    the Royal Statistical Society B 57, 1995.

    T. Sun and Q. Tran-Dinh, Generalized self-concordant functions: a recipe for
    Newton-type methods, Mathematical Programming 178, 2019.
    """

    scale: CovariateScale = field(kw_only=True)

    @property
    def _shape(self):
        """Numbers of states, and of coefficients with the intercept."""
        return self.n_states, 1 + len(self.scale.centre)

    @property
    def plain(self) -> Chain:
        """The chain without covariates."""
        return self._without()

    def from_plain(self, params: ChainParams, X) -> LogitParams:
        """Return parameters of a chain without covariates."""
        K, q = self._shape
        return LogitParams(*params, np.zeros((K, K, q - 1)))

    @property
    def n_statistics(self) -> int:
        """Number of statistics."""
        K, q = self._shape
        return super().n_statistics + K * (K * q) * (1 + K * q)

    def params_of(self, start, transitions, extra=None) -> LogitParams:
        """Return parameters of fitted attributes."""
        return LogitParams(start, transitions, extra)

    def _padded(self, params, covariates) -> np.ndarray:
        """Return probabilities that lead to rows, (2, n, width, width)."""
        with np.errstate(divide="ignore"):
            logs = np.log(params.transitions)
        slopes = np.moveaxis(params.slopes, 2, 0).reshape(-1, logs.size)
        matrices = Matrices.blank(len(covariates), self.n_states)
        away = covariates - self.scale.centre
        _kernels().probabilities(away, np.ascontiguousarray(slopes), logs, matrices)
        return matrices

    def probabilities(self, params, covariates) -> np.ndarray:
        """Return matrices that lead to rows with these covariates, (n, K, K)."""
        K = self.n_states
        return self._padded(params, covariates)[0, :, :K, :K]

    def matrices(self, params, X) -> Matrices:
        """Return the probabilities for the rows of some sequences."""
        A = self._padded(params, X.covariates)
        return Matrices.of_padded(X.starts(params.start), A, _next_rows(X.n_rows))

    def sums(self, smoothed, matrices, X, params, weights=None) -> np.ndarray:
        """Return the sums of the statistics over sequences, which have weights in."""
        first = smoothed.gamma[X.offsets[:-1][X.begins]].sum(axis=0)
        pairs = smoothed.transitions_of_rows(matrices, X.offsets)
        A = matrices.transitions[0]
        return np.concatenate([first, self._of_pairs(pairs, A, X.covariates, params)])

    def of_each(self, smoothed, matrices, X, params) -> np.ndarray:
        """Return the statistics of each sequence."""
        pairs = smoothed.transitions_of_rows(matrices, X.offsets)
        first = self._first_of_each(smoothed, X)
        return self._by_sequence(first, pairs, matrices.transitions[0], X, params)

    def of_states(self, states, X, params) -> np.ndarray:
        """Return the statistics of each sequence for given states, (n_sequences, .)."""
        return self.of_draws(states[None], X, params)

    def of_draws(self, states, X, params) -> np.ndarray:
        """Return mean statistics of each sequence over draws, (n_draws, n_rows)."""
        n_draws, n = states.shape
        K = self.n_states
        pairs, inner = np.zeros((n, K, K)), np.ones(n, dtype=bool)
        inner[X.offsets[1:][X.lengths > 0] - 1] = False
        rows = np.flatnonzero(inner)
        first, used = np.zeros((len(X), K)), np.flatnonzero(X.begins)
        for drawn in states:
            pairs[rows, drawn[rows], drawn[rows + 1]] += 1.0 / n_draws
            first[used, drawn[X.offsets[:-1][used]]] += 1.0 / n_draws
        A = self._padded(params, X.covariates)[0]
        return self._by_sequence(first, pairs, A, X, params)

    def _by_sequence(self, first, pairs, A, X, params):
        """Return the statistics of each sequence, given its expected transitions."""
        statistics = np.empty((len(X), self.n_statistics))
        statistics[:, : self.n_states] = first
        for s, bounds in enumerate(zip(X.offsets[:-1], X.offsets[1:], strict=True)):
            rows = slice(*bounds)
            sequence = (pairs[rows], A[rows], X.covariates[rows])
            statistics[s, self.n_states :] = self._of_pairs(*sequence, params)
        return statistics

    def _of_pairs(self, pairs, A, covariates, params) -> np.ndarray:
        """Return the statistics of expected transitions from each row to the next."""
        K, q = self._shape
        slope = np.zeros((q, K * K))
        curvature = np.zeros((q * (q + 1) // 2, K * K * (K + 1) // 2))
        if len(pairs) > 1:
            Z = self._regressors(covariates[1:])
            _kernels().derivatives(pairs[:-1], A[1:], Z, slope, curvature)
        # From triangles to whole matrices.
        curvature = curvature.reshape(len(curvature), K, -1)[:, :, _triangle(K)]
        curvature = curvature[_triangle(q)].transpose(2, 3, 0, 4, 1)
        curvature = curvature.reshape(K, K * q, K * q)
        theta = self._logits(params).reshape(K, K * q, 1)
        linear = slope.T.ravel() + (curvature @ theta).ravel()
        counts = pairs.sum(axis=0).ravel()
        return np.concatenate([counts, linear, curvature.ravel()])

    def _regressors(self, covariates):
        """Return covariates on their scale, after a column of ones."""
        away = (covariates - self.scale.centre) / self.scale.spread
        return np.column_stack([np.ones(len(away)), away])

    def _logits(self, params) -> np.ndarray:
        """Return intercepts and slopes on the scale of the covariates, (K, K, q)."""
        p = params.transitions
        logs = np.log(np.where(p > 0, p, 1.0))
        slopes = params.slopes * self.scale.spread
        return np.concatenate([logs[:, :, None], slopes], axis=2)

    def _quadratic(self, s):
        """Return linear (K, K * q) and quadratic (K, K * q, K * q) coefficients."""
        K, q = self._shape
        at = super().n_statistics
        linear = s[at : at + K * K * q].reshape(K, K * q)
        return linear, s[at + K * K * q : self.n_statistics].reshape(K, K * q, K * q)

    def maximize(self, s, params) -> Any:
        """Return the parameters after a Newton step, with the prior."""
        plain = super().maximize(
            s[: super().n_statistics], ChainParams(params.start, params.transitions)
        )
        if "transitions" in self.fixed or not self.scale.reach.any():
            return LogitParams(plain.start, plain.transitions, params.slopes)
        transitions = np.array(params.transitions)
        coefficients = np.array(params.slopes)
        theta, (linear, curvature) = self._logits(params), self._quadratic(s)
        for members in self.groups_of_tied():
            solution = self._newton(
                linear[members].sum(axis=0), curvature[members].sum(axis=0),
                theta[members[0]], transitions[members[0]], members[0],
            )  # fmt: skip
            with np.errstate(divide="ignore"):
                logs = np.where(transitions[members[0]] > 0, solution[:, 0], -np.inf)
            p = np.exp(logs - logs.max())
            for i in members:
                transitions[i] = p / p.sum()
                slopes = solution[:, 1:] - solution[reference(p, i), 1:]
                coefficients[i] = slopes * (p > 0)[:, None] / self.scale.spread
        return LogitParams(plain.start, transitions, coefficients)

    def _newton(self, linear, curvature, theta, p, state):
        """Return intercepts and slopes of a state after a step, (K, q)."""
        K, q = self._shape
        curvature = curvature.reshape(K, q, K, q).copy()
        slope = (linear - curvature.reshape(K * q, -1) @ theta.ravel()).reshape(K, q)
        prior = np.broadcast_to(self.transitions_prior, (K, K))[state] - 1.0
        prior = prior * self.prior_share * (p > 0)
        slope[:, 0] += prior - prior.sum() * p
        curvature[:, 0, :, 0] += prior.sum() * (np.diag(p) - np.outer(p, p))
        free = np.zeros((K, q), dtype=bool)
        free[p > 0] = np.append(True, self.scale.reach > 0)
        free[reference(p, state)] = False
        hessian = curvature.reshape(K * q, -1)[np.ix_(free.ravel(), free.ravel())]
        step = np.zeros((K, q))
        step[free] = _solved(hessian, slope[free])
        ranges = np.ptp(step[p > 0], axis=0)
        d = ranges @ np.append(1.0, self.scale.reach)
        return theta + (np.log1p(d) / d if d > 0 else 1.0) * step

    def project(self, s):
        """Return statistics without negative counts, and whether they are outside."""
        at = super().n_statistics
        plain, outside = super().project(s[:at])
        if outside:
            s = np.concatenate([plain, s[at:]])
        values = np.linalg.eigvalsh(self._quadratic(s)[1])
        return s, bool(outside or values.min() < -SINGULAR * np.abs(values).max())

    def gradient(self, s, params) -> dict:
        """Return derivatives of the log-likelihood by the entries of the fields."""
        linear, curvature = self._quadratic(s)
        K, q = self._shape
        theta = self._logits(params).reshape(K, K * q, 1)
        slope = linear.reshape(K, K, q) - (curvature @ theta).reshape(K, K, q)
        gradients = super().gradient(s, params)
        p = params.transitions
        gradients["transitions"] = slope[:, :, 0] / np.where(p > 0, p, 1.0)
        gradients["slopes"] = slope[:, :, 1:] * self.scale.spread
        return gradients

    def free_directions(self, params, following, X) -> Iterator[Direction]:
        """Yield the directions of probabilities and of coefficients."""
        yield from super().free_directions(params, following, X)
        scale = CovariateScale.of(X.covariates, self.scale.centre)
        columns = np.flatnonzero(scale.reach > 0)
        for members in [] if "transitions" in self.fixed else self.groups_of_tied():
            p = params.transitions[members[0]]
            others = np.flatnonzero(p > FREE.least)
            others = others[others != reference(p, members[0])]
            for j, c in product(others, columns):
                entries = tuple(((i, j, c), 1.0) for i in members)
                yield Direction("slopes", entries, 1.0 / scale.spread[c])

    def slopes_of_fields(self, moved, params) -> dict:
        """Return slopes of fields by directions; coefficients are against staying."""
        slopes = super().slopes_of_fields(moved, params)
        if "slopes" in slopes:
            J, p = slopes.pop("slopes"), params.transitions
            slopes["coefficients"] = np.stack(
                [J[i] - J[i, reference(p[i], i)] for i in range(len(p))]
            )
        return slopes

    def curvatures(self, s) -> np.ndarray:
        """Return curvatures by single coefficients on their scale, (K, K, p)."""
        K, q = self._shape
        diagonal = np.diagonal(self._quadratic(s)[1], axis1=1, axis2=2)
        return diagonal.reshape(K, K, q)[:, :, 1:]

    def n_parameters(self, params) -> int:
        """Return the number of free probabilities and coefficients."""
        count = super().n_parameters(params)
        if "transitions" in self.fixed:
            return count
        varying = int((params.slopes != 0).any(axis=(0, 1)).sum())
        rows = [params.transitions[group[0]] for group in self.groups_of_tied()]
        return count + varying * sum(int((p > 0).sum()) - 1 for p in rows)

    def expanded(self, params, covariates=None):
        """Return start, transitions to rows with covariates, and states."""
        transitions = self.probabilities(params, covariates)
        return params.start, transitions, np.arange(self.n_states)


def reference(p, state: int) -> int:
    """Return the state that others are compared with: itself, if that is possible."""
    return state if p[state] > 0 else int(np.flatnonzero(p > 0)[0])


def _kernels():
    return import_module(KERNELS)


def _triangle(size) -> np.ndarray:
    """Return the places of pairs in a lower triangle by rows, (size, size)."""
    places = np.empty((size, size), np.int64)
    rows, columns = np.tril_indices(size)
    places[rows, columns] = places[columns, rows] = np.arange(len(rows))
    return places


def _next_rows(n):
    """Return the index of the row after each, the last for itself."""
    return np.minimum(np.arange(1, n + 1), n - 1)


def _solved(matrix, right):
    """Return the solution in the directions in which a matrix is not singular."""
    size = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    inverse = np.where(size > 0, 1.0 / np.where(size > 0, size, 1.0), 0.0)
    values, vectors = np.linalg.eigh(matrix * np.outer(inverse, inverse))
    used = values > SINGULAR * max(values.max(initial=0.0), np.finfo(float).tiny)
    shares = np.where(used, 1.0 / np.where(used, values, 1.0), 0.0)
    return inverse * (vectors @ (shares * (vectors.T @ (inverse * right))))
