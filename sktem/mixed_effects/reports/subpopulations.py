"""Mixtures of subjects: classes with different population values."""

from __future__ import annotations

from copy import copy
from itertools import product
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sktem.choices import check_names
from sktem.estimators.fit_warnings import warn_user
from sktem.mixed_effects.ascent import Coordinates, Resolution, likelihood_at
from sktem.mixed_effects.columns import listed
from sktem.mixed_effects.design import NumericEntry, effect_name
from sktem.mixed_effects.differences import numerical_hessian
from sktem.mixed_effects.given_data import as_records, values_of_subjects
from sktem.mixed_effects.priors import log_prior
from sktem.mixed_effects.transforms import is_box
from sktem.mixed_effects.vector import ParameterVector
from sktem.progress import counted
from sktem.sequences.labels import column_of

__all__ = ["Subpopulations", "subpopulations"]


class ClassRule(NamedTuple):
    """Starts and checks of classes of subjects.

    Attributes
    ----------
    resolution : Resolution
        How finely the likelihood is integrated.
    promise : float
        Gain that a Newton step may promise at a maximum.
    open : float
        Curvature, in units of the parameters and of logits, that counts as none.
    second_step : float
        Step of second differences, in units of the parameters.
    first_step : float
        Step of first differences.
    within : float
        Share of a variance that is left within classes at the start.
    apart : float
        Distance of classes without a random effect.
    """

    resolution: Resolution = Resolution(per_subject=1000, most=9, most_of_one=15)
    promise: float = 0.01
    open: float = 1e-4
    second_step: float = 3e-3
    first_step: float = 1e-4
    within: float = 0.5
    apart: float = 0.5


#: The rule of every fit.
CLASSES = ClassRule()


class Subpopulations(NamedTuple):
    """Classes of subjects.

    Attributes
    ----------
    shares : ndarray of shape (n_classes,)
        Shares of the classes, sorted by the value of the first parameter; with
        covariates of the class, means of the shares over the subjects.
    parameters : DataFrame
        Estimates and standard errors of shares, population values (those of a class end
        in its number, "CL_1"), effects, variances and the residual error. With
        covariates of the class there are logits in place of shares: "logit_2" is the
        logit of class 2 against class 1 where the covariates are 0, and
        "beta_WT(class_2)" is its slope.
    probabilities : ndarray of shape (n_subjects, n_classes)
        Probabilities of the classes given the observations.
    groups : ndarray of shape (n_subjects,)
        Labels of the subjects.
    log_likelihood : float
        Log-likelihood of all observations.
    converged : bool
        Whether the fit is at a maximum that the data determine.
    """

    shares: np.ndarray
    parameters: Any
    probabilities: np.ndarray
    groups: np.ndarray
    log_likelihood: float
    converged: bool


def subpopulations(
    estimator,
    X,
    y=None,
    groups=None,
    events=None,
    *,
    parameters,
    n_classes=2,
    class_covariates=(),
) -> Subpopulations:
    """Fit classes of subjects that differ in population values.

    The likelihood of a subject is the sum over classes of share times likelihood. Each
    is integrated by its own quadrature, so that the sum is exact however far apart the
    classes are. The search for its maximum starts from classes on both sides of the fit
    without classes.

    Parameters
    ----------
    estimator : NonlinearMixedEffectsRegressor
        The model, with random effects.
    X, y, groups, events : object
        Data in memory, as accepted by :meth:`NonlinearMixedEffectsRegressor.fit`.
    parameters : str or list of str
        Parameters that have their own population value in each class.
    n_classes : int, default=2
        Number of classes.
    class_covariates : str, int or list of these, default=()
        Columns of X, constant within subjects, on which the shares of the classes
        depend by a multinomial logit.

    Returns
    -------
    Subpopulations
        The classes.

    Raises
    ------
    ValueError
        If parameters are unknown, the model has no random effects, there are fewer than
        two classes, or a covariate of the class is not constant within subjects.

    References
    ----------
    M. Lavielle, Mixed Effects Models for the Population Approach, 2014, chapter 9.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import NonlinearMixedEffectsRegressor
    >>> from sktem.evaluation import subpopulations
    >>> rng = np.random.default_rng(0)
    >>> groups, X = np.repeat(np.arange(30), 5), np.tile(np.arange(5.0), 30)[:, None]
    >>> level = np.where(np.arange(30) < 12, 1.0, 4.0) + 0.5 * rng.normal(size=30)
    >>> y = level[groups] + X[:, 0] + 0.3 * rng.normal(size=150)
    >>> line = NonlinearMixedEffectsRegressor(
    ...     "linear", parameters={"intercept": 0.5, "slope": 0.5}, transforms="normal",
    ...     omega=["intercept"], random_state=0
    ... )
    >>> found = subpopulations(line, X, y, groups, parameters="intercept")
    >>> found.shares.round(2)
    array([0.4, 0.6])
    """
    from pandas import DataFrame

    if not isinstance(n_classes, Integral) or n_classes < 2:
        raise ValueError(f"n_classes must be an integer above 1, got {n_classes!r}")
    parameters = list(listed(parameters))
    check_names("parameters", parameters, list(estimator.parameters), "parameters")
    fitted = clone(estimator).fit(X, y, groups, events).fitted_
    if fitted.model.design.n_latents == 0:
        raise ValueError("subpopulations are for models with random effects")
    indexed = as_records(estimator.model, X, y, groups, events)
    columns = X if indexed is None else indexed[0]
    of_class = _of_class(fitted, class_covariates, columns, groups)
    model, rows, effects = _in_classes(fitted, parameters, int(n_classes))
    vector, scales = ParameterVector(model), fitted.natural_scale
    starts = _starts(fitted, vector, model, effects)
    minima = []
    for start in counted(starts, "Subpopulations: starts"):
        candidate = _Mixture(model, rows, start, effects, scales, of_class)
        minima.append((candidate, candidate.minimum()))
    mixture, best = min(minima, key=lambda pair: pair[1].fun)
    covariance, promise = mixture.curvature(best.x)
    converged = promise <= CLASSES.promise
    if not converged:
        warn_user(
            "The subpopulations are not at a maximum of the likelihood that the data "
            "determine: they may not ask for as many classes.",
            ConvergenceWarning,
        )
    estimates = mixture.estimates(best.x)
    slopes = np.array([
        (mixture.estimates(best.x + h)[1] - mixture.estimates(best.x - h)[1])
        for h in CLASSES.second_step * np.eye(len(best.x))
    ]) / (2 * CLASSES.second_step)  # fmt: skip
    errors = np.sqrt(np.diag(slopes.T @ covariance @ slopes))
    by_class = mixture.by_class(best.x)
    log_likelihoods = np.logaddexp.reduce(by_class, axis=0)
    return Subpopulations(
        np.exp(mixture.params(best.x)[1]).mean(axis=1)[mixture.order(best.x)],
        DataFrame({"estimate": estimates[1], "standard_error": errors}, estimates[0]),
        np.exp(by_class - log_likelihoods).T[:, mixture.order(best.x)],
        fitted.problem.labels,
        float(log_likelihoods.sum()),
        converged,
    )


class ClassCovariates(NamedTuple):
    """Covariates of the class, about their means in units of their deviations.

    Attributes
    ----------
    names : list of str
        Names of the columns.
    values : ndarray of shape (n_subjects, n_covariates)
        Standardized values.
    means, widths : ndarray of shape (n_covariates,)
        Means and deviations.
    """

    names: list[str]
    values: np.ndarray
    means: np.ndarray
    widths: np.ndarray


def _of_class(fitted, chosen, X, groups) -> ClassCovariates:
    """Return the covariates of the class of each subject."""
    names = list(getattr(X, "columns", ())) or None
    count = np.shape(X)[1] if names is None else len(names)
    keys = [column_of(k, names, count, "class_covariates") for k in listed(chosen)]
    titles = keys if names is None else [names[k] for k in keys]
    values = values_of_subjects(fitted.problem.labels, X, groups, titles)
    if values is None or not np.isfinite(values).all():
        raise ValueError(
            f"class_covariates: {titles} must be numbers that are constant within "
            "subjects"
        )
    means, widths = values.mean(axis=0), values.std(axis=0)
    if not (widths > 0).all():
        raise ValueError("class_covariates must differ between subjects")
    titles = [f"x{title}" if isinstance(title, int) else title for title in titles]
    return ClassCovariates(titles, (values - means) / widths, means, widths)


def _in_classes(fitted, parameters, n_classes):
    """Return the model and rows in which each class has all subjects.

    And names of the effects by which the parameters of its class differ from those of
    the first, by parameter: a class is a covariate.
    """
    model, rows = fitted.model, fitted.rows
    design, start, n = model.design, model.start, len(rows)
    rows = rows[np.tile(np.arange(n), n_classes)]
    others = np.arange(1, n_classes)
    is_other = np.repeat(np.arange(n_classes), n)[:, None] == others
    rows.covariates = np.column_stack([rows.covariates, is_other])
    if rows.events is not None:
        rows.events.rows.covariates = rows.covariates
    names, first = [f"class {k + 1}" for k in others], design.constant.shape[1]
    effects = {p: [effect_name(name, p) for name in names] for p in parameters}
    linear: list[NumericEntry] = []  # of random parameters
    entries: list[NumericEntry] = []  # of the others
    for parameter, labels in effects.items():
        p = design.names.index(parameter)
        if is_box(design.transforms[p]):
            raise ValueError(f"{parameter!r} is in a box, and cannot differ by class")
        (linear if p in design.random else entries).extend(
            NumericEntry("subject", p, first + k, label, name)
            for k, (label, name) in enumerate(zip(labels, names, strict=True))
        )
    place = {p: j for j, p in enumerate(design.random.tolist())}
    positions = [place[entry.parameter] for entry in linear]
    columns = [entry.column for entry in linear]
    design = design._replace(
        positions=np.append(design.positions, positions).astype(np.int64),
        columns=np.append(design.columns, columns).astype(np.int64),
        free=np.append(design.free, np.ones(len(linear), dtype=bool)),
        numeric=(*design.numeric, *entries),
        constant=np.pad(design.constant, ((0, 0), (0, n_classes - 1))),
        covariate_names=(*design.covariate_names, *names),
        labels=(*design.labels, *(entry.label for entry in linear)),
        covariates=(*design.covariates, *(entry.covariate for entry in linear)),
        priors=design.priors and design.priors.padded(len(linear), len(entries)),
    )
    units = model.units_of_numeric()
    known = zip(model.design.numeric, units, strict=True)
    of_subjects = {e.label: unit for e, unit in known if e.kind == "subject"}
    more = [of_subjects.get(design.names[e.parameter], 1.0) for e in entries]
    start = start._replace(
        coefficients=np.append(start.coefficients, np.zeros(len(linear))),
        numeric=np.append(start.numeric, np.zeros(len(entries))),
    )
    model = copy(model)
    model.set_params(design=design, start=start, numeric_units=np.append(units, more))
    return model, rows, effects


def _starts(fitted, vector, model, effects):
    """Return parameters with classes on both sides of the fit without them."""
    single = fitted.vector
    known = dict(zip(single.names, single.of(fitted.params), strict=True))
    starts = []
    for signs in product([1.0], *[[1.0, -1.0]] * (len(effects) - 1)):
        values = {name: known.get(name, 0.0) for name in vector.names}
        for (parameter, names), sign in zip(effects.items(), signs, strict=True):
            offsets, variance = np.linspace(-1, 1, len(names) + 1), CLASSES.apart**2
            if f"omega2_{parameter}" in values:
                variance = values[f"omega2_{parameter}"]
                values[f"omega2_{parameter}"] *= CLASSES.within
            moves = sign * np.sqrt(variance) * offsets
            values[parameter] += moves[0]
            for name, move in zip(names, moves[1:], strict=True):
                values[name] = move - moves[0]
        natural = np.array([values[name] for name in vector.names])
        starts.append(vector.params(natural, model.start))
    return starts


class _Mixture:
    """The likelihood of classes as a function of steps from a start.

    Rows are those of all subjects in the first class, in the second, and so on; the
    last steps are logits of the shares at the means of their covariates, and their
    slopes, one row of these for each class but the first.
    """

    def __init__(self, model, rows, params, effects, scales, of_class):
        self.model, self.rows = model, rows
        self.coordinates = Coordinates(self.model, params, self.rows)
        self.effects, self.scales = effects, scales
        self.n_classes = 1 + len(next(iter(effects.values())))
        self.of_class = of_class
        self.n_logits = (self.n_classes - 1) * (1 + len(of_class.names))
        means = self.model.prior_moments(self.rows, params)[0]
        self.modes = self._at(params, means).modes

    def _at(self, params, modes):
        return likelihood_at(
            self.model, self.rows, params, modes, 0, CLASSES.resolution
        )

    def params(self, x):
        """Return parameters, and logarithms of shares, classes by subjects."""
        first = len(x) - self.n_logits
        logits = self._logits(x)
        class_logits = logits[:, :1] + logits[:, 1:] @ self.of_class.values.T
        return self.coordinates.params(x[:first]), log_softmax(class_logits, axis=0)

    def _logits(self, x):
        """Return logits and their slopes, one row for each class; the first has 0."""
        logits = np.zeros((self.n_classes, 1 + len(self.of_class.names)))
        logits[1:] = x[len(x) - self.n_logits :].reshape(self.n_classes - 1, -1)
        return logits

    def by_class(self, x):
        """Return logarithms of share times likelihood, classes by subjects."""
        params, log_shares = self.params(x)
        here = self._at(params, self.modes)
        values = here.draws.log_likelihood(here.log_joint)[0]
        return values.reshape(self.n_classes, -1) + log_shares

    def objective(self, x):
        """Return minus the log-likelihood, with that of priors."""
        prior = log_prior(self.coordinates.vector, self.params(x)[0])[0]
        return -np.logaddexp.reduce(self.by_class(x), axis=0).sum() - prior

    def slope(self, x):
        """Return the slope of the objective by central differences."""
        shifts = CLASSES.first_step * np.eye(len(x))
        up = np.array([self.objective(x + shift) for shift in shifts])
        down = np.array([self.objective(x - shift) for shift in shifts])
        return (up - down) / (2 * CLASSES.first_step)

    def minimum(self):
        """Return the result of the optimiser."""
        k = len(self.coordinates.vector) + self.n_logits
        return minimize(self.objective, np.zeros(k), method="BFGS", jac=self.slope)

    def order(self, x):
        """Return the classes by the first parameter's values."""
        return np.argsort(self._values(x)[next(iter(self.effects))], kind="stable")

    def _values(self, x):
        """Return population values of the classes, by parameter."""
        vector = self.coordinates.vector
        named = dict(zip(vector.names, vector.of(self.params(x)[0]), strict=True))
        return {
            p: self.scales(p)(named[p] + np.array([0.0, *(named[e] for e in names)]))
            for p, names in self.effects.items()
        }

    def estimates(self, x):
        """Return names and values of the estimates."""
        vector, order = self.coordinates.vector, self.order(x)
        params, log_shares = self.params(x)
        values = self._values(x)
        estimates: dict[str, Any] = {}
        if not self.of_class.names:
            shares = np.exp(log_shares[order, 0])
            estimates = {f"share_{k + 1}": v for k, v in enumerate(shares)}
        else:
            logits = self._logits(x)[order]
            logits = logits - logits[0]
            slopes = logits[:, 1:] / self.of_class.widths
            for k in range(1, self.n_classes):
                level = logits[k, 0] - slopes[k] @ self.of_class.means
                estimates[f"logit_{k + 1}"] = level
                for name, slope in zip(self.of_class.names, slopes[k], strict=True):
                    estimates[effect_name(name, f"class_{k + 1}")] = slope
        hidden = {effect for names in self.effects.values() for effect in names}
        for name, value in zip(vector.names, vector.of(params), strict=True):
            if name in values:
                class_values = values[name][order]
                estimates |= {f"{name}_{k + 1}": v for k, v in enumerate(class_values)}
            elif name not in hidden:
                estimates[name] = self.scales(name)(value)
        return list(estimates), np.array(list(estimates.values()), dtype=float)

    def curvature(self, x):
        """Return the covariance of the steps, and the gain that Newton's promises."""
        steps = np.full(len(x), CLASSES.second_step)
        hessian = numerical_hessian(self.objective, x, steps)
        slope = self.slope(x)
        finite = np.isfinite(hessian).all()
        if not finite or np.linalg.eigvalsh(hessian)[0] <= CLASSES.open:
            return np.full(hessian.shape, np.nan), np.inf
        covariance = np.linalg.inv(hessian)
        return covariance, 0.5 * float(slope @ covariance @ slope)
