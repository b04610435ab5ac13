"""The number of states: fits with one more state each, judged by a criterion."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import NamedTuple

import numpy as np

from sktem.choices import check_choice, check_number
from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning
from sktem.hidden_markov.fit_warnings import StateWarning

__all__ = ["StateSearchStep", "check_n_states", "criterion", "found_states"]

#: Criteria by the value of ``n_states`` that asks for them.
CRITERIA = {"auto": "bic", "bic": "bic", "icl": "icl"}
#: Settings whose sizes are the number of states.
SIZED = ("start_init", "transitions_init", "emission_init", "tied_transitions",
         "tied_emissions")  # fmt: skip


class SearchRule(NamedTuple):
    """Limits of the search for the number of states.

    Attributes
    ----------
    patience : int
        Fits beyond the best number that need not lower the criterion.
    most : int
        States, at most.
    tol : float
        Tolerance of the fits that are compared, at least.
    """

    patience: int = 2
    most: int = 30
    tol: float = 1e-5


class StateSearchStep(NamedTuple):
    """A model that was fitted on the way to the number of states.

    Attributes
    ----------
    n_states : int
        Its number of states.
    criterion : float
        Criterion of all rows; lower is better. Infinite where a state was not used,
        had collapsed or was a copy of another.
    """

    n_states: int
    criterion: float


def check_n_states(parameters) -> None:
    """Raise if a number of states is neither a number nor a criterion that fits."""
    value = parameters["n_states"]
    if not isinstance(value, str):
        check_number("n_states", value, Integral, 1)
        return
    check_choice("n_states", value, CRITERIA, " or an integer")
    sized = [name for name in SIZED if parameters[name] is not None]
    priors = ("start_prior", "transitions_prior")
    sized += [name for name in priors if np.ndim(parameters[name]) > 0]
    if sized:
        raise ValueError(
            f"n_states={value!r} looks for the number of states, which {sized[0]} "
            "already says: give n_states as a number"
        )


def criterion(fitted, X, name, weights=None) -> float:
    """Return a criterion of a fitted model; lower is better.

    Parameters
    ----------
    fitted : FittedSequences
        The model.
    X : ObservedSequences
        Sequences.
    name : {"bic", "aic", "icl"}
        Criterion: "icl" has the joint likelihood of the rows and the most probable
        states in place of that of the rows (Biernacki, Celeux and Govaert 2000).
    weights : ndarray of shape (n_sequences,) or None, default=None
        Weights of the sequences.

    Returns
    -------
    float
        The criterion, with the number of rows as sample size.
    """
    model, params = fitted.model, fitted.params
    if name == "icl":
        values = np.concatenate([fitted.paths(rows)[1] for _, rows in X.blocks()])
    else:
        values = model.log_likelihood_of_sequences(X, params)
    weights = np.ones(len(X)) if weights is None else weights
    price = 2.0 if name == "aic" else float(np.log(weights @ X.row_counts))
    count = model.n_parameters(params, X.shape[1])
    return -2.0 * float(weights @ values) + price * count


def found_states(fit, n_states, X, weights, rule: SearchRule | None = None):
    """Return the fit with the best criterion, and the steps that led there.

    Parameters
    ----------
    fit : callable
        Returns FittedSequences, given a number of states and the least tolerance.
    n_states : str
        The criterion, as users name it.
    X : ObservedSequences
        The sequences.
    weights : ndarray of shape (n_sequences,) or None
        Weights of the sequences.
    rule : SearchRule or None, default=None
        Limits.

    Returns
    -------
    best : FittedSequences
        The best fit.
    steps : list of StateSearchStep
        All fits.
    """
    rule, name = SearchRule() if rule is None else rule, CRITERIA[n_states]
    known = X.labels if X.in_memory else None
    least = 1 if known is None else max(int(known.max()) + 1, 1)
    steps: list[StateSearchStep] = []
    refused: dict[int, str] = {}
    best, lowest, behind = None, np.inf, 0
    for K in range(least, max(least, min(rule.most, X.n_rows)) + 1):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted = fit(K, rule.tol)
        value = criterion(fitted, X, name, weights)
        for warning in caught:
            if issubclass(warning.category, StateWarning):
                refused.setdefault(K, str(warning.message))
        steps.append(StateSearchStep(K, np.inf if K in refused else value))
        if best is None or steps[-1].criterion < lowest:
            best, lowest, behind = fitted, steps[-1].criterion, 0
        else:
            behind += 1
        if behind >= rule.patience:
            break
    larger = K - behind + 1
    if larger in refused:
        warn_user(f"{larger} states were refused: {refused[larger]}", FitWarning)
    if K == rule.most and behind == 0:
        warn_user(
            f"{name} was still falling at {rule.most} states, where the search ends: "
            "look at state_search_, or give n_states.",
            FitWarning,
        )
    return best, steps
