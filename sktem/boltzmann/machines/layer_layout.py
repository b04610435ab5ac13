"""Layout of the parameters and units of layered machines.

Given the odd layers the even ones are independent, and the other way round. A state is
therefore two matrices, one row per chain: all even layers side by side, the visible one
first, and all odd layers side by side. The weights into an odd layer from the layers
below and above it are one matrix, since these two are neighbours among the even layers;
for up to three layers a sweep is thus two matrix products.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sktem.arrays import arrays_of
from sktem.boltzmann.machines.visible_blocks import GroupBlock, NormalBlock
from sktem.graphs import Graph, layered_graph

__all__ = ["LayerLayout"]


class LayerLayout:
    """Positions of the units and parameters of a layered machine.

    theta is the biases of the even layers, of the odd layers, the precisions of
    Gaussian visible units, and the matrices of weights. The visible units, if Gaussian,
    are taken in units in which each has mean 0 and variance 1 in the data. Chains are
    float32 of shape (n_chains, n_odd): the odd layers; they determine the distribution
    of the rest.

    Parameters
    ----------
    sizes : sequence of int
        Units per layer, the visible one first.
    gaussian : bool or int, default=False
        Whether the visible units are real-valued, or how many of them; they are the
        first ones.
    groups : sequence of int, default=()
        Sizes of groups of visible units of which one is 1, next to the real-valued
        ones. What is left is binary.

    Attributes
    ----------
    n_normal, first_binary : int
        Gaussian units, and where the binary ones begin.
    visible_blocks : list
        Blocks of visible units other than binary ones.
    n_visible, n_hidden, n_units, n_even, n_odd : int
        Units of each kind.
    n_parameters, weights_from : int
        Length of theta, and where the weights begin.
    largest_degree : int
        Most neighbours that a unit has.
    blocks : list of tuple of slice
        Rows among the even units, columns among the odd ones and the place in theta of
        each matrix of weights.
    """

    def __init__(self, sizes, gaussian=False, groups=()):
        self.sizes = tuple(int(size) for size in sizes)
        self.n_visible, self.n_hidden = self.sizes[0], sum(self.sizes[1:])
        self.n_normal = self.n_visible if gaussian is True else int(gaussian)
        self.gaussian = self.n_normal > 0
        self.groups = tuple(int(size) for size in groups)
        self.first_binary = self.n_normal + sum(self.groups)
        kinds = [(self.gaussian, NormalBlock), (self.groups, GroupBlock)]
        self.visible_blocks: list[Any] = [
            block(self) for present, block in kinds if present
        ]
        self.n_units = sum(self.sizes)
        padded = [0, *self.sizes, 0]
        pairs = zip(padded, padded[2:], strict=False)
        self.largest_degree = max(below + above for below, above in pairs)
        starts = [0] * len(self.sizes)
        for layer in range(2, len(self.sizes)):
            starts[layer] = starts[layer - 2] + self.sizes[layer - 2]
        self._starts = starts
        self.n_even, self.n_odd = sum(self.sizes[0::2]), sum(self.sizes[1::2])
        self.weights_from = self.n_units + self.n_normal
        self.blocks = []
        end = self.weights_from
        for layer in range(1, len(self.sizes), 2):
            around = [k for k in (layer - 1, layer + 1) if k < len(self.sizes)]
            rows = slice(starts[around[0]], starts[around[-1]] + self.sizes[around[-1]])
            columns = slice(starts[layer], starts[layer] + self.sizes[layer])
            size = (rows.stop - rows.start) * self.sizes[layer]
            self.blocks.append((rows, columns, slice(end, end + size)))
            end += size
        self.n_parameters = end

    # Views into theta, or into anything of its layout.

    def even_biases(self, values):
        """Return the part of the even units."""
        return values[: self.n_even]

    def odd_biases(self, values):
        """Return the part of the odd units."""
        return values[self.n_even : self.n_units]

    def precisions(self, values):
        """Return the part of the precisions of Gaussian units."""
        return values[self.n_units : self.weights_from]

    def layer_biases(self, values, layer):
        """Return the part of the units of one layer."""
        side = self.odd_biases(values) if layer % 2 else self.even_biases(values)
        return side[self._starts[layer] : self._starts[layer] + self.sizes[layer]]

    def matrix(self, values, block):
        """Return a matrix of weights."""
        rows, columns, where = self.blocks[block]
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        if isinstance(values, np.ndarray):
            return values[where].reshape(shape)
        return arrays_of(values).xp.reshape(values[where], shape)

    def weights_between(self, values, lower):
        """Return the weights between a layer and the next, (lower, upper)."""
        if lower % 2 == 0:
            return self.matrix(values, lower // 2)[: self.sizes[lower], :]
        return self.matrix(values, lower // 2)[-self.sizes[lower + 1] :, :].T

    def hidden_of(self, even, odd) -> np.ndarray:
        """Return the hidden units in the order of the layers, (n, n_hidden)."""
        parts = []
        for layer in range(1, len(self.sizes)):
            side = odd if layer % 2 else even
            begin = self._starts[layer]
            parts.append(side[:, begin : begin + self.sizes[layer]])
        return arrays_of(odd).concat(parts, axis=1)

    def to_even_odd(self, X, hidden):
        """Return even and odd units from visible and hidden ones; undo `hidden_of`."""
        even = [np.asarray(X)]
        odd: list[np.ndarray] = []
        begin = 0
        for layer in range(1, len(self.sizes)):
            part = hidden[:, begin : begin + self.sizes[layer]]
            (odd if layer % 2 else even).append(part)
            begin += self.sizes[layer]
        return np.concatenate(even, axis=1), np.concatenate(odd, axis=1)

    def edge_weights(self, params, start):
        """Return the weights from a layer upwards in the order of the layered graph."""
        blocks = [
            self.weights_between(params, lower).ravel()
            for lower in range(start, len(self.sizes) - 1)
        ]
        return np.concatenate(blocks).astype(np.float64)

    def values_of(self, units, pairs):
        """Return values of this layout from those of units and of edges, by layer."""
        values = np.zeros(self.n_parameters)
        unit = edge = 0
        for layer, size in enumerate(self.sizes):
            self.layer_biases(values, layer)[:] = units[unit : unit + size]
            unit += size
        for lower in range(len(self.sizes) - 1):
            weights = self.weights_between(values, lower)
            weights[:] = pairs[edge : edge + weights.size].reshape(weights.shape)
            edge += weights.size
        return values

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
            return graph, biases, self.edge_weights(params, 0), 0.0
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
            dense[upper.first, upper.second] = self.edge_weights(params, 1)
            a, b = np.append(a, upper.first), np.append(b, upper.second)
        graph = Graph.from_edges(len(biases), a, b)
        return graph, biases, dense[graph.first, graph.second], constant
