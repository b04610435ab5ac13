"""Warnings of a fit about states that cannot be trusted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning

__all__ = ["Suspicion", "warn_of_states"]


class Suspicion(NamedTuple):
    """When states are suspicious.

    Attributes
    ----------
    least_rows : float
        Rows that a state should account for.
    likeness : float
        Correlation of two columns of posterior probabilities, and difference of
        parameters over their size, from which on states are copies.
    """

    least_rows: float = 1.0
    likeness: float = 1e-3


def warn_of_states(model, params, state, suspicion: Suspicion | None = None) -> None:
    """Warn of states that are not used or are copies of each other."""
    suspicion = Suspicion() if suspicion is None else suspicion
    s = state.returned
    if s is None or model.chain.n_states == 1:
        return
    K = model.chain.n_states
    n_rows = model.rows_per_sequence * state.n_rows
    # Every row but the first of a sequence is the end of a transition.
    share = s[:K] + s[K : K + K * K].reshape(K, K).sum(axis=0)
    unused = np.flatnonzero(share * n_rows < suspicion.least_rows)
    if len(unused):
        warn_user(
            f"State(s) {unused.tolist()} account for less than "
            f"{suspicion.least_rows:g} row: take fewer states, another start "
            "(random_state, n_init), or priors (transitions_prior above 1).",
            FitWarning,
        )
        return
    copies = _copies(model, params, suspicion.likeness)
    if copies:
        warn_user(
            f"States {copies[0][0]} and {copies[0][1]} have nearly the same emission "
            "and are left in the same way: they are one state in two parts. Take fewer "
            "states.",
            FitWarning,
        )


def _copies(model, params, likeness):
    """Return pairs of states that have the same parameters."""
    K = model.chain.n_states
    fields = []
    for name, value in zip(params.emission._fields, params.emission, strict=True):
        array = np.asarray(value, dtype=np.float64)
        if array.ndim and len(array) == K and name != "centre":
            fields.append(array.reshape(K, -1))
    if model.emission_of_state is not None or not fields:
        return []
    fields.append(_exits(params.chain.transitions))
    found = []
    for i in range(K):
        for j in range(i):
            close = all(
                np.abs(one[i] - one[j]).max(initial=0.0)
                <= likeness * max(np.abs(one).max(initial=0.0), 1e-300)
                for one in fields[:-1]
            )
            merged = fields[-1].copy()
            merged[:, j] += merged[:, i]
            merged[:, i] = 0.0
            if close and np.abs(merged[i] - merged[j]).max() < likeness:
                found.append((j, i))
    return found


def _exits(transitions):
    return np.array(transitions)
