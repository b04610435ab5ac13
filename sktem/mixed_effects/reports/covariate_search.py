"""Stepwise search of covariates."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from sklearn.base import clone

from sktem.choices import check_choice, check_names
from sktem.compartments.records import Records
from sktem.mixed_effects.columns import listed
from sktem.mixed_effects.design import effect_name
from sktem.mixed_effects.given_data import values_of_subjects
from sktem.mixed_effects.reports.comparison import likelihood_ratio_test
from sktem.progress import counted

__all__ = ["covariate_search"]

#: Draws of the random effects on which covariates are screened.
N_DRAWS = 50


class Candidate(NamedTuple):
    """A covariate of a parameter, in one form.

    Attributes
    ----------
    parameter : str
        The parameter.
    source : str or int
        Column of X.
    title : str or int
        Name of the effect: the column, and its form unless that is linear.
    columns : tuple of str or int
        The columns that the form has.
    """

    parameter: str
    source: str | int
    title: str | int
    columns: tuple


def covariate_search(
    estimator,
    X,
    y=None,
    groups=None,
    events=None,
    *,
    candidates,
    forms=None,
    forward=0.05,
    backward=0.01,
    screen=None,
):
    """Select covariates by stepwise forward selection and backward elimination.

    Parameters
    ----------
    estimator : NonlinearMixedEffectsRegressor
        The model; its own covariates stay.
    X, y, groups, events : object
        Data as accepted by :meth:`NonlinearMixedEffectsRegressor.fit`.
    candidates : dict
        For each parameter, the columns of X that may shift it, such as ``{"CL":
        ["WT"]}``.
    forms : dict or None, default=None
        Forms to try for each column, such as ``{"WT": ["power", "hockey-stick"]}``;
        only one of several can enter for a parameter. They shift the parameter on the
        Gaussian scale: "linear" by the column itself (an exponential of it for a
        log-normal parameter), the only form without a dict; "power" by the logarithm of
        its ratio to the median; "hockey-stick" by two slopes, below and above the
        median; "categorical" by one effect for each value except the most frequent one.
        Forms other than "linear" need a data frame or records. Effects that are linear
        on the natural scale, ``CL (1 + theta (WT - 70))`` as in PsN's SCM, belong to
        the model: see :class:`sktem.compartments.Reparametrized`.
    forward, backward : float, default=0.05, 0.01
        P-values below which the most significant effect enters, and from which the
        least significant one leaves.
    screen : float or None, default=None
        P-value from which an effect is not fitted. In the forward search it is that of
        a regression of random effects, drawn given the observations, on the covariate
        (as in COSSAC); in the backward search, that of a Wald test is compared with
        ``backward``. Large values such as 0.3 save most fits and miss hardly any
        effect. Parameters without random effects and covariates that vary within
        subjects are always fitted.

    Returns
    -------
    estimator : NonlinearMixedEffectsRegressor
        The final fit of the search. Forms are columns of their own there, such as
        "WT:power".
    steps : list of tuple of (str, str, str, float)
        The steps taken: "forward" or "backward", the parameter, the column with its
        form, and the p-value.

    Raises
    ------
    ValueError
        If there are no candidates, or a form is unknown or impossible.

    References
    ----------
    E. N. Jonsson and M. O. Karlsson, Automated covariate model building within NONMEM,
    Pharmaceutical Research, 1998.

    G. Ayral, J.-F. Si Abdallah, C. Magnard and J. Chauvin, A novel method based on
    unbiased correlations tests for covariate selection in nonlinear mixed effects
    models: The COSSAC approach, CPT: Pharmacometrics & Systems Pharmacology, 2021.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sktem import NonlinearMixedEffectsRegressor
    >>> from sktem.evaluation import covariate_search
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(np.arange(30), 5)
    >>> X = pd.DataFrame({"x": np.tile(np.arange(5.0), 30), "size": groups % 3 - 1.0})
    >>> y = X.x + X["size"] + 0.3 * rng.normal(size=30)[groups]
    >>> y = y + 0.3 * rng.normal(size=150)
    >>> line = NonlinearMixedEffectsRegressor(
    ...     "linear", parameters={"intercept": 0.5, "slope": 0.5}, inputs=["x"],
    ...     transforms="normal", omega=["intercept"], random_state=0
    ... )
    >>> found, steps = covariate_search(
    ...     line, X, y, groups, candidates={"intercept": ["size"]}
    ... )
    >>> [step[:3] for step in steps]
    [('forward', 'intercept', 'size')]
    """
    base = estimator.covariates or {}
    known = [(p, c) for p, columns in base.items() for c in listed(columns)]
    left, X, events = _candidates(candidates, forms or {}, X, events)
    left = [effect for effect in left if (effect.parameter, effect.source) not in known]

    def fitted(effects):
        twin = clone(estimator)
        covariates: dict = {}
        for p, column in known:
            covariates.setdefault(p, []).append(column)
        for effect in effects:
            covariates.setdefault(effect.parameter, []).extend(effect.columns)
        twin.set_params(covariates=covariates or None)
        return twin.fit(X, y, groups, events)

    chosen: list[Candidate] = []
    steps = []
    best = fitted(chosen)
    while left:
        tried = left
        if screen is not None:
            tried = [o for o in left if _by_draws(best.fitted_, X, groups, o) < screen]
        trials = [
            fitted([*chosen, effect]) for effect in counted(tried, "Covariates: fits")
        ]
        values = [likelihood_ratio_test(best, trial).p_value for trial in trials]
        k = int(np.argmin(values)) if values else 0
        if not values or values[k] >= forward:
            break
        effect, best = tried[k], trials[k]
        steps.append(("forward", effect.parameter, effect.title, values[k]))
        chosen.append(effect)
        left = [other for other in left if other[:2] != effect[:2]]
    while chosen:
        tried = chosen
        if screen is not None:
            names, fit = getattr(best, "feature_names_in_", None), best.fitted_
            tried = [o for o in chosen if _by_wald(fit, names, o) >= backward]
        without = [[o for o in chosen if o is not effect] for effect in tried]
        trials = [fitted(effects) for effects in counted(without, "Covariates: fits")]
        values = [likelihood_ratio_test(trial, best).p_value for trial in trials]
        k = int(np.argmax(values)) if values else 0
        if not values or values[k] < backward:
            break
        steps.append(("backward", tried[k].parameter, tried[k].title, values[k]))
        chosen, best = without[k], trials[k]
    return best, steps


def _candidates(candidates, forms, X, events) -> tuple[list[Candidate], Any, Any]:
    """Return candidates in all forms, and the data with the columns of these."""
    pairs = [(p, c) for p, columns in candidates.items() for c in listed(columns)]
    if not pairs:
        raise ValueError("candidates must name a column for a parameter")
    check_names("forms", forms, [column for _, column in pairs], "candidates")
    new: dict = {}
    expanded = []
    for parameter, source in pairs:
        for form in listed(forms.get(source, "linear")):
            check_choice("forms", form, ["linear", *FORMS])
            columns, title = (source,), source
            if form != "linear":
                title = f"{source}:{form}"
                values = _column(X, source)
                if form != "categorical" and values.dtype.kind != "f":
                    raise ValueError(
                        f"forms: {form!r} needs numbers, and {source!r} holds text; "
                        '"categorical" takes it'
                    )
                derived = FORMS[form](source, values)
                columns = tuple(derived)
                new |= derived
            expanded.append(Candidate(parameter, source, title, columns))
    if not new:
        return expanded, X, events
    return expanded, _with_columns(X, new), _with_columns(events, new)


def _column(X, source):
    """Return a column of a data frame or of records."""
    known = X.columns if isinstance(X, Records) or hasattr(X, "assign") else ()
    if source not in known:
        raise ValueError(
            f"forms need {source!r} to be a column of a data frame or records, got "
            f"{list(known)}"
        )
    return _numbers_or_text(X[source])


def _numbers_or_text(values):
    """Return a column as numbers, or as text where it is none."""
    try:
        return np.asarray(values, dtype=float)
    except ValueError:
        return np.asarray(values).astype(str)


def _with_columns(data, new):
    """Return a data frame or records with columns that functions make of others."""
    if isinstance(data, Records):
        records = data.take(np.arange(data.n_subjects))
        records.columns |= {
            name: make(_numbers_or_text(records[source]))
            for name, (source, make) in new.items()
        }
        return records
    if data is None or not hasattr(data, "assign"):
        return data
    return data.assign(**{
        name: make(_numbers_or_text(data[source]))
        for name, (source, make) in new.items()
        if source in data.columns
    })  # fmt: skip


def _power(source, values):
    if not (values > 0).all():
        raise ValueError(f'forms: "power" needs positive values of {source!r}')
    middle = np.median(values)
    return {f"{source}:power": (source, lambda x: np.log(x / middle))}


def _hockey_stick(source, values):
    middle = np.median(values)
    return {
        f"{source}:below": (source, lambda x: np.minimum(x - middle, 0.0)),
        f"{source}:above": (source, lambda x: np.maximum(x - middle, 0.0)),
    }


def _categorical(source, values):
    levels, counts = np.unique(values, return_counts=True)
    others = np.delete(levels, np.argmax(counts))
    return {
        f"{source}:{level:g}" if isinstance(level, float) else f"{source}:{level}": (
            source,
            lambda x, level=level: (x == level) * 1.0,
        )
        for level in others.tolist()
    }


#: What makes the columns of a form: by name, the source and a function of its values.
FORMS = {"power": _power, "hockey-stick": _hockey_stick, "categorical": _categorical}


def _by_draws(fitted, X, groups, candidate) -> float:
    """Return the probability of no effect from drawn random effects, 0 if unknown.

    Under the model a draw given the observations is one of the population, so that the
    regression on it is a valid test; the median of several is less noisy.
    """
    design = fitted.model.design
    names = [design.names[p] for p in design.random]
    values = values_of_subjects(fitted.problem.labels, X, groups, candidate.columns)
    if candidate.parameter not in names or values is None:
        return 0.0
    points = fitted.conditional_draws(N_DRAWS)
    means = fitted.model.prior_moments(fitted.rows, fitted.params)[0]
    j = names.index(candidate.parameter)
    effects = points[..., j] - means[:, j]
    n, c = values.shape
    if n <= c + 1:
        return 0.0
    basis = np.linalg.qr(values - values.mean(axis=0))[0]
    centred = effects - effects.mean(axis=1, keepdims=True)
    explained = ((centred @ basis) ** 2).sum(axis=1)
    rest = (centred**2).sum(axis=1) - explained
    return float(
        np.median(stats.f.sf(explained / c / (rest / (n - c - 1)), c, n - c - 1))
    )


def _by_wald(fitted, names, candidate) -> float:
    """Return the probability of no effect from estimates and their covariance."""
    vector = fitted.vector
    titles = [
        name if isinstance(name, str)
        else f"x{name}" if names is None else str(names[name])
        for name in candidate.columns
    ]  # fmt: skip
    wanted = [effect_name(title, candidate.parameter) for title in titles]
    places = [vector.names.index(name) for name in wanted]
    values = vector.of(fitted.params)[places]
    covariance = fitted.covariance()[np.ix_(places, places)]
    if not np.isfinite(covariance).all():
        return 1.0
    return float(
        stats.chi2.sf(values @ np.linalg.solve(covariance, values), len(places))
    )
