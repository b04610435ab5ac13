"""Exact sums over the states of a layered machine, of one side of it at a time."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from sktem.boltzmann.machines.layer_states import LayerStates
from sktem.boltzmann.normalisation.enumeration import enumerate_states

__all__ = ["free_sums", "row_sums", "softplus"]


def free_sums(layers: LayerStates, params) -> tuple[float, np.ndarray]:
    """Return log Z and the mean of phi under the model.

    The units of the smaller side are enumerated, the others are summed out.
    """
    layout = layers.layout
    even, odd = layout.even_biases(params), layout.odd_biases(params)
    constant, blocks = 0.0, layout.visible_blocks
    if layout.n_even < layout.n_odd and not blocks:
        states = enumerate_states(layout.n_even)
        fields = layers.odd_fields(params, states) + odd
        sums, means = softplus(fields)
        energies, sides = states @ even + sums, (states, means)
    else:
        states, n = enumerate_states(layout.n_odd), layout.first_binary
        fields = layers.even_fields(params, states) + even
        energies = states @ odd
        for block in blocks:
            energies += block.sums_to_means(params, fields)
            constant += block.constant(params)
        sums, fields[:, n:] = softplus(fields[:, n:])
        energies += sums
        sides = fields, states
    log_sum = float(logsumexp(energies))
    shares = np.exp(energies - log_sum)
    squares = None
    if layout.gaussian:
        squares = sides[0][:, : layout.n_normal] ** 2 + 1 / layout.precisions(params)
    values = layers.mean_statistics(*sides, squares, shares=shares)
    return log_sum + constant, values


def row_sums(layers: LayerStates, params, X, shares=None) -> tuple[float, np.ndarray]:
    """Return means over rows of a restricted machine, its hidden units summed out."""
    shares = np.full(len(X), 1 / len(X)) if shares is None else shares
    fields = layers.odd_fields(params, X)
    sums, means = softplus(fields + layers.layout.odd_biases(params))
    values = layers.mean_statistics(X, means, shares=shares)
    return float(shares @ (sums + layers.visible_part(params, X))), values


def softplus(fields):
    """Return the row sums of ``log(1 + exp(fields))``, and the means of the units."""
    small = np.exp(-np.abs(fields))
    sums = np.sum(np.maximum(fields, 0.0) + np.log1p(small), axis=1)
    return sums, np.where(fields >= 0, 1.0, small) / (1.0 + small)
