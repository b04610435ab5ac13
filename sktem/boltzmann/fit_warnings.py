"""Warnings of fits and streams of Boltzmann machines."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import yeojohnson_llf
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import PowerTransformer

from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning

__all__ = [
    "warn_of_codes",
    "warn_of_events",
    "warn_of_fit",
    "warn_of_one_hot",
    "warn_of_small_weights",
    "warn_of_stream",
]


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
    fewest_rows, enough_rows : int
        Rows from which on most of the columns, and a few of them, exclude each other
        hardly by chance.
    skewed : float
        Nats that a power transform of a column gains where it is skewed.
    skew_rows : int
        About how many rows of it are looked at.
    sizes : tuple of float
        Largest absolute values between which a power transform can be found.
    astray : float
        Standard deviations that no value lies away after a power transform.
    n_codes, rows_of_code : int
        Distinct whole numbers of a column that may be codes of labels, and rows of
        each.
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
    fewest_rows: int = 20
    enough_rows: int = 100
    skewed: float = 0.1
    skew_rows: int = 1000
    sizes: tuple[float, float] = (1e-50, 1e50)
    astray: float = 10.0
    n_codes: int = 10
    rows_of_code: int = 5
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
        _warn_of_tails(rounds, best, X, units)
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
    n_more = len(state.params) - n_visible
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


def _warn_of_tails(rounds, best, X, units):
    """Warn of values far out, or of columns that are better alone when transformed."""
    gains, astray = {}, {}
    least, most = LIMITS.sizes
    for name, column in _real_columns(X, units):
        values = column[:: max(-(-len(column) // LIMITS.skew_rows), 1)]
        if len(np.unique(values)) <= LIMITS.n_codes or not (
            least < np.abs(column).max() < most
        ):
            continue
        transform = PowerTransformer(standardize=False).fit(values[:, None])
        power = transform.lambdas_[0]
        rise = yeojohnson_llf(power, values) - yeojohnson_llf(1.0, values)
        gains[name] = rise / len(values)
        with np.errstate(over="ignore", invalid="ignore"):
            column = transform.transform(column[:, None])
            farthest = np.abs(column - column.mean()).max() / column.std()
        if farthest > LIMITS.astray:
            astray[name] = farthest
    if astray:
        farthest = max(astray.values())
        warn_user(
            f"{_named([*astray])} have values up to {farthest:.0f} standard deviations "
            "away, also after PowerTransformer(), as no normal unit has: a few such "
            "rows decide the likelihood of new ones, whatever else was learned. "
            "Transform the columns first, by "
            'QuantileTransformer(output_distribution="normal"), or leave these rows '
            "out.",
            FitWarning,
        )
        return
    alone = rounds.reference.base + sum(gains.values())
    skewed = [name for name, gain in gains.items() if gain > LIMITS.skewed]
    if skewed and alone > best:
        warn_user(
            f"{_named(skewed)} are skewed: after PowerTransformer(), columns that do "
            f"not depend on each other are more likely ({alone:.4g} per row, densities "
            f"of the columns as they are) than under the fit ({best:.4g}). Transform "
            "them first, by it or by their logarithms.",
            FitWarning,
        )


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
        "nothing was learned of how columns depend on each other. With missing values "
        "the likelihood is that of a bound; fit the complete rows first, and go on "
        "with all of them by warm_start=True, or take more hidden units or another "
        "random_state."
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


def warn_of_one_hot(X) -> None:
    """Warn of neighbouring binary columns of which one is 1 in each row."""
    if not isinstance(X, np.ndarray) or len(X) < LIMITS.fewest_rows:
        return
    groups, begin, total = [], 0, np.zeros(len(X))
    for column, values in enumerate(X.T):
        if not np.isin(values, (0, 1)).all():
            return
        total = total + values
        if total.max() > 1:
            begin, total = column, values
        elif total.min() == 1:
            groups.append((begin, column))
            begin, total = column + 1, np.zeros(len(X))
    groups = [
        (begin, end)
        for begin, end in groups
        if end - begin >= 2 and X[:, begin : end + 1].min(axis=0).max() == 0
    ]
    n_coded = sum(end - begin + 1 for begin, end in groups)
    if groups and (len(X) >= LIMITS.enough_rows or n_coded > X.shape[1] // 2):
        first = ", ".join(f"{begin} to {end}" for begin, end in groups[:3])
        more = ", ..." if len(groups) > 3 else ""
        warn_user(
            f"In each row one of the columns {first}{more} is 1, as in one-hot codes. "
            "A machine has to learn that from the rows; with visible='categorical' and "
            "the columns before they were coded it is built in, and rows are mostly "
            "much more likely.",
            FitWarning,
        )


def _real_columns(X, units):
    """Yield names and values of columns that are taken for real numbers."""
    table = units.table
    if not isinstance(X, np.ndarray) or units.kind not in ("gaussian", "table"):
        return
    n = X.shape[1] if table is None else table.n_normal
    names = [f"{k}" for k in range(n)] if table is None else table.labels()[:n]
    for name, column in zip(names, X.T, strict=False):
        yield name, column[~np.isnan(column)]


def _named(names):
    """Return the names of columns, of many the first ones."""
    more = ", ..." if len(names) > 3 else ""
    return f"Columns {', '.join(names[:3])}{more}"


def warn_of_codes(X, units) -> None:
    """Warn of columns of few whole numbers that were taken for real numbers."""
    suspects = []
    for name, values in _real_columns(X, units):
        if (values == np.floor(values)).all():
            n_distinct = len(np.unique(values))
            if (
                2 <= n_distinct <= LIMITS.n_codes
                and n_distinct * LIMITS.rows_of_code <= len(values)
            ):
                suspects.append(name)
    if suspects:
        warn_user(
            f"{_named(suspects)} hold few distinct whole numbers, "
            "and visible='auto' has taken them for real numbers. If they are codes of "
            "categories, say so by a list with the kind of each column, such as "
            "visible=['categorical', 'gaussian']; if not, by visible='gaussian'.",
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
