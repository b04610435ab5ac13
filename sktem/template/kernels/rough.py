"""Templates as expansions about nodes: residuals in a fifth of the time of a spline."""

import numpy as np
from numba import njit, typeof

from sktem.template.kernels.addresses import FLAT, STEP, TABLE, by_address, for_types_of
from sktem.template.kernels.products import FAST, ONE, ZERO

__all__ = ["EVERY", "compare_roughly", "expansions", "rough_step_of"]

#: Nodes of the spline from one expansion to the next. A template changes little over
#: a node, of which its kernel's standard deviation has four.
EVERY = 2

#: Weights of three neighbouring B-spline coefficients for the value, the slope and the
#: second derivative at the middle one.
STENCILS = np.array([[1 / 6, 2 / 3, 1 / 6], [-0.5, 0.0, 0.5], [1.0, -2.0, 1.0]])


def expansions(table) -> np.ndarray:
    """Return second-order expansions of a template with one or two axes.

    Parameters
    ----------
    table : ndarray of shape (1, n1, n2)
        B-spline coefficients; n1 is 1 for signals.

    Returns
    -------
    ndarray of shape (ceil(n1 / 2), ceil(n2 / 2), 6)
        At every second node the value, the slopes along both axes and the derivatives
        along the first axis twice, along both, and along the second twice; a unit of
        length is the distance of these nodes.
    """
    orders = [(0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2)]
    parts = []
    for order in orders:
        part = table[0]
        for axis, derivative in enumerate(order):
            part = _at_nodes(part, axis, STENCILS[derivative])
        parts.append(part[::EVERY, ::EVERY] * EVERY ** sum(order))
    return np.ascontiguousarray(np.stack(parts, axis=-1))


def _at_nodes(values, axis, stencil):
    """Return sums of neighbours along an axis, zero at its ends."""
    if values.shape[axis] == 1:
        return values * stencil.sum()
    moved = np.moveaxis(values, axis, 0)
    found = np.zeros_like(moved)
    parts = moved[:-2], moved[1:-1], moved[2:]
    found[1:-1] = sum(w * part for w, part in zip(stencil, parts, strict=True))
    return np.moveaxis(found, 0, axis)


def rough_step_of(grid):
    """Return `compare_roughly` as an argument of what calls it."""
    return for_types_of(_rough_step, grid)


def _rough_step(grid):
    return by_address(compare_roughly, TABLE, typeof(grid), FLAT)


@njit(**STEP, fastmath=FAST)
def compare_roughly(table, grid, work):
    """Return the sum of squared residuals, and fill these and the slopes.

    As `compare` in ``field.py``, for images with one or two axes and with the
    `expansions` of a template in place of its spline: the value at a distance (p, q)
    from the nearest of the nodes is ``v + p d + q e + (p p a + 2 p q b + q q c) / 2``.
    """
    numbers, n_pixels = grid.numbers, grid.n_pixels
    scale = grid.scale / EVERY
    last = (grid.n_axes - ONE) * n_pixels
    row = grid.positions + grid.m0
    column = row + grid.m1
    bottom, right = table.shape[0] - 1, table.shape[1] - 1
    total = 0.0
    u = ZERO
    for i in range(grid.m1):
        for j in range(grid.m2):
            error = along1 = along2 = 0.0
            seen = work[grid.image + u]
            at = grid.field + last + u
            if not np.isnan(seen):
                error = seen
                t1 = numbers[row + i] / EVERY
                t2 = numbers[column + j] / EVERY - scale * work[at]
                if last > ZERO:
                    t1 -= scale * work[at - n_pixels]
                if 0.0 <= t1 <= bottom and 0.0 <= t2 <= right:
                    # Signed numbers are converted in one instruction.
                    m, n = np.int64(t1 + 0.5), np.int64(t2 + 0.5)
                    p, q = t1 - m, t2 - n
                    node = table[np.uint64(m), np.uint64(n)]
                    a, b, c = node[3], node[4], node[5]
                    along1 = node[1] + a * p + b * q
                    along2 = node[2] + b * p + c * q
                    error -= node[0] + 0.5 * (
                        p * (node[1] + along1) + q * (node[2] + along2)
                    )
            work[grid.residual + u] = error
            total += error * error
            slope = grid.slopes + last + u
            work[slope] = scale * along2
            if last > ZERO:
                work[slope - n_pixels] = scale * along1
            u += ONE
    return total
