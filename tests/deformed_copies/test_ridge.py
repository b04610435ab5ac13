"""Regression on images and copies, against scikit-learn's, and images left out."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from sktem.deformed_copies.deformations import Deformations, Sizes
from sktem.deformed_copies.gaps import GapFiller
from sktem.deformed_copies.ridge import Equations, learn_ridge
from sktem.deformed_copies.search import Budget, Images
from sktem.images.shapes import Layout
from tests.template.oracles import two_kinds

EXACT = Equations(precision=np.float64)


@pytest.fixture(scope="module")
def images():
    X, labels = two_kinds(20)
    X = X / X.std()
    filler = GapFiller.of(X, Layout((6, 6)))
    return Images(X, labels, np.ones(20), np.zeros(1), filler)


@pytest.fixture(scope="module")
def rows(images):
    law = Deformations((6, 6), Sizes.usual((6, 6)), 2.0)
    return images.with_copies(law, Budget(40, 1, 1000), np.random.default_rng(0))


def reference(similarity, X, labels):
    """Return scikit-learn's regression on rows."""
    ridge = KernelRidge(
        alpha=EXACT.ridge, kernel="rbf", gamma=similarity.widths.places
    ).fit(*similarity.features(X), np.eye(2)[labels] - 0.5)
    return lambda X: ridge.predict(*similarity.features(X)) + 0.5


def test_rows_are_images_and_copies(images, rows):
    assert (np.bincount(rows.labels) == 40).all()
    np.testing.assert_array_equal(rows.X[:20], images.X)
    np.testing.assert_array_equal(rows.labels, images.labels[rows.sources])
    assert (np.bincount(rows.sources) >= 3).all()
    most = images.with_copies(
        Deformations((6, 6), Sizes.usual((6, 6)), 2.0),
        Budget(40, 10, 50),
        np.random.default_rng(0),
    )
    assert len(most.X) == 50


def test_it_is_kernel_ridge_regression(images, rows):
    similarity = images.similarity(False)
    ridge, _ = learn_ridge(similarity, rows, 2, EXACT)
    X, _ = two_kinds(10, 3)
    expected = reference(similarity, rows.X, rows.labels)(X)
    np.testing.assert_allclose(ridge.judge(X)[0], expected, atol=1e-10)


def test_left_out_scores_are_those_without_the_image(images, rows):
    """Against a regression that was fitted without an image and its copies."""
    similarity = images.similarity(True)
    ridge, left_out = learn_ridge(similarity, rows, 2, EXACT)
    for image in (0, 7, 19):
        kept = rows.sources != image
        # The shares of the classes, which are subtracted, are those of all rows.
        gap = 0.5 - np.eye(2)[rows.labels[kept]].mean(axis=0)
        assert np.abs(gap).max() < 0.03
        found = reference(similarity, rows.X[kept], rows.labels[kept])
        expected = found(images.X[[image]])[0]
        np.testing.assert_allclose(left_out.scores[image], expected, atol=1e-8)
        scores, distances = ridge.judge(images.X[[image]])
        assert np.abs(left_out.scores[image] - scores).max() > 1e-3
        assert distances[0] < 1e-10
        (known,) = similarity.features(rows.X[kept])
        nearest = (
            ((known - similarity.features(images.X[[image]])[0]) ** 2).sum(axis=1).min()
        )
        np.testing.assert_allclose(left_out.distances[image], nearest, atol=1e-8)


def test_precision_of_the_equations(images, rows):
    """By the size of rounding errors and the condition of the matrix."""
    found = []
    for precision in (np.float32, np.float64):
        ridge, left_out = learn_ridge(
            images.similarity(False), rows, 2, Equations(precision=precision)
        )
        found.append([ridge.judge(images.X)[0], left_out.scores])
    bound = np.finfo(np.float32).eps * len(rows.X) / EXACT.ridge
    assert bound < 1e-3
    for rough, fine in zip(*found, strict=True):
        assert 0 < np.abs(rough - fine).max() < bound
