"""Boltzmann machine in layers: restricted and deep, as matrix products."""

from __future__ import annotations

import copy

import numpy as np
from scipy.special import logsumexp

from sktem.arrays import arrays_of
from sktem.boltzmann.elimination import (
    POSTERIOR_WIDTH,
    EliminationPlan,
    posterior_plan,
)
from sktem.boltzmann.enumeration import enumerate_states
from sktem.boltzmann.layer_states import LayerStates
from sktem.boltzmann.model import Moments, entropy
from sktem.graphs import Graph, layered_graph

__all__ = ["LayeredMachine"]

#: Most units of one side whose states are enumerated.
WIDEST_ENUMERATION = 16


class LayeredMachine(LayerStates):
    """Layers of units, each fully joined to the next; the first one is visible.

    Parameters
    ----------
    sizes : sequence of int
        Units per layer, the visible one first.
    gaussian : bool, default=False
        Whether the visible units are real-valued.
    n_jobs : int or None, default=None
        Threads.
    variance_floor : float, default=0.01
        Least variance of a Gaussian unit given the hidden ones.
    eliminates : bool, default=True
        Whether the hidden units of a narrow deep machine may be summed out, by compiled
        loops that work on NumPy arrays only.
    """

    def __init__(
        self,
        sizes,
        gaussian=False,
        n_jobs=None,
        variance_floor=0.01,
        eliminates=True,
    ):
        super().__init__(sizes, gaussian, n_jobs, variance_floor)
        self.weighs_rows = len(self.sizes) == 2
        self.plan = self._find_plan() if eliminates else None

    def _find_plan(self) -> EliminationPlan | None:
        # Two layers that are fully joined have the treewidth of the smaller one.
        widths = [
            min(pair) for pair in zip(self.sizes[1:], self.sizes[2:], strict=False)
        ]
        if not widths or max(widths) > POSTERIOR_WIDTH:
            return None
        return posterior_plan(Graph(layered_graph(self.sizes[1:])))

    def __sklearn_array_api_convert__(self, converter):
        """Return the machine that works on what a converter of arrays returns."""
        moved = copy.copy(self)
        numpy = arrays_of(converter(np.zeros(1))).is_numpy
        moved.plan = self._find_plan() if numpy else None
        return moved

    @property
    def has_exact_posterior(self) -> bool:
        """Whether the hidden units can be summed out at little cost."""
        return len(self.sizes) == 2 or self.plan is not None

    @property
    def _exact_plan(self) -> EliminationPlan:
        if self.plan is None:
            raise ValueError("the hidden units of this machine cannot be summed out")
        return self.plan

    def initial_params(self, logits, rng) -> np.ndarray:
        """Return visible biases at the base rates and small weights."""
        start = np.zeros(self.n_parameters, self.dtype)
        for lower in range(len(self.sizes) - 1):
            a, b = self.sizes[lower], self.sizes[lower + 1]
            scale = 0.5 / np.sqrt(max(a, b))
            draws = scale * rng.standard_normal((a, b))
            self.weights_between(start, lower)[:] = draws
        if self.gaussian:
            self.precisions(start)[:] = 1.0
        arrays = arrays_of(logits)
        xp, params = arrays.xp, arrays.asarray(start)
        weights = self.weights_between(params, 0)
        biases = arrays.astype(logits, xp.float32) - 0.5 * xp.sum(weights, axis=1)
        self.even_biases(params)[: self.n_visible] = biases
        return params

    # Expectations under the posterior and under the model.

    def posterior_gibbs(
        self, params, X, observed, chains, n_sweeps, seed, rao_blackwell=True
    ) -> Moments:
        """Move posterior chains and return the mean of phi."""
        return self._moments(
            params, chains, n_sweeps, seed, rao_blackwell, X=X, observed=observed
        )

    def free_gibbs(self, params, chains, n_sweeps, seed, rao_blackwell=True) -> Moments:
        """Move chains of the model and return the mean of phi."""
        return self._moments(params, chains, n_sweeps, seed, rao_blackwell)

    def posterior_mean_field(self, params, X, observed, n_iterations) -> Moments:
        """Return the mean of phi under mean field."""
        even, odd = self.mean_field(params, X, observed, n_iterations)
        squares = None
        if self.gaussian:
            squares = even[:, : self.n_visible] ** 2
            if observed is not None:
                arrays = arrays_of(params)
                precisions = arrays.astype(self.precisions(params), squares.dtype)
                unseen = arrays.astype(~observed, squares.dtype)
                squares += unseen / precisions
        return Moments(self.mean_statistics(even, odd, squares), means=odd)

    def posterior_exact(self, params, X) -> Moments:
        """Return the exact mean of phi given X."""
        if len(self.sizes) == 2:
            even, odd = self.mean_field(params, X, None, 1)
            return Moments(self.mean_statistics(even, odd), means=odd)
        fields, weights = self._hidden_problem(params, X)
        _, means, pairs = self._exact_plan.marginals(fields, weights, self.n_jobs)
        even, odd = self._to_even_odd(X, means.T)
        values = self.mean_statistics(even, odd)
        begin = 0
        for lower in range(1, len(self.sizes) - 1):
            a, b = self.sizes[lower], self.sizes[lower + 1]
            block = pairs[begin : begin + a * b].reshape(a, b)
            self.weights_between(values, lower)[:] = block / len(X)
            begin += a * b
        return Moments(values, means=odd)

    def free_exact(self, params) -> tuple[float, np.ndarray]:
        """Return log Z and the exact mean of phi, over the states of one side."""
        even, odd = self.even_biases(params), self.odd_biases(params)
        spread = constant = 0.0
        if self.n_even < self.n_odd and not self.gaussian:
            states = enumerate_states(self.n_even)
            fields = self.odd_fields(params, states) + odd
            sums, means = _softplus(fields)
            energies, sides = states @ even + sums, (states, means)
        else:
            states, n = enumerate_states(self.n_odd), 0
            fields = self.even_fields(params, states)
            energies = states @ odd
            if self.gaussian:
                n, spread = self.n_visible, 1 / self.precisions(params)
                squares = (fields[:, :n] + even[:n]) ** 2
                energies += 0.5 * (squares @ spread)
                constant = 0.5 * float(np.sum(np.log(2 * np.pi * spread)))
            sums, means = _softplus(fields[:, n:] + even[n:])
            energies += sums
            normal = (fields[:, :n] + even[:n]) * spread
            sides = np.hstack([normal, means]), states
        log_sum = float(logsumexp(energies))
        shares = np.exp(energies - log_sum)
        squares = None
        if self.gaussian:
            squares = sides[0][:, : self.n_visible] ** 2 + spread
        values = self.mean_statistics(*sides, squares, shares=shares)
        return log_sum + constant, values

    def rows_exact(self, params, X, shares=None) -> tuple[float, np.ndarray]:
        """Return means over rows of `log_unnormalised` and of phi given them."""
        if not self.weighs_rows:
            return super().rows_exact(params, X)
        shares = np.full(len(X), 1 / len(X)) if shares is None else shares
        sums, means = _softplus(self.odd_fields(params, X) + self.odd_biases(params))
        values = self.mean_statistics(X, means, shares=shares)
        return float(shares @ (sums + self.visible_part(params, X))), values

    def exact_cost(self, n_rows) -> float:
        """Return what the exact likelihood and its gradient cost, about, in ns."""
        width = self.n_odd if self.gaussian else min(self.n_even, self.n_odd)
        if width > WIDEST_ENUMERATION:
            return np.inf
        states = n_rows + 2.0**width
        per_row = 0 if self.plan is None else 60 * self.plan.n_entries
        return states * (self.n_parameters + 20 * self.n_units) + n_rows * per_row

    def _hidden_problem(self, params, X):
        """Return fields of the hidden units given X, and the weights between them."""
        first = X @ self.weights_between(params, 0) + self.layer_biases(params, 1)
        others = [self.layer_biases(params, k) for k in range(2, len(self.sizes))]
        rest = np.concatenate(others).astype(np.float64)
        below = np.broadcast_to(rest, (len(X), len(rest)))
        fields = np.concatenate([first, below], axis=1).T
        return fields, self._edge_weights(params, 1)

    def _edge_weights(self, params, start):
        """Return the weights from a layer upwards in the order of the layered graph."""
        blocks = [
            self.weights_between(params, lower).ravel()
            for lower in range(start, len(self.sizes) - 1)
        ]
        return np.concatenate(blocks).astype(np.float64)

    def centre_weights(self, gradient, centre) -> None:
        """Turn a gradient into that along the parameters of centred units."""
        arrays = arrays_of(gradient)
        xp = arrays.xp
        even, odd = self.even_biases(centre), self.odd_biases(centre)
        along_even, along_odd = self.even_biases(gradient), self.odd_biases(gradient)
        for block, (rows, columns, _) in enumerate(self._blocks):
            left = xp.stack([even[rows], along_even[rows]], axis=1)
            right = xp.stack([along_odd[columns], odd[columns]], axis=0)
            matrix = self._matrix(gradient, block)
            matrix -= left @ right

    def centre_biases(self, step, centre) -> None:
        """Turn a step of the parameters of centred units into one of theta."""
        even, odd = self.even_biases(centre), self.odd_biases(centre)
        # Both from the step of the weights, before either is changed.
        to_even = self.even_fields(step, odd[None, :])[0, :]
        to_odd = self.odd_fields(step, even[None, :])[0, :]
        self.even_biases(step)[:] -= to_even
        self.odd_biases(step)[:] -= to_odd

    def hidden_means(self, params, X, n_iterations) -> np.ndarray:
        """Return posterior marginals, exact where possible, else mean field."""
        if self.plan is not None:
            fields, weights = self._hidden_problem(params, X)
            return self._exact_plan.marginals(fields, weights, self.n_jobs)[1].T
        steps = 1 if len(self.sizes) == 2 else n_iterations
        return self.hidden_of(*self.mean_field(params, X, None, steps))

    def log_unnormalised(self, params, X) -> np.ndarray:
        """Return the log of the sum of ``exp <theta, phi(v, h)>`` over h."""
        out = self.visible_part(params, X)
        if self.plan is not None:
            fields, weights = self._hidden_problem(params, X)
            return out + self._exact_plan.log_sums(fields, weights, self.n_jobs)
        arrays = arrays_of(params)
        xp, wide = arrays.xp, arrays.xp.float64
        params = arrays.astype(params, X.dtype)
        fields = X @ self.weights_between(params, 0) + self.odd_biases(params)
        return out + xp.sum(
            xp.logaddexp(xp.zeros_like(fields), fields), axis=1, dtype=wide
        )

    def variational_bound(self, params, X, n_iterations, observed=None) -> np.ndarray:
        """Return the mean-field lower bound of `log_unnormalised`."""
        even, odd = self.mean_field(params, X, observed, n_iterations)
        visible = even[:, : self.n_visible]
        arrays = arrays_of(params)
        wide = arrays.xp.float64
        hidden, odd = even[:, self.n_visible :], arrays.astype(odd, wide)
        even, params = arrays.astype(even, wide), arrays.astype(params, wide)
        potential = self.odd_fields(params, even) + self.odd_biases(params)
        out = arrays.row_dots(potential, odd) + self.visible_part(params, visible)
        hidden = arrays.astype(hidden, wide)
        out += hidden @ self.even_biases(params)[self.n_visible :]
        out += entropy(arrays.concat([hidden, odd], axis=1).T)
        if observed is None:
            return out
        xp, unseen = arrays.xp, arrays.astype(~observed, wide)
        if self.gaussian:
            spread = 0.5 * xp.log(2 * np.pi / self.precisions(params))
            return out + unseen @ arrays.astype(spread, wide)
        # What is observed has no entropy.
        return out + entropy((unseen * arrays.astype(visible, wide)).T)

    def as_graph(self, params):
        """Return graph, biases, weights and a constant whose sum over states is Z.

        Gaussian units are integrated out: the hidden units that they join become a
        graph in which each is joined to each.
        """
        layers = range(len(self.sizes))
        biases = np.concatenate([self.layer_biases(params, k) for k in layers])
        biases = biases.astype(np.float64)
        if not self.gaussian:
            graph = Graph(layered_graph(self.sizes))
            return graph, biases, self._edge_weights(params, 0), 0.0
        n, first = self.n_visible, self.sizes[1]
        precisions = self.precisions(params).astype(np.float64)
        weights = self.weights_between(params, 0).astype(np.float64)
        eta, biases = biases[:n], biases[n:].copy()
        scaled = weights / precisions[:, None]
        constant = 0.5 * np.sum(eta**2 / precisions + np.log(2 * np.pi / precisions))
        couplings = weights.T @ scaled
        biases[:first] += eta @ scaled + 0.5 * np.diag(couplings)
        a, b = np.triu_indices(first, 1)
        dense = np.zeros((len(biases), len(biases)))
        dense[a, b] = couplings[a, b]
        if len(self.sizes) > 2:
            upper = Graph(layered_graph(self.sizes[1:]))
            dense[upper.first, upper.second] = self._edge_weights(params, 1)
            a, b = np.append(a, upper.first), np.append(b, upper.second)
        graph = Graph.from_edges(len(biases), a, b)
        return graph, biases, dense[graph.first, graph.second], constant


def _softplus(fields):
    """Return the row sums of ``log(1 + exp(fields))``, and the means of the units."""
    small = np.exp(-np.abs(fields))
    sums = np.sum(np.maximum(fields, 0.0) + np.log1p(small), axis=1)
    return sums, np.where(fields >= 0, 1.0, small) / (1.0 + small)
