"""The number of components: splits and merges, judged by a criterion."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import partial
from itertools import combinations
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from sktem.choices import check_number, did_you_mean
from sktem.emissions.clusters import k_means
from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning
from sktem.mixture.emission_start import points_of
from sktem.mixture.fitted import FittedMixture

__all__ = [
    "CRITERIA",
    "SearchStep",
    "check_n_components",
    "found_components",
    "from_posterior",
    "splits_of",
]

#: Criteria by the value of ``n_components`` that asks for them.
CRITERIA = {"auto": "bic", "bic": "bic", "icl": "icl"}


class SearchRule(NamedTuple):
    """Limits of the search for the number of components.

    Attributes
    ----------
    passes : int
        Passes by which proposals are compared, before the best one is fitted.
    patience : int
        Splits beyond the best number of components that need not lower the criterion.
    merges : int
        Pairs of components, those that overlap most, of which a merge is tried.
    rows_per_parameter : int
        Rows that a component has at least, for each of its parameters of a column.
    rows : int
        Rows, at most, by which a component is split.
    """

    passes: int = 10
    patience: int = 2
    merges: int = 3
    rows_per_parameter: int = 5
    rows: int = 1 << 14


RULE = SearchRule()


class SearchStep(NamedTuple):
    """A mixture that was fitted on the way to the number of components.

    Attributes
    ----------
    n_components : int
        Its number of components.
    move : {"start", "split", "merge"}
        How it came about.
    criterion : float
        Criterion of all rows; lower is better. Infinite if it was refused.
    """

    n_components: int
    move: str
    criterion: float

    @property
    def is_sound(self):
        """Whether the mixture was not refused."""
        return bool(np.isfinite(self.criterion))


def check_n_components(value) -> None:
    """Raise if a number of components is neither a number nor a criterion."""
    if not isinstance(value, str):
        check_number("n_components", value, Integral, 1)
    elif value not in CRITERIA:
        raise ValueError(
            f"n_components must be an integer >= 1 or one of {sorted(CRITERIA)}, got "
            f"{value!r}{did_you_mean(value, CRITERIA)}"
        )


def found_components(
    fit, parameters, X, sample_weight, seed
) -> tuple[Any, list[SearchStep]]:
    """Return the fitted estimator with the best number of components, and the steps.

    Parameters
    ----------
    fit : callable
        Returns an estimator and its FittedMixture, given data, weights and parameters.
    parameters : dict
        Parameters by name.
    X : array-like
        Data that can be read again.
    sample_weight : ndarray of shape (n,) or None
        Weights.
    seed : numpy.random.SeedSequence
        Seed of the fits.

    Returns
    -------
    estimator, steps
        That with a number of components, and what was tried.
    """
    setting = f"n_components={parameters['n_components']!r}"
    for name in ("weights_init", "means_init", "precisions_init"):
        if parameters.get(name) is not None:
            raise ValueError(
                f"{name} is for a number of components: give it instead of {setting}"
            )
    if parameters["init_params"] != "kmeans":
        raise ValueError(
            f"{setting} splits components by k-means: init_params is for a number of "
            "components"
        )
    return _Search(fit, parameters, X, sample_weight, seed).run()


class Fit(NamedTuple):
    """A fitted estimator, the mixture, its criterion and its warnings."""

    criterion: float
    estimator: Any
    mixture: FittedMixture
    warnings: list

    @property
    def n_components(self):
        """Number of components."""
        return self.mixture.model.n_components

    @property
    def fewest(self):
        """Rows of a component, at least."""
        d = self.estimator.n_features_in_
        count = self.mixture.model.n_parameters(d) + 1
        return RULE.rows_per_parameter * count / (self.n_components * d)


class _Search:
    """Greedy search: splits while they pay, then merges, then splits again."""

    def __init__(self, fit, parameters, X, sample_weight, seed):
        self.fit, self.parameters = fit, parameters
        self.X, self.sample_weight = X, sample_weight
        self.criterion = CRITERIA[parameters["n_components"]]
        self.rng = np.random.default_rng(seed)
        self.steps: list[SearchStep] = []
        self.refused: dict[int, str] = {}

    def run(self):
        """Return the best estimator and the steps."""
        best = current = self.fitted(1, "kmeans")
        self.note(best, "start")
        failures = 0
        while True:
            split = None
            if failures <= RULE.patience:
                split = self.best_of(current, self.splits(current), "split")
            if split is not None:
                current, failures = split, failures + 1
                if split.criterion < best.criterion:
                    best, failures = split, 0
                continue
            merged = self.best_of(best, self.merges(best), "merge")
            if merged is None or merged.criterion >= best.criterion:
                break
            best = current = merged
            failures = 0
        for warning in best.warnings:
            warn_user(str(warning.message), warning.category)
        larger = best.n_components + 1
        sound = any(step.n_components == larger for step in self.steps if step.is_sound)
        if larger in self.refused and not sound:
            warn_user(
                f"All mixtures of {larger} components were refused: "
                f"{self.refused[larger]}",
                FitWarning,
            )
        return best.estimator, self.steps

    def note(self, fit, move):
        """Record a step."""
        K = fit.n_components
        self.steps.append(SearchStep(K, move, float(fit.criterion)))
        if self.parameters["verbose"]:
            print(f"{move}: {K} components, criterion {fit.criterion:.6g}")

    def fitted(self, n_components, start, **settings):
        """Return a fit; its criterion is infinite if it is not sound."""
        seed = int(self.rng.integers(2**31))
        settings |= {"n_components": n_components, "init_params": start}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            twin, mixture = self.fit(
                self.X, self.sample_weight, n_init=1, random_state=seed, **settings
            )
        refused = Fit(np.inf, twin, mixture, caught)
        if n_components > 1:
            mass = self.mass_of(twin.n_samples_seen_)
            few = twin.weights_.min() * mass < refused.fewest
            doubts = [w for w in caught if issubclass(w.category, FitWarning)]
            if doubts:
                self.refused.setdefault(n_components, str(doubts[0].message))
            if few or doubts:
                return refused
        criterion = getattr(twin, self.criterion)
        value = criterion(self.X, sample_weight=self.sample_weight)
        return refused._replace(criterion=value)

    def mass_of(self, n_seen):
        """Return the weight of all rows: a file does not say how many it has."""
        weights = self.sample_weight
        return n_seen if weights is None else float(np.sum(weights))

    def best_of(self, parent, starts: Iterable[Callable], move):
        """Return the fit from the best of several starts, None if none is sound."""
        K = parent.n_components + (1 if move == "split" else -1)
        short = {"max_iter": min(RULE.passes, self.parameters["max_iter"]), "tol": 0.0}
        fits = [self.fitted(K, start, **short) for start in starts]
        fits = [fit for fit in fits if np.isfinite(fit.criterion)]
        if not fits:
            return None
        first = min(fits, key=lambda fit: fit.criterion)
        fit = self.fitted(K, from_posterior(first.mixture))
        self.note(fit, move)
        return fit if np.isfinite(fit.criterion) else None

    def splits(self, parent):
        """Return starts with each component of enough rows cut into two."""
        mixture = parent.estimator
        n_rows = self.mass_of(mixture.n_samples_seen_) * mixture.weights_
        components = np.flatnonzero(n_rows >= 2 * parent.fewest)
        n_init = self.parameters["n_init"]
        return splits_of(parent.mixture, components, self.rng, n_init)

    def merges(self, parent):
        """Yield starts with two components in one, those first that overlap most."""
        if parent.n_components < 2:
            return
        states = np.repeat(np.arange(parent.n_components), 200)
        mixture = parent.mixture.of_emission
        emission_params = mixture.params.emission
        rows = mixture.model.emission.sample(emission_params, states, self.rng)
        shared = mixture.posterior(rows).reshape(parent.n_components, 200, -1)
        confused = shared.mean(axis=1)
        pairs = sorted(
            combinations(range(parent.n_components), 2),
            key=lambda pair: -confused[pair] - confused[pair[::-1]],
        )
        for a, b in pairs[: RULE.merges]:
            yield partial(_merged, fitted=parent.mixture, a=a, b=b)


def from_posterior(fitted) -> Callable:
    """Return the start with the posterior probabilities of a fitted mixture."""
    return partial(_posterior, fitted=fitted)


def splits_of(fitted, components, rng, n_init=1) -> list[Callable]:
    """Return starts in each of which one of the components is cut into two."""
    options = {"fitted": fitted, "n_init": n_init}
    return [
        partial(_split, k=int(k), seed=int(rng.integers(2**31)), **options)
        for k in components
    ]


def _posterior(rows, n_components, random_state, *, fitted):
    """Return posterior probabilities of rows of a fitted mixture."""
    return fitted.model.posterior(rows, fitted.params)


def _split(rows, n_components, random_state, *, fitted, k, seed, n_init):
    """Return responsibilities with a component split into two clusters of k-means."""
    R = _posterior(rows, n_components, random_state, fitted=fitted)
    rng = np.random.default_rng(seed)
    emission = fitted.of_emission.model.emission
    points = points_of(np.asarray(rows, dtype=np.float64), emission)
    points = np.nan_to_num(points)  # what is missing is at the mean
    share = R[:, k] / R[:, k].sum()
    members = np.flatnonzero(share > 0)
    if len(members) > RULE.rows:
        members = np.sort(rng.choice(members, RULE.rows, replace=False))
    cut = k_means(points[members], 2, n_init, seed, share[members])
    second = np.where(cut.predict(points) == 1, R[:, k], 0.0)
    R[:, k] -= second
    return np.column_stack([R, second])


def _merged(rows, n_components, random_state, *, fitted, a, b):
    """Return responsibilities with two components merged."""
    R = _posterior(rows, n_components, random_state, fitted=fitted)
    R[:, a] += R[:, b]
    return np.delete(R, b, axis=1)
