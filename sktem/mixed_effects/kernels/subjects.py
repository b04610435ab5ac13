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
from sktem.compartments.kernels.schedule import (
    Dosing,
    Pending,
    Steps,
    drop_records,
    schedule_subject,
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
    transforms: np.ndarray
    positions: np.ndarray
    a: float
    b: float
    least: float


class Lines(NamedTuple):
    """Rows, or records of doses, of a subject that have the same parameters.

    Attributes
    ----------
    of_subject : ndarray of int of shape (n_subjects + 1,)
        Where the lines of each subject begin.
    of_record : ndarray of int of shape (n_records,)
        The line of each row or record.
    begins : ndarray of int of shape (n_lines + 1,)
        First row or record of each line.
    shifts : ndarray of shape (n_lines, n_parameters)
        What is added to the Gaussian parameters of the subject, empty for nothing.
    latents : ndarray of int of shape (n_lines,)
        Where the effects of the occasion begin among the latents, -1 without.
    parameters : ndarray of int of shape (n_effects,)
        Parameters that have an effect of occasions.
    """

    of_subject: np.ndarray
    of_record: np.ndarray
    begins: np.ndarray
    shifts: np.ndarray
    latents: np.ndarray
    parameters: np.ndarray


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
    lines : Lines
        What parameters vary by within subjects.
    plan : LinearPlan
        What compartments need to know of records.
    """

    inputs: np.ndarray
    y: np.ndarray
    offsets: np.ndarray
    base: np.ndarray
    lines: Lines
    plan: NamedTuple


class SubjectWork(NamedTuple):
    """Work arrays of a subject.

    Attributes
    ----------
    psi : ndarray of shape (n_lines, n_parameters)
        Parameters.
    arguments : ndarray of shape (n_lines, n_arguments)
        Those of the closed form of compartments, in its order.
    f, since : ndarray of shape (n_rows,)
        Predictions, and times of rows since the step before.
    linear : Work
        Work arrays of the closed form of compartments.
    dosing : Dosing
        Parameters of doses, of all records.
    steps, pending : Steps, Pending
        Steps that are made for the parameters, and doses to come.
    before : ndarray of int of shape (n_steps,)
        How many rows come before each.
    """

    psi: np.ndarray
    arguments: np.ndarray
    f: np.ndarray
    since: np.ndarray
    linear: Work
    dosing: Dosing
    steps: Steps
    pending: Pending
    before: np.ndarray


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
    depots, compartments, effects = rows.plan.sizes
    most = np.max(rows.offsets[1:] - rows.offsets[:-1])
    n_lines = np.max(rows.lines.of_subject[1:] - rows.lines.of_subject[:-1])
    room = rows.plan.n_steps
    n = rows.plan.dosing.shape[1] if room else 0
    return SubjectWork(
        np.empty((n_lines, rows.base.shape[1])),
        np.empty((n_lines, rows.plan.order.shape[0])),
        np.empty(most),
        np.empty(most),
        new_work(depots, compartments, effects),
        Dosing(np.empty(n), np.empty(n), np.empty(n), np.empty(n)),
        Steps(
            np.empty(room), np.empty(room), np.empty(room, dtype=np.int64),
            np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64),
            np.empty(room), np.empty(room), np.empty(room), np.empty(room),
            np.empty(room, dtype=np.bool_), np.zeros(2, dtype=np.int64),
        ),
        Pending(
            np.empty(room), np.empty(room), np.empty(room, dtype=np.int64),
            np.empty(room, dtype=np.int64), np.empty(room), np.empty(room),
            np.empty(room, dtype=np.int64),
        ),
        np.empty(room, dtype=np.int64),
    )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def release(work):
    """Be a last use of work arrays, which live until then."""
    work.psi[0] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def parameters_of(model, rows, subject, z, psi):
    """Equal ``individual_parameters(...)`` of the model for one subject.

    The random parameters are z, the others come from ``rows.base``; each line of psi is
    one of the subject's lines.
    """
    lines, first = rows.lines, rows.lines.of_subject[subject]
    for k in range(lines.of_subject[subject + 1] - first):
        for p in range(psi.shape[1]):
            psi[k, p] = rows.base[subject, p]
        for j in range(model.positions.shape[0]):
            psi[k, model.positions[j]] = z[j]
        if lines.shifts.shape[0]:
            for p in range(psi.shape[1]):
                psi[k, p] += lines.shifts[first + k, p]
        latent = lines.latents[first + k]
        if latent >= 0:
            for j in range(lines.parameters.shape[0]):
                psi[k, lines.parameters[j]] += z[latent + j]
        for p in range(psi.shape[1]):
            psi[k, p] = transform(model.transforms[p], psi[k, p])


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def steps_of_subject(rows, subject, work, psi):
    """Write the steps that a subject has with parameters, False without room."""
    plan, of_record = rows.plan, rows.lines.of_record
    begin, stop = plan.events.offsets[subject], plan.events.offsets[subject + 1]
    for i in range(begin, stop):
        line = psi[of_record[i] - of_record[begin]]
        share, lag = plan.dosing[0, i], plan.dosing[1, i]
        duration, rate = plan.dosing[2, i], plan.dosing[3, i]
        work.dosing.bioavailability[i] = line[share] if share >= 0 else 1.0
        work.dosing.lag[i] = line[lag] if lag >= 0 else 0.0
        work.dosing.duration[i] = line[duration] if duration >= 0 else math.nan
        work.dosing.rate[i] = line[rate] if rate >= 0 else math.nan
    n = schedule_subject(plan.events, work.dosing, subject, 0, work.steps, work.pending)
    if n < 0:
        return False
    work.steps.offsets[1] = drop_records(
        work.steps, n, plan.is_row, of_record, work.before, work.since,
        rows.offsets[subject],
    )  # fmt: skip
    return True


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def predict_subject(model, rows, subject, z, work):
    """Equal ``f = predict_rows(...)`` of the model for one subject.

    Predictions are NaN where parameters of doses make more steps than there is room.
    """
    parameters_of(model, rows, subject, z, work.psi)
    plan, lines = rows.plan, rows.lines
    start, stop = rows.offsets[subject], rows.offsets[subject + 1]
    first, last = lines.of_subject[subject], lines.of_subject[subject + 1]
    psi = work.psi[: last - first]
    if model.code != COMPARTMENTS:
        for k in range(first, last):
            a, b = lines.begins[k], lines.begins[k + 1]
            predict(model.code, psi[k - first], rows.inputs, a, b, work.f[a - start :])
        return start, stop - start
    steps, before, own = plan.steps, plan.before, subject
    since, effects = plan.since[start:stop], plan.is_effect[start:stop]
    if plan.n_steps:
        if not steps_of_subject(rows, subject, work, psi):
            work.f[:] = math.nan
            return start, stop - start
        steps, before, own, since = work.steps, work.before, 0, work.since
    arguments = work.arguments[: last - first]
    for k in range(last - first):
        for j in range(plan.order.shape[0]):
            arguments[k, j] = psi[k, plan.order[j]]
    observe_subject(
        work.linear, steps, own, before, lines.of_record, arguments, start, since,
        effects, work.f,
    )  # fmt: skip
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
