"""Layout of the parameters and units of layered machines.

Given the odd layers the even ones are independent, and the other way round. A state is
therefore two matrices, one row per chain: all even layers side by side, the visible one
first, and all odd layers side by side. The weights into an odd layer from the layers
below and above it are one matrix, since these two are neighbours among the even layers;
for up to three layers a sweep is thus two matrix products.
"""

from __future__ import annotations

import numpy as np

from sktem.arrays import arrays_of
from sktem.boltzmann.model import BoltzmannModel

__all__ = ["LayerLayout"]

#: Least precision of a Gaussian unit, in units of what it started from.
LEAST_PRECISION = 0.25


class LayerLayout(BoltzmannModel):
    """Where units and parameters are.

    theta is the biases of the even layers, of the odd layers, the precisions of
    Gaussian visible units, and the matrices of weights. The visible units, if Gaussian,
    are taken in units in which each has mean 0 and variance 1 in the data. Chains are
    float32 of shape (n_chains, n_odd): the odd layers; they determine the law of the
    rest.

    Parameters
    ----------
    sizes : sequence of int
        Units per layer, the visible one first.
    gaussian : bool
        Whether the visible units are real-valued.
    n_jobs : int or None
        Threads.
    variance_floor : float
        Least variance of a Gaussian unit given the hidden ones.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, sizes, gaussian, n_jobs, variance_floor):
        self.sizes = tuple(int(size) for size in sizes)
        self.gaussian = gaussian
        self.n_jobs = n_jobs
        self.variance_floor = variance_floor
        self.n_visible, self.n_hidden = self.sizes[0], sum(self.sizes[1:])
        self.n_units = sum(self.sizes)
        padded = [0, *self.sizes, 0]
        pairs = zip(padded, padded[2:], strict=False)
        self.largest_degree = max(below + above for below, above in pairs)
        starts = [0] * len(self.sizes)
        for layer in range(2, len(self.sizes)):
            starts[layer] = starts[layer - 2] + self.sizes[layer - 2]
        self._starts = starts
        self.n_even, self.n_odd = sum(self.sizes[0::2]), sum(self.sizes[1::2])
        self.weights_from = self.n_units + (self.n_visible if gaussian else 0)
        # (rows among the even units, columns among the odd ones, where in theta)
        self._blocks = []
        end = self.weights_from
        for layer in range(1, len(self.sizes), 2):
            around = [k for k in (layer - 1, layer + 1) if k < len(self.sizes)]
            rows = slice(starts[around[0]], starts[around[-1]] + self.sizes[around[-1]])
            columns = slice(starts[layer], starts[layer] + self.sizes[layer])
            size = (rows.stop - rows.start) * self.sizes[layer]
            self._blocks.append((rows, columns, slice(end, end + size)))
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

    def _matrix(self, values, block):
        rows, columns, where = self._blocks[block]
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        if isinstance(values, np.ndarray):
            return values[where].reshape(shape)
        return arrays_of(values).xp.reshape(values[where], shape)

    def weights_between(self, values, lower):
        """Return the weights between a layer and the next, (lower, upper)."""
        if lower % 2 == 0:
            return self._matrix(values, lower // 2)[: self.sizes[lower], :]
        return self._matrix(values, lower // 2)[-self.sizes[lower + 1] :, :].T

    def biases_by_unit(self, params):
        """Return the biases of each layer."""
        copy = arrays_of(params).copy
        return [copy(self.layer_biases(params, k)) for k in range(len(self.sizes))]

    def weights_by_unit(self, params):
        """Return the weights between each layer and the next, (lower, upper)."""
        copy, lower = arrays_of(params).copy, range(len(self.sizes) - 1)
        return [copy(self.weights_between(params, k)) for k in lower]

    def project(self, params) -> int:
        """Bring parameters back into bounds, in place.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.

        Returns
        -------
        int
            How many were out of bounds or not finite; precisions do not count.
        """
        mended = super().project(params)
        if self.gaussian:
            precisions, xp = self.precisions(params), arrays_of(params).xp
            precisions[:] = xp.clip(
                precisions, LEAST_PRECISION, 1 / self.variance_floor
            )
        return mended

    def bound_precisions(self, low, high) -> None:
        """Bring bounds of parameters within those of the precisions."""
        if self.gaussian:
            self.precisions(low)[:] = LEAST_PRECISION
            self.precisions(high)[:] = 1 / self.variance_floor

    def hidden_of(self, even, odd) -> np.ndarray:
        """Return the hidden units in the order of the layers, (n, n_hidden)."""
        parts = []
        for layer in range(1, len(self.sizes)):
            side = odd if layer % 2 else even
            begin = self._starts[layer]
            parts.append(side[:, begin : begin + self.sizes[layer]])
        return arrays_of(odd).concat(parts, axis=1)

    def _to_even_odd(self, X, hidden):
        """Return even and odd units from visible and hidden ones; undo `hidden_of`."""
        even = [np.asarray(X)]
        odd: list[np.ndarray] = []
        begin = 0
        for layer in range(1, len(self.sizes)):
            part = hidden[:, begin : begin + self.sizes[layer]]
            (odd if layer % 2 else even).append(part)
            begin += self.sizes[layer]
        return np.concatenate(even, axis=1), np.concatenate(odd, axis=1)
