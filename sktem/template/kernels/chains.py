"""Markov chains on the landmarks of images: Langevin kernels."""

from collections import namedtuple

import numpy as np
from numba import njit

from sktem.kernels.counter_random import fill_normals, stream_key, uniform
from sktem.template.kernels.field import adjoint, new_work, rss_of
from sktem.template.kernels.products import FAST, copy_vector

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


@njit(cache=True, nogil=True, fastmath=FAST, inline="always")
def transpose_times(factor, g, out):
    """Fill ``out = factor.T @ g`` for a lower triangular factor."""
    for i in range(g.shape[0]):
        out[i] = 0.0
        row = factor[i]
        value = g[i]
        for j in range(i + 1):
            out[j] += value * row[j]


@njit(cache=True, nogil=True, fastmath=FAST, inline="always")
def solve_lower(factor, z, out):
    """Fill ``out`` with the solution of ``factor @ out = z[: len(out)]``."""
    for i in range(out.shape[0]):
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


@njit(cache=True, nogil=True, fastmath=FAST, inline="always")
def _step(w, gradient, noise, step, out):
    root = np.sqrt(2.0 * step)
    for i in range(w.shape[0]):
        out[i] = w[i] + step * gradient[i] + root * noise[i]


@njit(cache=True, nogil=True, fastmath=FAST, inline="always")
def _log_proposals(w, proposed, gradient, noise, step):
    """Return the log-ratio of the proposal densities, backward over forward."""
    total = 0.0
    for i in range(w.shape[0]):
        back = w[i] - proposed[i] - step * gradient[i]
        total += noise[i] * noise[i] - back * back / (2.0 * step)
    return 0.5 * total


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
    work = new_work(grid, n_axes)
    vectors = np.empty((7, len(target.factor)))
    return _langevin(
        Y, Z, numbers, seed, target, grid, work, vectors, n_steps, adjusted, goal,
        grid.flow,
    )  # fmt: skip


# Not re-associated: the test whether a density is finite would be folded.
@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _langevin(
    Y, Z, numbers, seed, target, grid, work, vectors, n_steps, adjusted, goal, flow
):
    """Move the chains with given scratch arrays."""
    dim = target.factor.shape[0]
    w, proposed, noise, prior = vectors[0], vectors[1], vectors[2], vectors[3]
    gradient, gradient_new, z = vectors[4], vectors[5], vectors[6]
    accepted = 0.0
    restored = 0
    for row in range(Y.shape[0]):
        key = stream_key(seed, numbers[row])
        y, state = Y[row], Z[row]
        solve_lower(target.factor, state, w)
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
            lower_times(target.factor, proposed, work.z)
            rss = rss_of(y, target.table, grid, work, flow)
            adjoint(grid, work, flow)
            form = quadratic(target.precision, proposed, prior)
            transpose_times(target.factor, work.pull, gradient_new)
            for i in range(dim):
                gradient_new[i] = -gradient_new[i] / target.noise_variance - prior[i]
            density_new = -0.5 * (rss / target.noise_variance + form)
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
                copy_vector(work.z, z)
                copy_vector(gradient_new, gradient)
                density = density_new
        copy_vector(z, state)
        state[dim], state[dim + 1] = log_step, visits
    return accepted, restored
