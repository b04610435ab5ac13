"""Exact log Z of a grid, site by site over the states of one row."""

from __future__ import annotations

import numpy as np

__all__ = ["grid_log_partition"]


def grid_log_partition(height, width, biases, weights):
    """Return log Z of a pairwise model on a grid.

    A vector over the 2**min(height, width) states of a line of units is carried from
    site to site: one site is summed out as the next one comes in.

    Parameters
    ----------
    height, width : int
        Of :func:`sktem.graphs.grid_graph`; the smaller is at most 24.
    biases : ndarray of shape (height * width,)
        Biases.
    weights : ndarray of shape (n_edges,)
        Weights in the order of the edges of ``Graph(grid_graph(height, width))``.

    Returns
    -------
    float
        The logarithm of the sum over all states.
    """
    number = np.arange(height * width).reshape(height, width)
    right, down = _by_direction(number, weights)
    biases = np.asarray(biases, np.float64).reshape(height, width)
    if width > height:
        biases, right, down = biases.T, down.T, right.T
        height, width = width, height
    if width > 24:
        raise ValueError(f"the smaller side must be at most 24, got {width}")
    values = np.ones((2,) * width)
    log_scale = 0.0
    for i in range(height):
        for j in range(width):
            # Factor of (unit above or nothing, this unit).
            factor = np.ones((2, 2))
            factor[:, 1] *= np.exp(biases[i, j])
            if i:
                factor[1, 1] *= np.exp(down[i - 1, j])
                values = np.tensordot(values, factor, axes=([0], [0]))
            else:
                # The axis is still a dummy: only its first entry counts.
                values = values[0][..., None] * factor[0]
            if j:
                # The left neighbour is now the last but one axis.
                values[..., 1, 1] *= np.exp(right[i, j - 1])
            largest = values.max()
            values /= largest
            log_scale += np.log(largest)
    return float(log_scale + np.log(values.sum()))


def _by_direction(number, weights):
    """Return the weights to the right and down neighbours as arrays."""
    height, width = number.shape
    first = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
    second = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
    ordered = np.empty(len(first))
    ordered[np.lexsort((second, first))] = weights
    n_right = height * (width - 1)
    right = ordered[:n_right].reshape(height, width - 1)
    return right, ordered[n_right:].reshape(height - 1, width)
