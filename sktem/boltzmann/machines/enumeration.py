"""Sums over all states of few binary units: the plainest of oracles."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

__all__ = ["enumerate_moments", "enumerate_states"]


def enumerate_states(n_units):
    """Return all states of binary units.

    Parameters
    ----------
    n_units : int
        Number of units, at most 24.

    Returns
    -------
    ndarray of float64 of shape (2**n_units, n_units)
        One state per row; the first unit changes slowest.

    Examples
    --------
    >>> from sktem.evaluation import enumerate_states
    >>> enumerate_states(2).tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    """
    if not 0 <= n_units <= 24:
        raise ValueError(f"n_units must be from 0 to 24, got {n_units!r}")
    numbers = np.arange(2**n_units)[:, None]
    return ((numbers >> np.arange(n_units)[::-1]) & 1).astype(np.float64)


def enumerate_moments(graph, biases, weights):
    """Return log Z and the means of units and of their products in a pairwise model.

    Parameters
    ----------
    graph : sktem.graphs.Graph
        The graph, of at most 24 units.
    biases : ndarray of shape (n_units,)
        Biases.
    weights : ndarray of shape (n_edges,)
        Weights in the order of the edges of the graph.

    Returns
    -------
    log_partition : float
        The logarithm of the sum over all states.
    units : ndarray of shape (n_units,)
        Probability that each unit is 1.
    edges : ndarray of shape (n_edges,)
        Probability that both ends of an edge are 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.evaluation import enumerate_moments
    >>> from sktem.graphs import Graph, grid_graph
    >>> pair = Graph(grid_graph(1, 2))
    >>> log_partition, units, edges = enumerate_moments(pair, np.zeros(2), np.zeros(1))
    >>> round(float(np.exp(log_partition))), units.tolist(), edges.tolist()
    (4, [0.5, 0.5], [0.25])
    """
    states = enumerate_states(graph.n_units)
    products = states[:, graph.first] * states[:, graph.second]
    energies = states @ biases + products @ weights
    log_partition = float(logsumexp(energies))
    probabilities = np.exp(energies - log_partition)
    return log_partition, probabilities @ states, probabilities @ products
