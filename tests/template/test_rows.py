"""Templates of images that are read by blocks are those of the array."""

import numpy as np
import pytest
from sklearn.base import clone

from sktem import DeformableTemplateClassifier, DeformableTemplateEstimator
from tests.rows.adapters import Chunked
from tests.template.oracles import SMALL, blobs

FITTED = ("coefficients_", "covariances_", "noise_variances_", "offset_", "fold_rate_")
SIDE = round(np.sqrt(blobs(1).size))
IMAGES = np.round(60 * blobs(36) + 100).astype(np.uint8).reshape(36, SIDE, SIDE)
ROWS = IMAGES.reshape(36, -1).astype(float)


def npy(folder):
    np.save(folder / "a.npy", IMAGES[:11])
    np.save(folder / "b.npy", IMAGES[11:])
    return str(folder / "*.npy")


def memory_map(folder):
    np.save(folder / "all.npy", IMAGES)
    return np.load(folder / "all.npy", mmap_mode="r")


def zarr_array(folder):
    zarr = pytest.importorskip("zarr")
    store = str(folder / "images.zarr")
    made = zarr.create_array(
        store, shape=IMAGES.shape, chunks=(5, *IMAGES.shape[1:]), dtype="u1"
    )
    made[:] = IMAGES
    return made


def hdf5(folder):
    h5py = pytest.importorskip("h5py")
    return h5py.File(folder / "images.h5", "w").create_dataset("images", data=IMAGES)


def assert_same(one, two):
    for name in FITTED:
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


@pytest.fixture(scope="module")
def whole():
    return DeformableTemplateEstimator(**SMALL).fit(IMAGES)


@pytest.mark.filterwarnings("ignore:.*pixels lie where deformations fold")
@pytest.mark.parametrize("source", [npy, memory_map, zarr_array, hdf5])
def test_fit_and_answers(source, whole, tmp_path):
    X = source(tmp_path)
    fitted = DeformableTemplateEstimator(**SMALL).fit(X)
    assert_same(fitted, whole)
    assert fitted.image_shape_ == (SIDE, SIDE)
    for name in ("modes_of", "score_samples", "predict"):
        expected = getattr(whole, name)(IMAGES)
        out = np.empty_like(expected)
        getattr(fitted, name)(X, out=out)
        np.testing.assert_array_equal(out, expected)
    if isinstance(X, str):
        blocks = list(fitted.transform(X))
        np.testing.assert_array_equal(np.concatenate(blocks), whole.transform(IMAGES))
        assert fitted.score(X) == whole.score(IMAGES)


class ZarrArray:
    """Counts the chunks that are read."""

    chunks, n_read = (20, SIDE, SIDE), 0

    def __init__(self, images):
        self.images = images
        self.shape, self.ndim, self.dtype = images.shape, images.ndim, images.dtype

    def __getitem__(self, rows):
        touched = np.arange(len(self.images))[rows] // self.chunks[0]
        self.n_read += len(np.unique(touched))
        return self.images[rows]


def test_chunks_of_images_are_read_once_in_a_pass(monkeypatch):
    """Each batch of a shuffled pass read nearly all of them."""
    monkeypatch.setattr(ZarrArray, "__module__", "zarr")
    n_read = []
    for max_iter in (1, 3):
        X = ZarrArray(np.concatenate([IMAGES] * 5))
        options = {**SMALL, "max_iter": max_iter, "solver": "isaem"}
        DeformableTemplateEstimator(**options, batch_size=10).fit(X)
        n_read.append(X.n_read)
    assert 0 < n_read[1] - n_read[0] <= 4 * 9


def test_rows_read_in_order():
    """By "saem" as from the array; other solvers shuffle."""
    saem = DeformableTemplateEstimator(**SMALL, solver="saem")
    assert_same(clone(saem).fit(ROWS), saem.fit(Chunked(ROWS, (5, 9))))
    isaem = DeformableTemplateEstimator(**SMALL).fit(Chunked(ROWS, (5, 9)))
    assert np.isfinite(isaem.noise_variances_).all()


def test_missing_pixels_and_weights(tmp_path):
    images = IMAGES.astype(float)
    images[3, 2, 2] = np.nan
    np.save(tmp_path / "some.npy", images)
    weights = np.linspace(1, 2, 36)
    template = DeformableTemplateEstimator(**SMALL)
    expected = clone(template).fit(images, sample_weight=weights)
    path = str(tmp_path / "some.npy")
    assert_same(template.fit(path, sample_weight=weights), expected)


def test_start_from_a_sample(tmp_path, memory_budget, whole):
    memory_budget(kept=20 * ROWS.shape[1])
    fitted = DeformableTemplateEstimator(**SMALL).fit(npy(tmp_path))
    gap = whole.score(IMAGES) - fitted.score(IMAGES)
    spread = whole.score_samples(IMAGES).std() / 6
    assert abs(gap) < 3 * spread


def test_stream(tmp_path):
    streamed = DeformableTemplateEstimator(**SMALL).partial_fit(IMAGES)
    for X in (npy(tmp_path), iter([IMAGES[:11], IMAGES[11:]])):
        fitted = DeformableTemplateEstimator(**SMALL).partial_fit(X)
        assert fitted.n_samples_seen_ == 36
        assert np.isfinite(fitted.score(IMAGES)) and np.isfinite(streamed.score(IMAGES))


def test_images_of_different_shapes(tmp_path):
    np.save(tmp_path / "a.npy", IMAGES)
    np.save(tmp_path / "b.npy", IMAGES[:, :-1])
    with pytest.raises(ValueError, match="images of different shapes"):
        DeformableTemplateEstimator(**SMALL).fit(tmp_path)


def test_classifier(tmp_path):
    labels = np.arange(36) % 2
    classifier = DeformableTemplateClassifier(**SMALL, temperature=1.0)
    X = npy(tmp_path)
    with pytest.raises(TypeError, match="Classifier needs X in memory"):
        classifier.fit(X, labels)
    classifier.fit(IMAGES, labels)
    for name in ("predict", "predict_proba"):
        expected = getattr(classifier, name)(IMAGES)
        blocks = np.concatenate(list(getattr(classifier, name)(X)))
        np.testing.assert_array_equal(blocks, expected)
        out = np.empty_like(expected)
        np.testing.assert_array_equal(getattr(classifier, name)(X, out=out), expected)
    assert classifier.score(X, labels) == classifier.score(IMAGES, labels)


@pytest.mark.parametrize("cut", [(7, 4, 3), (7, 4, 2)])
def test_stacks_of_images_on_dask(cut):
    """With their own axes, cut in any way, and of an unknown number."""
    arrays = pytest.importorskip("dask.array")
    images = np.random.default_rng(0).random((20, 4, 3))
    template = DeformableTemplateEstimator(max_iter=1, random_state=0)
    expected = clone(template).fit(images)
    stack = arrays.from_array(images, chunks=cut)
    for X in (stack, stack[stack[:, 0, 0] >= 0]):
        with pytest.raises(TypeError, match="Dask collection do not"):
            clone(template).fit(X)
        modes = expected.modes_of(X).compute()
        np.testing.assert_allclose(modes, expected.modes_of(images), atol=1e-10)
    with pytest.raises(ValueError, match=r"rows and columns, got shape \(240,\)"):
        expected.modes_of(stack.ravel())


@pytest.mark.filterwarnings("ignore:.*pixels lie where deformations fold")
def test_lists_of_images_are_answered_by_arrays(whole):
    """A list of images is no list of chunks, which iterators are."""
    images = [*IMAGES[:4]]
    for name in ("transform", "modes_of", "score_samples", "predict", "predict_proba"):
        method = getattr(whole, name)
        answers = method(images)
        assert isinstance(answers, np.ndarray), name
        np.testing.assert_array_equal(answers, method(IMAGES[:4]))
        chunks = list(method(chunk for chunk in (IMAGES[:2], IMAGES[2:4])))
        assert len(chunks) == 2
    fitted = DeformableTemplateEstimator(**SMALL)
    assert isinstance(fitted.fit_transform([*IMAGES]), np.ndarray)
