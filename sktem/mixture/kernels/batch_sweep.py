"""Iterations with batches of rows in one call, for Gaussian mixtures.

The rows of a batch go through the tiles of the general E-step once; what is
remembered of them is subtracted from the responsibilities before these are summed, so
that a difference costs as much as a sum.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from sktem.kernels.prefetch import LINE, prefetch_outer
from sktem.mixture.kernels.moments import maximize_moments
from sktem.mixture.kernels.rows import prepare, scale_tile
from sktem.mixture.kernels.sums import N_PRODUCTS, add_products
from sktem.mixture.kernels.sweep_steps import DIAGONAL, FULL, TIED
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
def prefetch_rows(table, numbers):
    """Have chosen rows of a table of float64 read before they are needed.

    Processors drop what they cannot wait for, so that few rows at a time are asked for,
    while there is something else to compute. A tile of rows, and what is remembered of
    them, can be as large as the innermost cache, which has to hold the present one.
    """
    size, line = np.uint64(8 * table.shape[1]), np.uint64(LINE)
    address = np.uint64(table.ctypes.data)
    for lane in range(numbers.shape[0]):
        at = address + size * np.uint64(numbers[lane])
        stop = at + size
        while at < stop:
            prefetch_outer(at)
            at = (at + line) & ~(line - np.uint64(1))


@njit(**INNER)
def prefetch_portion(values, places, shares, rows, start, length):
    """Ask for the next rows, and for what is remembered of them."""
    stop = start + length
    prefetch_rows(values, places[start:stop])
    if shares.shape[0] > 0:
        prefetch_rows(shares, rows[start:stop])


@njit(**INNER)
def subtract_shares(joint, numbers, shares, refreshes):
    """Subtract what is remembered of rows, and remember what they have now."""
    for k in range(shares.shape[1]):
        row = joint[k * LANES : (k + 1) * LANES]
        for lane in range(numbers.shape[0]):
            number = np.uint64(numbers[lane])
            share = row[lane]
            row[lane] = share - shares[number, k]
            if refreshes:
                shares[number, k] = share


@njit(**INNER, error_model="numpy")
def draw_tile(joint, uniforms, cumulated):
    """Replace responsibilities by shares of the draws."""
    n_draws, K = uniforms.shape[1], cumulated.shape[0]
    for lane in range(uniforms.shape[0]):
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
                chosen += uniforms[lane, m] >= cumulated[k]
            joint[min(chosen, best) * LANES + lane] += 1.0 / n_draws


@njit(**INNER, error_model="numpy")
def subtract_counts(joint, numbers, counts, refreshes, n_draws):
    """Subtract the shares of remembered counts, and remember those of the draws."""
    K = counts.shape[1]
    for lane in range(numbers.shape[0]):
        number = numbers[lane]
        mass = 0.0
        for k in range(K):
            mass += counts[number, k]
        for k in range(K):
            share = joint[k * LANES + lane]
            before = counts[number, k] / mass if mass > 0.0 else 0.0
            joint[k * LANES + lane] = share - before
            if refreshes:
                counts[number, k] = share * n_draws + 0.5


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
    single = total.shape[0] // LANES
    # Rows of the next tile that are asked for at a time.
    portion = LANES // (K + tables[0].shape[1] // N_PRODUCTS) + 1
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
                for lane in range(n_tile):
                    weight[lane] = scale * factors[start + lane]
                for lane in range(n_tile, n_lanes):
                    weight[lane] = 0.0
                ahead = stop
                for at in range(last + 1):
                    # The anchor comes first, so that the tile ends with the parameters.
                    into = both[(last - at) * K * LANES : (last - at + 1) * K * LANES]
                    source = z
                    if kind == TIED:
                        transform_tile(z, n_lanes, params.matrices[at], y)
                        source = y
                    for k in range(K):
                        if at == 0:
                            prefetch_portion(
                                values, places, shares, rows, ahead, portion
                            )
                            ahead += portion
                        offsets = params.offsets[at, k : k + 1]
                        constants = params.constants[at, k : k + 1]
                        target_k = into[k * LANES : (k + 1) * LANES]
                        if kind == FULL:
                            matrix = params.matrices[at, k * width : (k + 1) * width]
                            full_log_joint(
                                z, n_lanes, matrix, offsets, constants, y, target_k
                            )
                        else:
                            scales = params.scales[at, k : k + 1]
                            diagonal_log_joint(
                                source, n_lanes, scales, offsets, constants, target_k
                            )
                    softmax_tile(into, K, n_lanes, maximum, total, log_density)
                    for lane in range(n_lanes):
                        total[lane] = 1.0 / total[lane]
                    for k in range(K):
                        row = into[k * LANES : (k + 1) * LANES]
                        for lane in range(n_lanes):
                            row[lane] *= total[lane]
                if n_draws > 0:
                    draw_tile(joint, uniforms[start:stop], cumulated)
                if shares.shape[0] > 0:
                    numbers = rows[start:stop]
                    subtract_shares(joint, numbers, shares, refreshes)
                elif counts.shape[0] > 0:
                    numbers = rows[start:stop]
                    subtract_counts(joint, numbers, counts, refreshes, n_draws)
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
                    r, n_sums = (total, single) if part else (joint, K)
                    table = tables[part]
                    for f in range(0, table.shape[1], N_PRODUCTS):
                        prefetch_portion(values, places, shares, rows, ahead, portion)
                        ahead += portion
                        add_products(
                            r,
                            n_sums,
                            z,
                            scaled,
                            n_lanes,
                            table[:, f : f + N_PRODUCTS],
                            products,
                            target,
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
