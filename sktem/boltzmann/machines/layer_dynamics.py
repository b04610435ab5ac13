"""States of layered machines: fields, draws and mean statistics.

All is matrix products and the operations of
:mod:`sktem.boltzmann.machines.layer_operations`, so that it runs on the namespace and
device of what it is given.
"""

from __future__ import annotations

import numpy as np

from sktem.arrays import arrays_of
from sktem.boltzmann.machines.layer_layout import LayerLayout
from sktem.boltzmann.machines.layer_operations import operations_of

__all__ = ["LayerDynamics"]


class LayerDynamics:
    """Fields, draws, means and mean statistics of layers."""

    def __init__(self, layout: LayerLayout):
        self.layout = layout

    # Fields.

    def odd_fields(self, params, even, first=0):
        """Return the contribution of even units from an index on to the odd fields."""
        arrays = operations_of(params)
        if len(self.layout.blocks) == 1:
            return arrays.product(even, self.layout.matrix(params, 0)[first:, :])
        dtype = arrays.xp.result_type(params, even)
        out = arrays.full((even.shape[0], self.layout.n_odd), 0.0, dtype)
        for block, (rows, columns, _) in enumerate(self.layout.blocks):
            start = max(rows.start, first)
            matrix = self.layout.matrix(params, block)[start - rows.start :, :]
            part = even[:, start - first : rows.stop - first]
            out[:, columns] = arrays.product(part, matrix)
        return out

    def visible_fields(self, params, X):
        """Return the contribution of the visible units to the odd fields."""
        arrays = operations_of(params)
        fields = arrays.product(X, self.layout.weights_between(params, 0))
        if len(self.layout.blocks) == 1:
            return fields
        out = arrays.full((X.shape[0], self.layout.n_odd), 0.0, fields.dtype)
        out[:, : fields.shape[1]] = fields
        return out

    def even_fields(self, params, odd, first=0):
        """Return the fields of the even units from an index on, without biases."""
        arrays = operations_of(params)
        if len(self.layout.blocks) == 1:
            return arrays.product(odd, self.layout.matrix(params, 0)[first:, :].T)
        dtype = arrays.xp.result_type(params, odd)
        out = arrays.full((odd.shape[0], self.layout.n_even), 0.0, dtype)
        for block, (rows, columns, _) in enumerate(self.layout.blocks):
            matrix = self.layout.matrix(params, block).T
            out[:, rows] += arrays.product(odd[:, columns], matrix)
        return arrays.contiguous(out[:, first:])

    def draw_even(self, params, odd, draws, first=0):
        """Return draws of the even units from an index on, given the odd ones."""
        fields = self.even_fields(params, odd, first)
        biases = self.layout.even_biases(params)[first:]
        if first:
            return draws.units(fields, 0, biases)
        for block in self.layout.visible_blocks:
            fields = block.draw(params, fields, biases, draws)
        n = self.layout.first_binary
        return draws.units(fields, n, biases[n:])

    # Draws and means.

    def transitions(self, params, chains, n_sweeps, draws, X=None, observed=None):
        """Move chains, all units free or some clamped.

        Parameters
        ----------
        params : array of float32 of shape (n_parameters,)
            Parameters.
        chains : array of float32 of shape (n, n_odd)
            Chains; they may be overwritten.
        n_sweeps : int
            Transitions, at least 1.
        draws : object
            Source of the draws, from :func:`operations_of`.
        X : array of float32 of shape (n, n_visible) or None, default=None
            Clamped values.
        observed : array of bool of shape (n, n_visible) or None, default=None
            Which are clamped, None for all.

        Returns
        -------
        even : array of float32 of shape (n, n_even)
            Draws given the odd units of the last but one draw.
        means : array of float32 of shape (n, n_odd)
            Means of the odd units given `even`, from which `chains` were drawn.
        """
        operations, n = operations_of(params), self.layout.n_visible
        biases = self.layout.odd_biases(params)
        if X is not None and observed is None:
            even, fields = self._clamped(params, chains, n_sweeps, draws, X)
            return even, operations.means(fields, biases)
        for sweep in range(n_sweeps):
            even = self.draw_even(params, chains, draws)
            if X is not None:
                even[:, :n] = operations.xp.where(observed, X, even[:, :n])
            fields = self.odd_fields(params, even)
            if sweep < n_sweeps - 1:
                chains = draws.units(fields, 0, biases)
        return even, operations.means(fields, biases)

    def _clamped(self, params, chains, n_sweeps, draws, X):
        """Return even units and odd fields of `transitions` with all of X clamped."""
        operations, n = operations_of(params), self.layout.n_visible
        if self.layout.n_even == n:
            return X, self.odd_fields(params, X)
        # Clamped units add the same to the fields in every sweep.
        below = self.visible_fields(params, X)
        for sweep in range(n_sweeps):
            upper = self.draw_even(params, chains, draws, first=n)
            fields = self.odd_fields(params, upper, first=n)
            fields += below
            if sweep < n_sweeps - 1:
                chains = draws.units(fields, 0, self.layout.odd_biases(params))
        return operations.concat([X, upper], axis=1), fields

    def mean_statistics(self, even, odd, squares=None, n=None, shares=None):
        """Return the sum over rows of phi, over n (their number, if None).

        With `shares`, an array for NumPy only, rows count by their shares instead.
        """
        arrays = operations_of(even)
        xp = arrays.xp
        n = even.shape[0] if n is None else n
        dtype = xp.result_type(even, odd)
        even, odd = arrays.astype(even, dtype), arrays.astype(odd, dtype)
        out = arrays.empty(self.layout.n_parameters, dtype)
        share = arrays.full(even.shape[0], 1.0 / n, dtype) if shares is None else shares
        # The smaller factor is scaled, not the product.
        odd = odd * (1.0 / n if shares is None else shares[:, None])
        arrays.product(share, even, self.layout.even_biases(out))
        self.layout.odd_biases(out)[:] = xp.sum(odd, axis=0)
        if self.layout.gaussian:
            if squares is None:
                squares = even[:, : self.layout.n_normal] ** 2
            self.layout.precisions(out)[:] = -0.5 * (share @ squares)
        for block, (rows, columns, _) in enumerate(self.layout.blocks):
            matrix = self.layout.matrix(out, block)
            arrays.product(even[:, rows].T, odd[:, columns], matrix)
        return out

    def mean_field(self, params, X, observed, n_iterations):
        """Return the means of even and odd units under mean field, see the machine."""
        operations, n = operations_of(params), self.layout.n_visible
        biases = self.layout.odd_biases(params)
        if observed is None:
            return self._clamped_means(params, X, n_iterations)
        where = operations.xp.where
        even = operations.full((X.shape[0], self.layout.n_even), 0.5, X.dtype)
        start = operations.xp.full_like(X, 0.5)
        for block in self.layout.visible_blocks:
            start[:, block.columns] = block.start
        even[:, :n] = where(observed, X, start)
        odd = operations.means(self.odd_fields(params, even), biases)
        for _ in range(n_iterations - 1):
            even = self.even_means(params, self.even_fields(params, odd))
            even[:, :n] = where(observed, X, even[:, :n])
            odd = operations.means(self.odd_fields(params, even), biases)
        return even, odd

    def _clamped_means(self, params, X, n_iterations):
        """Return means of even and odd units given all of X."""
        operations, n = operations_of(params), self.layout.n_visible
        biases = self.layout.odd_biases(params)
        if self.layout.n_even == n:
            return X, operations.means(self.odd_fields(params, X), biases)
        below = self.visible_fields(params, X)
        upper = operations.full((X.shape[0], self.layout.n_even - n), 0.5, X.dtype)
        odd = operations.means(self.odd_fields(params, upper, n) + below, biases)
        for _ in range(n_iterations - 1):
            fields = self.even_fields(params, odd, first=n)
            upper = self.even_means(params, fields, first=n)
            odd = operations.means(self.odd_fields(params, upper, n) + below, biases)
        return operations.concat([X, upper], axis=1), odd

    def even_means(self, params, fields, first=0):
        """Turn fields of the even units from an index on into means, in place."""
        operations, layout = operations_of(params), self.layout
        biases = layout.even_biases(params)[first:]
        if not layout.visible_blocks or first:
            return operations.means(fields, biases)
        for block in layout.visible_blocks:
            block.means(params, fields, biases)
        n = layout.first_binary
        if layout.n_even > n:
            rest = operations.contiguous(fields[:, n:])
            fields[:, n:] = operations.means(rest, biases[n:])
        return fields

    def visible_part(self, params, X):
        """Return the part of the visible units in the log-potential, in float64."""
        arrays, layout = arrays_of(params), self.layout
        params = arrays.astype(params, arrays.xp.float64)
        X = arrays.astype(X, arrays.xp.float64)
        out = X @ layout.even_biases(params)[: layout.n_visible]
        if layout.gaussian:
            squares = X[:, : layout.n_normal] ** 2
            out -= 0.5 * (squares @ layout.precisions(params))
        return out

    def independent(self, params):
        """Return biases with neighbours on half the time, and no weights."""
        arrays, layout = arrays_of(params), self.layout
        start = arrays.copy(params)
        start[layout.weights_from :] = 0.0
        half = arrays.full((1, layout.n_odd), 0.5, params.dtype)
        layout.even_biases(start)[:] += self.even_fields(params, half)[0, :]
        half = arrays.full((1, layout.n_even), 0.5, params.dtype)
        for block in layout.visible_blocks:
            half[:, block.columns] = block.start
        if layout.gaussian:
            layout.precisions(start)[:] = 1.0
        layout.odd_biases(start)[:] += self.odd_fields(params, half)[0, :]
        return start

    def log_densities(self, params, chains, X=None, observed=None):
        """Return the log of the unnormalised probability of each chain."""
        arrays, layout = operations_of(params), self.layout
        fields = self.even_fields(params, chains) + layout.even_biases(params)
        binary = arrays.contiguous(fields[:, layout.first_binary :])
        # Along the path from fields of zero.
        out = arrays.softplus_change(binary, binary, (0.0, 0.0), (1.0, 0.0))
        out += binary.shape[1] * float(np.log(2.0))
        out += arrays.astype(chains @ layout.odd_biases(params), arrays.xp.float64)
        return self._with_others(out, params, fields, X, observed)

    def _with_others(self, out, params, fields, X, observed):
        """Return log-densities with visible units that are not binary, or clamped."""
        arrays, blocks = operations_of(params), self.layout.visible_blocks
        if X is None and not blocks:
            return out
        wide = arrays.xp.float64
        exact, fields = arrays.astype(params, wide), arrays.astype(fields, wide)
        for block in blocks:
            out = out + (block.log_sums(exact, fields) + block.constant(exact))
        if X is not None:
            out = out + self._clamping(exact, fields, arrays.astype(X, wide), observed)
        return out

    def _clamping(self, params, fields, X, observed):
        """Return how a chain's log-density changes as visible units are clamped."""
        xp, layout = arrays_of(params).xp, self.layout
        fields = fields[:, : layout.n_visible]
        sums = xp.logaddexp(xp.zeros_like(fields), fields)
        for block in layout.visible_blocks:
            sums[:, block.columns] = block.log_sums_by_unit(params, fields)
        values = X * fields
        if layout.gaussian:
            n = layout.n_normal
            values[:, :n] -= 0.5 * X[:, :n] ** 2 * layout.precisions(params)
        change = values - sums
        if observed is not None:
            change = xp.where(observed, change, xp.zeros_like(change))
        return xp.sum(change, axis=1)

    def centre_weights(self, gradient, centre) -> None:
        """Turn a gradient into that along the parameters of centred units."""
        xp, layout = arrays_of(gradient).xp, self.layout
        even, odd = layout.even_biases(centre), layout.odd_biases(centre)
        to_even, to_odd = layout.even_biases(gradient), layout.odd_biases(gradient)
        for block, (rows, columns, _) in enumerate(layout.blocks):
            left = xp.stack([even[rows], to_even[rows]], axis=1)
            right = xp.stack([to_odd[columns], odd[columns]], axis=0)
            matrix = layout.matrix(gradient, block)
            matrix -= left @ right

    def centre_biases(self, step, centre) -> None:
        """Turn a step of the parameters of centred units into one of theta."""
        even, odd = self.layout.even_biases(centre), self.layout.odd_biases(centre)
        # Both from the step of the weights, before either is changed.
        to_even = self.even_fields(step, odd[None, :])[0, :]
        to_odd = self.odd_fields(step, even[None, :])[0, :]
        self.layout.even_biases(step)[:] -= to_even
        self.layout.odd_biases(step)[:] -= to_odd
