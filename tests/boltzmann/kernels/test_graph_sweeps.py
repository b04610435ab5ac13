"""The kernels on graphs against the NumPy expressions that they state."""

import numpy as np
import pytest

from sktem.boltzmann.machines.graph_machine import GraphMachine
from sktem.graphs import Graph, grid_graph
from tests.kernels.test_counter import (
    reference_bytes,
    reference_hashed,
    reference_mixed,
)


def machine(kind, seed=0):
    rng = np.random.default_rng(seed)
    if kind == "grid":
        graph = Graph(grid_graph(4, 5))
    elif kind == "empty":
        graph = Graph(np.zeros((3, 3)))
    elif kind == "complete":
        graph = Graph(np.ones((70, 70)) - np.eye(70))
    else:
        upper = np.triu(rng.random((14, 14)) < 0.6, 1)
        graph = Graph(upper | upper.T)
    hidden = np.flatnonzero(rng.random(graph.n_units) < 0.4)
    model = GraphMachine(graph, hidden)
    scale = 0.3 if kind == "complete" else 1.0
    return model, scale * rng.normal(size=model.n_parameters), rng


def dense_weights(model, params):
    weights = np.zeros((model.n_units, model.n_units))
    weights[model.first, model.second] = params[model.n_units :]
    return weights + weights.T


def reference_uniform(key, places, few):
    """Return uniform numbers, of 32 bits for units with at most four neighbours."""
    uniform = (reference_hashed(key, places).astype(float) + 0.5) / 2**24
    if few:
        uniform += reference_bytes(key, -1 - places // 4, places % 4)
        uniform /= 256
    return uniform


def reference_sweeps(model, params, states, n_sweeps, seed, order, **options):
    """Sweep in float64; also return how near the draws were to their thresholds."""
    weights, biases = dense_weights(model, params), params[: model.n_units]
    states = states.astype(np.float64)
    clamped, offsets = options.get("clamped"), options.get("offsets")
    one, other = options.get("scales", (1.0, 0.0))
    nearest, places = 1.0, np.arange(states.shape[1])
    for sweep in range(n_sweeps):
        for u in order:
            field = one * (biases[u] + weights[u] @ states)
            if offsets is not None:
                field = field + other * offsets[u]
            p = 1 / (1 + np.exp(-field))
            new = p
            if not options.get("means"):
                key = reference_mixed(seed, sweep, int(u))
                uniform = reference_uniform(key, places, (weights[u] != 0).sum() <= 4)
                nearest = min(nearest, np.abs(uniform - p).min())
                new = (uniform < p).astype(float)
            states[u] = new if clamped is None else np.where(clamped[u], states[u], new)
    return states, nearest


@pytest.mark.parametrize("kind", ["grid", "dense", "empty", "complete"])
@pytest.mark.parametrize("means", [False, True])
@pytest.mark.parametrize(
    "extra", ["nothing", "large", "clamped", "offsets", "hidden only"]
)
def test_sweeps(kind, means, extra):
    model, params, rng = machine(kind)
    n, seed = 70, 11
    start = model.new_chains(n, rng)
    order, options = model.order, {"means": means}
    if extra == "large":
        params[: model.n_units : 2] = 90.0  # more than 115 as a power of two
    elif extra == "clamped":
        options["clamped"] = (rng.random(start.shape) < 0.3).astype(np.uint8)
    elif extra == "offsets":
        options["offsets"] = rng.normal(size=start.shape).astype(np.float32)
        options["scales"] = (0.25, 0.75)
    elif extra == "hidden only":
        order = model.hidden_order
    states = start.copy()
    model.sweep(params, states, 3, seed, order, **options)
    expected, nearest = reference_sweeps(
        model, params, start, 3, seed, order, **options
    )
    if not means:
        # Otherwise a rounding could turn a draw, and the comparison would be void.
        assert nearest > 1e-6
    np.testing.assert_allclose(states, expected, atol=2e-6)


@pytest.mark.parametrize("kind", ["grid", "dense", "complete"])
def test_conditional_means(kind):
    model, params, rng = machine(kind)
    states = model.new_chains(40, rng)
    fields = dense_weights(model, params) @ states + params[: model.n_units, None]
    expected = 1 / (1 + np.exp(-fields))
    found = model.conditional_means(params, states)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    clamped = (rng.random(states.shape) < 0.5).astype(np.uint8)
    found = model.conditional_means(params, states, model.hidden_order, clamped)
    kept = (clamped == 1) | ~model.is_hidden[:, None]
    np.testing.assert_allclose(found, np.where(kept, states, expected), atol=1e-6)


@pytest.mark.parametrize("kind", ["dense", "complete"])
@pytest.mark.parametrize("share", [None, "clamped"])
def test_mean_statistics(share, kind):
    model, params, rng = machine(kind)
    states = model.new_chains(600, rng)
    means = rng.random(states.shape, np.float32)
    share = None if share is None else model.clamped_share
    w = 0.5 if share is None else share[:, None]
    a, b = model.first, model.second
    products = w * means[a] * states[b] + (1 - w) * states[a] * means[b]
    expected = np.concatenate([means.mean(axis=1), products.mean(axis=1)])
    found = model.mean_statistics(states, means, share)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_log_potentials():
    model, params, rng = machine("dense")
    states = model.new_chains(300, rng)
    products = states[model.first] * states[model.second]
    expected = params @ np.concatenate([states, products])
    np.testing.assert_allclose(model.log_potentials(params, states), expected)


@pytest.mark.parametrize("kind", ["grid", "complete"])
def test_nothing_depends_on_threads(kind):
    results = []
    for n_jobs in (1, 2, 3):
        model, params, rng = machine(kind)
        model.n_jobs = n_jobs
        chains = model.new_chains(1000, rng)
        moments = model.gibbs(params, chains, 3, 5)
        results.append((moments.values, moments.chains))
    for values, chains in results[1:]:
        np.testing.assert_array_equal(values, results[0][0])
        np.testing.assert_array_equal(chains, results[0][1])


@pytest.mark.parametrize("kind", ["grid", "complete"])
@pytest.mark.parametrize("n", [3, 70, 1000])
def test_states_as_bits_or_floats(kind, n):
    """Few chains and states between 0 and 1 take another way to the same draws."""
    model, params, rng = machine(kind)
    start = model.new_chains(n, rng)
    states = start.copy()
    model.sweep(params, states, 5, 3)
    expected, nearest = reference_sweeps(model, params, start, 5, 3, model.order)
    assert nearest > 1e-6
    np.testing.assert_array_equal(states, expected)
    held = model.visible[0]
    start[held] = 0.25
    order = model.order[model.order != held]
    states = start.copy()
    model.sweep(params, states, 5, 3, order)
    expected, nearest = reference_sweeps(model, params, start, 5, 3, order)
    assert nearest > 1e-6
    np.testing.assert_array_equal(states, expected)
    start[order[:5]] = 0.25
    states = start.copy()
    model.sweep(params, states, 2, 3, order)
    expected, nearest = reference_sweeps(model, params, start, 2, 3, order)
    assert nearest > 1e-6
    np.testing.assert_array_equal(states, expected)


@pytest.mark.parametrize("n_drawn", [0, 1, 33, 70])
def test_some_units_of_a_complete_graph(n_drawn):
    model, params, rng = machine("complete")
    start = model.new_chains(45, rng)
    order = rng.permutation(model.n_units)[:n_drawn]
    states = start.copy()
    model.sweep(params, states, 4, 5, order)
    expected, nearest = reference_sweeps(model, params, start, 4, 5, order)
    assert nearest > 1e-6
    np.testing.assert_array_equal(states, expected)


def test_draws_of_probabilities_that_differ_in_their_last_bits():
    # Of units without neighbours: less than, about and more than whole bytes.
    p = np.array([0.08, 127.6, 128.0, 128.6, 179.6, 255.92]) / 256
    graph = Graph(np.zeros((len(p), len(p))))
    model, n = GraphMachine(graph, []), 2_000_000
    states = np.zeros((len(p), n), np.float32)
    model.sweep(np.log(p / (1 - p)), states, 1, 17)
    errors = np.sqrt(p * (1 - p) / n)
    found = states.mean(axis=1, dtype=np.float64)
    assert (np.abs(found - p) < 4 * errors).all()
    # First bytes alone would be seen.
    seen = np.abs(found - np.floor(256 * p) / 256) > 4.5 * errors
    np.testing.assert_array_equal(seen, p != 0.5)


@pytest.mark.parametrize("kind", ["grid", "complete"])
def test_chains_have_their_exact_means(kind):
    rng = np.random.default_rng(4)
    graph = grid_graph(3, 4) if kind == "grid" else np.ones((12, 12)) - np.eye(12)
    model = GraphMachine(Graph(graph), [])
    model.sweeps.is_dense = kind == "complete"
    params = rng.normal(size=model.n_parameters)
    n = 100_000
    states = model.new_chains(n, rng)
    model.sweep(params, states, 60, 9)
    phi = np.concatenate([states, states[model.first] * states[model.second]])
    found, errors = phi.mean(axis=1), phi.std(axis=1) / np.sqrt(n)
    assert (np.abs(found - model.free_exact(params)[1]) < 4.5 * errors).all()
    params[3] += 0.1
    assert (np.abs(found - model.free_exact(params)[1]) > 6 * errors).any()


def test_bits():
    model, _, rng = machine("grid")
    chains = model.new_chains(9, rng)
    packed = model.pack(chains)
    assert packed.shape == (9, 3) and packed.dtype == np.uint8
    np.testing.assert_array_equal(model.unpack(packed), chains)
