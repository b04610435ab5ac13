"""Adaptation by the chains that can move, and chains that no move frees."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm, truncnorm

from sktem import StochasticEM
from sktem.e_step.random import spawn_generators
from sktem.exceptions import FitWarning
from sktem.models import LatentModel, RandomInterceptModel
from sktem.samplers import MALA, positions
from sktem.samplers import langevin as langevin_module
from tests.oracles import LIMIT


class OnePoint(RandomInterceptModel):
    """All chains start at one point."""

    posterior = draw_posterior = property()

    def initial_latents(self, X, params, rng):
        return np.full((len(X), 1), self.here)


@pytest.mark.parametrize("here", [3.0, 3.0123456789])
@pytest.mark.parametrize("sampler", ["rwm", "mala"])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e6])
def test_chains_that_start_at_one_point_find_a_length(here, sampler, scale):
    """Rounding is no spread of latents, and new chains move until they can."""
    rng = np.random.default_rng(0)
    X = here + rng.normal(size=(300, 1)) + rng.normal(size=(300, 4))
    model = OnePoint()
    model.here = here * scale
    start = model.initial_params(X * scale, rng)._replace(mean=model.here)
    model.initial_params = lambda X, rng: start
    options = {"solver": "saem", "sampler": sampler, "max_iter": 1, "tol": 0}
    em = StochasticEM(model, random_state=0, **options).fit(X * scale)
    assert 0.5 < em.params_.variance / scale**2 < 2
    assert 0.2 < em.history_.acceptance_rate[-1] < 0.8


class Tobit(LatentModel):
    """X = [1, x, y] with y = max(latent, 0); the latent of a positive y is known."""

    def initial_params(self, X, rng):
        return np.array([X[:, 2].mean(), 0.0, X[:, 2].var()])

    def mean_statistics(self, X, Z, sample_weight=None):
        x, z = X[:, 1], Z[:, 0]
        rows = np.column_stack([x, x * x, z, x * z, z * z])
        return np.average(rows, axis=0, weights=sample_weight)

    def maximize(self, s, params):
        b = np.linalg.solve([[1, s[0]], [s[0], s[1]]], s[2:4])
        return np.array([*b, max(s[4] - b @ s[2:4], 1e-8)])

    def initial_latents(self, X, params, rng):
        return np.where(X[:, 2:] <= 0, -0.5, X[:, 2:])

    def log_joint(self, X, Z, params):
        y, z = X[:, 2], Z[:, 0]
        inside = np.where(y <= 0, z <= 0, z == y)
        density = norm.logpdf(z, X[:, :2] @ params[:2], params[2] ** 0.5)
        return np.where(inside, density, -np.inf)

    def log_likelihood(self, X, params):
        mean, deviation = X[:, :2] @ params[:2], params[2] ** 0.5
        below = norm.logcdf(-mean / deviation)
        return np.where(X[:, 2] <= 0, below, norm.logpdf(X[:, 2], mean, deviation))


def tobit_data(seed, n_rows=2000):
    rng = np.random.default_rng(seed)
    A = np.column_stack([np.ones(n_rows), rng.normal(size=n_rows)])
    latent = A @ [0.3, 1.0] + 1.3 * rng.normal(size=n_rows)
    return np.column_stack([A, np.maximum(latent, 0)])


def test_known_latents_do_not_freeze_the_others():
    """The variance ended at 1.3, far below its estimate of 1.75."""
    X = tobit_data(7)

    def minus(theta):
        params = np.array([theta[0], theta[1], np.exp(theta[2])])
        return -Tobit().log_likelihood(X, params).mean()

    best = minimize(minus, [0.0, 1.0, 0.5])
    em = StochasticEM(Tobit(), sampler="rwm", random_state=0, max_iter=60, tol=0)
    with pytest.warns(FitWarning, match="of the chains never moved"):
        em.fit(X)
    np.testing.assert_allclose(em.params_[2], np.exp(best.x[2]), rtol=0.03)
    assert em.score(X) > -best.fun - 5e-4
    assert 0.35 < em.history_.acceptance_rate[-1] < 0.55


class Tail(LatentModel):
    """z = -exp(t) of a truncated normal law, whose density in t falls very steeply."""

    def initial_params(self, X, rng):
        return None

    def initial_latents(self, X, params, rng):
        return np.full((len(X), 1), -0.5)

    def mean_statistics(self, X, Z, sample_weight=None):
        return np.average(np.exp(2 * Z), axis=0, weights=sample_weight)

    def maximize(self, s, params):
        return None

    def log_joint(self, X, Z, params):
        return norm.logpdf(-np.exp(Z[:, 0]), X[:, 0], 1.3) + Z[:, 0]

    def grad_log_joint(self, X, Z, params):
        return -(np.exp(Z) + X) / 1.69 * np.exp(Z) + 1


def off_the_second_moment(seed, n_draws=100):
    """Return how far adaptive MALA is off, in standard errors of independent rows.

    One row in fifty starts far out, where moves of the usual length are rejected.
    """
    X = np.random.default_rng(seed).normal(0.3, 1, size=(1000, 1))
    law = truncnorm(-np.inf, -X[:, 0] / 1.3, loc=X[:, 0], scale=1.3)
    sampler, generators = MALA(), spawn_generators(seed)
    chains = sampler.start(Tail(), X, None, generators.initialisation)
    chains[::50] = 2.8
    total = 0.0
    for k in range(40 + n_draws):
        chains, _ = sampler.draw(Tail(), X, chains, None, generators, k + 1)
        total = total + np.exp(2 * positions(chains)[:, 0, 0]) * (k >= 40)
    rows = total / n_draws - (law.var() + law.mean() ** 2)
    typical = np.delete(rows, np.s_[::50])
    return rows.mean() / (typical.std(ddof=1) / np.sqrt(len(rows)))


def test_short_moves_free_chains_in_a_light_tail(monkeypatch, global_random_seed):
    assert abs(off_the_second_moment(global_random_seed)) < LIMIT
    monkeypatch.setattr(langevin_module, "DECADES", 0.0)
    assert off_the_second_moment(global_random_seed) > 5 * LIMIT
