"""The chain of a user's parameters, and checks for options that exclude each other."""

from __future__ import annotations

import numpy as np

from sktem.choices import check_choice, check_names
from sktem.hidden_markov.chain import Chain
from sktem.hidden_markov.durations import durations_of
from sktem.hidden_markov.given import emission_of, states_of
from sktem.hidden_markov.history_chain import HistoryChain
from sktem.hidden_markov.logit_chain import LogitChain
from sktem.hidden_markov.segment_chain import SegmentChain

__all__ = ["chain_of"]

#: Parts that can be fixed.
PARTS = ("start", "transitions", "emission", "durations")


def chain_of(estimator, prior_share, longest=None, scale=None) -> Chain:
    """Return the chain that the parameters of an estimator describe.

    ``longest`` is the longest duration, None of states without explicit durations, and
    ``scale`` that of covariates, None without any.
    """
    K = states_of(estimator)
    fixed = (estimator.fixed,) if isinstance(estimator.fixed, str) else estimator.fixed
    emission = emission_of(estimator)
    check_names("fixed", fixed, (*PARTS, *emission.separate), "parts")
    tied = estimator.tied_transitions
    if tied is not None:
        tied = np.asarray(tied)
        if tied.shape != (K,):
            raise ValueError(f"tied_transitions must have the shape {(K,)}")
    priors = {}
    for name, shape in (("start_prior", (K,)), ("transitions_prior", (K, K))):
        value = np.asarray(getattr(estimator, name), dtype=np.float64)
        if value.shape not in ((), shape) or not (value > 0).all():
            raise ValueError(
                f"{name} must be positive, a number or of the shape {shape}; got "
                f"{getattr(estimator, name)!r}"
            )
        priors[name] = float(value) if value.ndim == 0 else value
    options = {
        "fixed": tuple(fixed),
        "tied": tied,
        **priors,
        "prior_share": prior_share,
    }
    durations = durations_of(estimator.durations)
    memory = emission.memory
    is_stationary = _is_stationary(estimator, fixed, durations is scale is None)
    if np.min(priors["transitions_prior"]) < 1 and (is_stationary or scale is not None):
        raise ValueError(
            "transitions_prior below 1 takes transitions out, for which it needs "
            "start='free' and no covariates"
        )
    if memory and not (durations is scale is estimator.tied_emissions is None):
        raise ValueError(
            f"{type(emission).__name__} depends on histories of states, for which "
            "there are no durations, covariates or tied_emissions: "
            "emissions.Regression has these"
        )
    if durations is None:
        if "durations" in fixed:
            raise ValueError("fixed has 'durations', of which durations=None has none")
        if scale is not None:
            return LogitChain(K, **options, scale=scale)
        options["is_stationary"] = is_stationary
        if memory:
            return HistoryChain(K, **options, memory=memory)
        return Chain(K, **options)
    if scale is not None:
        raise ValueError(
            "covariates need durations=None: they say which state follows in each row"
        )
    if tied is not None:
        raise ValueError(
            "tied_transitions needs durations=None: states with durations do not "
            "follow themselves, so that no two are left in the same way"
        )
    return SegmentChain(K, **options, durations=durations, longest=longest)


def _is_stationary(estimator, fixed, is_plain) -> bool:
    """Return whether the start follows from the transitions, and check that it can."""
    check_choice("start", estimator.start, ("free", "stationary"))
    if estimator.start == "free":
        return False
    has_prior = (np.asarray(estimator.start_prior) != 1.0).any()
    if "start" in fixed or estimator.start_init is not None or has_prior:
        raise ValueError(
            "start='stationary' follows from the transitions: it needs start_init=None "
            "and start_prior=1, and fixed without 'start'"
        )
    if not is_plain:
        raise ValueError(
            "start='stationary' needs durations=None and no covariates, with which no "
            "distribution of the states stays as it is"
        )
    return True
