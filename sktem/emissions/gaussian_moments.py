"""The M-step of K Gaussians from their averaged moments."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sktem.emissions.base import LEAST_SHARE
from sktem.emissions.covariances import COVARIANCES

__all__ = [
    "Moments",
    "gaussian_m_step",
    "gaussian_penalty",
    "n_features_of",
    "projected_moments",
    "split_moments",
]


@lru_cache(maxsize=256)
def n_features_of(covariance_type: str, n_states: int, n_statistics: int) -> int:
    """Invert the length of the vector of statistics, whatever the structure."""
    return next(
        d
        for d in range(1, n_statistics + 1)
        if n_states * (1 + d) + COVARIANCES[covariance_type](n_states, d).n_moments
        == n_statistics
    )


class Moments(NamedTuple):
    """Masses, first and packed second moments of K states: views of statistics."""

    mass: np.ndarray
    first: np.ndarray
    second: np.ndarray


def split_moments(s, K, d) -> Moments:
    """Return the parts of a vector of statistics."""
    return Moments(s[:K], s[K : K + K * d].reshape(K, d), s[K + K * d :])


def gaussian_m_step(settings, moments, spare, prior_mean, total):
    """Return means, covariances, factors and the number of states that were kept.

    Settings are those of `Gaussian`; means are about the centre. `spare` has the means
    and covariances of states without data, None at a start.
    """
    mass, first, second = moments
    K, d = first.shape
    structure = COVARIANCES[settings.covariance_type](K, d)
    delta = settings.mean_penalty * total
    alive = mass > LEAST_SHARE * total
    all_alive = bool(alive.all())
    if not all_alive:
        mass = np.where(alive, mass, 0.0)
    pull = (mass if all_alive else np.where(alive, mass, 1.0)) + delta
    means = (first + delta * prior_mean if delta else first) / pull[:, None]
    if not all_alive:
        means = np.where(alive[:, None], means, _spare_means(moments, spare))
    if structure.known:
        covariances = structure.unpack(second)
        factors = structure.precisions_cholesky(covariances)
        return means, covariances, factors, int(K - alive.sum())
    scatter = structure.unpack(second)
    pull = pull if all_alive else np.where(alive, pull, 0.0)
    scatter = scatter - structure.outer(means, pull)
    if delta:
        prior = np.broadcast_to(prior_mean, means.shape)
        scatter = scatter + structure.outer(prior, np.where(alive, delta, 0.0))
    tau = settings.covariance_prior_strength * total
    if tau:
        scatter = scatter + tau * structure.matrix(settings.covariance_prior)
    covariances = structure.normalise(scatter, mass, tau)
    degenerate = 0
    if not all_alive:
        degenerate = int(K - alive.sum())
        spare_covariances = _spare_covariances(settings, moments, spare, structure)
        covariances = structure.select(alive, covariances, spare_covariances)
    covariances = structure.shift(covariances, settings.reg_covar)
    try:
        factors = structure.precisions_cholesky(covariances)
    except np.linalg.LinAlgError:
        covariances, floored = structure.repair(covariances, settings.reg_covar, 1e-12)
        factors = structure.precisions_cholesky(covariances)
        degenerate += floored
    return means, covariances, factors, degenerate


def _spare_means(moments, spare):
    """Return means for states without data: the old ones, or that of all data."""
    if spare is not None:
        return spare.means
    mass, first, _ = moments
    return np.broadcast_to(first.sum(axis=0) / mass.sum(), first.shape)


def _spare_covariances(settings, moments, spare, structure):
    """Return covariances for states without data: the old ones, or that of all."""
    if spare is not None:
        return structure.shift(spare.covariances.copy(), -settings.reg_covar)
    mass, first, second = moments
    mean = (first.sum(axis=0) / mass.sum())[None]
    total = structure.unpack(second).sum(axis=0) / mass.sum()
    pooled = COVARIANCES[settings.covariance_type](1, first.shape[1])
    total = total - pooled.outer(mean, np.ones(1))[0]
    return np.broadcast_to(total, (len(mass), *np.shape(total)))


def projected_moments(covariance_type, moments, total):
    """Return moments that data can have, and whether these were outside."""
    mass, first, second = moments
    K, d = first.shape
    structure = COVARIANCES[covariance_type](K, d)
    left = bool((mass < 0).any())
    if structure.known and not left:
        return moments, False
    alive = mass > LEAST_SHARE * total
    alive_mass = np.where(alive, mass, 0.0)
    means = first / np.where(alive, mass, 1.0)[:, None]
    share = total * (alive_mass / alive_mass.sum())
    if structure.known:
        return Moments(share, share[:, None] * means, second), True
    scatter = structure.unpack(second) - structure.outer(means, alive_mass)
    covariances = structure.normalise(scatter, alive_mass)
    diagonals = structure.diagonals(covariances)
    # Rounding may leave a covariance this far below zero inside the set.
    scale = float(np.abs(diagonals).max(initial=0.0)) + float((means**2).max())
    slack = 1e-9 * scale + np.finfo(np.float64).tiny
    try:
        structure.precisions_cholesky(structure.shift(covariances.copy(), slack))
        inside = True
    except np.linalg.LinAlgError:
        inside = False
    if inside and not left:
        return moments, False
    covariances, _ = structure.repair(covariances, 0.0)
    scatter = structure.outer(means, share) + structure.scale(covariances, share)
    return Moments(share, share[:, None] * means, structure.pack(scatter)), True


def gaussian_penalty(settings, params, deviations):
    """Return the penalty of means, by their deviations from the prior's, and shapes."""
    delta, tau = settings.mean_penalty, settings.covariance_prior_strength
    if not (delta or tau):
        return 0.0
    structure = COVARIANCES[settings.covariance_type](*params.means.shape)
    factors, value = params.precisions_cholesky, 0.0
    if delta:
        value += delta / 2 * structure.mahalanobis(deviations, factors).sum()
    if tau and not structure.known:
        prior = structure.matrix(settings.covariance_prior)
        value += tau / 2 * structure.log_determinants(factors).sum()
        value += tau / 2 * structure.trace_product(prior, factors).sum()
    return float(value)
