"""Comparison of a fit from a start of the user's with a short run from clusters."""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

import numpy as np

from sktem.estimators.fit_warnings import warn_user
from sktem.estimators.peers import sure_gain
from sktem.exceptions import FitWarning
from sktem.mixture.short_runs import SHORT_RUNS, short_run
from sktem.rows.held import carrier_of

__all__ = ["warned_of_start"]


class StartCheck(NamedTuple):
    """Gains by which another start is better.

    Attributes
    ----------
    nats : float
        Gain of a row that the short run was not fitted to, at least.
    errors : float
        Standard errors of the gain, at least.
    passes : int
        Passes of the short run.
    """

    nats: float = 0.01
    errors: float = 3.0
    passes: int = 30


RULE = StartCheck()


def warned_of_start(
    mixture, model, params, X, sample_weight, rule: StartCheck = RULE
) -> bool:
    """Warn where clusters would have led to more; return whether that was so.

    The short run learns from some rows and is judged by others, from which the fit has
    learned too.

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
    carrier = carrier_of(X)
    if carrier.holds_tensors or not mixture.has_doubtful_start:
        return False
    size = min(
        len(carrier), 2 * SHORT_RUNS.size(model.n_components, len(carrier.take([0])[0]))
    )
    random = np.random.RandomState(0)
    places = random.choice(len(carrier), size, replace=False)
    learned, judged = np.sort(places[: size // 2]), np.sort(places[size // 2 :])
    if len(learned) < 2 * model.n_components:
        return False
    weights = np.ones(len(carrier)) if sample_weight is None else sample_weight
    if not (weights[learned].any() and weights[judged].any()):
        return False
    rows, model = np.asarray(carrier.take(learned), dtype=np.float64), copy(model)
    start, _ = mixture.start(
        model, rows, weights[learned], (None,) * 3, random, "kmeans"
    )
    run = short_run(model, rows, start, weights[learned], rule.passes)
    if not run.is_sound:
        return False
    others = np.asarray(carrier.take(judged), dtype=np.float64)
    fits = params, run.params
    gain = sure_gain(model, others, weights[judged], *fits, rule.nats, rule.errors)
    if gain is None:
        return False
    warn_user(
        f"Under a short run from init_params='kmeans' rows that it has not seen are "
        f"{gain:.2g} nats more likely than under this fit, whose start has "
        "led to a lower maximum, or to a saddle, as where components start close "
        "together. Leave out means_init and precisions_init, take other ones, or "
        "increase n_init where starts are random.",
        FitWarning,
    )
    return True
