"""Starts that a few passes of EM choose from."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sktem.emissions.gaussian import Gaussian
from sktem.mixture.emission_model import EmissionMixtureModel
from sktem.mixture.emission_start import start_responsibilities
from sktem.mixture.fit_warnings import doubt_of_components
from sktem.mixture.start import START_ROWS

__all__ = ["SHORT_RUNS", "best_of_short_runs", "short_run", "suits_short_runs"]


class ShortRuns(NamedTuple):
    """Short runs of a start.

    Attributes
    ----------
    random : int
        Starts about random rows, beside the one from clusters.
    passes : int
        Passes of EM of each.
    most_rows, per_parameter : int
        Rows that they see, at most: in all, or for each parameter of the
        means.
    """

    random: int = 4
    passes: int = 15
    most_rows: int = 2048
    per_parameter: int = 20

    def size(self, n_components, n_features) -> int:
        """Return the number of rows that short runs see, at most."""
        return max(self.most_rows, self.per_parameter * n_components * (n_features + 1))


SHORT_RUNS = ShortRuns()


class Run(NamedTuple):
    """Result of a short run.

    Attributes
    ----------
    is_sound : bool
        Whether nothing is to be said of its components.
    objective : float
        Penalised log-likelihood per row.
    params : NamedTuple
        Parameters.
    s : ndarray
        Statistics of the last pass.
    """

    is_sound: bool
    objective: float
    params: Any
    s: object


def suits_short_runs(model, X) -> bool:
    """Return whether starts are compared: of few rows that are not Gaussian alone."""
    if not isinstance(model, EmissionMixtureModel):
        return False
    is_gaussian = isinstance(model.emission, Gaussian)
    return not is_gaussian and len(X) <= START_ROWS.most_clustered


def best_of_short_runs(model, X, random_state, sample_weight=None) -> Run:
    """Return the best of short runs from clusters and from random rows.

    All rows have a part in the clusters, some in the runs, and all in a last pass. A
    component on a few rows can have any likelihood: such runs come last. Clusters are
    tight where a likelihood is high only if distances mean what densities do (C.
    Biernacki, G. Celeux and G. Govaert, Choosing starting values for the EM algorithm,
    Computational Statistics and Data Analysis 41, 2003).

    Parameters
    ----------
    model : EmissionMixtureModel
        The model; it gets the form of its parameters.
    X : ndarray of shape (n, d)
        Rows; NaN is not observed.
    random_state : numpy.random.RandomState
        Random numbers of the starts.
    sample_weight : ndarray of shape (n,) or None, default=None
        Weights.

    Returns
    -------
    Run
        The run.
    """
    rule, K, n = SHORT_RUNS, model.n_components, len(X)
    most, rows, weights = rule.size(K, X.shape[1]), X, sample_weight
    if n > most:
        few = np.sort(random_state.choice(n, most, replace=False))
        rows = X[few]
        weights = None if sample_weight is None else sample_weight[few]
    runs = []
    for method in ["kmeans"] + ["random_from_data"] * (rule.random if K > 1 else 0):
        R = start_responsibilities(
            X, model.emission, K, method, random_state, sample_weight
        )
        start = model.start_of(X, R, sample_weight)
        model.like = start.emission
        runs.append(short_run(model, rows, start, weights, rule.passes))
    best = max(runs, key=lambda run: (run.is_sound, run.objective))
    model.like = best.params.emission
    if rows is X:
        return best
    return short_run(model, X, best.params, sample_weight, 1)


def short_run(model, X, params, sample_weight, passes) -> Run:
    """Return where a run from given parameters ends."""
    for _ in range(passes):
        s, value = model.expected_statistics(X, params, sample_weight)
        objective = value - model.penalty(params)
        params = model.maximize(s, params)
    doubt = doubt_of_components(model, params, X, sample_weight)
    return Run(doubt is None, objective, params, s)
