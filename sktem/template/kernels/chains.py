"""Markov chains on the landmarks of images: Langevin kernels."""

from collections import namedtuple

import numpy as np
from numba import njit

from sktem.kernels.counter_random import fill_normals, stream_key, uniform
from sktem.kernels.options import OUTER
from sktem.template.kernels.field import new_work, steps_of
from sktem.template.kernels.products import (
    FOUR,
    ONE,
    THREE,
    TWO,
    ZERO,
    copy_vector,
    fetch,
    product,
    quadratic,
    store,
)

__all__ = ["Target", "langevin_chains"]

#: Inputs of a chain of one component: the template's ``table``, ``factor`` with
#: ``factor @ factor.T`` the preconditioner, ``precision`` = ``factor.T @
#: inv(covariance) @ factor`` of the whitened landmarks, the noise variance, and the
#: ``inverse`` of the factor.
Target = namedtuple("Target", "table factor precision noise_variance inverse")

#: Adaptation gains are ``(1 + transitions) ** -DECAY``: they vanish, but their sum
#: diverges.
DECAY = 0.6


def langevin_chains(Y, Z, numbers, seed, target, grid, n_steps, adjusted, goal):
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
    dim = len(target.factor)
    target = target._replace(
        factor=target.factor.ravel(),
        precision=target.precision.ravel(),
        inverse=target.inverse.ravel(),
    )
    return _langevin(
        *steps_of(grid), Y, Z, numbers, seed, target, grid,
        new_work(grid, 6 * dim).flat, np.empty(dim), n_steps, adjusted, goal, grid.flow,
    )  # fmt: skip


# Not re-associated: the test whether a density is finite would be folded.
@njit(**OUTER, fastmath={"contract"}, error_model="numpy")
def _langevin(
    displace, compare, adjoint, Y, Z, numbers, seed, target, grid, work, noise,
    n_steps, adjusted, goal, flow,
):  # fmt: skip
    """Move the chains with given scratch arrays."""
    dim = grid.dim
    w = grid.more
    proposed, prior, gradient = w + dim, w + TWO * dim, w + THREE * dim
    gradient_new, z = w + FOUR * dim, w + FOUR * dim + dim
    accepted = 0.0
    restored = 0
    for row in range(np.uint64(len(Y))):
        key = stream_key(seed, numbers[row])
        fetch(Y, row, work, grid.image, grid.n_pixels)
        fetch(Z, row, work, z, dim)
        # The inverse of the factor, times the landmarks.
        quadratic(target.inverse, work, z, w, dim)
        density = 0.0
        log_step, visits = Z[row, dim], Z[row, dim + ONE]
        # Round 0 evaluates the state itself: with one place where the density is
        # called, it is compiled once.
        for transition in range(n_steps + 1):
            step = np.exp(log_step)
            root = np.sqrt(2.0 * step)
            counter = (transition - 1) * (len(noise) + 2)
            copy_vector(work, w, proposed, dim)
            if transition > 0:
                fill_normals(key, counter, noise)
                for i in range(dim):
                    moved = work[w + i] + step * work[gradient + i]
                    work[proposed + i] = moved + root * noise[i]
            quadratic(target.factor, work, proposed, grid.z, dim)
            displace(grid, work, flow)
            rss = compare(target.table, grid, work)
            adjoint(grid, work, flow)
            form = quadratic(target.precision, work, proposed, prior, dim)
            product(
                work, grid.pull, ONE, dim, target.factor, ZERO, work, gradient_new,
                (ONE, dim, dim),
            )  # fmt: skip
            for i in range(dim):
                pull = -work[gradient_new + i] / target.noise_variance
                work[gradient_new + i] = pull - work[prior + i]
            density_new = -0.5 * (rss / target.noise_variance + form)
            probability = 1.0
            if transition > 0:
                if adjusted:
                    # The log-ratio of the proposal densities, backward over forward.
                    total = 0.0
                    for i in range(dim):
                        back = work[w + i] - work[proposed + i]
                        back -= step * work[gradient_new + i]
                        total += noise[i] * noise[i] - back * back / (2.0 * step)
                    ratio = density_new - density + 0.5 * total
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
            draw = counter + len(noise) + 1
            if transition == 0 or uniform(key, draw) < probability:
                copy_vector(work, proposed, w, dim)
                copy_vector(work, grid.z, z, dim)
                copy_vector(work, gradient_new, gradient, dim)
                density = density_new
        store(work, z, dim, Z, row)
        Z[row, dim], Z[row, dim + ONE] = log_step, visits
    return accepted, restored
