"""Likelihoods and Metropolis sweeps of subjects, for models of the library."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload

from sktem.compartments.kernels.observations import observe_subject
from sktem.compartments.kernels.schedule import NONE, drop_records, schedule_subject
from sktem.kernels.borrowed import address, is_none, offset
from sktem.kernels.options import INNER, OUTER
from sktem.mixed_effects.kernels.structural import (
    HALF_LOG_TWO_PI,
    log_density,
    predict,
    squared_residual,
    transform,
)
from sktem.mixed_effects.kernels.work import numbers_of_work, sizes_of, subject_work_at

#: Code of the closed form of compartments, beside those of structural models.
COMPARTMENTS = -1
#: What is evaluated, or that chains are moved.
PREDICTIONS, SQUARES, DENSITIES, WALK = 0, 1, 2, 3


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
    noise : ndarray of shape (n_subjects, n_chains, n_numbers)
        Standard normal numbers.
    log_uniforms : ndarray of shape (n_subjects, n_chains, n_moves)
        Logarithms of uniform numbers.
    accepted : ndarray of int of shape (n_moves,)
        Counts of accepted proposals.
    """

    means: np.ndarray
    root: np.ndarray
    inverse: np.ndarray
    from_prior: np.ndarray
    scales: np.ndarray
    first: np.ndarray
    noise: np.ndarray
    log_uniforms: np.ndarray
    accepted: np.ndarray


@njit(**INNER, error_model="numpy", inline="always")
def parameters_of(model, rows, sizes, subject, z, psi):
    """Equal ``individual_parameters(...)`` of the model for one subject.

    The random parameters are z, the others come from ``rows.base``; each line of psi is
    one of the subject's lines.
    """
    lines, n = rows.lines, sizes.psi
    first = lines.of_subject[subject]
    for k in range(lines.of_subject[subject + 1] - first):
        own = offset(psi, k * n)
        for p in range(n):
            own[p] = rows.base[subject * n + p]
        for j in range(sizes.random):
            own[model.positions[j]] = z[j]
        if sizes.shifts:
            for p in range(n):
                own[p] += lines.shifts[(first + k) * n + p]
        latent = lines.latents[first + k]
        if latent >= 0:
            for j in range(sizes.effects):
                own[lines.parameters[j]] += z[latent + j]
        for p in range(n):
            own[p] = transform(model.transforms[p], own[p])


@njit(**INNER, error_model="numpy", inline="always")
def steps_of_subject(rows, sizes, subject, work):
    """Write the steps that a subject has with parameters, False without room."""
    plan, of_record, n = rows.plan, rows.lines.of_record, sizes.records
    begin, stop = plan.events.offsets[subject], plan.events.offsets[subject + 1]
    for i in range(begin, stop):
        line = offset(work.psi, (of_record[i] - of_record[begin]) * sizes.psi)
        share, lag = plan.dosing[i], plan.dosing[n + i]
        duration, rate = plan.dosing[2 * n + i], plan.dosing[3 * n + i]
        work.dosing.bioavailability[i] = line[share] if share >= 0 else 1.0
        work.dosing.lag[i] = line[lag] if lag >= 0 else 0.0
        work.dosing.duration[i] = line[duration] if duration >= 0 else math.nan
        work.dosing.rate[i] = line[rate] if rate >= 0 else math.nan
    n = schedule_subject(
        plan.events, work.dosing, subject, NONE, work.steps, work.pending
    )
    if n < 0:
        return False
    work.steps.offsets[0] = 0
    work.steps.offsets[1] = drop_records(
        work.steps, n, plan.is_row, of_record, work.before, work.since,
        rows.offsets[subject],
    )  # fmt: skip
    return True


def known_steps(rows, sizes, subject, work):
    """Return whether there are steps, these, rows before, their place, and times since.

    They are those of the plan, or made for the parameters where these say when.
    """
    raise NotImplementedError("for compiled code")


@overload(known_steps, jit_options={**INNER, "error_model": "numpy"})
def _known_steps(rows, sizes, subject, work):
    if is_none(rows.types[rows.fields.index("plan")], "events"):

        def of_plan(rows, sizes, subject, work):
            plan = rows.plan
            since = offset(plan.since, rows.offsets[subject])
            return True, plan.steps, plan.before, subject, since

        return of_plan

    def made(rows, sizes, subject, work):
        known = steps_of_subject(rows, sizes, subject, work)
        return known, work.steps, work.before, NONE, work.since

    return made


@njit(**INNER, error_model="numpy", inline="always")
def predict_subject(model, rows, sizes, subject, z, work):
    """Equal ``f = predict_rows(...)`` of the model for one subject.

    Predictions are NaN where parameters of doses make more steps than there is room.
    """
    parameters_of(model, rows, sizes, subject, z, work.psi)
    plan, lines = rows.plan, rows.lines
    start, stop = rows.offsets[subject], rows.offsets[subject + 1]
    first, last = lines.of_subject[subject], lines.of_subject[subject + 1]
    if model.code != COMPARTMENTS:
        for k in range(first, last):
            a, b = lines.begins[k], lines.begins[k + 1]
            predict(
                model.code, offset(work.psi, (k - first) * sizes.psi),
                offset(rows.inputs, a), offset(rows.inputs, sizes.rows + a), b - a,
                offset(work.f, a - start),
            )  # fmt: skip
        return start, stop - start
    known, steps, before, own, since = known_steps(rows, sizes, subject, work)
    if not known:
        for i in range(stop - start):
            work.f[i] = math.nan
        return start, stop - start
    width = sizes.arguments
    for k in range(last - first):
        for j in range(width):
            work.arguments[k * width + j] = work.psi[k * sizes.psi + plan.order[j]]
    observe_subject(
        work.linear, steps, own, before, (lines.of_record, last - first, width),
        work.arguments, (start, stop), since, offset(plan.is_effect, start), work.f,
    )  # fmt: skip
    return start, stop - start


@njit(**INNER, error_model="numpy", forceinline=True)
def density_of(model, y, n, f, a, b):
    """Equal ``log_density(y, f, (a, b), least).sum()`` over the n rows of a subject."""
    total = 0.0
    if model.error == 0:
        for i in range(n):
            residual = y[i] - f[i]
            total += residual * residual
        return -0.5 * total / (a * a) - n * (math.log(a) + HALF_LOG_TWO_PI)
    for i in range(n):
        total += log_density(model.error, y[i], f[i], a, b, model.least)
    return total


@njit(**INNER, error_model="numpy", inline="always")
def squared_distance(d, z, mean, inverse):
    """Equal ``((inverse @ (z - mean)) ** 2).sum()`` for a lower triangle."""
    total = 0.0
    for j in range(d):
        value = 0.0
        for k in range(j + 1):
            value += inverse[j * d + k] * (z[k] - mean[k])
        total += value * value
    return total


@njit(**INNER, error_model="numpy", inline="always")
def propose(d, moves, t, z, mean, noise, proposed):
    """Write the place that a move leads to, the place itself for a negative one."""
    for j in range(d):
        proposed[j] = z[j]
    if t < 0:
        return
    position = moves.first[t]
    for j in range(d):
        if moves.from_prior[t]:
            value = mean[j]
            for k in range(j + 1):
                value += moves.root[j * d + k] * noise[position + k]
            proposed[j] = value
        elif moves.scales[t * d + j] != 0.0:
            proposed[j] += moves.scales[t * d + j] * noise[position]
            position += 1


@njit(**INNER, error_model="numpy", inline="always")
def reduce_subject(model, what, errors, f, y, n, n_errors, sums, out):
    """Write predictions, squares or log-densities for the n rows of a subject."""
    if what == PREDICTIONS:
        for j in range(n):
            out[j] = f[j]
    elif what == SQUARES:
        total = 0.0
        for j in range(n):
            square = squared_residual(model.error, y[j], f[j], model.least)
            if math.isfinite(square):
                total += square
        sums[0] = total
    else:
        for e in range(n_errors):
            sums[e] = density_of(model, y, n, f, errors[2 * e], errors[2 * e + 1])


@njit(**OUTER, error_model="numpy")
def sweep(model, rows, moves, what, errors, start, stop, Z, sums, f):
    """Move chains of the subjects of a block, or write their evaluations.

    WALK equals ``_walk`` of ``samplers.component_walk``: the chains Z of shape
    (n_subjects, n_chains, d) are moved in place, and the accepted proposals of each
    move are counted in ``moves.accepted``. Otherwise, one of ``predict_rows(...)`` is
    written to ``f[c]``; ``square(...).sum()``, where squares that are not finite count
    as 0, to ``sums[..., 0]``; or ``log_density(...).sum()`` at the errors (a, b) of
    each line to ``sums[..., e]``. The sums have the shape (n_subjects, n_chains,
    n_errors) and f (n_chains, n_rows).
    """
    sizes, room = sizes_of(model, rows, moves, Z, errors), rows.plan.n_steps
    n_reals, n_whole = numbers_of_work(sizes, room)
    reals, whole = np.empty(n_reals), np.empty(n_whole, np.int64)
    work = subject_work_at(address(reals), address(whole), sizes, room, rows.plan.sizes)
    d, proposed = sizes.latents, offset(address(reals), n_reals - sizes.latents)
    inner, owned, walk = address((model, rows, moves))
    points, at, into, out = address((Z, errors, sums, f))
    n_moves = sizes.moves if what == WALK else 0
    for chain in range(start * sizes.chains, stop * sizes.chains):
        i, c = chain // sizes.chains, chain % sizes.chains
        z, mean = offset(points, chain * d), offset(walk.means, i * d)
        noise = offset(walk.noise, chain * sizes.noise)
        current = distance = 0.0
        for t in range(-1, n_moves):
            propose(d, walk, t, z, mean, noise, proposed)
            begin, n = predict_subject(inner, owned, sizes, i, proposed, work)
            y = offset(owned.y, begin)
            if what != WALK:
                reduce_subject(
                    inner, what, at, work.f, y, n, sizes.errors,
                    offset(into, chain * sizes.errors),
                    offset(out, c * sizes.rows + begin),
                )  # fmt: skip
                continue
            value = density_of(inner, y, n, work.f, inner.a, inner.b)
            new_distance = squared_distance(d, proposed, mean, walk.inverse)
            if t < 0:
                current, distance = value, new_distance
                continue
            ratio = value - current
            if not walk.from_prior[t]:
                ratio -= 0.5 * (new_distance - distance)
            if walk.log_uniforms[chain * n_moves + t] < ratio:
                current = value
                distance = new_distance
                walk.accepted[t] += 1
                for j in range(d):
                    z[j] = proposed[j]
    reals[0] = whole[0] = 0  # a last use, until which the work lives
