"""Layered machines with Gaussian, categorical and binary visible units."""

from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp

from sktem.boltzmann.machines.layer_sums import OddEnumeration
from sktem.boltzmann.machines.layered_machine import LayeredMachine
from sktem.boltzmann.normalisation.partition import exact_partition
from sktem.evaluation import (
    annealed_importance_sampling,
    bracket_log_partition,
    enumerate_states,
)

#: Hidden layers, Gaussian units, groups, binary units.
KINDS = {
    "categorical": ((3,), 0, (3, 4), 0),
    "all kinds": ((3,), 2, (3, 2), 2),
    "all kinds, deep": ((3, 2), 1, (3,), 1),
    "Gaussian and binary": ((2,), 1, (), 2),
}


def machine(kind, seed=0):
    hidden, n_normal, groups, n_binary = KINDS[kind]
    sizes = (n_normal + sum(groups) + n_binary, *hidden)
    model = LayeredMachine(sizes, n_normal, groups=groups)
    rng = np.random.default_rng(seed)
    params = rng.normal(0, 0.8, model.n_parameters)
    model.layout.precisions(params)[:] = rng.uniform(0.6, 2, n_normal)
    return model, params


def discrete_states(kind):
    """Return all states of the categorical and binary visible units."""
    _, _, groups, n_binary = KINDS[kind]
    parts = [list(np.eye(size)) for size in groups]
    parts += [[np.zeros(1), np.ones(1)]] * n_binary
    return np.array([np.concatenate(choice) for choice in product(*parts)])


def brute(kind, model, params):
    """Return hidden states, discrete visible ones, fields of Gaussian units and logs.

    The logarithms are of the unnormalised probability of hidden and discrete visible
    states, the Gaussian units integrated out.
    """
    layout, n = model.layout, model.layout.n_normal
    hidden = enumerate_states(model.n_hidden)
    discrete = discrete_states(kind)
    layers = np.split(hidden, np.cumsum(model.sizes[1:-1]), axis=1)
    W = layout.weights_between(params, 0)
    b = layout.layer_biases(params, 0)
    exponent = sum(
        part @ layout.layer_biases(params, k + 1) for k, part in enumerate(layers)
    )
    for k in range(len(layers) - 1):
        pairs = layout.weights_between(params, k + 1)
        exponent = exponent + np.einsum("ni,ij,nj->n", layers[k], pairs, layers[k + 1])
    fields = layers[0] @ W.T + b
    precisions = layout.precisions(params)
    normal = fields[:, :n] ** 2 / (2 * precisions)
    normal = (normal + 0.5 * np.log(2 * np.pi / precisions)).sum(axis=1)
    logs = (exponent + normal)[:, None] + fields[:, n:] @ discrete.T
    return hidden, discrete, fields[:, :n], logs


@pytest.mark.parametrize("kind", KINDS)
def test_log_partition_and_its_gradient(kind):
    model, params = machine(kind)
    exact = exact_partition(model)
    assert isinstance(exact, OddEnumeration)
    expected = logsumexp(brute(kind, model, params)[-1])
    assert exact.value(params) == pytest.approx(expected, abs=1e-10)
    log_partition, moments = model.free_exact(params)
    assert log_partition == pytest.approx(expected, abs=1e-10)
    np.testing.assert_allclose(exact.moments(params), moments)
    for k in range(model.n_parameters):
        side = 1e-5 * np.eye(model.n_parameters)[k]
        above, below = (exact.value(params + s * side) for s in (1, -1))
        assert moments[k] == pytest.approx((above - below) / 2e-5, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_unnormalised_likelihoods_and_bound(kind):
    model, params = machine(kind)
    _, discrete, fields, logs = brute(kind, model, params)
    n, rng = model.layout.n_normal, np.random.default_rng(1)
    for k in range(0, len(discrete), 3):
        normal = rng.normal(size=n)
        precisions = model.layout.precisions(params)
        # The integral over the Gaussian units goes, their density comes.
        inside = fields**2 / (2 * precisions) + 0.5 * np.log(2 * np.pi / precisions)
        density = fields @ normal - 0.5 * precisions @ normal**2
        expected = logsumexp(logs[:, k] - inside.sum(axis=1) + density)
        row = np.concatenate([normal, discrete[k]])[None]
        found = model.log_unnormalised(params, row)[0]
        assert found == pytest.approx(expected, abs=1e-9)
        unseen = np.ones(row.shape, bool)
        assert model.variational_bound(params, row, 30, unseen)[0] < found + 1e-9
    # Of nothing that is seen, the bound is one of log Z.
    unseen = np.zeros(row.shape, bool)
    bound = model.variational_bound(params, 0 * row, 200, unseen)[0]
    assert logsumexp(logs) - 1.5 < bound < logsumexp(logs)


@pytest.mark.parametrize("kind", KINDS)
def test_chains_and_draws(kind):
    model, params = machine(kind)
    rng = np.random.default_rng(2)
    exact = model.free_exact(params)[1]
    narrow = params.astype(np.float32)
    chains = model.new_chains(4000, rng)
    found = model.gibbs(narrow, chains, 100, np.uint64(3)).values
    assert np.abs(found - exact).max() < 0.08
    assert np.abs(model.independent(params) - exact).max() > 0.2
    drawn = exact_partition(model).draw(params, 20000, rng)
    rows = model.visible_draws(narrow, None, None, drawn, np.uint64(4))
    begin, block = model.layout.n_normal, model.layout.groups
    for size in block:
        assert (rows[:, begin : begin + size].sum(axis=1) == 1).all()
        begin += size
    means = model.layout.even_biases(exact)[: model.n_visible]
    error = rows.std(axis=0) / np.sqrt(len(rows))
    assert (np.abs(rows.mean(axis=0) - means) < 4.5 * error + 1e-12).all()


@pytest.mark.parametrize("kind", KINDS)
def test_annealed_importance_sampling(kind):
    model, params = machine(kind)
    narrow, rng = params.astype(np.float32), np.random.default_rng(0)
    exact = exact_partition(model).value(params)
    found = annealed_importance_sampling(model, narrow, rng, 200, 300)
    assert abs(found.value - exact) < 4.5 * found.standard_error
    chains = exact_partition(model).draw(params, 200, rng)
    bracket = bracket_log_partition(model, narrow, chains, rng, 200, 100)
    assert abs(bracket.value - exact) < 4.5 * bracket.standard_error


@pytest.mark.parametrize("kind", ["categorical", "all kinds", "all kinds, deep"])
def test_given_a_part(kind):
    model, params = machine(kind)
    _, discrete, _, logs = brute(kind, model, params)
    n, size = model.layout.n_normal, KINDS[kind][2][0]
    # The first group is seen, and nothing else.
    observed = np.zeros((1, model.n_visible), bool)
    observed[:, n : n + size] = True
    X = np.zeros((1, model.n_visible))
    X[0, n + 1] = 1.0
    exact = exact_partition(model)
    p = np.exp(logsumexp(logs, axis=0)) * discrete[:, 1]
    expected = p @ discrete / p.sum()
    means = exact.conditional(params, X, observed)
    np.testing.assert_allclose(means[0, n + size :], expected[size:], atol=1e-9)
    many, rng = 8000, np.random.default_rng(0)
    X, observed = np.repeat(X, many, axis=0), np.repeat(observed, many, axis=0)
    drawn = exact.conditional(params, X, observed, rng)[:, n + size :]
    if drawn.shape[1]:
        error = drawn.std(axis=0) / np.sqrt(many)
        assert (np.abs(drawn.mean(axis=0) - expected[size:]) < 4.5 * error).all()
    chains = model.new_chains(many, rng)
    narrow, X = params.astype(np.float32), X.astype(np.float32)
    chains = model.moved(narrow, chains, 100, np.uint64(5), X, observed)
    found = model.visible_means(narrow, X, observed, chains).mean(axis=0)
    unseen = ~observed[0]
    np.testing.assert_allclose(found[unseen], means[0, unseen], atol=0.04)
