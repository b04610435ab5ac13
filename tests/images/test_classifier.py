"""What both classifiers of images do with images that are not like those they know."""

import pickle
import warnings

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.kernel_ridge import KernelRidge

from sktem import DeformableTemplateClassifier, DeformedCopiesClassifier
from sktem.exceptions import FitWarning
from sktem.images.pixels import PixelRegression
from sktem.images.units import labelled_images
from tests.template.oracles import named_kinds

SIZES = dict.fromkeys(("scale", "stretch", "rotation", "shear", "shift", "field"), 0.1)
CLASSIFIERS = {
    "copies": DeformedCopiesClassifier(
        **SIZES, brightness="relative", max_rows=120, random_state=0
    ),
    "likelihood": DeformableTemplateClassifier(
        deformation_landmarks=3, max_iter=4, random_state=0
    ),
}


BOTH = pytest.mark.parametrize("name", CLASSIFIERS)
BARS = named_kinds(60)


def of_bars(name, **settings):
    """Return a classifier of bars across and down, some of which are new to it."""
    settings = {"temperature": 1.0, **settings}
    classifier = clone(CLASSIFIERS[name]).set_params(**settings)
    return classifier.fit(BARS[0][:20], BARS[1][:20])


@BOTH
def test_predictions(name):
    (X, y), fitted = BARS, of_bars(name)
    assert fitted.score(X[20:], y[20:]) > 0.95
    assert list(fitted.classes_) == ["across", "down"]
    joint, log_proba = fitted.predict_joint_log_proba(X), fitted.predict_log_proba(X)
    odd, labels = fitted.outlier_proba(X)[:, None], fitted.predict(X)
    np.testing.assert_array_equal(fitted.classes_[joint.argmax(axis=1)], labels)
    shares = np.exp(joint - np.logaddexp(*joint.T)[:, None])
    mixed = shares + odd * (fitted.class_prior_ - shares)
    np.testing.assert_allclose(np.exp(log_proba), mixed, atol=1e-10)
    np.testing.assert_allclose(np.exp(log_proba), fitted.predict_proba(X))
    # The temperature divides scores, not priors.
    hot = of_bars(name, temperature=50.0)
    assert hot.temperature_ == 50 and fitted.temperature_ == 1
    np.testing.assert_allclose(
        hot.predict_joint_log_proba(X) - np.log(hot.class_prior_),
        (joint - np.log(fitted.class_prior_)) / 50,
    )
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_joint_log_proba(X), joint)
    for size in (1e100, 1e200, 1e300):
        found = fitted.predict_proba(size * np.sin(np.arange(72.0)).reshape(2, 36))
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        assert (found >= 0).all()


@BOTH
@pytest.mark.parametrize(
    "prior, expected",
    [
        ("uniform", [0.5, 0.5]),
        ("empirical", [0.75, 0.25]),
        ([1, 3], [0.25, 0.75]),
        ([0, 1], [0, 1]),
    ],
    ids=str,
)
def test_priors(name, prior, expected):
    X, y = BARS
    rows = np.r_[np.flatnonzero(y == "across")[:9], np.flatnonzero(y == "down")[:3]]
    classifier = clone(CLASSIFIERS[name]).set_params(class_prior=prior, temperature=1.0)
    found = classifier.fit(X[rows], y[rows])
    np.testing.assert_allclose(found.class_prior_, expected)
    if 0 in expected:
        np.testing.assert_array_equal(found.predict_proba(X), [expected] * len(X))


@BOTH
@pytest.mark.parametrize(
    "settings, message",
    [
        ({"temperature": 0}, 'temperature must be "auto" or > 0, got 0'),
        ({"temperature": "hot"}, 'temperature must be "auto" or > 0'),
        ({"temperature": -1.0}, 'temperature must be "auto" or > 0'),
        ({"class_prior": "equal"}, 'class_prior must be "empirical", "uniform" or'),
        ({"class_prior": [1.0]}, "class_prior must hold 2 non-negative numbers"),
        ({"class_prior": [1.0, -1.0]}, "class_prior must hold 2 non-negative numbers"),
    ],
    ids=str,
)
def test_wrong_parameters(name, settings, message):
    with pytest.raises(ValueError, match=message):
        of_bars(name, **settings)


@BOTH
def test_labels(name):
    X, y = BARS[0][:21], np.arange(21)
    classifier = clone(CLASSIFIERS[name])
    with pytest.raises(ValueError, match="least 2 classes, but the data contains one"):
        classifier.fit(X, 0 * y)
    with pytest.raises(ValueError, match="Unknown label type"):
        classifier.fit(X, y + 0.5)
    with pytest.raises(ValueError, match="not fitted yet"):
        classifier.predict(X)
    # One image a class is no regression.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", "The number of unique classes")
        assert len(classifier.fit(X, y).classes_) == 21


@BOTH
def test_images_like_none_have_prior_probabilities(name):
    """Stripes, a huge value, noise; and of one value, which copies know no edges of."""
    X, y = load_digits(n_class=3, return_X_y=True)
    classifier = clone(CLASSIFIERS[name]).set_params(class_prior=[0.2, 0.3, 0.5])
    fitted, rng = classifier.fit(X[:36], y[:36]), np.random.default_rng(0)
    rows = [np.tile([16.0, 0.0], 32), np.full(64, 1e6)]
    if name == "likelihood":
        rows += [np.zeros(64), np.full(64, 8.0)]
    odd = np.vstack([rows, rng.choice([0.0, 16.0], (2, 64))])
    assert fitted.outlier_proba(odd).min() > 0.9
    with warnings.catch_warnings():  # of four images nothing is said, of six it is
        warnings.simplefilter("ignore", FitWarning)
        proba = fitted.predict_proba(odd)
        logs = fitted.predict_joint_log_proba(odd)
    np.testing.assert_allclose(proba, [fitted.class_prior_] * len(odd), atol=0.1)
    # Negative controls: images of the classes, and without the outliers' share.
    part = fitted.outlier_proba(X[36:136])
    assert np.median(part) < 0.01 and (part > 0.5).mean() < 0.06
    shares = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    assert np.abs(shares - fitted.class_prior_).max() > 0.4


@pytest.fixture(scope="module", params=CLASSIFIERS)
def fitted(request):
    """A classifier of zeros and ones, and new images of them."""
    X, y = load_digits(n_class=2, return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        classifier = CLASSIFIERS[request.param].fit(X[:24], y[:24])
    return classifier, X[24:64]


def test_images_of_the_classes_are_no_cause_for_a_warning(fitted):
    classifier, X = fitted
    classifier.predict(X)
    # A few odd ones among many are told by outlier_proba alone.
    mixed = np.concatenate([X, np.random.default_rng(0).permuted(X[:15], axis=1)])
    assert (classifier.outlier_proba(mixed)[len(X) :] > 0.5).mean() > 0.5
    for image in X:
        classifier.predict(image[np.newaxis])


@BOTH
def test_single_images_of_another_kind_are_told(name):
    X, y = load_digits(n_class=3, return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        classifier = clone(CLASSIFIERS[name]).fit(X[:75], y[:75])

    def told(images):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for image in images:
                classifier.predict(image[np.newaxis])
        return sum("not like the training images" in str(w.message) for w in caught)

    new = X[75:155]
    assert told(new) <= 1  # the negative control
    assert told(16 - new[:20]) >= 18
    assert told(-30 * new[:20]) >= 18


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_images_in_another_light_are_told(fitted, method):
    classifier, X = fitted
    changed = 100.0 * X + 3000.0
    changed = np.random.default_rng(0).normal(changed, 1000.0)
    with pytest.warns(FitWarning, match="to the same contrast and brightness"):
        getattr(classifier, method)(changed)


def test_other_images_in_the_same_light_are_told(fitted):
    classifier, X = fitted
    with pytest.warns(FitWarning, match="crop, centre and scale them"):
        classifier.predict(np.random.default_rng(0).permuted(X, axis=1))


def test_objects_that_the_frame_cuts(fitted):
    """Copies are moved back; a template without translations says where they lie."""
    classifier, X = fitted
    cut = np.zeros((len(X), 8, 8))
    cut[:, 2:] = X.reshape(-1, 8, 8)[:, :-2]
    if isinstance(classifier, DeformedCopiesClassifier):
        labels = classifier.predict(X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)
            assert np.mean(classifier.predict(cut.reshape(-1, 64)) == labels) > 0.9
        return
    with pytest.warns(FitWarning, match="or the frame cuts them"):
        classifier.predict(cut.reshape(-1, 64))


def test_images_that_were_always_cut_are_no_cause_for_a_warning():
    """Negative control: objects at the border, and a corner that is always dark."""
    X, y = load_digits(n_class=2, return_X_y=True)
    cut = np.zeros((len(X), 8, 8))
    cut[:, 3:] = X.reshape(-1, 8, 8)[:, :-3]
    cut[:, 5:, :3] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        for classifier in CLASSIFIERS.values():
            classifier.fit(cut[:24], y[:24]).predict(cut[24:64])


def test_patches_without_data_are_told(fitted):
    """Bright patches of 2 x 2 pixels; and few of them, as a negative control."""
    classifier, X = fitted
    images, rng = X.reshape(-1, 8, 8).copy(), np.random.default_rng(0)
    for image in images:
        for row, column in rng.integers(0, 6, (3, 2)):
            image[row : row + 2, column : column + 2] = 16.0
    patchy = images.reshape(X.shape)
    with pytest.warns(FitWarning, match="training images"):
        classifier.predict(patchy)
    classifier.predict(np.concatenate([X, patchy[:4]]))


@BOTH
def test_patches_of_one_value_are_missing(name):
    """In images with noise, but for those that the training images have as well."""
    rng = np.random.default_rng(0)
    X, y = load_digits(n_class=2, return_X_y=True)
    order = rng.permutation(len(X))  # else every writer follows the next
    X, y = X[order] + 0.1 * rng.normal(size=X.shape), y[order]
    images = X.reshape(-1, 8, 8)
    images[:, :2, :2] = 5.0
    lost = X[24:34].copy()
    lost.reshape(-1, 8, 8)[3, 3:5, 4:6] = np.nan
    dead = np.where(np.isnan(lost), 0.0, lost)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        classifier = CLASSIFIERS[name].fit(X[:24], y[:24])
        expected = classifier.predict_joint_log_proba(lost)
        classifier.predict(X[24:])
    with pytest.warns(FitWarning, match="1 of 10 images have patches of one value"):
        found = classifier.predict_joint_log_proba(dead)
    np.testing.assert_array_equal(found, expected)
    # Five and more are judged: they are told where they are not as usual.
    images = X[24:64].reshape(-1, 8, 8).copy()
    images[:, 3:5, 6:] = 8.0
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        assert classifier.score(images.reshape(-1, 64), y[24:64]) > 0.9
    images[:] = rng.permuted(images.reshape(40, 64), axis=1).reshape(images.shape)
    images[:, :2, :2], images[:, 3:5, 6:] = 5.0, 8.0
    with pytest.warns(FitWarning) as told:
        classifier.predict(images.reshape(-1, 64))
    assert any("40 of 40 images have patches" in str(one.message) for one in told)


@BOTH
def test_a_corner_that_one_class_has_is_no_patch(name):
    X, y = load_digits(n_class=2, return_X_y=True)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))  # else every writer follows the next
    X, y = X[order] + 0.1 * rng.normal(size=X.shape), y[order]
    X.reshape(-1, 8, 8)[y == 1, :2, :2] = 5.0
    train = np.concatenate([np.flatnonzero(y == label)[:12] for label in (0, 1)])
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        classifier = CLASSIFIERS[name].fit(X[train], y[train])
        assert classifier.score(X[100:140], y[100:140]) == 1.0


def test_strings_are_no_images(fitted):
    classifier, X = fitted
    with pytest.raises(ValueError, match="images must be numbers, got strings"):
        classifier.predict(X.astype(str))
    with pytest.raises(ValueError, match="images must be numbers, got strings"):
        CLASSIFIERS["copies"].fit(X.astype(str).tolist(), np.arange(len(X)) % 2)
    np.testing.assert_array_equal(
        classifier.predict(X.tolist()), classifier.predict(X.astype(object))
    )


@BOTH
def test_pixels_that_no_training_image_shows_do_not_count(name):
    X, y = load_digits(n_class=2, return_X_y=True)
    known = X[:24].copy()
    known[:, 40:] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        classifier = CLASSIFIERS[name].fit(known, y[:24])
        whole, half, other = (X[24:34].copy() for _ in range(3))
        half[:, 40:], other[:, 20] = np.nan, 16.0
        found = classifier.predict_joint_log_proba(whole)
        np.testing.assert_array_equal(found, classifier.predict_joint_log_proba(half))
        assert (found != classifier.predict_joint_log_proba(other)).any()


def labelled(X, y):
    """Return what is said of labels and images when they are checked."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        labelled_images(CLASSIFIERS["copies"], X, y, None)
    return [str(one.message) for one in caught if one.category is FitWarning]


def test_equal_images_of_several_classes_are_told():
    X, y = load_digits(n_class=2, return_X_y=True)
    twice = np.concatenate([X[:20], X[:20]])
    (found,) = labelled(twice, np.concatenate([y[:20], y[:20] + 2]))
    assert found.startswith("40 of 40 images are exact copies of images of another")
    (found,) = labelled(np.ones((6, 64)), np.arange(6) % 2)
    assert found.startswith("6 of 6 images")
    # Negative controls: copies within a class, and a single slip among many images.
    assert labelled(twice, np.concatenate([y[:20], y[:20]])) == []
    slip = np.concatenate([X[:40], X[:1]])
    assert labelled(slip, np.concatenate([y[:40], 1 - y[:1]])) == []


def test_images_that_show_nothing_are_told():
    X, y = load_digits(n_class=2, return_X_y=True)
    gaps = X[:20].copy()
    gaps[3], gaps[5, :60] = np.nan, np.nan
    (found,) = labelled(gaps, y[:20])
    assert found.startswith("1 of 20 images have no pixel that was observed")


@pytest.mark.parametrize(
    "kind", [DeformedCopiesClassifier, DeformableTemplateClassifier]
)
def test_wrong_labels_are_told(kind):
    X, y = load_digits(n_class=3, return_X_y=True)
    X, y = X[:36], y[:36]
    classifier = kind(random_state=0)
    with pytest.warns(FitWarning, match="left out by folds.*wrong labels"):
        classifier.fit(X, np.random.default_rng(0).permutation(y))
    classifier.fit(X, y)  # the negative control


@pytest.mark.parametrize("n", [60, 200])
def test_a_tenth_of_wrong_labels_is_told(n):
    """By copies, since such images surely look like those of another class."""
    X, y = load_digits(n_class=6, return_X_y=True)
    X, y, rng = X[:n], y[:n], np.random.default_rng(0)
    classifier = DeformedCopiesClassifier(
        **{**SIZES, "values": 0.0}, max_rows=max(600, n), random_state=0
    )
    classifier.fit(X, y)  # the negative control
    wrong = np.where(rng.random(n) < 0.1, (y + rng.integers(1, 6, n)) % 6, y)
    with pytest.warns(FitWarning, match="another class beyond doubt.*wrong labels"):
        classifier.fit(X, wrong)


def test_scores_by_pixels_are_those_without_the_image():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(9, 4)), np.arange(9) % 3
    gamma, targets = 1 / (2 * X.var(axis=0).sum()), np.eye(3)[labels]
    for size in (1.0, 1e200):
        found = PixelRegression(ridge=0.2).left_out(size * X, labels)
        for i in range(9):
            others = np.delete(np.arange(9), i)
            peer = KernelRidge(alpha=0.2, kernel="rbf", gamma=gamma)
            peer.fit(X[others], (targets - 1 / 3)[others])
            np.testing.assert_allclose(found[i], 1 / 3 + peer.predict(X[[i]])[0])


def test_missing_pixels_are_at_the_mean_of_those_observed():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(3.0, 1.0, (12, 4)), np.arange(12) % 3
    X[rng.random(X.shape) < 0.3] = np.nan
    filled = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    pixels = PixelRegression()
    np.testing.assert_allclose(
        pixels.left_out(X, labels), pixels.left_out(filled, labels)
    )


def test_classes_that_single_pixels_tell_apart_are_told():
    """Squares as large as a pixel, or two, of a board: nothing that is deformed."""
    rng, (i, j) = np.random.default_rng(0), np.indices((8, 8))
    boards = [1.0 - 2 * ((i // a + j // b) % 2) for a in (1, 2) for b in (1, 2)]
    y = np.repeat(np.arange(4), 12)
    X = np.array(boards)[y] + rng.normal(size=(48, 8, 8))
    with pytest.warns(FitWarning, match="A regression on pixels gets 100%"):
        DeformableTemplateClassifier(random_state=0).fit(X, y)
    # Negative controls: another classifier of them, and images of objects.
    DeformedCopiesClassifier(max_rows=600, random_state=0).fit(X, y)
    X, y = load_digits(n_class=4, return_X_y=True)
    DeformableTemplateClassifier(random_state=0).fit(X[:40], y[:40])


def test_contrasts_that_differ_are_told():
    rng, (X, y) = np.random.default_rng(0), load_digits(n_class=3, return_X_y=True)
    light = rng.lognormal(0, 1, (36, 1)), rng.normal(0, 40, (36, 1))
    X, y = X[:36] * light[0] + light[1], y[:36]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DeformableTemplateClassifier(random_state=0).fit(X, y)
        told = [str(one.message) for one in caught if "left out by" in str(one.message)]
        assert len(told) == 1 and 'nuisances=("gain", "offset")' in told[0]
        caught.clear()
        lit = DeformableTemplateClassifier(nuisances=("gain", "offset"), random_state=0)
        lit.fit(X, y)
        assert not any("left out by" in str(one.message) for one in caught)
