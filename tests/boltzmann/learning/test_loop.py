"""The contrastive loop against Algorithm 1 written out."""

import numpy as np
import pytest

from sktem.boltzmann.learning.e_steps import (
    ExactPosterior,
    GibbsPosterior,
    HybridPosterior,
    MeanFieldPosterior,
    posterior_start,
)
from sktem.boltzmann.learning.loop import ContrastiveEpochs
from sktem.boltzmann.learning.prior import Prior
from sktem.boltzmann.learning.rounds import Reference, RoundPolicy, Rounds
from sktem.boltzmann.learning.solvers import CONTRASTIVE_SOLVERS, StepRule
from sktem.boltzmann.learning.state import ContrastiveSettings, ContrastiveState
from sktem.boltzmann.machines.graph_machine import GraphMachine
from sktem.boltzmann.machines.model import Moments, draw_seed
from sktem.e_step.random import spawn_generators
from sktem.evaluation import enumerate_moments
from sktem.graphs import Graph, grid_graph
from sktem.loop import runner

MODEL = GraphMachine(Graph(grid_graph(2, 3)), np.array([1, 4]))
X = (np.random.default_rng(0).random((30, 4)) < 0.5).astype(np.float64)


def settings(solver="apcd", posterior=None, **changes):
    values = dict(
        model=MODEL,
        solver=CONTRASTIVE_SOLVERS[solver],
        posterior=GibbsPosterior(4) if posterior is None else posterior,
        step_size_e=StepRule((1.0, 0.2), "step_size_e", 1.0),
        step_size_m=StepRule((0.2, 0.1), "step_size_m", np.inf),
        batch_size=10,
        n_epochs=3,
        by_cost=False,
        n_chains=20,
        n_chains_e=1,
        n_replicas=1,
        n_gibbs_e=4,
        n_gibbs_m=2,
        momentum=0.0,
        prior=Prior(0.0),
        adaptive=False,
        tol=None,
        centering=False,
        averaging=False,
        rao_blackwell=True,
        binarize=False,
    )
    return ContrastiveSettings(**{**values, **changes})


def run_epochs(settings, X, state, on_epoch=None, watch=None):
    runner.run_epochs(ContrastiveEpochs(settings, X, state, watch), state, on_epoch)


def start(seed=0):
    params = np.random.default_rng(1).normal(size=MODEL.n_parameters)
    return ContrastiveState(params, spawn_generators(seed))


@pytest.mark.parametrize(
    "momentum, decay, centering",
    [(0.0, 0.0, False), (0.5, 0.1, False), (0.5, 0.1, True)],
)
def test_algorithm_1(momentum, decay, centering):
    """E.1 with one chain per row, E.2 and E.3 with a common a_t, M.1 and M.2."""
    state = start()
    options = dict(momentum=momentum, prior=Prior(decay), centering=centering)
    # So that nine updates see both ends of the moving average.
    run_epochs(settings(**options, centre_rate=0.25), X, state)

    theta, generators = start().params, spawn_generators(0)
    rng = generators.sampling
    hidden, model_chains, mu, velocity = {}, None, None, 0.0
    centre, n_updates = np.zeros(MODEL.n_units), 0
    a, b = [1.0, 0.6, 0.2], [0.2, 0.15, 0.1]
    for epoch in range(3):
        order = generators.indices.permutation(30)
        for rows in np.split(order, 3):
            if rows[0] in hidden:
                chains = np.stack([hidden[row] for row in rows], axis=1)
            else:
                chains = posterior_start(MODEL, theta, X[rows], None, rng)
            visible = X[rows].astype(np.float32)
            phi = MODEL.gibbs(theta, chains, 4, draw_seed(rng), visible)
            for column, row in enumerate(rows):
                hidden[row] = phi.chains[:, column].copy()
            mu = phi.values if mu is None else mu + a[epoch] * (phi.values - mu)
            if model_chains is None:
                model_chains = MODEL.new_chains(20, rng)
            negative = MODEL.gibbs(theta, model_chains, 2, draw_seed(rng))
            gradient = mu - negative.values
            gradient[MODEL.n_units :] -= decay * theta[MODEL.n_units :]
            n_updates += 1
            share = max(1 / n_updates, 0.25)
            centre = (1 - share) * centre + share * phi.values[: MODEL.n_units]
            if centering:
                MODEL.centred(gradient, centre)
            velocity = momentum * velocity + b[epoch] * gradient
            theta = theta + velocity
    np.testing.assert_allclose(state.params, theta, rtol=1e-12)


def turned(params):
    """Return the parameters of the same machine with 0 and 1 exchanged."""
    graph, n = MODEL.graph, MODEL.n_units
    out = params.copy()
    out[:n] = -params[:n]
    np.subtract.at(out, graph.first, params[n:])
    np.subtract.at(out, graph.second, params[n:])
    return out


@pytest.mark.parametrize("centering", [True, False])
def test_centred_updates_do_not_depend_on_what_is_called_one(centering, monkeypatch):
    """All expectations are exact, so that a run has nothing of chance but the rows."""

    def exact(params, chains, n_sweeps, seed, rao_blackwell=True):
        n = MODEL.n_units
        _, units, edges = enumerate_moments(MODEL.graph, params[:n], params[n:])
        return Moments(np.concatenate([units, edges]), chains)

    monkeypatch.setattr(MODEL, "gibbs", exact)
    run = settings("pcd", ExactPosterior(), centering=centering)
    one, two = start(), start()
    two.params = turned(two.params)
    run_epochs(run, X, one)
    run_epochs(run, 1 - X, two)
    far = np.abs(turned(one.params) - two.params).max()
    assert np.abs(one.params - start().params).max() > 0.05
    assert far < 1e-6 if centering else far > 1e-2


def test_pcd_is_apcd_without_averaging():
    ones = StepRule(1.0, "step_size_e", 1.0)
    one, two = start(), start()
    run_epochs(settings("pcd"), X, one)
    run_epochs(settings("apcd", step_size_e=ones), X, two)
    np.testing.assert_allclose(one.params, two.params, rtol=1e-12)


def test_the_hybrid_begins_with_mean_field_and_ends_with_gibbs():
    hybrid = HybridPosterior(MeanFieldPosterior(5), GibbsPosterior(4))
    rng = np.random.default_rng(0)
    params = start().params
    chains = posterior_start(MODEL, params, X, None, rng)
    visible = X.astype(np.float32)

    def expect(posterior, progress):
        batch = (MODEL, params, visible, None, chains.copy())
        return posterior.expect(*batch, np.random.default_rng(3), progress).values

    mean_field, gibbs = (expect(p, 0) for p in (hybrid.mean_field, hybrid.gibbs))
    assert np.abs(mean_field - gibbs).max() > 1e-3
    np.testing.assert_array_equal(expect(hybrid, 0.3), mean_field)
    np.testing.assert_array_equal(expect(hybrid, 0.5), mean_field)
    mixture = 0.5 * (mean_field + gibbs)
    np.testing.assert_allclose(expect(hybrid, 0.75), mixture, rtol=1e-12)
    np.testing.assert_array_equal(expect(hybrid, 1.0), gibbs)


def test_the_hybrid_is_one_over_the_whole_run_whatever_its_rounds():
    """Section 4.2 of the paper: mean field in the first half of the training."""
    hybrid = HybridPosterior(MeanFieldPosterior(5), GibbsPosterior(1))
    rows, runs = np.tile(X, (14, 1))[:400], {}
    for solver, posterior in (("hapcd", hybrid), ("apcd", hybrid.gibbs)):
        run = settings(
            solver, posterior, adaptive=True, tol=0.02, momentum=0.9, n_epochs=240,
            batch_size=100, n_gibbs_m=1,
        )  # fmt: skip
        state, progress = start(), []
        policy = RoundPolicy(first_updates=25, fewest=20)
        state.rounds = Rounds(policy, seed=0, started_further=True)
        watch = Watch(-3.0, -2.5, -2.499, -2.498, -2.497)
        run_epochs(
            run,
            rows,
            state,
            lambda s, p=progress: p.append(s.rounds.run_fraction),
            watch,
        )
        runs[solver] = progress
        assert state.converged
    # Rounds end at 6, 24, 78 and 240 epochs; expectations of the first half are biased.
    np.testing.assert_allclose(runs["hapcd"], np.arange(1, 241) / 240)
    assert len(runs["apcd"]) == 24


def test_what_is_remembered_of_a_row_is_bits():
    state = start()
    run_epochs(settings(n_chains_e=3), X, state)
    assert state.row_chains.packed.dtype == np.uint8
    assert state.row_chains.packed.shape == (30, 3, 1)
    exact = start()
    run_epochs(settings(posterior=ExactPosterior()), X, exact)
    assert exact.row_chains.packed is None


def test_a_run_in_two_parts():
    whole, parts = start(), start()
    run_epochs(settings(), X, whole)
    run_epochs(settings(), X, parts, on_epoch=lambda state: True)
    assert parts.epoch == 1
    run_epochs(settings(), X, parts)
    np.testing.assert_array_equal(whole.params, parts.params)
    assert len(whole.history) == len(parts.history) == 3


def statistics(states):
    """Return phi of each chain, (n_chains, n_parameters)."""
    graph = MODEL.graph
    return np.concatenate([states, states[graph.first] * states[graph.second]]).T


def test_the_algorithm_as_printed():
    """Every row has a mean of its own, mu^n, that moves when the row is visited."""
    state = start()
    draws = dict(posterior=GibbsPosterior(4, False), rao_blackwell=False)
    run_epochs(settings(batch_size=30, **draws), X, state)

    theta, generators = start().params, spawn_generators(0)
    rng = generators.sampling
    chains_of, mu, model_chains = {}, {}, None
    for a, b in ((1.0, 0.2), (0.6, 0.15), (0.2, 0.1)):
        order = generators.indices.permutation(30)
        visible = X[order].astype(np.float32)
        if chains_of:
            chains = np.stack([chains_of[row] for row in order], axis=1)
        else:
            chains = posterior_start(MODEL, theta, X[order], None, rng)
        drawn = MODEL.gibbs(theta, chains, 4, draw_seed(rng), visible)
        for row, column, phi in zip(
            order, drawn.chains.T, statistics(drawn.chains), strict=True
        ):
            chains_of[row] = column.copy()
            mu[row] = phi if row not in mu else mu[row] + a * (phi - mu[row])
        if model_chains is None:
            model_chains = MODEL.new_chains(20, rng)
        model_chains = MODEL.gibbs(theta, model_chains, 2, draw_seed(rng)).chains
        positive = np.mean([mu[row] for row in range(30)], axis=0)
        theta = theta + b * (positive - statistics(model_chains).mean(axis=0))
    np.testing.assert_allclose(state.params, theta, rtol=1e-6)
    # Of expectations in the place of draws it would not be the same.
    other = start()
    run_epochs(settings(batch_size=30), X, other)
    assert np.abs(other.params - theta).max() > 1e-3


class Watch:
    """Returns prepared likelihoods."""

    reference = Reference(-3.0, tol=0.02, n_visible=4)
    is_exact = False
    ascent = value_of_start = left_out = by_row = of_learned = None

    def __init__(self, *values):
        self.values = list(values)

    def measure(self, params, number, n_updates=0, chains=None):
        return self.values.pop(0), 0.0


def test_a_round_that_loses_likelihood_is_taken_back():
    """Of a tenth of their usual updates: rounds of 6, 18, 54 and 162 epochs."""
    policy = RoundPolicy(first_updates=25, fewest=300)
    run = settings(
        "pcd", ExactPosterior(), adaptive=True, tol=0.02, momentum=0.9, n_epochs=240,
        batch_size=100,
    )  # fmt: skip
    rows, ends = np.tile(X, (14, 1))[:400], []

    def on_epoch(state):
        if state.epoch in (6, 24, 78):
            ends.append((state.rounds.shortened, state.params.copy()))

    state = start()
    state.rounds = Rounds(policy, seed=0)
    run_epochs(run, rows, state, on_epoch, Watch(-3.0, -2.5, -2.8, -2.4, -2.395))
    (first, best), (second, taken_back), (third, _) = ends
    assert (first, second, third) == (1.0, 0.3, 0.3)
    np.testing.assert_array_equal(best, taken_back)
    assert state.converged
    assert state.history.objective[-1] == -2.395
    fallen = start()
    fallen.rounds = Rounds(policy, seed=0)
    run_epochs(run, rows, fallen, None, Watch(-3.0, -4.0, -5.0, -6.0, -7.0))
    assert not fallen.converged
    np.testing.assert_array_equal(fallen.params, start().params)
