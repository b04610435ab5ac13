"""Tiles of chosen rows: changes of their responsibilities, and sums of changes.

Remembered responsibilities are subtracted from those of the rows before these are
summed, so that a difference costs as much as a sum.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from sktem.kernels.prefetch import LINE, prefetch_outer
from sktem.mixture.kernels.rows import carve_tile, prepare, scale_tile, work_size
from sktem.mixture.kernels.sums import N_PRODUCTS, add_products
from sktem.mixture.kernels.sweep_steps import DIAGONAL, FULL, TIED
from sktem.mixture.kernels.tiles import (
    INNER,
    LANE_GROUP,
    LANES,
    PART,
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
    """Prefetch chosen rows of a table of float64.

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
def subtract_shares(joint, numbers, shares, refreshes):
    """Subtract the remembered responsibilities, and remember the present ones."""
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


class Tile(NamedTuple):
    """Arrays of a tile of rows; each tile overwrites those of the one before.

    Attributes
    ----------
    z, scaled, y : ndarray
        Rows, rows times weights, and transformed rows.
    both, joint, old : ndarray
        Responsibilities: all, those of the parameters, and those of the anchor.
    maximum, total, log_density, weight : ndarray of shape (LANES,)
        Of each row.
    products : ndarray of shape (N_PRODUCTS * LANES,)
        Products of columns.
    cumulated : ndarray of shape (n_components,)
        Sums of the responsibilities of a row.
    """

    z: np.ndarray
    scaled: np.ndarray
    y: np.ndarray
    both: np.ndarray
    joint: np.ndarray
    old: np.ndarray
    maximum: np.ndarray
    total: np.ndarray
    log_density: np.ndarray
    weight: np.ndarray
    products: np.ndarray
    cumulated: np.ndarray


class Tables(NamedTuple):
    """Tables of rows that a sweep reads, and the values that it remembers of them.

    Attributes
    ----------
    values : ndarray of shape (n_values, n_features)
        Rows.
    places, rows : ndarray of int of shape (n_visits,)
        Where visited rows are in `values`, and in what is remembered.
    counts, shares : ndarray of shape (n_rows, n_components)
        Remembered draws and responsibilities, at least one of which has no rows.
    portion : int
        Rows of the next tile that are asked for at a time.
    """

    values: np.ndarray
    places: np.ndarray
    rows: np.ndarray
    counts: np.ndarray
    shares: np.ndarray
    portion: int


@njit(**PART)
def prefetch_portion(tables, start):
    """Prefetch the next rows and their remembered responsibilities."""
    stop = start + tables.portion
    prefetch_rows(tables.values, tables.places[start:stop])
    if tables.shares.shape[0] > 0:
        prefetch_rows(tables.shares, tables.rows[start:stop])


@njit(**PART)
def new_tile(K, width, d):
    """Return arrays of a tile, side by side, zero where rows have no columns."""
    work = np.empty(work_size(width, 2 * K))
    parts = carve_tile(work, width, d, 2 * K)
    z, scaled, y, both, maximum, total, log_density, weight, products = parts
    joint, old = both[: K * LANES], both[K * LANES :]
    return Tile(
        z, scaled, y, both, joint, old, maximum, total, log_density, weight, products,
        np.empty(K),
    )  # fmt: skip


@njit(**PART)
def set_responsibilities(tile, n_lanes, params, kind, tables, ahead):
    """Compute responsibilities; return the first row that has not been asked for."""
    K, width = params.offsets.shape[1], params.offsets.shape[2]
    last = params.bounds.shape[0] - 1
    for at in range(last + 1):
        # The anchor comes first, so that the tile ends with the parameters.
        into = tile.both[(last - at) * K * LANES : (last - at + 1) * K * LANES]
        source = tile.z
        if kind == TIED:
            transform_tile(tile.z, n_lanes, params.matrices[at], tile.y)
            source = tile.y
        for k in range(K):
            if at == 0:
                prefetch_portion(tables, ahead)
                ahead += tables.portion
            offsets = params.offsets[at, k : k + 1]
            constants = params.constants[at, k : k + 1]
            target = into[k * LANES : (k + 1) * LANES]
            if kind == FULL:
                matrix = params.matrices[at, k * width : (k + 1) * width]
                full_log_joint(
                    tile.z, n_lanes, matrix, offsets, constants, tile.y, target
                )
            else:
                scales = params.scales[at, k : k + 1]
                diagonal_log_joint(source, n_lanes, scales, offsets, constants, target)
        softmax_tile(into, K, n_lanes, tile.maximum, tile.total, tile.log_density)
        for lane in range(n_lanes):
            tile.total[lane] = 1.0 / tile.total[lane]
        for k in range(K):
            row = into[k * LANES : (k + 1) * LANES]
            for lane in range(n_lanes):
                row[lane] *= tile.total[lane]
    return ahead


@njit(**PART)
def set_changes(tile, n_lanes, uniforms, tables, first, n_rows, refreshes, has_anchor):
    """Replace responsibilities by those of draws, and subtract remembered ones."""
    n_draws = uniforms.shape[1]
    if n_draws > 0:
        draw_tile(tile.joint, uniforms[first : first + n_rows], tile.cumulated)
    numbers = tables.rows[first : first + n_rows]
    if tables.shares.shape[0] > 0:
        subtract_shares(tile.joint, numbers, tables.shares, refreshes)
    elif tables.counts.shape[0] > 0:
        subtract_counts(tile.joint, numbers, tables.counts, refreshes, n_draws)
    elif has_anchor:
        for k in range(tile.cumulated.shape[0]):
            row = tile.joint[k * LANES : (k + 1) * LANES]
            before = tile.old[k * LANES : (k + 1) * LANES]
            for lane in range(n_lanes):
                row[lane] -= before[lane]


@njit(**PART)
def add_changes(tile, n_lanes, d, forgets, products, target, tables, ahead):
    """Add products of rows with changes, which sum to zero over the components."""
    K, width = tile.cumulated.shape[0], tile.scaled.shape[0] // LANES - 2
    single = tile.total.shape[0] // LANES
    for lane in range(n_lanes):
        tile.total[lane] = 1.0
    scale_tile(
        tile.z, d, width, n_lanes, tile.weight, tile.total, tile.total, tile.scaled
    )
    for part in range(1 + forgets):
        r, n_sums = (tile.total, single) if part else (tile.joint, K)
        table = products[part]
        for f in range(0, table.shape[1], N_PRODUCTS):
            prefetch_portion(tables, ahead)
            ahead += tables.portion
            add_products(
                r, n_sums, tile.z, tile.scaled, n_lanes,
                table[:, f : f + N_PRODUCTS], tile.products, target,
            )  # fmt: skip


@njit(**PART)
def set_params(params, moments, kind):
    """Bring the parameters of an M-step to the form of the tiles."""
    last = params.bounds.shape[0] - 1
    steps = (moments.means.shape[1], 1) if kind == DIAGONAL else (1, 0)
    params.offsets[last] = 0.0
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
