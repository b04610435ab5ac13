"""Standard errors of the parameters by the observed information."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from sktem.emissions.base import Emission
from sktem.emissions.directions import (
    FREE,
    Direction,
    moved_fields,
    share_directions,
)
from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning
from sktem.hidden_markov.logit_chain import CovariateScale, LogitChain, reference
from sktem.hidden_markov.rows import each_part
from sktem.hidden_markov.segment_chain import SegmentChain

__all__ = ["StandardErrors", "score", "standard_errors"]

#: Steps of differences of log-densities and of the score, in scales of parameters.
INNER, OUTER = 1e-3, 1e-4
#: Weights of the differences of log-densities, of the fourth order.
STENCIL = ((1.0, 2.0 / 3.0), (-1.0, -2.0 / 3.0), (2.0, -1.0 / 12.0), (-2.0, 1.0 / 12.0))
#: Eigenvalues of an information, over the largest, that are not above rounding errors.
SINGULAR = 1e-10


class StandardErrors(NamedTuple):
    """Standard errors, NaN of what is fixed or at a bound.

    Attributes
    ----------
    start : ndarray of shape (n_states,)
        Of ``start_``.
    transitions : ndarray of shape (n_states, n_states)
        Of ``transitions_``.
    emission : dict of str to ndarray
        Of the fields of ``emission_params_``, by name; of blocks of columns such a dict
        for each, by the names of the blocks.
    coefficients : ndarray of shape (n_states, n_states, n_covariates) or None
        Of ``transition_coefficients_``, where there are covariates.
    """

    start: np.ndarray
    transitions: np.ndarray
    emission: dict
    coefficients: np.ndarray | None = None


def _of_chain(chain, params, following, X):
    """Yield the directions of a chain; the start of one sequence is always certain."""
    n_sequences = int(X.begins.sum())
    if isinstance(chain, LogitChain):
        scale = CovariateScale.of(X.covariates, chain.scale.centre)
        columns = np.flatnonzero(scale.reach > 0)
    if "start" not in chain.fixed and n_sequences > 1:
        yield from share_directions("start", params.start, following.start, [()])
    if "transitions" in chain.fixed:
        return
    for members in chain.groups_of_tied():
        rows = [(i,) for i in members]
        p, then = (fit.transitions[rows[0]] for fit in (params, following))
        yield from share_directions("transitions", p, then, rows)
        if isinstance(chain, LogitChain):
            others = np.flatnonzero(p > FREE.least)
            others = others[others != reference(p, members[0])]
            for j, c in product(others, columns):
                entries = tuple(((i, j, c), 1.0) for i in members)
                yield Direction("slopes", entries, 1.0 / scale.spread[c])


def score(model, X, params, directions, weights=None) -> np.ndarray:
    """Return derivatives of the log-likelihood along directions, in their scales.

    By Fisher's identity they are those of the expected complete log-likelihood.
    """
    derivatives = np.zeros(len(directions))
    slots: dict[Any, list[int]] = {}
    for number, direction in enumerate(directions):
        if direction.slot is not None:
            slots.setdefault(direction.slot, []).append(number)
    counts = np.zeros(model.chain.n_statistics)
    for part in each_part(X):
        rows = X[part]
        part_weights = None if weights is None else weights[part]
        smooth, matrices = model.smoothed(rows, params, part_weights)
        counts += model.chain.sums(smooth, matrices, rows, params.chain, part_weights)
        R = model.by_emission(smooth.gamma)
        for numbers in slots.values():
            slopes: Any = 0.0
            for step, weight in STENCIL:
                moves = [(directions[number], step * INNER) for number in numbers]
                emission = model.emission.moved(params.emission, moves)
                L = model.emission.log_density(rows.X, emission)
                slopes = slopes + weight / INNER * L
            # What a state cannot produce has no share, and no slope.
            values = np.where(R > 0, R * np.where(R > 0, slopes, 0.0), 0.0).sum(axis=0)
            for number in numbers:
                state = directions[number].state
                derivatives[number] += values.sum() if state is None else values[state]
    slopes = model.chain.gradient(counts, params.chain)
    for number, direction in enumerate(directions):
        if direction.slot is None:
            parts = [
                sign * slopes[direction.name][index]
                for index, sign in direction.entries
            ]
            derivatives[number] = direction.scale * sum(parts)
    return derivatives


def standard_errors(fitted, X, weights=None) -> StandardErrors:
    """Return standard errors by the observed information at fitted parameters.

    The information is minus the derivative of the score, by differences of the exact
    score (Oakes 1999 has the same information in another form).

    Parameters
    ----------
    fitted : FittedSequences
        The model.
    X : ObservedSequences
        Sequences.
    weights : ndarray of shape (n_sequences,) or None, default=None
        Weights of the sequences.

    Returns
    -------
    StandardErrors
        The errors.
    """
    model, params = fitted.model, fitted.params
    _check(model)
    following = model.maximize(model.expected_statistics(X, params, weights)[0], params)
    directions = list(_of_chain(model.chain, params.chain, following.chain, X))
    if not model.fixed_emission:
        fits = params.emission, following.emission
        directions += list(model.emission.free_directions(*fits, X.X))
    count = len(directions)
    information = np.empty((count, count))
    for number, direction in enumerate(directions):
        slopes = []
        for step in (OUTER, -OUTER):
            if direction.slot is None:
                chain = moved_fields(params.chain, [(direction, step)])
                moved = params._replace(chain=chain)
            else:
                emission = model.emission.moved(params.emission, [(direction, step)])
                moved = params._replace(emission=emission)
            slopes.append(score(model, X, moved, directions, weights))
        information[number] = (slopes[1] - slopes[0]) / (2.0 * OUTER)
    information = 0.5 * (information + information.T)
    if not _is_positive(information):
        warn_user(
            "The observed information is not positive definite: the fit has not "
            "converged, or the data do not identify all parameters, or columns are "
            "nearly multiples of each other. Standard errors are NaN. Decrease tol, or "
            "take fewer states.",
            FitWarning,
        )
        inverse = np.full((count, count), np.nan)
    else:
        inverse = np.linalg.inv(information)
    return _errors(model, params, directions, inverse)


def _is_positive(information):
    """Return whether a matrix is positive definite, whatever its units are."""
    size = np.diag(information)
    if not (size > 0).all():  # nor NaN
        return False
    correlations = information / np.sqrt(np.outer(size, size))
    values = np.linalg.eigvalsh(correlations)
    return not len(values) or values[0] > SINGULAR * values[-1]


def _check(model):
    """Raise if a model has parameters without standard errors."""
    if isinstance(model.chain, SegmentChain):
        raise ValueError("standard_errors needs durations=None")
    emission = model.emission
    blocks = [block for _, block, _ in getattr(emission, "emissions", ())]
    for block in [] if model.fixed_emission else blocks or [emission]:
        if type(block).free_directions is Emission.free_directions:
            raise ValueError(
                "standard_errors needs fixed=['emission'] or an emission that has "
                "free_directions, as all have whose parameters are identified; got "
                f"{block!r}"
            )


def _errors(model, params, directions, inverse) -> StandardErrors:
    """Return standard errors of all entries, given the covariance of directions."""
    chain, emission = params.chain, params.emission
    slopes: dict[tuple, np.ndarray] = {}
    for number, direction in enumerate(directions):
        block, name = direction.block, direction.name
        values = chain if direction.slot is None else emission
        values = values if block is None else values.blocks[block]
        if (block, name) not in slopes:
            shape = np.shape(getattr(values, name))
            slopes[block, name] = np.zeros((*shape, len(directions)))
        for index, sign in direction.entries:
            slopes[block, name][(*index, number)] += sign * direction.scale
    if (None, "slopes") in slopes:  # against those of staying
        J, p = slopes[None, "slopes"], chain.transitions
        slopes[None, "slopes"] = np.stack(
            [J[i] - J[i, reference(p[i], i)] for i in range(len(p))]
        )
    errors: dict[str, Any] = {}
    for (block, name), J in slopes.items():
        moves = (J != 0).any(axis=-1)
        variances = np.einsum("...i,ij,...j->...", J, inverse, J)
        values = np.sqrt(np.where(moves, variances, np.nan))
        if block is None:
            errors[name] = values
        else:
            errors.setdefault(model.emission.emissions[block][0], {})[name] = values
    start, transitions = (
        errors.pop(name, np.full(np.shape(getattr(chain, name)), np.nan))
        for name in ("start", "transitions")
    )
    coefficients = errors.pop("slopes", None)
    return StandardErrors(start, transitions, errors, coefficients)
