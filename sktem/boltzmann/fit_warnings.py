"""Warnings of fits and streams of Boltzmann machines."""

from __future__ import annotations

from typing import NamedTuple

from sklearn.exceptions import ConvergenceWarning

from sktem.boltzmann.column_warnings import (
    warn_of_constants,
    warn_of_dependent,
    warn_of_tails,
)
from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning

__all__ = ["warn_of_events", "warn_of_fit", "warn_of_small_weights", "warn_of_stream"]


class MachineLimits(NamedTuple):
    """Thresholds of the warnings about a fit.

    Attributes
    ----------
    far, far_by_column : float
        How far below one normal density Gaussian units may end, as a share of what
        that is above independent columns, and in nats for each column.
    unlike : float
        Share of the possible gain over independent columns that a fit leaves where it
        has not found how columns depend on each other, if more than chance.
    dependent, large_gain : float
        Standard deviations from which on columns depend on each other by more than
        chance, and the gain of a row over independent columns that is in doubt
        elsewhere.
    weaker : float
        What part of a prior that holds back dependencies is worth a try.
    small_weight : float
        Mean weight of the rows below which they are hardly meant as numbers of rows.
    """

    far: float = 0.1
    far_by_column: float = 0.02
    unlike: float = 0.5
    dependent: float = 3.0
    large_gain: float = 0.5
    weaker: float = 0.05
    small_weight: float = 0.1


LIMITS = MachineLimits()


def warn_of_fit(settings, state, n_rows, X, units) -> None:
    """Warn of likelihoods that are too low or still rise, of chance, and of events."""
    if settings.tol is not None and settings.n_epochs:
        rounds, reference = state.rounds, state.rounds.reference
        best = rounds.best.value if settings.adaptive else rounds.seen
        chance = None
        if not reference.n_left_out:
            # The log-likelihood alone.
            best += settings.prior.value(settings.model, state.estimate)
            chance = _chance(settings, state, best, n_rows)
        _warn_of_likelihood(settings, state, best, chance)
        warn_of_tails(reference.base, best, X, units)
        warn_of_constants(X, units)
        warn_of_dependent(reference.largest - best, X, units)
        # Under a prior parameters gain less by chance, and real gains may be small:
        # there is a doubt where columns depend no more than by chance.
        large = best - reference.base > LIMITS.large_gain
        doubt = not settings.prior.strength or (large and _looks_independent(reference))
        if state.converged and chance is not None and doubt:
            warn_user(chance, FitWarning)
    warn_of_events(state.history.events)


def _chance(settings, state, best, n_rows):
    """Return the warning of gains by chance, or None.

    Of many rows, twice their gain has a mean of one for each parameter (Wilks 1938).
    """
    reference, n_visible = state.rounds.reference, settings.model.n_visible
    gain = n_rows * (best - reference.base)
    n_more = state.params.shape[0] - n_visible
    if n_visible < 64 and not settings.model.gaussian:
        # No distribution of binary units has more parameters.
        n_more = min(n_more, 2**n_visible - 1 - n_visible)
    # Where columns do not depend on each other, twice as much is in doubt.
    most = n_more if _looks_independent(reference) else n_more / 2
    if not 0 < gain < most:
        return None
    decay = settings.prior.strength
    stronger = (
        f"more weight_decay (now {decay:.1g})" if decay else "weight_decay='auto'"
    )
    return (
        f"On these {n_rows:.0f} rows the machine gains {gain:.3g} nats over "
        f"independent units, where {n_more} more parameters can gain about "
        f"{n_more / 2:.3g} by chance: new rows may be less likely than under "
        f"independent units. Compare the score of rows left out, and use {stronger}, "
        "fewer hidden units, or more rows."
    )


def _looks_independent(reference):
    """Return whether neither pairs nor triples of columns surely depend."""
    return reference.dependence < LIMITS.dependent and not reference.parities.columns


def _warn_of_likelihood(settings, state, best, chance):
    """Warn if the likelihood is too low, or still rises, which may be by chance."""
    rounds, reference = state.rounds, state.rounds.reference
    if reference.n_left_out and rounds.learns_nothing(best):
        warn_user(
            f"The {reference.n_left_out} rows that were left out of the fit are about "
            f"as likely under independent units ({reference.base:.4g} per row) as "
            f"after it ({best:.4g}): the columns do not depend on each other, or not "
            "in a way that was found. Try more hidden units, another random_state, or "
            "more rows.",
            FitWarning,
        )
    elif rounds.has_fallen(best):
        warn_user(
            f"The log-likelihood after the fit, {best:.4g} per row, is below "
            f"that of independent units, {reference.base:.4g}: {_reason(settings)}",
            FitWarning,
        )
    elif not state.converged and rounds.epochs_of(state) >= rounds.n_epochs:
        last = "round" if settings.adaptive else "half of the epochs"
        advice = "Increase max_iter, or tol to accept it."
        if chance is not None:
            advice = f"{advice} But more epochs may fit noise alone. {chance}"
        warn_user(
            f"The fit has not converged after {rounds.n_epochs} epochs: the last "
            f"{last} changed the log-likelihood{_of_rows(state)} by "
            f"{rounds.rise:.3g} per row and left it at {best:.4g} "
            f"({reference.base:.4g} for independent units). {advice}",
            ConvergenceWarning,
        )
    elif reference.normal is not None and reference.normal - best > max(
        LIMITS.far * (reference.normal - reference.base),
        LIMITS.far_by_column * settings.model.n_visible,
    ):
        warn_user(
            f"The log-likelihood after the fit, {best:.4g} per row, is below that "
            f"of one normal density with all covariances, {reference.normal:.4g}: "
            "few binary units are a poor model of strong linear correlations. Whiten "
            "the columns first, as PCA(whiten=True) does, or add hidden units.",
            FitWarning,
        )
    elif settings.model.n_hidden and _misses(best - reference.base, reference):
        warn_user(
            f"The log-likelihood after the fit, {best:.4g} per row, is below that of "
            f"the shares of the distinct rows, {reference.largest:.4g}, by more than "
            "chance: columns depend on each other in a way that was not found. Try "
            "more hidden units, or another random_state.",
            FitWarning,
        )
    elif reference.parities.columns and (
        best - reference.base < LIMITS.unlike * reference.parities.gain
    ):
        warn_user(_of_triples(settings, reference, best), FitWarning)


def _misses(gain, reference):
    """Return whether a fit is far below the joint distribution of the columns."""
    joint = reference.joint_gain
    return joint - gain > max(reference.by_chance, LIMITS.unlike * joint)


def _of_triples(settings, reference, best):
    """Return the message that columns which depend in threes were not found to."""
    parities, decay = reference.parities, settings.prior.strength
    weaker = ""
    if decay:
        weaker = f" a smaller weight_decay (such as {LIMITS.weaker * decay:.1g}),"
    first, second, third = parities.columns
    return (
        f"Columns {first}, {second} and {third} depend on each other, and maybe no two "
        f"of them do: an odd number of them is 1 in {parities.odd:.0%} of the rows. "
        "Such triples make rows more likely than independent columns do, by "
        f"{parities.gain:.3g} per row at least, and the fit by "
        f"{best - reference.base:.3g}: try{weaker} more hidden units, another "
        "random_state or more rows."
    )


def _of_rows(state):
    """Return which rows a log-likelihood is of, where it is not of those learned."""
    n = state.rounds.reference.n_left_out
    return f" of {n} rows that were left out" if n else ""


def _reason(settings):
    """Return the reason of a fit below independent units, and advice."""
    if not settings.adaptive:
        return (
            "the steps are too long. Decrease step_size_m or momentum, or leave both "
            "at 'auto'."
        )
    return (
        "nothing was learned of how columns depend on each other. Take more hidden "
        "units or another random_state. With missing values and several layers the "
        "likelihood is that of a bound: fit the complete rows first, and go on with "
        "all of them by warm_start=True."
    )


def warn_of_events(events) -> None:
    """Warn if parameters have run away."""
    if events["diverged"]:
        warn_user(
            f"The parameters ran away {events['diverged']} times and were held at "
            "+-1000 (see history_.events): the steps are too long. Decrease "
            "step_size_m.",
            FitWarning,
        )


def warn_of_stream(stream) -> None:
    """Warn once of a stream that is likely to end below a fit to some of its rows."""
    if stream.warned or not (
        stream.is_ordered or stream.stays_in_modes or stream.is_slow
    ):
        return
    stream.warned = True
    if stream.is_ordered:
        problem = (
            "rows come in an order, as sorted ones do: their batches differ by more "
            "than chance, and the machine forgets those of before. Shuffle the rows, "
            "and compare"
        )
    elif not stream.is_slow:
        problem = (
            "the chains of the model stay in one of several modes, as clusters of rows "
            "are, and may teach wrong shares of them. With more temperatures, such as "
            "n_replicas=10, they change modes. Compare"
        )
    else:
        problem = (
            "real-valued columns may still be far from what a fit finds, for it "
            "takes neither ascents nor rounds. Begin by fit to the first rows, some "
            "thousand if there are, and compare"
        )
    warn_user(
        f"After {stream.n_batches} batches of the stream, {problem} the score of rows "
        "left out with that after fit to some thousand rows.",
        FitWarning,
    )


def warn_of_small_weights(n_rows, mass) -> None:
    """Warn if weights, such as shares, make many rows count as few to the prior."""
    if n_rows > 1 and mass < LIMITS.small_weight * n_rows:
        warn_user(
            f"The weights of {n_rows} rows add up to {mass:.3g}, which counts as the "
            "number of rows for the prior of the machine's weights and may hold these "
            "back too much. Pass weights that are about 1 on average, or a number as "
            f"weight_decay (such as {1 / n_rows:.1g}, one over the rows).",
            FitWarning,
        )
