"""Stability of the relevance of features on few rows, by cross-validation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg
from sklearn.model_selection import StratifiedKFold

from sktem.regression.relevance_start import (
    common_evidence,
    find_start,
    laplace_fit,
    scaled_design,
)

__all__ = ["RELEVANCE_FOLDS", "RelevanceFolds", "unstable_relevance"]


class RelevanceFolds(NamedTuple):
    """Settings of the check of relevance on rows left out.

    Attributes
    ----------
    most_rows : int
        Rows beyond which nothing is checked: features that matter are found there.
    n_folds : int
        Folds.
    least_overlap : float
        Share of the sum of absolute coefficients that a fold and all rows have in
        common, below which relevance is not known.
    rows_per_feature : int
        Rows for each feature from which the overlap does not matter: coefficients are
        too large where few of many features are chosen, not where all are kept.
    least_excess : float
        Excess of the log-loss, in nats, above which other predictions are better.
    """

    most_rows: int = 500
    n_folds: int = 5
    least_overlap: float = 0.85
    rows_per_feature: int = 5
    least_excess: float = 0.02


#: Of designs with 40 to 450 rows and 2 to 60 features nearly all whose log-loss was .06
#: above that of an l1 penalty had a smaller overlap, and nearly no others.
RELEVANCE_FOLDS = RelevanceFolds()


def unstable_relevance(X, y, variances, rule: RelevanceFolds = RELEVANCE_FOLDS):
    """Return a message if rows left out change or contradict the relevant features.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Scaled features.
    y : ndarray of shape (n_samples,)
        Labels 0 and 1.
    variances : ndarray of shape (n_features,)
        Prior variances with all rows, 0 for features that are dropped.
    rule : RelevanceFolds, default=RELEVANCE_FOLDS
        Settings.

    Returns
    -------
    str or None
        The message, None where there is nothing to say.
    """
    fewest = int(min(y.sum(), len(y) - y.sum()))
    if len(y) > rule.most_rows or fewest < 2:
        return None
    folds = StratifiedKFold(min(rule.n_folds, fewest), shuffle=True, random_state=0)
    overlaps, losses = [], np.empty((3, len(y)))
    shares = _shares(X, y, variances)
    for train, test in folds.split(X, y):
        relevant, _ = find_start(X[train], y[train])
        overlaps.append(_shared(shares, _shares(X[train], y[train], relevant)))
        _, alike = common_evidence(X[train], y[train])
        for k, prior in enumerate((relevant, alike, np.zeros(X.shape[1]))):
            losses[k, test] = _losses(X, y, train, test, prior)
    by_relevance, by_all, by_none = losses.mean(axis=1)
    overlap = float(np.mean(overlaps))
    others = min(by_all, by_none if shares.any() else np.inf)
    worse = by_relevance > others + rule.least_excess
    scarce = len(y) < rule.rows_per_feature * X.shape[1]
    if not worse and not (scarce and overlap < rule.least_overlap):
        return None
    advice = (
        "Take more rows, or an l2 penalty chosen by cross-validation "
        "(LogisticRegressionCV)."
    )
    if worse:
        other = "all features alike" if others == by_all else "the class shares"
        return (
            f"{len(y)} rows are too few to show which of {X.shape[1]} features "
            f"matter: those left out are predicted by the relevant features with a "
            f"log-loss of {by_relevance:.2f}, by {other} with {others:.2f}. {advice}"
        )
    return (
        f"{len(y)} rows are too few to show which of {X.shape[1]} features matter: "
        f"with a fold left out {overlap:.0%} of the coefficients are the same, so that "
        f"they are likely too large. {advice}"
    )


def _shares(X, y, variances):
    """Return absolute coefficients as shares of their sum, zero where none is kept."""
    active, sizes = np.flatnonzero(variances), np.zeros(len(variances))
    if len(active):
        fit = laplace_fit(X[:, active], y, variances[active])
        sizes[active] = np.abs(fit.scaled[1:]) * np.sqrt(variances[active])
    return sizes / max(sizes.sum(), 1e-300)


def _shared(first, second):
    """Return how much of two sets of shares is the same; all if both are empty."""
    if not first.any() and not second.any():
        return 1.0
    return np.minimum(first, second).sum()


def _losses(X, y, train, test, variances):
    """Return the log-loss of rows left out, averaged over Laplace's posterior.

    By MacKay's approximation: the linear predictor, with the variance v, is divided by
    ``sqrt(1 + pi v / 8)``.
    """
    active = np.flatnonzero(variances)
    fit = laplace_fit(X[np.ix_(train, active)], y[train], variances[active])
    A, tested = (
        scaled_design(X[np.ix_(rows, active)], variances[active])
        for rows in (train, test)
    )
    hessian = (A.T * fit.weights) @ A + np.eye(A.shape[1])
    variance = (tested * linalg.solve(hessian, tested.T, assume_a="pos").T).sum(axis=1)
    eta = tested @ fit.scaled / np.sqrt(1 + np.pi * variance / 8)
    return np.logaddexp(0.0, eta) - y[test] * eta
