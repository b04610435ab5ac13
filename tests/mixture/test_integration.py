"""The mixture within scikit-learn: pipelines, searches, copies, frames, routing."""

import pickle

import joblib
import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from sktem import StochasticEMGaussianMixture
from sktem.schedules import Polynomial
from sktem.solvers import FITTEM, VRTTEM
from tests.oracles import assert_same


def three_clusters(n=300, seed=0):
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 0.0], [80.0, 0.0], [0.0, 8.0]])
    return rng.normal(size=(n, 2)) * [10, 1] + centres[np.arange(n) % 3]


def test_pipeline():
    X = three_clusters()
    pipeline = make_pipeline(
        StandardScaler(), StochasticEMGaussianMixture(3, random_state=0)
    ).fit(X)
    scaled = StandardScaler().fit_transform(X)
    alone = StochasticEMGaussianMixture(3, random_state=0).fit(scaled)
    assert_same(pipeline[-1], alone)
    assert_array_equal(pipeline.predict(X), alone.predict(scaled))
    assert_array_equal(pipeline.score_samples(X), alone.score_samples(scaled))
    labels = pipeline.fit_predict(X)
    assert_array_equal(labels, alone.predict(scaled))
    # The clusters are those that the data were made of.
    assert len({(a, b) for a, b in zip(labels, np.arange(300) % 3, strict=True)}) == 3


def test_grid_search_in_two_processes():
    X = three_clusters()
    grid = {
        "mixture__solver": ["em", "vrttem", "online"],
        "mixture__n_components": [1, 3],
        "mixture__covariance_type": ["full", "diag"],
    }
    steps = [
        ("scaler", StandardScaler()),
        ("mixture", StochasticEMGaussianMixture(random_state=0, tol=1e-3)),
    ]
    found = [
        GridSearchCV(Pipeline(steps), grid, cv=2, n_jobs=n_jobs).fit(X)
        for n_jobs in (1, 2)
    ]
    for name in ("mean_test_score", "split0_test_score"):
        assert_array_equal(found[0].cv_results_[name], found[1].cv_results_[name])
    assert found[1].best_params_["mixture__n_components"] == 3
    assert np.isfinite(found[1].cv_results_["mean_test_score"]).all()
    assert_same(found[0].best_estimator_[-1], found[1].best_estimator_[-1])


def test_grid_search_agrees_with_scikit_learn():
    X = three_clusters()
    scores = [
        GridSearchCV(
            make(random_state=0, tol=1e-3), {"n_components": [1, 2, 3]}, cv=3
        ).fit(X)
        for make in (StochasticEMGaussianMixture, GaussianMixture)
    ]
    ours, theirs = (search.cv_results_["mean_test_score"] for search in scores)
    assert_allclose(ours, theirs, rtol=1e-8)


def test_search_over_the_parts_of_a_solver():
    X = three_clusters()
    mixture = StochasticEMGaussianMixture(
        3, solver=VRTTEM(), step_size=Polynomial(), random_state=0, tol=1e-3
    )
    grid = {"solver__rho": [0.1, 0.5], "step_size__alpha": [0.5, 0.9]}
    search = GridSearchCV(mixture, grid, cv=2).fit(X)
    assert set(search.best_params_) == set(grid)
    assert mixture.solver.rho == "auto"  # what was given is left alone
    assert len(set(search.cv_results_["mean_test_score"])) > 1


@pytest.mark.parametrize("solver", ["em", "online", "vrttem", FITTEM(rho=0.3)], ids=str)
def test_copies(solver, tmp_path):
    X = three_clusters(2000)
    mixture = StochasticEMGaussianMixture(
        3, solver=solver, step_size=Polynomial(alpha=0.6), random_state=0, tol=1e-2
    ).fit(X)
    twin = clone(mixture)
    assert not hasattr(twin, "means_")
    assert repr(twin.get_params()) == repr(mixture.get_params())
    assert_same(twin.fit(X), mixture)
    path = tmp_path / "mixture.joblib"
    joblib.dump(mixture, path)
    scores = mixture.score_samples(X)
    more = three_clusters(3000, seed=1)
    copies = [pickle.loads(pickle.dumps(mixture)), joblib.load(path)]
    for copy in copies:
        assert_same(copy, mixture)
        assert_array_equal(copy.score_samples(X), scores)
        assert copy.lower_bounds_ == mixture.lower_bounds_
    mixture.partial_fit(more)
    for copy in copies:
        assert_same(copy.partial_fit(more), mixture)
        assert_array_equal(copy.sample(5)[0], mixture.sample(5)[0])


def frame_of(library, X, names):
    module = pytest.importorskip(library)
    if library == "pandas":
        return module.DataFrame(X, columns=names)
    return module.DataFrame(dict(zip(names, X.T, strict=True)))


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_data_frames(method, library):
    X = three_clusters(1500)
    frame = frame_of(library, X, ["length", "width"])
    plain = StochasticEMGaussianMixture(3, random_state=0)
    getattr(plain, method)(X)
    mixture = StochasticEMGaussianMixture(3, random_state=0)
    getattr(mixture, method)(frame)
    assert_same(mixture, plain)
    assert list(mixture.feature_names_in_) == ["length", "width"]
    assert not hasattr(plain, "feature_names_in_")
    for name in ("predict", "predict_proba", "score_samples"):
        found = getattr(mixture, name)(frame)
        assert isinstance(found, np.ndarray)
        assert_array_equal(found, getattr(plain, name)(X))
    assert mixture.bic(frame) == plain.bic(X)
    swapped = frame_of(library, X[:, ::-1], ["width", "length"])
    with pytest.raises(ValueError, match="feature names"):
        mixture.predict(swapped)


def test_weights_from_a_frame():
    pandas = pytest.importorskip("pandas")
    X = three_clusters()
    weights = np.random.default_rng(0).random(300)
    settings = {"random_state": 0, "tol": 1e-3}
    first = StochasticEMGaussianMixture(3, **settings).fit(X, sample_weight=weights)
    series = pandas.Series(weights, index=np.arange(300)[::-1])
    second = StochasticEMGaussianMixture(3, **settings).fit(X, sample_weight=series)
    assert_same(first, second)


def test_metadata_routing():
    X = three_clusters()
    weights = np.random.default_rng(0).integers(1, 4, 300).astype(float)
    scaled = StandardScaler().fit_transform(X)
    settings = {"random_state": 0, "tol": 1e-3}
    alone = StochasticEMGaussianMixture(3, **settings)
    weighted = clone(alone).fit(scaled, sample_weight=weights)
    plain = clone(alone).fit(scaled)
    with sklearn.config_context(enable_metadata_routing=True):
        asks = clone(alone).set_fit_request(sample_weight=True)
        asks.set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, asks).fit(X, sample_weight=weights)
        assert_same(pipeline[-1], weighted)
        score = pipeline.score(X, sample_weight=weights)
        assert score == pytest.approx(weighted.score(scaled, sample_weight=weights))
        refuses = clone(alone).set_fit_request(sample_weight=False)
        assert_same(make_pipeline(scaler, refuses).fit(X)[-1], plain)
        with pytest.raises(ValueError, match="sample_weight"):
            make_pipeline(scaler, clone(alone)).fit(X, sample_weight=weights)
        search = GridSearchCV(asks, {"n_components": [3]}, cv=2)
        search.fit(scaled, sample_weight=weights)
        assert_same(search.best_estimator_, weighted)
        chunks = clone(alone).set_partial_fit_request(sample_weight=True)
        chunks.partial_fit(scaled, sample_weight=weights)
    assert np.abs(plain.means_ - weighted.means_).max() > 1e-6


def test_html_repr():
    mixture = StochasticEMGaussianMixture(3, solver=VRTTEM(rho=0.1), random_state=0)
    for one in (mixture, mixture.fit(three_clusters())):
        html = one._repr_html_()
        assert "StochasticEMGaussianMixture" in html
        assert "VRTTEM" in html
        assert "n_components" in html
    assert "Fitted" in html


def test_repr_shows_what_was_changed():
    mixture = StochasticEMGaussianMixture(3, tol=0.1, solver="fittem")
    text = "StochasticEMGaussianMixture(n_components=3, solver='fittem', tol=0.1)"
    assert " ".join(repr(mixture).split()) == text


def test_fits_in_threads_do_not_disturb_each_other():
    X = three_clusters(500)

    def fit(seed):
        settings = {"solver": "vrttem", "tol": 1e-2, "random_state": seed}
        return StochasticEMGaussianMixture(3, **settings).fit(X)

    alone = [fit(seed) for seed in range(4)]
    together = joblib.Parallel(n_jobs=2, prefer="threads")(
        joblib.delayed(fit)(seed) for seed in range(4)
    )
    for first, second in zip(alone, together, strict=True):
        assert_same(first, second)
