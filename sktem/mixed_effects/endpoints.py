"""Observations of several kinds, and residual errors and outcomes by name."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from sktem.choices import check_choice, check_number
from sktem.mixed_effects.outcomes import OUTCOMES, EventOutcome, OrdinalOutcome, Outcome
from sktem.mixed_effects.residual_errors import (
    ALIASES,
    RESIDUAL_ERRORS,
    PositiveError,
    ResidualError,
)

__all__ = ["EndpointError", "residual_error_of", "residual_names_of"]


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
            self.on_logarithms, self.has_mean = (
                np.isin(kinds, [k for k, e in self.errors.items() if getattr(e, name)])
                for name in ("on_logarithms", "has_mean")
            )
        self.regresses = all(error.regresses for error in self.errors.values())
        self.needs = "; ".join(
            f"CMT {kind}: {error.needs}" for kind, error in self.errors.items()
        )
        self.slots = tuple(
            f"{slot}_{kind}"
            for kind, error in self.errors.items()
            for slot in error.slots
        )
        self.names = tuple(
            f"{name}_{kind}"
            for kind, error in self.errors.items()
            for name in error.names
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
        rows.events.refuse(
            ~np.isin(rows.kinds, list(self.errors)),
            f"CMT must be one of {list(self.errors)}, the kinds of observations in "
            "residual_error; set MDV to 1 to leave others out",
        )
        for kind, error in self.errors.items():
            bounded = error.regresses or isinstance(error, EventOutcome)
            if rows.censored is not None and not bounded:
                wrong = (rows.kinds == kind) & (rows.censored != 0)
                rows.events.refuse(wrong, f"CENS is not for the outcome of CMT {kind}")

    def _parts(self):
        """Yield the error, the rows and the entries of ``sigma`` of each kind."""
        start = 0
        for kind, error in self.errors.items():
            stop = start + len(error.slots)
            yield error, np.flatnonzero(self.kinds == kind), slice(start, stop)
            start = stop

    def _each(self, method, sigma, by_row, **others):
        """Return the values of a method of the errors, each on its own rows."""
        of_rows = np.full(len(self.kinds), np.nan)
        for error, rows, place in self._parts():
            if len(rows):
                if sigma is not None:
                    entries = [v[rows] if np.ndim(v) else v for v in sigma[place]]
                    others["sigma"] = entries
                parts = {name: values[rows] for name, values in by_row.items()}
                of_rows[rows] = getattr(error, method)(**parts, **others)
        return of_rows

    def standard_deviation(self, f, sigma, least):
        """Return the standard deviations, of logarithms for errors of these."""
        return self._each("standard_deviation", sigma, {"f": f}, least=least)

    def log_density(self, y, f, sigma, least):
        """Return log-densities."""
        return self._each("log_density", sigma, {"y": y, "f": f}, least=least)

    def log_probability(self, y, f, sigma, least, side):
        """Return log-probabilities of bounds."""
        by_row = {"y": y, "f": f, "side": side}
        return self._each("log_probability", sigma, by_row, least=least)

    def start(self, y, f):
        """Return starting values of all."""
        return np.concatenate([
            error.start(y[rows], f[rows]) if len(rows) else np.ones(len(error.slots))
            for error, rows, _ in self._parts()
        ])  # fmt: skip

    def weights(self, y, positive):
        """Return weights by which kinds of other sizes count alike."""
        weights = np.ones(len(y))
        for error, rows, _ in self._parts():
            if len(rows):
                spread = float(np.std(y[rows])) or 1.0
                weight = error.weights(y[rows], False) if error.relative else 1 / spread
                weights[rows] = weight
        return weights

    def floors(self, y):
        """Return least values of all."""
        return np.concatenate([
            error.floors(y[rows]) if len(rows) else np.full(len(error.slots), 1e-6)
            for error, rows, _ in self._parts()
        ])  # fmt: skip

    def allows(self, y, f):
        """Return which observations are possible with their predictions."""
        return self._each("allows", None, {"y": y, "f": f}) > 0

    def draw(self, f, sigma, least, normal):
        """Return observations, NaN for kinds that have no error."""
        return self._each("draw", sigma, {"f": f, "normal": normal}, least=least)

    def weighted(self, y, f, g):
        """Return weighted residuals."""
        return self._each("weighted", None, {"y": y, "f": f, "g": g})

    def rough_log_density(self, y, f, sigma, least, weights):
        """Return log-densities before errors are known."""
        by_row = {"y": y, "f": f, "weights": weights}
        return self._each("rough_log_density", sigma, by_row, least=least)


def residual_error_of(spec) -> ResidualError:
    """Return the residual error of a name, with a condition, or of a dict by kind."""
    if isinstance(spec, dict):
        if not spec or not all(isinstance(kind, Integral) for kind in spec):
            raise ValueError(
                "residual_error must have a name for each CMT of an observation, such "
                f'as {{1: "proportional", 2: "constant"}}, got {spec!r}'
            )
        return EndpointError(
            {int(kind): residual_error_of(name) for kind, name in spec.items()}
        )
    if isinstance(spec, tuple):
        if len(spec) == 2 and spec[0] == "ordinal":
            check_number("the number of categories", spec[1], Integral, 2)
            return OrdinalOutcome(int(spec[1]))
        if len(spec) != 2 or spec[1] != "positive":
            raise ValueError(
                'residual_error with a condition must be (name, "positive"), such as '
                f'("constant", "positive"), got {spec!r}'
            )
        error = residual_error_of(spec[0])
        wrong = isinstance(error, (EndpointError, Outcome, PositiveError))
        if wrong or error.on_logarithms:
            raise ValueError(
                f"residual_error {spec[0]!r} cannot have the condition that y is "
                "positive: give it to the error of each CMT, and not to outcomes, or "
                "errors of the logarithm, which have it"
            )
        return PositiveError(error)
    if isinstance(spec, str) and spec in OUTCOMES:
        return OUTCOMES[spec]
    known = [*RESIDUAL_ERRORS, *ALIASES, *OUTCOMES]
    check_choice("residual_error", spec, known)
    return RESIDUAL_ERRORS[ALIASES.get(spec, spec)]


def residual_names_of(error, names):
    """Return names of the parameters of the residual error that no other has."""
    residual_names = []
    for name in ("a", "b") if error is None else error.slots:
        while name in names:
            name = f"residual_{name}"
        residual_names.append(name)
    return tuple(residual_names)
