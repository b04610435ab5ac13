"""Every solver with every sampler, against the closed-form estimate.

A noisy pair is judged by the mean of its error over several seeds, in standard errors
of that mean; wrong solvers and samplers have to fail the same judgement.
"""

import warnings

import numpy as np
import pytest

from sktem import StochasticEM
from sktem.models import RandomInterceptModel
from sktem.samplers import HMC, MALA, SAMPLERS, ULA, ExactDraws, RandomWalk
from sktem.solvers import FITTEM, ISAEM, SOLVERS, VRTTEM
from tests.oracles import (
    START,
    closed_form_mle,
    random_intercept_data,
    standard_errors,
    student_limit,
    ula_fixed_point,
)
from tests.samplers.wrong import StaleDensity, StaleGradient

#: All solvers are given the same settings, one sampler accepts everything, and ULA is
#: judged by the bias that its long step has here.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*no effect", "ignore:.* accepted 100", "ignore:An accept test would have"
)

X = random_intercept_data(7, n_rows=200)
MLE = closed_form_mle(X)
N_SEEDS = 12
LIMIT = student_limit(N_SEEDS)

ULA_STEP = 0.1
CONFIGURED = {
    "mc": "mc",
    "rwm": RandomWalk(scale=0.8, n_steps=2),
    "mala": MALA(step=0.08, n_steps=2),
    "ula": ULA(step=ULA_STEP, n_steps=2),
    "hmc": HMC(step=0.3, n_leapfrog=2),
}
NOISY = [
    (solver, sampler)
    for solver, (_, implied, _) in SOLVERS.items()
    for sampler in (CONFIGURED if implied is None else [implied])
    if sampler != "exact" and solver != "mcem"
]
EXACT = ["em", "squarem", "daarem", "iem", "saem", "isaem", "vrttem", "fittem"]


class Model(RandomInterceptModel):
    """Starts away from the answer; chains start away from the posterior."""

    def initial_params(self, X, rng):
        return START

    def initial_latents(self, X, params, rng):
        return X.mean(axis=1, keepdims=True) + 0.5


@pytest.fixture
def unmonitored(monkeypatch):
    """Monitoring takes half of the time here, and no part in the estimate."""
    nothing = (float("nan"), float("nan"))
    monkeypatch.setattr("sktem.loop.monitor.Monitor.measure", lambda *args: nothing)


def estimates(solver, sampler, seed, **options):
    """Return the estimates of several seeds."""
    options = {"batch_size": 50, "max_iter": 24, "average": 5, "tol": 0, **options}
    sampler = ExactDraws(n_draws=3) if sampler == "mc" else sampler
    em = StochasticEM(Model(), solver=solver, sampler=sampler, **options)
    seeds = range(100 * seed, 100 * seed + N_SEEDS)
    return np.array([em.set_params(random_state=s).fit(X).params_ for s in seeds])


def test_all_names_are_covered():
    assert {s for s, _ in NOISY} | set(EXACT) | {"mcem", "online"} == set(SOLVERS)
    assert {*CONFIGURED, "exact"} == set(SAMPLERS)


@pytest.mark.parametrize("sampling", ["fixed", "shuffle", "inclusion"])
@pytest.mark.parametrize("solver", EXACT)
def test_exact_expectations_give_the_exact_estimate(solver, sampling):
    em = StochasticEM(
        RandomInterceptModel(),
        solver=solver,
        sampler="exact",
        batch_size=15,
        sampling=sampling,
        max_iter=60,
        tol=0,
        random_state=0,
    ).fit(X)
    np.testing.assert_allclose(em.params_, MLE, rtol=1e-8)
    assert em.history_.mean_field[-1] < 1e-14


@pytest.mark.parametrize("solver, sampler", NOISY)
def test_noisy_pairs_find_the_estimate(
    solver, sampler, unmonitored, global_random_seed
):
    sampler = CONFIGURED[sampler]
    if isinstance(sampler, ULA):
        expected = ula_fixed_point(X, ULA_STEP)  # biased by a known amount
    else:
        expected = MLE
    found = estimates(solver, sampler, global_random_seed)
    assert standard_errors(found, expected).max() < LIMIT
    # A judgement by noise alone would pass anything noisy enough.
    assert found.std(axis=0).max() < 0.05
    if isinstance(sampler, ULA):
        assert standard_errors(found, MLE).max() > LIMIT


def test_online_with_exact_expectations(unmonitored, global_random_seed):
    found = estimates("online", "exact", global_random_seed)
    assert standard_errors(found, MLE).max() < LIMIT
    assert found.std(axis=0).max() < 0.05


def test_mcem(unmonitored, global_random_seed):
    """Step 1 keeps the noise; the average over epochs takes it out."""
    found = estimates("mcem", "mc", global_random_seed)
    assert standard_errors(found, MLE).max() < LIMIT


# ------------------------------------------------------------- what has to be found


class NoShare(ISAEM):
    """Lets a change of a batch count as if it were one of all rows."""

    def proxy(self, state, expectation, batches, params):
        before = state.own.mean
        after = super().proxy(state, expectation, batches, params)
        state.own.mean = before + (after - before) * 4
        return state.own.mean


class StaleAnchor(VRTTEM):
    """Takes new parameters for its anchor, and keeps the old mean."""

    def refresh(self, state, expectation, params):
        before = state.own
        super().refresh(state, expectation, params)
        state.own.mean = state.own.mean if before is None else before.mean


class ForgetsTheMean(FITTEM):
    """Updates the table and not its mean."""

    def proxy(self, state, expectation, batches, params):
        before = state.own.mean
        proxy = super().proxy(state, expectation, batches, params)
        state.own.mean = before
        return proxy


class AcceptsWhatIsPulled(RandomWalk):
    """Accepts every move, and is drawn to the data lest it run away."""

    def _transition(self, model, X, state, params, generators, move):
        Z, log_joint = state
        noise = generators.sampling.standard_normal(Z.shape)
        pull = 0.3 * (X.mean(axis=1, keepdims=True) - Z)
        return (Z + pull + self.scale * noise, log_joint), np.ones(len(Z), bool), {}


@pytest.mark.parametrize(
    "solver, sampler",
    [
        (ForgetsTheMean(), "mc"),
        ("saem", AcceptsWhatIsPulled(scale=0.4)),
        ("saem", StaleDensity(scale=0.8, n_steps=12)),
        ("saem", StaleGradient(step=0.15, n_steps=4)),
        ("saem", ULA(step=0.1)),
    ],
    ids=lambda part: part if isinstance(part, str) else type(part).__name__,
)
def test_wrong_parts_are_found(solver, sampler, unmonitored, global_random_seed):
    found = estimates(solver, sampler, global_random_seed)
    assert standard_errors(found, MLE).max() > LIMIT


@pytest.mark.parametrize("solver", [NoShare(), StaleAnchor()], ids=str)
def test_wrong_recursions_are_found_without_noise(solver):
    em = StochasticEM(
        RandomInterceptModel(), solver=solver, batch_size=15, max_iter=60, tol=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may tell that something is wrong
        found = em.set_params(random_state=0).fit(X).params_
    assert not np.abs(np.subtract(found, MLE)).max() < 1e-4


# ------------------------------------------------------------------- biased sampling


def test_the_bias_of_ula_shrinks_with_its_step(unmonitored, global_random_seed):
    bias = []
    for step in (0.1, 0.03):
        sampler = ULA(step=step, n_steps=5)
        found = estimates("biased-saem", sampler, global_random_seed)
        assert standard_errors(found, ula_fixed_point(X, step)).max() < LIMIT
        bias.append(np.abs(found.mean(axis=0) - MLE).max())
    assert bias[0] > 2 * bias[1]
    adjusted = estimates("saem", MALA(step=0.1, n_steps=5), global_random_seed)
    assert np.abs(adjusted.mean(axis=0) - MLE).max() < bias[0] / 3
