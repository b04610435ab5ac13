"""Enumeration, elimination and the transfer matrix against a plain loop."""

import itertools

import numpy as np
import pytest

from sktem.boltzmann.machines.elimination import plan_elimination
from sktem.evaluation import enumerate_moments, enumerate_states
from sktem.graphs import Graph, grid_graph
from tests.boltzmann.normalisation.transfer_matrix import grid_log_partition


def brute_force(graph, biases, weights):
    """Sum over states in plain Python."""
    total, units, edges = 0.0, np.zeros(graph.n_units), np.zeros(graph.n_edges)
    for state in itertools.product([0, 1], repeat=graph.n_units):
        x = np.array(state)
        products = np.array(
            [x[i] * x[j] for i, j in zip(graph.first, graph.second, strict=True)]
        )
        mass = np.exp(sum(biases * x) + sum(weights * products))
        total += mass
        units += mass * x
        edges += mass * products
    return np.log(total), units / total, edges / total


def random_problem(n, density, seed, n_rows=3):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < density, 1)
    graph = Graph(upper | upper.T)
    return graph, rng.normal(0, 2, (n, n_rows)), rng.normal(0, 2, graph.n_edges)


@pytest.mark.parametrize("n, density", [(1, 0), (4, 0.0), (6, 0.4), (6, 1.0)])
def test_enumeration(n, density):
    graph, fields, weights = random_problem(n, density, n)
    found = enumerate_moments(graph, fields[:, 0], weights)
    for one, other in zip(
        found, brute_force(graph, fields[:, 0], weights), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_states_are_all_there():
    states = enumerate_states(5)
    assert len(np.unique(states, axis=0)) == 32 and states.shape == (32, 5)
    assert enumerate_states(0).shape == (1, 0)
    with pytest.raises(ValueError, match="from 0 to 24"):
        enumerate_states(25)


@pytest.mark.parametrize("seed", range(8))
def test_elimination(seed):
    n = 2 + seed
    graph, fields, weights = random_problem(n, 0.1 * seed, seed, n_rows=70)
    plan = plan_elimination(graph)
    log_sums, means, pairs = plan.marginals(fields, weights)
    exact = [enumerate_moments(graph, field, weights) for field in fields.T]
    np.testing.assert_allclose(log_sums, [e[0] for e in exact], rtol=1e-12)
    np.testing.assert_allclose(plan.log_sums(fields, weights), log_sums, rtol=1e-14)
    np.testing.assert_allclose(means.T, [e[1] for e in exact], atol=1e-12)
    np.testing.assert_allclose(pairs, np.sum([e[2] for e in exact], axis=0), rtol=1e-10)
    assert plan.log_sum(fields[:, 0], weights) == pytest.approx(log_sums[0], rel=1e-12)


def test_elimination_does_not_depend_on_threads():
    graph, fields, weights = random_problem(7, 0.5, 0, n_rows=300)
    plan = plan_elimination(graph)
    for one, two in zip(
        plan.marginals(fields, weights, 1),
        plan.marginals(fields, weights, 2),
        strict=True,
    ):
        np.testing.assert_array_equal(one, two)


def test_exact_draws_have_the_right_marginals():
    graph, fields, weights = random_problem(6, 0.5, 3, n_rows=1)
    n = 20_000
    draws = plan_elimination(graph).draw(
        np.repeat(fields / 2, n, axis=1), weights, np.random.default_rng(0)
    )
    _, units, edges = enumerate_moments(graph, fields[:, 0] / 2, weights)
    products = draws[graph.first] * draws[graph.second]
    for found, exact in ((draws, units), (products, edges)):
        error = np.abs(found.mean(axis=1) - exact)
        assert (error < 4 * np.sqrt(exact * (1 - exact) / n) + 1e-12).all()


@pytest.mark.parametrize("sides", [(1, 1), (1, 4), (4, 1), (3, 4), (4, 3)])
def test_transfer_matrix(sides):
    graph = Graph(grid_graph(*sides))
    rng = np.random.default_rng(sum(sides))
    biases, weights = rng.normal(size=graph.n_units), rng.normal(size=graph.n_edges)
    found = grid_log_partition(*sides, biases, weights)
    assert found == pytest.approx(enumerate_moments(graph, biases, weights)[0])


def test_transfer_matrix_and_elimination_agree_on_a_larger_grid():
    graph = Graph(grid_graph(10, 9))
    rng = np.random.default_rng(0)
    biases, weights = rng.uniform(-3, 3, 90), rng.normal(0, 0.7, graph.n_edges)
    plan = plan_elimination(graph)
    assert plan.width <= 12
    found = grid_log_partition(10, 9, biases, weights)
    assert found == pytest.approx(plan.log_sum(biases, weights), rel=1e-12)
    with pytest.raises(ValueError, match="at most 24"):
        grid_log_partition(30, 30, np.zeros(900), np.zeros(1740))


def test_no_plan_where_tables_would_be_too_large():
    complete = Graph(1 - np.eye(12))
    assert plan_elimination(complete, 10) is None
    assert plan_elimination(complete, 11).width == 11
    assert plan_elimination(Graph(grid_graph(30, 30))) is None


def test_half_hidden_grids_have_small_treewidth():
    graph = Graph(grid_graph(30, 30))
    rng = np.random.default_rng(0)
    for share, width in ((0.2, 2), (0.5, 4)):
        hidden = np.sort(rng.choice(900, int(900 * share), replace=False))
        plan = plan_elimination(graph.subgraph(hidden)[0])
        assert plan.width <= width


def least_fill(graph):
    """Return the order in which each unit adds fewest edges, by its definition."""
    matrix = np.zeros((graph.n_units, graph.n_units), bool)
    matrix[graph.first, graph.second] = matrix[graph.second, graph.first] = True
    left, order = set(range(graph.n_units)), []
    while left:
        around = {unit: np.flatnonzero(matrix[unit]) for unit in left}
        missing = {
            unit: (~matrix[np.ix_(near, near)]).sum() - len(near)
            for unit, near in around.items()
        }
        unit = min(left, key=lambda unit: (missing[unit], len(around[unit]), unit))
        near = around[unit]
        matrix[np.ix_(near, near)] = True
        np.fill_diagonal(matrix, False)
        matrix[unit] = matrix[:, unit] = False
        left.remove(unit)
        order.append(unit)
    return order


def test_order_of_least_fill():
    """By definition, unless the order by number has smaller tables."""
    orders = []
    for seed in range(8):
        upper = np.triu(np.random.default_rng(seed).random((25, 25)) < 0.15, 1)
        graph = Graph(upper | upper.T)
        expected = least_fill(graph)
        found = plan_elimination(graph).order.tolist()
        assert found in (expected, list(range(25)))
        orders.append(found == expected)
    assert sum(orders) >= 6
