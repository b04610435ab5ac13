"""Starts of a fit: clusters of rows and of windows, compared by short runs."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from sktem.emissions.clusters import k_means, settled
from sktem.hidden_markov.chain import ChainParams
from sktem.hidden_markov.fit_warnings import short_of_rows
from sktem.hidden_markov.long_sequence import LongSequence
from sktem.hidden_markov.model import HiddenMarkovParams
from sktem.hidden_markov.rows import ObservedSequences

__all__ = ["SEARCH", "Search", "best_start"]


class Search(NamedTuple):
    """Settings of the search for a start.

    Attributes
    ----------
    windows : tuple of int
        Rows of the windows whose means and deviations are clustered; 1 are rows.
    random : int
        Further starts, from clusters about random rows and random windows in turn:
        those suit states that change fast, these states that last.
    most_further : int
        Random starts in a second round, at most: it follows unless half of the runs
        have met at the best optimum, and takes no more time than the first round of as
        many rows as are compared at most.
    most_rows : int
        Rows of the sequences on which starts are compared, about.
    stages : tuple of (int, int)
        EM passes of each run of a stage, at most, and runs that go on to it.
    settled : float
        Gain of a pass, per row, below which a run is at its end.
    same, apart : float
        Log-likelihoods per row that differ by less are those of one optimum; the best
        is in doubt if no other run has come as near.
    """

    windows: tuple[int, ...] = (1, 3, 7, 21)
    random: int = 24
    most_further: int = 168
    most_rows: int = 20_000
    stages: tuple[tuple[int, int], ...] = ((12, 99), (40, 6), (150, 3))
    settled: float = 1e-7
    same: float = 1e-5
    apart: float = 1e-4

    def further(self, n_rows) -> int:
        """Return the number of random starts of a second round on some rows."""
        return min(self.most_further, self.random * (self.most_rows // n_rows - 1))


SEARCH = Search()


class Run(NamedTuple):
    """A short run of EM.

    Attributes
    ----------
    objective : float
        Log-likelihood per row, less the penalty, before the last pass.
    params : HiddenMarkovParams
        Where it is.
    ended : bool
        Whether a pass gains nothing.
    sound : bool
        Whether all states have rows enough not to collapse on them.
    n_met : int
        Runs that have come here.
    """

    objective: float
    params: HiddenMarkovParams
    ended: bool = False
    sound: bool = True
    n_met: int = 1


class Start(NamedTuple):
    """Start of a fit.

    Attributes
    ----------
    params : HiddenMarkovParams
        The start.
    lead : float
        By how much, per row, the best run is above the next one where only one has
        come there and the lead is not small; 0 otherwise.
    n_runs : int
        Runs that were compared.
    """

    params: HiddenMarkovParams
    lead: float = 0.0
    n_runs: int = 1


def best_start(model, X, impose, rng, search, complete=False):
    """Return the start from which short runs of EM have got furthest.

    Runs that are behind are given up at each stage, and runs that have met are one. Of
    few rows the likelihood often has many optima, and each run takes little time: where
    those of a first round do not agree, more follow.

    Parameters
    ----------
    model : SequenceModel
        The model, without a start.
    X : ObservedSequences
        The sequences.
    impose : callable
        Puts what the user has given in the place of parameters.
    rng : numpy.random.Generator
        Random numbers.
    search : Search
        Settings.
    complete : bool, default=False
        Whether all parameters are given, so that there is nothing to search.

    Returns
    -------
    Start
        The start, and how sure it is.
    """
    plain = model.chain.plain
    if plain is not None:
        # States are looked for without durations or covariates, which takes less time.
        settings = {**model.get_params(deep=False), "chain": plain}
        simple = best_start(type(model)(**settings), X, impose, rng, search, complete)
        chain = model.chain.from_plain(simple.params.chain, X)
        params = simple.params._replace(chain=chain)
        return simple._replace(params=impose(params))
    few = _few_sequences(X, search.most_rows, rng)
    if complete:
        # Clusters only give the parameters their shapes.
        labels = np.arange(few.n_rows) * model.chain.n_states // max(few.n_rows, 1)
        starts = [_from_clusters(model, few, labels)]
    elif model.chain.n_states == 1:
        starts = [_from_clusters(model, few, np.zeros(few.n_rows, dtype=int))]
    else:
        points = model.emission.points(few.X)
        windows = _windows_of(points, few, search)
        starts = list(_from_k_means(model, few, points, windows, search, rng))
        # Seasons, say, take turns: clusters need not show them.
        turns = np.arange(few.n_rows) - np.repeat(few.offsets[:-1], few.lengths)
        starts.append(_from_clusters(model, few, turns % model.chain.n_states))
        starts += _from_random_rows(model, few, windows, search.random, rng)
    starts = [impose(start) for start in starts]
    _check_densities(model, few, starts[0])
    n_runs = len(starts)
    if n_runs == 1:
        return Start(starts[0])
    runs = _compared(model, few, starts, search)
    n_more = search.further(few.n_rows)
    if 2 * runs[0].n_met < n_runs and n_more > 0:
        more = _from_random_rows(model, few, windows, n_more, rng)
        more = _compared(model, few, [impose(start) for start in more], search)
        runs, n_runs = _distinct(runs + more, search), n_runs + n_more
    best = runs[0]
    lead = best.objective - runs[1].objective if len(runs) > 1 else 0.0
    doubtful = best.n_met == 1 and search.apart < lead < np.inf
    return Start(best.params, lead if doubtful else 0.0, n_runs)


def _check_densities(model, X, params):
    """Raise ValueError for parameters outside the domain of an emission."""
    with np.errstate(all="ignore"):
        wrong = np.isnan(model.emission.log_density(X.X, params.emission))
    if wrong.any():
        raise ValueError(
            "emission_init must have values that the parameters of "
            f"{type(model.emission).__name__} can have: densities are NaN, in row "
            f"{int(np.argwhere(wrong)[0][0])} for one"
        )


def _few_sequences(X, most, rng):
    """Return a sample of sequences, or pieces of one, with about `most` rows."""
    if isinstance(X, LongSequence):
        return X.few(most)
    if X.n_rows <= most:
        return X if X.in_memory else X[np.arange(len(X))]
    order = rng.permutation(len(X))
    counts = np.cumsum(X.row_counts[order])
    chosen = order[: max(1, int(np.searchsorted(counts, most)))]
    few = X[np.sort(chosen)]
    if few.n_rows <= 2 * most:
        return few
    # Pieces at equal distances of what is long.
    n_pieces = 4
    size = most // n_pieces
    firsts = np.linspace(0, few.n_rows - size, n_pieces).astype(int)
    cuts = np.unique(np.concatenate([few.offsets, firsts, firsts + size]))
    pieces = ObservedSequences(cuts, few.X, few.labels, few.covariates)
    last = firsts[np.searchsorted(firsts, cuts[:-1], side="right") - 1]
    return pieces[np.flatnonzero(cuts[:-1] < last + size)]


def _compared(model, X, starts, search):
    """Return the runs from some starts that have got furthest, from the best on."""
    runs = [Run(-np.inf, start) for start in starts]
    for passes, left in search.stages:
        runs = [_continued(model, X, run, passes, search) for run in runs[:left]]
        runs = _distinct(runs, search)
    return runs


def _continued(model, X, run, passes, search):
    """Continue a run by passes of EM, until they gain nothing."""
    objective, params, ended, sound, n_met = run
    for _ in range(0 if ended else passes):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            s, value = model.expected_statistics(X, params)
            before, objective = objective, value - model.penalty(params)
            if not np.isfinite(objective):
                return Run(-np.inf, run.params, True, False)
            params = model.maximize(s, params)
            sound = not len(short_of_rows(model, params.emission, s, len(X)))
        ended = objective - before < search.settled
        if ended:
            break
    return Run(objective, params, ended, sound, n_met)


def _distinct(runs, search):
    """Return runs from the best on; runs with equal objectives are one.

    A state on a few rows can have any likelihood: such runs come last.
    """
    distinct: list[Run] = []
    for run in sorted(runs, key=lambda run: (not run.sound, -run.objective)):
        if distinct and abs(distinct[-1].objective - run.objective) < search.same:
            met = distinct[-1].n_met + run.n_met
            distinct[-1] = distinct[-1]._replace(n_met=met)
        else:
            distinct.append(run)
    return distinct


def _windows_of(points, X, search):
    """Return rows, and windows of each size about them, as features for clusters."""
    values = np.nan_to_num(points)  # what is missing is at the mean
    return [
        values if size == 1 else _windows(values, X, size) for size in search.windows
    ]


def _from_k_means(model, X, points, windows, search, rng):
    """Yield parameters from clusters of rows and of windows that differ."""
    K = model.chain.n_states
    past: list[np.ndarray] = []
    found_in = zip(search.windows, windows, strict=True)
    for size, features in found_in if X.n_rows >= K else ():
        labels = k_means(features, K, 2, int(rng.integers(2**31))).labels_
        if size == 1 and np.isnan(points).any():
            labels = settled(points, labels, K).labels
        if not any(np.array_equal(labels, old) for old in past):
            past.append(labels)
            yield _from_clusters(model, X, labels)


def _from_random_rows(model, X, windows, n_starts, rng):
    """Return parameters from clusters about random rows, and every other windows."""
    starts = []
    for i in range(n_starts):
        features = windows[(1 + i // 2) % len(windows) if i % 2 else 0]
        labels = _about_random_rows(features, model.chain.n_states, rng)
        starts.append(_from_clusters(model, X, labels))
    return starts


def _windows(values, X, size):
    """Return means and deviations of windows about each row, within sequences."""
    both = np.hstack([values, values**2])
    totals = np.vstack([np.zeros((1, both.shape[1])), both.cumsum(axis=0)])
    rows = np.arange(len(values))
    low = np.maximum(rows - size // 2, np.repeat(X.offsets[:-1], X.lengths))
    high = np.minimum(rows + size // 2 + 1, np.repeat(X.offsets[1:], X.lengths))
    count = (high - low)[:, None]
    means, squares = np.hsplit((totals[high] - totals[low]) / count, 2)
    variances = np.maximum(squares - means**2, 0.0)
    features = np.concatenate([means, np.sqrt(variances)], axis=1)
    spread = features.std(axis=0)
    return features / np.where(spread > 0, spread, 1.0)


def _about_random_rows(values, K, rng):
    """Return the nearest of K random rows for each row."""
    centres = values[rng.choice(len(values), min(K, len(values)), replace=False)]
    distances = (centres**2).sum(axis=1) - 2.0 * values @ centres.T
    return distances.argmin(axis=1)


def _from_clusters(model, X, labels):
    """Return parameters for known states, with a little of every transition."""
    K = model.chain.n_states
    if X.labels is not None:
        labels = np.where(X.labels >= 0, X.labels, labels)
    R = np.full((X.n_rows, K), 0.01 / K)
    R[np.arange(X.n_rows), labels] += 0.99
    emission = model.emission.start(X.X, model.by_emission(R))
    count = model.chain.of_states(labels, X, None).sum(axis=0)
    pairs = count[K : K + K * K].reshape(K, K) + 1.0
    start = count[:K] + 1.0
    chain = ChainParams(start / start.sum(), pairs / pairs.sum(axis=1, keepdims=True))
    return HiddenMarkovParams(chain, emission)
