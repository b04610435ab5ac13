"""Profiles of the likelihood along one parameter."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from sktem.choices import check_names
from sktem.mixed_effects.ascent import Resolution, likelihood_at
from sktem.mixed_effects.checks.rows import check_mixed_effects
from sktem.mixed_effects.inference.louis import louis_information
from sktem.mixed_effects.inference.node_numbers import covariance_of

__all__ = ["LikelihoodProfile", "profile_likelihood"]

#: How finely the likelihood is integrated, Newton steps at a point, and the gain that
#: ends them.
FINE, STEPS, LEAST_GAIN = Resolution(per_subject=1000, most=9), 15, 1e-4
#: Distance of the points, in standard errors, and how far they go.
DISTANCE, FARTHEST = 0.5, 8.0


class LikelihoodProfile(NamedTuple):
    """Largest log-likelihoods at values of one parameter.

    Attributes
    ----------
    values : ndarray of shape (n_points,)
        The parameter, a population value on the natural scale.
    log_likelihoods : ndarray of shape (n_points,)
        The log-likelihood with all others at their best.
    interval : tuple of float
        Where it falls by half of the quantile of a chi-squared variable; infinite where
        it was not reached.
    level : float
        Confidence of the interval.
    """

    values: np.ndarray
    log_likelihoods: np.ndarray
    interval: tuple[float, float]
    level: float


def profile_likelihood(estimator, name, *, level=0.95) -> LikelihoodProfile:
    """Return the profile of the likelihood along a parameter, and its interval.

    With priors of parameters it is that of the posterior.

    Parameters
    ----------
    estimator : NonlinearMixedEffectsRegressor
        A fitted estimator with random effects.
    name : str
        The parameter, by its name in ``standard_errors()``.
    level : float, default=0.95
        Confidence of the interval.

    Returns
    -------
    LikelihoodProfile
        The profile.

    Raises
    ------
    ValueError
        For an unknown parameter, or one whose standard error is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import NonlinearMixedEffectsRegressor
    >>> from sktem.evaluation import profile_likelihood
    >>> rng = np.random.default_rng(0)
    >>> groups, X = np.repeat(np.arange(30), 5), np.tile(np.arange(5.0), 30)[:, None]
    >>> y = X[:, 0] + rng.normal(size=30)[groups] + 0.3 * rng.normal(size=150)
    >>> line = NonlinearMixedEffectsRegressor(
    ...     "linear", parameters={"intercept": 0.5, "slope": 0.5}, transforms="normal",
    ...     omega=["intercept"], random_state=0
    ... ).fit(X, y, groups=groups)
    >>> low, high = profile_likelihood(line, "omega2_intercept").interval
    >>> bool(low < line.omega_[0, 0] < high)
    True
    """
    check_mixed_effects(estimator, "fitted_")
    fitted = estimator.fitted_
    vector = fitted.vector
    check_names("name", [name], vector.names, "parameters")
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got {level!r}")
    if fitted.model.design.n_latents == 0:
        raise ValueError("profiles are for models with random effects")
    place = vector.names.index(name)
    error = np.sqrt(fitted.covariance()[place, place])
    if not np.isfinite(error):
        raise ValueError(f"the standard error of {name!r} is unknown")
    drop = 0.5 * chi2.ppf(level, 1)
    best = _climbed(fitted, fitted.params, place, vector.of(fitted.params)[place])
    points = {vector.of(fitted.params)[place]: best.value}
    ends = []
    for sign in (-1.0, 1.0):
        end, here = sign * np.inf, best
        at = before = vector.of(fitted.params)[place]
        for _ in range(int(FARTHEST / DISTANCE)):
            if vector.positive[place]:
                at = at * np.exp(sign * DISTANCE * error / before)
            else:
                at = at + sign * DISTANCE * error
            here = _climbed(fitted, here.params, place, at)
            if not np.isfinite(here.value):
                break
            points[at] = here.value
            if here.value < best.value - drop:
                end = _crossing(points, sign, best.value - drop)
                break
        ends.append(end)
    at = np.array(sorted(points))
    natural = fitted.natural_scale(name)
    return LikelihoodProfile(
        natural(at),
        np.array([points[value] for value in at]),
        tuple(float(natural(np.array(end))) for end in ends),  # type: ignore[arg-type]
        float(level),
    )


class _Point(NamedTuple):
    """Parameters at a value of one of them, and the log-likelihood."""

    params: object
    value: float


def _climbed(fitted, params, place, value) -> _Point:
    """Return the best parameters with one at a value, by Newton steps on the others."""
    model, rows, vector = fitted.model, fitted.rows, fitted.vector
    is_held = np.zeros(len(vector), dtype=bool)
    is_held[place] = True
    values = vector.of(params)
    values[place] = value
    modes, here = fitted.modes()[0], None
    params = vector.params(values, params)
    here = likelihood_at(model, rows, params, modes, 0, FINE)
    for _ in range(STEPS):
        louis = louis_information(model, rows, params, here.draws, here.log_joint)
        covariance = np.nan_to_num(covariance_of(louis.observed, is_held))
        slope = np.where(is_held, 0.0, louis.slope)
        step = covariance @ slope
        if not 0.5 * slope @ step > LEAST_GAIN:
            break
        better = False
        for half in range(5):
            moved = vector.of(params) + step / 2**half
            if (moved[vector.positive] <= 0).any():
                continue
            changed = vector.params(moved, params)
            if np.linalg.eigvalsh(changed.omega)[0] <= 0:
                continue
            there = likelihood_at(model, rows, changed, here.modes, 0, FINE)
            if there.value > here.value:
                params, here, better = changed, there, True
                break
        if not better:
            break
    return _Point(params, float(here.value))


def _crossing(points, sign, level):
    """Return where the profile crosses a level, by a parabola through the last points.

    Square roots of falls from the top are nearly linear.
    """
    order = sorted(points, key=lambda v: sign * v)[-2:]
    top = max(points.values())
    roots = [np.sqrt(max(top - points[v], 0.0)) for v in order]
    share = (np.sqrt(top - level) - roots[0]) / (roots[1] - roots[0])
    return order[0] + share * (order[1] - order[0])
