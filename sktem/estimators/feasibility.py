"""Comparison of a fit by differences of statistics with a short run of EM."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.estimators.fit_warnings import warn_user
from sktem.estimators.peers import sure_gain
from sktem.exceptions import FitWarning
from sktem.models.base import LatentModel, average_statistics
from sktem.rows.held import carrier_of

__all__ = ["warn_of_left_set"]


class ShortEM(NamedTuple):
    """A short run of EM, and the gains that count.

    Attributes
    ----------
    passes : int
        Passes of the run.
    n_rows : int
        Rows that it learns from, at most, and as many by which it is judged.
    nats : float
        Gain of a row, at least.
    errors : float
        Standard errors of the gain, at least.
    """

    passes: int = 15
    n_rows: int = 2048
    nats: float = 0.01
    errors: float = 2.5


RULE = ShortEM()


def warn_of_left_set(
    settings, X, sample_weight, start, params, rule: ShortEM = RULE
) -> None:
    """Warn where statistics that no data have may have spoiled a fit.

    Differences of statistics can leave the set of those that data can produce, and a
    model without ``project`` cannot say so: a component whose weight becomes negative
    is lost.

    Parameters
    ----------
    settings : RunSettings
        Settings of the fit.
    X : array-like
        Rows.
    sample_weight : ndarray or None
        Their weights.
    start : callable
        Returns the parameters at the start of the fit.
    params : object
        Parameters at its end.
    rule : ShortEM
        The short run.
    """
    model = settings.model
    projects = type(model).project is not LatentModel.project
    methods = (getattr(model, name, None) for name in ("posterior", "log_likelihood"))
    if settings.solver.convex or projects or not all(map(callable, methods)):
        return
    carrier = carrier_of(X)
    order = np.random.default_rng(0).permutation(len(carrier))
    learned, judged = np.sort(order[: rule.n_rows]), np.sort(order[-rule.n_rows :])
    weights = np.ones(len(carrier)) if sample_weight is None else sample_weight
    if not (weights[learned].any() and weights[judged].any()):
        return
    rows, best = carrier.take(learned), start()
    try:
        with np.errstate(all="ignore"):
            for _ in range(rule.passes):
                Z = model.annotate(model.posterior(rows, best), best)
                s = average_statistics(model, rows, Z, weights[learned], best)
                best = model.maximize(s, best)
            others, fits = carrier.take(judged), (params, best)
            levels = rule.nats, rule.errors
            gain = sure_gain(model, others, weights[judged], *fits, *levels)
    except (ArithmeticError, ValueError):  # of few rows: the fit is not lost for it
        return
    if gain is not None:
        warn_user(
            f"After {rule.passes} passes of solver='em' from the same start rows are "
            f"{gain:.2g} nats more likely than under this fit. Statistics of "
            f"{type(settings.solver).__name__} are differences, which no data need "
            f"have (a weight below 0), and {type(model).__name__} has no method "
            "project, which says so. Write it, or take solver='em' or a larger "
            "batch_size.",
            FitWarning,
        )
