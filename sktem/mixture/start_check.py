"""Comparison of a fit with short runs from other starts."""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

import numpy as np

from sktem.estimators.fit_warnings import equal_rows, warn_user
from sktem.estimators.peers import sure_gain
from sktem.exceptions import FitWarning
from sktem.mixture.fit_warnings import doubt_of_components
from sktem.mixture.short_runs import SHORT_RUNS, Run, short_run, suits_short_runs
from sktem.rows.held import carrier_of

__all__ = ["better_start", "warned_of_start"]


class StartCheck(NamedTuple):
    """Gains by which another start is better.

    Attributes
    ----------
    nats : float
        Gain of a row, at least, where short runs do not see all rows or nothing but a
        warning follows.
    errors : float
        Standard errors of the gain, at least, there.
    total : float
        Gain of all rows together, at least, from which on a short run that has seen
        them all is continued: new rows are as often less likely where it is smaller.
    rows : float
        Rows of each component of such a run, at least, for each column and one more: of
        few rows a component can have any likelihood.
    stages : tuple of (int, int)
        How many short runs, the best so far, go on, and for how many passes.
    most_values : int
        Rows times components times columns of short runs about random rows, at most.
    """

    nats: float = 0.01
    errors: float = 2.0
    total: float = 8.0
    rows: float = 2.0
    stages: tuple[tuple[int, int], ...] = ((8, 10), (2, 10), (1, 15))
    most_values: int = 1 << 18


RULE = StartCheck()


class _Rows(NamedTuple):
    """Rows from which short runs learn, and those by which they are judged."""

    learned: np.ndarray
    weights: np.ndarray
    judged: np.ndarray
    judged_weights: np.ndarray

    @classmethod
    def of(cls, X, sample_weight, size, random):
        """Return all rows twice; of many some, in halves; None without weight."""
        n = len(X)
        weights = np.ones(n) if sample_weight is None else sample_weight
        if n <= size:
            rows = np.asarray(X.take(np.arange(n)), dtype=np.float64)
            return cls(rows, weights, rows, weights)
        places = random.choice(n, min(n, 2 * size), replace=False)
        is_learned = np.arange(len(places)) < len(places) // 2
        order = np.argsort(places)
        places, is_learned = places[order], is_learned[order]
        rows, weights = np.asarray(X.take(places), dtype=np.float64), weights[places]
        if not (weights[is_learned].any() and weights[~is_learned].any()):
            return None
        parts = (is_learned, ~is_learned)
        return cls(*(values[part] for part in parts for values in (rows, weights)))


def _best_short_run(mixture, model, rows, random, method, rule=RULE) -> Run | None:
    """Return the best of short runs of a method, None where it is not sound."""
    model, (X, weights) = copy(model), rows[:2]
    n_runs = rule.stages[0][0] if method == "random_from_data" else 1
    starts = [
        mixture.start(model, X, weights, (None,) * 3, random, method)[0]
        for _ in range(n_runs)
    ]
    runs: list[Run] = []
    for count, passes in rule.stages:
        runs = [short_run(model, X, start, weights, passes) for start in starts[:count]]
        runs.sort(key=lambda run: (run.is_sound, run.objective), reverse=True)
        starts = [run.params for run in runs]
    return runs[0] if runs[0].is_sound else None


def _leading_run(mixture, model, params, rows, random, method, least, errors):
    """Return the best short run of a method and its gain over a fit; None without one.

    The gain of a row is above the least one, and by as many standard errors.
    """
    best = _best_short_run(mixture, model, rows, random, method)
    if best is None:
        return None
    data, fits = (rows.judged, rows.judged_weights), (params, best.params)
    gain = sure_gain(model, *data, *fits, least, errors)
    if gain is None or gain < model.penalty(best.params) - model.penalty(params):
        return None
    return best, gain


def better_start(
    mixture, model, params, X, sample_weight, rule: StartCheck = RULE
) -> Run | None:
    """Return a short run about random rows that leads to more than a fit, or None.

    A sound fit, from clusters or about random rows, is compared with short runs. Of few
    rows both have learned from all, and a gain counts where chance seldom makes it. Of
    many the short runs learn from some, and are judged by others, from which the fit
    has learned too: there a gain has to be sure (Q. Vuong, Likelihood ratio tests for
    model selection and non-nested hypotheses, Econometrica 57, 1989).

    Parameters
    ----------
    mixture : MixtureSettings
        Those of the fit.
    model : LatentModel
        The model.
    params : NamedTuple
        Parameters of the fit.
    X : array-like
        Rows.
    sample_weight : ndarray or None
        Their weights.
    rule : StartCheck
        Gains that count.

    Returns
    -------
    Run or None
        The short run.
    """
    carrier = carrier_of(X)
    if mixture.other_start != "random_from_data" or carrier.holds_tensors:
        return None
    if mixture.init_params == "kmeans" and suits_short_runs(model, X):
        return None  # it began with the best of them
    n, d, K = len(carrier), X.shape[1], model.n_components
    size, random = SHORT_RUNS.size(K, d), np.random.RandomState(0)
    worth = n if sample_weight is None else equal_rows(sample_weight)
    fewest = rule.rows * (d + 1)
    if min(n, size) * K * d > rule.most_values or min(n, worth) < K * fewest:
        return None
    if doubt_of_components(model, params, X, sample_weight):
        return None
    rows = _Rows.of(carrier, sample_weight, size, random)
    if rows is None:
        return None
    least, errors = rule.nats, rule.errors
    if n <= size:
        least, errors = rule.total / worth, 0.0
    runs = mixture, model, params, rows, random, "random_from_data"
    found = _leading_run(*runs, least, errors)
    if found is None or worth * found[0].params.weights.min() < fewest:
        return None
    return found[0]


def warned_of_start(
    mixture, model, params, X, sample_weight, rule: StartCheck = RULE
) -> bool:
    """Warn where clusters would have led to more; return whether that was so.

    A fit from parameters that were given, or from random responsibilities, is compared
    with a short run from clusters; the gain has to be sure.

    Parameters
    ----------
    mixture : MixtureSettings
        Those of the fit.
    model : LatentModel
        The model.
    params : NamedTuple
        Parameters of the fit.
    X : array-like
        Rows.
    sample_weight : ndarray or None
        Their weights.
    rule : StartCheck
        Gains that count.

    Returns
    -------
    bool
        Whether it warned.
    """
    carrier, random = carrier_of(X), np.random.RandomState(0)
    if mixture.other_start != "kmeans" or carrier.holds_tensors:
        return False
    size = SHORT_RUNS.size(model.n_components, X.shape[1])
    rows = _Rows.of(carrier, sample_weight, size, random)
    if rows is None:
        return False
    runs = mixture, model, params, rows, random, "kmeans"
    found = _leading_run(*runs, rule.nats, rule.errors)
    if found is None:
        return False
    warn_user(
        f"Under a short run from init_params='kmeans' rows are {found[1]:.2g} nats "
        "more likely than under this fit, whose start has led to a lower maximum, or "
        "to a saddle, as where components start close together. Leave out means_init "
        "and precisions_init, take other ones, or increase n_init where starts are "
        "random.",
        FitWarning,
    )
    return True
