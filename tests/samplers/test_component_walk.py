"""Walks by coordinate with proposals from the prior, and their adaptation."""

import numpy as np
import pytest

from sktem.e_step.random import spawn_generators
from sktem.models import RandomInterceptModel
from sktem.samplers import ComponentWalk, positions
from sktem.samplers import component_walk as module
from tests.oracles import LIMIT, START, Target, random_intercept_data, standard_errors


class CountsWithPrior(Target):
    """Two correlated Gaussian latents, of which a count sees the sum."""

    mean = np.array([0.5, -0.5])
    root = np.array([[0.8, 0.0], [0.5, 0.6]])
    count = 4

    def initial_latents(self, X, params, rng):
        return np.tile([3.0, -3.0], (len(X), 1))

    def prior_moments(self, X, params):
        return np.tile(self.mean, (len(X), 1)), self.root

    def log_joint(self, X, Z, params):
        white = np.linalg.solve(self.root, (Z - self.mean).T)
        total = Z.sum(axis=1)
        return self.count * total - np.exp(total) - 0.5 * (white**2).sum(axis=0)

    def moments(self):
        grid = np.linspace(-6, 6, 601)
        points = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
        points = points.reshape(-1, 2) + self.mean
        log_density = self.log_joint(None, points, None)
        weights = np.exp(log_density - log_density.max())
        mean = np.average(points, axis=0, weights=weights)
        second = np.average(
            points[:, :, None] * points[:, None], axis=0, weights=weights
        )
        covariance = second - np.outer(mean, mean)
        return mean, covariance


def off(sampler, seed, n_draws=60, n_rows=3000):
    """Return the error of means and covariances in standard errors."""
    target = CountsWithPrior()
    generators, X = spawn_generators(seed), np.zeros((n_rows, 1))
    Z = sampler.start(target, X, None, generators.initialisation)
    for k in range(n_draws):
        Z, info = sampler.draw(target, X, Z, None, generators, k + 1)
    mean, covariance = target.moments()
    centred = positions(Z)[:, 0] - mean
    products = centred[:, :, None] * centred[:, None]
    values = np.hstack([centred, products.reshape(n_rows, 4)])
    return standard_errors(values, np.r_[0.0, 0.0, covariance.ravel()]).max(), info


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_prior": 2, "n_component": 0, "n_block": 0},
        {"n_prior": 0, "n_block": 0},
        {"adapt": None, "scale": [0.9, 0.7]},
    ],
    ids=str,
)
def test_comes_to_the_exact_posterior(options, global_random_seed):
    assert off(ComponentWalk(**options), global_random_seed)[0] < LIMIT
    early, _ = off(ComponentWalk(**options), global_random_seed, n_draws=1)
    assert early > 4 * LIMIT


@pytest.mark.parametrize("wrong", ["prior", "no prior density"])
def test_wrong_ratios_are_found(wrong, monkeypatch, global_random_seed):
    if wrong == "prior":  # a proposal from the prior taken for a symmetric one
        monkeypatch.setattr(module, "_log_prior", lambda Z, means, root: 0.0)
    else:
        plain = module._log_prior
        monkeypatch.setattr(module, "_log_prior", lambda *a: 0.5 * plain(*a))
    sampler = ComponentWalk(n_prior=2, n_component=0, n_block=0)
    assert off(sampler, global_random_seed)[0] > 2 * LIMIT


@pytest.mark.parametrize("scale", [0.01, 30.0])
def test_scales_adapt_to_the_target(scale, global_random_seed):
    sampler = ComponentWalk(n_prior=0, scale=scale, target=0.4)
    error, info = off(sampler, global_random_seed, n_draws=250, n_rows=1000)
    assert abs(info.acceptance_rate - 0.4) < 0.05
    assert error < LIMIT
    _, kept = off(sampler.set_params(adapt=None), global_random_seed, 50, 200)
    assert abs(kept.acceptance_rate - 0.4) > 0.2


def test_adaptation_vanishes():
    sampler, generators = ComponentWalk(n_prior=0), spawn_generators(0)
    target, X = CountsWithPrior(), np.zeros((10, 1))
    Z = sampler.start(target, X, None, generators.initialisation)
    changes, after = [], np.full(3, 0.5)
    for k in range(400):
        before = after
        Z, _ = sampler.draw(target, X, Z, None, generators, k + 1)
        after = Z.shared.scales
        changes.append(np.abs(np.log(after / before)).max())
        assert changes[-1] <= 0.6 * (k + 1) ** -0.6 + 1e-12
    assert max(changes[-50:]) < 0.03 < max(changes[:5])


def test_needs_a_prior_to_propose_from_it():
    X = random_intercept_data(0, n_rows=5)
    with pytest.raises(TypeError, match="RandomInterceptModel has no prior_moments"):
        ComponentWalk().start(RandomInterceptModel(), X, START, None)


def test_no_latents():
    Z = np.empty((4, 2, 0))
    found, info = ComponentWalk().draw(None, np.zeros((4, 1)), Z, None, None)
    assert found is Z and np.isnan(info.acceptance_rate)
