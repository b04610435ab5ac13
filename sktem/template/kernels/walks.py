"""Markov chains on the landmarks of images: random walks and Gibbs."""

import numpy as np
from numba import njit

from sktem.kernels.counter_random import fill_normals, stream_key, uniform
from sktem.template.kernels.chains import DECAY, lower_times, quadratic
from sktem.template.kernels.field import new_work, rss_of
from sktem.template.kernels.products import copy_vector

__all__ = ["landmark_walks", "prior_gibbs", "prior_walks"]


@njit(cache=True, nogil=True)
def _chance(log_ratio):
    if log_ratio > -700.0:  # False for NaN, which rejects
        return np.exp(log_ratio) if log_ratio < 0.0 else 1.0
    return 0.0


def landmark_walks(
    Y, Z, numbers, seed, table, precision, spread, noise_variance, grid, n_axes,
    n_steps, goal,
):  # fmt: skip
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
    n_axes : int
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
        Y, Z, numbers, seed, table, precision, spread, noise_variance, grid,
        new_work(grid, n_axes), np.empty((3, len(precision))), n_steps, goal,
        grid.flow,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _landmark_walks(
    Y, Z, numbers, seed, table, precision, spread, noise_variance, grid, work, vectors,
    n_steps, goal, flow,
):  # fmt: skip
    """Move them with given scratch arrays."""
    dim = precision.shape[0]
    n_axes = work.field.shape[0] // work.residual.shape[0]
    places = dim // n_axes
    noise, z, pulled, trial = vectors[0], vectors[1], vectors[2], work.z
    accepted = 0.0
    for row in range(Y.shape[0]):
        key = stream_key(seed, numbers[row])
        y, state = Y[row], Z[row]
        copy_vector(state, z)
        copy_vector(z, trial)
        log_step, visits = state[dim], state[dim + 1]
        rss = rss_of(y, table, grid, work, flow)
        form = quadratic(precision, z, pulled)
        for sweep in range(n_steps):
            first = sweep * (dim + 2 + places)
            counter = fill_normals(key, first, noise)
            step = np.exp(log_step)
            total = 0.0
            for place in range(places):
                copy_vector(z, trial)
                for axis in range(n_axes):
                    j = axis * places + place
                    trial[j] += step * spread[j] * noise[j]
                form_new = quadratic(precision, trial, pulled)
                rss_new = rss_of(y, table, grid, work, flow)
                ratio = 0.5 * ((rss - rss_new) / noise_variance + form - form_new)
                probability = _chance(ratio)
                if uniform(key, counter + place) < probability:
                    copy_vector(trial, z)
                    rss, form = rss_new, form_new
                total += probability
            total /= places
            accepted += total
            visits += 1.0
            if goal > 0.0:
                log_step += (total - goal) * visits**-DECAY
        copy_vector(z, state)
        state[dim], state[dim + 1] = log_step, visits
    return accepted


def prior_walks(
    Y, Z, numbers, seed, table, precision, factor, noise_variance, grid, n_axes,
    n_steps, goal,
):  # fmt: skip
    """Move all landmarks of every image at once, in place.

    The proposal adds ``exp(log_step) * factor @ noise``, with ``factor @ factor.T``
    the prior covariance. Parameters and result as for `landmark_walks`.
    """
    return _prior_walks(
        Y, Z, numbers, seed, table, precision, factor, noise_variance, grid,
        new_work(grid, n_axes), np.empty((3, len(precision))), n_steps, goal,
        grid.flow,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _prior_walks(
    Y, Z, numbers, seed, table, precision, factor, noise_variance, grid, work, vectors,
    n_steps, goal, flow,
):  # fmt: skip
    """Move them with given scratch arrays."""
    dim = precision.shape[0]
    noise, z, move, trial = vectors[0], vectors[1], vectors[2], work.z
    accepted = 0.0
    for row in range(Y.shape[0]):
        key = stream_key(seed, numbers[row])
        y, state = Y[row], Z[row]
        copy_vector(state, z)
        copy_vector(z, trial)
        log_step, visits = state[dim], state[dim + 1]
        rss = rss_of(y, table, grid, work, flow)
        form = quadratic(precision, z, move)
        for transition in range(n_steps):
            counter = fill_normals(key, transition * (dim + 3), noise)
            step = np.exp(log_step)
            lower_times(factor, noise, move)
            for j in range(dim):
                trial[j] = z[j] + step * move[j]
            form_new = quadratic(precision, trial, move)
            rss_new = rss_of(y, table, grid, work, flow)
            ratio = 0.5 * ((rss - rss_new) / noise_variance + form - form_new)
            probability = _chance(ratio)
            if uniform(key, counter) < probability:
                copy_vector(trial, z)
                rss, form = rss_new, form_new
            accepted += probability
            visits += 1.0
            if goal > 0.0:
                log_step += (probability - goal) * visits**-DECAY
        copy_vector(z, state)
        state[dim], state[dim + 1] = log_step, visits
    return accepted


def prior_gibbs(
    Y, Z, numbers, seed, table, precision, noise_variance, grid, n_axes, n_steps
):
    """Draw every coordinate from its conditional prior, accept by the likelihood.

    The hybrid Gibbs sampler of Allassonniere, Kuhn and Trouve (2010). Parameters and
    result as for `landmark_walks`.
    """
    return _prior_gibbs(
        Y, Z, numbers, seed, table, precision, noise_variance, grid,
        new_work(grid, n_axes), np.empty((2, len(precision))), n_steps, grid.flow,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _prior_gibbs(
    Y, Z, numbers, seed, table, precision, noise_variance, grid, work, vectors, n_steps,
    flow,
):  # fmt: skip
    """Move them with given scratch arrays."""
    dim = precision.shape[0]
    noise, z, trial = vectors[0], vectors[1], work.z
    accepted = 0.0
    for row in range(Y.shape[0]):
        key = stream_key(seed, numbers[row])
        y, state = Y[row], Z[row]
        copy_vector(state, z)
        copy_vector(z, trial)
        rss = rss_of(y, table, grid, work, flow)
        for sweep in range(n_steps):
            counter = fill_normals(key, sweep * (2 * dim + 2), noise)
            total = 0.0
            for j in range(dim):
                pull = 0.0
                for k in range(dim):
                    pull += precision[j, k] * z[k]
                mean = z[j] - pull / precision[j, j]
                trial[j] = mean + noise[j] / np.sqrt(precision[j, j])
                rss_new = rss_of(y, table, grid, work, flow)
                probability = _chance(0.5 * (rss - rss_new) / noise_variance)
                if uniform(key, counter + j) < probability:
                    z[j] = trial[j]
                    rss = rss_new
                trial[j] = z[j]
                total += probability
            accepted += total / dim
        copy_vector(z, state)
        state[dim + 1] += n_steps
    return accepted
