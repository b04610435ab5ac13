"""Iterations with batches of rows in one call, for Gaussian mixtures.

The rows of a batch go through the tiles of the general E-step once; what is
remembered of them is subtracted from the responsibilities before these are summed, so
that a difference costs as much as a sum.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from sktem.kernels.prefetch import LINE, prefetch
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
)
from sktem.mixture.kernels.tiles import (
    INNER,
    LANE_GROUP,
    LANES,
    OUTER,
    WHOLE_GROUPS,
    diagonal_log_joint,
    full_log_joint,
    softmax_tile,
    transform_tile,
)


class TileParams(NamedTuple):
    """Parameters in the form of the tiles, as `prepare` makes them.

    The anchor's, where there is one, come before the current ones.

    Attributes
    ----------
    constants : ndarray of shape (n_params, n_components)
    matrices : ndarray of shape (n_params, K * width, width), (., d, d) or (., 0, 1)
        Of full or tied covariances.
    scales : ndarray of shape (n_params, K, width)
        Of all others, ones for tied covariances.
    offsets : ndarray of shape (n_params, K, width)
    bounds : ndarray of shape (n_params,)
    """

    constants: np.ndarray
    matrices: np.ndarray
    scales: np.ndarray
    offsets: np.ndarray
    bounds: np.ndarray


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


@njit(**INNER)
def pack_chosen(X, places, centre, bound, width, z):
    """Equal ``pack_rows(X[places], 0, len(places), centre, bound, width, z)``."""
    n_rows = places.shape[0]
    n_lanes = (n_rows + LANE_GROUP - 1) & WHOLE_GROUPS
    for i in range(X.shape[1]):
        origin = centre[i]
        row = z[i * LANES : (i + 1) * LANES]
        for lane in range(n_rows):
            # Unsigned, so that the compiler need not ask whether it is negative.
            value = X[np.uint64(places[lane]), i] - origin
            value = value if value < bound else bound
            row[lane] = value if value > -bound else -bound
        for lane in range(n_rows, n_lanes):
            row[lane] = 0.0
    ones = z[width * LANES : (width + 1) * LANES]
    for lane in range(n_lanes):
        ones[lane] = 1.0
    return n_lanes


@njit(**INNER)
def read_ahead(table, numbers):
    """Have chosen rows of a table of float64 read before they are needed."""
    size, line = np.uint64(8 * table.shape[1]), np.uint64(LINE)
    address = np.uint64(table.ctypes.data)
    for lane in range(numbers.shape[0]):
        at = address + size * np.uint64(numbers[lane])
        stop = at + size
        while at < stop:
            prefetch(at)
            at = (at + line) & ~(line - np.uint64(1))


@njit(**INNER)
def subtract_shares(joint, numbers, shares, refreshes):
    """Subtract what is remembered of rows, and remember what they have now."""
    for lane in range(numbers.shape[0]):
        row = shares[np.uint64(numbers[lane])]
        for k in range(shares.shape[1]):
            share = joint[k * LANES + lane]
            joint[k * LANES + lane] = share - row[k]
            if refreshes:
                row[k] = share


@njit(**OUTER, error_model="numpy")
def iterate_batches(
    visits,
    gammas,
    recipe,
    prior,
    centre,
    moments,
    params,
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
    rows, values, places, uniforms, edges, coefficients, row_shares = visits
    rho, incremental, convex, kind, forgets = recipe
    K, d = moments.means.shape
    width = params.offsets.shape[2]
    s, S_tts, memory_mean, proxy, total_s = statistics
    new_s, new_S_tts = np.empty_like(s), np.empty_like(s)
    z = work[: (width + 2) * LANES]
    scaled = work[(width + 2) * LANES : (2 * width + 4) * LANES]
    y = work[(2 * width + 4) * LANES : (3 * width + 8) * LANES]
    rest = work[(3 * width + 8) * LANES :]
    both = rest[: 2 * K * LANES]
    joint, old = both[: K * LANES], both[K * LANES :]
    rest = rest[2 * K * LANES :]
    maximum, total = rest[:LANES], rest[LANES : 2 * LANES]
    log_density, weight = rest[2 * LANES : 3 * LANES], rest[3 * LANES : 4 * LANES]
    products = rest[4 * LANES : (4 + N_PRODUCTS) * LANES]
    cumulated = np.empty(K)
    steps = (d, 1) if kind == DIAGONAL else (1, 0)
    n_draws = uniforms.shape[1]
    last = params.bounds.shape[0] - 1
    one = total.shape[0] // LANES
    for lane in range(LANES):
        for i in range(d, width):
            z[i * LANES + lane] = 0.0
            y[i * LANES + lane] = 0.0
        scaled[(width + 1) * LANES + lane] = 0.0
    n_sets, n_iterations = edges.shape[0], edges.shape[1] - 1
    for t in range(n_iterations):
        for f in range(s.shape[0]):
            proxy[f] = memory_mean[f]
        bound = min(params.bounds[0], params.bounds[last])
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
                stop = start + n_tile
                n_lanes = pack_chosen(
                    values, places[start:stop], centre, bound, width, z
                )
                # While the processor computes: the next tile, and what is remembered.
                read_ahead(values, places[stop : stop + LANES])
                if shares.shape[0] > 0:
                    read_ahead(shares, rows[start:stop])
                for lane in range(n_tile):
                    weight[lane] = scale * factors[start + lane]
                for lane in range(n_tile, n_lanes):
                    weight[lane] = 0.0
                for at in range(last + 1):
                    # The anchor comes first, so that the tile ends with the parameters.
                    into = both[(last - at) * K * LANES : (last - at + 1) * K * LANES]
                    offsets, constants = params.offsets[at], params.constants[at]
                    if kind == FULL:
                        full_log_joint(
                            z, n_lanes, params.matrices[at], offsets, constants, y, into
                        )
                    else:
                        source = z
                        if kind == TIED:
                            transform_tile(z, n_lanes, params.matrices[at], y)
                            source = y
                        diagonal_log_joint(
                            source, n_lanes, params.scales[at], offsets, constants, into
                        )
                    softmax_tile(into, K, n_lanes, maximum, total, log_density)
                    for lane in range(n_lanes):
                        total[lane] = 1.0 / total[lane]
                    for k in range(K):
                        row = into[k * LANES : (k + 1) * LANES]
                        for lane in range(n_lanes):
                            row[lane] *= total[lane]
                if n_draws > 0:
                    for lane in range(n_tile):
                        mass = 0.0
                        best = 0
                        for k in range(K):
                            share = joint[k * LANES + lane]
                            mass += share
                            cumulated[k] = mass
                            best = k if share > 0.0 else best
                            joint[k * LANES + lane] = 0.0
                        for m in range(n_draws):
                            chosen = 0
                            for k in range(K):
                                chosen += uniforms[start + lane, m] >= cumulated[k]
                            joint[min(chosen, best) * LANES + lane] += 1.0 / n_draws
                if shares.shape[0] > 0:
                    numbers = rows[start : start + n_tile]
                    subtract_shares(joint, numbers, shares, refreshes)
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
                elif last > 0:
                    for k in range(K):
                        row = joint[k * LANES : (k + 1) * LANES]
                        before = old[k * LANES : (k + 1) * LANES]
                        for lane in range(n_lanes):
                            row[lane] -= before[lane]
                for lane in range(n_lanes):
                    total[lane] = 1.0
                scale_tile(z, d, width, n_lanes, weight, total, total, scaled)
                # Changes add up to nothing over the components.
                for part in range(1 + forgets):
                    r, n_sums = (total, one) if part else (joint, K)
                    add_products(
                        r, n_sums, z, scaled, n_lanes, tables[part], products, target
                    )
        if incremental:
            for f in range(s.shape[0]):
                proxy[f] = memory_mean[f]
        if t == n_iterations - 1:
            break
        gamma = gammas[t]
        for f in range(s.shape[0]):
            # A step of 1 takes the target itself, without a rounding.
            step = rho * (proxy[f] - S_tts[f])
            new_S_tts[f] = proxy[f] if rho == 1.0 else S_tts[f] + step
            step = gamma * (new_S_tts[f] - s[f])
            new_s[f] = new_S_tts[f] if gamma == 1.0 else s[f] + step
        # Reduced statistics are only checked.
        for side in range(convex, 2):
            of = new_s if side else new_S_tts
            if not maximize_moments(of, kind, prior, float(side), moments):
                return t + 1
        for k in range(K):
            for i in range(width):
                params.offsets[last, k, i] = 0.0
        params.bounds[last] = prepare(
            moments.log_weights,
            moments.means,
            moments.factors.ravel(),
            steps,
            params.constants[last],
            params.matrices[last],
            params.scales[last],
            params.offsets[last],
        )
        for f in range(s.shape[0]):
            S_tts[f] = new_S_tts[f]
            s[f] = new_s[f]
            total_s[f] += s[f]
    return n_iterations
