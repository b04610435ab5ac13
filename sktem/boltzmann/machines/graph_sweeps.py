"""Sweeps of graphs, on bits or on floats."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.boltzmann.kernels.bit_sweeps import bit_means, bit_sweeps
from sktem.boltzmann.kernels.graph_sweeps import sweeps
from sktem.kernels.blocks import iterate_blocks

__all__ = ["GraphSweeps", "product_sums"]


class SweepSizes(NamedTuple):
    """Sizes from which on sweeps and sums of products change their form.

    Attributes
    ----------
    chains : int
        Chains whose states are worked on at a time: enough to hide what a unit costs
        apart from its chains.
    fewest_bits : int
        Chains from which on states are bits where all are 0 or 1: 32 take the time of
        one.
    dense_share, dense_units : float, int
        Share of all pairs that are joined, and units, from which on the sums of their
        products are a product of matrices: of fits of 300 joined units, they took more
        time than everything else.
    """

    chains: int = 512
    fewest_bits: int = 16
    dense_share: float = 0.5
    dense_units: int = 64


class GraphSweeps:
    """The neighbours of each unit, laid out for sweeps.

    Parameters
    ----------
    graph : Graph
        The graph.
    """

    sizes = SweepSizes()

    def __init__(self, graph):
        self.graph, self.n_units = graph, graph.n_units
        n_pairs = graph.n_units * (graph.n_units - 1) / 2
        many = graph.n_units >= self.sizes.dense_units
        self.is_dense = many and graph.n_edges >= self.sizes.dense_share * n_pairs
        starts, units, edges = graph.neighbours()
        degrees = graph.degrees()
        # In groups of four.
        groups = (degrees + 3) // 4 * 4
        self.indptr = np.concatenate([[0], np.cumsum(groups)]).astype(np.int64)
        place = np.repeat(self.indptr[:-1] - starts[:-1], degrees)
        place += np.arange(len(units))
        # Filled up with the unit itself, at weight zero.
        self.indices = np.repeat(np.arange(graph.n_units, dtype=units.dtype), groups)
        self.indices[place] = units
        self._place, self._edge = place, edges
        self._nothing = np.empty((0, 0), np.float32)
        self._no_mask = np.empty((0, 0), np.uint8)

    def _bound(self, params, scale):
        """Return weights by neighbour and biases, times a scale, for kernels."""
        weights = np.zeros(len(self.indices), np.float32)
        weights[self._place] = scale * params[self.n_units :][self._edge]
        return weights, (scale * params[: self.n_units]).astype(np.float32)

    def sweep(
        self, params, states, n_sweeps, seed, order, clamped=None, means=False,
        apart=False, offsets=None, scales=(1.0, 0.0), n_jobs=None,
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
        order : ndarray of int
            The units to visit.
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
        n_jobs : int or None, default=None
            Threads.
        """
        layout, seed = (order, self.indptr, self.indices), np.uint64(seed)
        plain = offsets is None and clamped is None and means == apart
        bits = plain and states.shape[1] >= self.sizes.fewest_bits
        weights, biases = self._bound(params, scales[0])
        with np.errstate(over="ignore"):
            factors = np.exp(-weights), np.exp(-biases)
        offsets = self._nothing if offsets is None else offsets
        clamped = self._no_mask if clamped is None else clamped

        def on_bits(start, stop):
            if means:
                return bit_means(states, *layout, *factors, start, stop)
            return bit_sweeps(states, *layout, *factors, n_sweeps, seed, start, stop)

        def block(start, stop):
            if not (bits and on_bits(start, stop)):
                sweeps(
                    states, clamped, offsets, np.float32(scales[1]), *layout, weights,
                    biases, n_sweeps, means, apart, seed, start, stop,
                )  # fmt: skip

        for _ in iterate_blocks(block, states.shape[1], self.sizes.chains, n_jobs):
            pass


def product_sums(states, means, share, first, second, start, stop):
    """Equal `kernels.graph_sweeps.pair_sums`, by a product of matrices."""
    means = means[:, start:stop]
    products = means @ states[:, start:stop].T
    first_mean, second_mean = products[first, second], products[second, first]
    units = means.sum(axis=1, dtype=np.float64)
    return units, (share * first_mean + (1.0 - share) * second_mean).astype(np.float64)
