"""Compiled work on the states of a graph's units."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from sktem.boltzmann.kernels.graph_sweeps import (
    log_potentials,
    pair_sums,
    sweeps,
)
from sktem.boltzmann.model import BoltzmannModel
from sktem.graphs import Graph
from sktem.kernels.blocks import iterate_blocks, reduce_blocks

__all__ = ["GraphStates"]

#: Chains whose states are worked on at a time: enough to hide what a unit costs apart
#: from its chains.
CHAINS_PER_BLOCK = 512


class GraphStates(BoltzmannModel):
    """Sweeps, means and potentials of states, float32 of shape (n_units, n_chains).

    theta is the biases of all units, then the weights of the edges in the order of the
    graph.

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
        self._arrange()

    def _arrange(self):
        """Lay the neighbours out in groups of four, and the units by colour."""
        graph = self.graph
        starts, units, edges = graph.neighbours()
        degrees = graph.degrees()
        groups = (degrees + 3) // 4 * 4
        self.indptr = np.concatenate([[0], np.cumsum(groups)]).astype(np.int64)
        place = np.repeat(self.indptr[:-1] - starts[:-1], degrees) + np.arange(
            len(units)
        )
        # Filled up with the first neighbour, at weight zero: were it the unit itself,
        # a draw could not go straight to its place.
        first = np.zeros(graph.n_units, units.dtype)
        first[degrees > 0] = units[starts[:-1][degrees > 0]]
        self.indices = np.repeat(first, groups)
        self.indices[place] = units
        self._place, self._edge = place, edges
        self.order = np.argsort(graph.colours(), kind="stable")
        self.hidden_order = self.order[self.is_hidden[self.order]]
        self.first = graph.first
        self.second = graph.second
        # An edge takes the mean of the end that is not clamped, half of both ends
        # where both or none is.
        a, b = self.is_hidden[self.first], self.is_hidden[self.second]
        self.clamped_share = np.where(a == b, 0.5, a).astype(np.float32)
        self.free_share = np.full(graph.n_edges, 0.5, np.float32)
        self._nothing = np.empty((0, 0), np.float32)
        self._no_mask = np.empty((0, 0), np.uint8)

    def bound(self, params, scale=1.0):
        """Return weights by neighbour and biases, times a scale, as kernels want them.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.
        scale : float, default=1.0
            Factor of all of them.

        Returns
        -------
        weights : ndarray of float32 of shape (n_groups * 4,)
            Weights in groups of four neighbours.
        biases : ndarray of float32 of shape (n_units,)
            Biases.
        """
        weights = np.zeros(len(self.indices), np.float32)
        weights[self._place] = scale * params[self.n_units :][self._edge]
        return weights, (scale * params[: self.n_units]).astype(np.float32)

    def sweep(
        self, params, states, n_sweeps, seed, order=None, clamped=None, means=False,
        apart=False, offsets=None, scales=(1.0, 0.0),
    ):  # fmt: skip
        """Sweep Gibbs sampling or mean field over units, in place.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.
        states : ndarray of float32 of shape (n_units, n)
            States.
        n_sweeps : int
            Sweeps.
        seed : int
            Seed of the draws.
        order : ndarray of int or None, default=None
            The units to visit, None for all.
        clamped : ndarray of uint8 of shape (n_units, n) or None, default=None
            Where states stay.
        means : bool, default=False
            Probabilities in place of draws.
        apart : bool, default=False
            Update each unit from the states at the beginning of the call.
        offsets : ndarray of float32 of shape (n_units, n) or None, default=None
            Further fields.
        scales : tuple of float, default=(1.0, 0.0)
            Factors of the parameters and of the offsets.
        """
        weights, biases = self.bound(params, scales[0])
        order = self.order if order is None else order
        if offsets is None:
            offsets = self._nothing
        if clamped is None:
            clamped = self._no_mask

        def block(start, stop):
            sweeps(
                states, clamped, offsets, np.float32(scales[1]), order, self.indptr,
                self.indices, weights, biases, n_sweeps, means, apart,
                np.uint64(seed), start, stop,
            )  # fmt: skip

        for _ in iterate_blocks(block, states.shape[1], CHAINS_PER_BLOCK, self.n_jobs):
            pass

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

        def block(start, stop):
            return pair_sums(states, means, share, self.first, self.second, start, stop)

        sums = reduce_blocks(block, n, CHAINS_PER_BLOCK, self.n_jobs)
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

        blocks = iterate_blocks(block, states.shape[1], CHAINS_PER_BLOCK, self.n_jobs)
        return np.concatenate(list(blocks))

    def biases_by_unit(self, params) -> np.ndarray:
        """Return the biases of all units.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.

        Returns
        -------
        ndarray of shape (n_units,)
            Biases.
        """
        return params[: self.n_units].copy()

    def weights_by_unit(self, params):
        """Return the weights as a symmetric sparse matrix.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.

        Returns
        -------
        scipy.sparse.csr_array of shape (n_units, n_units)
            Weights.
        """
        weights = params[self.n_units :]
        rows = np.concatenate([self.first, self.second])
        columns = np.concatenate([self.second, self.first])
        values = np.concatenate([weights, weights])
        shape = (self.n_units, self.n_units)
        return sparse.csr_array((values, (rows, columns)), shape=shape)
