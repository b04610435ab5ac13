"""Comparison of a fit with short runs from other starts."""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

import numpy as np

from sktem.estimators.fit_warnings import warn_user
from sktem.estimators.peers import sure_gain
from sktem.exceptions import FitWarning
from sktem.mixture.short_runs import SHORT_RUNS, short_run, suits_short_runs
from sktem.rows.held import carrier_of

__all__ = ["warned_of_start"]


class StartCheck(NamedTuple):
    """Gains by which another start is better.

    Attributes
    ----------
    nats : float
        Gain of a row, at least.
    errors : float
        Standard errors of the gain, at least.
    passes : int
        Passes of each short run, and then of the best of them.
    most_values : int
        Rows times components times columns of short runs about random rows, at most.
    """

    nats: float = 0.01
    errors: float = 2.0
    passes: int = 15
    most_values: int = 1 << 18


RULE = StartCheck()


def warned_of_start(
    mixture, model, params, X, sample_weight, rule: StartCheck = RULE
) -> bool:
    """Warn where another start would have led to more; return whether that was so.

    A fit from clusters, or about random rows, is compared with short runs about random
    rows; others are with one from clusters. Of few rows both have learned from all
    (Q. Vuong, Likelihood ratio tests for model selection and non-nested hypotheses,
    Econometrica 57, 1989). Of many the short runs learn from some, and are judged by
    others, from which the fit has learned too.

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
    carrier, method = carrier_of(X), mixture.other_start
    if method is None or carrier.holds_tensors:
        return False
    about_rows = method == "random_from_data"
    is_compared = mixture.init_params == "kmeans" and suits_short_runs(model, X)
    if about_rows and (is_compared or not carrier.can_take):
        return False  # a pass reads rows that cannot be taken
    n, d, random = len(carrier), X.shape[1], np.random.RandomState(0)
    size = SHORT_RUNS.size(model.n_components, d)
    if about_rows and min(n, size) * model.n_components * d > rule.most_values:
        return False
    learned = judged = np.arange(n)
    if n > size:
        places = random.choice(n, min(n, 2 * size), replace=False)
        half = len(places) // 2
        learned, judged = np.sort(places[:half]), np.sort(places[half:])
    weights = np.ones(n) if sample_weight is None else sample_weight
    if not (weights[learned].any() and weights[judged].any()):
        return False
    rows, model = np.asarray(carrier.take(learned), dtype=np.float64), copy(model)
    data = rows, weights[learned]
    runs = []
    for _ in range(SHORT_RUNS.random if about_rows else 1):
        start, _ = mixture.start(model, *data, (None,) * 3, random, method)
        runs.append(short_run(model, rows, start, weights[learned], rule.passes))
    best = max(runs, key=lambda run: (run.is_sound, run.objective))
    best = short_run(model, rows, best.params, weights[learned], rule.passes)
    if not best.is_sound:
        return False
    others = np.asarray(carrier.take(judged), dtype=np.float64)
    fits = params, best.params
    gain = sure_gain(model, others, weights[judged], *fits, rule.nats, rule.errors)
    if gain is None or gain < model.penalty(best.params) - model.penalty(params):
        return False
    advice = (
        "a lower maximum: fit again with that start, and n_init above 1."
        if about_rows
        else "a lower maximum, or to a saddle, as where components start close "
        "together. Leave out means_init and precisions_init, take other ones, or "
        "increase n_init where starts are random."
    )
    warn_user(
        f"Under a short run from init_params={method!r} rows are {gain:.2g} nats more "
        f"likely than under this fit, whose start has led to {advice}",
        FitWarning,
    )
    return True
