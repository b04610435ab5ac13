"""Markov chains on the landmarks of images: random walk and Gibbs, move by move."""

import numpy as np
from numba import njit

from sktem.kernels.counter_random import fill_normals, stream_key, uniform
from sktem.kernels.options import OUTER
from sktem.template.kernels.chains import DECAY
from sktem.template.kernels.field import new_work, steps_of
from sktem.template.kernels.products import ONE, copy_vector, fetch, quadratic, store

__all__ = ["walks"]


def walks(Y, Z, numbers, seed, part, grid, n_steps, gibbs, goal):
    """Move the landmarks of every image one after the other, in place.

    A random walk adds ``exp(log_step) * spread * noise`` to the displacements of one
    landmark along all axes, with ``spread`` their standard deviations given all others
    under the prior. With `gibbs`, single coordinates are drawn from their prior given
    the others and accepted by the likelihood, the hybrid Gibbs sampler of
    Allassonniere, Kuhn and Trouve (2010).

    Parameters
    ----------
    Y : ndarray of shape (n, n_pixels)
    Z : ndarray of shape (n, at least n_landmarks + 2)
        Landmarks, then the logarithm of the step and the number of sweeps so far.
    numbers : ndarray of int64 of shape (n,)
        Indices of the images, which fix their random draws.
    seed : uint64
    part : Component
        The template as a spline, ``table``, with the ``precision`` of the landmarks and
        the ``noise_variance``.
    grid : Grid
    n_steps : int
        Sweeps over all landmarks.
    gibbs : bool
    goal : float
        Acceptance rate that the steps are adapted to; 0 keeps them.

    Returns
    -------
    accepted : float
        Sum of the acceptance probabilities, averaged over a sweep.
    """
    dim = len(part.precision)
    spread = 1 / np.sqrt(np.diag(part.precision))
    return _walks(
        *steps_of(grid)[:2], Y, Z, numbers, seed, part.table, part.precision.ravel(),
        spread, part.noise_variance, grid, new_work(grid, 2 * dim).flat, np.empty(dim),
        n_steps, gibbs, goal, grid.flow,
    )  # fmt: skip


@njit(**OUTER, error_model="numpy")
def _walks(
    displace, compare, Y, Z, numbers, seed, table, precision, spread, noise_variance,
    grid, work, noise, n_steps, gibbs, goal, flow,
):  # fmt: skip
    """Move them with given scratch arrays."""
    dim, trial = grid.dim, grid.z
    z, pulled = grid.more, grid.more + dim
    # Gibbs moves coordinates, as if each were a landmark with a single axis.
    n_moves = dim if gibbs else grid.n_places
    accepted = 0.0
    for row in range(np.uint64(len(Y))):
        key = stream_key(seed, numbers[row])
        fetch(Y, row, work, grid.image, grid.n_pixels)
        fetch(Z, row, work, z, dim)
        copy_vector(work, z, trial, dim)
        log_step, visits = Z[row, dim], Z[row, dim + ONE]
        displace(grid, work, flow)
        rss = compare(table, grid, work)
        form = quadratic(precision, work, z, pulled, dim)
        for sweep in range(n_steps):
            first = sweep * (len(noise) + 2 + int(n_moves))
            counter = fill_normals(key, first, noise)
            step = 1.0 if gibbs else np.exp(log_step)
            total = 0.0
            for move in range(n_moves):
                copy_vector(work, z, trial, dim)
                for j in range(move, dim, n_moves):
                    work[trial + j] += step * spread[j] * noise[j]
                ratio = 0.0
                form_new = form
                if gibbs:
                    pull = 0.0
                    for k in range(dim):
                        pull += precision[move * dim + k] * work[z + k]
                    work[trial + move] -= pull / precision[move * dim + move]
                else:
                    form_new = quadratic(precision, work, trial, pulled, dim)
                    ratio = 0.5 * (form - form_new)
                displace(grid, work, flow)
                rss_new = compare(table, grid, work)
                ratio += 0.5 * (rss - rss_new) / noise_variance
                probability = 0.0
                if ratio > -700.0:  # False for NaN, which rejects
                    probability = np.exp(ratio) if ratio < 0.0 else 1.0
                if uniform(key, counter + int(move)) < probability:
                    copy_vector(work, trial, z, dim)
                    rss, form = rss_new, form_new
                total += probability
            total /= n_moves
            accepted += total
            visits += 1.0
            if goal > 0.0:
                log_step += (total - goal) * visits**-DECAY
        store(work, z, dim, Z, row)
        Z[row, dim], Z[row, dim + ONE] = log_step, visits
    return accepted
