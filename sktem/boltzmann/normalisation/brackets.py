"""Brackets of log Z: importance sampling annealed from both ends.

Runs from independent units to the machine estimate Z, mostly too low where they are
short; runs the other way, from states of the machine, estimate 1 / Z, so that their
value is mostly too high. Both together give the estimate of least variance (Bennett
1976), and they disagree where the runs are too short. They also do where the states
that the latter began with are not those of the machine: if all are from a part A of
its states, the reverse value is off by the logarithm of P(A) over the share of the
forward runs that end there. The sum over the states that the chains are in is a bound
that needs no run: where nearly all of Z is in narrow modes that forward runs miss, it
is nearly all of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logsumexp

from sktem.arrays import arrays_of
from sktem.boltzmann.normalisation.ais import (
    AISResult,
    anneal,
    estimate_of,
    inverse_temperatures,
)
from sktem.boltzmann.normalisation.annealing_paths import new_path
from sktem.progress import counted

__all__ = ["PartitionBracket", "bracket_log_partition", "log_sum_over", "shifted"]

LABEL = "Temperatures of reverse annealed importance sampling"


class BracketRule(NamedTuple):
    """Disagreements by which a bracket is in doubt.

    Attributes
    ----------
    margin : float
        Standard errors between an estimate and its end of a bracket.
    disagreement : float
        Standard errors between two estimates that disagree.
    beyond : float
        Standard errors of the nearer end by which an estimate is beyond both of them.
    trusted_share : float
        Effective sample size, as a share of the runs, below which an end is not
        trusted.
    """

    margin: float = 2.0
    disagreement: float = 3.0
    beyond: float = 1.0
    trusted_share: float = 0.25


@dataclass(frozen=True)
class PartitionBracket:
    """Estimates of log Z from both ends.

    Attributes
    ----------
    value, standard_error : float
        Bennett's estimate from both, and its error. If the states of the machine do not
        cover all of its parts, those of the forward estimate.
    forward, reverse : AISResult
        The estimates from independent units and from states of the machine.
    least : float, default=-inf
        The logarithm of the sum over these states. No value is below it by more than
        two standard errors.
    """

    value: float
    standard_error: float
    forward: AISResult
    reverse: AISResult
    least: float = float("-inf")
    rule: ClassVar[BracketRule] = BracketRule()

    @property
    def _crossed(self) -> bool:
        """Whether the reverse estimate is the lower one, beyond both errors."""
        margin = self.rule.margin
        return _bound(self.reverse, margin) < _bound(self.forward, -margin)

    @property
    def lower(self) -> float:
        """The forward estimate less two standard errors; the lower end if crossed."""
        end = self.reverse if self._crossed else self.forward
        return min(max(_bound(end, -self.rule.margin), self.least), self.value)

    @property
    def upper(self) -> float:
        """The reverse estimate plus two standard errors; the upper end if crossed."""
        end = self.forward if self._crossed else self.reverse
        return max(_bound(end, self.rule.margin), self.value)

    @property
    def effective_sample_size(self) -> float:
        """The smaller of the two."""
        sizes = self.forward.effective_sample_size, self.reverse.effective_sample_size
        return min(sizes)

    @property
    def n_runs(self) -> int:
        """Number of runs from each end."""
        return self.forward.n_runs

    @property
    def n_temperatures(self) -> int:
        """Number of steps of each run."""
        return self.forward.n_temperatures

    @property
    def _gap(self) -> float:
        """Distance between both ends in standard errors."""
        forward, reverse = self.forward, self.reverse
        error = np.hypot(forward.standard_error, reverse.standard_error)
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.float64(reverse.value - forward.value) / error)

    @property
    def _chains_have_missed(self) -> bool:
        """Whether forward runs that can be trusted find more than the reverse ones."""
        trusted = self.rule.trusted_share * self.n_runs
        sure = self.forward.effective_sample_size >= trusted
        return sure and self._gap < -self.rule.disagreement

    @property
    def _stands_apart(self) -> bool:
        """Whether the estimate from both ends lies beyond both of them.

        Where runs and chains have been in the same parts of the states it is between
        the ends, or as near to one of them as its error.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            near, far = sorted(
                np.float64(self.value - end.value) / end.standard_error
                for end in (self.forward, self.reverse)
            )
        if far < 0:
            near, far = -far, -near
        return bool(near > self.rule.beyond and far > self.rule.disagreement)

    @property
    def doubt(self) -> str:
        """Reason not to trust the estimate; empty if there is none."""
        if self.least >= max(self.value, _bound(self.forward, self.rule.disagreement)):
            return (
                "the runs have missed states that chains of the machine are in, which "
                f"alone have {self.least:.6g}; increase n_temperatures"
            )
        if self._chains_have_missed:
            return (
                "the chains that reverse runs began with have missed a part of the "
                "states, as chains do that stay in one mode; trust the forward estimate"
            )
        if self._stands_apart or not self._gap <= self.rule.disagreement:
            return (
                "the runs are too short (increase n_temperatures), or the chains that "
                "reverse runs began with have missed a part of the states"
            )
        if self.effective_sample_size < self.rule.trusted_share * self.n_runs:
            return "the runs are too short; increase n_temperatures"
        if self._crossed:
            return "the ends are on the wrong sides; increase n_temperatures or n_runs"
        return ""


def shifted(estimate, constant):
    """Return an estimate or a bracket of log Z plus a constant."""
    changes = {"value": estimate.value + constant}
    if isinstance(estimate, PartitionBracket):
        for name in ("forward", "reverse"):
            changes[name] = shifted(getattr(estimate, name), constant)
        changes["least"] = estimate.least + constant
    return replace(estimate, **changes)


def _bound(estimate, margin):
    """Return an estimate plus some standard errors."""
    return estimate.value + margin * estimate.standard_error


def bracket_log_partition(
    model,
    params,
    chains,
    rng,
    n_runs=100,
    n_temperatures=1000,
    schedule="adaptive",
    *,
    verbose=0,
):
    """Estimate log Z of a Boltzmann machine from both ends.

    Parameters
    ----------
    model : BoltzmannModel
        The machine.
    params : ndarray of shape (n_parameters,)
        Its parameters.
    chains : ndarray
        Chains of the model, as close to independent draws from it as possible; one for
        each reverse run.
    rng : numpy.random.Generator
        Source of randomness.
    n_runs : int, default=100
        Number of forward runs.
    n_temperatures : int, default=1000
        Number of steps of each run.
    schedule : {"adaptive", "linear"} or array-like, default="adaptive"
        Spacing of the inverse temperatures; an array holds them, rising from 0 to 1.
    verbose : int, default=0
        Whether to print the progress of the runs.

    Returns
    -------
    PartitionBracket
        Both estimates, and one from both.

    References
    ----------
    C. H. Bennett, Efficient estimation of free energy differences from Monte Carlo
    data, Journal of Computational Physics, 1976.

    R. B. Grosse, S. Ancha and D. M. Roy, Measuring the reliability of MCMC inference
    with bidirectional Monte Carlo, 2016.
    """
    path = new_path(model, params, rng)
    betas = inverse_temperatures(path, schedule, n_temperatures, rng)
    steps = len(betas) - 1
    there = anneal(path, betas, n_runs, rng, verbose)
    back = _anneal_back(path, betas, chains, rng, verbose)
    forward, reverse = estimate_of(there, steps), estimate_of(-back, steps)
    reverse = replace(reverse, value=-reverse.value)
    numpy = arrays_of(there).to_numpy
    value, error = _bennett(numpy(there), numpy(back))
    bracket = PartitionBracket(
        value, error, forward, reverse, log_sum_over(model, params, chains)
    )
    if bracket._chains_have_missed:
        value, error = forward.value, forward.standard_error
    if bracket.least > value + bracket.rule.margin * error:
        value, error = bracket.least, max(error, bracket.least - value)
    return replace(bracket, value=value, standard_error=error)


def log_sum_over(model, params, chains) -> float:
    """Return the log of a part of Z: the sum over the states that chains are in."""
    if not arrays_of(params).is_numpy:
        return float("-inf")
    states = model.unpack(np.unique(model.pack(chains), axis=0))
    return float(logsumexp(model.log_densities(params, states)))


def _anneal_back(path, betas, chains, rng, verbose):
    """Return the log-weights whose negatives, exponentiated, average to 1 / Z."""
    log_weights = path.start_at_end(chains, rng)
    steps = list(pairwise(betas.tolist()[::-1]))
    for beta, following in counted(steps, LABEL, verbose):
        log_weights -= path.change(beta, following)
        if following > 0.0:
            path.move_back(following, rng)
    return log_weights


def _bennett(there, back):
    """Return the log Z that separates both kinds of runs best, and its error.

    The density of a reverse run is that of a forward one times its weight over Z, so
    that log Z is the intercept of a logistic regression with slope 1.
    """
    shift = np.log(len(back) / len(there))

    def excess(log_partition):
        forward = expit(shift + there - log_partition).sum()
        return forward - expit(-(shift + back - log_partition)).sum()

    ends = np.concatenate([there, back])
    width = 10.0 + np.ptp(ends)
    value = brentq(excess, ends.min() - width, ends.max() + width)
    share = expit(shift + ends - value)
    information = np.sum(share * (1.0 - share))
    with np.errstate(divide="ignore"):
        variance = 1.0 / information - 1.0 / len(there) - 1.0 / len(back)
    return float(value), float(np.sqrt(max(variance, 0.0)))
