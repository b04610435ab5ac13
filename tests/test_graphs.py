"""Graphs: edges, colours, components, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from sktem.graphs import Graph, as_graph, complete_graph, grid_graph, layered_graph


def random_graph(n, density, seed):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < density, 1)
    return Graph(upper | upper.T)


@given(st.integers(1, 12), st.floats(0, 1), st.integers(0, 100))
def test_structure_agrees_with_the_matrix(n, density, seed):
    graph = random_graph(n, density, seed)
    matrix = np.zeros((n, n), bool)
    matrix[graph.first, graph.second] = True
    assert (graph.first < graph.second).all()
    both = matrix | matrix.T
    assert (graph.degrees() == both.sum(axis=0)).all()
    indptr, units, edges = graph.neighbours()
    for unit in range(n):
        around = slice(indptr[unit], indptr[unit + 1])
        assert units[around].tolist() == np.flatnonzero(both[unit]).tolist()
        ends = np.sort(
            [graph.first[edges[around]], graph.second[edges[around]]], axis=0
        )
        assert (
            np.sort([np.full(len(units[around]), unit), units[around]], 0) == ends
        ).all()
    colours = graph.colours()
    assert (colours[graph.first] != colours[graph.second]).all()
    reached = np.linalg.matrix_power((both | np.eye(n, dtype=bool)).astype(int), n) > 0
    components = graph.components()
    assert ((components[:, None] == components) == reached).all()


def test_a_grid_has_two_colours_and_an_odd_cycle_three():
    grid = Graph(grid_graph(4, 5))
    assert grid.n_edges == 4 * 4 + 3 * 5
    assert set(grid.colours()) == {0, 1}
    cycle = Graph.from_edges(5, range(5), [1, 2, 3, 4, 0])
    assert set(cycle.colours()) == {0, 1, 2}


def test_grid_edges():
    dense = grid_graph(3, 4).toarray()
    place = np.array([(r, c) for r in range(3) for c in range(4)])
    distance = np.abs(place[:, None] - place).sum(axis=2)
    assert (dense == (distance == 1)).all()


def test_layers():
    dense = layered_graph([2, 3, 1]).toarray()
    layer = np.array([0, 0, 1, 1, 1, 2])
    assert (dense == (np.abs(layer[:, None] - layer) == 1)).all()
    with pytest.raises(ValueError, match="two or more positive integers"):
        layered_graph([3])


def test_subgraph_keeps_edges_and_their_numbers():
    graph = random_graph(9, 0.5, 0)
    units = np.array([7, 1, 4, 2])
    part, edges = graph.subgraph(units)
    ends = np.sort([units[part.first], units[part.second]], axis=0)
    assert (ends == [graph.first[edges], graph.second[edges]]).all()
    inside = np.isin(graph.first, units) & np.isin(graph.second, units)
    assert inside.sum() == part.n_edges


def test_entries_given_twice_are_one_edge():
    twice = sparse.coo_array(([1, 1, 2, 3], ([0, 0, 1, 1], [1, 1, 0, 0])), shape=(2, 2))
    assert Graph(twice).n_edges == 1


@pytest.mark.parametrize(
    "matrix, message",
    [
        (np.eye(2), "self-loop at unit 0"),
        (np.array([[0, 1], [0, 0]]), "symmetric"),
        (np.ones((2, 3)), "square"),
        (np.array([[0, np.nan], [np.nan, 0]]), "NaN"),
    ],
)
def test_bad_graphs(matrix, message):
    with pytest.raises(ValueError, match=message):
        Graph(matrix)


def test_a_graph_of_texts():
    with pytest.raises(TypeError, match="array of numbers"):
        Graph(np.array([["a"]]))


@pytest.mark.parametrize("sides", [(0, 3), (2, 1.5)])
def test_bad_grids(sides):
    with pytest.raises(ValueError, match="positive integer"):
        grid_graph(*sides)


EDGES = [(0, 1), (1, 2), (4, 2)]


@pytest.mark.parametrize(
    "given", [EDGES, tuple(EDGES), np.array(EDGES), [list(edge) for edge in EDGES]]
)
def test_lists_of_edges(given):
    found = as_graph(given)
    assert found.n_units == 5
    np.testing.assert_array_equal(found.first, [0, 1, 2])
    np.testing.assert_array_equal(found.second, [1, 2, 4])


def test_two_edges_are_not_a_matrix():
    assert as_graph([(0, 1), (1, 2)]).n_edges == 2
    assert as_graph([[0, 1], [1, 0]]).n_edges == 1
    same = as_graph(grid_graph(2, 2))
    assert as_graph(same) is same


@pytest.mark.parametrize("given", [4, 2.5, "star", object()])
def test_what_is_no_graph(given):
    with pytest.raises(ValueError, match="numbers of hidden units are"):
        as_graph(given)


def test_graphs_of_networkx():
    networkx = pytest.importorskip("networkx")
    grid = networkx.grid_2d_graph(3, 4)
    found, expected = as_graph(grid), Graph(grid_graph(3, 4))
    np.testing.assert_array_equal(found.first, expected.first)
    np.testing.assert_array_equal(found.second, expected.second)
    shuffled = networkx.Graph()
    shuffled.add_nodes_from([2, 0, 1, 3])
    shuffled.add_weighted_edges_from([(2, 0, 0.0), (0, 1, 1.0)])
    found = as_graph(shuffled)
    assert found.n_units == 4
    np.testing.assert_array_equal(found.degrees(), [2, 1, 1, 0])


def test_complete_graph():
    networkx = pytest.importorskip("networkx")
    found, expected = Graph(complete_graph(5)), as_graph(networkx.complete_graph(5))
    np.testing.assert_array_equal(found.first, expected.first)
    np.testing.assert_array_equal(found.second, expected.second)
    assert complete_graph(1).shape == (1, 1)
    with pytest.raises(ValueError, match="positive integer"):
        complete_graph(0)
