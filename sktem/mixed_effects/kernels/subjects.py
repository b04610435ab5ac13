"""Likelihoods and Metropolis sweeps of subjects, for models of the library."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from sktem.compartments.kernels.observations import (
    Work,
    new_work,
    observe_subject,
)
from sktem.kernels.borrowed import borrowed
from sktem.mixed_effects.kernels.structural import (
    HALF_LOG_TWO_PI,
    log_density,
    predict,
    squared_residual,
    transform,
)

#: Code of the closed form of compartments, beside those of structural models.
COMPARTMENTS = -1
#: What is evaluated.
PREDICTIONS, SQUARES, DENSITIES = 0, 1, 2


class SubjectModel(NamedTuple):
    """Settings that are the same for all subjects.

    Attributes
    ----------
    code, error : int
        Codes of the structural model and of the residual error.
    sizes : tuple of int
        Numbers of depots, compartments and effects.
    order : ndarray of int of shape (n_arguments,)
        Which parameter each argument of the model function is.
    transforms : ndarray of int of shape (n_parameters,)
        Codes of the transforms.
    positions : ndarray of int of shape (d,)
        Which parameters are random.
    a, b : float
        Parameters of the residual error.
    least : float
        Size that predictions have at least, for the proportional error.
    """

    code: int
    error: int
    sizes: tuple[int, int, int]
    order: np.ndarray
    transforms: np.ndarray
    positions: np.ndarray
    a: float
    b: float
    least: float


class SubjectRows(NamedTuple):
    """The rows of all subjects.

    Attributes
    ----------
    inputs : ndarray of shape (n_columns, n_rows)
        Columns in the order of the structural model, each contiguous.
    y : ndarray of shape (n_rows,)
        Observations.
    offsets : ndarray of int of shape (n_subjects + 1,)
        Where the rows of each subject begin.
    base : ndarray of shape (n_subjects, n_parameters)
        Gaussian parameters of the subjects; those at ``positions`` are not used.
    steps : Steps
        Steps between the rows of compartments.
    before : ndarray of int of shape (n_steps,)
        How many rows come before each.
    since, is_effect : ndarray of shape (n_rows,)
        Time of each row since the step before, and whether it is of the effect.
    """

    inputs: np.ndarray
    y: np.ndarray
    offsets: np.ndarray
    base: np.ndarray
    steps: NamedTuple
    before: np.ndarray
    since: np.ndarray
    is_effect: np.ndarray


class SubjectWork(NamedTuple):
    """Work arrays of a subject.

    Attributes
    ----------
    psi : ndarray of shape (n_parameters,)
        Parameters.
    f : ndarray of shape (n_rows,)
        Predictions.
    arguments : ndarray of shape (n_arguments,)
        Parameters in the order of the closed form of compartments.
    linear : Work
        Work arrays of the closed form.
    """

    psi: np.ndarray
    f: np.ndarray
    arguments: np.ndarray
    linear: Work


class WalkMoves(NamedTuple):
    """Prior and proposals.

    Attributes
    ----------
    means : ndarray of shape (n_subjects, d)
        Prior means.
    root, inverse : ndarray of shape (d, d)
        Lower Cholesky factor of the prior covariance, and its inverse.
    from_prior : ndarray of bool of shape (n_moves,)
        Whether a proposal is a draw of the prior.
    scales : ndarray of shape (n_moves, d)
        Standard deviations of the walk.
    first : ndarray of int of shape (n_moves,)
        Where the noise of a move begins.
    """

    means: np.ndarray
    root: np.ndarray
    inverse: np.ndarray
    from_prior: np.ndarray
    scales: np.ndarray
    first: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def new_subject_work(model, rows):
    """Return work arrays that are large enough for each subject."""
    depots, compartments, effects = model.sizes
    return SubjectWork(
        np.empty(rows.base.shape[1]),
        np.empty(np.max(rows.offsets[1:] - rows.offsets[:-1])),
        np.empty(model.order.shape[0]),
        new_work(depots, compartments, effects),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def release(work):
    """Be a last use of work arrays, which live until then."""
    work.psi[0] = 0.0


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def predict_subject(model, rows, subject, z, work):
    """Equal ``f = predict_rows(...)`` of the model for one subject.

    The random parameters are z, the others come from ``rows.base``.
    """
    psi = work.psi
    for p in range(psi.shape[0]):
        psi[p] = rows.base[subject, p]
    for j in range(z.shape[0]):
        psi[model.positions[j]] = z[j]
    for p in range(psi.shape[0]):
        psi[p] = transform(model.transforms[p], psi[p])
    start, stop = rows.offsets[subject], rows.offsets[subject + 1]
    if model.code == COMPARTMENTS:
        for k in range(model.order.shape[0]):
            work.arguments[k] = psi[model.order[k]]
        observe_subject(
            work.linear, rows.steps, rows.before, subject, work.arguments, start, stop,
            rows.since, rows.is_effect, work.f,
        )  # fmt: skip
    else:
        predict(model.code, psi, rows.inputs, start, stop, work.f)
    return start, stop - start


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def density_of(model, rows, start, n, f, a, b):
    """Equal ``log_density(y, f, (a, b), least).sum()`` over the n rows of a subject."""
    total = 0.0
    if model.error == 0:
        for i in range(n):
            residual = rows.y[start + i] - f[i]
            total += residual * residual
        return -0.5 * total / (a * a) - n * (math.log(a) + HALF_LOG_TWO_PI)
    for i in range(n):
        total += log_density(model.error, rows.y[start + i], f[i], a, b, model.least)
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def evaluate(model, rows, Z, what, errors, start, stop, sums, f):
    """Write sums over the rows of each subject and chain, or their predictions.

    They equal ``predict_rows(...)`` in ``f[c]``; ``square(...).sum()``, where squares
    that are not finite count as 0, in ``sums[..., 0]``; or ``log_density(...).sum()``
    at the errors (a, b) of each line in ``sums[..., e]``. Z has the shape (n_subjects,
    n_chains, d), sums (n_subjects, n_chains, n_errors) and f (n_chains, n_rows).
    """
    work = new_subject_work(model, rows)
    inner, points = borrowed((model, rows, work)), borrowed(Z)
    for i in range(start, stop):
        for c in range(Z.shape[1]):
            begin, n = predict_subject(inner[0], inner[1], i, points[i, c], inner[2])
            if what == PREDICTIONS:
                for j in range(n):
                    f[c, begin + j] = work.f[j]
            elif what == SQUARES:
                total = 0.0
                for j in range(n):
                    y = rows.y[begin + j]
                    square = squared_residual(model.error, y, work.f[j], model.least)
                    if math.isfinite(square):
                        total += square
                sums[i, c, 0] = total
            else:
                for e in range(errors.shape[0]):
                    sums[i, c, e] = density_of(
                        inner[0], inner[1], begin, n, inner[2].f, errors[e, 0],
                        errors[e, 1],
                    )  # fmt: skip
    release(work)


@njit(cache=True, nogil=True, error_model="numpy")
def squared_distance(z, mean, inverse):
    """Equal ``((inverse @ (z - mean)) ** 2).sum()`` for a lower triangle."""
    total = 0.0
    for j in range(z.shape[0]):
        value = 0.0
        for k in range(j + 1):
            value += inverse[j, k] * (z[k] - mean[k])
        total += value * value
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def propose(moves, t, mean, z, noise, proposed):
    """Write the place that a move leads to, the place itself for a negative one."""
    for j in range(z.shape[0]):
        proposed[j] = z[j]
    if t < 0:
        return
    position = moves.first[t]
    for j in range(z.shape[0]):
        if moves.from_prior[t]:
            value = mean[j]
            for k in range(j + 1):
                value += moves.root[j, k] * noise[position + k]
            proposed[j] = value
        elif moves.scales[t, j] != 0.0:
            proposed[j] += moves.scales[t, j] * noise[position]
            position += 1


@njit(cache=True, nogil=True, error_model="numpy")
def walk(model, rows, moves, noise, log_uniforms, start, stop, Z, accepted):
    """Equal ``_walk`` of ``samplers.component_walk``, for the subjects of a block.

    The chains Z of shape (n_subjects, n_chains, d) are moved in place, and the accepted
    proposals of each move are counted.
    """
    work, trial = new_subject_work(model, rows), np.empty(Z.shape[2])
    inner, points = borrowed((model, rows, work)), borrowed(Z)
    proposed, moves, noise = borrowed((trial, moves, noise))
    for i in range(start, stop):
        mean = moves.means[i]
        for c in range(Z.shape[1]):
            z = points[i, c]
            current = distance = 0.0
            for t in range(-1, moves.first.shape[0]):
                propose(moves, t, mean, z, noise[i, c], proposed)
                begin, n = predict_subject(inner[0], inner[1], i, proposed, inner[2])
                value = density_of(
                    inner[0], inner[1], begin, n, inner[2].f, inner[0].a, inner[0].b
                )
                new_distance = squared_distance(proposed, mean, moves.inverse)
                if t < 0:
                    current, distance = value, new_distance
                    continue
                ratio = value - current
                if not moves.from_prior[t]:
                    ratio -= 0.5 * (new_distance - distance)
                if log_uniforms[i, c, t] < ratio:
                    current = value
                    distance = new_distance
                    accepted[t] += 1
                    for j in range(z.shape[0]):
                        z[j] = proposed[j]
    release(work)
    trial[0] = 0.0
