"""Regression of all subjects together, from which a mixed-effects fit starts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.mixed_effects.transforms import TRANSFORMS

__all__ = ["Optimum", "PooledRegression"]

#: Errors of a model function far from its parameters: the place is left.
FAILURES = (ArithmeticError, ValueError, RuntimeError, AssertionError)


class DescentRule(NamedTuple):
    """Limits of the descent of pooled regressions, and tolerance of equal optima.

    Attributes
    ----------
    most_steps : int
        Steps, at most.
    most_trials : int
        Trials of a step.
    least_gain : float
        Relative gain that ends a descent.
    least_log_gain : float
        Gain of a log-likelihood, whose steps get shorter slowly, that does.
    shift : float
        Shift of a difference, as a share of the parameter.
    lost : float
        Relative change that rounding makes.
    longer : float
        How much longer the shift is then.
    longest : float
        Longest step of a parameter on a logarithmic or logistic scale.
    same : float
        Relative difference up to which two optima are the same one.
    almost : float
        How much larger values are, relatively, that lead to an optimum.
    almost_log : float
        The same of log-likelihoods.
    costly : float
        Share of the places and descents for models that integrate differential
        equations.
    most_rows : int
        Rows on which all this is done, at most.
    alike : float
        Cosine of slopes from which they are alike.
    equal : float
        Eigenvalue of cosines where they are the same.
    """

    most_steps: int = 60
    most_trials: int = 10
    least_gain: float = 1e-9
    least_log_gain: float = 1e-3
    shift: float = 1e-5
    lost: float = 1e-12
    longer: float = 1e3
    longest: float = 2.0
    same: float = 0.05
    almost: float = 1e-3
    almost_log: float = 0.05
    costly: float = 0.2
    most_rows: int = 3000
    alike: float = 0.99
    equal: float = 1e-13


#: The rule of every fit.
DESCENT = DescentRule()


class Optimum(NamedTuple):
    """End of a descent.

    Attributes
    ----------
    vector : ndarray of shape (p,)
        Parameters, see :class:`PooledRegression`.
    value : float
        Sum of squares, or minus the log-density.
    """

    vector: np.ndarray
    value: float


class PooledRegression:
    """The model without random effects, as a function of a vector.

    The vector has the free coefficients of the random parameters, and those of the
    parameters without a closed-form M-step that are not of the residual error, all on
    the Gaussian scale.
    """

    def __init__(self, model, rows, rule=DESCENT):
        self.rule = rule
        share = min(1.0, self.rule.most_rows / max(len(rows.y), 1))
        count = max(1, int(len(rows) * share))
        if count < len(rows):
            rows = rows[np.unique(np.linspace(0, len(rows) - 1, count).astype(int))]
        design = model.design
        self.model, self.rows, self.start = model, rows, model.start
        #: Whether terms are log-densities and not residuals.
        self.has_densities = model.error is None or not model.error.regresses
        self.free = np.flatnonzero(design.free)
        self.numeric = np.array(
            [e for e, n in enumerate(design.numeric) if n.kind != "residual"], dtype=int
        )
        entries = [design.numeric[e] for e in self.numeric]
        parameters = [design.random[j] for j in design.positions[self.free]]
        parameters += [entry.parameter for entry in entries]
        kinds = [design.transforms[p] for p in parameters]
        self.plain = np.array([TRANSFORMS[kind].is_plain for kind in kinds], dtype=bool)
        self.is_intercept = np.array(
            [column == 0 for column in design.columns[self.free]]
            + [entry.kind == "subject" and entry.column == 0 for entry in entries],
            dtype=bool,
        )
        self.weights = self._weights()
        # A closed form of compartments, or any function of the user's.
        free = getattr(model.structure, "has_closed_form", True)
        self.effort = 1.0 if free else self.rule.costly

    def _weights(self):
        """Return inverse sizes of the errors, None for the logarithm of y."""
        model, y = self.model, self.rows.y
        if model.error is None or not model.error.relative:
            return np.ones(len(y))
        positive = (y > 0).all() and self._function(self.vector()).min(initial=1.0) > 0
        return model.error.on(self.rows).weights(y, bool(positive))

    def vector(self, params=None):
        """Return the vector of given parameters, by default of the start."""
        params = self.start if params is None else params
        return np.append(params.coefficients[self.free], params.numeric[self.numeric])

    def params(self, vector):
        """Return the starting parameters with those of the vector in them."""
        coefficients = self.start.coefficients.copy()
        numeric = self.start.numeric.copy()
        coefficients[self.free] = vector[: len(self.free)]
        numeric[self.numeric] = vector[len(self.free) :]
        return self.start._replace(coefficients=coefficients, numeric=numeric)

    def _at(self, vector):
        params = self.params(vector)
        means = self.rows.covariates @ self.model.design.matrix(params.coefficients).T
        return params, means

    def _function(self, vector):
        params, means = self._at(vector)
        return self.model.predict_rows(self.rows, means, params.numeric)

    def terms(self, vector, shift=0.0):
        """Return residuals or log-densities of the rows, not finite on failure."""
        model, rows = self.model, self.rows
        params, means = self._at(vector)
        try:
            with np.errstate(all="ignore"):
                if model.error is None:
                    return model.row_log_likelihood(
                        rows, means + shift, params.sigma, params.numeric
                    )
                f = model.predict_rows(rows, means + shift, params.numeric)
                if self.has_densities:
                    return model.error.on(rows).rough_log_density(
                        rows.y, f, params.sigma, model.least_prediction, self.weights
                    )
                if self.weights is None:
                    return np.log(rows.y) - np.log(f)
                return (rows.y - f) * self.weights
        except FAILURES:
            return np.full(len(rows.y), np.nan)

    def terms_of(self, vectors):
        """Return the terms at several vectors, one line for each."""
        return np.array([self.terms(vector) for vector in vectors])

    def value(self, terms):
        """Return the sum of squares or minus the log-density of terms."""
        if not np.isfinite(terms).all():
            return np.inf
        with np.errstate(over="ignore"):
            total = -terms.sum() if self.has_densities else terms @ terms
        return float(total) if np.isfinite(total) else np.inf

    def slopes(self, vector, reach):
        """Return derivatives of the terms, 0 where there is none."""
        slopes, steps = (
            np.empty((len(self.rows.y), len(vector))),
            self.rule.shift * reach,
        )
        left = np.arange(len(vector))
        while len(left):
            shifts = np.diag(steps)[left]
            both = self.terms_of([*(vector + shifts), *(vector - shifts)])
            with np.errstate(over="ignore", invalid="ignore"):
                change = both[: len(left)] - both[len(left) :]
                slopes[:, left] = (change / (2 * steps[left, None])).T
                lost = np.abs(change) <= self.rule.lost * np.abs(both[: len(left)])
            # An effect of nearly zero.
            left = left[lost.all(axis=1) & (steps[left] < self.rule.shift)]
            steps[left] = np.minimum(steps[left] * self.rule.longer, self.rule.shift)
        return np.where(np.isfinite(slopes), slopes, 0.0)

    def descend(self, vector, chosen=None, known=()):
        """Return the nearest optimum by damped Gauss-Newton steps.

        Log-densities take the sum of squared slopes of rows as curvature. A descent
        that comes near a known optimum ends there.
        """
        vector = vector.copy()
        chosen = np.ones(len(vector), dtype=bool) if chosen is None else chosen
        terms = self.terms(vector)
        value = self.value(terms)
        reach = np.where(self.plain & (vector != 0), np.abs(vector), 1.0)
        damping = 0.0
        sign = 1.0 if self.has_densities else -1.0
        can_move = np.isfinite(value) and chosen.any()
        for _ in range(self.rule.most_steps if can_move else 0):
            J = self.slopes(vector, reach)[:, chosen]
            slope = sign * (J.sum(axis=0) if self.has_densities else J.T @ terms)
            with np.errstate(over="ignore"):
                size = np.sqrt((J**2).sum(axis=0))
            size = np.where((size > 0) & np.isfinite(size), size, np.inf)
            scaled = J / size
            curvature, before = scaled.T @ scaled, value
            for _ in range(self.rule.most_trials):
                damped = curvature + (damping + 1e-14) * np.eye(len(size))
                step = np.linalg.lstsq(damped, slope / size, rcond=1e-13)[0] / size
                step = self._bounded(step, chosen)
                trial = vector.copy()
                trial[chosen] += step
                others = self.terms_of([trial])[0]
                new = self.value(others)
                if new < value:
                    reach[chosen] = self._reach(trial, vector, reach)[chosen]
                    vector, terms, value = trial, others, new
                    damping = damping / 10 if damping > 1e-6 else 0.0
                    break
                damping = max(damping, 1e-4) * 10
            for optimum in known:
                if self._leads_to(vector, value, optimum):
                    return optimum
            gain = before - value
            least = self.rule.least_gain * before
            if not gain > (self.rule.least_log_gain if self.has_densities else least):
                break
        return Optimum(vector, value)

    def is_same(self, vector, optimum) -> bool:
        """Return whether a vector is that of an optimum."""
        scale = np.where(self.plain, np.abs(vector) + np.abs(optimum.vector), 1.0)
        change = np.abs(vector - optimum.vector)
        return bool((change <= self.rule.same * np.where(scale > 0, scale, 1.0)).all())

    def _leads_to(self, vector, value, optimum):
        """Return whether a descent from a vector would end at an optimum."""
        above = value - optimum.value
        near = self.rule.almost * abs(optimum.value)
        near = self.rule.almost_log if self.has_densities else near
        return 0 <= above <= near and self.is_same(vector, optimum)

    def _reach(self, trial, vector, reach):
        moved = np.maximum(np.abs(trial), np.abs(trial - vector))
        return np.where(self.plain, np.where(moved > 0, moved, reach), 1.0)

    def _bounded(self, step, chosen):
        bounded = ~self.plain[chosen] & self.is_intercept[chosen]
        longest = np.abs(step[bounded]).max(initial=0.0)
        return step / max(1.0, longest / self.rule.longest)

    def units(self, vector):
        """Return deviations that would explain the residuals, each alone, or NaN.

        Those of the random parameters, of the others, and a covariance of the former
        that does so, if these have nearly the same effect.
        """
        terms = self.terms(vector)
        reach = np.where(self.plain & (vector != 0), np.abs(vector), 1.0)
        means = self._at(vector)[1]
        design = self.model.design
        kinds = [design.transforms[p] for p in design.latents]
        sizes = np.sqrt((means**2).mean(axis=0))
        size = 1.0
        if not self.has_densities:
            size = np.sqrt(np.mean(terms**2))
        random = np.full(len(kinds), np.nan)
        of_random = np.empty((len(kinds), len(terms)))
        for j, kind in enumerate(kinds):
            plain = kind == "normal" and sizes[j] > 0
            step = 1e-5 * (sizes[j] if plain else 1.0)
            shift = np.where(design.tied == j, step, 0.0)
            change = self.terms(vector, shift) - self.terms(vector, -shift)
            of_random[j] = change / (2 * step)
            random[j] = _unit(of_random[j], size)
        slopes = self.slopes(vector, reach)[:, len(self.free) :]
        numeric = np.ones(len(self.start.numeric))
        numeric[self.numeric] = [_unit(slope, size) for slope in slopes.T]
        return random, numeric, _covariance(of_random, size)


def _covariance(slopes, size):
    """Return the covariance of parameters that explains errors of a size.

    None where no two of the slopes are alike, or where they are the same.
    """
    sizes = np.sqrt((slopes**2).mean(axis=1))
    if len(slopes) < 2 or not ((sizes > 0) & (sizes < np.inf)).all():
        return None
    slopes = slopes / sizes[:, None]
    cosines = slopes @ slopes.T / slopes.shape[1]
    values, vectors = np.linalg.eigh(cosines)
    alike = np.abs(np.tril(cosines, -1)).max() > DESCENT.alike
    if not alike or values[0] < DESCENT.equal:
        return None
    return size**2 * (vectors / values) @ vectors.T / sizes[:, None] / sizes


def _unit(slope, size):
    slope = slope[np.isfinite(slope)]
    steep = np.sqrt(np.mean(slope**2)) if len(slope) else 0.0
    return size / steep if steep > 0 and size > 0 else np.nan
