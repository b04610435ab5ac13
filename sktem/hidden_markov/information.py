"""Standard errors of the parameters by the observed information."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning
from sktem.hidden_markov.logit_chain import CovariateScale, LogitChain, reference
from sktem.hidden_markov.rows import each_part
from sktem.hidden_markov.segment_chain import SegmentChain

__all__ = ["StandardErrors", "score", "standard_errors"]

#: Emissions whose parameters have standard errors, and structures of covariances.
EMISSIONS = (
    "Autoregression",
    "Bernoulli",
    "Categorical",
    "Gaussian",
    "Poisson",
    "Regression",
)
STRUCTURES = ("full", "tied", "diag", "spherical", "unit")
#: Probabilities and rates below are at the bound of what they can be; smaller ones than
#: SMALL are on their way if a further M-step makes less than this share of them.
LEAST, SMALL, SHRINKS = 1e-8, 1e-2, 0.99
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
        Of the fields of ``emission_params_``, by name.
    coefficients : ndarray of shape (n_states, n_states, n_covariates) or None
        Of ``transition_coefficients_``, where there are covariates.
    """

    start: np.ndarray
    transitions: np.ndarray
    emission: dict
    coefficients: np.ndarray | None = None


class Direction(NamedTuple):
    """A way in which parameters can move.

    Attributes
    ----------
    name : str
        Field of the parameters.
    entries : tuple of (tuple of int, float)
        Entries of the field that move, with their signs.
    scale : float
        Size of a step.
    slot : int or None
        Number among those of one state, which move independently of other states;
        None of the parameters of the chain.
    state : int or None
        Whose log-densities change; None of all states.
    """

    name: str
    entries: tuple
    scale: float
    slot: Any = None
    state: int | None = None


def _shares(name, p, following, rows, slot=None, state=None):
    """Yield directions of probabilities, equal in some rows of a field, with sum 1."""
    used = np.flatnonzero((p > LEAST) & ((p > SMALL) | (following >= SHRINKS * p)))
    if len(used) < 2:
        return
    # The largest is what the others leave.
    rest = used[p[used].argmax()]
    for j in used[used != rest]:
        entries = [((*row, j), 1.0) for row in rows]
        entries += [((*row, rest), -1.0) for row in rows]
        entry_slot = None if slot is None else (*slot, j)
        yield Direction(name, tuple(entries), p[j], entry_slot, state)


def _of_chain(chain, params, following, X):
    """Yield the directions of a chain; the start of one sequence is always certain."""
    n_sequences = int(X.begins.sum())
    if isinstance(chain, LogitChain):
        scale = CovariateScale.of(X.covariates, chain.scale.centre)
        columns = np.flatnonzero(scale.reach > 0)
    if "start" not in chain.fixed and n_sequences > 1:
        yield from _shares("start", params.start, following.start, [()])
    if "transitions" in chain.fixed:
        return
    for members in chain.groups_of_tied():
        rows = [(i,) for i in members]
        p, then = (fit.transitions[rows[0]] for fit in (params, following))
        yield from _shares("transitions", p, then, rows)
        if isinstance(chain, LogitChain):
            others = np.flatnonzero(p > LEAST)
            others = others[others != reference(p, members[0])]
            for j, c in product(others, columns):
                entries = tuple(((i, j, c), 1.0) for i in members)
                yield Direction("slopes", entries, 1.0 / scale.spread[c])


def _of_emission(emission, params, following, X):
    """Yield the directions of an emission."""
    kind = type(emission).__name__
    if kind == "Gaussian":
        yield from _of_gaussian(emission, params)
    elif kind == "Regression":
        yield from _of_regression(emission, params, X)
    elif kind == "Autoregression":
        yield from _of_autoregression(emission, params)
    elif kind == "Categorical":
        for k, column in np.ndindex(params.probabilities.shape[:2]):
            p, then = (fit.probabilities[k, column] for fit in (params, following))
            yield from _shares("probabilities", p, then, [(k, column)], (column,), k)
    else:
        name = "rates" if kind == "Poisson" else "probabilities"
        values = getattr(params, name)
        for k, column in np.ndindex(values.shape):
            x = values[k, column]
            room = x if kind == "Poisson" else min(x, 1.0 - x)
            if room > LEAST:
                yield Direction(name, (((k, column), 1.0),), room, (column,), k)


def _of_gaussian(emission, params):
    """Yield the directions of means and covariances."""
    K, d = params.means.shape
    structure = emission.structure(K, d)
    kind, covariances = emission.covariance_type, params.covariances
    full = {
        "full": lambda k: covariances[k],
        "tied": lambda k: covariances,
        "diag": lambda k: np.diag(covariances[k]),
    }.get(kind, lambda k: covariances[k] * np.eye(d))
    # Steps are small against what a column varies given the others.
    scales = [1.0 / np.sqrt(np.diag(np.linalg.inv(full(k)))) for k in range(K)]
    for k, i in np.ndindex(K, d):
        yield Direction("means", (((k, i), 1.0),), scales[k][i], ("mean", i), k)
    if structure.known:
        return
    for k in range(1 if kind == "tied" else K):
        first, state = ((), None) if kind == "tied" else ((k,), k)
        for i in range(1 if kind == "spherical" else d):
            for j in range(i + 1 if kind in ("full", "tied") else 1):
                size = scales[k][i] * scales[k][j if kind in ("full", "tied") else i]
                if kind in ("full", "tied"):
                    places = {(*first, i, j), (*first, j, i)}
                else:
                    places = {first if kind == "spherical" else (*first, i)}
                entries = tuple((place, 1.0) for place in sorted(places))
                slot = ("covariance", i, j)
                yield Direction("covariances", entries, size, slot, state)


def _of_regression(emission, params, X):
    """Yield the directions of coefficients and variances."""
    K, m, q = params.coefficients.shape
    sizes = np.sqrt((emission.regressors(X) ** 2).mean(axis=0))
    sizes = np.where(sizes > 0, sizes, 1.0)
    shared = emission.is_shared(q)
    for k, j, i in np.ndindex(K, m, q):
        size = np.sqrt(params.variances[k, j]) / sizes[i]
        if not shared[i]:
            yield Direction("coefficients", (((k, j, i), 1.0),), size, (j, i), k)
        elif k == 0:
            entries = tuple(((state, j, i), 1.0) for state in range(K))
            yield Direction("coefficients", entries, size, (j, i))
    for j in range(m):
        if emission.switching_variance:
            for k in range(K):
                size, entry = params.variances[k, j], ((k, j), 1.0)
                yield Direction("variances", (entry,), size, (j,), k)
        else:
            places = tuple(((k, j), 1.0) for k in range(K))
            yield Direction("variances", places, params.variances[0, j], (j,))


def _of_autoregression(emission, params):
    """Yield the directions of means, coefficients and variances.

    A mean counts in all histories that have the state: each has a slot of its own.
    """
    K, m, order = params.coefficients.shape
    for k, j in np.ndindex(K, m):
        size = np.sqrt(params.variances[k, j])
        yield Direction("means", (((k, j), 1.0),), size, ("mean", k, j))
    every = [((k,),) for k in range(K)]
    together = [tuple((k,) for k in range(K))]
    switching = emission.switching_coefficients
    for states, j, i in product(
        every if switching else together, range(m), range(order)
    ):
        entries = tuple(((*k, j, i), 1.0) for k in states)
        yield Direction("coefficients", entries, 1.0, ("lag", states, j, i))
    for states, j in product(
        every if emission.switching_variance else together, range(m)
    ):
        places = tuple(((*k, j), 1.0) for k in states)
        size = params.variances[states[0][0], j]
        yield Direction("variances", places, size, ("variance", states, j))


def _moved(values, moves, emission=None):
    """Return parameters moved along directions, each by a number of its scales."""
    arrays: dict[str, np.ndarray] = {}
    for direction, size in moves:
        name = direction.name
        if name not in arrays:
            arrays[name] = np.array(getattr(values, name), dtype=np.float64)
        for index, sign in direction.entries:
            arrays[name][index] += sign * size * direction.scale
    values = values._replace(**arrays)
    if "covariances" in arrays:
        factors = emission.structure(*values.means.shape).precisions_cholesky(
            values.covariances
        )
        values = values._replace(precisions_cholesky=factors)
    return values


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
    for part in each_part(X, model.chain.n_hidden):
        rows = X[part]
        part_weights = None if weights is None else weights[part]
        smooth, matrices = model.smoothed(rows, params, part_weights)
        counts += model.chain.sums(smooth, matrices, rows, params.chain, part_weights)
        R = model.by_emission(smooth.gamma)
        for numbers in slots.values():
            slopes: Any = 0.0
            for step, weight in STENCIL:
                moves = [(directions[number], step * INNER) for number in numbers]
                emission = _moved(params.emission, moves, model.emission)
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
        emission = (model.emission, params.emission, following.emission)
        directions += list(_of_emission(*emission, X.X))
    count = len(directions)
    information = np.empty((count, count))
    for number, direction in enumerate(directions):
        slopes = []
        for step in (OUTER, -OUTER):
            if direction.slot is None:
                chain = _moved(params.chain, [(direction, step)])
                moved = params._replace(chain=chain)
            else:
                emission = _moved(params.emission, [(direction, step)], model.emission)
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
    return _errors(params, directions, inverse)


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
    name = type(model.emission).__name__
    kind = getattr(model.emission, "covariance_type", "full")
    known = name in EMISSIONS and kind in STRUCTURES
    if not (known or model.fixed_emission):
        raise ValueError(
            f"standard_errors needs an emission among {', '.join(EMISSIONS)}, with "
            f"covariances among {', '.join(STRUCTURES)}, or fixed=['emission']; got "
            f"{model.emission!r}"
        )


def _errors(params, directions, inverse) -> StandardErrors:
    """Return standard errors of all entries, given the covariance of directions."""
    slopes: dict[str, np.ndarray] = {}
    for number, direction in enumerate(directions):
        values = params.chain if direction.slot is None else params.emission
        shape = np.shape(getattr(values, direction.name))
        if direction.name not in slopes:
            slopes[direction.name] = np.zeros((*shape, len(directions)))
        for index, sign in direction.entries:
            slopes[direction.name][(*index, number)] += sign * direction.scale
    errors = {}
    if "slopes" in slopes:  # against those of staying
        J, p = slopes["slopes"], params.chain.transitions
        slopes["slopes"] = np.stack(
            [J[i] - J[i, reference(p[i], i)] for i in range(len(p))]
        )
    for name, J in slopes.items():
        moves = (J != 0).any(axis=-1)
        variances = np.einsum("...i,ij,...j->...", J, inverse, J)
        errors[name] = np.sqrt(np.where(moves, variances, np.nan))
    start, transitions = (
        errors.pop(name, np.full(np.shape(getattr(params.chain, name)), np.nan))
        for name in ("start", "transitions")
    )
    coefficients = errors.pop("slopes", None)
    return StandardErrors(start, transitions, errors, coefficients)
