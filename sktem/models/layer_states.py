"""States of layered machines: fields, draws and mean statistics."""

from __future__ import annotations

import numpy as np

from sktem.kernels.blocks import iterate_blocks, reduce_blocks
from sktem.kernels.layers import (
    draw_from_means,
    draw_normals,
    draw_units,
    mean_units,
)
from sktem.models.boltzmann import Moments
from sktem.models.layer_layout import LayerLayout

__all__ = ["LayerStates"]

#: Rows whose states are worked on at a time.
ROWS_PER_BLOCK = 256


class LayerStates(LayerLayout):
    """Fields, draws and mean statistics of layers; parameters as `LayerLayout`."""

    # Fields.

    def odd_fields(self, params, even):
        """Return the fields of the odd units, without biases."""
        if len(self._blocks) == 1:
            return even @ self._matrix(params, 0)
        out = np.empty((len(even), self.n_odd), np.result_type(params, even))
        for block, (rows, columns, _) in enumerate(self._blocks):
            out[:, columns] = even[:, rows] @ self._matrix(params, block)
        return out

    def even_fields(self, params, odd, first=0):
        """Return the fields of the even units from a number on, without biases."""
        if len(self._blocks) == 1:
            return odd @ self._matrix(params, 0)[first:].T
        out = np.zeros((len(odd), self.n_even), np.result_type(params, odd))
        for block, (rows, columns, _) in enumerate(self._blocks):
            out[:, rows] += odd[:, columns] @ self._matrix(params, block).T
        return np.ascontiguousarray(out[:, first:])

    def draw_even(self, params, odd, seed, step, first_row, first=0):
        """Return draws of the even units from a number on, given the odd ones."""
        fields = self.even_fields(params, odd, first)
        biases = self.even_biases(params)[first:]
        n_normal = 0
        if self.gaussian and first == 0:
            n_normal = self.n_visible
            precisions = self.precisions(params)
            draw_normals(fields, biases[:n_normal], precisions, seed, step, first_row)
        draw_units(fields, n_normal, biases[n_normal:], seed, step, first_row)
        return fields

    # Chains.

    def new_chains(self, n, rng) -> np.ndarray:
        """Return chains of fair coins, (n, n_odd)."""
        return (rng.random((n, self.n_odd)) < 0.5).astype(np.float32)

    def pack(self, chains) -> np.ndarray:
        """Return chains as bits, one row of bytes per chain."""
        return np.packbits(chains > 0.5, axis=1)

    def unpack(self, packed) -> np.ndarray:
        """Return the chains that `pack` has packed."""
        bits = np.unpackbits(packed, axis=1, count=self.n_odd)
        return bits.astype(np.float32)

    # Draws and means.

    def transitions(
        self, params, chains, n_sweeps, seed, first_row=0, X=None, observed=None
    ):
        """Move chains, all units free or some clamped.

        Parameters
        ----------
        params : ndarray of float32 of shape (n_parameters,)
            Parameters.
        chains : ndarray of float32 of shape (n, n_odd)
            Chains; they are overwritten.
        n_sweeps : int
            Transitions, at least 1.
        seed : numpy.uint64
            Seed of the draws.
        first_row : int, default=0
            Number of the first chain.
        X : ndarray of float32 of shape (n, n_visible) or None, default=None
            Clamped values.
        observed : ndarray of bool of shape (n, n_visible) or None, default=None
            Which are clamped, None for all.

        Returns
        -------
        even : ndarray of float32 of shape (n, n_even)
            Draws given the odd units of the last but one draw.
        means : ndarray of float32 of shape (n, n_odd)
            Means of the odd units given `even`, from which `chains` were drawn.
        """
        biases, n = self.odd_biases(params), self.n_visible
        even = None
        for sweep in range(n_sweeps):
            step = 2 * sweep
            if X is not None and observed is None:
                if even is None:
                    even = np.empty((len(X), self.n_even), np.float32)
                    even[:, :n] = X
                if self.n_even > n:
                    even[:, n:] = self.draw_even(
                        params, chains, seed, step, first_row, first=n
                    )
            else:
                even = self.draw_even(params, chains, seed, step, first_row)
                if X is not None:
                    even[:, :n] = np.where(observed, X, even[:, :n])
            fields = self.odd_fields(params, even)
            if sweep < n_sweeps - 1:
                draw_units(fields, 0, biases, seed, step + 1, first_row)
                chains = fields
        mean_units(fields, biases)
        return even, fields

    def _moments(
        self, params, chains, n_sweeps, seed, rao_blackwell, X=None, observed=None
    ) -> Moments:
        """Move chains and return mean statistics, by blocks of rows."""
        n, seed = len(chains), np.uint64(seed)
        new = np.empty((n, self.n_odd), np.float32)

        def block(start, stop):
            part = slice(start, stop)
            even, means = self.transitions(
                params,
                chains[part],
                n_sweeps,
                seed,
                start,
                None if X is None else X[part],
                None if observed is None else observed[part],
            )
            draw_from_means(
                new[part], means, seed, np.uint64(2 * n_sweeps), np.uint64(start)
            )
            odd = means if rao_blackwell else new[part]
            return (self.mean_statistics(even, odd, n=n),)

        (total,) = reduce_blocks(block, n, ROWS_PER_BLOCK, self.n_jobs)
        return Moments(total, new)

    def mean_statistics(self, even, odd, squares=None, n=None):
        """Return the sum over rows of phi, over n (their number, if None)."""
        n = len(even) if n is None else n
        out = np.empty(self.n_parameters, np.result_type(even, odd, np.float32))
        share = np.full(len(even), 1.0 / n, out.dtype)
        # The smaller factor is scaled, not the product.
        odd = odd * out.dtype.type(1.0 / n)
        np.matmul(share, even, out=self.even_biases(out))
        odd.sum(axis=0, out=self.odd_biases(out))
        if self.gaussian:
            if squares is None:
                squares = even[:, : self.n_visible] ** 2
            self.precisions(out)[:] = -0.5 * (share @ squares)
        for block, (rows, columns, _) in enumerate(self._blocks):
            matrix = self._matrix(out, block)
            np.matmul(even[:, rows].T, odd[:, columns], out=matrix)
        return out

    def mean_field(self, params, X, observed, n_iterations):
        """Return means of all units under mean field, or exactly for two layers.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.
        X : ndarray of shape (n, n_visible)
            Visible values.
        observed : ndarray of bool of shape (n, n_visible) or None
            What is observed.
        n_iterations : int
            Sweeps over the layers.

        Returns
        -------
        even, odd : ndarray
            Means.
        """
        params = params.astype(X.dtype, copy=False)
        if len(X) <= ROWS_PER_BLOCK:
            return self._mean_field_rows(params, X, observed, n_iterations)
        results = iterate_blocks(
            lambda start, stop: self._mean_field_rows(
                params,
                X[start:stop],
                None if observed is None else observed[start:stop],
                n_iterations,
            ),
            len(X),
            ROWS_PER_BLOCK,
            self.n_jobs,
        )
        even, odd = zip(*results, strict=True)
        return np.concatenate(even), np.concatenate(odd)

    def _mean_field_rows(self, params, X, observed, n_iterations):
        n = self.n_visible
        if observed is None and self.n_even == n:
            odd = self.odd_fields(params, X)
            sigmoid(odd, self.odd_biases(params))
            return X, odd
        odd = None
        even = np.full((len(X), self.n_even), 0.5, X.dtype)
        start = 0.0 if self.gaussian else 0.5
        even[:, :n] = X if observed is None else np.where(observed, X, start)
        first = n if observed is None else 0
        for iteration in range(n_iterations):
            if iteration and self.n_even > first:
                fields = self.even_fields(params, odd, first)
                fields = self.even_means(params, fields, first)
                if observed is not None:
                    fields[:, :n] = np.where(observed, X, fields[:, :n])
                even[:, first:] = fields
            odd = self.odd_fields(params, even)
            sigmoid(odd, self.odd_biases(params))
        return even, odd

    def hidden_means_given(self, params, X, observed, n_iterations):
        """Return mean-field marginals given a part of the visible units."""
        return self.hidden_of(*self.mean_field(params, X, observed, n_iterations))

    def visible_sweep(self, params, chains, seed):
        """Return the chains: visible units are drawn from them, see `visible_draws`."""
        return chains

    def visible_draws(self, params, X, observed, chains, seed):
        """Return draws of the visible units given chains, with X where observed."""
        even = self.draw_even(
            params, chains, np.uint64(seed), np.uint64(0), np.uint64(0)
        )
        drawn = even[:, : self.n_visible]
        return drawn if X is None else np.where(observed, X, drawn)

    def visible_means(self, params, X, observed, chains):
        """Return means of the visible units given chains, with X where observed."""
        fields = self.even_fields(params, chains)
        means = self.even_means(params, fields)[:, : self.n_visible]
        return np.where(observed, X, means)

    def even_means(self, params, fields, first=0):
        """Turn fields of the even units from a number on into means, in place."""
        biases = self.even_biases(params)[first:]
        if self.gaussian and first == 0:
            n = self.n_visible
            fields[:, :n] += biases[:n]
            fields[:, :n] /= self.precisions(params)
            rest = np.ascontiguousarray(fields[:, n:])
            sigmoid(rest, biases[n:])
            fields[:, n:] = rest
        else:
            sigmoid(fields, biases)
        return fields

    def visible_part(self, params, X):
        """Return what the visible units alone add to the log-potential, in float64."""
        biases = self.even_biases(params)[: self.n_visible].astype(np.float64)
        out = X @ biases
        if self.gaussian:
            out -= 0.5 * np.square(X, dtype=np.float64) @ self.precisions(params)
        return out


def sigmoid(fields, biases):
    """Replace fields by probabilities, in place, in their own precision."""
    if fields.dtype == np.float32:
        mean_units(fields, np.ascontiguousarray(biases, np.float32))
        return
    fields += biases
    np.exp(-np.clip(fields, -700, 700), out=fields)
    fields += 1.0
    np.reciprocal(fields, out=fields)
