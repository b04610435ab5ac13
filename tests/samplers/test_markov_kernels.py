"""Markov kernels: one harness for all, with kernels that must fail it.

Rows are independent chains, so that standard errors need no autocorrelation: started
from exact draws of the target, a right kernel leaves the law as it is; started far
away, it comes to it.
"""

import numpy as np
import pytest

from sktem.e_step.random import spawn_generators
from sktem.models import RandomInterceptModel
from sktem.samplers import HMC, MALA, ULA, ComponentWalk, RandomWalk, positions
from sktem.samplers.base import accept_or_reject
from tests.oracles import (
    LIMIT,
    START,
    GaussianTarget,
    HalfNormalTarget,
    PoissonTarget,
    posterior_moments,
    random_intercept_data,
    standard_errors,
    ula_variance,
)
from tests.samplers.wrong import StaleDensity, StaleGradient

N_CHAINS = 4000


class InterceptTarget(RandomInterceptModel):
    """Posterior of the intercept of one subject, repeated."""

    dimension = 1
    row = random_intercept_data(0, n_rows=1)

    def initial_latents(self, X, params, rng):
        return np.full((len(X), 1), 6.0)

    def exact(self, rng, n):
        mean, variance = posterior_moments(self.row, START)
        return mean + np.sqrt(variance) * rng.standard_normal((n, 1))

    def moments(self):
        mean, variance = posterior_moments(self.row, START)
        return mean, np.array([variance])


TARGETS = {
    "intercept": (InterceptTarget(), START),
    "poisson": (PoissonTarget(), None),
    "half-normal": (HalfNormalTarget(), None),
    "gaussian": (GaussianTarget(), None),
}
# Scales and steps of the size of the targets; one number or one per coordinate.
KERNELS = {
    "rwm": RandomWalk(scale=0.7),
    "mala": MALA(step=0.05),
    "hmc": HMC(step=0.25, n_leapfrog=3),
    "walk": ComponentWalk(n_prior=0, scale=0.9),
    "rwm per coordinate": RandomWalk(scale=[0.9, 0.4]),
    "mala per coordinate": MALA(step=[0.2, 0.05]),
    "mala with Gamma per coordinate": MALA(
        step=0.3, preconditioner=GaussianTarget.covariance
    ),
    "hmc per coordinate": HMC(step=[0.6, 0.3], n_leapfrog=2),
}
PAIRS = [
    (kernel, target)
    for kernel in KERNELS
    for target in TARGETS
    if target == "gaussian" or "per coordinate" not in kernel
]


def rows_of(target, n_rows=N_CHAINS):
    return np.repeat(getattr(target, "row", np.zeros((1, 1))), n_rows, axis=0)


def moved(kernel, name, seed, *, n_steps, stationary=True, n_rows=N_CHAINS):
    """Return the chains after some transitions, one value per row and coordinate."""
    target, params = TARGETS[name]
    generators = spawn_generators(seed)
    X = rows_of(target, n_rows)
    if stationary:
        Z = target.exact(generators.initialisation, n_rows)[:, None, :]
    else:
        Z = kernel.start(target, X, params, generators.initialisation)
    kernel.set_params(n_steps=n_steps)
    Z, info = kernel.draw(target, X, Z, params, generators)
    return positions(Z)[:, 0], info


def off(Z, moments):
    """Return the largest error of mean and variance in standard errors."""
    mean, variance = moments
    centred = Z - mean
    expected = np.r_[np.zeros_like(mean), variance]
    return standard_errors(np.hstack([centred, centred**2]), expected).max()


@pytest.mark.parametrize("kernel, target", PAIRS)
def test_target_is_invariant(kernel, target, global_random_seed):
    Z, info = moved(KERNELS[kernel], target, global_random_seed, n_steps=20)
    assert off(Z, TARGETS[target][0].moments()) < LIMIT
    assert 0.2 < info.acceptance_rate < 0.99


@pytest.mark.parametrize("kernel, target", PAIRS)
def test_chains_come_to_the_target(kernel, target, global_random_seed):
    options = {"stationary": False, "n_rows": 1000}
    moments = TARGETS[target][0].moments()
    Z, _ = moved(KERNELS[kernel], target, global_random_seed, n_steps=1, **options)
    assert off(Z, moments) > 4 * LIMIT  # not there yet, so that coming is no accident
    Z, _ = moved(KERNELS[kernel], target, global_random_seed, n_steps=300, **options)
    assert off(Z, moments) < LIMIT


# ---------------------------------------------------------- kernels that must fail


class NoAcceptStep(RandomWalk):
    def _transition(self, model, X, state, params, generators, move):
        Z, log_joint = state
        proposed = Z + self.scale * generators.sampling.standard_normal(Z.shape)
        return (proposed, log_joint), np.ones(len(Z), bool), {}


class DensityOfOtherParameters(RandomWalk):
    """Keeps the log-density of parameters that have been left."""

    def _start_chain(self, model, X, Z, params):
        return Z, model.log_joint(X, Z, params) - 0.7


class NoKineticEnergy(HMC):
    """Accepts by the density alone."""

    def _transition(self, model, X, state, params, generators, move):
        Z, log_joint, gradient = state
        position, velocity = Z, generators.sampling.standard_normal(Z.shape)
        for _ in range(self.n_leapfrog):
            velocity = velocity + 0.5 * self.step * gradient
            position = position + self.step * velocity
            gradient = model.grad_log_joint(X, position, params)
            velocity = velocity + 0.5 * self.step * gradient
        log_ratio = model.log_joint(X, position, params) - log_joint
        Z, accepted = accept_or_reject(Z, position, log_ratio, generators.acceptance)
        return self._start_chain(model, X, Z, params), accepted, {}


class NoBackwardMove(MALA):
    """Treats the proposal as if it were symmetric."""

    def _transition(self, model, X, state, params, generators, move):
        Z, log_joint, gradient = state
        noise = generators.sampling.standard_normal(Z.shape)
        proposed = Z + self.step * gradient + np.sqrt(2 * self.step) * noise
        log_proposed = model.log_joint(X, proposed, params)
        Z, accepted = accept_or_reject(
            Z, proposed, log_proposed - log_joint, generators.acceptance
        )
        return self._start_chain(model, X, Z, params), accepted, {}


@pytest.mark.parametrize(
    "wrong",
    [
        NoAcceptStep(scale=0.5),
        StaleDensity(scale=0.7),
        StaleGradient(step=0.1),
        NoBackwardMove(step=0.1),
        NoKineticEnergy(step=0.3, n_leapfrog=2),
        ULA(step=0.1),
    ],
    ids=lambda kernel: type(kernel).__name__,
)
@pytest.mark.parametrize("target", ["intercept", "poisson", "gaussian"])
def test_wrong_kernels_are_found(wrong, target, global_random_seed):
    Z, _ = moved(wrong, target, global_random_seed, n_steps=40, n_rows=5 * N_CHAINS)
    assert off(Z, TARGETS[target][0].moments()) > 2 * LIMIT


def test_density_of_other_parameters_is_found(global_random_seed):
    """A draw begins with the density at the parameters of now."""
    shares = []
    for kernel in (RandomWalk(scale=0.7), DensityOfOtherParameters(scale=0.7)):
        _, info = moved(kernel, "poisson", global_random_seed, n_steps=1)
        shares.append(info.acceptance_rate)
    assert shares[1] > shares[0] + LIMIT * 0.5 / np.sqrt(N_CHAINS)


# --------------------------------------------------------------------------- ULA


@pytest.mark.parametrize("step", [0.01, 0.05, 0.1])
def test_ula_has_its_known_stationary_variance(step, global_random_seed):
    target = TARGETS["intercept"][0]
    mean, variance = posterior_moments(target.row, START)
    biased = ula_variance(variance, step)
    Z, info = moved(
        ULA(step=step), "intercept", global_random_seed, n_steps=400, stationary=False
    )
    assert off(Z, (mean, biased)) < LIMIT
    assert info.acceptance_rate == 1
    assert not info.events
    if step >= 0.05:
        assert off(Z, target.moments()) > 2 * LIMIT


class WrongSign(ULA):
    def _transition(self, model, X, state, params, generators, move):
        class Flipped:
            def grad_log_joint(self, X, Z, params):
                return -model.grad_log_joint(X, Z, params)

        return super()._transition(Flipped(), X, state, params, generators, move)


class HalfDrift(ULA):
    """Drift of half the step with the noise of the whole."""

    def _transition(self, model, X, state, params, generators, move):
        class Halved:
            def grad_log_joint(self, X, Z, params):
                return model.grad_log_joint(X, Z, params) / 2

        return super()._transition(Halved(), X, state, params, generators, move)


@pytest.mark.parametrize("wrong", [WrongSign, HalfDrift])
def test_wrong_drifts_are_found(wrong, global_random_seed):
    target = TARGETS["intercept"][0]
    mean, variance = posterior_moments(target.row, START)
    Z, _ = moved(wrong(step=0.02), "intercept", global_random_seed, n_steps=20)
    assert off(Z, (mean, ula_variance(variance, 0.02))) > 2 * LIMIT


def test_ula_keeps_rows_that_would_leave_the_numbers():
    class Explodes(GaussianTarget):
        def grad_log_joint(self, X, Z, params):
            gradient = super().grad_log_joint(X, Z, params)
            bad = X[:, 0] == 1
            gradient[bad] = np.nan if Z[bad].sum() > 50 else np.inf
            return gradient

    X = np.zeros((6, 1))
    Z = np.random.default_rng(0).normal(size=(6, 1, 2))
    sampler = ULA(step=0.01, n_steps=3)
    healthy, info = sampler.draw(Explodes(), X, Z, None, spawn_generators(1))
    assert not info.events
    X[2] = 1
    for start in (Z[2], 100.0):
        Z[2] = start
        found, info = sampler.draw(Explodes(), X, Z, None, spawn_generators(1))
        assert info.events["ula_restored"] == 3
        assert info.acceptance_rate == pytest.approx(5 / 6)
        found = positions(found)
        np.testing.assert_array_equal(found[2], Z[2])
        # The others do not notice.
        np.testing.assert_array_equal(
            np.delete(found, 2, axis=0), np.delete(positions(healthy), 2, axis=0)
        )


# -------------------------------------------------------------------- accept step


def test_accepts_with_the_right_probability(global_random_seed):
    n = 20_000
    rng = np.random.default_rng(global_random_seed)
    for log_ratio in (-2.0, -0.3, 0.0, 1.5):
        _, accepted = accept_or_reject(
            np.zeros((n, 1)), np.ones((n, 1)), np.full(n, log_ratio), rng
        )
        probability = min(1.0, np.exp(log_ratio))
        if probability == 1:
            assert accepted.all()
        else:
            assert standard_errors(accepted, probability) < LIMIT
            assert standard_errors(accepted, probability**2) > 2 * LIMIT


def test_nan_rejects_and_still_draws():
    current, proposed = np.zeros((5, 2)), np.ones((5, 2))
    log_ratio = np.array([np.nan, np.inf, -np.inf, np.nan, 50.0])
    rng, twin = np.random.default_rng(0), np.random.default_rng(0)
    states, accepted = accept_or_reject(current, proposed, log_ratio, rng)
    np.testing.assert_array_equal(accepted, [False, True, False, False, True])
    np.testing.assert_array_equal(states, accepted[:, None] * np.ones((5, 2)))
    twin.random(5)
    assert rng.random() == twin.random()


@pytest.mark.parametrize("kernel", [RandomWalk(scale=0.8), MALA(step=0.1)])
def test_an_accident_in_one_row_does_not_move_the_others(kernel):
    class Accident(GaussianTarget):
        def log_joint(self, X, Z, params):
            values = super().log_joint(X, Z, params)
            return np.where(X[:, 0] == 1, np.nan, values)

    Z = np.random.default_rng(0).normal(size=(8, 1, 2))
    X = np.zeros((8, 1))
    kernel.set_params(n_steps=5)
    healthy, _ = kernel.draw(Accident(), X, Z, None, spawn_generators(0))
    X[3] = 1
    found, _ = kernel.draw(Accident(), X, Z, None, spawn_generators(0))
    np.testing.assert_array_equal(found[3], Z[3])
    others = np.arange(8) != 3
    np.testing.assert_array_equal(found[others], healthy[others])
    assert (healthy[others] != Z[others]).any()


@pytest.mark.parametrize("kernel", [RandomWalk(scale=0.8), MALA(step=0.1)])
def test_a_chain_may_start_outside_the_support(kernel, global_random_seed):
    """Minus infinity on both sides is a NaN ratio: rejected, without a warning."""

    class HardWall(HalfNormalTarget):
        def log_joint(self, X, Z, params):
            z = Z[:, 0]
            return np.where(z > 0, -(z**2) / 2, -np.inf)

    Z = np.full((2000, 1, 1), -0.3)
    kernel.set_params(n_steps=200)
    generators = spawn_generators(global_random_seed)
    Z, _ = kernel.draw(HardWall(), np.zeros((2000, 1)), Z, None, generators)
    inside = Z[:, 0] > 0
    assert inside.all()
    assert off(Z[:, 0], HardWall().moments()) < LIMIT


# ------------------------------------------------------------------- several chains

ALL = [
    RandomWalk(scale=0.7),
    MALA(step=0.05),
    ULA(step=0.05),
    HMC(step=0.3),
    ComponentWalk(n_prior=0, scale=0.7, adapt=None),
]
OF_KERNEL = pytest.mark.parametrize("kernel", ALL, ids=lambda k: type(k).__name__)


@OF_KERNEL
def test_chains_of_a_row_are_independent(kernel, global_random_seed):
    target, generators = TARGETS["poisson"][0], spawn_generators(global_random_seed)
    kernel.set_params(n_chains=3, n_steps=40)
    X = rows_of(target)
    Z = kernel.start(target, X, None, generators.initialisation)
    assert positions(Z).shape == (N_CHAINS, 3, 1)
    Z = positions(kernel.draw(target, X, Z, None, generators)[0])
    correlation = np.corrcoef(Z[:, :, 0].T)[np.triu_indices(3, 1)]
    assert np.abs(correlation).max() < LIMIT / np.sqrt(N_CHAINS)
    kernel.set_params(n_chains=1, n_steps=1)


@OF_KERNEL
def test_the_given_state_is_not_changed(kernel):
    Z = np.random.default_rng(0).normal(size=(10, 2, 2))
    before = Z.copy()
    kernel.set_params(n_steps=2)
    new, _ = kernel.draw(
        GaussianTarget(), np.zeros((10, 1)), Z, None, spawn_generators(0)
    )
    np.testing.assert_array_equal(Z, before)
    assert positions(new).shape == Z.shape
    assert (positions(new) != Z).any()


@pytest.mark.parametrize("kernel", ALL[:4], ids=lambda k: type(k).__name__)
def test_steps_are_transitions(kernel):
    """Three draws of one transition are one draw of three."""
    X = np.zeros((10, 1))
    generators, Z = spawn_generators(0), np.ones((10, 1, 2))
    kernel.set_params(n_steps=1)
    for _ in range(3):
        Z, _ = kernel.draw(GaussianTarget(), X, Z, None, generators)
    kernel.set_params(n_steps=3)
    at_once, _ = kernel.draw(
        GaussianTarget(), X, np.ones((10, 1, 2)), None, spawn_generators(0)
    )
    np.testing.assert_allclose(positions(at_once), positions(Z), rtol=1e-12)


@OF_KERNEL
@pytest.mark.parametrize("name", ["n_steps", "n_chains"])
@pytest.mark.parametrize("count", [0, 1.5, "otto"])
def test_wrong_counts(kernel, name, count):
    wrong = type(kernel)(**{name: count})
    with pytest.raises(
        ValueError, match=f"{name} must be an integer >= 1, got {count!r}"
    ):
        wrong.start(GaussianTarget(), np.zeros((3, 1)), None, None)


def test_gradients_of_the_models_are_those_of_their_densities():
    rng = np.random.default_rng(0)
    for target, params in TARGETS.values():
        Z = np.abs(rng.normal(1.0, 0.5, size=(20, target.dimension))) + 0.1
        X = rows_of(target)[:20]
        gradient = target.grad_log_joint(X, Z, params)
        for d in range(target.dimension):
            shift = np.zeros(target.dimension)
            shift[d] = 1e-6
            slope = (
                target.log_joint(X, Z + shift, params)
                - target.log_joint(X, Z - shift, params)
            ) / 2e-6
            np.testing.assert_allclose(gradient[:, d], slope, rtol=1e-5, atol=1e-6)
