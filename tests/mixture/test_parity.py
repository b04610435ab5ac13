"""Batch EM against scikit-learn's mixture, and the solvers against batch EM."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_blobs
from sklearn.mixture import GaussianMixture

from sktem import StochasticEMGaussianMixture
from sktem.schedules import Constant
from sktem.solvers import FITTEM, VRTTEM
from tests.emissions.structures import LEARNED as KINDS
from tests.emissions.structures import reduced

# Runs are cut at a number of iterations, on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def one_dimension():
    rng = np.random.default_rng(0)
    return rng.normal(size=(150, 1)) + 3 * rng.integers(0, 2, (150, 1))


def badly_scaled():
    X = load_wine().data
    return X[:, [0, 4, 12]]  # standard deviations from 0.8 to 300


DATA = {
    "blobs": (lambda: make_blobs(200, 3, centers=4, random_state=1)[0], 3),
    "iris": (lambda: load_iris().data, 3),
    "wine": (badly_scaled, 2),
    "one dimension": (one_dimension, 2),
    "no clusters": (lambda: np.random.default_rng(3).normal(size=(120, 4)), 2),
}


@pytest.fixture(params=sorted(DATA))
def data(request):
    make, n_components = DATA[request.param]
    return make(), n_components


def assert_same_parameters(mixture, peer, rtol=1e-8):
    for name in ("weights_", "means_", "covariances_", "precisions_"):
        expected = getattr(peer, name)
        atol = rtol * np.abs(expected).max()
        assert_allclose(
            getattr(mixture, name), expected, rtol=rtol, atol=atol, err_msg=name
        )


def assert_same_answers(mixture, peer, X):
    assert_array_equal(mixture.predict(X), peer.predict(X))
    assert_allclose(mixture.predict_proba(X), peer.predict_proba(X), atol=1e-8)
    assert_allclose(mixture.score_samples(X), peer.score_samples(X), rtol=1e-8)
    assert mixture.score(X) == pytest.approx(peer.score(X), rel=1e-10)
    assert mixture.bic(X) == pytest.approx(peer.bic(X), rel=1e-10)
    assert mixture.aic(X) == pytest.approx(peer.aic(X), rel=1e-10)
    for ours, theirs in zip(mixture.sample(40), peer.sample(40), strict=True):
        assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6 * np.abs(X).max())


def both(X, **settings):
    settings = {"random_state": 0, "tol": 0.0, **settings}
    mixture = StochasticEMGaussianMixture(**settings).fit(X)
    return mixture, GaussianMixture(**settings).fit(X)


# ------------------------------------------------------------------------- batch EM


@pytest.mark.parametrize("init_params", ["kmeans", "random"])
@pytest.mark.parametrize("kind", KINDS)
def test_trajectory(data, kind, init_params):
    X, n_components = data
    for seed, numbers in {1: (1, 10), 0: (1, 2, 3, 5, 40)}.items():
        settings = {
            "n_components": n_components,
            "covariance_type": kind,
            "init_params": init_params,
            "random_state": seed,
        }
        for max_iter in numbers:
            mixture, peer = both(X, max_iter=max_iter, **settings)
            assert_same_parameters(mixture, peer)
            assert mixture.n_iter_ == peer.n_iter_ == max_iter
        assert len(mixture.lower_bounds_) == max_iter
        assert_allclose(mixture.lower_bounds_, mixture.history_.objective)
        if hasattr(peer, "lower_bounds_"):  # scikit-learn 1.7
            assert_allclose(mixture.lower_bounds_, peer.lower_bounds_, rtol=1e-8)
        assert_same_answers(mixture, peer, X)


@pytest.mark.parametrize("kind", KINDS)
def test_no_iteration_gives_the_start(kind):
    X = load_iris().data
    mixture, peer = both(X, n_components=3, covariance_type=kind, max_iter=0)
    assert_same_parameters(mixture, peer, rtol=1e-10)
    assert mixture.n_iter_ == peer.n_iter_ == 0
    assert mixture.converged_ == peer.converged_
    assert_array_equal(mixture.predict(X), peer.predict(X))


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("kind", KINDS)
def test_stops_where_scikit_learn_stops(data, kind, tol):
    X, n_components = data
    mixture, peer = both(
        X, n_components=n_components, covariance_type=kind, tol=tol, max_iter=60
    )
    assert mixture.n_iter_ == peer.n_iter_
    assert mixture.converged_ == peer.converged_
    assert mixture.lower_bound_ == pytest.approx(peer.lower_bound_, rel=1e-10)
    assert_same_parameters(mixture, peer)


@pytest.mark.parametrize("kind", KINDS)
def test_best_of_several_starts(kind):
    X = make_blobs(150, 2, centers=6, cluster_std=2.0, random_state=2)[0]
    settings = {"covariance_type": kind, "init_params": "random", "max_iter": 30}
    different = set()
    for seed in range(3):
        mixture, peer = both(X, n_components=4, n_init=3, random_state=seed, **settings)
        assert_same_parameters(mixture, peer)
        assert mixture.lower_bound_ == pytest.approx(peer.lower_bound_, rel=1e-10)
        single, _ = both(X, n_components=4, n_init=1, random_state=seed, **settings)
        assert mixture.lower_bound_ >= single.lower_bound_
        different.add(mixture.lower_bound_ > single.lower_bound_ + 1e-6)
    assert True in different  # several starts do something


def given_start(X, kind):
    rng = np.random.default_rng(7)
    d = X.shape[1]
    factors = rng.normal(size=(3, d, d + 3))
    precisions = factors @ factors.transpose(0, 2, 1) / d
    return {
        "weights_init": [0.2, 0.5, 0.3],
        "means_init": X[[3, 60, 110]],
        "precisions_init": reduced(kind, precisions, np.full(3, 1 / 3)),
    }


@pytest.mark.parametrize(
    "names",
    [
        ("weights_init",),
        ("means_init",),
        ("precisions_init",),
        ("weights_init", "precisions_init"),
        ("weights_init", "means_init", "precisions_init"),
    ],
    ids="+".join,
)
@pytest.mark.parametrize("kind", KINDS)
def test_given_start(kind, names):
    X = load_iris().data
    start = given_start(X, kind)
    settings = {name: start[name] for name in names}
    for max_iter in (1, 2, 5, 25):
        mixture, peer = both(
            X, n_components=3, covariance_type=kind, max_iter=max_iter, **settings
        )
        assert_same_parameters(mixture, peer)
    assert_same_answers(mixture, peer, X)
    plain, _ = both(X, n_components=3, covariance_type=kind, max_iter=1)
    once, _ = both(X, n_components=3, covariance_type=kind, max_iter=1, **settings)
    assert np.abs(plain.means_ - once.means_).max() > 1e-6  # it makes a difference


@pytest.mark.parametrize("kind", KINDS)
def test_warm_start(kind):
    X = load_iris().data
    settings = {
        "n_components": 3,
        "covariance_type": kind,
        "warm_start": True,
        "max_iter": 3,
        "random_state": 0,
        "tol": 1e-5,
    }
    mixture = StochasticEMGaussianMixture(**settings)
    peer = GaussianMixture(**settings)
    for _ in range(12):
        mixture.fit(X)
        peer.fit(X)
        assert_same_parameters(mixture, peer)
        assert mixture.converged_ == peer.converged_
        assert mixture.n_iter_ == peer.n_iter_
        assert mixture.lower_bound_ == pytest.approx(peer.lower_bound_, rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_fit_predict(kind):
    X = make_blobs(100, 2, centers=3, random_state=0)[0]
    settings = {"n_components": 3, "covariance_type": kind, "random_state": 1}
    mixture = StochasticEMGaussianMixture(tol=1e-3, **settings)
    labels = mixture.fit_predict(X)
    assert_array_equal(labels, GaussianMixture(tol=1e-3, **settings).fit_predict(X))
    assert_array_equal(labels, mixture.predict(X))


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision(kind):
    X = make_blobs(200, 3, centers=3, random_state=0)[0].astype(np.float32)
    mixture, peer = both(X, n_components=3, covariance_type=kind, max_iter=5)
    assert_same_parameters(mixture, peer, rtol=2e-4)


# ----------------------------------------------------------- the solvers at full batch

# What one iteration costs in passes, and what comes before the first.
PASSES = {
    "em": lambda steps: steps,
    "saem": lambda steps: steps,
    "online": lambda steps: steps,
    "iem": lambda steps: 1 + steps,
    "isaem": lambda steps: 1 + steps,
    "fittem": lambda steps: 1 + 2 * steps,
    "vrttem": lambda steps: 3 * steps,
}


def em(kind):
    """Return a class of mixtures whose fits are EM."""
    return StochasticEMGaussianMixture if kind == "unit" else GaussianMixture


#: Variance reduction that forgets nothing.
REDUCED = {"vrttem": VRTTEM(rho=1.0), "fittem": FITTEM(rho=1.0)}


@pytest.mark.filterwarnings("ignore:.*no effect")
@pytest.mark.parametrize("sampling", ["fixed", "shuffle", "inclusion"])
@pytest.mark.parametrize("kind", [*KINDS, "unit"])
@pytest.mark.parametrize("solver", sorted(PASSES))
def test_full_batch_is_em(solver, kind, sampling):
    X = make_blobs(90, 2, centers=3, cluster_std=2.0, random_state=4)[0]
    start = given_start(X[np.arange(150) % 90], kind)
    if kind == "unit":
        del start["precisions_init"]
    for steps in (1, 2, 4):
        settings = {
            "n_components": 3,
            "covariance_type": kind,
            "random_state": 0,
            "tol": 0.0,
            **start,
        }
        mixture = StochasticEMGaussianMixture(
            solver=REDUCED.get(solver, solver),
            sampler="exact",
            batch_size=len(X),
            sampling=sampling,
            step_size=1.0,
            max_iter=PASSES[solver](steps),
            **settings,
        ).fit(X)
        peer = em(kind)(max_iter=steps, **settings).fit(X)
        assert mixture.history_.n_iterations[-1] == steps
        assert_same_parameters(mixture, peer, rtol=1e-12 * steps)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_below_one_is_not_em(kind):
    """Negative control of the test above."""
    X = make_blobs(90, 2, centers=3, cluster_std=2.0, random_state=4)[0]
    settings = {"n_components": 3, "covariance_type": kind, "random_state": 0}
    mixture = StochasticEMGaussianMixture(
        solver="online", batch_size=90, step_size=0.999, max_iter=1, tol=0, **settings
    ).fit(X)
    peer = GaussianMixture(max_iter=1, tol=0.0, **settings).fit(X)
    assert np.abs(mixture.means_ - peer.means_).max() > 1e-7


# ------------------------------------------------------------------ the fixed point


def overlapping():
    rng = np.random.default_rng(0)
    left, right = rng.normal(-2, 1, (60, 2)), rng.normal(2, 1.5, (40, 2))
    return np.concatenate([left, right])


@pytest.mark.parametrize(
    "kind, sampling",
    [("full", "fixed"), *((kind, "shuffle") for kind in [*KINDS, "unit"])],
)
@pytest.mark.parametrize("solver", ["iem", "vrttem", "fittem"])
def test_converges_to_the_fixed_point_of_em(solver, kind, sampling):
    X = overlapping()
    settings = {"covariance_type": kind, "random_state": 0, "tol": 0.0}
    peer = em(kind)(2, max_iter=400, **settings).fit(X)
    mixture = StochasticEMGaussianMixture(
        2,
        solver=solver,
        sampler="exact",
        step_size=1.0,
        batch_size=10,
        sampling=sampling,
        max_iter=60,
        **settings,
    ).fit(X)
    for name in ("weights_", "means_", "covariances_"):
        assert_allclose(getattr(mixture, name), getattr(peer, name), atol=1e-8)
    # The mean field is zero there: its estimate uses all rows of small data.
    assert abs(mixture.history_.mean_field[-1]) < 1e-12
    assert mixture.history_.events["degenerate"] == 0


def test_constant_step_of_online_em_does_not_converge():
    """Negative control: what keeps noise does not come within 1e-8."""
    X = overlapping()
    peer = GaussianMixture(2, max_iter=400, tol=0.0, random_state=0).fit(X)
    mixture = StochasticEMGaussianMixture(
        2,
        solver="online",
        step_size=Constant(0.1),
        batch_size=10,
        max_iter=60,
        tol=0,
        random_state=0,
    ).fit(X)
    assert np.abs(mixture.means_ - peer.means_).max() > 1e-4


@pytest.mark.parametrize(
    "seed, n, d, n_components, kind",
    [(1, 100, 2, 2, "full"), (8, 100, 2, 2, "full"), (23, 100, 2, 2, "full")],
)
def test_the_default_passes_saddles_of_em(seed, n, d, n_components, kind):
    """A change below 1e-6 a row has .03 to .07 left there; scikit-learn stops too."""
    X = np.random.default_rng(seed).normal(size=(n, d)).round(1)
    ours = StochasticEMGaussianMixture(
        n_components, covariance_type=kind, random_state=0
    )
    stops = clone(ours).set_params(tol=1e-6).fit(X)
    assert stops.converged_
    ours.fit(X)
    assert ours.converged_
    onwards = clone(ours).set_params(
        solver="em", tol=1e-9, max_iter=2000, weights_init=ours.weights_,
        means_init=ours.means_, precisions_init=ours.precisions_,
    )  # fmt: skip
    assert onwards.fit(X).score(X) < ours.score(X) + 1e-5
    assert stops.score(X) < ours.score(X) - 0.03


@pytest.mark.parametrize("form", ["memory map", "dask"])
def test_extrapolated_steps_do_not_depend_on_where_rows_are(form, tmp_path):
    X = np.random.default_rng(8).normal(size=(100, 2)).round(1)
    np.save(tmp_path / "rows.npy", X)
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    if form == "dask":
        array = pytest.importorskip("dask.array")
        rows = array.from_array(X, chunks=(25, 2))
    ours = StochasticEMGaussianMixture(2, random_state=0).fit(X)
    stops = StochasticEMGaussianMixture(2, random_state=0, tol=1e-6).fit(X)
    there = StochasticEMGaussianMixture(2, random_state=0).fit(rows)
    assert there.converged_
    assert there.n_iter_ > stops.n_iter_
    # Sums in another order: on its way from a saddle EM multiplies rounding errors.
    assert_allclose(there.score(X), ours.score(X), atol=1e-9)
    assert there.score(X) > stops.score(X) + 0.05
