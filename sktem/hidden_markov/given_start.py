"""Values of parameters to begin with, as users give them."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sktem.choices import check_names
from sktem.emissions.covariances import COVARIANCES
from sktem.hidden_markov.model import HiddenMarkovParams
from sktem.hidden_markov.segment_chain import SegmentParams, staying
from sktem.hidden_markov.start import SEARCH, Search, Start, best_start
from sktem.hidden_markov.stationary import joined_states, stationary

__all__ = ["GivenStart", "probabilities_of"]

#: Sums of probabilities may differ from 1 by as much.
TOLERANCE = 1e-6


class GivenStart(NamedTuple):
    """Values that a user has given to begin with, None where a search finds them.

    Attributes
    ----------
    start : array-like of shape (n_states,) or None
        Probabilities of first states.
    transitions : array-like of shape (n_states, n_states) or None
        Probabilities of transitions.
    emission : dict or None
        Parameters of the emission, by name.
    """

    start: Any = None
    transitions: Any = None
    emission: Any = None

    def is_complete(self, is_stationary) -> bool:
        """Return whether nothing is left to find; stationary starts need no value."""
        parts = self[1:] if is_stationary else self
        return all(part is not None for part in parts)

    def best(self, model, X, rng, search: Search = SEARCH) -> Start:
        """Return where a fit starts: with these values, and the best of the others."""
        complete = self.is_complete(model.chain.is_stationary)
        impose = partial(self.imposed, model)
        start = best_start(model, X, impose, rng, search, complete)
        known = X.in_memory and X.labels is not None
        if known or any(part is not None for part in self):
            _check_possible(model, X, start.params)
        return start

    def imposed(self, model, params) -> HiddenMarkovParams:
        """Return parameters with the given values in their place."""
        K, chain = model.chain.n_states, params.chain
        durations: Any = getattr(model.chain, "durations", None)
        start, transitions = chain.start, chain.transitions
        has_durations = isinstance(chain, SegmentParams)
        if self.start is not None:
            start = probabilities_of("start_init", self.start, (K,))
        if self.transitions is not None:
            transitions = probabilities_of("transitions_init", self.transitions, (K, K))
            if durations is not None:
                stays = np.diagonal(transitions)
                if ((stays > 0) & (stays < 1)).any():
                    raise ValueError(
                        "transitions_init must have 0 on its diagonal with durations, "
                        "which say how long states last, or 1 for a state that is "
                        f"never left; got {stays}"
                    )
                if not has_durations:
                    transitions = staying(transitions)
        if model.chain.is_stationary:
            if not joined_states(transitions):
                raise ValueError(
                    "start='stationary' needs transitions_init that lead from every "
                    f"state to every other; got {transitions}"
                )
            start = stationary(transitions)
        emission = params.emission
        if self.emission is not None:
            emission = _with_emission_values(model.emission, emission, self.emission)
        chain = chain._replace(start=start, transitions=transitions)
        if has_durations and durations.init is not None:
            shape = chain.durations.shape
            table = probabilities_of("init of durations", durations.init, shape)
            chain = chain._replace(durations=table)
        return HiddenMarkovParams(chain, emission)


def probabilities_of(name, value, shape) -> np.ndarray:
    """Return probabilities along the last axis that a user has given."""
    array = np.array(value, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"{name} must have the shape {shape}, got {array.shape}")
    if not (array >= 0).all():
        raise ValueError(f"{name} must not have negative values or NaN")
    sums = array.sum(axis=-1)
    if (np.abs(sums - 1.0) > TOLERANCE).any():
        raise ValueError(f"{name} must have sums of 1, got {sums}")
    return array / sums[..., None]


def _check_possible(model, X, params) -> None:
    """Raise if known states or zeros of the start exclude all paths of a sequence."""
    values = model.log_likelihood_of_sequences(X, params)
    if (values == -np.inf).any():
        raise ValueError(
            f"sequence {int(np.flatnonzero(values == -np.inf)[0])} is impossible: "
            "states that are known, or zeros of start_init, transitions_init or "
            "emission_init, exclude all its paths"
        )


def _with_emission_values(emission, params, values):
    """Return parameters of an emission with values that a user has given."""
    check_names("emission_init", values, params._fields, "parameters")
    fields = {}
    for name, value in values.items():
        before = getattr(params, name)
        if isinstance(value, dict) and hasattr(before, "_fields"):
            fields[name] = _with_emission_values(emission.component, before, value)
            continue
        before = np.asarray(before)
        fields[name] = np.array(value, dtype=before.dtype)
        if np.isnan(fields[name]).any():
            raise ValueError(f"emission_init[{name!r}] must not have NaN")
        if name in emission.distributions:
            what = f"emission_init[{name!r}]"
            fields[name] = probabilities_of(what, fields[name], before.shape)
        if name in emission.non_negative and (fields[name] < 0).any():
            raise ValueError(f"emission_init[{name!r}] must not be negative")
        if fields[name].shape != before.shape:
            raise ValueError(
                f"emission_init[{name!r}] must have the shape {before.shape}, got "
                f"{fields[name].shape}"
            )
    params = params._replace(**fields)
    if "covariances" in fields and "precisions_cholesky" in params._fields:
        structure = COVARIANCES[emission.covariance_type](*params.means.shape)
        try:
            factors = structure.precisions_cholesky(params.covariances)
        except np.linalg.LinAlgError as error:
            raise ValueError(
                "emission_init['covariances'] must be positive definite"
            ) from error
        params = params._replace(precisions_cholesky=factors)
    return params
