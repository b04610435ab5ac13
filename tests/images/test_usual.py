"""What is said of several new images: where objects lie, and images left out."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sktem import DeformableTemplateClassifier, DeformedCopiesClassifier
from sktem.exceptions import FitWarning
from sktem.images.classes import Typical, certainties_of
from sktem.images.shapes import Layout
from sktem.images.usual import Places


def points(centres):
    """Return rows of images of 30 x 20 pixels, all dark but one, and where that is."""
    centres = np.clip(np.rint(centres), 1, [28, 18])
    X = np.zeros((len(centres), 30, 20))
    X[(np.arange(len(X)), *centres.astype(int).T)] = 1.0
    return X.reshape(len(X), -1), centres


def drawn(n, rng, move=(0.0, 0.0)):
    """Return points about a place of each of three classes, and their classes."""
    labels = np.arange(n) % 3
    about = np.array([[8.0, 6.0], [15.0, 10.0], [20.0, 12.0]])[labels]
    return *points(about + move + 1.5 * rng.normal(size=(n, 2))), labels


def test_places_are_those_of_the_classes():
    X, centres, labels = drawn(60, np.random.default_rng(0))
    X[0, 0] = np.nan  # a centre is that of a whole image
    places = Places.of(X, labels, Layout((30, 20)))
    known = np.arange(1, 60)
    means = [centres[known][labels[known] == k].mean(axis=0) for k in range(3)]
    np.testing.assert_allclose(places.means, means)
    gaps = centres[known] - places.means[labels[known]]
    np.testing.assert_allclose(places.sds, np.sqrt((gaps**2).sum(axis=0) / (59 - 3)))
    assert places.n_images == 59
    # Of single images, or of blank ones, nothing is known.
    assert Places.of(X[:3], labels[:3], Layout((30, 20))) is None
    assert Places.of(0 * X, labels, Layout((30, 20))) is None
    assert not places.are_left(0 * X[1:], labels[1:])


@pytest.mark.parametrize("n", [5, 20, 200])
def test_objects_out_of_place(n):
    """By two deviations, however many images of whatever class; seldom otherwise."""
    rng, counts = np.random.default_rng(1), np.zeros(3)
    layout = Layout((30, 20))
    for _ in range(100):
        X, _, labels = drawn(30, rng)
        places = Places.of(X, labels, layout)
        for k, move in enumerate([(0.0, 0.0), (0.5, 0.0), (0.0, 3.5)]):
            new, _, own = drawn(3 * n, rng, move)
            of_one = own == 1  # that is no other place
            counts[k] += places.are_left(new[of_one], own[of_one])
    assert counts[0] <= 1 and counts[1] < 10
    assert counts[2] > (60 if n == 5 else 95)


def test_less_is_enough_where_objects_are_out_of_place():
    typical = Typical(0.0, 1.0, 0.99, 0.02, 200)
    rng = np.random.default_rng(0)
    usual = typical.mean + rng.normal(size=200), np.full(200, 0.985)
    farther = usual[0] + 0.5, usual[1]
    unsure = usual[0], np.full(200, 0.975)
    for moved, places, told in (
        (False, False, (False, False)),
        (True, False, (False, True)),
        (True, True, (True, True)),
    ):
        assert typical.difference(*usual, moved, places) is None
        found = [
            typical.difference(*one, moved, places) is not None
            for one in (farther, unsure)
        ]
        assert tuple(found) == told


def by_all(distances, scores, fitted):
    """Return distances and certainties by the models that predict."""
    logs = scores / fitted.temperature_ + np.log(fitted.class_prior_)
    return distances, certainties_of(logs)


def test_new_images_are_judged_by_the_folds(shared_data):
    """As those that were left out: over splits distances and certainties are alike."""
    with np.load(shared_data("images/ocr_letters.npz")) as file:
        chosen = file["y"] < 4
        X, y = file["X"][chosen].astype(float), file["y"][chosen]
    gaps, of_all = [], []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(y))
        rows = np.concatenate([order[y[order] == k][:6] for k in range(4)])
        new = X[np.setdiff1d(order, rows, assume_unique=True)[:100]]
        fitted = DeformableTemplateClassifier((16, 8), max_iter=6, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)
            fitted.fit(X[rows], y[rows])
        scores, distances = fitted._scores(new)
        found = fitted._as_left_out(new, distances, scores)
        typical = fitted._typical
        for pair, means in (
            (found, gaps),
            (by_all(distances, scores, fitted), of_all),
        ):
            excess = (pair[0] - typical.mean) / typical.sd
            means.append([excess.mean(), pair[1].mean() - typical.certainty])
        # What only fits need is not kept for the folds.
        grids = [one.frame.grid for fold in fitted._folds for one in fold.fits]
        assert len(grids) == 12 and not any("grams" in vars(grid) for grid in grids)
        assert "grams" in vars(fitted.estimators_[0].grid_)
    errors = np.std(gaps, axis=0, ddof=1) / 2
    assert (np.abs(np.mean(gaps, axis=0)) < 4 * errors).all()
    # Negative control: to models of all images they are nearer.
    assert np.mean(of_all, axis=0)[0] < np.mean(gaps, axis=0)[0] - 0.05


def test_small_moves_are_told():
    """By an eighth of the side: templates say so, copies are moved back."""
    X, y = load_digits(n_class=4, return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = np.kron(X[order].reshape(-1, 8, 8), np.ones((2, 2))), y[order]
    X = np.pad(X, ((0, 0), (2, 2), (2, 2)))
    moved = np.roll(X, 2, axis=2)
    fitted = DeformableTemplateClassifier(max_iter=6, random_state=0)
    fitted.fit(X[:40], y[:40]).predict(X[40:140])  # no warning, which is an error
    with pytest.warns(FitWarning, match='or fit with nuisances=."translation"'):
        fitted.predict(moved[40:140])
    copies = DeformedCopiesClassifier(max_rows=300, random_state=0)
    copies.fit(X[:40], y[:40]).predict(moved[40:140])
