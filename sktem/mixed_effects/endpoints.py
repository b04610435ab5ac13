"""Observations of several kinds, and residual errors and outcomes by name."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from sktem.choices import check_choice, check_number
from sktem.mixed_effects.outcomes import (
    OUTCOMES,
    EventOutcome,
    OrdinalOutcome,
    Outcome,
)
from sktem.mixed_effects.residual_errors import (
    ALIASES,
    RESIDUAL_ERRORS,
    PositiveError,
    ResidualError,
)

__all__ = ["EndpointError", "residual_error_of"]


class EndpointError(ResidualError):
    """An error for each kind of observation.

    Parameters
    ----------
    errors : dict of ResidualError
        Errors by the number of their kind.
    kinds : ndarray of int of shape (n_rows,) or None, default=None
        Kind of each row; None before there are rows.
    """

    def __init__(self, errors, kinds=None):
        self.errors, self.kinds = dict(errors), kinds
        if kinds is not None:
            self.on_logarithms = np.isin(
                kinds, [kind for kind, one in self.errors.items() if one.on_logarithms]
            )
        self.regresses = all(one.regresses for one in self.errors.values())
        self.needs = "; ".join(
            f"CMT {kind}: {one.needs}" for kind, one in self.errors.items()
        )
        self.slots = tuple(
            f"{slot}_{kind}" for kind, one in self.errors.items() for slot in one.slots
        )
        self.names = tuple(
            f"{name}_{kind}" for kind, one in self.errors.items() for name in one.names
        )

    def on(self, rows):
        """Return the error of some rows."""
        return EndpointError(self.errors, rows.kinds)

    def check(self, rows):
        """Raise an error if a row has another kind."""
        if rows.kinds is None:
            raise ValueError(
                "residual_error by CMT is for records of a compartment model"
            )
        if unknown := sorted(set(rows.kinds.tolist()) - set(self.errors)):
            raise ValueError(
                f"residual_error must have the kinds of all observations: CMT is "
                f"{unknown[0]} in some, and the dict has {list(self.errors)}"
            )
        side = rows.censored
        for kind, one in self.errors.items():
            bounded = one.regresses or isinstance(one, EventOutcome)
            if side is not None and not bounded and side[rows.kinds == kind].any():
                raise ValueError(f"CENS is not for the outcome of CMT {kind}")

    def _parts(self):
        """Yield the error, the rows and the entries of ``sigma`` of each kind."""
        start = 0
        for kind, one in self.errors.items():
            stop = start + len(one.slots)
            yield one, np.flatnonzero(self.kinds == kind), slice(start, stop)
            start = stop

    def _each(self, method, arrays, sigma, *others):
        """Return what the errors make of their rows of arrays."""
        found = np.full(np.shape(arrays[0]), np.nan)
        for one, rows, own in self._parts():
            if len(rows):
                parts = [None if a is None else a[rows] for a in arrays]
                entries = [v[rows] if np.ndim(v) else v for v in sigma[own]]
                found[rows] = getattr(one, method)(*parts, entries, *others)
        return found

    def standard_deviation(self, f, sigma, least):
        """Return the standard deviations, of logarithms for errors of these."""
        return self._each("standard_deviation", [f], sigma, least)

    def log_density(self, y, f, sigma, least):
        """Return log-densities."""
        return self._each("log_density", [y, f], sigma, least)

    def log_probability(self, y, f, sigma, least, side):
        """Return log-probabilities of bounds."""
        found = np.full(len(y), np.nan)
        for one, rows, own in self._parts():
            entries = [v[rows] if np.ndim(v) else v for v in sigma[own]]
            found[rows] = one.log_probability(
                y[rows], f[rows], entries, least, side[rows]
            )
        return found

    def start(self, y, f):
        """Return starting values of all."""
        return np.concatenate([
            one.start(y[rows], f[rows]) if len(rows) else np.ones(len(one.slots))
            for one, rows, _ in self._parts()
        ])  # fmt: skip

    def weights(self, y, positive):
        """Return weights by which kinds of other sizes count alike."""
        found = np.ones(len(y))
        for one, rows, _ in self._parts():
            if len(rows):
                spread = float(np.std(y[rows])) or 1.0
                own = one.weights(y[rows], False) if one.relative else 1 / spread
                found[rows] = own
        return found

    def floors(self, y):
        """Return least values of all."""
        return np.concatenate([
            one.floors(y[rows]) if len(rows) else np.full(len(one.slots), 1e-6)
            for one, rows, _ in self._parts()
        ])  # fmt: skip

    def allows(self, y, f):
        """Return whether such observations and predictions are possible."""
        return all(one.allows(y[rows], f[rows]) for one, rows, _ in self._parts())

    def draw(self, f, sigma, least, normal):
        """Return observations, NaN for kinds that have no error."""
        found = np.full(len(f), np.nan)
        for one, rows, own in self._parts():
            entries = [v[rows] if np.ndim(v) else v for v in sigma[own]]
            found[rows] = one.draw(f[rows], entries, least, normal[rows])
        return found

    def weighted(self, y, f, g):
        """Return weighted residuals."""
        found = np.full(len(y), np.nan)
        for one, rows, _ in self._parts():
            found[rows] = one.weighted(y[rows], f[rows], g[rows])
        return found

    def rough_log_density(self, y, f, sigma, least, weights):
        """Return log-densities before errors are known."""
        found = np.full(len(y), np.nan)
        for one, rows, own in self._parts():
            entries = sigma[own]
            found[rows] = one.rough_log_density(
                y[rows], f[rows], entries, least, weights[rows]
            )
        return found


def residual_error_of(given) -> ResidualError:
    """Return the residual error of a name, with a condition, or of a dict by kind."""
    if isinstance(given, dict):
        if not given or not all(isinstance(kind, Integral) for kind in given):
            raise ValueError(
                "residual_error must have a name for each CMT of an observation, such "
                f'as {{1: "proportional", 2: "constant"}}, got {given!r}'
            )
        return EndpointError(
            {int(kind): residual_error_of(name) for kind, name in given.items()}
        )
    if isinstance(given, tuple):
        if len(given) == 2 and given[0] == "ordinal":
            check_number("the number of categories", given[1], Integral, 2)
            return OrdinalOutcome(int(given[1]))
        if len(given) != 2 or given[1] != "positive":
            raise ValueError(
                'residual_error with a condition must be (name, "positive"), such as '
                f'("constant", "positive"), got {given!r}'
            )
        error = residual_error_of(given[0])
        wrong = isinstance(error, (EndpointError, Outcome, PositiveError))
        if wrong or error.on_logarithms:
            raise ValueError(
                f"residual_error {given[0]!r} cannot have the condition that y is "
                "positive: give it to the error of each CMT, and not to outcomes, or "
                "errors of the logarithm, which have it"
            )
        return PositiveError(error)
    if isinstance(given, str) and given in OUTCOMES:
        return OUTCOMES[given]
    known = [*RESIDUAL_ERRORS, *ALIASES, *OUTCOMES]
    check_choice("residual_error", given, known)
    return RESIDUAL_ERRORS[ALIASES.get(given, given)]
