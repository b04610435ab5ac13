"""Random walks and Gibbs moves of landmarks: transitions written out in NumPy."""

import numpy as np
import pytest

from sktem.template.kernels.walks import walks
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
SEED = np.uint64(23)
NUMBERS = np.array([5, 0, 2**32])


def setting(shape):
    grid, rng = grid_of(shape), np.random.default_rng(0)
    params = random_params(grid, rng, noise_variance=0.3)
    Y, _ = simulate(grid, params, 3, rng)
    Y[0, 0] = np.nan
    states = np.zeros((3, grid.n_latents + 3))
    states[:, : grid.n_latents] = 0.1 * rng.normal(size=(3, grid.n_latents))
    states[:, grid.n_latents] = np.log([0.5, 0.3, 0.8])
    states[:, grid.n_latents + 1] = [0, 3, 1]
    return model_of(grid), params, Y, states


def moved(model, params, Y, states, *how):
    part = model.component(params, 0)
    return walks(Y, states, NUMBERS, SEED, part, model.grid.compiled, *how)


def accepted(model, params, y, z, proposed, chance, likelihood_only=False):
    """Return the state that is kept, and the acceptance probability."""
    ratio = np.diff(model.log_joint(np.stack([y, y]), np.stack([z, proposed]), params))[
        0
    ]
    if likelihood_only:
        precision = model.component(params, 0).precision
        ratio += (proposed @ precision @ proposed - z @ precision @ z) / 2
    probability = min(1.0, np.exp(ratio))
    return (proposed if chance < probability else z), probability


@OF_SHAPE
@pytest.mark.parametrize("goal", [0.0, 0.4])
def test_landmark_walks(shape, goal):
    model, params, Y, states = setting(shape)
    dim, places = model.grid.n_latents, model.grid.n_places
    spread = 1 / np.sqrt(np.diag(model.component(params, 0).precision))
    expected, total = [], 0.0
    for y, state, number in zip(Y, states, NUMBERS, strict=True):
        key, z = np.uint64(stream_key(SEED, number)), state[:dim].copy()
        log_step, visits = state[dim], state[dim + 1]
        for sweep in range(4):
            noise = np.empty(dim)
            counter = fill_normals(key, sweep * (dim + 2 + places), noise)
            rate = 0.0
            for place in range(places):
                own = np.arange(dim) % places == place
                proposed = z + np.exp(log_step) * spread * noise * own
                chance = uniform(key, counter + place)
                z, p = accepted(model, params, y, z, proposed, chance)
                rate += p / places
            total += rate
            visits += 1
            if goal:
                log_step += (rate - goal) * visits**-0.6
        expected.append([*z, log_step, visits, 0])
    found = moved(model, params, Y, states, 4, False, goal)
    np.testing.assert_allclose(states, expected, rtol=1e-9, atol=1e-10)
    assert found == pytest.approx(total, rel=1e-9)
    assert 0.05 < found / 12 < 0.99


@OF_SHAPE
def test_prior_gibbs(shape):
    model, params, Y, states = setting(shape)
    dim, gamma = model.grid.n_latents, params.covariances[0]
    expected, total = [], 0.0
    for y, state, number in zip(Y, states, NUMBERS, strict=True):
        key, z = np.uint64(stream_key(SEED, number)), state[:dim].copy()
        for sweep in range(3):
            noise = np.empty(dim)
            counter = fill_normals(key, sweep * (2 * dim + 2), noise)
            for j in range(dim):
                # The conditional law from the covariance, not from the precision.
                rest = np.delete(np.arange(dim), j)
                weights = np.linalg.solve(gamma[np.ix_(rest, rest)], gamma[rest, j])
                deviation = np.sqrt(gamma[j, j] - weights @ gamma[rest, j])
                proposed = z.copy()
                proposed[j] = weights @ z[rest] + deviation * noise[j]
                chance = uniform(key, counter + j)
                z, p = accepted(model, params, y, z, proposed, chance, True)
                total += p / dim
        expected.append([*z, state[dim], state[dim + 1] + 3, 0])
    found = moved(model, params, Y, states, 3, True, 0.0)
    np.testing.assert_allclose(states, expected, rtol=1e-8, atol=1e-9)
    assert found == pytest.approx(total, rel=1e-8)
    assert 0.05 < found / 9 < 0.99
