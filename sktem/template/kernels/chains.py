"""Markov chains on the landmarks of images: Langevin kernels."""

from collections import namedtuple

import numpy as np
from numba import njit

from sktem.kernels.counter_random import fill_normals, stream_key, uniform
from sktem.template.kernels.field import (
    FAST,
    adjoint,
    copy_vector,
    displace,
    new_work,
    residuals,
)

__all__ = ["Target", "langevin_chains"]

#: Inputs of a chain of one component: the template's ``table``, ``factor`` with
#: ``factor @ factor.T`` the preconditioner, ``precision`` = ``factor.T @
#: inv(covariance) @ factor`` of the whitened landmarks, and the noise variance.
Target = namedtuple("Target", "table factor precision noise_variance")

#: Adaptation gains are ``(1 + transitions) ** -DECAY``: they vanish, but their sum
#: diverges.
DECAY = 0.6


@njit(cache=True, nogil=True, fastmath=FAST)
def lower_times(factor, w, out):
    """Fill ``out = factor @ w`` for a lower triangular factor."""
    for i in range(w.shape[0]):
        row = factor[i]
        total = 0.0
        for j in range(i + 1):
            total += row[j] * w[j]
        out[i] = total


@njit(cache=True, nogil=True, fastmath=FAST)
def transpose_times(factor, g, out):
    """Fill ``out = factor.T @ g`` for a lower triangular factor."""
    out[:] = 0.0
    for i in range(g.shape[0]):
        row = factor[i]
        value = g[i]
        for j in range(i + 1):
            out[j] += value * row[j]


@njit(cache=True, nogil=True, fastmath=FAST)
def solve_lower(factor, z, out):
    """Fill ``out`` with the solution of ``factor @ out = z``."""
    for i in range(z.shape[0]):
        row = factor[i]
        total = z[i]
        for j in range(i):
            total -= row[j] * out[j]
        out[i] = total / row[i]


@njit(cache=True, nogil=True, fastmath=FAST)
def quadratic(matrix, w, out):
    """Fill ``out = matrix @ w`` and return ``w @ matrix @ w``."""
    form = 0.0
    for i in range(w.shape[0]):
        row = matrix[i]
        total = 0.0
        for j in range(w.shape[0]):
            total += row[j] * w[j]
        out[i] = total
        form += total * w[i]
    return form


@njit(cache=True, nogil=True)
def _log_density(y, w, z, gradient, prior, target, grid, work):
    """Fill z and the gradient in w; return the log-density of w up to a constant."""
    lower_times(target.factor, w, z)
    displace(z.reshape(work.pull.shape), grid, work)
    rss = residuals(y, target.table, grid, work)
    adjoint(grid, work)
    pull = work.pull.reshape(-1)
    n = w.shape[0]
    form = quadratic(target.precision, w, prior)
    transpose_times(target.factor, pull, gradient)
    for i in range(n):
        gradient[i] = -gradient[i] / target.noise_variance - prior[i]
    return -0.5 * (rss / target.noise_variance + form)


@njit(cache=True, nogil=True, fastmath=FAST)
def _step(w, gradient, noise, step, out):
    root = np.sqrt(2.0 * step)
    for i in range(w.shape[0]):
        out[i] = w[i] + step * gradient[i] + root * noise[i]


@njit(cache=True, nogil=True, fastmath=FAST)
def _log_proposals(w, proposed, gradient, noise, step):
    """Return the log-ratio of the proposal densities, backward over forward."""
    total = 0.0
    for i in range(w.shape[0]):
        back = w[i] - proposed[i] - step * gradient[i]
        total += noise[i] * noise[i] - back * back / (2.0 * step)
    return 0.5 * total


@njit(cache=True, nogil=True, error_model="numpy")
def langevin_chains(Y, Z, numbers, seed, target, grid, n_axes, n_steps, adjusted, goal):
    """Move one chain for every image, in place.

    ``w' = w + step * gradient + sqrt(2 * step) * noise`` in whitened landmarks ``w =
    inv(factor) @ z``, with the Metropolis test if `adjusted`.

    Parameters
    ----------
    Y : ndarray of shape (n, n_pixels)
        Images; NaN where not observed.
    Z : ndarray of shape (n, at least n_landmarks + 2)
        Landmarks, then the logarithm of the step and the number of transitions so far.
    numbers : ndarray of int64 of shape (n,)
        Indices of the images, which fix their random draws.
    seed : uint64
    target : Target
    grid : Grid
    n_axes : int
    n_steps : int
        Transitions.
    adjusted : bool
        Metropolis-adjusted (MALA) or not (ULA).
    goal : float
        Acceptance rate that the steps are adapted to; 0 keeps them.

    Returns
    -------
    accepted : float
        Sum of acceptance probabilities (of ULA: proposals that were finite).
    restored : int
        Proposals of ULA that were not finite: the state was kept and the step halved.
    """
    n = Y.shape[0]
    dim = target.factor.shape[0]
    work = new_work(grid, n_axes)
    w, proposed, noise = np.empty(dim), np.empty(dim), np.empty(dim)
    gradient, gradient_new = np.empty(dim), np.empty(dim)
    z, z_new, prior = np.empty(dim), np.empty(dim), np.empty(dim)
    accepted = 0.0
    restored = 0
    for row in range(n):
        key = stream_key(seed, numbers[row])
        y, state = Y[row], Z[row]
        solve_lower(target.factor, state[:dim], w)
        density = 0.0
        log_step, visits = state[dim], state[dim + 1]
        # Round 0 evaluates the state itself: with one place where the density is
        # called, it is compiled once.
        for transition in range(n_steps + 1):
            step = np.exp(log_step)
            counter = (transition - 1) * (dim + 2)
            if transition > 0:
                fill_normals(key, counter, noise)
                _step(w, gradient, noise, step, proposed)
            else:
                copy_vector(w, proposed)
            density_new = _log_density(
                y, proposed, z_new, gradient_new, prior, target, grid, work
            )
            probability = 1.0
            if transition > 0:
                if adjusted:
                    ratio = density_new - density
                    ratio += _log_proposals(w, proposed, gradient_new, noise, step)
                    # A comparison with NaN is false: such a proposal is rejected.
                    probability = 0.0
                    if ratio >= 0.0:
                        probability = 1.0
                    elif ratio > -700.0:
                        probability = np.exp(ratio)
                elif not np.isfinite(density_new):
                    probability = 0.0
                    restored += 1
                    log_step -= np.log(2.0)
                accepted += probability
                visits += 1.0
                if adjusted and goal > 0.0:
                    log_step += (probability - goal) * visits**-DECAY
            if transition == 0 or uniform(key, counter + dim + 1) < probability:
                copy_vector(proposed, w)
                copy_vector(z_new, z)
                copy_vector(gradient_new, gradient)
                density = density_new
        copy_vector(z, state[:dim])
        state[dim], state[dim + 1] = log_step, visits
    return accepted, restored
