"""States of layered machines: fields, draws and mean statistics.

All is matrix products and the operations of :mod:`sktem.boltzmann.layer_operations`, so
that it runs on the namespace and device of what it is given.
"""

from __future__ import annotations

import numpy as np

from sktem.arrays import arrays_of
from sktem.boltzmann.layer_layout import LayerLayout
from sktem.boltzmann.layer_operations import operations_of
from sktem.boltzmann.model import Moments
from sktem.kernels.blocks import iterate_blocks, reduce_blocks

__all__ = ["LayerStates"]


class LayerStates(LayerLayout):
    """Fields, draws and mean statistics of layers; parameters as `LayerLayout`."""

    # Fields.

    def odd_fields(self, params, even, first=0):
        """Return what even units from a number on add to the odd fields."""
        arrays = operations_of(params)
        if len(self._blocks) == 1:
            return arrays.product(even, self._matrix(params, 0)[first:, :])
        dtype = arrays.xp.result_type(params, even)
        out = arrays.full((even.shape[0], self.n_odd), 0.0, dtype)
        for block, (rows, columns, _) in enumerate(self._blocks):
            start = max(rows.start, first)
            matrix = self._matrix(params, block)[start - rows.start :, :]
            part = even[:, start - first : rows.stop - first]
            out[:, columns] = arrays.product(part, matrix)
        return out

    def visible_fields(self, params, X):
        """Return what the visible units add to the odd fields."""
        arrays = operations_of(params)
        fields = arrays.product(X, self.weights_between(params, 0))
        if len(self._blocks) == 1:
            return fields
        out = arrays.full((X.shape[0], self.n_odd), 0.0, fields.dtype)
        out[:, : fields.shape[1]] = fields
        return out

    def even_fields(self, params, odd, first=0):
        """Return the fields of the even units from a number on, without biases."""
        arrays = operations_of(params)
        if len(self._blocks) == 1:
            return arrays.product(odd, self._matrix(params, 0)[first:, :].T)
        dtype = arrays.xp.result_type(params, odd)
        out = arrays.full((odd.shape[0], self.n_even), 0.0, dtype)
        for block, (rows, columns, _) in enumerate(self._blocks):
            matrix = self._matrix(params, block).T
            out[:, rows] += arrays.product(odd[:, columns], matrix)
        return arrays.contiguous(out[:, first:])

    def draw_even(self, params, odd, draws, first=0):
        """Return draws of the even units from a number on, given the odd ones."""
        fields = self.even_fields(params, odd, first)
        biases = self.even_biases(params)[first:]
        n_normal = 0
        if self.gaussian and first == 0:
            n_normal = self.n_visible
            fields = draws.normals(fields, biases[:n_normal], self.precisions(params))
        return draws.units(fields, n_normal, biases[n_normal:])

    # Chains.

    def new_chains(self, n, rng, like=None):
        """Return chains of fair coins, (n, n_odd)."""
        coins = (rng.random((n, self.n_odd)) < 0.5).astype(np.float32)
        return coins if like is None else arrays_of(like).asarray(coins)

    def drawn(self, means, rng):
        """Return draws of binary units from their means, float32."""
        return operations_of(means).drawn(means, rng)

    def pack(self, chains):
        """Return chains as bits, one row of bytes per chain."""
        return operations_of(chains).pack(chains)

    def unpack(self, packed):
        """Return the chains that `pack` has packed."""
        return operations_of(packed).unpack(packed, self.n_odd)

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
        operations = operations_of(params)
        biases = self.odd_biases(params)
        if X is not None and observed is None:
            even, fields = self._clamped(params, chains, n_sweeps, draws, X)
            return even, operations.means(fields, biases)
        for sweep in range(n_sweeps):
            even = self.draw_even(params, chains, draws)
            if X is not None:
                drawn = even[:, : self.n_visible]
                even[:, : self.n_visible] = operations.xp.where(observed, X, drawn)
            fields = self.odd_fields(params, even)
            if sweep < n_sweeps - 1:
                chains = draws.units(fields, 0, biases)
        return even, operations.means(fields, biases)

    def _clamped(self, params, chains, n_sweeps, draws, X):
        """Return even units and odd fields of `transitions` with all of X clamped."""
        operations, n = operations_of(params), self.n_visible
        if self.n_even == n:
            return X, self.odd_fields(params, X)
        # What is clamped adds the same to the fields in every sweep.
        below = self.visible_fields(params, X)
        for sweep in range(n_sweeps):
            upper = self.draw_even(params, chains, draws, first=n)
            fields = self.odd_fields(params, upper, first=n)
            fields += below
            if sweep < n_sweeps - 1:
                chains = draws.units(fields, 0, self.odd_biases(params))
        return operations.concat([X, upper], axis=1), fields

    def _moments(
        self, params, chains, n_sweeps, seed, rao_blackwell, X=None, observed=None
    ) -> Moments:
        """Move chains and return mean statistics, by blocks of rows."""
        operations, n = operations_of(params), chains.shape[0]
        new = operations.empty((n, self.n_odd), operations.xp.float32)

        def block(start, stop):
            part = slice(start, stop)
            draws = operations.draws(seed, start)
            even, means = self.transitions(
                params,
                chains[part, ...],
                n_sweeps,
                draws,
                None if X is None else X[part, ...],
                None if observed is None else observed[part, ...],
            )
            new[part, ...] = draws.from_means(means)
            odd = means if rao_blackwell else new[part, ...]
            return (self.mean_statistics(even, odd, n=n),)

        size = operations.rows_per_block
        (total,) = reduce_blocks(block, n, size, self._threads(operations))
        return Moments(total, new)

    def _threads(self, arrays):
        # Other namespaces have threads, or a device, of their own.
        return self.n_jobs if arrays.is_numpy else 1

    def mean_statistics(self, even, odd, squares=None, n=None, shares=None):
        """Return the sum over rows of phi, over n (their number, if None).

        With `shares`, an array for NumPy only, rows count by their shares instead.
        """
        arrays = operations_of(even)
        xp = arrays.xp
        n = even.shape[0] if n is None else n
        dtype = xp.result_type(even, odd)
        even, odd = arrays.astype(even, dtype), arrays.astype(odd, dtype)
        out = arrays.empty(self.n_parameters, dtype)
        share = arrays.full(even.shape[0], 1.0 / n, dtype) if shares is None else shares
        # The smaller factor is scaled, not the product.
        odd = odd * (1.0 / n if shares is None else shares[:, None])
        arrays.product(share, even, self.even_biases(out))
        self.odd_biases(out)[:] = xp.sum(odd, axis=0)
        if self.gaussian:
            if squares is None:
                squares = even[:, : self.n_visible] ** 2
            self.precisions(out)[:] = -0.5 * (share @ squares)
        for block, (rows, columns, _) in enumerate(self._blocks):
            matrix = self._matrix(out, block)
            arrays.product(even[:, rows].T, odd[:, columns], matrix)
        return out

    def mean_field(self, params, X, observed, n_iterations):
        """Return means of all units under mean field, or exactly for two layers.

        Parameters
        ----------
        params : array of shape (n_parameters,)
            Parameters.
        X : array of shape (n, n_visible)
            Visible values.
        observed : array of bool of shape (n, n_visible) or None
            What is observed.
        n_iterations : int
            Sweeps over the layers.

        Returns
        -------
        even, odd : array
            Means.
        """
        operations, n = operations_of(params), X.shape[0]
        params = operations.astype(params, X.dtype)
        if n <= operations.rows_per_block:
            return self._mean_field_rows(params, X, observed, n_iterations)
        results = iterate_blocks(
            lambda start, stop: self._mean_field_rows(
                params,
                X[start:stop, :],
                None if observed is None else observed[start:stop, :],
                n_iterations,
            ),
            n,
            operations.rows_per_block,
            self._threads(operations),
        )
        even, odd = zip(*results, strict=True)
        return operations.concat(even), operations.concat(odd)

    def _mean_field_rows(self, params, X, observed, n_iterations):
        operations, n = operations_of(params), self.n_visible
        biases = self.odd_biases(params)
        if observed is None:
            return self._clamped_means(params, X, n_iterations)
        where = operations.xp.where
        even = operations.full((X.shape[0], self.n_even), 0.5, X.dtype)
        start = 0.0 if self.gaussian else 0.5
        even[:, :n] = where(observed, X, operations.xp.full_like(X, start))
        odd = operations.means(self.odd_fields(params, even), biases)
        for _ in range(n_iterations - 1):
            even = self.even_means(params, self.even_fields(params, odd))
            even[:, :n] = where(observed, X, even[:, :n])
            odd = operations.means(self.odd_fields(params, even), biases)
        return even, odd

    def _clamped_means(self, params, X, n_iterations):
        """Return means of even and odd units given all of X."""
        operations, n = operations_of(params), self.n_visible
        biases = self.odd_biases(params)
        if self.n_even == n:
            return X, operations.means(self.odd_fields(params, X), biases)
        below = self.visible_fields(params, X)
        upper = operations.full((X.shape[0], self.n_even - n), 0.5, X.dtype)
        odd = operations.means(self.odd_fields(params, upper, n) + below, biases)
        for _ in range(n_iterations - 1):
            fields = self.even_fields(params, odd, first=n)
            upper = self.even_means(params, fields, first=n)
            odd = operations.means(self.odd_fields(params, upper, n) + below, biases)
        return operations.concat([X, upper], axis=1), odd

    def hidden_means_given(self, params, X, observed, n_iterations):
        """Return mean-field marginals given a part of the visible units."""
        return self.hidden_of(*self.mean_field(params, X, observed, n_iterations))

    def visible_sweep(self, params, chains, seed):
        """Return the chains: visible units are drawn from them, see `visible_draws`."""
        return chains

    def visible_draws(self, params, X, observed, chains, seed):
        """Return draws of the visible units given chains, with X where observed."""
        operations = operations_of(params)
        even = self.draw_even(params, chains, operations.draws(seed))
        drawn = even[:, : self.n_visible]
        return drawn if X is None else operations.xp.where(observed, X, drawn)

    def visible_means(self, params, X, observed, chains):
        """Return means of the visible units given chains, with X where observed."""
        fields = self.even_fields(params, chains)
        means = self.even_means(params, fields)[:, : self.n_visible]
        return arrays_of(params).xp.where(observed, X, means)

    def even_means(self, params, fields, first=0):
        """Turn fields of the even units from a number on into means, in place."""
        operations, biases = operations_of(params), self.even_biases(params)[first:]
        if not self.gaussian or first:
            return operations.means(fields, biases)
        n = self.n_visible
        fields[:, :n] += biases[:n]
        fields[:, :n] /= self.precisions(params)
        if self.n_even > n:
            rest = operations.contiguous(fields[:, n:])
            fields[:, n:] = operations.means(rest, biases[n:])
        return fields

    def visible_part(self, params, X):
        """Return what the visible units alone add to the log-potential, in float64."""
        arrays = arrays_of(params)
        wide = arrays.xp.float64
        X = arrays.astype(X, wide)
        out = X @ arrays.astype(self.even_biases(params)[: self.n_visible], wide)
        if self.gaussian:
            out -= 0.5 * (X**2 @ arrays.astype(self.precisions(params), wide))
        return out
