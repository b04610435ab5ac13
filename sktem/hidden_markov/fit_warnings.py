"""Warnings of a fit about states that cannot be trusted."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from sktem.emissions.scarcity import doubt_of_labels
from sktem.emissions.spread import doubt_of_covariances
from sktem.emissions.wording import AboutColumns
from sktem.estimators.fit_warnings import warn_of_parameters, warn_user
from sktem.exceptions import FitWarning

__all__ = [
    "StateWarning",
    "Suspicion",
    "short_of_rows",
    "warn_of_covariates",
    "warn_of_search",
    "warn_of_states",
]


class StateWarning(FitWarning):
    """States of a fit cannot be trusted."""


class Suspicion(NamedTuple):
    """Thresholds of suspicious states.

    Attributes
    ----------
    least_rows : float
        Rows that a state should account for.
    beyond : float
        Rows by which it should exceed those on which its density collapses.
    likeness : float
        Difference of parameters over their size, up to which states are copies.
    least_curvature : float
        Curvature of the log-likelihood by a coefficient of a covariate, on the scale of
        the covariate, below which its optimum is infinite.
    sample : int
        Rows from which variances of columns are taken.
    """

    least_rows: float = 1.0
    beyond: float = 1.5
    likeness: float = 1e-3
    least_curvature: float = 0.1
    sample: int = 4096


SUSPICION = Suspicion()


def rows_of_states(model, s, n_sequences) -> np.ndarray:
    """Return the expected rows of each state, of statistics."""
    K = model.chain.n_states
    # Every row but the first of a sequence is the end of a transition.
    share = s[:K] + s[K : K + K * K].reshape(K, K).sum(axis=0)
    return share * model.rows_per_sequence * n_sequences


def short_of_rows(model, params, s, n_sequences) -> np.ndarray:
    """Return the states that have no more rows than a density takes to collapse."""
    is_held = model.fixed_emission or "covariances" in model.held
    is_open = not is_held and model.emission_of_state is None
    on = model.emission.collapses_on(params) if is_open else 0
    least = on + SUSPICION.beyond if on else SUSPICION.least_rows
    return np.flatnonzero(rows_of_states(model, s, n_sequences) < least)


def warn_of_search(start) -> None:
    """Warn of a start that only one of several runs has reached."""
    if start.lead > 0:
        warn_user(
            f"Only one of {start.n_runs} short runs from different starts has come to "
            f"the optimum that was taken, {start.lead:.2g} per row above the next: "
            "there may be better ones. Search more often (n_init), or give a start.",
            FitWarning,
        )


def warn_of_states(model, params, state, X, names=None) -> None:
    """Warn of states not used, collapsed, copies of others or of too few rows."""
    s = state.returned
    if s is None:
        return
    if model.chain.n_states > 1:
        short = short_of_rows(model, params.emission, s, state.n_rows)
        if len(short):
            rows = rows_of_states(model, s, state.n_rows)[short].max()
            warn_user(
                f"State(s) {short.tolist()} account for no more than {rows:.2g} rows: "
                "take fewer states, another start (random_state, n_init), or priors "
                "(transitions_prior above 1).",
                StateWarning,
            )
            return
    doubt = not model.fixed_emission and _doubt_of_emission(
        model, params.emission, s, X
    )
    if doubt:
        warn_user(doubt.worded(names), StateWarning)
        return
    if copies := _copies(model, params, SUSPICION.likeness):
        warn_user(
            f"States {copies[0][0]} and {copies[0][1]} have nearly the same emission "
            "and are left in the same way: they are one state in two parts. Take fewer "
            "states.",
            StateWarning,
        )
        return
    if not any(spread.has_prior for spread in model.emission.spreads(params.emission)):
        n_rows = model.rows_per_sequence * state.n_rows
        warn_of_parameters(model.n_parameters(params, X.shape[1]), n_rows)


def warn_of_covariates(model, state, names=None) -> None:
    """Warn of covariates that say with certainty when a state is left or entered."""
    s = state.returned
    if s is None or "transitions" in model.chain.fixed:
        return
    K = model.chain.n_states
    total = model.rows_per_sequence * state.n_rows
    happens = total * s[K : K + K * K].reshape(K, K) > SUSPICION.least_rows
    flat = total * model.chain.curvatures(s) < SUSPICION.least_curvature
    flat &= happens[:, :, None] & (happens.sum(axis=1) > 1)[:, None, None]
    flat &= model.chain.scale.reach > 0
    if flat.any():
        # Others are flat too where one says it.
        sizes = np.abs(state.params.chain.slopes) * model.chain.scale.spread * flat
        i, j, c = map(int, np.unravel_index(sizes.argmax(), flat.shape))
        doubt = AboutColumns(
            f"Covariate {{columns}} nearly says with certainty whether state {i} is "
            f"followed by state {j}: the coefficient has no finite optimum, and grows "
            "with the passes. Leave the covariate out, or read only its sign.",
            [c],
        )
        warn_user(doubt.worded(names), StateWarning)


def _doubt_of_emission(model, params, s, X):
    """Return why covariances or labels of states cannot be trusted, or None."""
    rows = rows_of_states(model, s, len(X))
    if model.emission_of_state is not None:
        rows = np.bincount(model.emission_of_state, weights=rows)
    known = partial(np.asarray, rows)
    for spread in model.emission.spreads(params):
        doubt = doubt_of_covariances(
            spread, rows / rows.sum(), known, lambda: X.few(SUSPICION.sample).X, "State"
        )
        if doubt:
            return doubt
    shares = model.emission.label_shares(params)
    return doubt_of_labels(shares, known, "State")


def _copies(model, params, likeness):
    """Return pairs of states that have the same parameters."""
    K = model.chain.n_states
    fields = [
        array.reshape(K, -1)
        for array in _arrays(params.emission)
        if array.ndim and len(array) and len(array) % K == 0
    ]
    if model.emission_of_state is not None or not fields:
        return []
    # States may differ in durations or coefficients.
    fields += [extra.reshape(K, -1) for extra in params.chain[2:]]
    fields.append(np.array(params.chain.transitions))
    pairs = []
    for i in range(K):
        for j in range(i):
            close = all(
                np.abs(field[i] - field[j]).max(initial=0.0)
                <= likeness * max(np.abs(field).max(initial=0.0), 1e-300)
                for field in fields[:-1]
            )
            merged = fields[-1].copy()
            merged[:, j] += merged[:, i]
            merged[:, i] = 0.0
            if close and np.abs(merged[i] - merged[j]).max() < likeness:
                pairs.append((j, i))
    return pairs


def _arrays(params):
    """Return the arrays of nested parameters, without fixed points of statistics."""
    names = getattr(params, "_fields", [""] * len(params))
    arrays = []
    for name, value in zip(names, params, strict=True):
        if isinstance(value, tuple):
            arrays += _arrays(value)
        elif name != "centre" and np.asarray(value).dtype.kind == "f":
            arrays.append(np.asarray(value, dtype=np.float64))
    return arrays
