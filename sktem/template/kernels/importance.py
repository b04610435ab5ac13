"""Importance sampling of the landmarks of images around their modes."""

import numpy as np
from numba import njit

from sktem.kernels.counter_random import fill_normals, stream_key
from sktem.kernels.options import OUTER
from sktem.template.kernels.field import new_work, steps_of
from sktem.template.kernels.modes import solve_upper
from sktem.template.kernels.products import fetch, quadratic

__all__ = ["importance_terms"]


def importance_terms(
    Y, Z, lowers, numbers, seed, freedom, table, precision, noise_variance, grid, terms
):
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
    terms : ndarray of shape (n, n_draws)
    """
    dim = len(precision)
    _importance_terms(
        *steps_of(grid)[:2], Y, Z, lowers, numbers, seed, freedom, table,
        precision.ravel(), noise_variance, grid, new_work(grid, dim + dim**2).flat,
        np.empty(dim), np.empty(freedom), terms, grid.flow,
    )  # fmt: skip


@njit(**OUTER, error_model="numpy")
def _importance_terms(
    displace, compare, Y, Z, lowers, numbers, seed, freedom, table, precision,
    noise_variance, grid, work, noise, chi, terms, flow,
):  # fmt: skip
    """Fill the terms with given scratch arrays."""
    dim, trial, pulled = grid.dim, grid.z, grid.more
    upper = pulled + dim
    for row in range(np.uint64(len(Y))):
        fetch(Y, row, work, grid.image, grid.n_pixels)
        for i in range(dim):
            for j in range(dim):
                work[upper + i * dim + j] = lowers[row, j, i]
        key = stream_key(seed, numbers[row])
        counter = 0
        for draw in range(terms.shape[1]):
            counter = fill_normals(key, counter, noise)
            squares = 0.0
            for i in range(dim):
                work[trial + i] = noise[i]
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
                log_proposal = -0.5 * (freedom + len(noise)) * np.log1p(ratio)
            solve_upper(upper, dim, work, trial)
            for i in range(dim):
                work[trial + i] = Z[row, i] + stretch * work[trial + i]
            displace(grid, work, flow)
            rss = compare(table, grid, work)
            form = quadratic(precision, work, trial, pulled, dim)
            terms[row, draw] = -0.5 * (rss / noise_variance + form) - log_proposal
