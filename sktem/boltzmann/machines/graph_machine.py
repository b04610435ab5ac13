"""Boltzmann machine on any graph."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import sparse

from sktem.boltzmann.kernels.graph_sweeps import log_potentials, pair_sums
from sktem.boltzmann.machines.elimination import (
    EliminationPlan,
    plan_elimination,
    posterior_plan,
)
from sktem.boltzmann.machines.graph_sweeps import GraphSweeps, product_sums
from sktem.boltzmann.machines.model import BoltzmannModel, Moments, entropy
from sktem.graphs import Graph
from sktem.kernels.blocks import iterate_blocks, reduce_blocks

__all__ = ["GraphMachine"]


class GraphMachine(BoltzmannModel):
    """Binary units on a graph, some of them hidden.

    theta is the biases of all units, then the weights of the edges in the order of the
    graph. States are float32 of shape (n_units, n_chains).

    Parameters
    ----------
    graph : Graph
        The graph.
    hidden : ndarray of int
        Hidden units, increasing.
    n_jobs : int or None, default=None
        Threads.
    """

    dtype = np.dtype(np.float64)
    row_axis = 1

    def __init__(self, graph: Graph, hidden, n_jobs=None):
        self.graph = graph
        self.n_jobs = n_jobs
        self.hidden = np.asarray(hidden, np.int64)
        is_hidden = np.zeros(graph.n_units, bool)
        is_hidden[self.hidden] = True
        self.is_hidden = is_hidden
        self.visible = np.flatnonzero(~is_hidden)
        self.n_units = graph.n_units
        self.n_visible, self.n_hidden = len(self.visible), len(self.hidden)
        self.n_parameters = graph.n_units + graph.n_edges
        self.weights_from = graph.n_units
        self.largest_degree = int(graph.degrees().max(initial=0))
        self.sweeps = GraphSweeps(graph)
        self._arrange()
        subgraph, self.hidden_edges = graph.subgraph(self.hidden)
        self.plan = posterior_plan(subgraph, self.limits)
        self._find_cross_edges()

    def _arrange(self):
        """Order the units by colour, and weigh the two ends of each edge."""
        graph = self.graph
        self.order = np.argsort(graph.colours(), kind="stable")
        self.hidden_order = self.order[self.is_hidden[self.order]]
        self.first = graph.first
        self.second = graph.second
        # An edge takes the mean of the end that is not clamped, half of both ends
        # where both or none is.
        a, b = self.is_hidden[self.first], self.is_hidden[self.second]
        self.clamped_share = np.where(a == b, 0.5, a).astype(np.float32)
        self.free_share = np.full(graph.n_edges, 0.5, np.float32)

    def initial_params(self, logits, rng, size=0.5) -> np.ndarray:
        """Return visible biases at the base rates and small weights of hidden units."""
        params = np.zeros(self.n_parameters)
        degrees = self.graph.degrees()
        scale = size / np.sqrt(np.maximum(degrees[self.first], degrees[self.second]))
        latent = self.is_hidden[self.first] | self.is_hidden[self.second]
        weights = np.where(latent, scale * rng.standard_normal(len(scale)), 0.0)
        params[self.n_units :] = weights
        params[self.visible] = logits
        # So that the start has the base rates when hidden neighbours are on half the
        # time.
        for a, b in ((self.first, self.second), (self.second, self.first)):
            between = ~self.is_hidden[a] & self.is_hidden[b]
            np.subtract.at(params, a[between], 0.5 * weights[between])
        return params

    # Sweeps, means and potentials of states.

    def sweep(self, params, states, n_sweeps, seed, order=None, clamped=None, **how):
        """Sweep over units, by default all of them; see `GraphSweeps.sweep`."""
        order = self.order if order is None else order
        self.sweeps.sweep(
            params, states, n_sweeps, seed, order, clamped, n_jobs=self.n_jobs, **how
        )

    def conditional_means(self, params, states, order=None, clamped=None) -> np.ndarray:
        """Return the probability of each visited unit given all others.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.
        states : ndarray of float32 of shape (n_units, n)
            States.
        order : ndarray of int or None, default=None
            The units, None for all; of others the state is returned.
        clamped : ndarray of uint8 of shape (n_units, n) or None, default=None
            Where the state is returned.

        Returns
        -------
        ndarray of float32 of shape (n_units, n)
            Probabilities.
        """
        out = states.copy()
        self.sweep(params, out, 1, 0, order, clamped, means=True, apart=True)
        return out

    def mean_statistics(self, states, means=None, share=None) -> np.ndarray:
        """Return the mean over chains of phi, with means in place of some states.

        Parameters
        ----------
        states : ndarray of float32 of shape (n_units, n)
            States.
        means : ndarray of float32 of shape (n_units, n) or None, default=None
            Conditional means; None means the states themselves.
        share : ndarray of float32 of shape (n_edges,) or None, default=None
            The share of the first unit's mean in the product of an edge, None for 1/2.

        Returns
        -------
        ndarray of shape (n_parameters,)
            Mean statistics.
        """
        means = states if means is None else means
        share = self.free_share if share is None else share
        n = states.shape[1]
        sums_of = product_sums if self.sweeps.is_dense else pair_sums

        def block(start, stop):
            return sums_of(states, means, share, self.first, self.second, start, stop)

        sums = reduce_blocks(block, n, GraphSweeps.sizes.chains, self.n_jobs)
        return np.concatenate(sums) / n

    def log_potentials(self, params, states) -> np.ndarray:
        """Return ``<theta, phi(x)>`` of each chain.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.
        states : ndarray of float32 of shape (n_units, n)
            States.

        Returns
        -------
        ndarray of shape (n,)
            Log-potentials.
        """
        biases, weights = params[: self.n_units], params[self.n_units :]

        def block(start, stop):
            return log_potentials(
                states, biases, weights, self.first, self.second, start, stop
            )

        size, n = GraphSweeps.sizes.chains, states.shape[1]
        blocks = iterate_blocks(block, n, size, self.n_jobs)
        return np.concatenate(list(blocks))

    def biases_by_unit(self, params) -> np.ndarray:
        """Return the biases of all units."""
        return params[: self.n_units].copy()

    def weights_by_unit(self, params):
        """Return the weights as a symmetric sparse matrix."""
        weights = params[self.n_units :]
        rows = np.concatenate([self.first, self.second])
        columns = np.concatenate([self.second, self.first])
        values = np.concatenate([weights, weights])
        shape = (self.n_units, self.n_units)
        return sparse.csr_array((values, (rows, columns)), shape=shape)

    # Chains and states.

    def new_chains(self, n, rng, like=None) -> np.ndarray:
        """Return chains of fair coins."""
        return (rng.random((n, self.n_units)) < 0.5).T.astype(np.float32, order="C")

    def statistics_of(self, units, pairs) -> np.ndarray:
        """Return mean statistics from means of units and of products along edges."""
        return np.concatenate([units, pairs])

    def chains_of(self, units) -> np.ndarray:
        """Return the states of the units, which are chains."""
        return units

    def pack(self, chains) -> np.ndarray:
        """Return chains as bits, one row of bytes per chain."""
        return np.packbits(chains.T > 0.5, axis=1)

    def unpack(self, packed) -> np.ndarray:
        """Return the chains that `pack` has packed."""
        bits = np.unpackbits(packed, axis=1, count=self.n_units)
        return np.ascontiguousarray(bits.T, dtype=np.float32)

    def visible_draws(self, params, X, observed, chains, seed) -> np.ndarray:
        """Return the visible units of chains."""
        return chains[self.visible].T

    def visible_means(self, params, X, observed, chains) -> np.ndarray:
        """Return the mean of each visible unit given all others."""
        clamped = np.zeros(chains.shape, np.uint8)
        clamped[self.visible] = observed.T
        order = self.order[~self.is_hidden[self.order]]
        means = self.conditional_means(params, chains, order, clamped)
        return means[self.visible].T

    def fill(self, params, X, observed, means, rng) -> tuple[np.ndarray, np.ndarray]:
        """Draw values that are not observed from mean field."""
        means = means[self.visible].T
        on = rng.random(X.shape) < means
        logs = np.log(np.where(observed, 1.0, np.where(on, means, 1.0 - means)))
        return np.where(observed, X, on), logs.sum(axis=1)

    # Expectations under the posterior and under the model.

    def gibbs(
        self, params, chains, n_sweeps, seed, X=None, observed=None, rao_blackwell=True
    ) -> Moments:
        """Move chains and return the mean of phi."""
        states, clamped, order, share = self._clamp(X, observed, chains)
        self.sweep(params, states, n_sweeps, seed, order, clamped)
        if rao_blackwell is None:
            return Moments(None, states)
        means = None
        if rao_blackwell:
            means = self.conditional_means(params, states, order, clamped)
        return Moments(self.mean_statistics(states, means, share), states)

    def _clamp(self, X, observed, chains=None):
        """Return states, clamped values, the units to visit and the edges' shares."""
        if X is None:
            return chains, None, self.order, None
        states = np.full((self.n_units, len(X)), 0.5, np.float32)
        if chains is not None:
            states[:] = chains
        if observed is None:
            states[self.visible] = X.T
            return states, None, self.hidden_order, self.clamped_share
        clamped = np.zeros(states.shape, np.uint8)
        clamped[self.visible] = observed.T
        states[self.visible] = np.where(observed, X, states[self.visible].T).T
        return states, clamped, self.order, None

    def posterior_mean_field(self, params, X, observed, n_iterations) -> Moments:
        """Return the mean of phi under mean field."""
        states, clamped, order, _ = self._clamp(X, observed)
        self.sweep(params, states, n_iterations, 0, order, clamped, means=True)
        return Moments(self.mean_statistics(states), means=states)

    def _exact_marginals(self, params, X):
        """Return log-sums, means and products of the hidden units given X."""
        weights = params[self.n_units :][self.hidden_edges]
        fields = self.hidden_fields(params, X)
        return self.plan.marginals(fields, weights, self.n_jobs)

    def posterior_exact(self, params, X) -> Moments:
        """Return the exact mean of phi given X."""
        states = self._clamp(X, None)[0]
        _, means, pairs = self._exact_marginals(params, X)
        states[self.hidden] = means
        values = self.mean_statistics(states)
        values[self.hidden] = means.mean(axis=1)
        values[self.n_units + self.hidden_edges] = pairs / len(X)
        return Moments(values, means=states)

    @cached_property
    def _whole_plan(self) -> EliminationPlan | None:
        """The plan of the sums over all units, None where they are too many."""
        if self.n_parameters > self.limits.gradient_parameters:
            return None
        return plan_elimination(self.graph, self.limits.gradient_width)

    def free_exact(self, params) -> tuple[float, np.ndarray]:
        """Return log Z and the exact mean of phi under the model."""
        fields, weights = params[: self.n_units, None], params[self.n_units :]
        assert self._whole_plan is not None
        log_sums, means, pairs = self._whole_plan.marginals(fields, weights)
        return float(log_sums[0]), np.concatenate([means[:, 0], pairs])

    def exact_cost(self, n_rows) -> float:
        """Return the approximate cost of the exact likelihood and gradient in ns."""
        if self._whole_plan is None or not self.has_exact_posterior:
            return np.inf
        entries = 0 if self.plan is None else self.plan.n_entries
        per_row = 5 * self.n_parameters + 60 * entries
        return 30 * self._whole_plan.n_operations + n_rows * per_row

    def independent(self, params) -> np.ndarray:
        """Return biases with neighbours on half the time, and no weights."""
        start = np.zeros_like(params)
        weights = params[self.n_units :]
        start[: self.n_units] = params[: self.n_units]
        start[: self.n_units] += 0.5 * np.bincount(self.first, weights, self.n_units)
        start[: self.n_units] += 0.5 * np.bincount(self.second, weights, self.n_units)
        return start

    def log_densities(self, params, chains, X=None, observed=None) -> np.ndarray:
        """Return the log of the unnormalised probability of each chain, X included."""
        return self.log_potentials(params, chains)

    def centre_weights(self, gradient, centre) -> None:
        """Turn a gradient into that along the parameters of centred units."""
        biases, weights = gradient[: self.n_units], gradient[self.n_units :]
        first, second = self.first, self.second
        weights -= centre[first] * biases[second] + centre[second] * biases[first]

    def centre_biases(self, step, centre) -> None:
        """Turn a step of the parameters of centred units into one of theta."""
        biases, weights = step[: self.n_units], step[self.n_units :]
        first, second = self.first, self.second
        to_first = np.bincount(first, centre[second] * weights, self.n_units)
        to_second = np.bincount(second, centre[first] * weights, self.n_units)
        biases -= to_first + to_second

    def hidden_fields(self, params, X) -> np.ndarray:
        """Return the bias of each hidden unit once X is known, (n_hidden, n)."""
        weights = params[self.n_units :][self._cross_edges]
        shape = (self.n_hidden, self.n_visible)
        matrix = sparse.csr_array(
            (weights, self._cross_units, self._cross_starts), shape
        )
        fields = matrix @ np.asarray(X.T, np.float64)
        fields += params[self.hidden][:, None]
        return fields

    def _find_cross_edges(self):
        """Find the edges between hidden and visible units, by hidden unit."""
        position = np.empty(self.n_units, np.int64)
        position[self.visible] = np.arange(self.n_visible)
        position[self.hidden] = np.arange(self.n_hidden)
        a, b = self.is_hidden[self.first], self.is_hidden[self.second]
        edges = np.flatnonzero(a != b)
        upper = position[np.where(a, self.first, self.second)[edges]]
        lower = position[np.where(a, self.second, self.first)[edges]]
        order = np.lexsort((lower, upper))
        self._cross_edges, self._cross_units = edges[order], lower[order]
        counts = np.bincount(upper, minlength=self.n_hidden)
        self._cross_starts = np.concatenate([[0], np.cumsum(counts)])

    def visible_sweep(self, params, chains, seed) -> np.ndarray:
        """Draw each visible unit given all others, in turn, in place."""
        order = self.order[~self.is_hidden[self.order]]
        self.sweep(params, chains, 1, seed, order)
        return chains

    def hidden_means(self, params, X, n_iterations, observed=None) -> np.ndarray:
        """Return posterior marginals, exact where possible, else mean field."""
        if self.has_exact_posterior and observed is None:
            return self._exact_marginals(params, X)[1].T
        moments = self.posterior_mean_field(params, X, observed, n_iterations)
        return moments.means[self.hidden].T.astype(np.float64)

    def log_unnormalised(self, params, X) -> np.ndarray:
        """Return the log of the sum of ``exp <theta, phi(v, h)>`` over h."""
        states = np.zeros((self.n_units, len(X)), np.float64)
        states[self.visible] = X.T
        fields = self.hidden_fields(params, X)
        weights = params[self.n_units :][self.hidden_edges]
        sums = self.plan.log_sums(fields, weights, self.n_jobs)
        return self.log_potentials(params, states) + sums

    def variational_bound(self, params, X, n_iterations, observed=None) -> np.ndarray:
        """Return the mean-field lower bound of `log_unnormalised`."""
        mean_field = self.posterior_mean_field(params, X, observed, n_iterations)
        means = mean_field.means.astype(np.float64)
        bound = self.log_potentials(params, means) + entropy(means[self.hidden])
        if observed is not None:
            # What is observed has no entropy.
            bound += entropy(np.where(observed, 0.0, means[self.visible].T).T)
        return bound

    def as_graph(self, params):
        """Return graph, biases, weights and a constant whose sum over states is Z."""
        return self.graph, params[: self.n_units], params[self.n_units :], 0.0
