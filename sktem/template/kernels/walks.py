"""Markov chains on the landmarks of images: random walks and Gibbs."""

import numpy as np
from numba import njit

from sktem.kernels.counter_random import fill_normals, stream_key, uniform
from sktem.kernels.options import INNER, OUTER
from sktem.template.kernels.chains import DECAY
from sktem.template.kernels.field import new_work, steps_of
from sktem.template.kernels.products import (
    ONE,
    copy_vector,
    fetch,
    quadratic,
    store,
)

__all__ = ["landmark_walks", "prior_gibbs", "prior_walks"]


@njit(**INNER)
def _chance(log_ratio):
    if log_ratio > -700.0:  # False for NaN, which rejects
        return np.exp(log_ratio) if log_ratio < 0.0 else 1.0
    return 0.0


def _scratch(grid, precision):
    """Return the flat scratch of an image with its chain, and noise."""
    return new_work(grid, 2 * len(precision)).flat, np.empty(len(precision))


def landmark_walks(
    Y, Z, numbers, seed, table, precision, spread, noise_variance, grid, n_steps, goal
):
    """Move the landmarks of every image one by one, in place.

    The proposal adds ``exp(log_step) * spread * noise`` to the displacements of one
    landmark along all axes.

    Parameters
    ----------
    Y : ndarray of shape (n, n_pixels)
    Z : ndarray of shape (n, at least n_landmarks + 2)
        Landmarks, then the logarithm of the step and the number of sweeps so far.
    numbers : ndarray of int64 of shape (n,)
    seed : uint64
    table : ndarray of shape (n0, n1, n2)
    precision : ndarray of shape (n_landmarks, n_landmarks)
        Inverse of the covariance of the landmarks.
    spread : ndarray of shape (n_landmarks,)
        Standard deviations that steps are relative to.
    noise_variance : float
    grid : Grid
    n_steps : int
        Sweeps over all landmarks.
    goal : float
        Acceptance rate that the steps are adapted to; 0 keeps them.

    Returns
    -------
    accepted : float
        Sum of the acceptance probabilities, averaged over a sweep.
    """
    return _landmark_walks(
        *steps_of(grid)[:2], Y, Z, numbers, seed, table, precision.ravel(), spread,
        noise_variance, grid, *_scratch(grid, precision), n_steps, goal, grid.flow,
    )  # fmt: skip


@njit(**OUTER, error_model="numpy")
def _landmark_walks(
    displace, compare, Y, Z, numbers, seed, table, precision, spread, noise_variance,
    grid, work, noise, n_steps, goal, flow,
):  # fmt: skip
    """Move them with given scratch arrays."""
    dim, places, trial = grid.dim, grid.n_places, grid.z
    z, pulled = grid.more, grid.more + dim
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
            first = sweep * (len(noise) + 2 + int(places))
            counter = fill_normals(key, first, noise)
            step = np.exp(log_step)
            total = 0.0
            for place in range(places):
                copy_vector(work, z, trial, dim)
                for axis in range(grid.n_axes):
                    j = axis * places + place
                    work[trial + j] += step * spread[j] * noise[j]
                form_new = quadratic(precision, work, trial, pulled, dim)
                displace(grid, work, flow)
                rss_new = compare(table, grid, work)
                ratio = 0.5 * ((rss - rss_new) / noise_variance + form - form_new)
                probability = _chance(ratio)
                if uniform(key, counter + int(place)) < probability:
                    copy_vector(work, trial, z, dim)
                    rss, form = rss_new, form_new
                total += probability
            total /= places
            accepted += total
            visits += 1.0
            if goal > 0.0:
                log_step += (total - goal) * visits**-DECAY
        store(work, z, dim, Z, row)
        Z[row, dim], Z[row, dim + ONE] = log_step, visits
    return accepted


def prior_walks(
    Y, Z, numbers, seed, table, precision, factor, noise_variance, grid, n_steps, goal
):
    """Move all landmarks of every image at once, in place.

    The proposal adds ``exp(log_step) * factor @ noise``, with ``factor @ factor.T``
    the prior covariance. Parameters and result as for `landmark_walks`.
    """
    return _prior_walks(
        *steps_of(grid)[:2], Y, Z, numbers, seed, table, precision.ravel(),
        factor.ravel(), noise_variance, grid, *_scratch(grid, precision), n_steps,
        goal, grid.flow,
    )  # fmt: skip


@njit(**OUTER, error_model="numpy")
def _prior_walks(
    displace, compare, Y, Z, numbers, seed, table, precision, factor, noise_variance,
    grid, work, noise, n_steps, goal, flow,
):  # fmt: skip
    """Move them with given scratch arrays."""
    dim, trial = grid.dim, grid.z
    z, move = grid.more, grid.more + dim
    accepted = 0.0
    for row in range(np.uint64(len(Y))):
        key = stream_key(seed, numbers[row])
        fetch(Y, row, work, grid.image, grid.n_pixels)
        fetch(Z, row, work, z, dim)
        copy_vector(work, z, trial, dim)
        log_step, visits = Z[row, dim], Z[row, dim + ONE]
        displace(grid, work, flow)
        rss = compare(table, grid, work)
        form = quadratic(precision, work, z, move, dim)
        for transition in range(n_steps):
            counter = fill_normals(key, transition * (len(noise) + 3), noise)
            step = np.exp(log_step)
            for j in range(dim):
                work[trial + j] = noise[j]
            quadratic(factor, work, trial, move, dim)
            for j in range(dim):
                work[trial + j] = work[z + j] + step * work[move + j]
            form_new = quadratic(precision, work, trial, move, dim)
            displace(grid, work, flow)
            rss_new = compare(table, grid, work)
            ratio = 0.5 * ((rss - rss_new) / noise_variance + form - form_new)
            probability = _chance(ratio)
            if uniform(key, counter) < probability:
                copy_vector(work, trial, z, dim)
                rss, form = rss_new, form_new
            accepted += probability
            visits += 1.0
            if goal > 0.0:
                log_step += (probability - goal) * visits**-DECAY
        store(work, z, dim, Z, row)
        Z[row, dim], Z[row, dim + ONE] = log_step, visits
    return accepted


def prior_gibbs(Y, Z, numbers, seed, table, precision, noise_variance, grid, n_steps):
    """Draw every coordinate from its conditional prior, accept by the likelihood.

    The hybrid Gibbs sampler of Allassonniere, Kuhn and Trouve (2010). Parameters and
    result as for `landmark_walks`.
    """
    return _prior_gibbs(
        *steps_of(grid)[:2], Y, Z, numbers, seed, table, precision.ravel(),
        noise_variance, grid, *_scratch(grid, precision), n_steps, grid.flow,
    )  # fmt: skip


@njit(**OUTER, error_model="numpy")
def _prior_gibbs(
    displace, compare, Y, Z, numbers, seed, table, precision, noise_variance, grid,
    work, noise, n_steps, flow,
):  # fmt: skip
    """Move them with given scratch arrays."""
    dim, z, trial = grid.dim, grid.more, grid.z
    accepted = 0.0
    for row in range(np.uint64(len(Y))):
        key = stream_key(seed, numbers[row])
        fetch(Y, row, work, grid.image, grid.n_pixels)
        fetch(Z, row, work, z, dim)
        copy_vector(work, z, trial, dim)
        displace(grid, work, flow)
        rss = compare(table, grid, work)
        for sweep in range(n_steps):
            counter = fill_normals(key, sweep * (2 * len(noise) + 2), noise)
            total = 0.0
            for j in range(dim):
                pull = 0.0
                for k in range(dim):
                    pull += precision[j * dim + k] * work[z + k]
                mean = work[z + j] - pull / precision[j * dim + j]
                work[trial + j] = mean + noise[j] / np.sqrt(precision[j * dim + j])
                displace(grid, work, flow)
                rss_new = compare(table, grid, work)
                probability = _chance(0.5 * (rss - rss_new) / noise_variance)
                if uniform(key, counter + int(j)) < probability:
                    work[z + j] = work[trial + j]
                    rss = rss_new
                work[trial + j] = work[z + j]
                total += probability
            accepted += total / dim
        store(work, z, dim, Z, row)
        Z[row, dim + ONE] += n_steps
    return accepted
