"""Annealed importance sampling against exact sums."""

import numpy as np
import pytest

from sktem.boltzmann.machines.elimination import plan_elimination
from sktem.boltzmann.machines.graph_machine import GraphMachine
from sktem.boltzmann.machines.layered_machine import LayeredMachine
from sktem.boltzmann.normalisation.ais import posterior_log_sums, reliable_log_partition
from sktem.evaluation import annealed_importance_sampling, enumerate_states
from sktem.graphs import Graph, grid_graph, layered_graph


def problem(kind, seed=0):
    rng = np.random.default_rng(seed)
    if kind == "grid":
        model = GraphMachine(Graph(grid_graph(4, 4)), np.array([1, 6, 11]))
    elif kind == "layered graph":
        model = GraphMachine(Graph(layered_graph([4, 3, 3])), np.arange(4, 10))
    else:
        sizes = {"restricted": (7, 5), "deep": (5, 4, 3), "gaussian": (4, 3)}[kind]
        model = LayeredMachine(sizes, gaussian=kind == "gaussian")
    params = rng.normal(0, 1, model.n_parameters).astype(model.dtype)
    if model.gaussian:
        model.layout.precisions(params)[:] = 1.5
    graph, biases, weights, constant = model.as_graph(params)
    exact = plan_elimination(graph).log_sum(biases, weights) + constant
    return model, params, exact


KINDS = ["grid", "restricted", "deep", "gaussian", "layered graph"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_standard_error_is_right(kind):
    """The exact value is within three standard errors in at least 95 of 100 seeds."""
    model, params, exact = problem(kind)
    scores = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        found = annealed_importance_sampling(model, params, rng, 100, 30)
        scores.append((found.value - exact) / found.standard_error)
    assert np.sum(np.abs(scores) < 3) >= 95
    # Nor is it too wide: the scores are about standard normal.
    assert 0.7 < np.std(scores) < 1.4
    # A value that is three errors off would not pass.
    assert np.sum(np.abs(np.array(scores) + 3) < 3) < 80


def scores_of(found, exact):
    return np.array([(r.value - exact) / r.standard_error for r in found])


def test_the_standard_error_is_right_between_two_modes():
    """An Ising model at J = 0.6: nearly all units are on, or nearly all are off."""
    graph = Graph(grid_graph(6, 6))
    model = GraphMachine(graph, np.array([], int))
    # Spins s = 2 x - 1 of coupling J: weights 4 J, biases -2 J for each neighbour.
    params = np.concatenate([-1.2 * graph.degrees(), np.full(graph.n_edges, 2.4)])
    exact = plan_elimination(graph).log_sum(params[:36], params[36:])
    found = [
        reliable_log_partition(model, params, np.random.default_rng(k), 100, 400, 1600)
        for k in range(30)
    ]
    scores = scores_of(found, exact)
    # 95.4 % are expected; below 25 of 30 has a probability of 0.0012.
    assert np.sum(np.abs(scores) < 2) >= 25
    assert abs(scores.mean()) < 4 / np.sqrt(30)
    assert 0.6 < scores.std() < 1.5
    # Errors that are half as large, or values two errors off, would not pass.
    assert np.sum(np.abs(2 * scores) < 2) < 25
    assert np.sum(np.abs(scores + 2) < 2) < 25


@pytest.mark.parametrize("schedule", ["adaptive", "linear", np.linspace(0, 1, 21) ** 2])
def test_schedules(schedule):
    model, params, exact = problem("deep")
    rng = np.random.default_rng(0)
    found = annealed_importance_sampling(model, params, rng, 200, 20, schedule)
    assert found.n_runs == 200 and found.n_temperatures == 20
    assert abs(found.value - exact) < 4 * found.standard_error
    assert 1 <= found.effective_sample_size <= 200


def test_more_temperatures_are_better():
    model, params, exact = problem("grid")
    sizes = []
    for n_temperatures in (2, 20, 200):
        rng = np.random.default_rng(0)
        found = annealed_importance_sampling(model, params, rng, 100, n_temperatures)
        sizes.append(found.effective_sample_size)
    assert sizes[0] < sizes[1] < sizes[2]
    assert sizes[2] > 95


@pytest.mark.parametrize("kind", ["grid", "deep", "layered graph"])
def test_sums_over_hidden_units(kind):
    model, params, _ = problem(kind)
    X = enumerate_states(model.n_visible)[::3][:20]
    rng = np.random.default_rng(0)
    found, errors = posterior_log_sums(model, params, X, rng, 50, 30)
    exact = model.log_unnormalised(params, X)
    # Where the hidden units are independent mean field is exact, and no error is left.
    assert (np.abs(found - exact) < 4.5 * errors + 1e-4).all()


def test_same_seed_same_value():
    model, params, _ = problem("deep")
    one, two = (
        annealed_importance_sampling(model, params, np.random.default_rng(1), 20, 10)
        for _ in range(2)
    )
    assert one == two


def test_a_single_run_has_no_standard_error():
    """The temperatures come from a pilot of many runs, whatever the number of runs."""
    model, params, exact = problem("grid")
    found = [
        annealed_importance_sampling(model, params, np.random.default_rng(k), 1, 300)
        for k in range(20)
    ]
    assert all(np.isnan(result.standard_error) for result in found)
    assert all(result.n_temperatures == 300 for result in found)
    values = np.array([result.value for result in found])
    assert values.std() < 0.3
    assert abs(values.mean() - exact) < 4 * values.std() / np.sqrt(20) + 0.05


def test_runs_are_longer_where_few_of_them_count():
    model, params, _ = problem("grid")
    easy, hard = (
        reliable_log_partition(
            model, scale * params, np.random.default_rng(0), 50, 1, 9
        )
        for scale in (0.01, 4.0)
    )
    assert easy.n_temperatures == 1 and easy.effective_sample_size >= 25
    assert hard.n_temperatures in (4, 9)
