"""Images that are turned, mirrored or inverted among others."""

import warnings

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter1d
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from sktem import DeformableTemplateEstimator
from sktem.exceptions import FitWarning
from sktem.template.turned import turned_images, unexplained_images
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


def beats(n, seed=0):
    """Return signals of a small wave, a spike and a large wave, moved a little."""
    rng = np.random.default_rng(seed)
    places = np.arange(80) / 80 - rng.normal(0, 0.01, size=(n, 1))
    waves = [(0.3, 0.2, 0.03), (1.0, 0.45, 0.02), (0.5, 0.7, 0.06)]
    clean = sum(a * np.exp(-(((places - c) / w) ** 2)) for a, c, w in waves)
    return clean + 0.05 * rng.normal(size=clean.shape)


def volumes(n, seed=0):
    """Return volumes of a long and a short object."""
    rng = np.random.default_rng(seed)
    grid = np.indices((8, 8, 8)) - 3.5
    moved = grid - rng.normal(0, 0.2, size=(n, 3, 1, 1, 1))
    long = np.exp(-((moved / np.reshape([3, 1, 1], (3, 1, 1, 1))) ** 2).sum(axis=1))
    short = np.exp(-((moved - np.reshape([2, 2, -1], (3, 1, 1, 1))) ** 2).sum(axis=1))
    return long + short + 0.05 * rng.normal(size=long.shape)


@pytest.mark.parametrize(
    ("make", "name", "turn"),
    [
        (beats, "reversed", lambda X: X[:, ::-1]),
        (beats, "with light and dark exchanged", np.negative),
        (volumes, r"reversed along \(0, 1\)", lambda X: X[:, ::-1, ::-1]),
        (volumes, r"with axes \(2, 1, 0\)", lambda X: X.swapaxes(1, 3)),
        (volumes, "with light and dark exchanged", np.negative),
    ],
)
def test_new_signals_and_volumes_in_another_position_are_told(make, name, turn):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        shape = make(1).shape[1:]
        fit = DeformableTemplateEstimator(shape, random_state=0).fit(make(30))
        warnings.filterwarnings("error", ".*in another position")
        new = make(10, seed=1)
        fit.transform(new)
        one = new.copy()
        one[3] = turn(new)[3]
        fit.transform(one)
    with pytest.warns(FitWarning, match=rf"10 of 10 images fit .*\(image 0 {name}"):
        fit.transform(turn(new))


@pytest.mark.parametrize("smooth", [2, 6])
@pytest.mark.parametrize("seed", range(5))
def test_new_signals_without_a_template_are_not_told(seed, smooth):
    """Some fit better reversed or negated by chance, since none of them fits well."""
    noise = np.random.default_rng(seed).normal(size=(40, 60))
    signals = gaussian_filter1d(noise, smooth, axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = DeformableTemplateEstimator((60,), random_state=0).fit(signals[:20])
        warnings.filterwarnings("error", ".*in another position")
        fit.transform(signals[20:])


@pytest.fixture(scope="module")
def with_noise():
    """Images, two of which are noise."""
    images = blobs(40)
    images[[5, 20]] = np.random.default_rng(0).normal(size=images[:2].shape)
    return images


def test_images_that_are_not_explained_are_told(with_noise):
    """The others are less likely for them: by much more than a nat an image."""
    is_odd, new = np.isin(np.arange(40), [5, 20]), blobs(40, seed=1)
    with pytest.warns(FitWarning, match=r"2 of 40 images are not .* index 5, 20\)"):
        fit = DeformableTemplateEstimator(random_state=0).fit(with_noise)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*not explained")
        alone = DeformableTemplateEstimator(random_state=0).fit(with_noise[~is_odd])
        # As if they were not there.
        weights = np.where(is_odd, 0.0, 1.0)
        DeformableTemplateEstimator(random_state=0).fit(
            list(with_noise), sample_weight=weights
        )
    assert alone.score(new) > fit.score(new) + 10


def test_left_out_images_count_in_indices(with_noise):
    weights = np.ones(40)
    weights[[0, 5, 7]] = 0.0
    with pytest.warns(FitWarning, match=r"1 of 37 images are not .* index 20\)"):
        DeformableTemplateEstimator(random_state=0).fit(
            with_noise, sample_weight=weights
        )


@pytest.mark.parametrize("seed", range(3))
def test_images_that_are_explained_are_not_told(digits, seed):
    """Nor much noise, other contrasts, blank ones, and few images."""
    rng = np.random.default_rng(seed)
    shapes, noise = blobs(40, seed=seed), rng.normal(size=(40, *blobs(1).shape[1:]))
    blank = shapes.copy()
    blank[:2] = 0.0
    gains = np.exp(0.3 * rng.normal(size=(40, 1, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", ".*not explained")
        for images in (
            *map(digits, range(seed, 10, 3)), shapes, shapes[:3], shapes + 2 * noise,
            gains * shapes, blank,
        ):  # fmt: skip
            DeformableTemplateEstimator(random_state=0).fit(images)


def test_images_that_another_template_explains_are_not_told(digits):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both = np.concatenate([digits(0), digits(1)])
        two = DeformableTemplateEstimator(n_components=2, random_state=0).fit(both)
        images, _ = unexplained_images(two.fitted_, two._checked(both))
    assert not len(images)


def test_images_are_checked_once(digits, monkeypatch):
    calls = []
    validated = DeformableTemplateEstimator._validated

    def counted(self, X, *args, **settings):
        calls.append(len(X))
        return validated(self, X, *args, **settings)

    monkeypatch.setattr(DeformableTemplateEstimator, "_validated", counted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = DeformableTemplateEstimator(random_state=0, max_iter=20).fit(digits(3))
        fit.transform(digits(3))
    assert calls == [30, 30]
