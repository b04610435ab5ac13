"""Modes of the landmarks of images, and curvatures of their densities."""

from collections import namedtuple

import numpy as np
from numba import njit, typeof

from sktem.kernels.options import OUTER
from sktem.template.kernels.addresses import (
    FLAT,
    NUMBER,
    STEP,
    by_address,
    for_types_of,
)
from sktem.template.kernels.field import new_work, steps_of
from sktem.template.kernels.flow import add_squares, pull_back
from sktem.template.kernels.products import (
    FAST,
    FOUR,
    ONE,
    PART,
    TWO,
    ZERO,
    clear,
    copy_vector,
    fetch,
    product,
    products,
    quadratic,
)

__all__ = [
    "Levels",
    "ModeValues",
    "Pairs",
    "add_curvature",
    "modes",
    "new_pairs",
    "sum_curvatures",
]

#: Products ``P0, P1, P2`` (pairs, pixels) of the kernels of two landmarks along the
#: axes, in the flat array ``numbers``, where the last two begin, the numbers of pairs
#: along each axis, and the indices of pairs (landmarks, landmarks), ``index``.
Pairs = namedtuple("Pairs", "numbers P1 P2 n0 n1 n2 index")

#: A search for modes: factors ``levels`` of the noise variance, of which the last is 1,
#: steps at one level at most, ``max_steps``, the least gain of a step for its level to
#: continue in nats, ``gains``, and ``hold``, the share of the gain that is expected of
#: a step from which on the next step at the same level has the same matrix; infinity
#: renews it for every step.
Levels = namedtuple("Levels", "levels max_steps gains hold")

#: Sums of squared residuals at modes, ``rss``, log-determinants of the Gauss-Newton
#: Hessians there, ``log_det``, and their Cholesky factors, ``lowers``, if these are
#: wanted: else that array is empty.
ModeValues = namedtuple("ModeValues", "rss log_det lowers")

#: Damping of the first step, its factors after a success and a failure, its limit.
FIRST_DAMPING, EASE, TIGHTEN, MOST_DAMPING = 1e-2, 0.2, 5.0, 1e8


def new_pairs(products, index) -> Pairs:
    """Return products of kernels, each (pairs, pixels)."""
    starts = np.cumsum([product.size for product in products])[:2]
    sizes = (*starts, *map(len, products))
    numbers = np.concatenate([product.ravel() for product in products])
    return Pairs._make([numbers, *map(np.uint64, sizes), index])


def room_of_maps(grid, pairs) -> int:
    """Return how many numbers `add_curvature` needs."""
    m0, m1 = int(grid.m0), int(grid.m1)
    n0, n1, n2 = int(pairs.n0), int(pairs.n1), int(pairs.n2)
    return m0 * m1 * n2 + m0 * n1 * n2 + n0 * n1 * n2


@njit(**STEP)
def add_curvature(grid, pairs, work, maps, out, flow):
    """Add the Gauss-Newton matrix ``J.T @ J`` of the residuals to a matrix.

    J holds the derivatives of the residuals in the landmarks, at the deformation last
    gone through. Where fields are sums of kernels, each of its rows is the outer
    product of the slopes at a pixel and the kernels there. The products of two slopes
    are summed up with the products of two kernels, ``np.einsum("ijk,ai,bj,ck->abc",
    weights, P0, P1, P2)``, over one axis after the other, from `maps` on.
    """
    dim, places = grid.dim, grid.n_places
    if len(flow) > 0:
        for chunk in range(flow[0].n_chunks):
            pull_back(chunk, ZERO, grid, flow[0], work)
            add_squares(dim, flow[0].rows, work, out)
    else:
        numbers, m0, m1, m2 = pairs.numbers, grid.m0, grid.m1, grid.m2
        n0, n1, n2 = pairs.n0, pairs.n1, pairs.n2
        second = maps + m0 * m1 * n2
        sums = second + m0 * n1 * n2
        for axis in range(grid.n_axes):
            for other in range(axis + ONE):
                left = grid.slopes + axis * grid.n_pixels
                right = grid.slopes + other * grid.n_pixels
                for u in range(grid.n_pixels):
                    work[grid.weighted + u] = work[left + u] * work[right + u]
                products(
                    work, grid.weighted, numbers, pairs.P2, work, maps,
                    (m0 * m1, n2, m2),
                )  # fmt: skip
                for i in range(m0):
                    product(
                        numbers, pairs.P1, ONE, m1, work, maps + i * m1 * n2,
                        work, second + i * n1 * n2, (n1, m1, n2),
                    )  # fmt: skip
                product(
                    numbers, ZERO, ONE, m0, work, second, work, sums, (n0, m0, n1 * n2)
                )
                for g in range(places):
                    for h in range(places):
                        value = work[sums + pairs.index[g, h]]
                        row, column = axis * places + g, other * places + h
                        work[out + row * dim + column] += value
                        if axis != other:
                            work[out + column * dim + row] += value


def sum_curvatures(Z, table, grid, pairs) -> np.ndarray:
    """Return the sum of the Gauss-Newton matrices at deformations, without noise."""
    size = room_of_maps(grid, pairs)
    work = new_work(grid, size + int(grid.dim) ** 2).flat
    out = np.uint64(int(grid.more) + size)
    _sum_curvatures(
        *steps_of(grid)[:2], for_types_of(_curvature, grid, pairs), Z, table, grid,
        pairs, work, out, grid.flow,
    )  # fmt: skip
    return work[int(out) :].reshape(int(grid.dim), -1)


@njit(**OUTER)
def _sum_curvatures(
    displace, compare, add_curvature, Z, table, grid, pairs, work, out, flow
):
    """Add up the curvatures of rows, with given scratch arrays."""
    for row in range(np.uint64(len(Z))):
        fetch(Z, row, work, grid.z, grid.dim)
        displace(grid, work, flow)
        compare(table, grid, work)
        add_curvature(grid, pairs, work, grid.more, out, flow)


def _curvature(grid, pairs):
    """Return `add_curvature` as an argument for its callers."""
    kinds = typeof(grid), typeof(pairs), FLAT, NUMBER, NUMBER, typeof(grid.flow)
    return by_address(add_curvature, *kinds)


@njit(**PART, fastmath=FAST, error_model="numpy")
def factorise(matrix, upper, dim, work):
    """Fill the transposed Cholesky factor of an upper triangle; False if there is none.

    Row by row, less four rows above at a time.
    """
    for i in range(dim):
        row, k, row0 = upper + i * dim, ZERO, upper
        for j in range(i, dim):
            work[row + j] = work[matrix + i * dim + j]
        while k + FOUR <= i:
            row1 = row0 + dim
            row2 = row1 + dim
            row3 = row2 + dim
            a, b, c, d = work[row0 + i], work[row1 + i], work[row2 + i], work[row3 + i]
            for j in range(i, dim):
                work[row + j] -= (
                    a * work[row0 + j]
                    + b * work[row1 + j]
                    + c * work[row2 + j]
                    + d * work[row3 + j]
                )
            k += FOUR
            row0 = row3 + dim
        while k < i:
            value = work[row0 + i]
            for j in range(i, dim):
                work[row + j] -= value * work[row0 + j]
            k += ONE
            row0 += dim
        if not work[row + i] > 0.0:  # also catches NaN
            return False
        share = 1.0 / np.sqrt(work[row + i])
        for j in range(i, dim):
            work[row + j] *= share
    return True


@njit(**PART, fastmath=FAST, error_model="numpy")
def solve_lower(upper, dim, work, out):
    """Replace ``out`` by the solution of ``upper.T @ x = out``."""
    for i in range(dim):
        row = upper + i * dim
        value = work[out + i] / work[row + i]
        work[out + i] = value
        for k in range(i + ONE, dim):
            work[out + k] -= value * work[row + k]


@njit(**PART, fastmath=FAST, error_model="numpy")
def solve_upper(upper, dim, work, out):
    """Replace ``out`` by the solution of ``upper @ x = out``."""
    for back in range(dim):
        i = dim - ONE - back
        row = upper + i * dim
        total = work[out + i]
        for k in range(i + ONE, dim):
            total -= work[row + k] * work[out + k]
        work[out + i] = total / work[row + i]


def modes(Y, Z, component, search, grid, pairs, results):
    """Move the landmarks of every image to a mode of their posterior, in place.

    Levenberg-Marquardt steps with the Gauss-Newton matrix, at noise variances that
    fall level by level. A level ends when a step gains less than its share of nats.

    Parameters
    ----------
    Y : ndarray of shape (n, n_pixels)
    Z : ndarray of shape (n, n_landmarks)
        Start, replaced by the mode.
    component : Component
        The template as a spline, ``table``, with the ``precision`` of the landmarks and
        the ``noise_variance``.
    search : Levels
    grid : Grid
    pairs : Pairs
    results : ModeValues
        Filled with the values at the modes.
    """
    dim = len(component.precision)
    more = 4 * dim + 3 * dim**2 + room_of_maps(grid, pairs)
    _modes(
        *steps_of(grid), for_types_of(_curvature, grid, pairs), Y, Z, component.table,
        component.precision.ravel(), component.noise_variance, search, grid, pairs,
        new_work(grid, more).flat, results, grid.flow,
    )  # fmt: skip


@njit(**PART, fastmath=FAST, error_model="numpy")
def _fill_gradient(pull, pulled, gradient, variance, dim, work):
    """Write the gradient of the log-density."""
    for i in range(dim):
        work[gradient + i] = -work[pull + i] / variance - work[pulled + i]


@njit(**PART, fastmath=FAST, error_model="numpy")
def _fill_hessian(gauss, precision, variance, damping, hessian, dim, work):
    """Write the upper triangle of the damped Gauss-Newton matrix."""
    for i in range(dim):
        at = i * dim
        for j in range(i, dim):
            value = work[gauss + at + j] / variance
            work[hessian + at + j] = value + precision[at + j]
        work[hessian + at + i] *= 1.0 + damping


@njit(**PART, fastmath=FAST, error_model="numpy")
def _move(gradient, upper, z, trial, move, dim, work):
    """Write the place a step away, and return the gain that it promises."""
    copy_vector(work, gradient, move, dim)
    solve_lower(upper, dim, work, move)
    solve_upper(upper, dim, work, move)
    expected = 0.0
    for i in range(dim):
        work[trial + i] = work[z + i] + work[move + i]
        expected += 0.5 * work[gradient + i] * work[move + i]
    return expected


@njit(**PART, fastmath=FAST, error_model="numpy")
def _keep_factor(upper, dim, work, row, log_det, lowers):
    """Keep the log-determinant of a factor and, where there is room, the factor."""
    total = 0.0
    for i in range(dim):
        total += np.log(work[upper + i * dim + i])
    log_det[row] = 2.0 * total
    if len(lowers):
        for i in range(dim):
            for j in range(dim):
                lowers[row, j, i] = work[upper + i * dim + j]


@njit(**OUTER, fastmath=FAST, error_model="numpy")
def _modes(
    displace, compare, adjoint, add_curvature, Y, Z, table, precision, noise_variance,
    search, grid, pairs, work, results, flow,
):  # fmt: skip
    """Find the modes with given scratch arrays."""
    levels, max_steps, gains, hold = search
    rss, log_det, lowers = results
    dim, trial = grid.dim, grid.z
    square = dim * dim
    z, move, pulled = grid.more, grid.more + dim, grid.more + TWO * dim
    gradient, gauss = pulled + dim, pulled + TWO * dim
    hessian, upper = gauss + square, gauss + TWO * square
    maps = upper + square
    n_levels = len(levels)
    for row in range(np.uint64(len(Y))):
        fetch(Y, row, work, grid.image, grid.n_pixels)
        fetch(Z, row, work, z, dim)
        error = form = energy = expected = 0.0
        # Whether the scratch array holds what was found at z.
        current = ready = False
        # The last round finds the matrix at the mode: a function that is called from
        # one place is compiled once.
        for level in range(n_levels + 1):
            last = level == n_levels
            variance, damping, left = noise_variance, 0.0, 1
            if not last:
                variance, damping = noise_variance * levels[level], FIRST_DAMPING
                left = max_steps
            copy_vector(work, z, trial, dim)
            keeps_matrix, start = False, True
            while True:
                if not current:
                    displace(grid, work, flow)
                    error = compare(table, grid, work)
                    form = quadratic(precision, work, trial, pulled, dim)
                trial_energy = 0.5 * (error / variance + form)
                fresh = start or trial_energy < energy
                if fresh:
                    won = energy - trial_energy
                    copy_vector(work, trial, z, dim)
                    energy, current = trial_energy, True
                    if not start:
                        if won < gains[level]:
                            break
                        keeps_matrix = won >= hold * expected
                        if not keeps_matrix:
                            damping *= EASE
                    start = False
                elif keeps_matrix:
                    # The matrix of an earlier place: evaluate this one again.
                    copy_vector(work, z, trial, dim)
                    keeps_matrix, start = False, True
                    continue
                else:
                    damping *= TIGHTEN
                    if damping > MOST_DAMPING:
                        break
                ready = False
                while left > 0 and damping <= MOST_DAMPING and not ready:
                    left -= 1
                    if fresh and not last:
                        adjoint(grid, work, flow)
                        _fill_gradient(grid.pull, pulled, gradient, variance, dim, work)
                    if fresh and not keeps_matrix:
                        clear(work, gauss, square)
                        add_curvature(grid, pairs, work, maps, gauss, flow)
                    fresh, ready = False, keeps_matrix
                    if not keeps_matrix:
                        _fill_hessian(
                            gauss, precision, variance, damping, hessian, dim, work
                        )
                        ready = factorise(hessian, upper, dim, work)
                        if not ready:
                            damping *= TIGHTEN
                if last or not ready:
                    break
                expected = _move(gradient, upper, z, trial, move, dim, work)
                current = False
        for i in range(dim):
            Z[row, i] = work[z + i]
        rss[row] = error
        log_det[row] = np.nan
        if ready:
            _keep_factor(upper, dim, work, row, log_det, lowers)
