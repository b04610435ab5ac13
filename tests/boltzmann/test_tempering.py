"""Parallel tempering: the law of the chains, and their way between modes."""

import numpy as np
import pytest
from scipy.special import logsumexp

from sktem import LatentBoltzmannMachine
from sktem.boltzmann.tempering import Replicas
from sktem.evaluation import enumerate_states
from sktem.graphs import Graph, grid_graph
from tests.boltzmann.test_ais import KINDS, problem
from tests.boltzmann.test_exact_answers import close, fitted


@pytest.mark.parametrize("kind", KINDS)
def test_densities_of_chains_sum_to_the_partition_function(kind):
    model, params, exact = problem(kind)
    n = model.layout.n_odd if hasattr(model, "layout") else model.n_units
    states = enumerate_states(n).astype(np.float32)
    chains = states if hasattr(model, "layout") else np.ascontiguousarray(states.T)
    found = logsumexp(model.log_densities(params, chains))
    assert found == pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_independent_units_have_no_weights(kind):
    model, params, _ = problem(kind)
    start = model.independent(params)
    assert not start[model.weights_from :].any()
    assert start.dtype == params.dtype and not np.shares_memory(start, params)


@pytest.mark.parametrize("kind", ["grid", "restricted", "deep"])
def test_the_law_of_the_chains(kind):
    machine, states, mass = fitted(kind, scale=1.0)
    machine.set_params(n_replicas=4)
    draws = machine.sample(4000, n_steps=40)
    assert close(draws, states, mass)
    assert not close(1 - draws, states, mass)


@pytest.mark.parametrize("kind", KINDS)
def test_replicas_change_places(kind):
    model, params, _ = problem(kind)
    rng = np.random.default_rng(0)
    replicas = Replicas.of(model, params, 4, 50, rng)
    cold = model.new_chains(50, rng)
    for _ in range(2):
        cold = replicas.move(model, params, cold, 20, rng)
    np.testing.assert_array_equal(replicas.n_tries, [1000, 1000, 1000])
    assert (replicas.n_swaps > 50).all() and (replicas.n_swaps < 1000).all()


def ising(n, coupling, field, **options):
    """Return a machine whose units are nearly all on or nearly all off."""
    graph = grid_graph(n, n)
    edges = Graph(graph)
    X = np.random.default_rng(0).integers(2, size=(20, n * n)).astype(float)
    machine = LatentBoltzmannMachine(
        graph, max_iter=0, tol=None, random_state=0, **options
    ).fit(X)
    biases = 2 * field - 2 * coupling * edges.degrees()
    machine.params_ = np.concatenate([biases, np.full(edges.n_edges, 4 * coupling)])
    machine.chains_ = np.ones((n * n, 10), np.float32)
    return machine


def test_modes_are_visited_in_their_proportions():
    machine = ising(6, 0.8, 0.01)
    exact = np.mean(machine.sample(20000).mean(axis=1) > 0.5)
    assert 0.5 < exact < 0.9

    def error(n_replicas):
        machine.set_params(n_replicas=n_replicas)
        share = np.mean(machine.sample(200, n_steps=200).mean(axis=1) > 0.5)
        return (share - exact) / np.sqrt(exact * (1 - exact) / 200)

    assert abs(error(12)) < 4
    # All chains begin in one mode, and plain ones stay there.
    assert error(1) > 4


def clustered():
    """A restricted machine that has learned three clusters of unequal size."""
    rng = np.random.default_rng(0)
    centres = np.repeat(np.eye(3), 8, axis=1)
    cluster = rng.choice(3, 600, p=[0.6, 0.3, 0.1])
    X = (rng.random((600, 24)) < 0.04 + 0.92 * centres[cluster]).astype(float)
    machine = LatentBoltzmannMachine(hidden_layer_sizes=6, random_state=0).fit(X)
    return machine, X, centres


def test_clusters_are_visited_in_their_proportions():
    machine, X, centres = clustered()

    def shares(draws):
        return np.bincount(np.argmax(draws @ centres.T, axis=1), minlength=3) / len(
            draws
        )

    exact = shares(machine.sample(20000))
    np.testing.assert_allclose(exact, shares(X), atol=0.05)
    # All chains begin in the first cluster.
    model, params = machine.fitted_.model, machine.params_
    means = model.hidden_means(params, centres[:1].astype(np.float32), 1)
    machine.chains_ = (means > 0.5).astype(np.float32)

    def scores(n_replicas):
        machine.set_params(n_replicas=n_replicas)
        found = shares(machine.sample(300, n_steps=100))
        return np.abs(found - exact) / np.sqrt(exact * (1 - exact) / 300)

    assert scores(10).max() < 4
    # Plain chains hardly leave it.
    assert scores(1).max() > 6


@pytest.mark.parametrize(
    "kind", [{"graph": grid_graph(3, 2)}, {"hidden_layer_sizes": 3}]
)
def test_fits_with_replicas(kind):
    machine, states, mass = fitted("visible grid", scale=1.0)
    X = machine.sample(600)
    options = dict(kind, step_size_m=(0.2, 0.01), max_iter=30, tol=None, random_state=0)
    learned = LatentBoltzmannMachine(**options, n_replicas=3).fit(X)
    plain = LatentBoltzmannMachine(**options).fit(X)
    assert (learned.params_ != plain.params_).any()
    assert learned.score(X) == pytest.approx(plain.score(X), abs=0.02)
    again = LatentBoltzmannMachine(**options, n_replicas=3).fit(X)
    np.testing.assert_array_equal(learned.params_, again.params_)
    # Two fits that go on are one, replicas included.
    options |= {"step_size_m": 0.05, "n_replicas": 3}
    half = LatentBoltzmannMachine(**(options | {"max_iter": 2, "warm_start": True}))
    whole = LatentBoltzmannMachine(**(options | {"max_iter": 4})).fit(X)
    np.testing.assert_array_equal(half.fit(X).fit(X).params_, whole.params_)
    stream = LatentBoltzmannMachine(**options).partial_fit(X[:250]).partial_fit(X[250:])
    other = LatentBoltzmannMachine(**options).partial_fit(X)
    np.testing.assert_array_equal(stream.params_, other.params_)


def test_chains_that_start_anew_have_no_replicas():
    X = np.zeros((5, 3))
    with pytest.raises(ValueError, match="it needs n_replicas=1, got 2"):
        LatentBoltzmannMachine(hidden_layer_sizes=2, solver="cd", n_replicas=2).fit(X)
    with pytest.raises(ValueError, match="n_replicas must be an integer >= 1"):
        LatentBoltzmannMachine(hidden_layer_sizes=2, n_replicas=0).fit(X)
