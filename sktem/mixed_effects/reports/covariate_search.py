"""Stepwise search of covariates."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone

from sktem.mixed_effects.columns import listed
from sktem.mixed_effects.reports.comparison import likelihood_ratio_test
from sktem.progress import counted

__all__ = ["covariate_search"]


def covariate_search(
    estimator,
    X,
    y=None,
    groups=None,
    events=None,
    *,
    candidates,
    forward=0.05,
    backward=0.01,
):
    """Add covariates one at a time while the likelihood asks for them, and then remove.

    Parameters
    ----------
    estimator : NonlinearMixedEffectsRegressor
        The model; the covariates that it has stay.
    X, y, groups, events : object
        Data as :meth:`NonlinearMixedEffectsRegressor.fit` takes them.
    candidates : dict
        Columns of X by the parameter that they may shift, such as ``{"CL": ["WT"]}``.
    forward, backward : float, default=0.05, 0.01
        Probabilities below which the most significant effect enters, and from which the
        least significant one leaves.

    Returns
    -------
    estimator : NonlinearMixedEffectsRegressor
        The fit that the search ends at.
    steps : list of tuple of (str, str, str, float)
        What was done: "forward" or "backward", the parameter, the column and the
        probability.

    Raises
    ------
    ValueError
        If there are no candidates.

    References
    ----------
    E. N. Jonsson and M. O. Karlsson, Automated covariate model building within NONMEM,
    Pharmaceutical Research, 1998.

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
    left = [(p, c) for p, columns in candidates.items() for c in listed(columns)]
    if not left:
        raise ValueError("candidates must name a column for a parameter")
    base = estimator.covariates or {}
    given = [(p, c) for p, columns in base.items() for c in listed(columns)]
    left = [one for one in left if one not in given]

    def fitted(effects):
        own = clone(estimator)
        covariates: dict = {}
        for p, column in given + effects:
            covariates.setdefault(p, []).append(column)
        own.set_params(covariates=covariates or None)
        return own.fit(X, y, groups, events)

    chosen: list = []
    steps = []
    best = fitted(chosen)
    while left:
        trials = [fitted([*chosen, one]) for one in counted(left, "Covariates: fits")]
        values = [likelihood_ratio_test(best, trial).p_value for trial in trials]
        k = int(np.argmin(values))
        if values[k] >= forward:
            break
        steps.append(("forward", *left[k], values[k]))
        chosen.append(left.pop(k))
        best = trials[k]
    while chosen:
        without = [[o for o in chosen if o is not one] for one in chosen]
        trials = [fitted(effects) for effects in counted(without, "Covariates: fits")]
        values = [likelihood_ratio_test(trial, best).p_value for trial in trials]
        k = int(np.argmax(values))
        if values[k] < backward:
            break
        steps.append(("backward", *chosen[k], values[k]))
        chosen, best = without[k], trials[k]
    return best, steps
