"""Displays of the components of mixtures."""

import numpy as np
import pandas as pd
import pytest

from sktem import StochasticEMGaussianMixture, StochasticEMMixture
from sktem.plotting import ClassProfileDisplay, ComponentDisplay

pyplot = pytest.importorskip("matplotlib.pyplot")


def rows(d=3):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, d)) @ rng.normal(size=(d, d)) + 5 * rng.integers(
        2, size=(200, 1)
    )
    X[::9, 0] = np.nan
    return X


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_ellipses_are_two_standard_deviations(kind):
    X = rows()
    mixture = StochasticEMGaussianMixture(2, covariance_type=kind, random_state=0)
    display = ComponentDisplay.from_estimator(mixture.fit(X), X)
    assert len(display.axes_) == 3 and len(display.ellipses_) == 6
    angles = np.linspace(0, 2 * np.pi, 9)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    for place, (a, b) in enumerate([(0, 1), (0, 2), (1, 2)]):
        for k in range(2):
            ellipse = display.ellipses_[2 * place + k]
            points = ellipse.get_patch_transform().transform(circle)
            y = points - display.means[k, [a, b]]
            block = display.covariances[k][np.ix_([a, b], [a, b])]
            distances = np.einsum("ni,ij,nj->n", y, np.linalg.inv(block), y)
            np.testing.assert_allclose(distances, 4.0)
    pyplot.close("all")


@pytest.mark.parametrize("as_frame", [False, True])
def test_only_rows_that_are_drawn_are_predicted(as_frame, monkeypatch):
    X = np.concatenate([rows() + 0.01 * k for k in range(100)])
    X = pd.DataFrame(X, columns=list("abc")) if as_frame else X
    mixture = StochasticEMGaussianMixture(2, random_state=0).fit(X)
    labels, seen = mixture.predict(X), []
    predict = StochasticEMGaussianMixture.predict

    def counted(self, X):
        seen.append(len(X))
        return predict(self, X)

    monkeypatch.setattr(StochasticEMGaussianMixture, "predict", counted)
    display = ComponentDisplay.from_estimator(mixture, X)
    assert seen == [len(display.rows)] and 3000 <= seen[0] < 6000
    np.testing.assert_array_equal(display.labels, labels[:: len(X) // 3000])
    np.testing.assert_array_equal(display.rows, np.asarray(X)[:: len(X) // 3000])
    pyplot.close("all")


def test_chosen_columns_and_other_components():
    frame = pd.DataFrame(rows(), columns=list("abc"))
    mixture = StochasticEMMixture(2, emission="student_t", random_state=0).fit(frame)
    display = ComponentDisplay.from_estimator(mixture, columns=["c", "a"], color="k")
    (axes,) = display.axes_
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("c", "a")
    np.testing.assert_allclose(display.means, mixture.params_.means[:, [2, 0]])
    with pytest.raises(ValueError, match="pair of columns"):
        ComponentDisplay.from_estimator(mixture, columns=["a"])
    with pytest.raises(ValueError, match="feature names"):
        ComponentDisplay.from_estimator(mixture, frame[["c", "b", "a"]])
    display = ComponentDisplay.from_estimator(mixture, frame)
    np.testing.assert_array_equal(display.labels, mixture.predict(frame))
    counts = np.random.default_rng(0).poisson(3.0, size=(50, 2))
    poisson = StochasticEMMixture(2, emission="poisson", random_state=0).fit(counts)
    with pytest.raises(TypeError, match="Poisson are no ellipses"):
        ComponentDisplay.from_estimator(poisson)
    pyplot.close("all")


def test_profiles_are_written():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"answer": rng.choice(["yes", "no"], 60), "age": rng.normal(40, 5, 60)}
    )
    mixture = StochasticEMMixture(2, random_state=0).fit(table)
    display = ClassProfileDisplay.from_estimator(mixture)
    shares, means = display.axes_
    labels = [text.get_text() for text in shares.get_yticklabels()]
    assert labels == ["answer = no", "answer = yes"]
    assert [text.get_text() for text in means.get_yticklabels()] == ["age"]
    written = [float(text.get_text()) for text in means.texts]
    expected = mixture.class_profiles().loc["age"].to_numpy().ravel()
    np.testing.assert_allclose(written, expected, rtol=0.05)
    pyplot.close("all")
