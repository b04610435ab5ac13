"""A regression of classes on pixels, by which other classifiers are measured."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning

__all__ = ["PixelRegression"]


class PixelRegression(NamedTuple):
    """Kernel ridge regression on pixels, and how many more images it gets right.

    Attributes
    ----------
    ridge : float
        Ridge; the Gaussian kernel is as wide as images are apart.
    fewest, most : int
        Images of which it says something, and for which it takes no time.
    share, errors : float
        Share of the images, and standard errors, by which those that it alone gets
        right outnumber those that it alone gets wrong where a classifier is behind.
    """

    ridge: float = 0.1
    fewest: int = 16
    most: int = 1000
    share: float = 0.05
    errors: float = 2.0

    def left_out(self, X, labels) -> np.ndarray:
        """Return scores of each image by the regression on the others."""
        filled = X / max(np.nanmax(np.abs(X)), 1e-300)
        seen = ~np.isnan(X)
        means = np.nan_to_num(filled).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
        filled = np.where(seen, filled, means)
        spread = 2 * filled.var(axis=0).sum()  # the mean squared distance of two
        kernel = rbf_kernel(filled, gamma=1 / max(spread, 1e-300))
        kernel[np.diag_indices_from(kernel)] += self.ridge
        targets, inverse = np.eye(labels.max() + 1)[labels], np.linalg.inv(kernel)
        gaps = inverse @ (targets - targets.mean(axis=0))
        return targets - gaps / np.diag(inverse)[:, None]

    def warn(self, X, labels, is_wrong) -> None:
        """Warn where it gets more images right than a classifier does."""
        n = len(X)
        if not self.fewest <= n <= self.most:
            return
        other = self.left_out(X, labels).argmax(axis=1) != labels
        alone, lost = np.sum(is_wrong & ~other), np.sum(other & ~is_wrong)
        if alone - lost > max(self.share * n, self.errors * np.sqrt(alone + lost)):
            warn_user(
                f"A regression on pixels gets {1 - other.mean():.0%} of {n} images "
                f"that were left out right, this classifier {1 - is_wrong.mean():.0%}: "
                "these classes differ in single pixels, not in deformed shapes. "
                "Compare sklearn.svm.SVC.",
                FitWarning,
            )
