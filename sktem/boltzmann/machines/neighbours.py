"""Neighbours of the units of a graph, laid out for sweeps."""

from __future__ import annotations

import numpy as np

__all__ = ["Neighbours"]

#: Share of all pairs that are joined, and units, from which on the sums of their
#: products are a product of matrices: of fits of 300 joined units, they took more time
#: than everything else.
LEAST_SHARE = 0.5
FEWEST_UNITS = 64


class Neighbours:
    """The neighbours of each unit in groups of four, as kernels visit them.

    Parameters
    ----------
    graph : Graph
        The graph.
    """

    def __init__(self, graph):
        self.n_units = graph.n_units
        n_pairs = graph.n_units * (graph.n_units - 1) / 2
        many = graph.n_units >= FEWEST_UNITS
        self.is_dense = many and graph.n_edges >= LEAST_SHARE * n_pairs
        starts, units, edges = graph.neighbours()
        degrees = graph.degrees()
        groups = (degrees + 3) // 4 * 4
        self.indptr = np.concatenate([[0], np.cumsum(groups)]).astype(np.int64)
        place = np.repeat(self.indptr[:-1] - starts[:-1], degrees)
        place += np.arange(len(units))
        # Filled up with the first neighbour, at weight zero: were it the unit itself,
        # a draw could not go straight to its place.
        first = np.zeros(graph.n_units, units.dtype)
        first[degrees > 0] = units[starts[:-1][degrees > 0]]
        self.indices = np.repeat(first, groups)
        self.indices[place] = units
        self._place, self._edge = place, edges

    def bound(self, params, scale):
        """Return weights by neighbour and biases, times a scale, for kernels."""
        weights = np.zeros(len(self.indices), np.float32)
        weights[self._place] = scale * params[self.n_units :][self._edge]
        return weights, (scale * params[: self.n_units]).astype(np.float32)
