"""The kernels of templates for images on arrays of other namespaces, all at once.

The functions are those of ``sktem.template.kernels``, by the same names and with the
same arguments, but for images, which are :class:`~sktem.arrays.TensorRows`.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import solve_triangular

from sktem.arrays import TensorRows
from sktem.template.kernels.chains import DECAY
from sktem.template.kernels.modes import EASE, FIRST_DAMPING, MOST_DAMPING, TIGHTEN
from sktem.template.tensors import TensorImages

__all__ = [
    "deformed_images",
    "function_of",
    "importance_terms",
    "landmark_walks",
    "langevin_chains",
    "modes",
    "prior_gibbs",
    "prior_walks",
    "rss_and_pulls",
    "template_sums",
]


def function_of(X, kernel):
    """Return a kernel, or the function of its name for images that are tensors."""
    return globals()[kernel.__name__] if isinstance(X, TensorRows) else kernel


def _even(count):
    """Return the counters that a vector of normal draws uses."""
    return count + count % 2


def rss_and_pulls(Y, Z, table, grid):
    """Return sums of squared residuals and pulls on the landmarks."""
    images = TensorImages(Y, grid, table)
    z = images.send(Z)
    residual, slopes = images.residuals(z)
    found = images.squares(residual), images.pull(z, residual, slopes)
    return tuple(images.arrays.to_numpy(one).astype(float) for one in found)


def deformed_images(Y, Z, table, grid):
    """Return deformed templates at the pixels, of the kind of the images."""
    images = TensorImages(Y, grid, table)
    images.y, images.seen = images.arrays.xp.zeros_like(images.y), images.y == images.y
    residual, _ = images.residuals(images.send(Z))
    return -images.arrays.xp.reshape(residual, Y.values.shape)


# ---------------------------------------------------------------------------- chains


def langevin_chains(Y, Z, numbers, seed, target, grid, n_steps, adjusted, goal):
    """Move one chain for every image, in place."""
    dim = len(target.factor)
    images = TensorImages(Y, grid, target.table, target.noise_variance)
    arrays, xp, send = images.arrays, images.arrays.xp, images.send
    variance = images.variance
    factor, precision = send(target.factor), send(target.precision)
    counts = (n_steps, dim, 1)
    noise, uniforms = images.draws(seed, numbers, dim + 2, dim + 1, counts)

    def evaluated(w):
        """Return whitened landmarks, landmarks, log-density and its gradient."""
        z, prior = w @ factor.T, w @ precision
        residual, slopes = images.residuals(z)
        pull = images.pull(z, residual, slopes) @ factor
        gradient = -pull / variance[:, None] - prior
        energy = images.squares(residual) / variance + xp.sum(prior * w, axis=1)
        return [w, z, -0.5 * energy, gradient]

    start = solve_triangular(target.factor, Z[:, :dim].T, lower=True).T
    now = evaluated(send(start))
    log_step, visits = send(Z[:, dim]), send(Z[:, dim + 1])
    accepted = xp.zeros_like(visits)
    restored = xp.zeros_like(visits)
    for k in range(n_steps):
        w, _, density, gradient = now
        step, move = xp.exp(log_step)[:, None], noise[:, k, :]
        new = evaluated(w + step * gradient + xp.sqrt(2.0 * step) * move)
        if adjusted:
            back = w - new[0] - step * new[3]
            ratio = 0.5 * xp.sum(move**2 - back**2 / (2.0 * step), axis=1)
            probability = images.accepted(new[2] - density + ratio)
        else:
            probability = arrays.astype(xp.isfinite(new[2]), images.dtype)
            restored = restored + (1.0 - probability)
            log_step = log_step - math.log(2.0) * (1.0 - probability)
        accepted, visits = accepted + probability, visits + 1.0
        if adjusted and goal > 0.0:
            log_step = log_step + (probability - goal) * visits**-DECAY
        now = images.merged(uniforms[:, k, 0] < probability, new, now)
    Z[:, :dim] = arrays.to_numpy(now[1])
    Z[:, dim], Z[:, dim + 1] = arrays.to_numpy(log_step), arrays.to_numpy(visits)
    return float(xp.sum(accepted)), int(xp.sum(restored))


def landmark_walks(
    Y, Z, numbers, seed, table, precision, spread, noise_variance, grid, n_steps,
    goal,
):  # fmt: skip
    """Move the landmarks of every image one by one, in place."""
    images, dim = TensorImages(Y, grid, table, noise_variance), len(precision)
    places = dim // images.n_axes
    draws = images.draws(
        seed, numbers, dim + 2 + places, _even(dim), (n_steps, dim, places)
    )
    own = images.send(np.tile(np.eye(places), images.n_axes) * spread)

    def proposal(z, step, noise, place):
        return z + step * own[place, :] * noise

    return _walk(images, Z, precision, proposal, draws, goal)


def prior_walks(
    Y, Z, numbers, seed, table, precision, factor, noise_variance, grid, n_steps,
    goal,
):  # fmt: skip
    """Move all landmarks of every image at once, in place."""
    images, dim = TensorImages(Y, grid, table, noise_variance), len(precision)
    draws = images.draws(seed, numbers, dim + 3, _even(dim), (n_steps, dim, 1))
    factor = images.send(factor)

    def proposal(z, step, noise, place):
        return z + step * (noise @ factor.T)

    return _walk(images, Z, precision, proposal, draws, goal)


def prior_gibbs(Y, Z, numbers, seed, table, precision, noise_variance, grid, n_steps):
    """Draw every coordinate from its conditional prior, accept by the likelihood."""
    images, dim = TensorImages(Y, grid, table, noise_variance), len(precision)
    draws = images.draws(seed, numbers, 2 * dim + 2, _even(dim), (n_steps, dim, dim))
    diagonal = np.diag(precision)
    pulls, own = images.send(precision / diagonal), images.send(np.eye(dim))
    deviations = images.send(1 / np.sqrt(diagonal))

    def proposal(z, step, noise, j):
        move = noise[:, j] * deviations[j] - z @ pulls[:, j]
        return z + move[:, None] * own[j, :]

    return _walk(images, Z, precision, proposal, draws, None)


def _walk(images, Z, precision, proposal, draws, goal):
    """Propose and test the moves of sweeps; without a goal from the prior."""
    arrays, xp = images.arrays, images.arrays.xp
    dim, precision = len(precision), images.send(precision)
    noise, uniforms = draws

    def evaluated(z):
        rss = images.squares(images.residuals(z)[0])
        form = xp.sum((z @ precision) * z, axis=1)
        return [z, rss / images.variance + (form if goal is not None else 0.0)]

    now = evaluated(images.send(Z[:, :dim]))
    log_step, visits = images.send(Z[:, dim]), images.send(Z[:, dim + 1])
    accepted = xp.zeros_like(visits)
    for sweep in range(noise.shape[1]):
        step, total = xp.exp(log_step)[:, None], xp.zeros_like(visits)
        for place in range(uniforms.shape[2]):
            new = evaluated(proposal(now[0], step, noise[:, sweep, :], place))
            probability = images.accepted(0.5 * (now[1] - new[1]))
            now = images.merged(uniforms[:, sweep, place] < probability, new, now)
            total = total + probability
        total = total / uniforms.shape[2]
        accepted, visits = accepted + total, visits + 1.0
        if goal:
            log_step = log_step + (total - goal) * visits**-DECAY
    Z[:, :dim] = arrays.to_numpy(now[0])
    Z[:, dim], Z[:, dim + 1] = arrays.to_numpy(log_step), arrays.to_numpy(visits)
    return float(xp.sum(accepted))


# ----------------------------------------------------------------------------- modes


def modes(
    Y, Z, table, precision, noise_variance, levels, max_steps, gains, hold, grid, pairs,
    rss, log_det, lowers, rough=False,
):  # fmt: skip
    """Move the landmarks of every image to a mode of their posterior, in place."""
    images = TensorImages(Y, grid, table, noise_variance, rough)
    arrays, xp = images.arrays, images.arrays.xp
    inverse = images.send(precision)
    for level, gain in zip(levels, gains, strict=True):
        limits = float(level), max_steps, float(gain), float(hold)
        _climb(images, Z, inverse, pairs, *limits)
    z = images.send(Z)
    residual, slopes = images.residuals(z)
    rss[:] = arrays.to_numpy(images.squares(residual))
    variance = images.variance[:, None, None]
    hessian = inverse + images.curvature(z, slopes, pairs) / variance
    sign, value = xp.linalg.slogdet(hessian)
    definite = (sign > 0.0) & xp.isfinite(value)
    log_det[:] = np.where(arrays.to_numpy(definite), arrays.to_numpy(value), np.nan)
    if len(lowers):
        unit = xp.zeros_like(hessian) + images.send(np.eye(hessian.shape[1]))
        (hessian,) = images.merged(definite, [hessian], [unit])
        lowers[:] = arrays.to_numpy(xp.linalg.cholesky(hessian))


def _eyes(images, matrices):
    """Return as many unit matrices."""
    return images.arrays.xp.zeros_like(matrices) + images.send(
        np.eye(matrices.shape[1])
    )


def _climb(images, Z, precision, pairs, level, max_steps, gain, hold):
    """Do Levenberg-Marquardt steps at one level of noise, until images are done."""
    arrays, xp = images.arrays, images.arrays.xp

    def evaluated(images, z):
        """Return landmarks, energy, its negative gradient and the slopes."""
        residual, slopes = images.residuals(z)
        prior, variance = z @ precision, level * images.variance
        energy = images.squares(residual) / variance + xp.sum(prior * z, axis=1)
        gradient = -images.pull(z, residual, slopes) / variance[:, None] - prior
        return [z, 0.5 * energy, gradient, slopes]

    rows, now = np.arange(len(Z)), evaluated(images, images.send(Z))
    damping, unit = xp.full_like(now[1], FIRST_DAMPING), images.send(np.eye(Z.shape[1]))
    held, gauss = xp.zeros_like(now[1]) > 0.0, None
    for _ in range(max_steps):
        z, energy, gradient, slopes = now
        fresh = images.curvature(z, slopes, pairs)
        gauss = fresh if gauss is None else images.merged(held, [gauss], [fresh])[0]
        hessian = gauss / (level * images.variance[:, None, None]) + precision
        hessian = hessian * (1.0 + damping[:, None, None] * unit)
        move = xp.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        expected = 0.5 * xp.sum(gradient * move, axis=1)
        new = evaluated(images, z + move)
        better = new[1] < energy  # False for NaN
        won = energy - new[1]
        now = images.merged(better, new, now)
        failed = ~better & ~held
        held = better & (won >= hold * expected)
        damping = xp.where(better & ~held, damping * EASE, damping)
        damping = xp.where(failed, damping * TIGHTEN, damping)
        done = (better & (won < gain)) | (failed & (damping > MOST_DAMPING))
        done = arrays.to_numpy(done)
        if done.any():
            Z[rows[done]] = arrays.to_numpy(now[0])[done]
            left = np.flatnonzero(~done)
            if len(left) == 0:
                return
            rows, images = rows[left], images.chosen(left)
            now = [arrays.take(one, left) for one in now]
            damping, held = arrays.take(damping, left), arrays.take(held, left)
            gauss = arrays.take(gauss, left)
    Z[rows] = arrays.to_numpy(now[0])


def importance_terms(
    Y, Z, lowers, numbers, seed, freedom, table, precision, noise_variance, grid,
    terms,
):  # fmt: skip
    """Fill logarithms of unnormalised posterior over proposal, draw by draw."""
    images, dim = TensorImages(Y, grid, table), len(precision)
    arrays, xp, variance = images.arrays, images.arrays.xp, float(noise_variance)
    precision = images.send(precision)
    inverse = xp.linalg.inv(images.send(lowers.swapaxes(1, 2)))
    count = _even(dim) + freedom
    noise, _ = images.draws(
        seed, numbers, _even(dim) + _even(freedom), 0, (terms.shape[1], count, 0)
    )
    noise, chi = noise[:, :, :dim], noise[:, :, _even(dim) :]
    squares = xp.sum(noise**2, axis=2)
    log_proposals, stretch = -0.5 * squares, xp.ones_like(squares)
    if freedom > 0:
        stretch = xp.sqrt(freedom / xp.sum(chi**2, axis=2))
        ratio = squares * stretch**2 / freedom
        log_proposals = -0.5 * (freedom + dim) * xp.log1p(ratio)
    Z = images.send(Z)
    for draw in range(terms.shape[1]):
        move = (stretch[:, draw, None] * noise[:, draw, :])[:, :, None]
        z = Z + (inverse @ move)[:, :, 0]
        rss = images.squares(images.residuals(z)[0])
        form = xp.sum((z @ precision) * z, axis=1)
        found = -0.5 * (rss / variance + form) - log_proposals[:, draw]
        terms[:, draw] = arrays.to_numpy(found)


# ------------------------------------------------------------------------ statistics


def template_sums(Y, Z, masses, pixels, grid, nodes, precision, cross, middle, head):
    """Add up the statistics of images."""
    images, n = TensorImages(Y, grid), len(Y)
    xp, send = images.arrays.xp, images.send
    mass = xp.reshape(send(masses), (n, 1, 1, 1))
    weights = xp.where(images.seen, mass, xp.zeros_like(images.y))
    values = weights * images.y
    head[0] += float(xp.sum(values * images.y, dtype=xp.float64))
    head[1] += float(xp.sum(weights, dtype=xp.float64))
    z = send(Z[:, : images.n_axes * math.prod(images.places)])
    places = send(pixels.reshape(images.n_axes, *images.pixels)) - images.fields(z)
    between = nodes * [1.0, 0.5, 2.0] - [0.0, 0.0, 1.0]
    tables = images.tables(places, nodes, precision)
    halves = images.tables(places, between, 2.0 * precision)
    cross += _products(images.arrays, values, tables).reshape(cross.shape)
    middle += _products(images.arrays, weights, halves).reshape(middle.shape)


def _products(arrays, weights, tables):
    """Return ``einsum("u,ua,ub,uc->abc", weights, *tables)`` for up to three tables."""
    weights = arrays.xp.reshape(weights, (-1, 1))
    *first, last = tables
    if len(first) < 2:
        left = first[0] * weights if first else weights
        return arrays.to_numpy(left.T @ last).astype(float)
    planes = [
        arrays.to_numpy((first[1] * (weights * first[0][:, i : i + 1])).T @ last)
        for i in range(first[0].shape[1])
    ]
    return np.stack(planes).astype(float)
