"""Images that are turned, mirrored or inverted among others."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sktem import DeformableTemplateEstimator
from sktem.exceptions import FitWarning
from sktem.template.turned import turned_images
from tests.template.oracles import blobs


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return lambda digit: X[y == digit][:30].reshape(-1, 8, 8)


POSITIONS = {
    "turned by 180 degrees": lambda image: image[::-1, ::-1],
    "mirrored": lambda image: image[:, ::-1],
    "transposed": lambda image: image.T,
    "with light and dark exchanged": lambda image: image.max() - image,
}


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("shape", ["square", "wide"])
def test_images_in_another_position_are_told(digits, name, shape):
    """No deformation leads there, so that the image would be explained badly."""
    if shape == "wide" and name == "transposed":
        pytest.skip("only squares can be transposed")
    sixes = digits(6).reshape(-1, 8, 8)
    if shape == "wide":
        sixes = np.pad(sixes, ((0, 0), (0, 0), (2, 2)))
    sixes[4] = POSITIONS[name](sixes[4])
    with pytest.warns(FitWarning, match=rf"1 of 30 images .*\(image 4 {name}\)"):
        DeformableTemplateEstimator(random_state=0).fit(sixes)


def test_images_in_their_position_are_not_told(digits):
    shapes = [digits(k).reshape(-1, 8, 8) for k in range(10)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", ".*in another position")
        for images in [*shapes, blobs(12), -shapes[3], shapes[5][:, :, 1:7]]:
            fit = DeformableTemplateEstimator(random_state=0).fit(images)
            assert turned_images(fit.fitted_, fit._checked(images)) == []


def test_a_template_of_each_position_is_the_remedy(digits):
    sevens, is_mirrored = digits(7), np.arange(30) % 3 == 0
    sevens[is_mirrored] = sevens[is_mirrored, :, ::-1]
    with pytest.warns(FitWarning, match="images .*mirrored.*by more n_components"):
        DeformableTemplateEstimator(random_state=0).fit(sevens)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", ".*in another position")
        two = DeformableTemplateEstimator(n_components=2, random_state=0).fit(sevens)
    labels = two.predict(sevens)
    assert (labels == labels[0]).tolist() == is_mirrored.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_much_noise_is_no_other_position(seed):
    clean = blobs(60, seed=seed)
    noise = np.random.default_rng(seed).normal(size=clean.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", ".*in another position")
        DeformableTemplateEstimator(random_state=0).fit(clean + 5 * clean.std() * noise)


@pytest.mark.parametrize("digit", [2, 4, 6, 7])
@pytest.mark.parametrize("n_images", [8, 30])
def test_new_images_in_another_position_are_told(digit, n_images):
    X, y = load_digits(return_X_y=True)
    images = X[y == digit].reshape(-1, 8, 8)
    new = images[100:120]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = DeformableTemplateEstimator(random_state=0).fit(images[:n_images])
    inverted = new.copy()
    inverted[7] = new[7].max() - new[7]
    told = r"1 of 20 images fit .* \(image 7 with light and dark exchanged\)"
    for method in (fit.transform, fit.register, fit.registration):
        with pytest.warns(FitWarning, match=told):
            method(inverted)
    with pytest.warns(FitWarning, match=r"images fit .* turned by -90 degrees"):
        fit.register(np.rot90(new, axes=(1, 2)))


@pytest.mark.parametrize("digit", range(8))
def test_new_images_that_are_not_turned_are_not_told(digit):
    """Neither new ones, nor noise, objects out of place and in another light."""
    X, y = load_digits(return_X_y=True)
    images = X[y == digit].reshape(-1, 8, 8)
    new, rng = images[100:140], np.random.default_rng(digit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = DeformableTemplateEstimator(random_state=0).fit(images[:30])
        warnings.filterwarnings("error", ".*in another position")
        for others in (
            new, new[:1], rng.normal(0, 5, (10, 8, 8)), np.roll(new, 3, axis=2),
            0.5 * new + 4, np.full((2, 8, 8), 3.0), np.full((1, 8, 8), np.nan),
            X[y == 1 - digit % 2][:10].reshape(-1, 8, 8),
        ):  # fmt: skip
            fit.register(others)
            fit.transform(others)
