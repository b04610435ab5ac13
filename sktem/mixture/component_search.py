"""The number of components: splits and merges, judged by a criterion."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import partial
from itertools import combinations
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from sktem.choices import check_number, did_you_mean
from sktem.emissions.clusters import k_means
from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning
from sktem.mixture.emission_start import points_of

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


def found_components(estimator, X, sample_weight) -> tuple[Any, list[SearchStep]]:
    """Return the fitted estimator with the best number of components, and the steps.

    Parameters
    ----------
    estimator : MixtureEstimator
        Settings.
    X : array-like
        Data that can be read again.
    sample_weight : ndarray of shape (n,) or None
        Weights.

    Returns
    -------
    estimator, steps
        A clone with a number of components, fitted, and what was tried.
    """
    for name in ("weights_init", "means_init", "precisions_init"):
        if getattr(estimator, name, None) is not None:
            raise ValueError(
                f"{name} is for a number of components: give it instead of "
                f"n_components={estimator.n_components!r}"
            )
    if estimator.init_params != "kmeans":
        raise ValueError(
            f"n_components={estimator.n_components!r} splits components by k-means: "
            "init_params is for a number of components"
        )
    return _Search(estimator, X, sample_weight).run()


class Fit(NamedTuple):
    """A fitted estimator, its criterion and its warnings."""

    criterion: float
    estimator: Any
    warnings: list


class _Search:
    """Greedy search: splits while they pay, then merges, then splits again."""

    def __init__(self, estimator, X, sample_weight):
        self.estimator, self.X, self.sample_weight = estimator, X, sample_weight
        self.criterion = CRITERIA[estimator.n_components]
        self.rng = np.random.default_rng(estimator._seed()[0])
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
                twin = current.estimator
                split = self.best_of(twin, self.splits(twin), "split")
            if split is not None:
                current, failures = split, failures + 1
                if split.criterion < best.criterion:
                    best, failures = split, 0
                continue
            twin = best.estimator
            merged = self.best_of(twin, self.merges(twin), "merge")
            if merged is None or merged.criterion >= best.criterion:
                break
            best = current = merged
            failures = 0
        for warning in best.warnings:
            warn_user(str(warning.message), warning.category)
        larger = best.estimator.n_components + 1
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
        K = fit.estimator.n_components
        self.steps.append(SearchStep(K, move, float(fit.criterion)))
        if self.estimator.verbose:
            print(f"{move}: {K} components, criterion {fit.criterion:.6g}")

    def fitted(self, n_components, start, **settings):
        """Return a fit; its criterion is infinite if it is not sound."""
        twin = clone(self.estimator).set_params(
            n_components=n_components,
            init_params=start,
            n_init=1,
            random_state=int(self.rng.integers(2**31)),
            verbose=0,
            warm_start=False,
            **settings,
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            twin.fit(self.X, sample_weight=self.sample_weight)
        if n_components > 1:
            few = twin.weights_.min() * self.mass_of(twin) < self.fewest(twin)
            told = [
                warning
                for warning in caught
                if issubclass(warning.category, FitWarning)
            ]
            if told:
                self.refused.setdefault(n_components, str(told[0].message))
            if few or told:
                return Fit(np.inf, twin, caught)
        criterion = getattr(twin, self.criterion)
        value = criterion(self.X, sample_weight=self.sample_weight)
        return Fit(value, twin, caught)

    def mass_of(self, twin):
        """Return the weight of all rows: a file does not say how many it has."""
        weights = self.sample_weight
        return twin.n_samples_seen_ if weights is None else float(np.sum(weights))

    @staticmethod
    def fewest(twin):
        """Return the rows of a component, at least."""
        K, d = len(twin.weights_), twin.n_features_in_
        return RULE.rows_per_parameter * (twin._n_parameters() + 1) / (K * d)

    def best_of(self, parent, starts: Iterable[Callable], move):
        """Return the fit from the best of several starts, None if none is sound."""
        K = parent.n_components + (1 if move == "split" else -1)
        short = {"max_iter": min(RULE.passes, self.estimator.max_iter), "tol": 0.0}
        fits = [self.fitted(K, start, **short) for start in starts]
        fits = [fit for fit in fits if np.isfinite(fit.criterion)]
        if not fits:
            return None
        first = min(fits, key=lambda fit: fit.criterion).estimator
        fit = self.fitted(K, from_posterior(first))
        self.note(fit, move)
        return fit if np.isfinite(fit.criterion) else None

    def splits(self, parent):
        """Return starts with each component of enough rows cut into two."""
        n_rows = self.mass_of(parent) * parent.weights_
        components = np.flatnonzero(n_rows >= 2 * self.fewest(parent))
        return splits_of(parent, components, self.rng, self.estimator.n_init)

    def merges(self, parent):
        """Yield starts with two components in one, those first that overlap most."""
        if parent.n_components < 2:
            return
        states = np.repeat(np.arange(parent.n_components), 200)
        twin, params = parent._as_emissions()
        rows = twin.emission.sample(params.emission, states, self.rng)
        shared = twin.posterior(rows, params).reshape(parent.n_components, 200, -1)
        confused = shared.mean(axis=1)
        pairs = sorted(
            combinations(range(parent.n_components), 2),
            key=lambda pair: -confused[pair] - confused[pair[::-1]],
        )
        for a, b in pairs[: RULE.merges]:
            yield partial(_merged, twin=parent, a=a, b=b)


def from_posterior(fitted) -> Callable:
    """Return the start with the posterior probabilities of a fitted mixture."""
    return partial(_posterior, twin=fitted)


def splits_of(fitted, components, rng, n_init=1) -> list[Callable]:
    """Return starts in each of which one of the components is cut into two."""
    return [
        partial(
            _split, twin=fitted, k=int(k), seed=int(rng.integers(2**31)), n_init=n_init
        )
        for k in components
    ]


def _posterior(rows, n_components, random_state, *, twin):
    """Return posterior probabilities of rows of a fitted mixture."""
    model, params = twin._fitted_model()
    return model.posterior(rows, params)


def _split(rows, n_components, random_state, *, twin, k, seed, n_init):
    """Return responsibilities with a component split into two clusters of k-means."""
    R = _posterior(rows, n_components, random_state, twin=twin)
    rng = np.random.default_rng(seed)
    model, _ = twin._as_emissions()
    points = points_of(np.asarray(rows, dtype=np.float64), model.emission)
    points = np.nan_to_num(points)  # what is missing is at the mean
    share = R[:, k] / R[:, k].sum()
    members = np.flatnonzero(share > 0)
    if len(members) > RULE.rows:
        members = np.sort(rng.choice(members, RULE.rows, replace=False))
    cut = k_means(points[members], 2, n_init, seed, share[members])
    second = np.where(cut.predict(points) == 1, R[:, k], 0.0)
    R[:, k] -= second
    return np.column_stack([R, second])


def _merged(rows, n_components, random_state, *, twin, a, b):
    """Return responsibilities with two components merged."""
    R = _posterior(rows, n_components, random_state, twin=twin)
    R[:, a] += R[:, b]
    return np.delete(R, b, axis=1)
