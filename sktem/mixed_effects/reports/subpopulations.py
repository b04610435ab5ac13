"""Mixtures of subjects: classes with population values of their own."""

from __future__ import annotations

from itertools import product
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sktem.choices import check_names
from sktem.compartments.records import read_nonmem
from sktem.estimators.fit_warnings import warn_user
from sktem.mixed_effects.ascent import Coordinates, Resolution, likelihood_at
from sktem.mixed_effects.columns import listed
from sktem.mixed_effects.design import effect_name
from sktem.mixed_effects.given_data import as_records, given, given_records
from sktem.mixed_effects.inference.observed_information import numerical_hessian
from sktem.mixed_effects.layout import is_constant
from sktem.mixed_effects.priors import log_prior
from sktem.mixed_effects.problem import Problem
from sktem.mixed_effects.vector import ParameterVector
from sktem.progress import counted
from sktem.sequences.labels import column_of

__all__ = ["Subpopulations", "subpopulations"]


class ClassRule(NamedTuple):
    """How classes of subjects are started and judged.

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
RULE = ClassRule()


class Subpopulations(NamedTuple):
    """Classes of subjects.

    Attributes
    ----------
    shares : ndarray of shape (n_classes,)
        Shares of the classes, in the order of the first parameter's values; with
        covariates of the class, their means over the subjects.
    parameters : DataFrame
        Estimates and standard errors of shares, population values (those of classes end
        in their number, "CL_1"), effects, variances and the residual error. With
        covariates of the class there are logits in place of shares: "logit_2" is that
        of class 2 against class 1 where the covariates are 0, and "beta_WT(class_2)"
        its slope.
    probabilities : ndarray of shape (n_subjects, n_classes)
        Probabilities of the classes given the observations.
    groups : ndarray of shape (n_subjects,)
        Labels of the subjects.
    log_likelihood : float
        Log-likelihood of all observations.
    converged : bool
        Whether it is at a maximum that the data determine.
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
    """Fit classes of subjects, which differ in population values.

    A subject's likelihood is the sum over classes of share times likelihood, each
    integrated by quadrature of its own, so that it is exact however far the classes are
    apart. Its maximum is looked for from classes on both sides of the fit without them.

    Parameters
    ----------
    estimator : NonlinearMixedEffectsRegressor
        The model, with random effects.
    X, y, groups, events : object
        Data in memory, as :meth:`NonlinearMixedEffectsRegressor.fit` takes them.
    parameters : str or list of str
        Parameters whose population value each class has for itself.
    n_classes : int, default=2
        Number of classes.
    class_covariates : str, int or list of these, default=()
        Columns of X, constant within subjects, on which the shares of the classes
        depend: a multinomial logit.

    Returns
    -------
    Subpopulations
        The classes.

    Raises
    ------
    ValueError
        For unknown parameters, a model without random effects, fewer than two
        classes, or a covariate of the class that is not constant within subjects.

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
    single = clone(estimator).fit(X, y, groups, events)
    if single.fitted_.model.design.n_latents == 0:
        raise ValueError("subpopulations are for models with random effects")
    problem, of_class = _copied(
        estimator, X, y, groups, events, parameters, n_classes, class_covariates
    )
    labels = problem.model.design.covariate_names[1 - int(n_classes) :]
    effects = {p: [effect_name(c, p) for c in labels] for p in parameters}
    vector, scales = ParameterVector(problem.model), single.fitted_.natural_scale
    starts = _starts(single.fitted_, vector, problem.model, effects)
    minima = []
    for start in counted(starts, "Subpopulations: starts"):
        candidate = _Mixture(problem, start, effects, scales, of_class)
        minima.append((candidate, candidate.minimum()))
    mixture, best = min(minima, key=lambda pair: pair[1].fun)
    covariance, promise = mixture.curvature(best.x)
    converged = promise <= RULE.promise
    if not converged:
        warn_user(
            "The subpopulations are not at a maximum of the likelihood that the data "
            "determine: they may not ask for as many classes.",
            ConvergenceWarning,
        )
    estimates = mixture.estimates(best.x)
    slopes = np.array([
        (mixture.estimates(best.x + h)[1] - mixture.estimates(best.x - h)[1])
        for h in RULE.second_step * np.eye(len(best.x))
    ]) / (2 * RULE.second_step)  # fmt: skip
    errors = np.sqrt(np.diag(slopes.T @ covariance @ slopes))
    by_class = mixture.by_class(best.x)
    log_likelihoods = np.logaddexp.reduce(by_class, axis=0)
    return Subpopulations(
        np.exp(mixture.params(best.x)[1]).mean(axis=1)[mixture.order(best.x)],
        DataFrame({"estimate": estimates[1], "standard_error": errors}, estimates[0]),
        np.exp(by_class - log_likelihoods).T[:, mixture.order(best.x)],
        single.groups_,
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


def _of_class(chosen, columns, subjects) -> ClassCovariates:
    """Return the covariates of the class of each subject."""
    known = list(columns)
    names = known if isinstance(known[0], str) else None
    keys = [column_of(k, names, len(known), "class_covariates") for k in listed(chosen)]
    values = np.empty((subjects.max() + 1, len(keys)))
    for j, key in enumerate(keys):
        column = np.asarray(columns[known[key]], dtype=float)
        if not (np.isfinite(column).all() and is_constant(column, subjects)):
            raise ValueError(
                f"class_covariates: {known[key]!r} must be a number that is constant "
                "within subjects"
            )
        values[subjects, j] = column
    means, widths = values.mean(axis=0), values.std(axis=0)
    if not (widths > 0).all():
        raise ValueError("class_covariates must differ between subjects")
    titles = [known[key] for key in keys]
    names = [f"x{title}" if isinstance(title, int) else title for title in titles]
    return ClassCovariates(names, (values - means) / widths, means, widths)


def _copied(
    estimator, X, y, groups, events, parameters, n_classes, chosen
) -> tuple[Problem, ClassCovariates]:
    """Return the problem in which each class has all subjects, with its own values.

    And the covariates of the class.
    """
    names = [f"CLASS_{k}" for k in range(2, n_classes + 1)]
    twin = clone(estimator)
    indexed = as_records(twin, X, y, groups, events)
    if indexed is not None:
        columns = indexed[0].columns
        subjects = indexed[0].subject_of_record
        of_class = _of_class(chosen, columns, subjects)
    else:
        data = given(clone(estimator), X, y, groups, reset=True)
        plain, y, subjects = data.X, data.y, data.subjects
        # Of X itself, since columns that the model does not read are blank.
        given_columns = (
            {c: X[c] for c in X.columns}
            if hasattr(X, "columns")
            else dict(enumerate(np.asarray(X).T))
        )
        of_class = _of_class(chosen, given_columns, subjects)
        order = np.argsort(subjects, kind="stable")
        plain, y, subjects = plain[order], y[order], subjects[order]
        columns = dict(
            zip(getattr(X, "columns", range(plain.shape[1])), plain.T, strict=True)
        )
        if not hasattr(X, "columns"):
            names = [plain.shape[1] + k for k in range(n_classes - 1)]
    copies = {c: np.concatenate([v] * n_classes) for c, v in columns.items()}
    n, n_subjects = len(subjects), subjects.max() + 1
    for k, name in enumerate(names, start=1):
        copies[name] = np.repeat(np.arange(n_classes) == k, n) * 1.0
    labels = (subjects + n_subjects * np.arange(n_classes)[:, None]).ravel()
    covariates = {p: list(listed(c)) for p, c in (twin.covariates or {}).items()}
    for parameter in parameters:
        covariates[parameter] = [*covariates.get(parameter, []), *names]
    twin.set_params(covariates=covariates)
    if indexed is not None:
        records = read_nonmem({**copies, "ID": labels})
        data = given_records(twin, records, reset=True)
        return Problem.of(twin, data), of_class
    if hasattr(X, "columns"):
        from pandas import DataFrame

        table = DataFrame(copies)
    else:
        table = np.column_stack(list(copies.values()))
    data = given(twin, table, np.tile(y, n_classes), labels, reset=True)
    return Problem.of(twin, data), of_class


def _starts(fitted, vector, model, effects):
    """Return parameters with classes on both sides of the fit without them."""
    single = fitted.vector
    known = dict(zip(single.names, single.of(fitted.params), strict=True))
    starts = []
    for signs in product([1.0], *[[1.0, -1.0]] * (len(effects) - 1)):
        values = {name: known.get(name, 0.0) for name in vector.names}
        for (parameter, names), sign in zip(effects.items(), signs, strict=True):
            offsets, variance = np.linspace(-1, 1, len(names) + 1), RULE.apart**2
            if f"omega2_{parameter}" in values:
                variance = values[f"omega2_{parameter}"]
                values[f"omega2_{parameter}"] *= RULE.within
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

    def __init__(self, problem, params, effects, scales, of_class):
        self.model, self.rows = problem.model, problem.rows
        self.coordinates = Coordinates(self.model, params, self.rows)
        self.effects, self.scales = effects, scales
        self.n_classes = 1 + len(next(iter(effects.values())))
        self.of_class = of_class
        self.n_logits = (self.n_classes - 1) * (1 + len(of_class.names))
        means = self.model.prior_moments(self.rows, params)[0]
        self.modes = self._at(params, means).modes

    def _at(self, params, modes):
        return likelihood_at(self.model, self.rows, params, modes, 0, RULE.resolution)

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
        shifts = RULE.first_step * np.eye(len(x))
        up = np.array([self.objective(x + shift) for shift in shifts])
        down = np.array([self.objective(x - shift) for shift in shifts])
        return (up - down) / (2 * RULE.first_step)

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
        """Return names and values of what is estimated."""
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
        steps = np.full(len(x), RULE.second_step)
        hessian = numerical_hessian(self.objective, x, steps)
        slope = self.slope(x)
        finite = np.isfinite(hessian).all()
        if not finite or np.linalg.eigvalsh(hessian)[0] <= RULE.open:
            return np.full(hessian.shape, np.nan), np.inf
        covariance = np.linalg.inv(hessian)
        return covariance, 0.5 * float(slope @ covariance @ slope)
