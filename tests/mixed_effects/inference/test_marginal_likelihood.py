"""Integrals over the latents of subjects."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from sktem.mixed_effects.inference.marginal_likelihood import (
    importance_draws,
    quadrature_draws,
    thin_size,
)


def log_integral(target, modes, covariances, prior):
    """Return the logarithm of an integral by draws, and its error."""
    rng = np.random.default_rng(0)
    draws = importance_draws(modes, covariances, 20_000, rng, prior)
    values, error = draws.log_likelihood(target(draws.points))
    return values[0], error


def test_a_second_mode_is_found_by_draws_from_the_prior():
    def target(points):
        bumps = norm.pdf(points, -1.5, 0.05) + norm.pdf(points, 1.5, 0.05)
        with np.errstate(divide="ignore"):
            return (norm.logpdf(points) + np.log(bumps))[..., 0]

    mode, covariance = np.array([[-1.5]]), np.array([[[0.05**2]]])
    exact = np.log(2 * norm.pdf(1.5, scale=np.sqrt(1 + 0.05**2)))
    prior = np.zeros((1, 1)), np.eye(1)
    value, error = log_integral(target, mode, covariance, prior)
    assert abs(value - exact) < 4 * error < 0.2
    # The negative control: half of the integral, and an error that does not know.
    value, error = log_integral(target, mode, covariance, (mode, 0.05 * np.eye(1)))
    assert abs(value - exact) > 20 * error


def test_normal_integrals_with_correlated_priors():
    rng = np.random.default_rng(1)
    root = np.linalg.cholesky(np.cov(rng.normal(size=(3, 20))))
    means, noise = rng.normal(size=(1, 3)), 0.3
    y = rng.normal(size=3)
    precision = np.linalg.inv(root @ root.T) + np.eye(3) / noise**2
    covariance = np.linalg.inv(precision)
    mode = covariance @ (np.linalg.solve(root @ root.T, means[0]) + y / noise**2)

    def target(points):
        prior = multivariate_normal(means[0], root @ root.T).logpdf(points[:, 0])
        return prior[:, None] + norm.logpdf(y, points, noise).sum(axis=-1)

    both = root @ root.T + noise**2 * np.eye(3)
    exact = multivariate_normal(means[0], both).logpdf(y)
    value, error = log_integral(target, mode[None], covariance[None], (means, root))
    assert abs(value - exact) < 4 * error < 0.01


@pytest.mark.parametrize("thin", [(3,), (0, 2), (0, 2, 3), (0, 1, 2, 3, 4)])
def test_thin_latents_have_exact_moments(thin):
    rng, d = np.random.default_rng(0), 5
    root = np.tril(rng.standard_normal((d, d))) + 3 * np.eye(d)
    mode, covariance = rng.standard_normal((1, d)), root @ root.T
    draws = quadrature_draws(mode, covariance[None], 5, thin)
    assert len(draws.points) == 5 ** (d - len(thin)) * thin_size(len(thin))
    Z, density = draws.points[:, 0], multivariate_normal(mode[0], covariance)
    weights = np.exp(density.logpdf(Z) + draws.log_weights[:, 0])
    assert weights.sum() == pytest.approx(1.0)
    about, unit = np.linalg.solve(root, (Z - mode).T), np.eye(d)
    np.testing.assert_allclose(about @ weights, 0, atol=1e-12)
    np.testing.assert_allclose((about * weights) @ about.T, unit, atol=1e-12)
    third = np.einsum("q,iq,jq,kq->ijk", weights, about, about, about)
    np.testing.assert_allclose(third, 0, atol=1e-12)
    fourth = np.einsum("q,iq,jq,kq,lq->ijkl", weights, *[about] * 4)
    pairs = np.einsum("ij,kl->ijkl", unit, unit)
    exact = pairs + pairs.transpose(0, 2, 1, 3) + pairs.transpose(0, 2, 3, 1)
    np.testing.assert_allclose(fourth, exact, atol=1e-12)
