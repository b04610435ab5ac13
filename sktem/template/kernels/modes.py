"""Modes of the landmarks of images, and importance sampling around them."""

from collections import namedtuple

import numpy as np
from numba import njit

from sktem.kernels.counter_random import fill_normals, stream_key
from sktem.template.kernels.chains import quadratic
from sktem.template.kernels.field import adjoint, new_work, rss_of
from sktem.template.kernels.flow import add_squares, pull_back
from sktem.template.kernels.products import (
    FAST,
    ONE,
    ZERO,
    clear,
    copy_vector,
    product,
    products,
)

__all__ = ["Maps", "Pairs", "curvature", "importance_terms", "modes"]

#: Products ``P0, P1, P2`` (pairs, pixels) of the kernels of two landmarks along the
#: axes in flat arrays, the numbers of pairs and pixels along each axis, ``sizes``, and
#: the indices of pairs (landmarks, landmarks), ``index``.
Pairs = namedtuple("Pairs", "P0 P1 P2 sizes index")

#: Scratch arrays of `curvature`, flat as those of `field`: weights of the pixels, and
#: their sums over one axis after the other.
Maps = namedtuple("Maps", "weights first second sums")

#: Damping of the first step, its factors after a success and a failure, its limit.
FIRST_DAMPING, EASE, TIGHTEN, MOST_DAMPING = 1e-2, 0.2, 5.0, 1e8


def new_maps(pairs) -> Maps:
    """Return scratch arrays of `curvature`."""
    n0, m0, n1, m1, n2, m2 = pairs.sizes
    shapes = (m0, m1, m2), (m0, m1, n2), (m0, n1, n2), (n0, n1, n2)
    return Maps(*(np.empty(a * b * c) for a, b, c in shapes))


@njit(cache=True, nogil=True, inline="always")
def curvature(slopes, pairs, maps, out):
    """Add the Gauss-Newton matrix ``J.T @ J`` of the residuals to a matrix.

    J holds the derivatives of the residuals in the landmarks; each of its rows is the
    outer product of the slopes at a pixel and the kernels there. The products of two
    slopes are summed up with the products of two kernels, ``np.einsum("ijk,ai,bj,ck->
    abc", weights, P0, P1, P2)``.
    """
    n0, m0, n1, m1, n2, m2 = pairs.sizes
    places, n_pixels = pairs.index.shape[0], m0 * m1 * m2
    for one in range(out.shape[0] // places):
        for two in range(one + 1):
            first, second = np.uintp(one * n_pixels), np.uintp(two * n_pixels)
            for u in range(np.uintp(n_pixels)):
                maps.weights[u] = slopes[first + u] * slopes[second + u]
            products(maps.weights, pairs.P2, maps.first, ZERO, (m0 * m1, n2, m2))
            for i in range(m0):
                j, b = i * m1 * n2, i * n1 * n2
                product(
                    pairs.P1, ZERO, ONE, m1, maps.first, j, maps.second, b,
                    (n1, m1, n2),
                )  # fmt: skip
            product(
                pairs.P0, ZERO, ONE, m0, maps.second, ZERO, maps.sums, ZERO,
                (n0, m0, n1 * n2),
            )  # fmt: skip
            for g in range(places):
                for h in range(places):
                    value = maps.sums[pairs.index[g, h]]
                    out[one * places + g, two * places + h] += value
                    if one != two:
                        out[two * places + h, one * places + g] += value


@njit(cache=True, nogil=True)
def add_curvature(work, pairs, maps, out, flow):
    """Add the Gauss-Newton matrix at the deformation last gone through."""
    if len(flow) == 0:
        curvature(work.slopes, pairs, maps, out)
    else:
        moves = work.flow[0]
        for chunk in range(moves.paths.shape[0] // flow[0].n_steps):
            pull_back(
                chunk, False, work.slopes, work.residual, flow[0], moves, work.pull
            )
            add_squares(moves.rows, out)


@njit(cache=True, nogil=True, fastmath=FAST, inline="always")
def _four_products(row, first, second, third, fourth, n):
    """Return the products of the first n entries of a row with those of four rows."""
    a = b = c = d = 0.0
    for k in range(n):
        value = row[k]
        a += value * first[k]
        b += value * second[k]
        c += value * third[k]
        d += value * fourth[k]
    return a, b, c, d


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def factorise(matrix, lower):
    """Fill the lower triangle with the Cholesky factor; False if there is none.

    Four columns at a time, so that each row is read once for four products.
    """
    n = matrix.shape[0]
    for start in range(0, n, 4):
        # Fewer than four are left at the end: the last one stands for the others.
        two = start + 1 if start + 1 < n else n - 1
        three = start + 2 if start + 2 < n else n - 1
        four = start + 3 if start + 3 < n else n - 1
        for i in range(start, n):
            row = lower[i]
            last = i if i < four else four
            sums = _four_products(
                row, lower[start], lower[two], lower[three], lower[four], start
            )
            for j in range(start, last + 1):
                total = matrix[i, j] - sums[j - start]
                other = lower[j]
                for k in range(start, j):
                    total -= row[k] * other[k]
                if i == j:
                    if not total > 0.0:  # also catches NaN
                        return False
                    row[i] = np.sqrt(total)
                else:
                    row[j] = total / other[j]
    return True


@njit(cache=True, nogil=True, fastmath=FAST, inline="always")
def solve_factorised(lower, b, out):
    """Fill ``out`` with the solution of ``lower @ lower.T @ out = b``."""
    n = b.shape[0]
    for i in range(n):
        row = lower[i]
        total = b[i]
        for k in range(i):
            total -= row[k] * out[k]
        out[i] = total / row[i]
    solve_upper(lower, out)


@njit(cache=True, nogil=True, fastmath=FAST)
def solve_upper(lower, out):
    """Replace ``out`` by the solution of ``lower.T @ x = out``."""
    for i in range(out.shape[0] - 1, -1, -1):
        row = lower[i]
        value = out[i] / row[i]
        out[i] = value
        for k in range(i):
            out[k] -= value * row[k]


def modes(
    Y, Z, table, precision, noise_variance, levels, max_steps, gains, hold, grid, pairs,
    n_axes, rss, log_det, lowers,
):  # fmt: skip
    """Move the landmarks of every image to a mode of their posterior, in place.

    Levenberg-Marquardt steps with the Gauss-Newton matrix, at noise variances that
    fall level by level. A level ends when a step gains less than its share of nats.

    Parameters
    ----------
    Y : ndarray of shape (n, n_pixels)
    Z : ndarray of shape (n, n_landmarks)
        Start, replaced by the mode.
    table : ndarray of shape (n0, n1, n2)
    precision : ndarray of shape (n_landmarks, n_landmarks)
    noise_variance : float
    levels : ndarray of shape (n_levels,)
        Factors of the noise variance; the last is 1.
    max_steps : int
        Steps at one level, at most.
    gains : ndarray of shape (n_levels,)
        Least gain of a step for its level to continue, in nats.
    hold : float
        Share of the gain that is expected of a step from which on the next step at the
        same level has the same matrix; infinity renews it for every step.
    grid : Grid
    pairs : Pairs
    n_axes : int
    rss : ndarray of shape (n,)
        Filled with the sum of squared residuals at the mode.
    log_det : ndarray of shape (n,)
        Filled with the log-determinant of the Gauss-Newton Hessian there.
    lowers : ndarray of shape (n or 0, n_landmarks, n_landmarks)
        If not empty, filled with its Cholesky factors.
    """
    dim = len(precision)
    _modes(
        Y, Z, table, precision, noise_variance, levels, max_steps, gains, hold, grid,
        pairs, new_work(grid, n_axes), new_maps(pairs), np.zeros((3, dim, dim)),
        np.empty((3, dim)), rss, log_det, lowers, grid.flow,
    )  # fmt: skip


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _modes(
    Y, Z, table, precision, noise_variance, levels, max_steps, gains, hold, grid, pairs,
    work, maps, matrices, vectors, rss, log_det, lowers, flow,
):  # fmt: skip
    """Find the modes with given scratch arrays."""
    dim = precision.shape[0]
    gauss, hessian, lower = matrices[0], matrices[1], matrices[2]
    gradient, move, pulled = vectors[0], vectors[1], vectors[2]
    trial = work.z
    for row in range(Y.shape[0]):
        y, z = Y[row], Z[row]
        copy_vector(z, trial)
        for level in range(levels.shape[0]):
            variance = noise_variance * levels[level]
            error = rss_of(y, table, grid, work, flow)
            form = quadratic(precision, z, pulled)
            energy = 0.5 * (error / variance + form)
            damping = FIRST_DAMPING
            fresh, held = True, False
            for _ in range(max_steps):
                if fresh:
                    adjoint(grid, work, flow)
                    for i in range(dim):
                        gradient[i] = -work.pull[i] / variance - pulled[i]
                    fresh = False
                    if not held:
                        for i in range(dim):
                            clear(gauss[i])
                        add_curvature(work, pairs, maps, gauss, flow)
                if not held:
                    for i in range(dim):
                        for j in range(i + 1):
                            hessian[i, j] = gauss[i, j] / variance + precision[i, j]
                        hessian[i, i] *= 1.0 + damping
                    if not factorise(hessian, lower):
                        damping *= TIGHTEN
                        if damping > MOST_DAMPING:
                            break
                        continue
                solve_factorised(lower, gradient, move)
                expected = 0.0
                for i in range(dim):
                    trial[i] = z[i] + move[i]
                    expected += 0.5 * gradient[i] * move[i]
                error_new = rss_of(y, table, grid, work, flow)
                form = quadratic(precision, trial, pulled)
                energy_new = 0.5 * (error_new / variance + form)
                if energy_new < energy:
                    won = energy - energy_new
                    copy_vector(trial, z)
                    energy, error = energy_new, error_new
                    fresh = True
                    if won < gains[level]:
                        break
                    held = won >= hold * expected
                    if not held:
                        damping *= EASE
                elif held:
                    # The matrix of an earlier place: evaluate this one again.
                    held, fresh = False, True
                    copy_vector(z, trial)
                    rss_of(y, table, grid, work, flow)
                    quadratic(precision, z, pulled)
                else:
                    damping *= TIGHTEN
                    if damping > MOST_DAMPING:
                        break
            copy_vector(z, trial)
        rss[row] = rss_of(y, table, grid, work, flow)
        for i in range(dim):
            for j in range(dim):
                hessian[i, j] = precision[i, j] * noise_variance
        add_curvature(work, pairs, maps, hessian, flow)
        for i in range(dim):
            for j in range(dim):
                hessian[i, j] /= noise_variance
        log_det[row] = np.nan
        if factorise(hessian, lower):
            total = 0.0
            for i in range(dim):
                total += np.log(lower[i, i])
            log_det[row] = 2.0 * total
            if lowers.shape[0]:
                for i in range(dim):
                    for j in range(dim):
                        lowers[row, i, j] = lower[i, j]


def importance_terms(
    Y, Z, lowers, numbers, seed, freedom, table, precision, noise_variance, grid,
    n_axes, terms,
):  # fmt: skip
    """Fill logarithms of unnormalised posterior over proposal, for draws around modes.

    A proposal is a Student distribution with `freedom` degrees (Gaussian if infinite)
    about the mode, whose scale matrix is the inverse Hessian. Only what differs from
    draw to draw is in a term: ``-(rss / noise_variance + z @ precision @ z) / 2``
    less the logarithm of the proposal's density relative to that at the mode.

    Parameters
    ----------
    Y : ndarray of shape (n, n_pixels)
    Z : ndarray of shape (n, n_landmarks)
        Modes.
    lowers : ndarray of shape (n, n_landmarks, n_landmarks)
        Cholesky factors of the Hessians.
    numbers : ndarray of int64 of shape (n,)
    seed : uint64
    freedom : int
        Degrees of freedom of the t distribution; 0 means Gaussian.
    table : ndarray of shape (n0, n1, n2)
    precision : ndarray of shape (n_landmarks, n_landmarks)
    noise_variance : float
    grid : Grid
    n_axes : int
    terms : ndarray of shape (n, n_draws)
    """
    vectors = np.empty((2, len(precision)))
    _importance_terms(
        Y, Z, lowers, numbers, seed, freedom, table, precision, noise_variance, grid,
        new_work(grid, n_axes), vectors, np.empty(freedom), terms, grid.flow,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _importance_terms(
    Y, Z, lowers, numbers, seed, freedom, table, precision, noise_variance, grid, work,
    vectors, chi, terms, flow,
):  # fmt: skip
    """Fill the terms with given scratch arrays."""
    dim = precision.shape[0]
    noise, pulled, trial = vectors[0], vectors[1], work.z
    for row in range(Y.shape[0]):
        key = stream_key(seed, numbers[row])
        counter = 0
        for draw in range(terms.shape[1]):
            counter = fill_normals(key, counter, noise)
            squares = 0.0
            for i in range(dim):
                squares += noise[i] * noise[i]
            log_proposal = -0.5 * squares
            stretch = 1.0
            if freedom > 0:
                counter = fill_normals(key, counter, chi)
                total = 0.0
                for i in range(freedom):
                    total += chi[i] * chi[i]
                stretch = np.sqrt(freedom / total)
                ratio = squares * stretch * stretch / freedom
                log_proposal = -0.5 * (freedom + dim) * np.log1p(ratio)
            copy_vector(noise, trial)
            solve_upper(lowers[row], trial)
            for i in range(dim):
                trial[i] = Z[row, i] + stretch * trial[i]
            rss = rss_of(Y[row], table, grid, work, flow)
            form = quadratic(precision, trial, pulled)
            terms[row, draw] = -0.5 * (rss / noise_variance + form) - log_proposal
