"""Graphs of pairwise models: edges, colours, and builders of common graphs."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from scipy import sparse

__all__ = ["Graph", "as_graph", "complete_graph", "grid_graph", "layered_graph"]


class Graph:
    """An undirected graph without self-loops.

    Parameters
    ----------
    adjacency : sparse matrix, sparse array or array-like of shape (n_units, n_units)
        Symmetric; nonzero entries are edges. Entries given twice are one edge.

    Attributes
    ----------
    n_units : int
        Number of units.
    first, second : ndarray of shape (n_edges,)
        The units of each edge, ``first < second``, in lexicographic order.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.graphs import Graph
    >>> path = Graph(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> path.n_edges, path.colours().tolist()
    (2, [0, 1, 0])
    """

    def __init__(self, adjacency):
        if not sparse.issparse(adjacency):
            adjacency = np.asarray(adjacency)
            if adjacency.dtype.kind not in "biuf":
                raise TypeError(
                    "graph must be a sparse matrix or an array of numbers, got dtype "
                    f"{adjacency.dtype}"
                )
        if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
            raise ValueError(
                f"graph must be a square adjacency matrix, got shape {adjacency.shape}"
            )
        entries = sparse.coo_array(adjacency)
        values = np.asarray(entries.data)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise ValueError("graph contains NaN or infinity")
        present = values != 0
        rows = entries.row[present].astype(np.int64)
        columns = entries.col[present].astype(np.int64)
        loops = np.flatnonzero(rows == columns)
        if len(loops):
            raise ValueError(
                f"graph has a self-loop at unit {rows[loops[0]]}: x * x equals x for a "
                "binary unit, so that its bias says it already"
            )
        n = int(adjacency.shape[0])
        below = np.unique(columns[rows > columns] * n + rows[rows > columns])
        above = np.unique(rows[rows < columns] * n + columns[rows < columns])
        if not np.array_equal(below, above):
            raise ValueError("graph must be symmetric: an edge is there both ways")
        self._set(n, above // n, above % n)

    def _set(self, n_units, first, second):
        self.n_units = int(n_units)
        self.first = first.astype(np.int64)
        self.second = second.astype(np.int64)

    @classmethod
    def from_edges(cls, n_units, first, second):
        """Return a graph from its edges, each given once in either direction.

        Parameters
        ----------
        n_units : int
            Number of units.
        first, second : array-like of int of shape (n_edges,)
            The units joined by each edge.

        Returns
        -------
        Graph
            The graph; its edges are in lexicographic order, not in the given one.
        """
        first, second = np.asarray(first, np.int64), np.asarray(second, np.int64)
        if len(first) and not 0 <= min(first.min(), second.min()):
            raise ValueError("the units of an edge are numbered from 0")
        if len(first) and not max(first.max(), second.max()) < n_units:
            raise ValueError(f"an edge joins units from 0 to {n_units - 1}")
        if (first == second).any():
            raise ValueError("an edge joins two different units")
        keys = np.unique(
            np.minimum(first, second) * n_units + np.maximum(first, second)
        )
        graph = cls.__new__(cls)
        graph._set(n_units, keys // n_units, keys % n_units)
        return graph

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return len(self.first)

    def degrees(self) -> np.ndarray:
        """Return the number of neighbours of each unit.

        Returns
        -------
        ndarray of int of shape (n_units,)
            The degrees.
        """
        ends = np.concatenate([self.first, self.second])
        return np.bincount(ends, minlength=self.n_units)

    def neighbours(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the neighbours of all units, concatenated.

        Returns
        -------
        indptr : ndarray of shape (n_units + 1,)
            Offsets at which the neighbours of each unit begin.
        units : ndarray of shape (2 * n_edges,)
            The neighbours.
        edges : ndarray of shape (2 * n_edges,)
            Index of the edge that leads to each neighbour.
        """
        owner = np.concatenate([self.first, self.second])
        other = np.concatenate([self.second, self.first])
        order = np.lexsort((other, owner))
        indptr = np.concatenate([[0], np.cumsum(self.degrees())])
        return indptr, other[order], order % max(self.n_edges, 1)

    def colours(self) -> np.ndarray:
        """Return a colouring in which no edge joins two units of the same colour.

        It has two colours if the graph is bipartite; otherwise it is greedy, by
        decreasing degree.

        Returns
        -------
        ndarray of int of shape (n_units,)
            The colour of each unit.
        """
        indptr, units, _ = self.neighbours()
        two = _two_colours(self.n_units, indptr, units)
        if two is not None:
            return two
        colours = np.full(self.n_units, -1)
        for unit in np.argsort(-self.degrees(), kind="stable"):
            taken = set(colours[units[indptr[unit] : indptr[unit + 1]]].tolist())
            colour = 0
            while colour in taken:
                colour += 1
            colours[unit] = colour
        return colours

    def components(self) -> np.ndarray:
        """Return the connected component of each unit.

        Returns
        -------
        ndarray of int of shape (n_units,)
            The index of the component.
        """
        ones = np.ones(self.n_edges)
        matrix = sparse.coo_array(
            (ones, (self.first, self.second)), shape=(self.n_units, self.n_units)
        )
        return sparse.csgraph.connected_components(matrix, directed=False)[1]

    def subgraph(self, units) -> tuple[Graph, np.ndarray]:
        """Return the graph of some units, numbered in the given order.

        Parameters
        ----------
        units : ndarray of int of shape (n_chosen,)
            Indices of the units, each once.

        Returns
        -------
        graph : Graph
            The graph between them.
        edges : ndarray of int
            Index in this graph of each of its edges.
        """
        position = np.full(self.n_units, -1)
        position[units] = np.arange(len(units))
        a, b = position[self.first], position[self.second]
        inside = np.flatnonzero((a >= 0) & (b >= 0))
        low, high = np.minimum(a, b)[inside], np.maximum(a, b)[inside]
        order = np.lexsort((high, low))
        return Graph.from_edges(len(units), low, high), inside[order]


def as_graph(graph):
    """Return the graph given by an argument.

    Parameters
    ----------
    graph : Graph, sparse matrix, array-like or networkx.Graph
        A graph; a symmetric adjacency matrix; or edges, as a list of tuples or an array
        of shape (n_edges, 2) with indices of units, the largest of which is the last
        unit. Two rows of two numbers that are not tuples are a matrix. The nodes of a
        networkx graph are the units, by number if they are 0, 1, 2 and so on, and
        otherwise in their order.

    Returns
    -------
    Graph
        The graph.

    Examples
    --------
    >>> from sktem.graphs import as_graph
    >>> as_graph([(0, 1), (1, 2)]).degrees()
    array([1, 2, 1])
    """
    if isinstance(graph, Graph):
        return graph
    if hasattr(graph, "nodes") and hasattr(graph, "edges"):
        nodes = list(graph.nodes)
        numbers = set(range(len(nodes)))
        if set(nodes) == numbers:
            nodes = sorted(nodes)
        number = {node: position for position, node in enumerate(nodes)}
        edges = [(number[edge[0]], number[edge[1]]) for edge in graph.edges]
        return _from_pairs(len(nodes), np.array(edges, np.int64).reshape(-1, 2))
    if sparse.issparse(graph):
        return Graph(graph)
    tuples = isinstance(graph, (list, tuple)) and all(
        isinstance(edge, tuple) and len(edge) == 2 for edge in graph
    )
    pairs = np.asarray(graph)
    if not pairs.ndim:
        raise ValueError(
            "graph must be a graph, edges or an adjacency matrix, got "
            f"{graph!r}; numbers of hidden units are hidden_layer_sizes"
        )
    listed = pairs.ndim == 2 and pairs.shape[1] == 2 and len(pairs) != 2
    if not len(pairs) or not (tuples or listed) or pairs.dtype.kind not in "iu":
        return Graph(pairs)
    return _from_pairs(int(pairs.max()) + 1, pairs)


def _from_pairs(n_units, pairs):
    """Return a graph from an array of edges."""
    loops = pairs[pairs[:, 0] == pairs[:, 1], 0]
    if len(loops):
        raise ValueError(f"graph has a self-loop at unit {loops[0]}")
    return Graph.from_edges(n_units, pairs[:, 0], pairs[:, 1])


def _two_colours(n_units, indptr, units):
    """Return a colouring with two colours, None if there is none."""
    colours = np.full(n_units, -1)
    for root in range(n_units):
        if colours[root] >= 0:
            continue
        colours[root] = 0
        stack = [root]
        while stack:
            unit = stack.pop()
            for other in units[indptr[unit] : indptr[unit + 1]]:
                if colours[other] < 0:
                    colours[other] = 1 - colours[unit]
                    stack.append(other)
                elif colours[other] == colours[unit]:
                    return None
    return colours


def grid_graph(height, width):
    """Return the adjacency matrix of a grid, with each unit joined to four neighbours.

    Parameters
    ----------
    height, width : int
        Numbers of rows and columns; the unit in row r and column c has the index ``r *
        width + c``.

    Returns
    -------
    scipy.sparse.csr_array of shape (height * width, height * width)
        The adjacency matrix.

    Examples
    --------
    >>> from sktem.graphs import grid_graph
    >>> grid_graph(2, 3).toarray()[0]
    array([0, 1, 0, 1, 0, 0], dtype=int8)
    """
    for name, value in (("height", height), ("width", width)):
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} must be a positive integer, got {value!r}")
    number = np.arange(height * width).reshape(height, width)
    first = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
    second = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
    return _adjacency(height * width, first, second)


def complete_graph(n_units):
    """Return the adjacency matrix of a complete graph.

    Parameters
    ----------
    n_units : int
        Number of units.

    Returns
    -------
    scipy.sparse.csr_array of shape (n_units, n_units)
        The adjacency matrix.

    Examples
    --------
    >>> from sktem.graphs import complete_graph
    >>> complete_graph(3).toarray()
    array([[0, 1, 1],
           [1, 0, 1],
           [1, 1, 0]], dtype=int8)
    """
    if not isinstance(n_units, Integral) or n_units < 1:
        raise ValueError(f"n_units must be a positive integer, got {n_units!r}")
    return _adjacency(int(n_units), *np.triu_indices(int(n_units), 1))


def layered_graph(sizes):
    """Return the adjacency matrix of layers, each fully connected to the next.

    Parameters
    ----------
    sizes : sequence of int
        Number of units in each layer, for at least two layers.

    Returns
    -------
    scipy.sparse.csr_array of shape (n_units, n_units)
        The adjacency matrix; units are numbered layer by layer.

    Examples
    --------
    >>> from sktem.graphs import layered_graph
    >>> layered_graph([2, 1]).toarray()
    array([[0, 0, 1],
           [0, 0, 1],
           [1, 1, 0]], dtype=int8)
    """
    sizes = list(sizes)
    if len(sizes) < 2 or any(not isinstance(s, Integral) or s < 1 for s in sizes):
        raise ValueError(f"sizes must be two or more positive integers, got {sizes}")
    starts = np.concatenate([[0], np.cumsum(sizes)])
    first, second = [], []
    for i in range(len(sizes) - 1):
        a = np.arange(starts[i], starts[i + 1])
        b = np.arange(starts[i + 1], starts[i + 2])
        first.append(np.repeat(a, len(b)))
        second.append(np.tile(b, len(a)))
    return _adjacency(int(starts[-1]), np.concatenate(first), np.concatenate(second))


def _adjacency(n_units, first, second):
    ones = np.ones(2 * len(first), np.int8)
    rows, columns = np.concatenate([first, second]), np.concatenate([second, first])
    return sparse.csr_array((ones, (rows, columns)), shape=(n_units, n_units))
