"""Iterations with batches of rows in one call, for Gaussian mixtures."""

import numpy as np
from numba import njit

from sktem.mixture.kernels.batch_tiles import (
    Tables,
    add_changes,
    new_tile,
    pack_chosen,
    set_changes,
    set_params,
    set_responsibilities,
)
from sktem.mixture.kernels.moments import maximize_moments
from sktem.mixture.kernels.sums import N_PRODUCTS
from sktem.mixture.kernels.tiles import LANES, OUTER, PART


@njit(**PART)
def take_step(statistics, gamma, rho, new_s, new_S_tts):
    """Compute the next reduced and averaged statistics."""
    s, S_tts, _, proxy, _ = statistics
    for f in range(s.shape[0]):
        # A step of 1 takes the target itself, without a rounding.
        step = rho * (proxy[f] - S_tts[f])
        new_S_tts[f] = proxy[f] if rho == 1.0 else S_tts[f] + step
        step = gamma * (new_S_tts[f] - s[f])
        new_s[f] = new_S_tts[f] if gamma == 1.0 else s[f] + step


@njit(**OUTER, error_model="numpy")
def iterate_batches(
    visits,
    gammas,
    recipe,
    prior,
    centre,
    moments,
    params,
    remembered,
    products,
    statistics,
):
    """Iterate until the end or until a step needs care, and return how often.

    With r and q the responsibilities of a row as they are and as they are remembered,
    and c its coefficient, the change of a batch is ``sum_i c_i S(x_i, r_i - q_i)``;
    under online EM nothing is remembered. The two tables of what is remembered are
    counts of draws and exact responsibilities, one of which has no rows.
    """
    rows, values, places, uniforms, edges, coefficients, row_shares = visits
    rho, incremental, convex, kind, forgets = recipe
    K, d = moments.means.shape
    width = params.offsets.shape[2]
    s, S_tts, memory_mean, proxy, total_s = statistics
    new_s, new_S_tts = np.empty_like(s), np.empty_like(s)
    tile = new_tile(K, width, d)
    portion = LANES // (K + products[0].shape[1] // N_PRODUCTS) + 1
    tables = Tables(values, places, rows, remembered[0], remembered[1], portion)
    last = params.bounds.shape[0] - 1
    n_sets, n_iterations = edges.shape[0], edges.shape[1] - 1
    for t in range(n_iterations):
        for f in range(s.shape[0]):
            proxy[f] = memory_mean[f]
        bound = min(params.bounds[0], params.bounds[last])
        for side in range(n_sets):
            refreshes = incremental or side == 1
            target = memory_mean if refreshes else proxy
            factors = row_shares if refreshes else coefficients
            first, stop = edges[side, t], edges[side, t + 1]
            scale = 1.0
            if forgets:
                # The mean over the batch, whatever its coefficients add up to.
                scale = 1.0 / coefficients[first:stop].sum()
            for start in range(first, stop, LANES):
                n_rows = min(LANES, stop - start)
                chosen = places[start : start + n_rows]
                n_lanes = pack_chosen(values, chosen, centre, bound, width, tile.z)
                for lane in range(n_lanes):
                    inside = lane < n_rows
                    tile.weight[lane] = scale * factors[start + lane] if inside else 0.0
                ahead = set_responsibilities(
                    tile, n_lanes, params, kind, tables, start + n_rows
                )
                set_changes(
                    tile, n_lanes, uniforms, tables, start, n_rows, refreshes, last > 0
                )
                add_changes(tile, n_lanes, d, forgets, products, target, tables, ahead)
        if incremental:
            for f in range(s.shape[0]):
                proxy[f] = memory_mean[f]
        if t == n_iterations - 1:
            break
        take_step(statistics, gammas[t], rho, new_s, new_S_tts)
        # Reduced statistics are only checked.
        for side in range(convex, 2):
            of = new_s if side else new_S_tts
            if not maximize_moments(of, kind, prior, float(side), moments):
                return t + 1
        set_params(params, moments, kind)
        for f in range(s.shape[0]):
            S_tts[f] = new_S_tts[f]
            s[f] = new_s[f]
            total_s[f] += s[f]
    return n_iterations
