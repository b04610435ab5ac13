"""Steps, schedules, preconditioners and the guard of the Langevin samplers."""

import numpy as np
import pytest

from sktem import StochasticEM
from sktem.e_step.chains import ChainState, ChainTable
from sktem.e_step.random import spawn_generators
from sktem.exceptions import FitWarning
from sktem.models import RandomInterceptModel
from sktem.samplers import HMC, MALA, ULA, RandomWalk, positions
from sktem.schedules import Polynomial
from tests.oracles import (
    LIMIT,
    START,
    GaussianTarget,
    PoissonTarget,
    posterior_moments,
    random_intercept_data,
    standard_errors,
    ula_variance,
)


def intercept_chains(sampler, seed, n_draws, n_rows=4000):
    row = random_intercept_data(0, n_rows=1)
    X = np.repeat(row, n_rows, axis=0)
    generators, model = spawn_generators(seed), RandomInterceptModel()
    Z = sampler.start(model, X, START, generators.initialisation)
    for k in range(n_draws):
        Z, info = sampler.draw(model, X, Z, START, generators, k + 1)
    mean, variance = posterior_moments(row, START)
    return positions(Z)[:, 0, 0], mean[0], variance, info


def expected_bias(variance, step):
    """Mean rejection of ULA's moves on a Gaussian, by quadrature over two states."""
    grid = np.linspace(-8, 8, 801)
    mass = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi) * (grid[1] - grid[0])
    z = np.sqrt(ula_variance(variance, step)) * grid[:, None]
    pull = 1 - step / variance
    proposed = pull * z + np.sqrt(2 * step) * grid
    log_ratio = (z**2 - proposed**2) / (2 * variance) + grid**2 / 2
    log_ratio -= (z - pull * proposed) ** 2 / (4 * step)
    return 1 - mass @ np.exp(np.minimum(log_ratio, 0.0)) @ mass


class HalfDrift(ULA):
    def _transition(self, model, X, state, params, generators, move):
        class Halved:
            def grad_log_joint(self, X, Z, params):
                return model.grad_log_joint(X, Z, params) / 2

        return super()._transition(Halved(), X, state, params, generators, move)


def test_estimated_bias_of_ula(global_random_seed):
    """It is the mean rejection, and falls as the step to the power of 1.5."""
    found, steps, n_rows = [], (0.02, 0.01, 0.005), 8000
    for step in steps:
        _, _, variance, info = intercept_chains(
            ULA(step), global_random_seed, int(0.8 / step), n_rows
        )
        expected = expected_bias(variance, step)
        # The square of a rejection is no more than the rejection.
        assert abs(info.bias - expected) < LIMIT * np.sqrt(expected / n_rows)
        found.append(info.bias)
    slopes = np.diff(np.log(found)) / np.diff(np.log(steps))
    exact = [expected_bias(variance, step) for step in steps]
    exact = np.diff(np.log(exact)) / np.diff(np.log(steps))
    np.testing.assert_allclose(exact, 1.5, atol=0.12)
    np.testing.assert_allclose(slopes, 1.5, atol=0.35)
    wrong = intercept_chains(HalfDrift(0.005), global_random_seed, 160, n_rows)[3]
    assert wrong.bias > 5 * found[-1]
    assert np.isnan(intercept_chains(MALA(0.05), 0, 1, 10)[3].bias)


def test_bias_needs_a_log_joint():
    class GradientOnly:
        def grad_log_joint(self, X, Z, params):
            return -Z

    X, Z = np.zeros((6, 1)), np.ones((6, 1, 2))
    info = ULA(0.1).draw(GradientOnly(), X, Z, None, spawn_generators(0))[1]
    assert np.isnan(info.bias) and info.acceptance_rate == 1


def test_decreasing_steps_take_the_bias_away(global_random_seed):
    """The last steps count: those of the schedule, not its first."""
    schedule = Polynomial(alpha=0.6, scale=0.1)
    z, mean, variance, _ = intercept_chains(ULA(schedule), global_random_seed, 400)
    squares = (z - mean) ** 2
    assert standard_errors(squares, ula_variance(variance, schedule(400)))[0] < LIMIT
    assert standard_errors(squares, ula_variance(variance, 0.1))[0] > 2 * LIMIT


@pytest.mark.parametrize("kernel", [ULA, MALA, HMC])
def test_a_callable_step_is_called_with_the_iteration(kernel):
    X, Z = np.zeros((6, 1)), np.ones((6, 1, 2))
    steps = {1: 0.3, 5: [0.1, 0.02]}
    sampler = kernel(step=lambda k: steps[k])
    for k, step in steps.items():
        found, _ = sampler.draw(GaussianTarget(), X, Z, None, spawn_generators(0), k)
        fixed, _ = kernel(step=step).draw(
            GaussianTarget(), X, Z, None, spawn_generators(0)
        )
        np.testing.assert_array_equal(positions(found), positions(fixed))
    assert callable(sampler.step)


@pytest.mark.parametrize("kernel", [ULA, MALA, HMC, RandomWalk])
@pytest.mark.parametrize(
    "length", [0.0, -1.0, np.nan, [0.1, 0.0], "otto", None], ids=str
)
def test_wrong_lengths(kernel, length):
    name = kernel.learned
    with pytest.raises(ValueError, match=f"{name} must be positive"):
        kernel(**{name: length}).draw(
            GaussianTarget(),
            np.zeros((2, 1)),
            np.zeros((2, 1, 2)),
            None,
            spawn_generators(0),
        )


def test_one_leapfrog_step_is_langevin():
    X, Z = np.zeros((50, 1)), np.random.default_rng(0).normal(size=(50, 1, 2))
    args = (GaussianTarget(), X, Z, None)
    leap, _ = HMC(step=0.4, n_leapfrog=1, n_steps=5).draw(*args, spawn_generators(0))
    drift, _ = MALA(step=0.08, n_steps=5).draw(*args, spawn_generators(0))
    np.testing.assert_allclose(leap, drift, rtol=1e-10)


def test_wrong_number_of_leapfrog_steps():
    with pytest.raises(ValueError, match="n_leapfrog must be an integer >= 1"):
        HMC(n_leapfrog=0).draw(None, None, None, None, None)


# ------------------------------------------------------------------ preconditioners


@pytest.mark.parametrize("step", [1e-4, 3.0])
def test_the_step_of_mala_adapts_to_its_target(step, global_random_seed):
    row = random_intercept_data(0, n_rows=1)
    X = np.repeat(row, 200, axis=0)
    generators, model = spawn_generators(global_random_seed), RandomInterceptModel()
    kernel = MALA(step, n_chains=2, adapt=0.6)
    Z = kernel.start(model, X, START, generators.initialisation)
    rates, scales = [], []
    for k in range(400):
        Z, info = kernel.draw(model, X, Z, START, generators, k + 1)
        rates.append(info.acceptance_rate)
        scales.append(Z.shared.scale)
    moves = np.abs(np.diff(np.log(scales)))
    assert abs(rates[0] - 0.574) > 0.3
    assert np.mean(rates[-100:]) == pytest.approx(0.574, abs=0.02)
    assert (moves <= np.arange(2, 401) ** -0.6).all() and moves[-50:].max() < 0.005
    # The law is still the right one, and other settings stay put.
    mean, variance = posterior_moments(row, START)
    z = positions(Z)[:, :, 0].ravel()
    assert standard_errors(z, mean[0])[()] < LIMIT
    assert standard_errors((z - mean[0]) ** 2, variance)[()] < LIMIT
    assert kernel.step == step
    plain = MALA(0.1)
    Z = plain.start(model, X, START, generators.initialisation)
    assert isinstance(plain.draw(model, X, Z, START, generators)[0], np.ndarray)


def test_a_preconditioner_is_a_change_of_coordinates():
    """With Gamma = L L', z moves as L u does, when u moves without."""

    class Whitened(GaussianTarget):
        def log_joint(self, X, Z, params):
            return super().log_joint(X, Z @ root.T, params)

        def grad_log_joint(self, X, Z, params):
            return super().grad_log_joint(X, Z @ root.T, params) @ root

    gamma = np.array([[0.7, 0.2], [0.2, 0.4]])
    root = np.linalg.cholesky(gamma)
    X, U = np.zeros((30, 1)), np.random.default_rng(0).normal(size=(30, 1, 2))
    for kernel in (ULA, MALA):
        plain = kernel(step=0.2, n_steps=4)
        u, _ = plain.draw(Whitened(), X, U, None, spawn_generators(0))
        sampler = kernel(step=0.2, n_steps=4, preconditioner=gamma)
        z, _ = sampler.draw(GaussianTarget(), X, U @ root.T, None, spawn_generators(0))
        np.testing.assert_allclose(positions(z), positions(u) @ root.T, rtol=1e-8)


def test_a_diagonal_preconditioner_and_the_prior():
    class WithPrior(GaussianTarget):
        def prior_moments(self, X, params):
            return np.zeros((len(X), 2)), np.diag([0.5, 0.2])

    args = (WithPrior(), np.zeros((9, 1)), np.ones((9, 1, 2)), None)
    found = [
        positions(MALA(preconditioner=what).draw(*args, spawn_generators(0))[0])
        for what in ("prior", [0.25, 0.04], np.diag([0.25, 0.04]))
    ]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)
    np.testing.assert_allclose(found[0], found[2], rtol=1e-12)
    with pytest.raises(ValueError, match='preconditioner must be None, "prior"'):
        MALA(preconditioner="posterior").draw(*args, spawn_generators(0))


# ------------------------------------------------------------------------- the guard


def test_the_step_of_a_row_is_halved_until_it_is_stable(global_random_seed):
    """A step beyond stability explodes; halved often enough it samples the target."""
    sampler = ULA(step=3.0)
    generators, target = spawn_generators(global_random_seed), PoissonTarget()
    X = np.zeros((500, 1))
    Z = sampler.start(target, X, None, generators.initialisation)
    restored = 0
    for k in range(300):
        Z, info = sampler.draw(target, X, Z, None, generators, k + 1)
        restored += info.events["ula_restored"]
    assert restored > 500
    Z, tuning, _ = Z
    assert np.isfinite(Z).all()
    assert restored == -np.log2(tuning["step_factor"]).sum()
    assert not info.events
    mean, variance = target.moments()
    assert np.abs(Z.mean() - mean) < 3 * np.sqrt(variance)


def test_halved_steps_belong_to_their_chains():
    """Rows visited in batches keep their own steps, and so do chains of a row."""

    class Steep(GaussianTarget):
        def grad_log_joint(self, X, Z, params):
            gradient = super().grad_log_joint(X, Z, params)
            gradient[(X[:, 0] == 1) & (Z[:, 0] > 0.9)] *= 1e6
            return gradient

    X, Z = np.zeros((8, 1)), np.ones((8, 2, 2))
    X[5], Z[5, 1] = 1, 0.0
    chains, generators = ChainTable(8), spawn_generators(0)
    chains.put(slice(None), ChainState(Z, {"step_factor": np.ones((8, 2))}))
    for rows in (np.array([5, 1]), np.array([0, 2]), slice(4, 6)):
        old = chains.get(rows)
        chains.put(rows, ULA(1e-4).draw(Steep(), X[rows], old, None, generators)[0])
    expected = np.ones((8, 2))
    expected[5, 0] = 0.25
    found = chains.get(slice(None)).tuning["step_factor"]
    np.testing.assert_array_equal(found, expected)


def test_a_bias_that_matters_is_told():
    """The variance ended at 4.1 for 0.9, converged, and nothing was said."""
    X = 5 + np.random.default_rng(0).normal(size=(200, 1)) + np.zeros((200, 5))
    X += 0.5 * np.random.default_rng(1).normal(size=X.shape)
    options = {"max_iter": 10, "tol": 0, "random_state": 0}
    with pytest.warns(FitWarning, match="accept test would have rejected .*shorter"):
        StochasticEM(RandomInterceptModel(), sampler=ULA(step=1.0), **options).fit(X)
    for step in ("auto", 0.01):
        StochasticEM(RandomInterceptModel(), sampler=ULA(step=step), **options).fit(X)
