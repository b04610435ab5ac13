"""Parameters of Gaussian mixtures from statistics, in compiled iterations."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from sktem.kernels.linear_algebra import factor_inverses
from sktem.mixture.kernels.sweep_steps import (
    DIAGONAL,
    FULL,
    LEAST_MASS,
    SPHERICAL,
    TIED,
    UNIT,
)
from sktem.mixture.kernels.tiles import INNER


class Moments(NamedTuple):
    """Parameters and factors that the M-step computes from statistics.

    Attributes
    ----------
    log_weights : ndarray of shape (K,)
    means : ndarray of shape (K, d)
    covariances, factors : ndarray of shape (n, d, d), (K, d, 1) or (K, 1, 1)
        Covariances, variances or one variance of each component, and the factors of
        their inverses.
    """

    log_weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    factors: np.ndarray


@njit(**INNER, error_model="numpy")
def maximize_moments(s, kind, prior, strength, moments):
    """Equal ``moments = model.maximize(s)`` where True, False where that needs care.

    It needs care where a component has hardly any mass or a covariance is not positive
    definite. The prior counts with a strength of 1, or not at all with 0.
    """
    log_weights, means, covariances, factors = moments
    K, d = means.shape
    second = K + K * d
    mass = 0.0
    for k in range(K):
        if not s[k] > LEAST_MASS:
            return False
        mass += s[k]
    delta, tau = strength * prior.mean_penalty, strength * prior.strength
    concentration = strength * prior.concentration
    for k in range(K):
        log_weights[k] = math.log((s[k] + concentration) / (mass + concentration * K))
        for i in range(d):
            first = s[K + k * d + i] + delta * prior.mean[i]
            means[k, i] = first / (s[k] + delta)
    if kind == UNIT:
        return True
    n_matrices = covariances.shape[0]
    triangle = d * (d + 1) // 2
    for c in range(n_matrices):
        divisor = (mass if kind == TIED else s[c]) + tau
        first_k, stop_k = (0, K) if kind == TIED else (c, c + 1)
        variance = 0.0
        for i in range(d):
            for j in range(0 if kind >= FULL else i, i + 1):
                if kind >= FULL:
                    scatter = s[second + c * triangle + i * (i + 1) // 2 + j]
                elif kind == DIAGONAL:
                    scatter = s[second + c * d + i]
                else:
                    scatter = s[second + c] / d
                for k in range(first_k, stop_k):
                    scatter -= (s[k] + delta) * means[k, i] * means[k, j]
                    scatter += delta * prior.mean[i] * prior.mean[j]
                value = (scatter + tau * prior.scale[i, j]) / divisor
                if i == j:
                    value += strength * prior.reg_covar
                if kind >= FULL:
                    covariances[c, i, j] = value
                elif kind == DIAGONAL:
                    covariances[c, i, 0] = value
                else:
                    variance += value / d
        if kind == SPHERICAL:
            covariances[c, 0, 0] = variance
    if kind >= FULL:
        return factor_inverses(covariances, factors)
    for c in range(n_matrices):
        for i in range(covariances.shape[1]):
            if not covariances[c, i, 0] > 0.0:
                return False
            factors[c, i, 0] = 1.0 / math.sqrt(covariances[c, i, 0])
    return True
