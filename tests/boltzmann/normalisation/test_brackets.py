"""Importance sampling annealed from both ends against exact sums."""

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from sktem import LatentBoltzmannMachine
from sktem.boltzmann.machines.graph_machine import GraphMachine
from sktem.boltzmann.machines.layered_machine import LayeredMachine
from sktem.boltzmann.normalisation.partition import ExactPartition
from sktem.evaluation import (
    AISResult,
    PartitionBracket,
    bracket_log_partition,
    enumerate_states,
)
from sktem.exceptions import FitWarning
from sktem.graphs import Graph, grid_graph
from tests.boltzmann.normalisation.test_ais import KINDS, problem


@pytest.mark.parametrize("kind", KINDS)
def test_exact_draws_have_the_moments_of_the_machine(kind, global_random_seed):
    model, params, _ = problem(kind)
    graph, biases, weights, _ = model.as_graph(params)
    states = enumerate_states(graph.n_units)
    log_p = (
        states @ biases + (states[:, graph.first] * states[:, graph.second]) @ weights
    )
    p = np.exp(log_p - logsumexp(log_p))
    rng = np.random.default_rng(global_random_seed)
    n = 20000
    chains = ExactPartition(model).draw(params, n, rng)
    # Chains of layers are the odd ones; on a graph they are all units.
    chosen = np.arange(graph.n_units)
    if hasattr(model, "layout"):
        starts = np.cumsum([0, *model.sizes]) - (
            model.n_visible if model.gaussian else 0
        )
        odd = range(1, len(model.sizes), 2)
        chosen = np.concatenate([np.arange(starts[k], starts[k + 1]) for k in odd])
        chains = chains.T
    products = states[:, chosen, None] * states[:, None, chosen]
    exact = np.einsum("s,sij->ij", p, products)
    found = chains.astype(float) @ chains.T / n
    errors = np.sqrt(exact * (1 - exact) / n) + 1e-9
    scores = (found - exact) / errors
    assert np.abs(scores).max() < 5
    # Draws whose means are off by a hundredth would not pass.
    assert np.abs(scores + 0.03 / errors).max() > 5


def brackets(model, params, starts, n_temperatures, seeds):
    for seed in seeds:
        rng = np.random.default_rng(seed)
        chains = starts(rng)
        yield bracket_log_partition(model, params, chains, rng, 100, n_temperatures)


@pytest.mark.parametrize("kind", KINDS)
def test_errors_of_both_ends_are_right(kind):
    model, params, exact = problem(kind)
    draws = ExactPartition(model)
    found = list(
        brackets(model, params, lambda rng: draws.draw(params, 100, rng), 20, range(60))
    )
    estimates = {
        "reverse": [one.reverse for one in found],
        "both": found,
    }
    for results in estimates.values():
        scores = np.array([(r.value - exact) / r.standard_error for r in results])
        # Of 60 about 57 are within 2; at most 51 are so with a probability of 0.01.
        assert np.sum(np.abs(scores) < 2) >= 51
        assert abs(scores.mean()) < 0.6 and 0.7 < scores.std() < 1.4
        # Values that are three errors off, or errors of half the size, would not pass.
        assert np.sum(np.abs(scores + 3) < 2) < 51
        assert np.sum(np.abs(2 * scores) < 2) < 51
    inside = [one.lower < exact < one.upper for one in found]
    assert np.mean(inside) >= 0.9
    spread = np.std([one.value for one in found])
    assert spread < 1.1 * np.std([one.forward.value for one in found])


def two_modes(n=5, coupling=0.6, field=0.0):
    """An Ising model: nearly all units are on, or nearly all are off."""
    graph = Graph(grid_graph(n, n))
    model = GraphMachine(graph, np.array([], int))
    biases = 2 * field - 2 * coupling * graph.degrees()
    params = np.concatenate([biases, np.full(graph.n_edges, 4 * coupling)])
    return model, params, ExactPartition(model)


def test_brackets_hold_two_modes():
    model, params, draws = two_modes()
    exact = draws.value(params)
    found = list(
        brackets(
            model, params, lambda rng: draws.draw(params, 100, rng), 50, range(100)
        )
    )
    assert np.mean([one.lower < exact < one.upper for one in found]) >= 0.9
    sure = [one for one in found if not one.doubt]
    assert len(sure) >= 50
    errors = [abs(one.value - exact) / one.standard_error for one in sure]
    assert np.mean(np.array(errors) < 2) >= 0.9


def test_chains_in_one_mode_are_found_out():
    """Chains in the rarer mode; the share of forward runs that end there is another."""
    model, params, draws = two_modes(field=0.04)
    exact = draws.value(params)

    def errors_and_doubts(share_of_ones):
        def starts(rng):
            chains = draws.draw(params, 4000, rng)
            chosen = chains.mean(axis=0) < share_of_ones
            return np.ascontiguousarray(chains[:, chosen][:, :100])

        found = list(brackets(model, params, starts, 200, range(20)))
        errors = [
            (r.value - exact) / r.standard_error for r in (b.reverse for b in found)
        ]
        return np.abs(errors), np.mean(["missed a part" in one.doubt for one in found])

    errors, doubts = errors_and_doubts(0.5)
    assert np.mean(errors > 2) >= 0.9 and doubts >= 0.9
    errors, doubts = errors_and_doubts(1.1)
    assert np.mean(errors > 2) <= 0.2 and doubts <= 0.1


def test_too_few_temperatures_are_found_out():
    model, params, draws = two_modes()
    exact = draws.value(params)
    found = list(
        brackets(model, params, lambda rng: draws.draw(params, 100, rng), 3, range(20))
    )
    assert all("too short" in one.doubt for one in found)
    assert np.mean([one.lower < exact < one.upper for one in found]) >= 0.9


@pytest.mark.parametrize(
    ("sizes", "gap", "reason"),
    [
        ((3, 3), -0.25, "too short"),
        ((3, 3), -1.0, "too short"),
        ((90, 3), -0.25, "too short"),
        ((90, 90), -0.25, "wrong sides"),
        ((90, 90), -0.29, "wrong sides"),
        ((90, 90), -1.0, "trust the forward estimate"),
        ((90, 90), -0.1, ""),
        ((90, 90), 0.1, ""),
    ],
)
def test_ends_that_have_crossed(sizes, gap, reason):
    # Errors that few runs underestimate can leave nothing between the two ends.
    forward = AISResult(7.0, 0.01, sizes[0], 100, 1000)
    reverse = AISResult(7.0 + gap, 0.1, sizes[1], 100, 1000)
    found = PartitionBracket(7.0 + gap / 2, 0.05, forward, reverse)
    assert reason in found.doubt and bool(found.doubt) == bool(reason)
    assert found.lower < found.upper
    if reason:
        for one in (forward, reverse):
            assert found.lower < one.value < found.upper


@pytest.mark.parametrize(
    ("value", "doubted"), [(7.48, True), (6.8, True), (7.05, False), (7.35, False)]
)
def test_an_estimate_beyond_both_ends_is_doubted(value, doubted):
    """Forward runs and chains were in parts of the states that hardly overlap."""
    forward = AISResult(7.0, 0.04, 87, 100, 1000)
    reverse = AISResult(7.25, 0.1, 40, 100, 1000)
    found = PartitionBracket(value, 0.09, forward, reverse)
    assert bool(found.doubt) == doubted
    assert found.lower <= value <= found.upper


def test_same_seed_same_value():
    model, params, draws = two_modes(3)
    values = []
    for _ in range(2):
        rng = np.random.default_rng(0)
        chains = draws.draw(params, 20, rng)
        before = chains.copy()
        found = bracket_log_partition(model, params, chains, rng, 20, 20)
        np.testing.assert_array_equal(chains, before)
        values.append(found)
    assert values[0] == values[1] and values[0].reverse.n_temperatures == 20


def fully_joined(n=26, coupling=0.2, field=0.0):
    """A machine that no elimination sums, with two modes; and its log Z by counting."""
    X = np.random.default_rng(0).integers(2, size=(20, n)).astype(float)
    machine = LatentBoltzmannMachine(
        graph=1 - np.eye(n), max_iter=0, random_state=0, tol=None
    ).fit(X)
    weight, m = coupling, np.arange(n + 1)
    bias = field - weight * (n - 1) / 2
    machine.params_ = np.concatenate(
        [np.full(n, bias), np.full(n * (n - 1) // 2, weight)]
    )
    ways = gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m + 1)
    return machine, X, float(logsumexp(ways + bias * m + weight * m * (m - 1) / 2))


@pytest.mark.parametrize("method", ["ais", "bracket"])
def test_methods_of_an_estimator(method):
    machine, X, exact = fully_joined()
    machine.chains_ = np.repeat([[0.0, 1.0]], 26, axis=0).astype(np.float32)
    found = machine.log_partition(method, n_temperatures=200)
    assert abs(found.value - exact) < 4 * found.standard_error + 0.01
    score = machine.score(X, method=method)
    other = machine.log_partition_.value - exact
    assert score == pytest.approx(
        machine.score_samples(X, log_partition=exact).mean() - other
    )
    assert abs(other) < 4 * machine.log_partition_.standard_error + 0.01


def test_an_estimator_warns_of_chains_in_one_mode():
    machine, X, exact = fully_joined(coupling=0.5, field=0.12)
    machine.chains_ = np.zeros((26, 10), np.float32)
    with pytest.warns(FitWarning, match="missed a part"):
        found = machine.log_partition("bracket", n_temperatures=150)
    forward, reverse = found.forward, found.reverse
    assert reverse.value + 2 * reverse.standard_error < exact
    assert exact < forward.value + 4 * forward.standard_error
    # Bennett's estimate would be between the two.
    assert found.value == forward.value
    with pytest.warns(FitWarning, match="missed a part"):
        machine.score(X, method="bracket")


def test_states_that_runs_miss_bound_the_estimate():
    """One pattern of eighty units has nearly all of Z, and few runs come to it."""
    model, rng = LayeredMachine((80, 2)), np.random.default_rng(3)
    signs = rng.choice([-1.0, 1.0], 80)
    params = np.zeros(model.n_parameters, np.float32)
    model.layout.weights_between(params, 0)[:] = 6.0 * signs[:, None]
    free = [np.logaddexp(0, 12.0 * on * signs).sum() for on in (0, 1)]
    model.layout.odd_biases(params)[:] = (15.0 + free[0] - free[1]) / 2
    exact = ExactPartition(model).value(params)
    chains = ExactPartition(model).draw(params, 100, rng)
    chains[:25] = 0.0  # as of chains that have not mixed
    found = bracket_log_partition(model, params, chains, rng, 100, 3, "linear")
    # The negative control: both ends are low.
    for end in (found.forward, found.reverse):
        assert end.value + 1.5 < exact
    assert found.value == pytest.approx(exact, abs=1e-2)
    assert "missed states that chains" in found.doubt
    assert found.lower <= found.value <= found.upper
    # What other states have is a bound, and no more.
    others = bracket_log_partition(model, params, 0 * chains, rng, 100, 200)
    assert others.least < exact - 10 and "missed states" not in others.doubt


def test_methods_have_names():
    machine, X, _ = fully_joined()
    with pytest.raises(ValueError, match="did you mean 'bracket'"):
        machine.log_partition("brackets")
    with pytest.raises(ValueError, match="treewidth of the machine is too large"):
        machine.score(X, method="exact")


def test_verbose_runs_say_how_far_they_are(capsys):
    machine, X, _ = fully_joined()
    machine.set_params(verbose=1).log_partition("bracket", n_runs=5, n_temperatures=20)
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 20
    assert "Temperatures of annealed importance sampling: 2 of 20" in out[0]
    assert "Temperatures of reverse annealed importance sampling: 20 of 20" in out[-1]


def test_runs_from_one_end_that_miss_walls_are_found_out():
    """An Ising model in the cold: both ends are right where one is not, or doubted."""
    graph = Graph(grid_graph(10, 10))
    model = GraphMachine(graph, np.array([], int))
    params = np.concatenate([-1.4 * graph.degrees(), np.full(graph.n_edges, 2.8)])
    exact = ExactPartition(model)
    value, wrong = exact.value(params), 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        chains = exact.draw(params, 100, rng)
        found = bracket_log_partition(model, params, chains, rng, 100, 1000)
        forward = found.forward
        wrong += abs(forward.value - value) > 3 * forward.standard_error
        assert found.doubt or abs(found.value - value) < 4 * found.standard_error
    assert wrong > 0  # the negative control
