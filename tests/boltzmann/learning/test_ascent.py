"""The exact gradient of enumerable machines, and ascents along it."""

import numpy as np
import pytest
from scipy import sparse

from sktem import LatentBoltzmannMachine
from sktem.boltzmann.learning.ascent import ExactAscent
from sktem.boltzmann.learning.prior import Prior
from sktem.boltzmann.machines.graph_machine import GraphMachine
from sktem.boltzmann.machines.layered_machine import LayeredMachine
from sktem.boltzmann.normalisation.partition import ExactPartition
from sktem.boltzmann.settings import MachineSettings
from sktem.evaluation import enumerate_moments
from sktem.graphs import Graph, grid_graph
from tests.defaults.boltzmann_cases import maximum, random_graph

GRID = Graph(grid_graph(3, 3))
MACHINES = {
    "restricted": lambda: LayeredMachine((6, 3)),
    "more hidden units": lambda: LayeredMachine((3, 6)),
    "deep": lambda: LayeredMachine((6, 3, 2)),
    "deeper": lambda: LayeredMachine((5, 3, 2, 2)),
    "Gaussian": lambda: LayeredMachine((4, 3), gaussian=True),
    "Gaussian, deep": lambda: LayeredMachine((2, 4, 3, 2), gaussian=True),
    "graph": lambda: GraphMachine(GRID, np.array([1, 4])),
    "no hidden units": lambda: GraphMachine(GRID, np.array([], int)),
}


def problem(kind, n=60):
    rng = np.random.default_rng(0)
    model = MACHINES[kind]()
    params = rng.normal(0, 0.7, model.n_parameters)
    if model.gaussian:
        model.layout.precisions(params)[:] = rng.uniform(0.5, 2, model.n_visible)
        return model, params, rng.normal(size=(n, model.n_visible))
    return model, params, (rng.random((n, model.n_visible)) < 0.4).astype(float)


@pytest.mark.parametrize("kind", MACHINES)
def test_value_and_gradient(kind):
    """Against the sums by elimination, and against finite differences."""
    model, params, X = problem(kind)
    ascent = ExactAscent(model, X, None, Prior(0.01), 100)
    value, gradient = ascent.evaluate(params)
    weights = params[model.weights_from :]
    exact = np.mean(model.log_unnormalised(params, X))
    exact -= ExactPartition(model).value(params) + 0.005 * (weights @ weights)
    assert value == pytest.approx(exact, abs=1e-10)
    step = 1e-5
    for k in range(0, len(params), 3):
        side = step * np.eye(len(params))[k]
        above, below = (ascent.evaluate(params + s * side)[0] for s in (1, -1))
        assert gradient[k] == pytest.approx((above - below) / (2 * step), abs=1e-6)


def test_rows_that_occur_often_count_as_often():
    model, params, X = problem("restricted")
    rows, counts = np.unique(X, axis=0, return_counts=True)
    assert len(rows) < len(X)
    value, gradient = ExactAscent(model, X, None, Prior(0.0), 100).evaluate(params)
    few = ExactAscent(model, rows, counts / len(X), Prior(0.0), 100)
    assert few.evaluate(params)[0] == pytest.approx(value, abs=1e-12)
    np.testing.assert_allclose(few.evaluate(params)[1], gradient, atol=1e-12)


@pytest.mark.parametrize("kind", MACHINES)
def test_a_climb_ends_higher_and_within_bounds(kind):
    model, params, X = problem(kind)
    ascent = ExactAscent(model, X, None, Prior(0.0), 200)
    end = ascent.climb(params.astype(model.dtype))
    assert end.dtype == model.dtype
    assert ascent.evaluate(end.astype(float))[0] > ascent.evaluate(params)[0] + 0.01
    assert np.abs(end - params).max() < 4.001 or model.gaussian
    assert model.project(end) == 0


@pytest.mark.parametrize("solver", ["apcd", "cd"])
def test_a_fit_leaves_a_plateau_behind(solver):
    """Four coupled hidden units, where the steps alone stay 12 % short for long."""
    rng = np.random.default_rng(1)
    graph, hidden, X, settings = random_graph(rng, 8, 20, 4, 200, 2.0)
    fitted = LatentBoltzmannMachine(
        **settings, solver=solver, weight_decay=0.0, random_state=1
    ).fit(X)
    p = X.mean(axis=0)
    base = np.sum(p * np.log(p) + (1 - p) * np.log(1 - p))
    best = maximum(graph, hidden, X)
    assert fitted.converged_
    assert best - fitted.score(X) < 0.1 * (best - base)


def test_a_fit_leaves_a_local_maximum_behind():
    """One at half of the gain of the truth, where a fit from the first start ends."""
    coins = np.random.default_rng(2).integers(0, 2, (1000, 3))
    X = np.column_stack([coins, coins[:, 0] ^ coins[:, 1]]).astype(float)
    fitted = LatentBoltzmannMachine(hidden_layer_sizes=3, random_state=2).fit(X)
    assert fitted.converged_
    assert fitted.score(X) > -3.2 * np.log(2)


@pytest.mark.parametrize("solver", ["apcd", "cd"])
@pytest.mark.parametrize("kind", ["dense", "grid", "chain"])
def test_a_fit_without_hidden_units_ends_at_the_maximum(kind, solver):
    """There the moments of the machine, by enumeration, are those of the data."""
    graph = {
        "dense": 1 - np.eye(7),
        "grid": grid_graph(3, 3),
        "chain": grid_graph(1, 12),
    }[kind]
    rng = np.random.default_rng(0)
    n = graph.shape[0]
    X = (rng.random((60, n)) < 0.5).astype(float)
    X[:, 1:] = np.where(rng.random((60, n - 1)) < 0.6, X[:, :-1], X[:, 1:])
    fitted = LatentBoltzmannMachine(
        graph, solver=solver, weight_decay=0.0, random_state=0
    ).fit(X)
    assert fitted.converged_ and fitted.n_iter_ <= 5
    edges = Graph(graph)
    weights = fitted.params_[n:]
    log_partition, units, pairs = enumerate_moments(edges, fitted.biases_, weights)
    np.testing.assert_allclose(units, X.mean(axis=0), atol=1e-5)
    products = X[:, edges.first] * X[:, edges.second]
    np.testing.assert_allclose(pairs, products.mean(axis=0), atol=1e-5)
    best = X.mean(axis=0) @ fitted.biases_ + products.mean(axis=0) @ weights
    assert fitted.history_.objective[-1] == pytest.approx(
        best - log_partition, abs=1e-9
    )
    assert fitted.history_.gradient_norm[-1] < 1e-4
    assert (fitted.chains_ is None) == (solver == "cd")


def test_without_hidden_units_separable_rows_end_near_their_bound():
    """Two units that are always equal: the likelihood rises to -log 2 for ever."""
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 20, axis=0)
    fitted = LatentBoltzmannMachine(
        1 - np.eye(2), weight_decay=0.0, random_state=0
    ).fit(X)
    assert fitted.converged_ and np.abs(fitted.params_).max() < 100
    assert fitted.score(X) == pytest.approx(-np.log(2), abs=1e-5)


def test_without_hidden_units_weight_decay_counts():
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 20, axis=0)
    machine = LatentBoltzmannMachine(1 - np.eye(2), weight_decay=0.1, random_state=0)
    fitted = machine.fit(X)
    # The gradient of the likelihood is the pull of the penalty.
    *_, pairs = enumerate_moments(Graph(1 - np.eye(2)), *np.split(fitted.params_, [2]))
    assert 0.5 - pairs[0] == pytest.approx(0.1 * fitted.params_[2], abs=1e-5)


def test_where_there_are_ascents():
    X = (np.random.default_rng(0).random((150, 6)) < 0.4).astype(float)

    def ascent(X=X, **options):
        machine = LatentBoltzmannMachine(**{"hidden_layer_sizes": 3, **options})
        settings = MachineSettings.of(machine.get_params())
        run = settings.of_run(settings.model(X.shape[1]), False, X.shape[0])
        return ExactAscent.of(run, X)

    found, listed = ascent(), ascent(sparse.csr_array(X))
    assert found.n_evaluations == listed.n_evaluations
    np.testing.assert_array_equal(found.X, listed.X)
    assert len(found.X) < 64 and found.shares.sum() == pytest.approx(1.0)
    wide = np.tile(X, 5)
    for nothing in (
        ascent(step_size_m=0.1),
        ascent(binarize="sample"),
        ascent(wide, hidden_layer_sizes=30),
        ascent(np.where(X == 1, np.nan, X)),
        ascent(wide, hidden_layer_sizes=(20, 20)),
    ):
        assert nothing is None
