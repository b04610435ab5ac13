"""Rows whose latents have a density that ends, in check_model."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import gamma, norm

from sktem.loop.density_edges import rows_without_edge
from sktem.models import LatentModel, check_model


class Normal(NamedTuple):
    mean: float
    variance: float


class Tobit(LatentModel):
    """Rows (value, whether it is a limit below which the latent lies)."""

    factor = 1.0

    def initial_params(self, X, rng):
        return Normal(X[:, 0].mean(), X[:, 0].var())

    def mean_statistics(self, X, Z, sample_weight=None):
        return np.average(np.hstack([Z, Z**2]), axis=0, weights=sample_weight)

    def maximize(self, s, params):
        return Normal(s[0], s[1] - s[0] ** 2)

    def draw_posterior(self, X, params, n_draws, rng):
        scale = self.factor * np.sqrt(params.variance)
        below = norm.cdf(X[:, :1], params.mean, scale)
        draws = norm.ppf(below * rng.random((len(X), n_draws)), params.mean, scale)
        return np.where(X[:, 1:] > 0, draws, X[:, :1])[:, :, None]

    def log_joint(self, X, Z, params):
        z, limit = Z[:, 0], X[:, 0]
        inside = np.where(X[:, 1] > 0, z <= limit, z == limit)
        scale = np.sqrt(params.variance)
        return np.where(inside, norm.logpdf(z, params.mean, scale), -np.inf)

    def grad_log_joint(self, X, Z, params):
        return -(Z - params.mean) / params.variance


def censored(n, limit):
    values = np.random.default_rng(0).normal(1.0, 2.0, size=n)
    return np.column_stack([np.maximum(values, limit), values < limit])


@pytest.mark.parametrize("limit", [-np.inf, 0.0, 3.0, np.inf])
def test_known_and_censored_latents_are_no_faults(limit):
    limit = np.clip(limit, -99.0, 99.0)
    done = check_model(Tobit(), censored(80, limit), params=Normal(1.0, 4.0))
    # With a limit far above everything the latents are free, and are compared.
    assert ("draws_log_joint" in done) == (limit == 99)


def test_wrong_draws_are_still_found():
    wrong = type("Wrong", (Tobit,), {"factor": 1.2})
    with pytest.raises(ValueError, match="draw_posterior of Wrong differs"):
        check_model(wrong(), censored(80, 99.0), params=Normal(1.0, 4.0))


def test_edges_of_densities_that_are_known():
    rng = np.random.default_rng(0)
    Z = rng.gamma(3.0, size=(50, 1))
    densities = {
        "free": (lambda Z: norm.logpdf(Z[:, 0]), True),
        "falls to zero": (lambda Z: gamma.logpdf(Z[:, 0], 3.0), True),
        "exponential": (lambda Z: gamma.logpdf(Z[:, 0], 1.0), False),
        "pole": (lambda Z: gamma.logpdf(Z[:, 0], 0.5), False),
        "known": (lambda Y: np.where((Y == Z).all(axis=1), 0.0, -np.inf), False),
    }
    for name, (log_joint, smooth) in densities.items():
        assert (rows_without_edge(log_joint, Z, rng) == smooth).all(), name
    alternate = rows_without_edge(
        lambda Z: np.where((np.arange(50) % 2 == 0) & (Z[:, 0] < 0), -np.inf, 0.0),
        Z,
        rng,
    )
    assert (alternate == (np.arange(50) % 2 == 1)).all()
