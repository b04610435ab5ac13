"""Restricted machine of real-valued outputs and hidden units given inputs.

``p(y, h | x)`` is proportional to ``exp(-sum_k e_k^2 / 2 + sum_j h_j (c_j + (x W)_j +
sum_k V_kj e_k))`` with ``e_k = r_k y_k - d_k - (x B)_k``. Given h the outputs are
independent and normal, with means ``(d + x B + V h) / r`` and standard deviations ``1 /
r``, so that y given x is a mixture of as many normal densities as the hidden units have
states. In these parameters, those of Olsen (1978), the slopes do not grow as the noise
becomes small; without hidden units the log-likelihood is concave.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sktem.boltzmann.conditional.conditional_machines import draw_rows
from sktem.boltzmann.conditional.decays import DecaySearch
from sktem.boltzmann.lbfgs import Parts, minimised
from sktem.boltzmann.machines.enumeration import enumerate_states
from sktem.boltzmann.sums import hidden_sums, state_slopes, state_sums

__all__ = ["ROOTS", "RealOutputs", "largest_roots", "learned_decay"]


class RootRule(NamedTuple):
    """Bounds of r, one over a standard deviation; that of a column of outputs is 1.

    Attributes
    ----------
    largest, least : float
        Bounds.
    off_grid : float
        How far from a whole number of steps a value on a grid may be, of which no
        distances below a step are known.
    """

    largest: float = 1e3
    least: float = 1e-3
    off_grid: float = 1e-4


ROOTS = RootRule()


class StartRule(NamedTuple):
    """Starts of a fit, of which the most promising is continued.

    Attributes
    ----------
    n_starts : int
        Their number, where there are hidden units.
    max_iter : int
        Iterations by which they are compared.
    steepness : float
        Root mean square of the slope of a hidden unit's field along scaled inputs.
    """

    n_starts: int = 4
    max_iter: int = 150
    steepness: float = 4.0


class RealOutputs:
    """The penalised mean log-loss of outputs, its gradient, moments and draws.

    Parameters
    ----------
    n_inputs, n_hidden : int
        Inputs and hidden units.
    roots : ndarray of shape (n_outputs,)
        Largest r of each output.
    weight_decay : float
        Strength of the L2 penalty on W and on ``U = V / r``.
    """

    #: How rows left out choose a penalty.
    decay_search = DecaySearch((30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03), tol=1e-3)
    starts = StartRule()

    def __init__(self, n_inputs, n_hidden, roots, weight_decay):
        self.weight_decay, self.roots, n_outputs = weight_decay, roots, len(roots)
        self.n_hidden, self.states = n_hidden, enumerate_states(n_hidden)
        #: Views of W, V, c, B, d and r in a vector of all of them.
        self.parts = Parts(
            (n_inputs, n_hidden), (n_outputs, n_hidden), (n_hidden,),
            (n_inputs, n_outputs), (n_outputs,), (n_outputs,),
        )  # fmt: skip

    def start(self, X, y, shares, rng):
        """Return least squares, and weights of hidden units that bend the line."""
        params = np.zeros(self.parts.n_parameters)
        W, V, c, B, d, r = self.parts(params)
        roots, centre, middle = np.sqrt(shares)[:, None], shares @ X, shares @ y
        line = np.linalg.lstsq(roots * (X - centre), roots * (y - middle), rcond=None)
        above = middle - centre @ line[0]
        stds = np.sqrt(shares @ (y - X @ line[0] - above) ** 2)
        r[:] = np.clip(1 / np.maximum(stds, 1 / ROOTS.largest), ROOTS.least, self.roots)
        B[:], d[:] = r * line[0], r * above
        W[:] = rng.standard_normal(W.shape) * self.starts.steepness / np.sqrt(len(W))
        # They turn on at rows, the same whether weights or copies repeat these.
        order = np.lexsort(X.T)
        places = np.cumsum(shares[order])[:-1].searchsorted(rng.random(len(c)))
        c[:] = -(X[order[places]] * W.T).sum(axis=1)
        V[:] = rng.standard_normal(V.shape) * 0.5 / np.sqrt(max(len(c), 1))
        return params

    def bounds(self):
        """Return the bounds of the parameters: there is always some noise."""
        low = np.full(self.parts.n_parameters, -np.inf)
        high = -low
        self.parts(low)[-1][:], self.parts(high)[-1][:] = ROOTS.least, self.roots
        return np.column_stack([low, high])

    def learned(self, start, rows, max_iter, tol):
        """Return the end of L-BFGS from a start, for X, y and shares."""
        return minimised(self.loss, start, rows, max_iter, tol, self.bounds())

    def learned_from_best(self, rng, rows, max_iter, tol):
        """Return the end of L-BFGS from the most promising of several starts."""
        rule, (X, y, shares) = self.starts, rows
        n_starts = rule.n_starts if self.n_hidden else 1
        n_iter = min(rule.max_iter, max_iter) if n_starts > 1 else max_iter
        ends = [
            self.learned(self.start(X, y, shares, rng), rows, n_iter, tol)
            for _ in range(n_starts)
        ]
        best = min(ends, key=lambda end: end.fun)
        if best.nit < n_iter or n_iter == max_iter:
            return best
        end = self.learned(best.x, rows, max_iter - n_iter, tol)
        end.nit += best.nit
        return end

    def slopes_within(self, params, gradient):
        """Return a gradient without entries that lead beyond the bounds."""
        low, high = self.bounds().T
        beyond = ((params <= low) & (gradient > 0)) | (
            (params >= high) & (gradient < 0)
        )
        return np.where(beyond, 0.0, gradient)

    def _joint(self, params, X, y):
        """Return e, fields, means given e, and the log of the sum over h of rows."""
        W, V, c, B, d, r = self.parts(params)
        errors, fields = r * y - X @ B - d, X @ W + c
        sums, means = hidden_sums(fields + errors @ V)
        sums -= 0.5 * (errors**2).sum(axis=1)
        return errors, fields, means, sums + np.log(r / np.sqrt(2 * np.pi)).sum()

    def _shifts(self, params):
        """Return ``V h`` for each state, and its addition to the log-weight."""
        shifts = self.states @ self.parts(params)[1].T
        return shifts, 0.5 * (shifts**2).sum(axis=1)

    def log_likelihoods(self, params, X, y):
        """Return the log-density of the outputs of each row."""
        _, fields, _, values = self._joint(params, X, y)
        _, extra = self._shifts(params)
        for rows, totals, _ in state_sums(fields, self.states, extra):
            values[rows] -= totals
        return values

    def loss(self, params, X, y, shares):
        """Return the loss of rows, whose shares add up to 1, and its gradient."""
        W, V, _, _, _, r = self.parts(params)
        gradient = np.zeros_like(params)
        to_W, to_V, to_c, to_B, to_d, to_r = self.parts(gradient)
        errors, fields, means, values = self._joint(params, X, y)
        shifts, extra = self._shifts(params)
        means *= shares[:, None]
        totals, along, mass = state_slopes(fields, self.states, extra, shares)
        values -= totals
        along -= means
        to_errors = errors * shares[:, None] - means @ V.T
        to_B[:], to_d[:] = -X.T @ to_errors, -to_errors.sum(axis=0)
        to_r[:] = (y * to_errors).sum(axis=0) - 1 / r
        to_V[:] = (shifts * mass[:, None]).T @ self.states - errors.T @ means
        to_W[:], to_c[:] = X.T @ along, along.sum(axis=0)
        decay, U = self.weight_decay, V / r[:, None]
        to_W += decay * W
        to_V += decay * U / r[:, None]
        to_r -= decay * (U**2).sum(axis=1) / r
        penalty = 0.5 * decay * float(np.sum(W**2) + np.sum(U**2))
        return penalty - float(shares @ values), gradient

    def _states_given(self, params, X):
        """Return `state_sums` of the hidden states given inputs."""
        W, _, c, *_ = self.parts(params)
        fields, (_, extra) = X @ W + c, self._shifts(params)
        return state_sums(fields, self.states, extra)

    def moments(self, params, X):
        """Return means and variances of the outputs given inputs."""
        *_, B, d, r = self.parts(params)
        shifts, means = self._shifts(params)[0], X @ B + d
        variances = np.ones(means.shape)
        for rows, _, weights in self._states_given(params, X):
            shift = weights @ shifts
            means[rows] += shift
            variances[rows] += np.maximum(weights @ shifts**2 - shift**2, 0)
        return means / r, variances / r**2

    def draws(self, params, X, rng):
        """Return outputs drawn given inputs."""
        *_, B, d, r = self.parts(params)
        shifts, drawn = self._shifts(params)[0], X @ B + d
        for rows, _, weights in self._states_given(params, X):
            drawn[rows] += shifts[draw_rows(weights, rng)]
        return (drawn + rng.standard_normal(drawn.shape)) / r


def largest_roots(y):
    """Return the largest r of outputs: few values on a grid are rounded ones."""
    roots = np.full(y.shape[1], ROOTS.largest)
    for k, column in enumerate(y.T):
        gaps = np.diff(np.unique(column))
        if 0 < len(gaps) < len(y) / 2:
            steps = gaps / gaps.min()
            if np.abs(steps - np.rint(steps)).max() < ROOTS.off_grid:
                roots[k] = min(ROOTS.largest, np.sqrt(12) / gaps.min())
    return roots


def learned_decay(sizes: tuple[int, int, Any], rows, unscaled, n_rows, seed) -> float:
    """Return the weight decay of a machine of some sizes, see `DecaySearch`.

    `unscaled` are inputs and outputs before they are scaled, `seed` is that of the
    first weights.
    """
    search = RealOutputs.decay_search

    def learn(decay, _, *train):
        # From least squares each time: a smaller penalty may have followed noise.
        machine = RealOutputs(*sizes, decay)
        inputs, outputs, shares = train
        start = machine.start(inputs, outputs, shares, np.random.default_rng(seed))
        return machine, machine.learned(start, train, search.max_iter, search.tol).x

    X, y = unscaled
    parts = search.folds_of(X, y, n_rows)
    return search.choose(learn, rows, parts, n_rows).decay
