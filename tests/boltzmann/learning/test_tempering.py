"""Parallel tempering: the law of the chains, and their way between modes."""

import numpy as np
import pytest
from scipy.special import logsumexp

from sktem import LatentBoltzmannMachine
from sktem.boltzmann.learning.tempering import Replicas
from sktem.evaluation import enumerate_states
from sktem.graphs import Graph, grid_graph
from tests.boltzmann.normalisation.test_ais import KINDS, problem
from tests.boltzmann.test_exact_answers import KINDS as SMALL
from tests.boltzmann.test_exact_answers import close, fitted


@pytest.mark.parametrize("kind", KINDS)
def test_densities_of_chains_sum_to_the_partition_function(kind):
    model, params, exact = problem(kind)
    n = model.layout.n_odd if hasattr(model, "layout") else model.n_units
    states = enumerate_states(n).astype(np.float32)
    chains = states if hasattr(model, "layout") else np.ascontiguousarray(states.T)
    found = logsumexp(model.log_densities(params, chains))
    assert found == pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize("kind", ["restricted", "deep", "gaussian"])
def test_densities_of_chains_given_rows_sum_to_those_of_the_rows(kind):
    model, params, exact = problem(kind)
    chains = enumerate_states(model.layout.n_odd).astype(np.float32)

    def log_sum(row, observed):
        X = np.tile(row, (len(chains), 1)).astype(np.float32)
        seen = None if observed is None else np.tile(observed, (len(chains), 1))
        return logsumexp(model.log_densities(params, chains, X, seen))

    row = np.array([1.0, 0, 1, 1, 0, 1, 0])[: model.n_visible]
    if kind == "gaussian":
        row = np.array([0.3, -2.0, 1.5, 0.7])
        values = np.linspace(-12, 12, 961)[:, None]
        weight = np.log(values[1, 0] - values[0, 0])
    else:
        values, weight = np.array([[0.0], [1.0]]), 0.0
    seen = np.arange(model.n_visible) != 1
    of_rows = np.where(seen, row, values)
    expected = logsumexp(model.log_unnormalised(params, of_rows)) + weight
    assert log_sum(row, seen) == pytest.approx(expected, abs=1e-4)
    everything = model.log_unnormalised(params, row[None, :])[0]
    assert log_sum(row, None) == pytest.approx(everything, abs=1e-4)
    assert log_sum(row, np.zeros(len(row), bool)) == pytest.approx(exact, abs=1e-4)
    assert abs(log_sum(row, seen) - everything) > 1e-2


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


@pytest.mark.parametrize("kind", SMALL)
def test_the_law_of_chains_given_a_part(kind):
    machine, states, mass = fitted(kind, scale=1.0)
    machine.set_params(n_replicas=4)
    row = np.array([1.0, np.nan, np.nan, 0.0, np.nan, np.nan])
    seen = ~np.isnan(row)
    conditional = mass * (states[:, seen] == row[seen]).all(axis=1)
    conditional /= conditional.sum()
    rows = np.tile(row, (2000, 1))
    draws = machine.sample_conditional(rows, n_steps=30)
    assert (draws[:, seen] == row[seen]).all()
    assert close(draws, states, conditional)
    assert not close(np.where(seen, draws, 1 - draws), states, conditional)
    means = machine.impute(rows[:500], n_steps=30).mean(axis=0)
    exact = conditional @ states
    exact = np.clip(exact, 0.0, 1.0)  # sums of shares round beyond
    error = np.sqrt(exact * (1 - exact) / 500)  # of draws; means have less
    assert (np.abs(means - exact) < 4.5 * error + 1e-6).all()


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


def test_modes_given_a_part_are_visited_in_their_proportions():
    """Three units of a corner are off, and a field is for all units to be on."""
    machine = ising(6, 0.8, 0.06)
    row = np.full(36, np.nan)
    row[[0, 1, 6]] = 0.0
    draws = machine.sample_conditional(np.tile(row, (20000, 1)))
    exact, mean = np.mean(draws.mean(axis=1) > 0.5), machine.impute(row[None, :]).mean()
    assert 0.1 < exact < 0.4
    rows = np.tile(row, (200, 1))
    error = np.sqrt(exact * (1 - exact) / 200)

    def scores(n_replicas):
        machine.set_params(n_replicas=n_replicas)
        share = np.mean(machine.sample_conditional(rows, 150).mean(axis=1) > 0.5)
        # The mean over a chain is no noisier than a draw.
        filled = machine.impute(rows, 150, n_chains=1).mean()
        return abs(share - exact) / error, abs(filled - mean) / error

    assert max(scores(12)) < 4
    # Plain chains choose a mode as they start, and stay there.
    assert min(scores(1)) > 4


@pytest.mark.parametrize("kind", ["grid", "deep"])
def test_transitions_with_replicas(kind):
    machine, states, _ = fitted(kind, scale=1.0)
    row = states[37]
    rows = np.tile(row, (3000, 1))
    machine.set_params(n_gibbs_e=30)
    plain = machine.gibbs(rows).mean(axis=0)
    tempered = machine.set_params(n_replicas=4).gibbs(rows).mean(axis=0)
    error = np.sqrt(2 * (plain * (1 - plain) + 1e-4) / 3000)
    assert (np.abs(tempered - plain) < 4.5 * error).all()
    other = machine.gibbs(np.tile(1 - row, (3000, 1))).mean(axis=0)
    assert (np.abs(other - plain) > 4.5 * error).any()


def test_replicas_move_at_every_update():
    """Also where an update has one transition only."""
    machine, _, _ = fitted("visible grid", scale=1.0)
    X = machine.sample(200)
    options = {"graph": grid_graph(2, 3), "n_gibbs_m": 1, "max_iter": 2, "tol": None}
    options |= {"step_size_m": 0.1, "random_state": 0}
    params = [
        LatentBoltzmannMachine(**options, n_replicas=k).fit(X).params_ for k in (1, 3)
    ]
    assert (params[0] != params[1]).any()
    model = machine.fitted_.model
    rng = np.random.default_rng(0)
    replicas = Replicas.of(model, machine.params_, 3, 50, rng)
    cold = model.new_chains(50, rng)
    for _ in range(6):
        cold = replicas.move(model, machine.params_, cold, 1, rng)
    np.testing.assert_array_equal(replicas.n_tries, [150, 150])


def clustered():
    """A restricted machine that has learned three clusters of unequal size."""
    rng = np.random.default_rng(0)
    centres = np.repeat(np.eye(3), 8, axis=1)
    cluster = rng.choice(3, 600, p=[0.6, 0.3, 0.1])
    X = (rng.random((600, 24)) < 0.04 + 0.92 * centres[cluster]).astype(float)
    machine = LatentBoltzmannMachine(
        hidden_layer_sizes=6, weight_decay=1 / 600, random_state=0
    )
    return machine.fit(X), X, centres


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
        # A hundred steps were enough or too few for machines that differ by rounding.
        found = shares(machine.sample(100, n_steps=1000))
        return np.abs(found - exact) / np.sqrt(exact * (1 - exact) / 100)

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
