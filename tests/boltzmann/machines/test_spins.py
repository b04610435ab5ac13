"""Machines of spins: the exponent is sum h_i s_i + sum J_ij s_i s_j."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp

from sktem import LatentBoltzmannMachine
from sktem.evaluation import enumerate_states
from sktem.graphs import Graph, grid_graph, layered_graph
from tests.boltzmann.test_estimator import chain_data

X = chain_data()
SPINS = 2 * X - 1
KINDS = {
    "grid": dict(graph=grid_graph(3, 3), hidden=[1, 4, 8]),
    "ising": dict(graph=grid_graph(2, 3)),
    "restricted": dict(hidden_layer_sizes=3),
    "deep": dict(hidden_layer_sizes=(3, 2)),
}
SIZES = {"restricted": (6, 3), "deep": (6, 3, 2)}


def fitted(kind, data=SPINS, visible="spin", **options):
    given = {"step_size_m": (0.3, 0.03), "max_iter": 10, "tol": None, **options}
    machine = LatentBoltzmannMachine(
        **KINDS[kind], **given, visible=visible, random_state=0
    )
    return machine.fit(data)


def enumerated(kind, machine):
    """Return states of all units, visible ones, and exponents, from h and J alone."""
    if kind in SIZES:
        h, graph = np.concatenate(machine.fields_), Graph(layered_graph(SIZES[kind]))
        J = np.concatenate([block.ravel() for block in machine.couplings_])
        visible = np.arange(6)
    else:
        h, dense = machine.fields_, machine.couplings_.toarray()
        graph = Graph(KINDS[kind]["graph"])
        J = dense[graph.first, graph.second]
        np.testing.assert_array_equal(dense, dense.T)
        visible = np.setdiff1d(np.arange(len(h)), KINDS[kind].get("hidden", []))
    states = 2 * enumerate_states(len(h)) - 1
    exponents = states @ h + (states[:, graph.first] * states[:, graph.second]) @ J
    return states, visible, exponents, graph


@pytest.mark.parametrize("kind", KINDS)
def test_fit_is_that_of_zeros_and_ones(kind):
    spin, binary = fitted(kind), fitted(kind, X, "binary")
    np.testing.assert_array_equal(spin.params_, binary.params_)
    assert spin.score(SPINS) == pytest.approx(binary.score(X), abs=1e-9)
    np.testing.assert_allclose(spin.transform(SPINS), 2 * binary.transform(X) - 1)
    np.testing.assert_array_equal(spin.sample(20), 2 * binary.sample(20) - 1)
    ours = spin.pseudo_log_likelihood(SPINS)
    np.testing.assert_allclose(ours, binary.pseudo_log_likelihood(X))


@pytest.mark.parametrize("kind", KINDS)
def test_answers_agree_with_enumeration(kind):
    machine = fitted(kind)
    states, visible, exponents, graph = enumerated(kind, machine)
    log_partition = logsumexp(exponents)
    assert machine.log_partition("exact").value == pytest.approx(log_partition)
    rows = 2 * enumerate_states(6) - 1
    places = ((states[:, visible] + 1) / 2) @ 2.0 ** np.arange(5, -1, -1)
    sums = [logsumexp(exponents[places == k]) for k in range(64)]
    given = machine.score_samples(rows, log_partition=log_partition)
    for found in (machine.score_samples(rows), given):
        np.testing.assert_allclose(found, np.array(sums) - log_partition, atol=2e-5)
    if kind != "deep" or machine.fitted_.model.has_exact_posterior:
        np.testing.assert_allclose(-machine.free_energy(rows), sums, atol=2e-5)
    p = np.exp(exponents - log_partition)
    units, pairs = machine.marginals()
    if kind in SIZES:
        units = np.concatenate(units)
        pairs = np.concatenate([block.ravel() for block in pairs])
    else:
        pairs = pairs.toarray()[graph.first, graph.second]
    np.testing.assert_allclose(units, p @ states, atol=1e-5)
    products = states[:, graph.first] * states[:, graph.second]
    np.testing.assert_allclose(pairs, p @ products, atol=1e-5)


def test_brackets_are_those_of_spins():
    machine = fitted("restricted")
    exact = machine.log_partition("exact").value
    bracket = machine.log_partition("bracket", n_temperatures=300)
    assert bracket.lower < exact < bracket.upper
    assert bracket.value == pytest.approx(exact, abs=5 * bracket.standard_error)
    binary = machine.set_params(visible="binary").fitted_.partition.find(
        machine.fitted_, None, "exact", 0
    )
    assert abs(binary.value - exact) > 1


def test_missing_spins():
    machine = fitted("ising")
    partly = SPINS[:5].copy()
    partly[:, 2:4] = np.nan
    drawn = machine.sample_conditional(partly)
    assert (np.abs(drawn) == 1).all()
    states, _, exponents, _ = enumerated("ising", machine)
    for row, found in zip(partly, machine.impute(partly), strict=True):
        seen = ~np.isnan(row)
        p = np.exp(exponents) * (states[:, seen] == row[seen]).all(axis=1)
        np.testing.assert_allclose(found, p @ states / p.sum(), atol=1e-6)
    fitted("restricted", partly)


def test_what_is_a_spin():
    for wrong in (X, 0.5 * SPINS, 2 * SPINS):
        with pytest.raises(ValueError, match="X must be -1 or 1"):
            fitted("ising", wrong)
    with pytest.raises(ValueError, match=r"\[-1, 1\]"):
        fitted("ising", 2 * SPINS, binarize="sample")
    with pytest.raises(TypeError, match="[Ss]parse"):
        fitted("ising", sparse.csr_array(SPINS))
    with pytest.raises(ValueError, match="visible='spin'"):
        fitted("ising", SPINS, "binary")
    threshold = fitted("ising", 3 * SPINS, binarize=0)
    np.testing.assert_array_equal(threshold.params_, fitted("ising").params_)
    means = np.full((500, 6), -0.5)
    found = fitted("ising", means, binarize="sample", max_iter=30).marginals()[0]
    assert np.abs(found + 0.5).max() < 0.1


def test_spins_of_a_stream_and_of_another_fit():
    machine = LatentBoltzmannMachine(
        hidden_layer_sizes=3, visible="spin", random_state=0
    ).partial_fit(SPINS)
    binary = LatentBoltzmannMachine(hidden_layer_sizes=3, random_state=0)
    np.testing.assert_array_equal(machine.params_, binary.partial_fit(X).params_)
    assert machine.couplings_[0].shape == (6, 3)
    machine.set_params(visible="binary", max_iter=1, tol=None).fit(X)
    assert not hasattr(machine, "fields_")
