"""Rounds of a contrastive run: how long they are, and whether they have converged.

A run with adapted steps is made of rounds, each several times as long as the
one before and each with steps that fall from the first to the last. What a round adds
to the log-likelihood says what a longer run would do.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "Measure",
    "has_converged",
    "has_fallen",
    "has_learned_nothing",
    "is_worse",
    "rise",
    "round_ends",
]

#: How many times as long as the one before a round is: where it ends with an ascent
#: along the exact gradient, and where the steps are all there is.
GROWTH = {True: 2, False: 3}
#: Updates of the first round, and the fewest after which a run may stop: where the
#: likelihood is exact, and where it is estimated.
FIRST_UPDATES = 250
FEWEST_UPDATES = {True: 1500, False: 3000}
#: A rise of the log-likelihood that is not worth a longer run, as a share of the
#: tolerance and in nats per visible unit.
SMALL_RISE = 0.01


@dataclass(frozen=True)
class Measure:
    """A log-likelihood that was measured in a run.

    Attributes
    ----------
    n_updates : int
        Updates so far.
    value, error : float
        Mean log-likelihood per row, and the standard error of its normalisation.
    """

    n_updates: int
    value: float
    error: float


def round_ends(n_epochs, n_updates, adaptive, ascends=False) -> list[int]:
    """Return the epochs at which rounds end."""
    if not adaptive:
        return [n_epochs]
    length, growth = max(1, round(FIRST_UPDATES / n_updates)), GROWTH[ascends]
    ends = [0]
    # The last round takes a rest that is too short for its own round.
    while n_epochs - ends[-1] >= (1 + growth) * length:
        ends.append(ends[-1] + length)
        length *= growth
    return [*ends[1:], n_epochs] if n_epochs > ends[-1] else ends[1:]


def has_converged(measures, base, tol, n_visible) -> bool:
    """Return whether the last round has added too little for another one."""
    if len(measures) < 3 or has_fallen(measures[-1].value, base, tol, n_visible):
        return False
    return abs(rise(measures)) <= _small(measures, base, tol, n_visible)


def is_worse(measures, base, tol, n_visible) -> bool:
    """Return whether the last round has lost likelihood, see `has_converged`."""
    # Written so that NaN is worse.
    return not rise(measures) >= -_small(measures, base, tol, n_visible)


def rise(measures) -> float:
    """Return the gain of the last round over the best likelihood before it."""
    return measures[-1].value - max(measure.value for measure in measures[:-1])


def has_learned_nothing(measures, base, n_visible) -> bool:
    """Return whether the likelihood is still about that of independent units."""
    return _gain(measures, base) < SMALL_RISE * n_visible


def _small(measures, base, tol, n_visible):
    """Return the rise that is not worth a longer run."""
    return tol * max(_gain(measures, base), SMALL_RISE * n_visible)


def _gain(measures, base):
    """Return the largest gain over independent units."""
    return max(measure.value for measure in measures) - base


def has_fallen(value, base, tol, n_visible) -> bool:
    """Return whether a log-likelihood is below that of independent units."""
    return not value >= base - tol * SMALL_RISE * n_visible
