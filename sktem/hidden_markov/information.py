"""Standard errors of the parameters by the observed information."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sktem.emissions.base import Emission
from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning
from sktem.hidden_markov.rows import each_part

__all__ = ["StandardErrors", "score", "standard_errors"]

#: Steps of differences of log-densities and of the score, in scales of parameters.
INNER, OUTER = 1e-3, 1e-4
#: Weights of the differences of log-densities, of the fourth order.
STENCIL = ((1.0, 2.0 / 3.0), (-1.0, -2.0 / 3.0), (2.0, -1.0 / 12.0), (-2.0, 1.0 / 12.0))


class DoubtRule(NamedTuple):
    """Thresholds for undetermined parameters and doubtful standard errors.

    Attributes
    ----------
    singular : float
        Eigenvalues of an information, over the largest, that are not above rounding
        errors.
    noise : float
        Asymmetry of an information that is one of rounding errors, in the roots of its
        diagonal.
    times : float
        Eigenvalues below this many asymmetries are rounding errors.
    share : float
        Share of a parameter in what is open, from which it is open.
    shown : int
        Parameters that a warning names.
    away : float
        Standard errors from the optimum that are said.
    """

    singular: float = 1e-10
    noise: float = 0.05
    times: float = 3.0
    share: float = 1e-4
    shown: int = 5
    away: float = 1.0


DOUBT = DoubtRule()


class StandardErrors(NamedTuple):
    """Standard errors, NaN for parameters that are fixed, at a bound or undetermined.

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
    durations : ndarray of shape (n_states, longest) or None
        Of ``durations_``, where states have explicit durations.
    mean_durations : ndarray of shape (n_states,)
        Of the means of ``state_durations()``.
    """

    start: np.ndarray
    transitions: np.ndarray
    emission: dict
    coefficients: np.ndarray | None = None
    durations: np.ndarray | None = None
    mean_durations: np.ndarray | None = None


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
    fits = params.chain, following.chain
    ways = list(model.chain.free_directions(*fits, X))
    if not model.fixed_emission:
        fits = params.emission, following.emission
        free = model.emission.free_directions(*fits, X.X)
        ways += [way for way in free if way.name not in model.held]
    directions = [direction for direction in ways if not direction.is_open]
    count = len(directions)
    information = np.empty((count, count))
    gradient = score(model, X, params, directions, weights)
    for number, direction in enumerate(directions):
        slopes = []
        for step in (OUTER, -OUTER):
            move = [(direction, step)]
            if direction.slot is None:
                chain = model.chain.moved(params.chain, move)
                moved = params._replace(chain=chain)
            else:
                emission = model.emission.moved(params.emission, move)
                moved = params._replace(emission=emission)
            slopes.append(score(model, X, moved, directions, weights))
        information[number] = (slopes[1] - slopes[0]) / (2.0 * OUTER)
    covariance = Covariance.of(information)
    if covariance is None:
        warn_user(
            "The observed information is not positive definite: the fit has not "
            "converged, or is no maximum. Standard errors are NaN. Decrease tol, or "
            "take fewer states.",
            FitWarning,
        )
        covariance = Covariance(np.full((count, count), np.nan), np.empty((count, 0)))
    away = float(np.sqrt(gradient @ covariance.matrix @ gradient))
    if away > DOUBT.away:
        warn_user(
            f"The parameters are {away:.2g} standard errors away from the optimum of "
            "these rows: pass those of the fit, and decrease tol.",
            FitWarning,
        )
    errors, left_open = _errors(model, params, directions, covariance)
    left_open += [
        _name_of(model, direction.block, direction.name, direction.entries[0][0])
        for direction in ways
        if direction.is_open
    ]
    if left_open:
        more = len(left_open) - DOUBT.shown
        names = ", ".join(left_open[: DOUBT.shown])
        names += f" and {more} more" if more > 0 else ""
        warn_user(
            f"The data leave {names} open, so that standard errors of these are NaN: a "
            "state has no rows, angles have no mean direction, or columns are "
            "multiples of each other.",
            FitWarning,
        )
    return errors


class Covariance(NamedTuple):
    """Covariance of parameters, some of which the data may leave open.

    Attributes
    ----------
    matrix : ndarray of shape (n, n)
        Covariance of the others, with zeros for what is open.
    open : ndarray of shape (n, n_open)
        An orthonormal basis of what is open, of parameters over their scales.
    scales : ndarray of shape (n,) or None, default=None
        Standard errors that parameters would have, were all others known.
    """

    matrix: np.ndarray
    open: np.ndarray
    scales: np.ndarray | None = None

    @classmethod
    def of(cls, information) -> Covariance | None:
        """Return the inverse of an information, None if that is not positive.

        An information by differences is symmetric up to rounding errors, so that its
        asymmetry says how large these are.
        """
        apart = np.abs(information - information.T)
        information = 0.5 * (information + information.T)
        size = np.diag(information)
        if not np.isfinite(information).all():
            return None
        largest = size.max(initial=0.0)
        flat = np.abs(size) <= DOUBT.singular * largest
        scales = 1.0 / np.sqrt(np.where(flat, largest or 1.0, np.abs(size)))
        noisy = apart * np.outer(scales, scales) > DOUBT.noise
        flat |= (noisy & (size[:, None] <= size)).any(axis=1)
        if (size[~flat] < 0).any():
            return None
        curved = np.flatnonzero(~flat)
        within = np.ix_(curved, curved)
        C, noise = (
            M[within] * np.outer(*[scales[curved]] * 2) for M in (information, apart)
        )
        values, vectors = np.linalg.eigh(C)
        least = DOUBT.singular * values.max(initial=0.0)
        least = max(least, DOUBT.times * np.linalg.norm(noise))
        if (values < -least).any():
            return None
        sure = values > least
        matrix = np.zeros(information.shape)
        inverse = (vectors[:, sure] / values[sure]) @ vectors[:, sure].T
        matrix[within] = inverse * np.outer(scales[curved], scales[curved])
        basis = np.eye(len(size))[:, flat]
        spread = np.zeros((len(size), int((~sure).sum())))
        spread[curved] = vectors[:, ~sure]
        return cls(matrix, np.concatenate([basis, spread], axis=1), scales)

    def errors(self, J):
        """Return standard errors by the delta method, and which are undetermined."""
        moves = (J != 0).any(axis=-1)
        variances = np.einsum("...i,ij,...j->...", J, self.matrix, J)
        is_open = np.zeros(moves.shape, dtype=bool)
        if self.open.shape[1]:
            J = J * self.scales
            sizes = np.sqrt((J**2).sum(axis=-1))
            within = np.sqrt(((J @ self.open) ** 2).sum(axis=-1))
            is_open = moves & (within > DOUBT.share * sizes)
        return np.sqrt(np.where(moves & ~is_open, variances, np.nan)), is_open


def _check(model):
    """Raise if a model has parameters without standard errors."""
    emission = model.emission
    blocks = [block for _, block, _ in getattr(emission, "emissions", ())]
    for block in [] if model.fixed_emission else blocks or [emission]:
        if type(block).free_directions is Emission.free_directions:
            raise ValueError(
                "standard_errors needs fixed=['emission'] or an emission that has "
                "free_directions, as all have whose parameters are identified; got "
                f"{block!r}"
            )


def _name_of(model, block, name, index) -> str:
    """Return how a warning names an entry of a field."""
    place = ", ".join(map(str, index))
    block = "" if block is None else f"{model.emission.emissions[block][0]}: "
    return f"{block}{name}[{place}]"


def _errors(model, params, directions, covariance):
    """Return standard errors of all entries, and the names of undetermined ones."""
    chain = params.chain
    shapes = model.chain.gradient(np.zeros(model.chain.n_statistics), chain)
    slopes: dict[tuple, np.ndarray] = {}
    for number, direction in enumerate(directions):
        block = direction.block
        for name, index, sign in direction.moving:
            if direction.slot is None:
                key, shape = ("chain", name), np.shape(shapes[name])
            else:
                values = params.emission
                values = values if block is None else values.blocks[block]
                key, shape = (block, name), np.shape(getattr(values, name))
            if key not in slopes:
                slopes[key] = np.zeros((*shape, len(directions)))
            slopes[key][(*index, number)] += sign * direction.scale
    moved = {name: J for (block, name), J in slopes.items() if block == "chain"}
    emission = {key: J for key, J in slopes.items() if key[0] != "chain"}
    errors: dict[str, Any] = {
        "coefficients" if name == "slopes" else name: np.full(np.shape(p), np.nan)
        for name, p in chain._asdict().items()
    }
    errors.update(emission={}, mean_durations=np.full(len(chain.start), np.nan))
    left_open: list[str] = []
    for name, J in model.chain.slopes_of_fields(moved, chain).items():
        errors[name], is_open = covariance.errors(J)
        left_open += [_name_of(model, None, name, i) for i in np.argwhere(is_open)]
    for (block, name), J in emission.items():
        values, is_open = covariance.errors(J)
        left_open += [_name_of(model, block, name, i) for i in np.argwhere(is_open)]
        where = errors["emission"]
        if block is not None:
            where = where.setdefault(model.emission.emissions[block][0], {})
        where[name] = values
    return StandardErrors(**errors), left_open
