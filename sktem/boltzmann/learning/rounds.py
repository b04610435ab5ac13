"""Rounds of a contrastive run: how long they are, and when the run stops.

A run with adapted steps is made of rounds, each several times as long as the
one before and each with steps that fall from the first to the last. What a round adds
to the log-likelihood says what a longer run would do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sktem.arrays import arrays_of
from sktem.boltzmann.learning.parities import Parities
from sktem.boltzmann.learning.tempering import correlation_of_chains, cost_of_replicas

__all__ = ["Measure", "Reference", "RoundPolicy", "Rounds", "round_ends"]


class RoundPolicy(NamedTuple):
    """Growth of rounds, stopping criteria and second attempts of a run.

    Attributes
    ----------
    first_updates : int
        Updates of the first round.
    growth, growth_with_ascents : int
        How many times as long as the one before a round is: where the steps are all
        there is, and where it ends with an ascent along the exact gradient.
    fewest, fewest_exact : int
        Fewest updates after which a run may stop: where the likelihood is estimated,
        and where it is exact. None are asked for where there are ascents.
    small_rise : float
        A rise of the log-likelihood that is not worth a longer run, as a share of the
        tolerance and in nats per visible unit.
    shorter : float
        Factor of the adapted steps after a round that has lost likelihood.
    shortest_way : float
        Sum of given steps below which a run is never called converged: the gradient of
        a weight is at most a sixteenth of its distance from the maximum.
    further, fewest_at_start : tuple of float, int
        Sizes of the weights of further starts, that of the first being 0.5, and the
        updates by which the first one should have learned something.
    arrived, to_the_maximum : float, int
        Rise of the log-likelihood of a row by an ascent that has arrived at the maximum
        of a concave one, and transitions of the chains from fair coins to there.
    transitions, most_transitions, share_of_round : int, int, float
        Transitions of the chains of the model by which their mixing is judged: at least
        and at most, and as a share of those of the round that has ended.
    stuck : float
        Correlation of chains with themselves that many transitions ago from which on
        they do not mix.
    n_replicas, most_replicas : int
        Temperatures that chains which do not mix get, at first and at most.
    tempered : int
        Transitions of an update where chains have replicas because they need them:
        swaps bring them further than more transitions.
    fewest_swaps : float
        Share of swaps between neighbours below which there are too few temperatures.
    left_out, fewest_rows : float, int
        Share of the rows that is left out of the learning and judges the rounds, where
        there are at least as many rows and no ascents.
    """

    first_updates: int = 250
    growth: int = 3
    growth_with_ascents: int = 2
    fewest: int = 3000
    fewest_exact: int = 1500
    small_rise: float = 0.01
    shorter: float = 0.3
    shortest_way: float = 16.0
    further: tuple[float, ...] = (4.0, 16.0)
    fewest_at_start: int = 900
    arrived: float = 1e-7
    to_the_maximum: int = 1000
    transitions: int = 200
    most_transitions: int = 1000
    share_of_round: float = 0.1
    stuck: float = 0.1
    n_replicas: int = 5
    most_replicas: int = 20
    tempered: int = 2
    fewest_swaps: float = 0.1
    left_out: float = 0.1
    fewest_rows: int = 500


class Measure(NamedTuple):
    """A log-likelihood that was measured in a run.

    Attributes
    ----------
    n_updates : int
        Updates so far.
    value, error : float
        Mean log-likelihood per row, and the standard error of its normalisation.
    by_row : ndarray or None, default=None
        The log-likelihoods of the rows, where these are a sample.
    learned : float, default=nan
        The mean log-likelihood of rows that are learned from, where others are left
        out.
    """

    n_updates: int
    value: float
    error: float
    by_row: np.ndarray | None = None
    learned: float = float("nan")

    def error_of_change(self, other) -> float:
        """Return the standard error of the change from another measure."""
        error = float(np.hypot(self.error, other.error))
        if self.by_row is None or other.by_row is None or len(self.by_row) < 2:
            return error
        change = self.by_row - other.by_row
        return float(np.hypot(error, np.std(change, ddof=1) / len(change) ** 0.5))


class Reference(NamedTuple):
    """Reference values for the log-likelihoods of a fit, see `Objective`.

    Attributes
    ----------
    base : float, default=nan
        Mean log-likelihood of independent units with the means of the columns.
    normal : float or None, default=None
        That of one normal density with all covariances, if the units are Gaussian and
        the rows are enough for it.
    dependence : float, default=nan
        How many standard deviations the sum of the squared correlations of columns is
        above that of independent ones; NaN where it is not known.
    largest : float, default=inf
        The mean log-likelihood of the rows under their own distribution.
    joint_gain : float, default=inf
        What that is above the log-likelihood of columns with their own shares.
    by_chance : float, default=inf
        By how much that is hardly ever above the truth; inf where rows are few.
    parities : Parities, default=Parities()
        What triples of columns gain over independent ones by their parities.
    n_left_out : int, default=0
        Rows that are measured and not learned from.
    tol : float, default=0
        Tolerance of the fit.
    n_visible : int, default=1
        Visible units.
    """

    base: float = float("nan")
    normal: float | None = None
    dependence: float = float("nan")
    largest: float = float("inf")
    joint_gain: float = float("inf")
    by_chance: float = float("inf")
    parities: Parities = Parities()
    n_left_out: int = 0
    tol: float = 0.0
    n_visible: int = 1


class Best(NamedTuple):
    """The best log-likelihood of a run, its parameters, and the chains of the model."""

    value: float
    params: Any
    chains: Any


def round_ends(
    n_epochs, n_updates, adaptive, ascends=False, policy=None, length=None
) -> list[int]:
    """Return the epochs at which rounds end, of `n_updates` each.

    Where updates are dear there may be few, and `length`, that of the first round in
    epochs or 0 for the usual one, is given: the last round is then not much longer than
    the one before.
    """
    if not adaptive:
        return [n_epochs]
    policy = policy or RoundPolicy()
    growth = policy.growth_with_ascents if ascends else policy.growth
    shortest = growth if length is None else 1
    length = length or max(1, round(policy.first_updates / n_updates))
    ends = [0]
    # The last round takes a rest that is too short for its own round.
    while n_epochs - ends[-1] >= (1 + shortest) * length:
        ends.append(ends[-1] + length)
        length *= growth
    return [*ends[1:], n_epochs] if n_epochs > ends[-1] else ends[1:]


@dataclass
class Rounds:
    """The measured log-likelihoods of a run, and the decisions that follow from them.

    Attributes
    ----------
    policy : RoundPolicy
        The rules.
    seed : int or None
        Seed of the measures of the log-likelihood.
    reference : Reference
        What the log-likelihood is compared with.
    epochs_before, updates_before : int
        Epochs and updates before this fit, of those that it continues.
    ends : list of int
        Epochs of this fit at which its rounds end.
    update_budget : float
        Updates without replicas that the epochs which are left may cost.
    step_fraction : float
        How far the steps are on the way from their first value to their last.
    run_fraction : float
        How much of the run is over, counting the epoch to come.
    measures : list of Measure
        Log-likelihoods at the start of this fit and at the ends of its rounds.
    best : Best or None
        The best of them.
    shortened : float
        Factor of the adapted steps.
    total_step : float
        Sum of the given steps.
    started_further : bool
        Whether this fit has started anew from larger weights.
    n_replicas : int
        Temperatures of the chains of the model.
    correlation : float
        Of the chains of the model with themselves, see `RoundPolicy`.
    converged : bool
        Whether the last round has added too little for another one.
    """

    policy: RoundPolicy = field(default_factory=RoundPolicy)
    seed: int | None = None
    reference: Reference = field(default_factory=Reference)
    epochs_before: int = 0
    updates_before: int = 0
    ends: list[int] = field(default_factory=list)
    update_budget: float = float("inf")
    step_fraction: float = 0.0
    run_fraction: float = 1.0
    measures: list[Measure] = field(default_factory=list)
    best: Any = None
    shortened: float = 1.0
    total_step: float = 0.0
    started_further: bool = False
    n_replicas: int = 1
    correlation: float = float("nan")
    converged: bool = False

    def begin(self, settings, n_updates, ascends, watch) -> None:
        """Lay out the rounds of a fit with as many updates in an epoch.

        A fit that is resumed has its rounds, which may have been laid out anew since.
        """
        if self.ends:
            return
        if settings.n_replicas is not None:
            self.n_replicas = settings.n_replicas
        n_epochs = settings.n_epochs
        if settings.by_cost:
            self.update_budget = float(n_epochs * n_updates)
            n_epochs = self._affordable(settings, 0, n_updates)
        length = None if n_epochs == settings.n_epochs else 0
        self.ends = round_ends(
            n_epochs, n_updates, settings.adaptive, ascends, self.policy, length
        )
        if watch is not None:
            self.reference = watch.reference

    def restarted(self, state) -> Rounds:
        """Return the first record of a fit or a stream that continues this one."""
        return Rounds(
            self.policy, seed=self.seed, shortened=self.shortened,
            n_replicas=self.n_replicas, correlation=self.correlation,
            epochs_before=state.epoch, updates_before=state.n_updates,
            step_fraction=1.0,
        )  # fmt: skip

    def epochs_of(self, state) -> int:
        """Return the epochs of this fit."""
        return state.epoch - self.epochs_before

    @property
    def n_epochs(self) -> int:
        """The epochs of this fit, at most."""
        return self.ends[-1] if self.ends else 0

    def of_epoch(self, epoch) -> tuple[int, int]:
        """Return the first epoch of the round of an epoch, and that after its last."""
        index = next(k for k, end in enumerate(self.ends) if epoch < end)
        return (self.ends[index - 1] if index else 0), self.ends[index]

    @property
    def seen(self) -> float:
        """The log-likelihood when it was last measured."""
        return self.measures[-1].value if self.measures else float("nan")

    @property
    def rise(self) -> float:
        """The gain of the last round over the best likelihood before it."""
        return self.seen - self._best_before.value

    @property
    def _best_before(self) -> Measure:
        """The largest measure before the last one."""
        return max(self.measures[:-1], key=lambda measure: measure.value)

    @property
    def _least_rise(self) -> float:
        """The rise of the log-likelihood that counts as none."""
        return self.policy.small_rise * self.reference.n_visible

    @property
    def least_change(self) -> float:
        """The change that is not worth a longer run, or is within the errors."""
        error = self.measures[-1].error_of_change(self._best_before)
        gain = max(measure.value for measure in self.measures) - self.reference.base
        return self.reference.tol * max(gain, self._least_rise) + error

    def has_fallen(self, value) -> bool:
        """Return whether a log-likelihood is below that of independent units."""
        base, tol = self.reference.base, self.reference.tol
        return not value >= base - tol * self._least_rise

    @property
    def has_settled(self) -> bool:
        """Whether the last round has added too little for another one."""
        if len(self.measures) < 3 or (
            self.has_fallen(self.seen) and not self._has_tried_twice
        ):
            return False
        rise, least = self.rise * self._usual_share, self.least_change
        if not self.reference.n_left_out:
            return abs(rise) <= least
        # Rows that are left out become less likely where nothing more is learned, but
        # those that are learned from do not.
        fall = self._best_before.learned - self.measures[-1].learned
        return rise <= least and not fall > least

    @property
    def _usual_share(self) -> float:
        """Share of the last rise that a round of the usual length would have made.

        Likelihoods rise about with the logarithm of the number of updates, and the last
        round also takes a rest that is too short for a round of its own.
        """
        updates = sorted({measure.n_updates for measure in self.measures})
        if len(updates) < 3:
            return 1.0
        first, second, last = updates[-3:]
        usual = second + self.policy.growth * (second - first)
        return min(float(np.log(usual / second) / np.log(last / second)), 1.0)

    @property
    def _has_tried_twice(self) -> bool:
        """Whether rows that are left out gain nothing after a second start either."""
        tried = self.started_further and len(self.measures) > 3
        least = self.reference.base - self.least_change
        return tried and self.reference.n_left_out > 0 and self.best.value >= least

    @property
    def is_worse(self) -> bool:
        """Whether the last round has lost likelihood."""
        return not self.rise >= -self.least_change  # so written that NaN is worse

    def learns_nothing(self, value) -> bool:
        """Return whether a log-likelihood is about that of independent units."""
        return value - self.reference.base < self._least_rise

    @property
    def has_learned_nothing(self) -> bool:
        """Whether all log-likelihoods are about that of independent units."""
        return self.learns_nothing(max(measure.value for measure in self.measures))

    def measure(self, state, watch, value=None) -> None:
        """Measure the log-likelihood, or take it, and keep the best parameters."""
        error, by_row, learned = 0.0, None, float("nan")
        n_updates = state.n_updates - self.updates_before
        if value is None:
            since = self.measures[-1].n_updates if self.measures else 0
            value, error = watch.measure(
                state.estimate, state.n_updates, n_updates - since, state.chains
            )
            by_row, learned = watch.by_row, watch.of_learned
        self.measures.append(Measure(n_updates, value, error, by_row, learned))
        if self.best is None or value > self.best.value:
            copy = arrays_of(state.params).copy
            chains = None if state.chains is None else copy(state.chains)
            self.best = Best(value, copy(state.params), chains)

    def close_ascent(self, state, watch) -> None:
        """Measure after an ascent of a concave likelihood; decide whether to go on."""
        self.measure(state, watch)
        self.converged = self.rise <= self.policy.arrived

    def close_epoch(self, settings, state, watch) -> None:
        """Measure where a round ends, and decide whether there is another one."""
        epoch = self.epochs_of(state)
        at_end = epoch in self.ends
        # With given steps the middle of the run is a measure of what its length is
        # worth.
        if at_end or (not settings.adaptive and epoch == settings.n_epochs // 2):
            self._climb_and_measure(state, watch)
        if not at_end:
            return
        is_last = epoch == self.n_epochs
        if watch.ascent is not None and self.is_worse:
            # The round has led away from a summit; whether it is one is seen there.
            self._go_back(state)
            self._climb_and_measure(state, watch)
        self.converged = self.has_settled and not self._is_early(settings, watch)
        self._look_at_chains(settings, state, watch)
        if not settings.adaptive:
            return
        n_updates, fewest = self.measures[-1].n_updates, self.policy.fewest_at_start
        at_rest = self.converged or (self.has_learned_nothing and n_updates >= fewest)
        if at_rest and not is_last and self._starts_further(settings, state, watch):
            self.converged = False
        elif self.is_worse:
            # The steps were too long: the next round is from the best one.
            self._go_back(state)
        elif self.converged or is_last:
            state.move_to(self.best.params, self.best.chains)

    def _is_early(self, settings, watch):
        """Return whether a run is too short to be called converged."""
        if not settings.adaptive:
            return self.total_step < self.policy.shortest_way
        fewest = self.policy.fewest_exact if watch.is_exact else self.policy.fewest
        few = self.measures[-1].n_updates < fewest
        biased = self.run_fraction < settings.posterior.unbiased_from
        return watch.ascent is None and (few or biased)

    def _go_back(self, state):
        """Return to the best parameters, for shorter steps."""
        self.shortened *= self.policy.shorter
        state.move_to(self.best.params, self.best.chains)

    def _climb_and_measure(self, state, watch):
        """Climb where there are ascents, and measure the log-likelihood."""
        if watch.ascent is not None:
            state.move_to(watch.ascent.climb(state.params))
        self.measure(state, watch)

    def _look_at_chains(self, settings, state, watch):
        """Add temperatures to chains of the model that do not mix."""
        policy, model = self.policy, settings.model
        if watch.ascent is not None or state.chains is None:
            return
        epoch = self.epochs_of(state)
        begin, _ = self.of_epoch(epoch - 1)
        n_updates = self.measures[-1].n_updates * (epoch - begin) / epoch
        self.update_budget -= n_updates * self._cost(settings, self.n_replicas)
        if state.replicas is None:
            rng = np.random.default_rng([self.seed, state.n_updates, 2])
            transitions = int(policy.share_of_round * n_updates * settings.n_gibbs_m)
            self.correlation = correlation_of_chains(
                model, state.params, state.chains,
                min(max(transitions, policy.transitions), policy.most_transitions), rng,
            )  # fmt: skip
            # Written so that NaN mixes, as chains that are all the same.
            few, more = self.correlation > policy.stuck, policy.n_replicas
        else:
            few = state.replicas.least_swapped < policy.fewest_swaps
            more = min(2 * self.n_replicas, policy.most_replicas)
            state.replicas.forget_swaps()
        if not few or settings.n_replicas is not None or more <= self.n_replicas:
            return
        is_last = epoch == self.n_epochs
        if is_last and state.replicas is not None:
            return  # draws of the fitted machine have the temperatures of the fit
        self.n_replicas, self.converged = more, False
        if settings.by_cost and not is_last:
            in_epoch = self.measures[-1].n_updates / epoch
            left = self._affordable(settings, epoch, in_epoch)
            self._plan_rest(epoch, left, policy.growth * (epoch - begin))

    def _cost(self, settings, n_replicas):
        """Return the cost of an update relative to one without replicas."""
        n_sweeps = settings.n_gibbs_m
        if settings.n_replicas is None:
            n_sweeps = min(n_sweeps, self.policy.tempered)
        return cost_of_replicas(n_replicas, n_sweeps / settings.n_gibbs_m)

    def _affordable(self, settings, epoch, n_updates):
        """Return the affordable epochs of `n_updates` at the present cost of each."""
        left = self.update_budget / self._cost(settings, self.n_replicas)
        left = max(left, self.policy.fewest - epoch * n_updates)
        return max(min(round(left / n_updates), settings.n_epochs - epoch), 1)

    def _plan_rest(self, epoch, n_epochs, length=None):
        """Lay out the epochs after one, see `round_ends`."""
        n_updates = self.measures[-1].n_updates / epoch
        ends = round_ends(n_epochs, n_updates, True, False, self.policy, length)
        ended = [end for end in self.ends if end <= epoch]
        self.ends = ended + [epoch + end for end in ends]

    def _starts_further(self, settings, state, watch) -> bool:
        """Start anew from larger weights if that may be better; return whether so.

        Where units are independent the gradient vanishes, up to the third order of the
        weights, if no two columns are dependent, though three may be, or single ones
        have several modes. Ascents, where they are, show whether there is a higher
        maximum.
        """
        if self.started_further:
            return False
        self.started_further = True
        logits, rng = watch.units.logits, state.generators.initialisation
        further = self.policy.further
        if watch.ascent is None:
            if not self.has_learned_nothing:
                return False
            state.move_to(watch.model.initial_params(logits, rng, further[0]))
            self._begin_again(state, watch)
            return True
        starts = [
            watch.model.initial_params(logits, rng, further[k % len(further)])
            for k in range(watch.ascent.n_starts)
        ]
        tops = [watch.ascent.climb(start) for start in starts]
        values = [watch.measure(top, state.n_updates)[0] for top in tops]
        best = int(np.argmax(values))
        if not values[best] > max(m.value for m in self.measures) + self.least_change:
            return False
        state.move_to(tops[best])
        return True

    def _begin_again(self, state, watch):
        """Lay out the epochs that are left, for a start that has lost likelihood."""
        epoch = self.epochs_of(state)
        self._plan_rest(epoch, self.n_epochs - epoch)
        self.measures.clear()
        self.shortened = 1.0
        self.measure(state, watch)
