"""Modes of the landmarks of images, and importance sampling around them."""

from collections import namedtuple

import numpy as np
from numba import njit

from sktem.kernels.counter_random import fill_normals, stream_key
from sktem.template.kernels.chains import quadratic
from sktem.template.kernels.field import FAST, adjoint, copy_vector, new_work, rss_of
from sktem.template.kernels.flow import add_products, pull_back

__all__ = ["Pairs", "curvature", "importance_terms", "modes"]

#: Products of the kernels of two landmarks, ``P0`` (pixels, pairs), ``P1`` (pixels,
#: pairs), ``P2`` (pairs, pixels), and for each axis the index of a pair of landmarks.
Pairs = namedtuple("Pairs", "P0 P1 P2 index0 index1 index2")

#: Damping of the first step, its factors after a success and a failure, its limit.
FIRST_DAMPING, EASE, TIGHTEN, MOST_DAMPING = 1e-2, 0.2, 5.0, 1e8


@njit(cache=True, nogil=True)
def new_maps(pairs):
    """Return scratch arrays of `curvature`."""
    m0, m1, m2 = pairs.P0.shape[0], pairs.P1.shape[0], pairs.P2.shape[1]
    n0, n1, n2 = pairs.P0.shape[1], pairs.P1.shape[1], pairs.P2.shape[0]
    return (
        np.empty((m0, m1, m2)),
        np.empty((m0, m1, n2)),
        np.empty((m0, n1, n2)),
        np.empty((n0, n1, n2)),
    )


@njit(cache=True, nogil=True, fastmath=FAST)
def _contract(weights, pairs, maps):
    """Fill ``maps[3]`` with ``einsum("ijk,ia,jb,ck->abc", weights, P0, P1, P2)``."""
    _, first, second, third = maps
    m0, m1, m2 = weights.shape
    n0, n1, n2 = third.shape
    for i in range(m0):
        for j in range(m1):
            row = weights[i, j]
            for c in range(n2):
                kernel = pairs.P2[c]
                total = 0.0
                for k in range(m2):
                    total += row[k] * kernel[k]
                first[i, j, c] = total
        for b in range(n1):
            out = second[i, b]
            out[:] = 0.0
            for j in range(m1):
                value = pairs.P1[j, b]
                row = first[i, j]
                for c in range(n2):
                    out[c] += value * row[c]
    for a in range(n0):
        for b in range(n1):
            out = third[a, b]
            out[:] = 0.0
            for i in range(m0):
                value = pairs.P0[i, a]
                row = second[i, b]
                for c in range(n2):
                    out[c] += value * row[c]


@njit(cache=True, nogil=True)
def curvature(slopes, pairs, maps, out):
    """Add the Gauss-Newton matrix ``J.T @ J`` of the residuals to a matrix.

    J holds the derivatives of the residuals in the landmarks; each of its rows is the
    outer product of the slopes at a pixel and the kernels there.
    """
    n_axes = slopes.shape[0]
    G0, G1 = pairs.index0.shape[0], pairs.index1.shape[0]
    G2 = pairs.index2.shape[0]
    places = G0 * G1 * G2
    weights, result = maps[0], maps[3]
    for one in range(n_axes):
        for two in range(one + 1):
            m0, m1, m2 = weights.shape
            for i in range(m0):
                for j in range(m1):
                    for k in range(m2):
                        weights[i, j, k] = slopes[one, i, j, k] * slopes[two, i, j, k]
            _contract(weights, pairs, maps)
            for a in range(G0):
                for b in range(G1):
                    for c in range(G2):
                        g = one * places + (a * G1 + b) * G2 + c
                        for d in range(G0):
                            for e in range(G1):
                                row = result[pairs.index0[a, d], pairs.index1[b, e]]
                                h = two * places + (d * G1 + e) * G2
                                for f in range(G2):
                                    value = row[pairs.index2[c, f]]
                                    out[g, h + f] += value
                                    if one != two:
                                        out[h + f, g] += value


@njit(cache=True, nogil=True)
def add_curvature(grid, work, pairs, maps, out):
    """Add the Gauss-Newton matrix at the deformation last gone through."""
    _add_curvature(work, pairs, maps, out, grid.flow)


@njit(cache=True, nogil=True)
def _add_curvature(work, pairs, maps, out, flow):
    if len(flow) == 0:
        curvature(work.slopes, pairs, maps, out)
    else:
        n_axes, none = work.slopes.shape[0], np.empty(0)
        slopes = work.slopes.reshape((n_axes, work.residual.size))
        for chunk in range(work.flow[0].paths.shape[0]):
            pull_back(chunk, slopes, none, flow[0], work.flow[0], work.flow[0].pulled)
            add_products(work.flow[0].rows, out)


@njit(cache=True, nogil=True, fastmath=FAST)
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


@njit(cache=True, nogil=True)
def factorise(matrix, lower):
    """Fill the lower triangle with the Cholesky factor; False if there is none.

    Four columns at a time, so that each row is read once for four products.
    """
    n = matrix.shape[0]
    for start in range(0, n, 4):
        width = min(4, n - start)
        for i in range(start, n):
            row = lower[i]
            last = min(i, start + width - 1)
            sums = _four_products(
                row,
                lower[start],
                lower[min(start + 1, n - 1)],
                lower[min(start + 2, n - 1)],
                lower[min(start + 3, n - 1)],
                start,
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


@njit(cache=True, nogil=True, fastmath=FAST)
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


@njit(cache=True, nogil=True, error_model="numpy")
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
    dim = precision.shape[0]
    work, maps = new_work(grid, n_axes), new_maps(pairs)
    shape = work.pull.shape
    gauss, hessian = np.zeros((dim, dim)), np.zeros((dim, dim))
    lower = np.zeros((dim, dim))
    gradient, move = np.empty(dim), np.empty(dim)
    trial, pulled = np.empty(dim), np.empty(dim)
    for row in range(Y.shape[0]):
        y, z = Y[row], Z[row]
        copy_vector(z, trial)
        for level in range(levels.shape[0]):
            variance = noise_variance * levels[level]
            error = rss_of(y, trial.reshape(shape), table, grid, work)
            form = quadratic(precision, z, pulled)
            energy = 0.5 * (error / variance + form)
            damping = FIRST_DAMPING
            fresh, held = True, False
            for _ in range(max_steps):
                if fresh:
                    adjoint(grid, work)
                    pull = work.pull.reshape(-1)
                    for i in range(dim):
                        gradient[i] = -pull[i] / variance - pulled[i]
                    fresh = False
                    if not held:
                        gauss[:] = 0.0
                        add_curvature(grid, work, pairs, maps, gauss)
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
                error_new = rss_of(y, trial.reshape(shape), table, grid, work)
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
                    rss_of(y, z.reshape(shape), table, grid, work)
                    quadratic(precision, z, pulled)
                else:
                    damping *= TIGHTEN
                    if damping > MOST_DAMPING:
                        break
            copy_vector(z, trial)
        rss[row] = rss_of(y, trial.reshape(shape), table, grid, work)
        for i in range(dim):
            for j in range(dim):
                hessian[i, j] = precision[i, j] * noise_variance
        add_curvature(grid, work, pairs, maps, hessian)
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


@njit(cache=True, nogil=True)
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
    dim = precision.shape[0]
    work = new_work(grid, n_axes)
    shape = work.pull.shape
    noise, trial, pulled = np.empty(dim), np.empty(dim), np.empty(dim)
    chi = np.empty(max(freedom, 1))
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
            rss = rss_of(Y[row], trial.reshape(shape), table, grid, work)
            form = quadratic(precision, trial, pulled)
            terms[row, draw] = -0.5 * (rss / noise_variance + form) - log_proposal
