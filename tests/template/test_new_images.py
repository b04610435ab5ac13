"""Images without contrast, and new images in another light than those of the fit."""

import warnings

import numpy as np
import pytest

from sktem import DeformableTemplateEstimator
from sktem.exceptions import FitWarning
from tests.template.oracles import blobs


@pytest.fixture(scope="module")
def fit():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return DeformableTemplateEstimator(random_state=0).fit(blobs(12))


@pytest.mark.parametrize("change", [
    lambda X: 255 * X, lambda X: X / 255, lambda X: X + 50 * X.std(),
    lambda X: X - 1000.0, lambda X: (X * 255)[:1],
], ids=["255", "1/255", "brighter", "below", "one"])  # fmt: skip
def test_new_images_in_other_units_are_told(fit, change):
    new = change(blobs(8, seed=1))
    for method in (fit.transform, fit.register, fit.registration):
        with pytest.warns(FitWarning, match="same contrast and brightness"):
            method(new)


def test_new_images_in_much_the_same_light_are_not_told(fit):
    """Nor one that differs among others, missing pixels, or light as a nuisance."""
    new = blobs(8, seed=1)
    holes = np.where(np.random.default_rng(0).random(new.shape) < 0.3, np.nan, new)
    one_off, one_lost = new.copy(), new.copy()
    one_off[2] *= 100
    one_lost[2] = np.nan
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*same contrast and brightness")
        for X in (new, new[:1], 0.5 * new, 2 * new, new + new.std(), holes, one_off,
                  one_lost):  # fmt: skip
            fit.register(X)
            fit.transform(X)
        lit = DeformableTemplateEstimator(nuisances=("gain", "offset"), random_state=0)
        lit.fit(blobs(12)).register(10 * new)


def told_by_fit(X):
    """Return the fitted template, and its warnings by their texts."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = DeformableTemplateEstimator(random_state=0).fit(X)
    assert not any(issubclass(w.category, RuntimeWarning) for w in caught)
    return fit, " ".join(str(w.message) for w in caught)


@pytest.mark.parametrize("values", [np.ones(5), np.zeros(9), np.arange(9.0)])
def test_images_without_contrast_are_told(values):
    X = values[:, None] + np.zeros(64)
    assert "one value alone" in told_by_fit(X)[1]
    X[1, 7] += 1  # one image has contrast
    assert "one value alone" not in told_by_fit(X)[1]


def test_copies_of_one_image_are_told_as_such():
    """Their pixels have no density, which is no reason for warnings of NumPy's."""
    fit, texts = told_by_fit(np.repeat(blobs(1), 8, axis=0))
    assert np.isfinite(fit.templates_).all()
    assert "exact copies" in texts and "one value" not in texts
