"""Iterations with batches of rows in one call, for Gaussian mixtures.

The rows of a batch go through the tiles of the general E-step once; what is
remembered of them is subtracted from the responsibilities before these are summed, so
that a difference costs as much as a sum.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from sktem.mixture.kernels.linear_algebra import factor_inverses
from sktem.mixture.kernels.rows import prepare, scale_tile
from sktem.mixture.kernels.sums import N_PRODUCTS, add_products
from sktem.mixture.kernels.sweep_steps import (
    DIAGONAL,
    FULL,
    LEAST_MASS,
    SPHERICAL,
    TIED,
    UNIT,
    SweepPrior,
)
from sktem.mixture.kernels.tiles import (
    LANES,
    diagonal_log_joint,
    full_log_joint,
    pack_rows,
    softmax_tile,
    transform_tile,
)


class TileParams(NamedTuple):
    """Parameters in the form of the tiles, as `prepare` makes them.

    Attributes
    ----------
    constants : ndarray of shape (n_components,)
    matrices : ndarray of shape (K * width, width), (d, d) or (0, 1)
        Of full or tied covariances.
    scales : ndarray of shape (K, width)
        Of all others, ones for tied covariances.
    offsets : ndarray of shape (K, width)
    bound : ndarray of shape (1,)
    """

    constants: np.ndarray
    matrices: np.ndarray
    scales: np.ndarray
    offsets: np.ndarray
    bound: np.ndarray


class Moments(NamedTuple):
    """What the M-step makes of statistics.

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


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True)
def maximize_moments(s, kind, prior, moments):
    """Equal ``moments = model.maximize(s)`` where True, False where that needs care.

    It needs care where a component has hardly any mass or a covariance is not positive
    definite.
    """
    log_weights, means, covariances, factors = moments
    K, d = means.shape
    second = K + K * d
    mass = 0.0
    for k in range(K):
        if not s[k] > LEAST_MASS:
            return False
        mass += s[k]
    delta, tau = prior.mean_penalty, prior.strength
    for k in range(K):
        log_weights[k] = math.log(
            (s[k] + prior.concentration) / (mass + prior.concentration * K)
        )
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
                    value += prior.reg_covar
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


@njit(cache=True, nogil=True, error_model="numpy")
def iterate_batches(
    visits,
    gammas,
    recipe,
    prior,
    centre,
    moments,
    params,
    anchor,
    counts,
    shares,
    tables,
    work,
    statistics,
):
    """Iterate until the end or until a step needs care, and return how often.

    With r and q the responsibilities of a row as they are and as they are remembered,
    and c its coefficient, the change of a batch is ``sum_i c_i S(x_i, r_i - q_i)``;
    under online EM nothing is remembered. Draws are remembered as `counts`, exact
    responsibilities as `shares`, one of which has no rows.
    """
    rows, values, uniforms, edges, coefficients, row_shares = visits
    rho, incremental, convex, kind, forgets = recipe
    no_prior = SweepPrior(0.0, 0.0, 0.0, 0.0, 0.0 * prior.mean, prior.scale)
    K, d = moments.means.shape
    width = params.offsets.shape[1]
    s, S_tts, memory_mean, proxy, total_s = statistics
    new_s, new_S_tts = np.empty_like(s), np.empty_like(s)
    z = work[: (width + 2) * LANES]
    scaled = work[(width + 2) * LANES : (2 * width + 4) * LANES]
    y = work[(2 * width + 4) * LANES : (3 * width + 8) * LANES]
    rest = work[(3 * width + 8) * LANES :]
    joint, old = rest[: K * LANES], rest[K * LANES : 2 * K * LANES]
    rest = rest[2 * K * LANES :]
    maximum, total = rest[:LANES], rest[LANES : 2 * LANES]
    log_density, weight = rest[2 * LANES : 3 * LANES], rest[3 * LANES : 4 * LANES]
    products = rest[4 * LANES : (4 + N_PRODUCTS) * LANES]
    cumulated = np.empty(K)
    steps = (d, 1) if kind == DIAGONAL else (1, 0)
    n_draws = uniforms.shape[1]
    anchored = anchor.constants.shape[0] > 0
    one = total.shape[0] // LANES
    for lane in range(LANES):
        for i in range(d, width):
            z[i * LANES + lane] = 0.0
            y[i * LANES + lane] = 0.0
        scaled[(width + 1) * LANES + lane] = 0.0
    n_sets, n_iterations = edges.shape[0], edges.shape[1] - 1
    for t in range(n_iterations):
        proxy[:] = memory_mean
        for side in range(n_sets):
            refreshes = incremental or side == 1
            target = memory_mean if refreshes else proxy
            factors = row_shares if refreshes else coefficients
            scale = 1.0
            if forgets:
                # The mean over the batch, whatever its coefficients add up to.
                mass = 0.0
                for i in range(edges[side, t], edges[side, t + 1]):
                    mass += coefficients[i]
                scale = 1.0 / mass
            for start in range(edges[side, t], edges[side, t + 1], LANES):
                n_tile = min(LANES, edges[side, t + 1] - start)
                n_lanes = 0
                for theta in range(1 - anchored, 2):
                    # The anchor first, so that the tile ends with the parameters.
                    at = params if theta == 1 else anchor
                    n_lanes = pack_rows(
                        values, start, start + n_tile, centre, at.bound[0], width, z
                    )
                    into = joint if theta == 1 else old
                    if kind == FULL:
                        full_log_joint(
                            z, n_lanes, at.matrices, at.offsets, at.constants, y, into
                        )
                    else:
                        source = z
                        if kind == TIED:
                            transform_tile(z, n_lanes, at.matrices, y)
                            source = y
                        diagonal_log_joint(
                            source, n_lanes, at.scales, at.offsets, at.constants, into
                        )
                    softmax_tile(into, K, n_lanes, maximum, total, log_density)
                    for lane in range(n_lanes):
                        total[lane] = 1.0 / total[lane]
                    for k in range(K):
                        row = into[k * LANES : (k + 1) * LANES]
                        for lane in range(n_lanes):
                            row[lane] *= total[lane]
                for lane in range(n_tile):
                    weight[lane] = scale * factors[start + lane]
                for lane in range(n_tile, n_lanes):
                    weight[lane] = 0.0
                if n_draws > 0:
                    for lane in range(n_tile):
                        mass = 0.0
                        last = 0
                        for k in range(K):
                            share = joint[k * LANES + lane]
                            mass += share
                            cumulated[k] = mass
                            last = k if share > 0.0 else last
                            joint[k * LANES + lane] = 0.0
                        for m in range(n_draws):
                            chosen = 0
                            for k in range(K):
                                chosen += uniforms[start + lane, m] >= cumulated[k]
                            joint[min(chosen, last) * LANES + lane] += 1.0 / n_draws
                if shares.shape[0] > 0:
                    # Eight rows at a time, which the memory fetches side by side.
                    for first in range(0, n_tile, 8):
                        for k in range(K):
                            for lane in range(first, min(first + 8, n_tile)):
                                number = rows[start + lane]
                                share = joint[k * LANES + lane]
                                joint[k * LANES + lane] = share - shares[number, k]
                                if refreshes:
                                    shares[number, k] = share
                elif counts.shape[0] > 0:
                    for lane in range(n_tile):
                        number = rows[start + lane]
                        mass = 0.0
                        for k in range(K):
                            mass += counts[number, k]
                        for k in range(K):
                            share = joint[k * LANES + lane]
                            before_k = counts[number, k] / mass if mass > 0.0 else 0.0
                            joint[k * LANES + lane] = share - before_k
                            if refreshes:
                                counts[number, k] = share * n_draws + 0.5
                elif anchored:
                    for f in range(K):
                        row = joint[f * LANES : (f + 1) * LANES]
                        before = old[f * LANES : (f + 1) * LANES]
                        for lane in range(n_lanes):
                            row[lane] -= before[lane]
                for lane in range(n_lanes):
                    total[lane] = 1.0
                scale_tile(z, d, width, n_lanes, weight, total, total, scaled)
                add_products(joint, K, z, scaled, n_lanes, tables[0], products, target)
                if forgets:
                    # Changes add up to nothing over the components.
                    add_products(
                        total, one, z, scaled, n_lanes, tables[1], products, target
                    )
        if incremental:
            proxy[:] = memory_mean
        if t == n_iterations - 1:
            break
        gamma = gammas[t]
        for f in range(s.shape[0]):
            # A step of 1 takes the target itself, without a rounding.
            step = rho * (proxy[f] - S_tts[f])
            new_S_tts[f] = proxy[f] if rho == 1.0 else S_tts[f] + step
            step = gamma * (new_S_tts[f] - s[f])
            new_s[f] = new_S_tts[f] if gamma == 1.0 else s[f] + step
        if not convex and not maximize_moments(new_S_tts, kind, no_prior, moments):
            return t + 1
        if not maximize_moments(new_s, kind, prior, moments):
            return t + 1
        params.offsets[:] = 0.0
        params.bound[0] = prepare(
            moments.log_weights,
            moments.means,
            moments.factors.ravel(),
            steps,
            params.constants,
            params.matrices,
            params.scales,
            params.offsets,
        )
        for f in range(s.shape[0]):
            S_tts[f] = new_S_tts[f]
            s[f] = new_s[f]
            total_s[f] += s[f]
    return n_iterations
