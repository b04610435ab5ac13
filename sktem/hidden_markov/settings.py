"""Checked parameters of hidden Markov models, from which models are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sktem.choices import check_choice, check_names
from sktem.emissions import Emission
from sktem.hidden_markov.blocks import scale_of
from sktem.hidden_markov.chain import Chain
from sktem.hidden_markov.durations import Durations, durations_of
from sktem.hidden_markov.fitted import FittedSequences
from sktem.hidden_markov.given_start import GivenStart
from sktem.hidden_markov.history_chain import HistoryChain
from sktem.hidden_markov.logit_chain import CovariateScale, LogitChain
from sktem.hidden_markov.model import HiddenMarkovParams, SequenceModel
from sktem.hidden_markov.segment_chain import SegmentChain

__all__ = ["SequenceSettings"]

#: Parts that can be fixed.
PARTS = ("start", "transitions", "emission", "durations")


@dataclass(frozen=True)
class SequenceSettings:
    """Checked parameters of a hidden Markov model, for the columns of its data.

    Attributes
    ----------
    n_states : int
        Number of states K.
    emission : Emission
        What is observed given a state, with indices of columns.
    given : GivenStart
        Values to begin with.
    start : {"free", "stationary"}
        Whether first states have probabilities of their own.
    fixed : tuple of str
        Parts that are not learned.
    tied_transitions, tied_emissions : ndarray of int of shape (K,) or None
        Numbers that states share which are left alike, or have the same emission.
    start_prior : float or ndarray of shape (K,)
        Concentration of the prior of first states.
    transitions_prior : float or ndarray of shape (K, K)
        The same for transitions.
    durations : Durations or None
        Distributions of durations.
    n_jobs : int or None
        Threads.
    """

    n_states: int
    emission: Emission
    given: GivenStart
    start: str
    fixed: tuple[str, ...]
    tied_transitions: np.ndarray | None
    tied_emissions: np.ndarray | None
    start_prior: Any
    transitions_prior: Any
    durations: Durations | None
    n_jobs: int | None

    @classmethod
    def of(cls, parameters, n_states, emission) -> SequenceSettings:
        """Return the settings of parameters by name, for a number of states."""
        K, fixed = n_states, parameters["fixed"]
        fixed = (fixed,) if isinstance(fixed, str) else tuple(fixed)
        check_names("fixed", fixed, (*PARTS, *emission.separate), "parts")
        check_choice("start", parameters["start"], ("free", "stationary"))
        parts = ("start_init", "transitions_init", "emission_init")
        return cls(
            K,
            emission,
            GivenStart(*(parameters[part] for part in parts)),
            parameters["start"],
            fixed,
            _tied_transitions(parameters["tied_transitions"], K),
            _tied_emissions(parameters["tied_emissions"], K),
            _prior("start_prior", parameters["start_prior"], (K,)),
            _prior("transitions_prior", parameters["transitions_prior"], (K, K)),
            durations_of(parameters["durations"]),
            parameters["n_jobs"],
        )

    def model(self, X, weights=None, begun: FittedSequences | None = None):
        """Return the model of sequences, without a start.

        Durations are as long as those of a fit with which it begins, and covariates
        are centred as there.
        """
        longest = None if self.durations is None else self.durations.rows(X)
        centre = None
        if begun is not None:
            longest, centre = begun.longest, begun.centre
        n_rows = float(X.n_rows if weights is None else weights @ X.row_counts)
        mass = float(len(X) if weights is None else weights.sum())
        chain = self.chain(1.0 / n_rows, longest, scale_of(X, centre))
        return self._model(chain, rows_per_sequence=n_rows / mass)

    def fitted(
        self, start, transitions, emission, durations, coefficients, centre
    ) -> FittedSequences:
        """Return the model with fitted attributes; the last three may have no entry."""
        longest, scale, extra = None, None, None
        if self.durations is not None:
            longest, extra = durations.shape[1], durations
        if len(centre):
            scale, extra = CovariateScale.known(centre), coefficients
        chain = self.chain(0.0, longest, scale)
        probabilities = chain.params_of(start, transitions, extra)
        params = HiddenMarkovParams(probabilities, emission)
        return FittedSequences(self._model(chain, params), params)

    def _model(self, chain, start=None, rows_per_sequence=1.0) -> SequenceModel:
        is_fixed = "emission" in self.fixed
        held = tuple(name for name in self.emission.separate if name in self.fixed)
        options = self.tied_emissions, is_fixed, () if is_fixed else held, self.n_jobs
        return SequenceModel(chain, self.emission, start, rows_per_sequence, *options)

    def chain(self, prior_share, longest=None, scale=None) -> Chain:
        """Return the chain of the states.

        ``longest`` is the longest duration, None of states without explicit durations,
        and ``scale`` that of covariates, None without any.
        """
        priors = self.start_prior, self.transitions_prior, prior_share
        parts = (self.n_states, self.fixed, self.tied_transitions, *priors)
        emission, memory = self.emission, self.emission.memory
        is_plain = self.durations is scale is None
        is_stationary = self.start == "stationary"
        if is_stationary:
            self._check_stationary(is_plain)
        if np.min(self.transitions_prior) < 1 and (is_stationary or scale is not None):
            raise ValueError(
                "transitions_prior below 1 takes transitions out, for which it needs "
                "start='free' and no covariates"
            )
        if memory and not (is_plain and self.tied_emissions is None):
            raise ValueError(
                f"{type(emission).__name__} depends on histories of states, for which "
                "there are no durations, covariates or tied_emissions: "
                "emissions.Regression has these"
            )
        if self.durations is None:
            if "durations" in self.fixed:
                raise ValueError(
                    "fixed has 'durations', of which durations=None has none"
                )
            if scale is not None:
                return LogitChain(*parts, scale=scale)
            if memory:
                return HistoryChain(*parts, is_stationary, memory=memory)
            return Chain(*parts, is_stationary)
        if scale is not None:
            raise ValueError(
                "covariates need durations=None: they say which state follows in each "
                "row"
            )
        if self.tied_transitions is not None:
            raise ValueError(
                "tied_transitions needs durations=None: states with durations do not "
                "follow themselves, so that no two are left in the same way"
            )
        return SegmentChain(*parts, durations=self.durations, longest=longest)

    def _check_stationary(self, is_plain):
        """Raise if the start cannot follow from the transitions."""
        has_prior = (np.asarray(self.start_prior) != 1.0).any()
        if "start" in self.fixed or self.given.start is not None or has_prior:
            raise ValueError(
                "start='stationary' follows from the transitions: it needs "
                "start_init=None and start_prior=1, and fixed without 'start'"
            )
        if not is_plain:
            raise ValueError(
                "start='stationary' needs durations=None and no covariates, with which "
                "no distribution of the states stays as it is"
            )


def _tied_transitions(tied, K):
    """Return which states are left alike, None where none are."""
    if tied is not None and np.shape(tied) != (K,):
        raise ValueError(f"tied_transitions must have the shape {(K,)}")
    return None if tied is None else np.asarray(tied)


def _tied_emissions(tied, K):
    """Return which emission each state has, None where each has its own."""
    if tied is None:
        return None
    values = np.asarray(tied)
    whole = values.shape == (K,)
    if not whole or not np.array_equal(np.unique(values), range(max(values) + 1)):
        raise ValueError(
            f"tied_emissions must have {K} integers that count from 0 without gaps, "
            f"got {tied!r}"
        )
    return values


def _prior(name, given, shape):
    """Return positive concentrations, a number or one for each probability."""
    value = np.asarray(given, dtype=np.float64)
    if value.shape not in ((), shape) or not (value > 0).all():
        raise ValueError(
            f"{name} must be positive, a number or of the shape {shape}; got {given!r}"
        )
    return float(value) if value.ndim == 0 else value
