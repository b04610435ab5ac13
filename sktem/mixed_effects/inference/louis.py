"""Observed information of mixed-effects models by Louis' formula."""

from __future__ import annotations

from functools import partial, reduce

import numpy as np
from scipy.special import logsumexp

from sktem.estimators.louis import LouisInformation
from sktem.mixed_effects.differences import DIFFERENCES
from sktem.mixed_effects.inference.marginal_likelihood import (
    DRAWS_AT_ONCE,
    ImportanceDraws,
)
from sktem.mixed_effects.inference.quadratic import is_quadratic
from sktem.mixed_effects.inference.several_parameters import (
    log_conditionals,
    residual_sums,
    values_in_step,
)
from sktem.mixed_effects.priors import log_prior
from sktem.mixed_effects.vector import ParameterVector
from sktem.progress import counted
from sktem.sequences.rows import each_block

__all__ = ["LouisInformation", "louis_information"]


def louis_information(model, X, params, draws, log_joint=None) -> LouisInformation:
    """Return the observed information as complete less missing information.

    ``I = sum_i E_i(-H_i) - cov_i(s_i)`` with slope s and Hessian H of the log-density
    of the observations and latents of subject i, and moments given its observations
    (Louis 1982, equation (3.1)). Parameters of the Gaussian distribution of the
    latents, and a residual error with one parameter, have both in closed form; other
    parameters of the observations take central differences at the draws. Priors of
    population parameters are part of the complete data.

    References
    ----------
    T. A. Louis, Finding the observed information matrix when using the EM algorithm,
    Journal of the Royal Statistical Society B, 1982.
    """
    if log_joint is None:
        log_joint = draws.log_joint(model, X, params)
    terms = log_joint + draws.log_weights
    weights = np.exp(terms - logsumexp(terms, axis=0))

    def of_subjects(subjects):
        points = ImportanceDraws(draws.points[:, subjects], None, draws.n_parts)
        return points, weights[:, subjects]

    parts = each_block(X, partial(_of_block, model, params), of_subjects)
    sums = (reduce(np.add, terms) for terms in zip(*parts, strict=True))
    information = LouisInformation(*sums)
    _, slope, curvature = log_prior(ParameterVector(model), params)
    return information._replace(
        complete=information.complete + curvature, slope=information.slope + slope
    )


def _of_block(model, params, X, draws, weights) -> LouisInformation:
    """Return the information of subjects that are in memory."""
    n_points, n, d = draws.points.shape
    vector = ParameterVector(model)
    p = len(vector)
    complete, square, means = np.zeros((p, p)), np.zeros((p, p)), np.zeros((n, p))
    # A weighted covariance of few draws is too small by this share.
    share = np.zeros(n)
    if draws.random and n_points > 1:
        share = (weights**2).sum(axis=0)
    inflation = np.sqrt(1 / (1 - np.minimum(share, 0.9)))
    about = np.zeros((n, p))
    at_once = max(1, min(n_points, DRAWS_AT_ONCE // max(n, 1)))
    # Slopes about a value near their mean, so that squares do not cancel: that of the
    # heaviest block, since slopes are huge at points far out, which have no weight.
    starts = range(0, n_points, at_once)
    heaviest_first = sorted(starts, key=lambda k: -weights[k : k + at_once].sum())
    label = f"Information: blocks of {draws.kind}"
    for start in counted(heaviest_first, label):
        part = draws.points[start : start + at_once]
        w = np.ascontiguousarray(weights[start : start + at_once].T).ravel()
        Z = np.ascontiguousarray(part.transpose(1, 0, 2))
        scores, hessian = _complete_data(vector, X, Z, params, w)
        complete -= hessian
        scores = scores.reshape(n, len(part), p)
        if start == heaviest_first[0]:
            first_weights = w.reshape(n, len(part), 1) + 1e-300
            about = (scores * first_weights).sum(axis=1) / first_weights.sum(axis=1)
        scores = (scores - about[:, None]) * inflation[:, None, None]
        weighted = scores * w.reshape(n, len(part), 1)
        square += np.tensordot(weighted, scores, axes=([0, 1], [0, 1]))
        means += weighted.sum(axis=1)
    slope = (means / inflation[:, None] + about).sum(axis=0)
    return LouisInformation(complete, square - means.T @ means, slope)


def _complete_data(vector, rows, Z, params, w):
    """Return slopes at each point and the weighted sum of the Hessians.

    The points Z have the shape (n_subjects, n_points, d), the weights are flat.
    """
    places = np.arange(len(vector))
    of_prior = np.append(places[vector.coefficients], places[vector.omega])
    of_observed = np.append(places[vector.numeric], places[vector.residual])
    scores, hessian = np.zeros((len(w), len(vector))), np.zeros((len(vector),) * 2)
    for index, part in ((of_prior, _prior_part), (of_observed, _observation_part)):
        slope, curve = part(vector, rows, Z, params, w)
        scores[:, index] = slope
        hessian[np.ix_(index, index)] = curve
    return scores, hessian


def _prior_part(vector, rows, Z, params, w):
    """Return slopes and the Hessian in coefficients and covariance."""
    design, lower = vector.design, vector.lower
    d = Z.shape[2]
    if d == 0:
        return np.zeros((len(w), 0)), np.zeros((0, 0))
    positions, columns = design.positions[design.free], design.columns[design.free]
    U = np.linalg.inv(params.omega)
    rest = Z - vector.model.prior_moments(rows, params)[0][:, None]
    white = rest.reshape(len(w), d) @ U
    C = np.repeat(rows.covariates[:, columns], Z.shape[1], axis=0)
    slopes = C * white[:, positions]
    j, k = lower[:, 0], lower[:, 1]
    twice = np.where(j == k, 1.0, 2.0)
    products = white[:, j] * white[:, k] - U[j, k]
    of_occasions = np.flatnonzero(j >= len(design.random))
    for e in of_occasions:
        same = np.arange(j[e], len(U), len(design.occasions.parameters))
        other = same - j[e] + k[e]
        both = white[:, same] * white[:, other] - U[same, other]
        products[:, e] = both.sum(axis=1)
    in_omega = 0.5 * twice * products
    total = w.sum()
    weighted = C * w[:, None]
    first = -(weighted.T @ C) * U[positions[:, None], positions]
    # Derivatives of the inverse: dU = -U E U, with E one or two ones.
    moved = white.T @ weighted  # of shape (d, n_coefficients)
    cross = -(moved[k].T * U[positions][:, j])
    cross -= np.where(j == k, 0.0, 1.0) * (moved[j].T * U[positions][:, k])
    second = (white * w[:, None]).T @ white
    basis = np.zeros((len(lower), *U.shape))
    basis[np.arange(len(lower)), j, k] = 1.0
    basis[np.arange(len(lower)), k, j] = 1.0
    for e in of_occasions:
        same = np.arange(j[e], len(U), len(design.occasions.parameters))
        basis[e, same, same - j[e] + k[e]] = basis[e, same - j[e] + k[e], same] = 1.0
    turned = np.einsum("ij,ajk->aik", U, basis)
    last = 0.5 * total * np.einsum("aij,bji->ab", turned, turned)
    inner = np.einsum("aij,jk,bkl->abil", basis, U, basis)
    last -= np.einsum("abil,li->ab", inner, second)
    last = (last + last.T) / 2
    return np.hstack([slopes, in_omega]), np.block([[first, cross], [cross.T, last]])


def _observation_part(vector, rows, Z, params, w):
    """Return slopes and the Hessian in numeric and residual parameters."""
    closed, values, k = vector.closed, vector.of(params), len(params.numeric)
    model = vector.model.in_step(1 + k * (k + 1))
    whole = is_quadratic(vector.model, rows, params)
    step = 1.0 if whole else DIFFERENCES.step(model.structure)
    steps = step * vector.units(params)[vector.numeric]
    pairs = [(e, g) for e in range(k) for g in range(e)]
    axes = np.diag(steps)
    shifts = [*axes, *-axes]
    shifts += [sign * (axes[e] + axes[g]) for sign in (1, -1) for e, g in pairs]
    changed = []
    for shift in (np.zeros(k), *shifts):
        moved = values.copy()
        moved[vector.numeric] += shift
        changed.append(vector.params(moved, params))
    slopes, hessian = np.zeros((len(w), k)), np.zeros((k, k))
    logs = sums = None
    if model.is_in_step and closed:
        logs, sums = values_in_step(model, rows, Z, changed)
    if k:
        logs = log_conditionals(model, rows, Z, changed) if logs is None else logs
        # Where there is no density the weight is zero, and differences stay finite.
        logs = np.maximum(logs.reshape(len(w), -1), -1e100)
        ends = np.cumsum([1, k, k, len(pairs)])
        centre, above, below, both, neither = np.split(logs, ends, axis=1)
        slopes = (above - below) / (2 * steps)
        hessian[range(k), range(k)] = w @ (above - 2 * centre + below) / steps**2
        for (e, g), up, down in zip(pairs, both.T, neither.T, strict=True):
            mixed = up + down - above[:, e] - above[:, g] - below[:, e] - below[:, g]
            mixed = w @ (mixed + 2 * centre[:, 0]) / (2 * steps[e] * steps[g])
            hessian[e, g] = hessian[g, e] = mixed
    if not closed:
        return slopes, hessian
    if sums is None:
        sums = residual_sums(model, rows, Z, changed[: 1 + 2 * k])
    sums = sums.reshape(len(w), -1)
    squares = sums[:, 0]
    turns = (sums[:, 1 : k + 1] - sums[:, k + 1 : 2 * k + 1]) / (2 * steps)
    size, lengths = params.sigma[closed[0]], np.repeat(rows.lengths, Z.shape[1])
    residual_slope = squares / size**3 - lengths / size
    curve = w @ (lengths / size**2 - 3 * squares / size**4)
    cross = w @ turns / size**3
    hessian = np.block([[hessian, cross[:, None]], [cross, np.array([[curve]])]])
    return np.column_stack([slopes, residual_slope]), hessian
