"""Profiles of the likelihood along one parameter."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from sktem.choices import check_names
from sktem.mixed_effects.ascent import Resolution, likelihood_at
from sktem.mixed_effects.checks.rows import fitted_of
from sktem.mixed_effects.inference.louis import louis_information
from sktem.mixed_effects.inference.node_numbers import covariance_of
from sktem.mixed_effects.inference.standard_errors import at_bounds
from sktem.mixed_effects.reports.resampling import in_processes
from sktem.progress import counted

__all__ = ["LikelihoodProfile", "profile_likelihood"]


class ProfileRule(NamedTuple):
    """Settings of profiles.

    Attributes
    ----------
    resolution : Resolution
        How finely the likelihood is integrated.
    most_steps, halvings : int
        Newton steps at a point, at most, and lengths of each that are tried.
    least_gain : float
        Gain of the log-likelihood that ends them.
    distance : float
        Distance of the points in standard errors.
    first : float
        Distance of the first one from a bound, in units of the parameter; that of the
        next ones doubles.
    n_points : int
        Points to each side, at most.
    """

    resolution: Resolution = Resolution(per_subject=1000, most=9)
    most_steps: int = 15
    halvings: int = 5
    least_gain: float = 1e-4
    distance: float = 0.5
    first: float = 0.02
    n_points: int = 16


#: The rule of every profile.
PROFILE = ProfileRule()


class LikelihoodProfile(NamedTuple):
    """Largest log-likelihoods at given values of one parameter.

    Attributes
    ----------
    values : ndarray of shape (n_points,)
        Values of the parameter; population values are on the natural scale.
    log_likelihoods : ndarray of shape (n_points,)
        Log-likelihoods, maximised over all other parameters.
    interval : tuple of float
        Where the log-likelihood has fallen by half of the quantile of a chi-squared
        variable; infinite where this was not reached.
    level : float
        Confidence of the interval.
    """

    values: np.ndarray
    log_likelihoods: np.ndarray
    interval: tuple[float, float]
    level: float


def profile_likelihood(
    estimator, name, *, level=0.95, n_jobs=None
) -> LikelihoodProfile:
    """Return the profile likelihood of a parameter, and its confidence interval.

    With priors it is the profile of the posterior. An estimate at its bound, such as a
    variance of zero, has a profile to the other side only, and the bound is one end of
    the interval.

    Parameters
    ----------
    estimator : NonlinearMixedEffectsRegressor
        A fitted estimator.
    name : str
        Name of the parameter, as in ``standard_errors()``.
    level : float, default=0.95
        Confidence of the interval.
    n_jobs : int or None, default=None
        Number of joblib processes, one for each of the two sides.

    Returns
    -------
    LikelihoodProfile
        The profile.

    Raises
    ------
    ValueError
        If the parameter is unknown, or the data do not determine it.

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
    fitted = fitted_of(estimator)
    vector = fitted.vector
    check_names("name", [name], vector.names, "parameters")
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got {level!r}")
    place, params = vector.names.index(name), fitted.params
    covariance = fitted.covariance()
    error = np.sqrt(covariance[place, place])
    bound = _bound(vector, params, place)
    if bound is None and not np.isfinite(error):
        raise ValueError(
            f"the data do not determine {name!r}, so that it has no profile: hold "
            "another parameter by fixed that makes up for it, or leave it out"
        )
    drop = 0.5 * chi2.ppf(level, 1)
    tangent = np.nan_to_num(covariance[:, place] / error**2)
    best = _climbed(fitted, params, place, vector.of(params)[place], tangent)
    known = fitted, place, best, error, bound, drop, tangent
    tasks = [(*known, sign) for sign in (-1.0, 1.0)]
    sides = in_processes(_side, tasks, n_jobs, "Profile: sides")
    points = sides[0][0] | sides[1][0]
    at = np.array(sorted(points))
    natural = fitted.natural_scale(name)
    return LikelihoodProfile(
        natural(at),
        np.array([points[value] for value in at]),
        tuple(float(natural(np.array(end))) for _, end in sides),  # type: ignore[arg-type]
        float(level),
    )


def _side(fitted, place, best, error, bound, drop, tangent, sign):
    """Return the points to one side of the estimate, and where the interval ends."""
    vector = fitted.vector
    estimate = at = vector.of(fitted.params)[place]
    points, here = {estimate: best.value}, best
    if bound is not None and sign == bound.side:
        return points, bound.value
    for k in counted(range(PROFILE.n_points), "Profile: points"):
        if bound is not None:
            at = estimate + sign * PROFILE.first * 2.0**k * bound.unit
        elif vector.positive[place]:
            at = at * np.exp(sign * PROFILE.distance * error / estimate)
        else:
            at = at + sign * PROFILE.distance * error
        here = _climbed(fitted, here.params, place, at, tangent)
        if not np.isfinite(here.value):
            break
        points[at] = here.value
        if here.value < best.value - drop:
            return points, _crossing(points, sign, best.value - drop)
    return points, sign * np.inf


class _Bound(NamedTuple):
    """The bound at which an estimate is, its side, and a size of the parameter."""

    side: float
    value: float
    unit: float


def _bound(vector, params, place) -> _Bound | None:
    """Return the bound at which an estimate is, or None."""
    if not at_bounds(vector, params)[place]:
        return None
    name, unit = vector.names[place], vector.units(vector.model.start)[place]
    if vector.at_box(params)[place]:
        below, above = np.abs(vector.room(params)[:, place])
        side = -1.0 if below < above else 1.0
        return _Bound(side, vector.of(params)[place], unit)
    low = vector.residual_at_floor(params)
    low[vector.omega] = vector.model.at_floor(params)[vector.lower].all(axis=1)
    if not (low & vector.positive)[place]:
        raise ValueError(
            f"{name!r} has no profile, since random effects depend on each other: pass "
            "a diagonal omega, or fewer random effects"
        )
    return _Bound(-1.0, 0.0, unit)


class _Point(NamedTuple):
    """Parameters at a value of one of them, and the log-likelihood."""

    params: object
    value: float


def _climbed(fitted, params, place, value, tangent) -> _Point:
    """Return the best parameters with one at a value, by Newton steps on the others.

    They begin where the others are, or along the tangent of the profile, their changes
    by that of the one, if the likelihood is larger there.
    """
    model, rows, vector = fitted.model, fitted.rows, fitted.vector
    is_held = at_bounds(vector, params)
    is_held[place] = True
    values, resolution = vector.of(params), PROFILE.resolution
    shift = np.where(is_held, 0.0, tangent * (value - values[place]))
    size = np.where(vector.positive, values, 1.0)
    moved = np.where(vector.positive, values * np.exp(shift / size), values + shift)
    values[place] = moved[place] = value
    ahead = vector.params(moved, params)
    params, modes = vector.params(values, params), fitted.modes()[0]
    here = likelihood_at(model, rows, params, modes, 0, resolution)
    if np.linalg.eigvalsh(ahead.omega).min(initial=1.0) > 0:
        there = likelihood_at(model, rows, ahead, modes, 0, resolution)
        if there.value > here.value:
            params, here = ahead, there
    for _ in range(PROFILE.most_steps):
        louis = louis_information(model, rows, params, here.draws, here.log_joint)
        covariance = np.nan_to_num(covariance_of(louis.observed, is_held))
        slope = np.where(is_held, 0.0, louis.slope)
        step = covariance @ slope
        if not 0.5 * slope @ step > PROFILE.least_gain:
            break
        better = False
        for half in range(PROFILE.halvings):
            moved = vector.of(params) + step / 2**half
            if (moved[vector.positive] <= 0).any():
                continue
            changed = vector.params(moved, params)
            if np.linalg.eigvalsh(changed.omega).min(initial=1.0) <= 0:
                continue
            there = likelihood_at(model, rows, changed, here.modes, 0, resolution)
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
