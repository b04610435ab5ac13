"""Kernel ridge regression of classes on images and copies, with images left out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky, get_lapack_funcs

from sktem.deformed_copies.similarity import Similarity

__all__ = ["CopiesRidge", "Equations", "LeftOut", "Rows", "learn_ridge"]


class Equations(NamedTuple):
    """Settings of the equations of the regression.

    Attributes
    ----------
    ridge : float
        Ridge.
    precision : type
        Precision: that of float32 takes half the memory and time of float64.
    """

    ridge: float = 0.1
    precision: type = np.float32


class Rows(NamedTuple):
    """Images, and copies of them.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_channels * n_pixels)
        Images first, then copies, standardised.
    labels : ndarray of int of shape (n_rows,)
        Classes.
    sources : ndarray of int of shape (n_rows,)
        Indices of the images that rows are copies of.
    weights : ndarray of shape (n_rows,)
        Weights with a mean of one in each class.
    """

    X: np.ndarray
    labels: np.ndarray
    sources: np.ndarray
    weights: np.ndarray


class CopiesRidge(NamedTuple):
    """Fitted regression of classes on features of images and copies.

    Attributes
    ----------
    similarity : Similarity
        Features of images, and the kernel between them.
    rows : list of ndarray of shape (n_rows, n_features)
        Features of the images and copies, for each kernel.
    coefficients : ndarray of shape (n_rows, n_classes)
        Coefficients of their kernels.
    shares : ndarray of shape (n_classes,)
        Shares of the classes in the rows.
    """

    similarity: Similarity
    rows: list
    coefficients: np.ndarray
    shares: np.ndarray

    def judge(self, images):
        """Return scores, near one for the class of an image, and distances of images.

        A distance is the square of that between the features of an image and those of
        the nearest row.
        """
        kernel = self.similarity.kernel(self.similarity.features(images), self.rows)
        return kernel @ self.coefficients + self.shares, self.similarity.distances(
            kernel
        )


class LeftOut(NamedTuple):
    """Answers about images by regressions without them and their copies.

    Attributes
    ----------
    scores : ndarray of shape (n_images, n_classes)
        Scores.
    distances : ndarray of shape (n_images,)
        Squared distances to the nearest rows.
    """

    scores: np.ndarray
    distances: np.ndarray


def learn_ridge(similarity, rows, n_classes, equations=None):
    """Learn a regression, and the answers of regressions without each image.

    Parameters
    ----------
    similarity : Similarity
        Kernel between images.
    rows : Rows
        Images and copies.
    n_classes : int
        Number of classes.
    equations : Equations or None, default=None
        How equations are solved; None takes the defaults.

    Returns
    -------
    ridge : CopiesRidge
        The regression on all rows.
    left_out : LeftOut
        Answers about each image by that on the rows which are not its own.
    """
    equations = Equations() if equations is None else equations
    _, labels, sources, weights = rows
    features = similarity.features(rows.X)
    targets = np.eye(n_classes)[labels]
    shares = targets.mean(axis=0)
    kernel = similarity.kernel([f.astype(equations.precision) for f in features])
    n_images = int(sources.max()) + 1
    others = [kernel[[i]][:, sources != sources[i]] for i in range(n_images)]
    distances = [similarity.distances(row) for row in others]
    kernel[np.diag_indices_from(kernel)] += equations.ridge / np.maximum(weights, 1e-20)
    # The transpose, which is the same, is in the order that LAPACK overwrites.
    lower = cholesky(kernel.T, lower=True, overwrite_a=True, check_finite=False)
    centred = (targets - shares).astype(equations.precision)
    coefficients = cho_solve((lower, True), centred, check_finite=False).astype(float)
    ridge = CopiesRidge(similarity, features, coefficients, shares)
    (invert,) = get_lapack_funcs(("trtri",), (lower,))
    inverse, _ = invert(lower, lower=1, overwrite_c=1)
    scores = np.empty((n_images, n_classes))
    order = np.argsort(sources, kind="stable")
    for copies in np.split(order, np.flatnonzero(np.diff(sources[order])) + 1):
        # What an image and its copies add to their own fitted values.
        columns = inverse[:, copies]
        error = np.linalg.solve(columns.T @ columns, coefficients[copies])
        scores[sources[copies[0]]] = (targets[copies] - error)[0]
    return ridge, LeftOut(scores, np.concatenate(distances))
