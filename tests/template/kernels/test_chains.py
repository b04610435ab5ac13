"""Langevin kernels of landmarks: transitions written out in NumPy."""

import numpy as np
import pytest

from sktem.template.kernels import products
from sktem.template.kernels.chains import langevin_chains
from sktem.template.kernels.products import ZERO
from tests.oracles import for_python
from tests.template.oracles import (
    SHAPES,
    fill_normals,
    grid_of,
    model_of,
    random_params,
    simulate,
    stream_key,
    uniform,
)

OF_SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=str)
SEED = np.uint64(17)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_quadratic_form(n):
    rng = np.random.default_rng(0)
    matrix, w = rng.normal(size=(n, n)), rng.normal(size=n)
    work = np.concatenate([w, np.zeros(n)])
    form = for_python(products.quadratic)(
        matrix.ravel(), work, ZERO, np.uint64(n), np.uint64(n)
    )
    np.testing.assert_allclose(work[n:], matrix @ w, rtol=1e-12, atol=1e-14)
    assert form == pytest.approx(w @ matrix @ w, rel=1e-12)


def setting(shape, n=4, seed=0):
    grid, rng = grid_of(shape), np.random.default_rng(seed)
    params = random_params(grid, rng)
    Y, _ = simulate(grid, params, n, rng)
    Y[0, 0] = np.nan
    states = np.zeros((n, grid.n_latents + 3))
    states[:, : grid.n_latents] = 0.2 * rng.normal(size=(n, grid.n_latents))
    states[:, grid.n_latents] = np.log(rng.uniform(0.05, 0.6, size=n))
    states[:, grid.n_latents + 1] = rng.integers(0, 5, size=n)
    return grid, params, Y, states


def written_out(model, params, y, state, number, n_steps, adjusted, goal):
    """Return the state after some transitions, by the model's own density."""
    dim = model.grid.n_latents
    factor = model.target(params, 0).factor
    key = np.uint64(stream_key(SEED, number))
    z, log_step, visits = state[:dim].copy(), state[dim], state[dim + 1]
    rates = []

    def whitened(z):
        log_joint = model.log_joint(y[None], z[None], params)[0]
        return log_joint, factor.T @ model.grad_log_joint(y[None], z[None], params)[0]

    for transition in range(n_steps):
        noise, eta = np.empty(dim), np.exp(log_step)
        fill_normals(key, transition * (dim + 2), noise)
        chance = uniform(key, transition * (dim + 2) + dim + 1)
        value, gradient = whitened(z)
        move = eta * gradient + np.sqrt(2 * eta) * noise
        proposed = z + factor @ move
        value_new, gradient_new = whitened(proposed)
        back = -move - eta * gradient_new
        ratio = value_new - value + (noise @ noise) / 2 - back @ back / (4 * eta)
        probability = min(1.0, np.exp(ratio)) if adjusted else 1.0
        if chance < probability:
            z = proposed
        rates.append(probability)
        visits += 1
        if adjusted and goal:
            log_step += (probability - goal) * visits**-0.6
    return np.array([*z, log_step, visits, state[dim + 2]]), np.sum(rates)


@OF_SHAPE
@pytest.mark.parametrize("adjusted, goal", [(True, 0.574), (True, 0.0), (False, 0.0)])
def test_transitions(shape, adjusted, goal):
    grid, params, Y, states = setting(shape)
    model, numbers = model_of(grid), np.array([3, 0, 2**33, 1])
    expected = [
        written_out(model, params, *row, 12, adjusted, goal)
        for row in zip(Y, states, numbers, strict=True)
    ]
    moved = states.copy()
    accepted, restored = langevin_chains(
        Y, moved, numbers, SEED, model.target(params, 0), grid.compiled, 12,
        adjusted, goal,
    )  # fmt: skip
    np.testing.assert_allclose(
        moved, [row for row, _ in expected], rtol=1e-7, atol=1e-9
    )
    assert accepted == pytest.approx(sum(rate for _, rate in expected), rel=1e-9)
    assert restored == 0
    if adjusted:  # both branches were there
        assert 0.05 < accepted / 48 < 0.95


@OF_SHAPE
def test_preconditioner(shape):
    """The factor is a root of the inverse mean Hessian, and whitens the prior."""
    grid, params, *_ = setting(shape)
    model = model_of(grid)
    target, part = model.target(params, 0), model.component(params, 0)
    hessian = part.precision + model.chains.mean_curvature(part) / part.noise_variance
    np.testing.assert_allclose(
        target.factor @ target.factor.T @ hessian, np.eye(grid.n_latents), atol=1e-9
    )
    np.testing.assert_array_equal(target.factor, np.tril(target.factor))
    np.testing.assert_allclose(
        target.inverse @ target.factor, np.eye(grid.n_latents), atol=1e-9
    )
    whitened = target.factor.T @ part.precision @ target.factor
    np.testing.assert_allclose(target.precision, whitened, atol=1e-12)
    np.testing.assert_allclose(
        part.precision @ params.covariances[0], np.eye(grid.n_latents), atol=1e-9
    )


def test_proposals_that_are_not_finite():
    """ULA restores the state and halves the step; MALA rejects."""
    grid, params, Y, states = setting((5,), n=2)
    target, dim = model_of(grid).target(params, 0), grid.n_latents
    states[0, dim] = 700.0  # a step so large that squares overflow
    states[1, dim] = np.log(0.1)
    states[:, dim + 1] = 0
    Z, alone = states.copy(), states[1:].copy()
    _, restored = langevin_chains(
        Y, Z, np.arange(2), SEED, target, grid.compiled, 3, False, 0.0
    )
    assert restored == 3
    np.testing.assert_allclose(Z[0, :dim], states[0, :dim], rtol=1e-12)
    assert Z[0, dim] == pytest.approx(700 - 3 * np.log(2))
    langevin_chains(
        Y[1:], alone, np.array([1]), SEED, target, grid.compiled, 3, False, 0.0
    )
    np.testing.assert_array_equal(Z[1:], alone)
    Z = states.copy()
    accepted, restored = langevin_chains(
        Y[:1], Z[:1], np.arange(1), SEED, target, grid.compiled, 3, True, 0.574
    )
    assert accepted == 0 and restored == 0
    np.testing.assert_allclose(Z[0, :dim], states[0, :dim], rtol=1e-12)
    assert Z[0, dim] < 700
