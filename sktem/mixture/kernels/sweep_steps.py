"""Records of sweeps, and the steps of an iteration with a batch of one row.

Rows come centred, and covariances are unit, spherical or diagonal, so that every
component has one precision per feature. Functions are few, because the compiler
spends more time on each function than on its loops.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from sktem.kernels.exponential import exponential
from sktem.mixture.kernels.rows import LARGEST_VALUE
from sktem.mixture.kernels.tiles import INNER

UNIT, SPHERICAL, DIAGONAL, FULL, TIED = range(5)

# A component with less mass is left to the model's own M-step. It is more than what
# the model takes for a component without data, so that the model decides on those.
LEAST_MASS = 1e-14


class SweepParams(NamedTuple):
    """Parameters in the form of the E-step of one row.

    Attributes
    ----------
    constants : ndarray of shape (n_components,)
        Logarithm of the weight, less half the log-determinant of the covariance.
    means : ndarray of shape (n_components, n_features)
        Means relative to the centre.
    half_precisions : ndarray of shape (n_components, n_features)
        Half the inverse variances.
    """

    constants: np.ndarray
    means: np.ndarray
    half_precisions: np.ndarray


class SweepPrior(NamedTuple):
    """Settings of the M-step.

    Attributes
    ----------
    mean_penalty, concentration, strength, reg_covar : float
        delta, epsilon, tau and what is added to the variances.
    mean : ndarray of shape (n_features,)
        Prior mean relative to the centre.
    scale : ndarray of shape (n_features, n_features)
        Matrix towards which the covariances shrink.
    """

    mean_penalty: float
    concentration: float
    strength: float
    reg_covar: float
    mean: np.ndarray
    scale: np.ndarray


class SweepRecipe(NamedTuple):
    """The recursion and the kind of covariances.

    Attributes
    ----------
    rho : float
        Step of the Inc-step (8).
    incremental : bool
        Whether the proxy is the mean over remembered rows.
    convex : bool
        Whether averaged statistics cannot leave the feasible set.
    kind : int
        Kind of covariances.
    forgets : bool
        Whether the proxy is the mean over the batch, with nothing remembered.
    """

    rho: float
    incremental: bool
    convex: bool
    kind: int
    forgets: bool


class SweepStatistics(NamedTuple):
    """Statistics that the iterations change in place.

    Of the last iteration the averaged and reduced ones are still to be updated.

    Attributes
    ----------
    averaged : ndarray of shape (n_statistics,)
        s-hat of (7).
    reduced : ndarray of shape (n_statistics,)
        The variance-reduced statistics of (8).
    memory_mean : ndarray of shape (n_statistics,)
        Mean over all rows of remembered statistics, zeros for online EM.
    proxy : ndarray of shape (n_statistics,)
        The proxy of the last iteration.
    total : ndarray of shape (n_statistics,)
        Sum of the iterates, the last one not included.
    """

    averaged: np.ndarray
    reduced: np.ndarray
    memory_mean: np.ndarray
    proxy: np.ndarray
    total: np.ndarray


@njit(**INNER, error_model="numpy")
def draw_shares(z, params, uniforms, cumulated, shares):
    """Equal the posterior without uniforms, else the shares of the draws.

    With ``joint = constants - (half_precisions * (z - means) ** 2).sum(1)`` equal
    ``shares = softmax(joint)``, and with uniforms then ``shares = bincount(np.minimum(
    (u[:, None] >= shares.cumsum()).sum(1), last)) / len(u)``, `last` being the last
    component with a positive posterior probability.
    """
    K, d = params.means.shape
    best = 0
    largest = -np.inf
    bound = LARGEST_VALUE
    for attempt in range(2):
        if attempt == 1:
            # Every density has overflowed: come nearer, as the general E-step does.
            steepest = 1.0
            for k in range(K):
                for j in range(d):
                    steepest = max(steepest, math.sqrt(params.half_precisions[k, j]))
            bound = LARGEST_VALUE / (steepest * d)
        for k in range(K):
            joint = params.constants[k]
            for j in range(d):
                deviation = min(max(z[j], -bound), bound) - params.means[k, j]
                joint -= params.half_precisions[k, j] * (deviation * deviation)
            shares[k] = joint
            if joint > largest:
                largest = joint
                best = k
        if largest > -np.inf:
            break
    total = 0.0
    for k in range(K):
        # One exponential is spared: that of the largest term is 1.
        shares[k] = 1.0 if k == best else exponential(shares[k] - largest)
        total += shares[k]
    n_draws = uniforms.shape[0]
    mass = 0.0
    last = 0
    for k in range(K):
        shares[k] /= total
        if n_draws > 0:
            if shares[k] > 0.0:
                last = k
            mass += shares[k]
            cumulated[k] = mass
            shares[k] = 0.0
    for m in range(n_draws):
        chosen = 0
        for k in range(K):
            chosen += uniforms[m] >= cumulated[k]
        shares[min(chosen, last)] += 1.0
    if n_draws > 0:
        for k in range(K):
            shares[k] /= n_draws


@njit(**INNER, error_model="numpy")
def add_statistics(z, shares, factor, kind, sums):
    """Equal ``sums += factor * np.concatenate([r, (r z).ravel(), second])``.

    Here r are the `shares` as a column, and second is nothing (unit), ``r * z @ z``
    (spherical) or ``(r * z**2).ravel()`` (diagonal).
    """
    K = shares.shape[0]
    d = z.shape[0]
    second = K + K * d
    length = 0.0
    if kind == SPHERICAL:
        for j in range(d):
            length += z[j] * z[j]
    for k in range(K):
        share = factor * shares[k]
        sums[k] += share
        for j in range(d):
            sums[K + k * d + j] += share * z[j]
        if kind == SPHERICAL:
            sums[second + k] += share * length
        elif kind == DIAGONAL:
            for j in range(d):
                sums[second + k * d + j] += share * (z[j] * z[j])


@njit(**INNER, error_model="numpy")
def is_feasible(s, n_components, n_features, kind):
    """Equal ``not model.project(s)[1]`` where True, False needs a closer look.

    True says that every component has some mass and a positive variance, ``second /
    mass - (first / mass) ** 2``.
    """
    K, d = n_components, n_features
    second = K + K * d
    for k in range(K):
        mass = s[k]
        if not mass > LEAST_MASS:
            return False
        variance = s[second + k] / mass if kind == SPHERICAL else 0.0
        for j in range(d):
            mean = s[K + k * d + j] / mass
            if kind == SPHERICAL:
                variance -= mean * mean
            elif kind == DIAGONAL:
                variance = s[second + k * d + j] / mass - mean * mean
                if not variance > 0.0:
                    return False
        if kind == SPHERICAL and not variance > 0.0:
            return False
    return True


@njit(**INNER, error_model="numpy")
def maximize(s, kind, prior, params):
    """Equal ``params = model.maximize(s)`` where True, False where that needs care.

    It needs care where a component has hardly any mass or a variance is not positive.
    The parameters are then not complete.
    """
    K, d = params.means.shape
    second = K + K * d
    total = prior.concentration * K
    for k in range(K):
        if not s[k] > LEAST_MASS:
            return False
        total += s[k]
    delta = prior.mean_penalty
    for k in range(K):
        pull = s[k] + delta
        divisor = s[k] + prior.strength
        constant = math.log((s[k] + prior.concentration) / total)
        variance = 0.0
        for j in range(d):
            mean = (s[K + k * d + j] + delta * prior.mean[j]) / pull
            params.means[k, j] = mean
            if kind == UNIT:
                continue
            scatter = s[second + k] / d
            if kind == DIAGONAL:
                scatter = s[second + k * d + j]
                variance = 0.0
            scatter -= pull * (mean * mean)
            scatter += delta * (prior.mean[j] * prior.mean[j])
            scatter += prior.strength * prior.scale[j, j]
            variance += scatter / divisor + prior.reg_covar
            if kind == SPHERICAL and j < d - 1:
                continue
            # Those of a spherical component have been added up over the features.
            n_features = d if kind == SPHERICAL else 1
            if not variance > 0.0:
                return False
            constant -= 0.5 * n_features * math.log(variance / n_features)
            for i in range(j + 1 - n_features, j + 1):
                params.half_precisions[k, i] = 0.5 * n_features / variance
        params.constants[k] = constant
    return True
