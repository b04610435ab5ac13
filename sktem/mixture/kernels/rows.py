"""Expectation step of Gaussian mixtures over a block of rows.

Each function walks over tiles of rows and keeps only what fits the caches. The
caller provides the work space and the outputs.
"""

import math

from numba import njit
from numba.extending import register_jitable

from sktem.mixture.kernels.sums import N_PRODUCTS, add_products
from sktem.mixture.kernels.tiles import (
    FAST,
    INNER,
    LANES,
    OUTER,
    WHOLE_GROUPS,
    diagonal_log_joint,
    full_log_joint,
    pack_rows,
    softmax_tile,
    transform_tile,
)

# Values are held within a bound so that their squares stay below the square of this.
LARGEST_VALUE = 1e150


@register_jitable
def work_size(width, n_components):
    """Return the length of the work space of the functions below."""
    return (3 * width + 8 + n_components + 4 + N_PRODUCTS) * LANES


@njit(**OUTER, error_model="numpy")
def prepare(
    log_weights, means, precisions, steps, constants, matrices, scales, offsets
):
    """Bring parameters to the form that the tiles want.

    With P the Cholesky factors of the precisions, equal
    ``constants = log_weights + log_determinants - d / 2 * np.log(2 * np.pi)`` and
    ``offsets = means @ P / np.sqrt(2)``. The triangular ``P / np.sqrt(2)`` go to
    `matrices`, one after another or a single one for all components. If there are
    none, the diagonals, which are ``precisions[k * steps[0] + i * steps[1]]``, go to
    `scales`. `precisions` comes flat and the outputs come as zeros.

    Returned is the bound on the rows within which no quadratic form overflows.
    """
    n_components, d = means.shape
    width = matrices.shape[1]
    half = math.sqrt(0.5)
    largest = 1.0
    log_determinant = 0.0
    for k in range(n_components):
        first = 0
        if k * width < matrices.shape[0]:
            first = k * width
            log_determinant = 0.0
            for i in range(d):
                log_determinant += math.log(precisions[(k * d + i) * d + i])
                for j in range(i, d):
                    value = precisions[(k * d + i) * d + j] * half
                    matrices[first + i, j] = value
                    largest = max(largest, abs(value))
        if matrices.shape[0] > 0:
            for i in range(d):
                for j in range(i, d):
                    offsets[k, j] += means[k, i] * matrices[first + i, j]
        else:
            log_determinant = 0.0
            log_value = 0.0
            for i in range(d):
                value = precisions[k * steps[0] + i * steps[1]]
                if i == 0 or steps[1] != 0:
                    log_value = math.log(value)
                log_determinant += log_value
                scales[k, i] = value * half
                offsets[k, i] = means[k, i] * scales[k, i]
                largest = max(largest, value)
        constants[k] = log_weights[k] + log_determinant
        constants[k] -= 0.5 * d * math.log(2.0 * math.pi)
    return LARGEST_VALUE / (largest * d)


@njit(**INNER, fastmath=FAST, error_model="numpy")
def scale_tile(z, n_features, width, n_lanes, weight, total, log_density, scaled):
    """Set up the other columns that `add_products` multiplies.

    Equal ``scaled[width] = weight / total`` where the total is positive, else 0,
    ``scaled[:d] = z[:d] * scaled[width]`` and ``z[width + 1] = (z[:d] ** 2).sum(0)``.
    Returned is ``weight @ log_density``.
    """
    n_lanes &= WHOLE_GROUPS
    length = z[(width + 1) * LANES : (width + 2) * LANES]
    scale = scaled[width * LANES : (width + 1) * LANES]
    log_likelihood = 0.0
    for lane in range(n_lanes):
        length[lane] = 0.0
        quotient = weight[lane] / total[lane]
        scale[lane] = quotient if total[lane] > 0.0 else 0.0
        log_likelihood += weight[lane] * log_density[lane]
    for i in range(n_features):
        row = z[i * LANES : (i + 1) * LANES]
        target = scaled[i * LANES : (i + 1) * LANES]
        for lane in range(n_lanes):
            length[lane] += row[lane] * row[lane]
            target[lane] = row[lane] * scale[lane]
    return log_likelihood


@njit(**INNER)
def carve_tile(work, width, n_features, n_components):
    """Cut the work space of a tile, and clear the padding of its columns.

    Returned are the columns, these scaled, and transformed; log-joints by component;
    maximum, total, log-density and weight of each row; products of columns.
    """
    z = work[: (width + 2) * LANES]
    scaled = work[(width + 2) * LANES : (2 * width + 4) * LANES]
    y = work[(2 * width + 4) * LANES : (3 * width + 8) * LANES]
    rest = work[(3 * width + 8) * LANES :]
    joint = rest[: n_components * LANES]
    rest = rest[n_components * LANES :]
    maximum, total = rest[:LANES], rest[LANES : 2 * LANES]
    log_density, weight = rest[2 * LANES : 3 * LANES], rest[3 * LANES : 4 * LANES]
    products = rest[4 * LANES : (4 + N_PRODUCTS) * LANES]
    for lane in range(LANES):
        for i in range(n_features, width):
            z[i * LANES + lane] = 0.0
            y[i * LANES + lane] = 0.0
        scaled[(width + 1) * LANES + lane] = 0.0
    return z, scaled, y, joint, maximum, total, log_density, weight, products


@njit(**OUTER, error_model="numpy")
def mixture_rows(
    X,
    latents,
    weights,
    description,
    tables,
    work,
    sums,
    responsibilities,
    log_densities,
    labels,
):
    """Compute the outputs that have a length, for a block of rows.

    With ``log_joint[:, k] = constants[k] - ((Z @ P[k] - offsets[k]) ** 2).sum(1)``
    and Z the rows about the centre, equal
    ``log_densities = logsumexp(log_joint, axis=1)``,
    ``responsibilities = np.exp(log_joint - log_densities[:, None])``,
    ``labels = responsibilities.argmax(axis=1)``, and `sums` gains what
    `add_products` makes of `weights` times responsibilities. Returned is
    ``weights @ log_densities``, if there are sums. Weights without a length are ones.
    Latents with a length, of any sum in a row, stand for the responsibilities, where
    rows without mass add nothing.
    """
    n_rows, d = X.shape
    centre, bound, constants, transform, precisions, offsets, is_full = description
    table, tied_table = tables
    n_components = constants.shape[0]
    width = offsets.shape[1]
    tile = carve_tile(work, width, d, n_components)
    z, scaled, y, joint, maximum, total, log_density, weight, products = tile
    # A variable, as the compiler would specialise `add_products` for a constant.
    single = total.shape[0] // LANES
    log_likelihood = 0.0
    for start in range(0, n_rows, LANES):
        n_tile = min(LANES, n_rows - start)
        n_lanes = pack_rows(X, start, start + n_tile, centre, bound, width, z)
        if latents.shape[0] > 0:
            for lane in range(n_lanes):
                total[lane] = 0.0
                log_density[lane] = 0.0
            for k in range(n_components):
                row = joint[k * LANES : (k + 1) * LANES]
                for lane in range(n_tile):
                    row[lane] = latents[start + lane, k]
                    total[lane] += row[lane]
                for lane in range(n_tile, n_lanes):
                    row[lane] = 0.0
        else:
            if is_full:
                full_log_joint(z, n_lanes, precisions, offsets, constants, y, joint)
            elif transform.shape[0] > 0:
                transform_tile(z, n_lanes, transform, y)
                diagonal_log_joint(y, n_lanes, precisions, offsets, constants, joint)
            else:
                diagonal_log_joint(z, n_lanes, precisions, offsets, constants, joint)
            softmax_tile(joint, n_components, n_lanes, maximum, total, log_density)
        if sums.shape[0] > 0:
            if weights.shape[0] > 0:
                for lane in range(n_tile):
                    weight[lane] = weights[start + lane]
            else:
                for lane in range(n_tile):
                    weight[lane] = 1.0
            for lane in range(n_tile, n_lanes):
                weight[lane] = 0.0
            log_likelihood += scale_tile(
                z, d, width, n_lanes, weight, total, log_density, scaled
            )
            # The total over components undoes the division by it in `scaled`.
            for part in range(2):
                r, n_sums = (total, single) if part else (joint, n_components)
                at = tied_table if part else table
                add_products(r, n_sums, z, scaled, n_lanes, at, products, sums)
        if log_densities.shape[0] > 0:
            for lane in range(n_tile):
                log_densities[start + lane] = log_density[lane]
        if responsibilities.shape[0] > 0:
            for lane in range(n_tile):
                for k in range(n_components):
                    value = joint[k * LANES + lane] / total[lane]
                    responsibilities[start + lane, k] = value
        if labels.shape[0] > 0:
            # Quotients are compared, not terms: rounding may make them equal.
            for lane in range(n_tile):
                best = 0
                largest = -1.0
                for k in range(n_components):
                    value = joint[k * LANES + lane] / total[lane]
                    if value > largest:
                        best = k
                        largest = value
                labels[start + lane] = best
    return log_likelihood


@njit(**OUTER)
def draw_counts_rows(responsibilities, uniforms, cumulative, counts):
    """Count, for every row, the draws that fall to each component.

    Equal ``k = np.minimum((u >= r.cumsum()).sum(), last)`` for each uniform u, where
    `last` is the last component with a positive responsibility: it takes what
    rounding leaves of the unit interval.
    """
    n_components = responsibilities.shape[1]
    for row in range(responsibilities.shape[0]):
        mass = 0.0
        last = 0
        for k in range(n_components):
            mass += responsibilities[row, k]
            cumulative[k] = mass
            if responsibilities[row, k] > 0.0:
                last = k
            counts[row, k] = 0
        for draw in range(uniforms.shape[1]):
            uniform = uniforms[row, draw]
            chosen = 0
            for k in range(n_components):
                chosen += uniform >= cumulative[k]
            counts[row, min(chosen, last)] += 1
