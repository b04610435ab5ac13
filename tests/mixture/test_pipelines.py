"""The estimator inside scikit-learn: pipelines, searches, frames, copies, routing."""

import pickle
import warnings

import joblib
import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktem import StochasticEMGaussianMixture
from sktem.schedules import Polynomial
from sktem.solvers import VRTTEM

FITTED = ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_")


@pytest.fixture(scope="module", name="X")
def simulated():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=1500)
    return rng.normal(size=(1500, 2)) + 6 * labels[:, None] * [1, -1]


def test_pipeline(X):
    ours = make_pipeline(
        StandardScaler(), StochasticEMGaussianMixture(3, random_state=0)
    ).fit(X)
    peer = make_pipeline(
        StandardScaler(), GaussianMixture(3, random_state=0, tol=1e-6, max_iter=1000)
    ).fit(X)
    assert_allclose(ours.score(X), peer.score(X), rtol=1e-10)
    assert_array_equal(ours.predict(X), peer.predict(X))
    assert_allclose(ours.predict_proba(X), peer.predict_proba(X), atol=1e-8)


def test_grid_search_over_solvers_and_components(X):
    grid = {"solver": ["em", "vrttem", "fittem"], "n_components": [1, 2, 3]}
    search = GridSearchCV(
        StochasticEMGaussianMixture(random_state=0, tol=1e-3),
        grid,
        cv=KFold(3),
        n_jobs=2,
    ).fit(X)
    assert search.best_params_["n_components"] == 3
    for solver in grid["solver"]:
        one = GridSearchCV(
            StochasticEMGaussianMixture(random_state=0, tol=1e-3, solver=solver),
            {"n_components": [3]},
            cv=KFold(3),
        ).fit(X)
        rows = np.array(search.cv_results_["param_solver"] == solver)
        best = search.cv_results_["mean_test_score"][rows].max()
        assert best == one.best_score_  # the same in a worker process
    assert (
        search.best_score_
        > cross_val_score(StochasticEMGaussianMixture(1), X, cv=KFold(3)).mean()
    )


def test_search_reaches_into_the_parts(X):
    mixture = StochasticEMGaussianMixture(
        3, solver=VRTTEM(), step_size=Polynomial(0.6), random_state=0, tol=1e-3
    )
    grid = {"solver__rho": [0.05, 0.5], "step_size__alpha": [0.5, 0.9]}
    search = GridSearchCV(mixture, grid, cv=KFold(2)).fit(X)
    assert set(search.best_params_) == set(grid)
    scores = search.cv_results_["mean_test_score"]
    assert len(np.unique(scores)) > 1


@pytest.mark.parametrize("solver", ["em", "online", "fittem"])
def test_copies(X, solver, tmp_path):
    mixture = StochasticEMGaussianMixture(
        3, solver=solver, random_state=0, tol=1e-3
    ).fit(X)
    joblib.dump(mixture, tmp_path / "mixture.joblib")
    copies = [
        pickle.loads(pickle.dumps(mixture)),
        joblib.load(tmp_path / "mixture.joblib"),
        clone(mixture).fit(X),
    ]
    for copy in copies:
        for name in FITTED:
            assert_array_equal(getattr(copy, name), getattr(mixture, name))
        assert_array_equal(copy.predict_proba(X), mixture.predict_proba(X))
    # A copy goes on with the stream as the original does.
    first = copies[0].partial_fit(X[:400])
    assert_array_equal(first.means_, mixture.partial_fit(X[:400]).means_)
    assert not hasattr(clone(mixture), "means_")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames(X, library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"length": X[:, 0], "width": X[:, 1]})
    mixture = StochasticEMGaussianMixture(3, random_state=0)
    assert_array_equal(
        mixture.fit(frame).means_,
        StochasticEMGaussianMixture(3, random_state=0).fit(X).means_,
    )
    assert list(mixture.feature_names_in_) == ["length", "width"]
    mixture.predict(frame)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        mixture.predict(X)
    with pytest.raises(ValueError, match="feature names should match"):
        mixture.predict(frame[["width", "length"]])
    stream = StochasticEMGaussianMixture(3, random_state=0)
    stream.partial_fit(frame[:700]).partial_fit(frame[700:])
    assert stream.n_samples_seen_ == len(X)


def test_weights_are_routed_through_a_pipeline(X):
    weights = np.where(X[:, 0] > 3, 3.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        mixture = StochasticEMGaussianMixture(2, random_state=0)
        mixture.set_fit_request(sample_weight=True)
        mixture.set_score_request(sample_weight=True)
        pipeline = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False), mixture
        )
        pipeline.fit(X, sample_weight=weights)
        score = pipeline.score(X, sample_weight=weights)
    direct = StochasticEMGaussianMixture(2, random_state=0)
    scaled = StandardScaler().fit_transform(X)
    direct.fit(scaled, sample_weight=weights)
    assert_array_equal(pipeline[-1].means_, direct.means_)
    assert score == pytest.approx(direct.score(scaled, sample_weight=weights))
    plain = StochasticEMGaussianMixture(2, random_state=0).fit(scaled)
    assert np.abs(plain.weights_ - direct.weights_).max() > 0.01


@pytest.mark.filterwarnings("ignore:.*no effect")
@pytest.mark.parametrize("solver", ["em", "online", "iem", "vrttem", "fittem"])
@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_threads_do_not_change_a_bit(solver, kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(70_000, 2)) + 4 * rng.integers(2, size=(70_000, 1))
    settings = {
        "solver": solver,
        "covariance_type": kind,
        "init_size": 1000,
        "max_iter": 3,
        "tol": 0.0,
        "batch_size": 40_000,
        "random_state": 0,
    }
    first, second = (
        StochasticEMGaussianMixture(2, n_jobs=n_jobs, **settings).fit(X)
        for n_jobs in (1, 2)
    )
    for name in FITTED:
        assert_array_equal(getattr(first, name), getattr(second, name))
    assert first.lower_bounds_ == second.lower_bounds_
    assert_array_equal(first.score_samples(X), second.score_samples(X))


@pytest.mark.parametrize("solver", ["em", "saem", "mcem", "online", "iem", "vrttem"])
def test_a_seed_fixes_every_bit(solver):
    X = np.random.default_rng(0).exponential(size=(1500, 2))  # no clear clusters
    settings = {"solver": solver, "max_iter": 5, "tol": 0.0}
    sampler = "mc" if solver in ("saem", "vrttem") else "auto"
    first, again, other = (
        StochasticEMGaussianMixture(3, sampler=sampler, random_state=seed, **settings)
        .fit(X)
        .means_
        for seed in (0, 0, 1)
    )
    assert_array_equal(first, again)
    assert np.any(first != other)
    for make in (np.random.RandomState, np.random.default_rng):
        one, two = (
            StochasticEMGaussianMixture(3, random_state=make(7), **settings).fit(X)
            for _ in range(2)
        )
        assert_array_equal(one.means_, two.means_)


def test_html_and_text(X):
    mixture = StochasticEMGaussianMixture(3, solver="vrttem", random_state=0).fit(X)
    assert "StochasticEMGaussianMixture" in mixture._repr_html_()
    assert repr(mixture).startswith("StochasticEMGaussianMixture(n_components=3, ")


@pytest.mark.parametrize("verbose", [1, 2])
def test_prints_what_the_peer_prints(X, verbose, capsys):
    settings = {"verbose": verbose, "verbose_interval": 2, "max_iter": 5, "tol": 0.0}
    printed = []
    for mixture in (
        GaussianMixture(3, random_state=0, **settings),
        StochasticEMGaussianMixture(3, random_state=0, **settings),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mixture.fit(X)
        lines = capsys.readouterr().out.splitlines()
        printed.append([line.split("time lapse")[0].rstrip() for line in lines])
    assert [line for line in printed[1] if "Iteration" in line] == [
        line for line in printed[0] if "Iteration" in line
    ]
    assert printed[1][0] == printed[0][0] == "Initialization 0"


def test_criteria(X):
    mixture = StochasticEMGaussianMixture(3, random_state=0).fit(X)
    peer = GaussianMixture(3, random_state=0, tol=1e-6, max_iter=1000).fit(X)
    assert_allclose(mixture.bic(X), peer.bic(X), rtol=1e-10)
    assert_allclose(mixture.aic(X), peer.aic(X), rtol=1e-10)
    probabilities = peer.predict_proba(X)
    positive = probabilities[probabilities > 0]
    entropy = -(positive * np.log(positive)).sum()
    assert_allclose(mixture.icl(X), peer.bic(X) + 2 * entropy, rtol=1e-9)
