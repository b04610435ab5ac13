"""Fitted estimators survive pickle, joblib and skops, also from earlier releases.

``python tests/test_persistence.py`` writes the fits of a release into tests/pickles.
"""

import io
import pickle
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture

import sktem
from sktem import StochasticEMGaussianMixture
from sktem.e_step.random import seed_sequence
from sktem.models import RandomInterceptModel
from sktem.persistence import trusted_types

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
X[30:] += 4
BITS = (X > 1).astype(float)
IMAGES = rng.random((12, 6, 6))
GROUPS, TIMES = np.repeat(np.arange(10), 6), np.tile(np.arange(6.0), 10)
CURVES = 1 + TIMES + rng.normal(size=60) + rng.normal(size=10)[GROUPS]
COUNTS = rng.poisson(2.0, 60)
SMALL = {"template_landmarks": 6, "deformation_landmarks": 3, "max_iter": 3}
SEED = {"random_state": 0}
UNITS = {"max_iter": 2, "tol": None, **SEED}
LINE = {"parameters": {"intercept": 1.0, "slope": 1.0}, **SEED}

# A fitted estimator and what it answers.
FITS = {
    "mixture": lambda: (
        sktem.StochasticEMGaussianMixture(2, **SEED).fit(X),
        lambda fit: fit.predict_proba(X),
    ),
    "stream": lambda: (
        sktem.StochasticEMGaussianMixture(2, **SEED).partial_fit(X),
        lambda fit: fit.partial_fit(X[:20]).means_,
    ),
    "stream of few rows": lambda: (
        sktem.StochasticEMGaussianMixture(2, **SEED).partial_fit(X[:5]),
        lambda fit: fit.partial_fit(X).means_,
    ),
    "stream of bits": lambda: (
        sktem.LatentBoltzmannMachine(hidden_layer_sizes=2, **UNITS).partial_fit(BITS),
        lambda fit: fit.partial_fit(BITS).transform(BITS),
    ),
    "stream of images": lambda: (
        sktem.DeformableTemplateEstimator(**SMALL, **SEED).partial_fit(IMAGES),
        lambda fit: fit.partial_fit(IMAGES).transform(IMAGES),
    ),
    "template": lambda: (
        sktem.DeformableTemplateEstimator(**SMALL, **SEED).fit(IMAGES),
        lambda fit: fit.transform(IMAGES),
    ),
    "classifier": lambda: (
        sktem.DeformableTemplateClassifier(temperature=1.0, **SMALL, **SEED).fit(
            IMAGES, np.arange(12) % 2
        ),
        lambda fit: fit.predict_proba(IMAGES),
    ),
    "layers": lambda: (
        sktem.LatentBoltzmannMachine(hidden_layer_sizes=2, **UNITS).fit(BITS),
        lambda fit: fit.transform(BITS),
    ),
    "graph": lambda: (
        sktem.LatentBoltzmannMachine([(0, 1), (1, 2), (2, 3)], hidden=[3], **UNITS).fit(
            BITS
        ),
        lambda fit: fit.transform(BITS),
    ),
    "curves": lambda: (
        sktem.NonlinearMixedEffectsRegressor("linear", max_iter=20, **LINE).fit(
            TIMES[:, None], CURVES, groups=GROUPS
        ),
        lambda fit: fit.predict(TIMES[:, None], GROUPS),
    ),
    "counts": lambda: (
        sktem.RobustPoissonRegressor(max_iter=10, tol=0.0, **SEED).fit(X, COUNTS),
        lambda fit: fit.predict(X),
    ),
    "relevance": lambda: (
        sktem.ARDLogisticClassifier(max_iter=10, n_posterior_draws=50, **SEED).fit(
            X, BITS[:, 0]
        ),
        lambda fit: fit.predict_proba(X),
    ),
    "own model": lambda: (
        sktem.StochasticEM(RandomInterceptModel(), tol=0, max_iter=5, **SEED).fit(X),
        lambda fit: fit.score(X),
    ),
}
IGNORED = [
    "ignore::sktem.exceptions.FitWarning",
    "ignore::sklearn.exceptions.ConvergenceWarning",
]


RELEASED = Path(__file__).with_name("pickles")


def write_pickles(folder, names=tuple(FITS)):
    """Write fits of this version with what they answer, and return their paths."""
    folder = folder / sktem.__version__
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name in names:
        fit, answer = FITS[name]()
        data = pickle.dumps(fit)
        paths.append(folder / f"{name}.pickle")
        paths[-1].write_bytes(pickle.dumps((data, np.asarray(answer(fit)))))
    return paths


def assert_answers_as_then(path):
    data, expected = pickle.loads(path.read_bytes())
    _, answer = FITS[path.stem]()
    np.testing.assert_allclose(answer(pickle.loads(data)), expected, rtol=1e-6)


def by_pickle(fit):
    return pickle.loads(pickle.dumps(fit))


def by_joblib(fit):
    buffer = io.BytesIO()
    joblib.dump(fit, buffer)
    buffer.seek(0)
    return joblib.load(buffer)


def by_skops(fit):
    skops = pytest.importorskip("skops.io")
    data = skops.dumps(fit)
    found = skops.get_untrusted_types(data=data)
    assert trusted_types(found) == found
    return skops.loads(data, trusted=trusted_types(found))


@pytest.mark.parametrize("name", FITS)
@pytest.mark.filterwarnings(*IGNORED)
def test_a_saved_estimator_is_the_same(name):
    fit, answer = FITS[name]()
    missing = False
    copies = []
    for copy in (by_pickle, by_joblib, by_skops):
        try:
            copies.append(copy(fit))
        except pytest.skip.Exception:
            missing = True
    expected = answer(fit)
    for copy in copies:
        assert type(copy) is type(fit)
        np.testing.assert_array_equal(answer(copy), expected)
    if missing:
        pytest.skip("pickle and joblib work; there is no skops")


@pytest.mark.parametrize(
    "path", sorted(RELEASED.glob("*/*.pickle")), ids=lambda path: str(path)[-40:]
)
@pytest.mark.filterwarnings(
    *IGNORED, "ignore::sklearn.exceptions.InconsistentVersionWarning"
)
def test_fits_of_earlier_releases(path):
    assert_answers_as_then(path)


def test_fits_of_a_release_can_be_kept(tmp_path):
    for path in write_pickles(tmp_path, ["mixture", "stream"]):
        assert_answers_as_then(path)


@pytest.mark.parametrize("copy", [by_pickle, by_skops])
def test_a_saved_seed_goes_on(copy):
    seed = seed_sequence(3)
    seed.spawn(2)
    other = copy(seed)
    for one, two in zip(seed.spawn(2), other.spawn(2), strict=True):
        np.testing.assert_array_equal(one.generate_state(4), two.generate_state(4))


def test_only_what_sktem_needs_is_trusted():
    given = ["sktem.graphs.Graph", "sktemper.Bad", "os.system", "collections.Counter"]
    assert trusted_types(given) == ["sktem.graphs.Graph", "collections.Counter"]


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical", "unit"])
def test_mixture_of_scikit_learn(kind):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    mixture = StochasticEMGaussianMixture(2, covariance_type=kind, **SEED).fit(frame)
    twin = mixture.to_sklearn()
    assert type(twin) is GaussianMixture
    np.testing.assert_allclose(twin.predict_proba(frame), mixture.predict_proba(frame))
    np.testing.assert_allclose(twin.score_samples(frame), mixture.score_samples(frame))
    np.testing.assert_array_equal(twin.predict(frame), mixture.predict(frame))
    assert twin.sample(5)[0].shape == (5, 3)
    if kind != "unit":  # which scikit-learn does not have
        assert np.isclose(twin.bic(frame), mixture.bic(frame))
    twin.means_[:] = 0.0
    assert mixture.means_.any()


def test_a_stream_becomes_scikit_learns():
    stream = StochasticEMGaussianMixture(2, **SEED).partial_fit(X)
    twin = stream.to_sklearn()
    np.testing.assert_allclose(twin.score_samples(X), stream.score_samples(X))
    with pytest.raises(NotFittedError):
        StochasticEMGaussianMixture().to_sklearn()


if __name__ == "__main__":
    write_pickles(RELEASED)
