"""Pictures of templates: which panels there are, and that they show the arrays."""

import sys
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture

from sktem import (
    DeformableTemplateClassifier,
    DeformableTemplateEstimator,
)
from sktem.plotting import TemplateDisplay

SMALL = {
    "template_landmarks": 9,
    "deformation_landmarks": 3,
    "deformation_width": 2.5,
    "max_iter": 3,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(n_class=4, return_X_y=True)
    return X.reshape(-1, 8, 8), y


@pytest.fixture(scope="module")
def single(digits):
    X, y = digits
    # Not square, so that transposed axes would show.
    return DeformableTemplateEstimator(**SMALL).fit(X[y == 3][:20, :, 1:])


@pytest.fixture(scope="module")
def mixture(digits):
    X, y = digits
    return DeformableTemplateEstimator(n_components=3, **SMALL).fit(X[y != 0][:30])


@pytest.fixture(scope="module")
def signals():
    t = np.arange(30.0)
    shifts = np.random.default_rng(0).normal(0, 1, (25, 1))
    return np.exp(-((t - 12 - shifts) ** 2) / 18) - np.exp(
        -((t - 22 - shifts) ** 2) / 8
    )


@pytest.fixture(scope="module")
def curves(signals):
    return DeformableTemplateEstimator((30,), **SMALL).fit(signals)


def shown(panel):
    (image,) = panel.get_images()
    return np.ma.filled(image.get_array(), np.nan)


def lattice(panel):
    return [path for sets in panel.collections for path in sets.get_paths()]


def titles(axes):
    return [panel.get_title() for panel in axes.flat]


def test_one_template(pyplot, single):
    display = TemplateDisplay.from_estimator(single)
    assert display.axes_.shape == (1,) and titles(display.axes_) == ["template"]
    np.testing.assert_array_equal(shown(display.axes_[0]), single.templates_[0])
    assert shown(display.axes_[0]).shape == (8, 7)
    assert display.figure_ is display.axes_[0].figure


def test_templates_of_a_mixture(pyplot, mixture):
    display = TemplateDisplay.from_estimator(mixture)
    assert titles(display.axes_) == [
        f"{t} ({share:.0%})" for t, share in enumerate(mixture.weights_)
    ]
    scales = {panel.get_images()[0].get_clim() for panel in display.axes_}
    assert scales == {(mixture.templates_.min(), mixture.templates_.max())}
    for panel, template in zip(display.axes_, mixture.templates_, strict=True):
        np.testing.assert_array_equal(shown(panel), template)


def test_modes(pyplot, mixture):
    display = TemplateDisplay.from_estimator(
        mixture, kind="modes", component=2, n_modes=2, deviations=(-1.5, 0, 1, 3)
    )
    assert display.axes_.shape == (2, 4)
    assert titles(display.axes_)[:4] == ["-1.5 sd", "template", "+1 sd", "+3 sd"]
    Z, shares = mixture.principal_deformations(2, 2)
    for row in range(2):
        assert (
            display.axes_[row, 0].get_ylabel() == f"mode {row + 1} ({shares[row]:.0%})"
        )
        np.testing.assert_allclose(
            shown(display.axes_[row, 1]), mixture.templates_[2], atol=1e-8
        )
        z = mixture.mean_deformations_[2] + 3 * Z[row]
        expected = mixture.inverse_transform(z[None], 2).reshape(8, 8)
        np.testing.assert_allclose(shown(display.axes_[row, 3]), expected, atol=1e-10)


def test_lattice_without_deformation_is_straight(pyplot, single):
    display = TemplateDisplay.from_estimator(single, kind="modes", n_modes=1)
    paths = [path.vertices for path in lattice(display.axes_[0, 1])]
    assert len(paths) >= 10
    for vertices in paths:
        assert min(np.ptp(vertices, axis=0)) < 1e-12
        assert max(np.ptp(vertices, axis=0)) > 5.9


def test_lattice_follows_the_deformation(pyplot, single):
    """On a line of the lattice, one coordinate of x - Phi(x) is constant."""
    display = TemplateDisplay.from_estimator(single, kind="modes", n_modes=1)
    z = 2 * single.principal_deformations(1)[0][0]
    half = np.array(single.grid_.half_widths)[:, None]
    worst, bent = 0.0, 0.0
    for path in lattice(display.axes_[0, 2]):
        x = path.vertices.T[::-1] - half  # rows and columns about the centre
        places = x - single.grid_.field_at(z, x)
        worst = max(worst, np.ptp(places, axis=1).min())
        bent = max(bent, np.ptp(x, axis=1).min())
    # Lines are drawn through linear interpolations between pixels.
    assert worst < 0.1 < bent


def test_lattice_is_on_the_side_to_which_things_move(pyplot, single):
    """A displacement of one pixel along the columns moves all lines by one pixel."""
    display = TemplateDisplay.from_estimator(single, kind="modes", n_modes=1)
    field = np.zeros_like(display.mode_fields)
    field[:, :, 1] = 0.5
    display.mode_fields = field
    middle, right = display.plot("modes").axes_[0, 1:]

    def columns(panel):
        paths = [path.vertices[:, 0] for path in lattice(panel)]
        return np.array([x.mean() for x in paths if np.ptp(x) < 1e-9])

    still, moved = columns(middle), columns(right)
    assert all(np.abs(still + 1 - x).min() < 1e-9 for x in moved[moved > 1])


def test_samples(pyplot, mixture):
    display = TemplateDisplay.from_estimator(mixture, kind="samples", n_samples=12)
    X, labels = mixture.sample(12, noise=False)
    assert display.axes_.shape == (12,)
    np.testing.assert_array_equal(display.sample_labels, labels)
    assert titles(display.axes_) == [display.names[t] for t in labels]
    for panel, image in zip(display.axes_, X, strict=True):
        np.testing.assert_array_equal(shown(panel), image.reshape(8, 8))


def test_residuals(pyplot, single, digits):
    X, y = digits
    images = X[y == 3][20:23, :, 1:].copy()
    images[0, 2, 3] = np.nan
    display = TemplateDisplay.from_estimator(single, images)
    assert display.axes_.shape == (3, 3)
    names = [panel.get_ylabel() for panel in display.axes_[:, 0]]
    assert names == ["image", "fit", "residual"]
    fits = single.inverse_transform(single.modes_of(images)).reshape(images.shape)
    for column in range(3):
        top, middle, bottom = display.axes_[:, column]
        np.testing.assert_array_equal(shown(top), images[column])
        np.testing.assert_allclose(shown(middle), fits[column])
        np.testing.assert_allclose(shown(bottom), images[column] - fits[column])
        assert len(lattice(middle)) > 5 and not lattice(top)
    assert np.isnan(shown(display.axes_[2, 0])).sum() == 1
    low, high = display.axes_[2, 0].get_images()[0].get_clim()
    assert low == -high == -np.nanmax(np.abs(images - fits))


@pytest.mark.parametrize("names", [("translation",), ("rotation", "gain"), ("offset",)])
def test_residuals_with_nuisances(pyplot, digits, names):
    """What explains an image has its place and light, too."""
    X, y = digits
    images, gains = X[y == 3][:20], np.linspace(0.7, 1.4, 20)[:, None, None]
    estimator = DeformableTemplateEstimator(nuisances=names, **SMALL | {"max_iter": 20})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(images * gains if "gain" in names else images)
    given = images[:4] * gains[[0, 0, -1, -1]] if "gain" in names else images[:4]
    display = TemplateDisplay.from_estimator(estimator, given)
    np.testing.assert_allclose(display.fields, estimator.deformation_fields(given))
    # The template where each pixel comes from, with gain and offset.
    columns = estimator.modes_of(given)
    expected = estimator.inverse_transform(columns)
    np.testing.assert_allclose(display.fits, expected, atol=1e-6 * np.ptp(images))


def test_residuals_of_a_mixture(pyplot, mixture, digits):
    X, y = digits
    images = X[y != 0][30:36]
    display = TemplateDisplay.from_estimator(mixture, images)
    labels = mixture.predict(images)
    assert len(np.unique(labels)) > 1
    np.testing.assert_array_equal(display.labels, labels)
    assert titles(display.axes_[0]) == [display.names[t] for t in labels]
    fits = mixture.inverse_transform(mixture.modes_of(images), labels)
    np.testing.assert_allclose(display.fits, fits)


def test_classifier(pyplot, digits):
    X, y = digits
    names = np.array(["nought", "one", "two", "three"])[y]
    classifier = DeformableTemplateClassifier(temperature=1.0, **SMALL)
    classifier.fit(X[:60], names[:60])
    display = TemplateDisplay.from_estimator(classifier, X[60:66], n_samples=2)
    predicted = classifier.predict(X[60:66])
    assert titles(display.axes_[0]) == list(predicted)
    templates = display.plot("templates").axes_
    assert titles(templates) == ["nought", "one", "three", "two"]
    np.testing.assert_array_equal(
        shown(templates[2]), classifier.estimators_[2].templates_[0]
    )
    assert display.plot("samples").axes_.shape == (8,)
    np.testing.assert_array_equal(display.sample_labels, np.repeat(range(4), 2))


def test_classifier_with_several_templates(pyplot, digits):
    X, y = digits
    classifier = DeformableTemplateClassifier(
        n_components=2, temperature=1.0, **SMALL
    ).fit(X[:60], y[:60])
    display = TemplateDisplay.from_estimator(classifier)
    assert titles(display.axes_)[:3] == ["0, 0", "0, 1", "1, 0"]


def test_curves(pyplot, curves, signals):
    display = TemplateDisplay.from_estimator(curves, signals[:4], n_modes=2)
    assert display.axes_.shape == (2, 4)
    top, bottom = display.axes_[:, 1]
    np.testing.assert_array_equal(top.lines[0].get_ydata(), signals[1])
    fit = curves.inverse_transform(curves.modes_of(signals[:4]))[1]
    np.testing.assert_allclose(top.lines[1].get_ydata(), fit)
    np.testing.assert_allclose(bottom.lines[0].get_ydata(), signals[1] - fit)

    (panel,) = display.plot("templates").axes_
    np.testing.assert_array_equal(panel.lines[0].get_ydata(), curves.templates_[0])
    (panel,) = display.plot("samples").axes_
    assert len(panel.lines) == 11
    axes = display.plot("modes").axes_
    assert axes.shape == (2, 2)
    Z, shares = curves.principal_deformations(2)
    assert titles(axes)[1] == f"mode 2 ({shares[1]:.0%})"
    np.testing.assert_allclose(
        axes[1, 1].lines[2].get_ydata(), 2 * curves.grid_.field(Z)[1, 0]
    )
    expected = curves.inverse_transform(curves.mean_deformations_ - 2 * Z)[1]
    np.testing.assert_allclose(axes[0, 1].lines[0].get_ydata(), expected)


def test_volumes_show_their_middle_slice(pyplot):
    X = np.random.default_rng(0).normal(size=(6, 5, 6, 7))
    estimator = DeformableTemplateEstimator(
        template_landmarks=5, deformation_landmarks=2, max_iter=2, random_state=0
    ).fit(X)
    display = TemplateDisplay.from_estimator(estimator, X[:2], n_modes=1)
    np.testing.assert_array_equal(shown(display.axes_[0, 1]), X[1, 2])
    (panel,) = display.plot("templates").axes_
    np.testing.assert_array_equal(shown(panel), estimator.templates_[0, 2])
    assert len(lattice(display.plot("modes").axes_[0, 0])) > 5


def test_images_of_one_column_have_no_lattice(pyplot, signals):
    estimator = DeformableTemplateEstimator((30, 1), **SMALL).fit(signals)
    display = TemplateDisplay.from_estimator(estimator, kind="modes")
    assert not lattice(display.axes_[0, 0])


def test_given_axes(pyplot, mixture):
    figure, (left, right) = pyplot.subplots(1, 2)
    display = TemplateDisplay.from_estimator(mixture, ax=left)
    assert display.figure_ is figure and display.axes_.shape == (3,)
    _, given = pyplot.subplots(3, 1)
    assert list(display.plot(ax=given).axes_) == list(given)


def test_errors(pyplot, single):
    display = TemplateDisplay.from_estimator(single)
    with pytest.raises(ValueError, match="kind must be one of"):
        display.plot("template")
    with pytest.raises(ValueError, match="needs images"):
        display.plot("residuals")
    with pytest.raises(ValueError, match="component must be in 0, ..., 0"):
        display.plot("modes", component=1)
    with pytest.raises(NotFittedError):
        TemplateDisplay.from_estimator(DeformableTemplateEstimator())
    X = np.random.default_rng(0).normal(size=(50, 2))
    mixture = GaussianMixture(random_state=0).fit(X)
    with pytest.raises(TypeError, match="got GaussianMixture"):
        TemplateDisplay.from_estimator(mixture)


def test_missing_matplotlib(monkeypatch, single):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"sktem\[plot\]"):
        TemplateDisplay.from_estimator(single)
