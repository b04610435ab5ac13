"""What small machines answer exactly: draws, conditional draws, means, marginals."""

import numpy as np
import pytest
from scipy import sparse

from sktem import LatentBoltzmannMachine
from sktem.evaluation import enumerate_states
from sktem.graphs import Graph, grid_graph

KINDS = {
    "grid": {"graph": grid_graph(3, 3), "hidden": [1, 4, 8]},
    "visible grid": {"graph": grid_graph(2, 3)},
    "restricted": {"hidden_layer_sizes": 4},
    "deep": {"hidden_layer_sizes": (4, 2)},
}


def fitted(kind, scale=2.0):
    """Return a machine of six visible units with large parameters, and its law."""
    X = np.random.default_rng(0).integers(2, size=(30, 6)).astype(float)
    machine = LatentBoltzmannMachine(
        **KINDS[kind], random_state=0, max_iter=0, tol=None
    ).fit(X)
    rng = np.random.default_rng(1)
    params = machine.params_ + rng.normal(0, scale, machine.params_.shape)
    machine.params_ = params.astype(machine.params_.dtype)
    states = enumerate_states(6)
    return machine, states, np.exp(machine.score_samples(states))


def close(draws, states, mass):
    """Whether means and products of draws are those of a law, in standard errors."""
    for power in (states, states[:, :1] * states):
        exact = mass @ power
        found = (draws if power is states else draws[:, :1] * draws).mean(axis=0)
        error = np.sqrt(np.maximum(exact * (1 - exact), 0.0) / len(draws))
        if (np.abs(found - exact) > 4.5 * error + 1e-6).any():
            return False
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_draws(kind):
    machine, states, mass = fitted(kind)
    draws = machine.sample(20000)
    assert close(draws, states, mass)
    assert not close(1 - draws, states, mass)
    # No two chains: a column of draws is not correlated with the one before.
    assert abs(np.corrcoef(draws[1:, 0], draws[:-1, 0])[0, 1]) < 4.5 / np.sqrt(20000)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seen", [[0, 3, 4], [5], [], [0, 1, 2, 3, 4, 5]])
def test_draws_and_means_given_a_part(kind, seen):
    machine, states, mass = fitted(kind)
    row = np.full(6, np.nan)
    row[seen] = np.array([1.0, 0, 1, 1, 0, 1])[seen]
    agree = (states[:, seen] == row[seen]).all(axis=1)
    conditional = mass * agree / (mass @ agree)
    rows = np.tile(row, (5000, 1))
    draws = machine.sample_conditional(rows)
    assert (draws[:, seen] == row[seen]).all()
    assert close(draws, states, conditional)
    if len(seen) < 6:
        assert not close(
            np.where(np.isnan(rows), 1 - draws, draws), states, conditional
        )
    filled = machine.impute(rows[:3])
    np.testing.assert_allclose(filled, np.tile(conditional @ states, (3, 1)), atol=1e-5)


def test_rows_with_other_parts_missing():
    machine, states, mass = fitted("grid")
    rng = np.random.default_rng(2)
    rows = np.where(
        rng.random((40, 6)) < 0.5, np.nan, states[rng.integers(64, size=40)]
    )
    filled = machine.impute(rows)
    for row, found in zip(rows, filled, strict=True):
        seen = ~np.isnan(row)
        agree = (states[:, seen] == row[seen]).all(axis=1)
        exact = (mass * agree) @ states / (mass @ agree)
        np.testing.assert_allclose(found, exact, atol=1e-6)


def test_probabilities_and_given_steps_take_chains():
    """Values between 0 and 1 cannot be held; a number of steps asks for chains."""
    machine, _, _ = fitted("restricted", scale=0.5)
    row = np.array([[0.3, np.nan, 1, 0, 1, 0]])
    assert machine.impute(row)[0, 0] == pytest.approx(0.3, abs=1e-6)
    whole = np.array([[1, np.nan, 1, 0, 1, 0]])
    exact, chains = machine.impute(whole), machine.impute(whole, n_steps=500)
    assert exact[0, 1] != chains[0, 1]
    assert exact[0, 1] == pytest.approx(chains[0, 1], abs=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_marginals(kind):
    machine, states, mass = fitted(kind)
    units, pairs = machine.marginals()
    about, around = machine.marginals(n_steps=300)
    if "graph" in KINDS[kind]:
        graph = Graph(KINDS[kind]["graph"])
        is_visible = ~np.isin(np.arange(graph.n_units), KINDS[kind].get("hidden", []))
        np.testing.assert_allclose(units[is_visible], mass @ states, atol=1e-9)
        pairs, around = pairs.toarray(), around.toarray()
        visible = pairs[np.ix_(is_visible, is_visible)]
        products = (states * mass[:, None]).T @ states
        joined = visible > 0
        np.testing.assert_allclose(visible[joined], products[joined], atol=1e-9)
        assert joined.sum() == 2 * np.sum(
            is_visible[graph.first] & is_visible[graph.second]
        )
        assert sparse.issparse(machine.weights_)
        np.testing.assert_allclose(units, about, atol=0.1)
        np.testing.assert_allclose(pairs, around, atol=0.1)
        return
    np.testing.assert_allclose(units[0], mass @ states, atol=1e-5)
    hidden = machine.transform(states)[:, : pairs[0].shape[1]]
    np.testing.assert_allclose(units[1], mass @ hidden, atol=1e-5)
    np.testing.assert_allclose(pairs[0], (states * mass[:, None]).T @ hidden, atol=1e-5)
    for one, two in zip([*units, *pairs], [*about, *around], strict=True):
        np.testing.assert_allclose(one, two, atol=0.12)


def test_marginals_are_of_binary_units():
    X = np.random.default_rng(0).normal(size=(30, 3))
    machine = LatentBoltzmannMachine(
        hidden_layer_sizes=2, visible="gaussian", max_iter=0, tol=None
    ).fit(X)
    with pytest.raises(ValueError, match="marginals needs visible='binary'"):
        machine.marginals()
