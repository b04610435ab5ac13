"""Values that are too large, parameters without effect, runs of one pass."""

import os
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from sktem import (
    ARDLogisticClassifier,
    HiddenMarkovModel,
    RobustPoissonRegressor,
    StochasticEM,
    StochasticEMGaussianMixture,
)
from sktem.callbacks import Checkpoint, LogLikelihoodMonitor
from sktem.exceptions import FitWarning
from sktem.models import LatentModel, RandomInterceptModel
from sktem.samplers import MALA, SAMPLERS, ExactDraws, SamplerInfo
from sktem.solvers import SOLVERS, VRTTEM
from tests.oracles import messages_of

NAMES = sorted(set(SOLVERS) - {"biased-saem"})


def blobs(n=400, seed=0, d=2):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + rng.choice([-2.0, 2.0], size=(n, 1))


def fitted(**settings):
    return StochasticEMGaussianMixture(2, random_state=0, **settings)


# ------------------------------------------------------------------- values too large


@pytest.mark.parametrize(
    "value, start",
    [
        (2e154, "kmeans"),
        (-1e200, "k-means++"),
        (1e308, "random"),
        (2e154, "random_from_data"),
    ],
)
def test_squares_that_overflow_are_refused(value, start):
    X = blobs()
    X[7, 1] = value
    mixture = fitted(init_params=start)
    good = fitted().fit(blobs())
    calls = [mixture.fit, mixture.partial_fit, mixture.fit_predict]
    calls += [good.predict, good.predict_proba, good.score, good.score_samples]
    calls += [good.bic, good.aic, good.icl]
    for call in calls:
        with pytest.raises(ValueError, match="column 1 .*overflow|overflow.*column 1"):
            call(X)


def test_the_column_is_named():
    pandas = pytest.importorskip("pandas")
    X = blobs()
    X[3, 0] = 1e180
    with pytest.raises(ValueError, match="'height'"):
        fitted().fit(pandas.DataFrame(X, columns=["height", "weight"]))


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical", "unit"])
@pytest.mark.parametrize("scale", [1e140, 1e-140])
def test_what_is_left_is_finite(scale, kind):
    X = blobs() * scale
    mixture = fitted(covariance_type=kind, reg_covar=0.0, max_iter=5, tol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        mixture.fit(X)
    for name in ("weights_", "means_", "covariances_", "precisions_"):
        assert np.isfinite(getattr(mixture, name)).all(), name
    assert np.isfinite(mixture.sample(5)[0]).all()


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_float32_keeps_what_it_can_hold(kind):
    X = (blobs() * 1e-21).astype(np.float32)
    mixture = fitted(covariance_type=kind, reg_covar=0.0).fit(X)
    assert mixture.means_.dtype == np.float32
    assert np.isfinite(mixture.precisions_).all()
    assert (mixture.precisions_ != 0).any()
    usual = fitted(covariance_type=kind).fit(blobs().astype(np.float32))
    assert usual.precisions_.dtype == usual.covariances_.dtype == np.float32


# ------------------------------------------------------------------------- few passes


@pytest.mark.parametrize("max_iter", [0, 1])
@pytest.mark.parametrize("solver", NAMES)
def test_one_pass_has_a_lower_bound(solver, max_iter):
    X = blobs()
    mixture = fitted(solver=solver, max_iter=max_iter, tol=0).fit(X)
    assert np.isfinite(mixture.lower_bound_)
    assert len(mixture.lower_bounds_) == len(mixture.history_) == 1
    assert mixture.n_iter_ == max_iter
    assert not mixture.converged_
    # At the parameters before or after the last M-step.
    assert mixture.lower_bound_ <= mixture.score(X) + 1e-9


@pytest.mark.parametrize("solver", ["iem", "isaem", "vrttem", "fittem"])
def test_the_best_of_several_starts_of_one_pass(solver):
    X = blobs()
    settings = {"solver": solver, "max_iter": 1, "tol": 0, "init_params": "random"}
    bounds = [
        StochasticEMGaussianMixture(2, random_state=seed, **settings).fit(X)
        for seed in range(4)
    ]
    assert len({one.lower_bound_ for one in bounds}) == 4
    one = fitted(n_init=1, **settings).fit(X).lower_bound_
    many = fitted(n_init=8, **settings).fit(X).lower_bound_
    assert many > one


@pytest.mark.parametrize("n_rows", [50, 3000])
def test_warm_start_after_a_stream(n_rows):
    """Also while the first rows of the stream are being kept."""
    X = blobs(n_rows)
    settings = {"init_params": "random", "max_iter": 1, "tol": 0}
    warm = fitted(warm_start=True, **settings).partial_fit(X)
    before = warm.score(X)
    cold = fitted(**settings).fit(X).score(X)
    after = warm.fit(X).score(X)
    assert after >= before - 1e-9
    assert abs(after - cold) > 1e-6


# ------------------------------------------------------- parameters without effect


UNUSED = [{"solver": "em", "batch_size": 7}, {"solver": "mcem", "batch_size": 5}]
USED = [
    {},
    {"solver": VRTTEM(rho=0.1), "batch_size": 20},
    {"solver": "fittem", "sampler": "mc", "sampling": "fixed"},
    {"solver": "online", "batch_size": 10, "sampling": "fixed"},
    {"solver": "mcem", "sampler": ExactDraws(n_draws=3)},
]


def told(function, *args):
    _, messages = messages_of(function, *args)
    return [message for message in messages if "no effect" in message]


@pytest.mark.parametrize("kind", ["mixture", "own model"])
@pytest.mark.parametrize("settings", UNUSED + USED, ids=str)
def test_parameters_without_effect(settings, kind):
    is_unused = settings in UNUSED
    settings = {"max_iter": 2, "tol": 0, "random_state": 0, **settings}
    if kind == "mixture":
        estimator = StochasticEMGaussianMixture(2, **settings)
    else:
        estimator = StochasticEM(RandomInterceptModel(), **settings)
    messages = told(estimator.fit, blobs())
    assert len(messages) == is_unused
    if is_unused:
        assert "batch_size" in messages[0]
        assert repr(settings["solver"]) in messages[0]


def test_streams_use_batches():
    mixture = fitted(batch_size=50)
    assert not [told(mixture.partial_fit, blobs(600, seed)) for seed in range(4)][-1]


# ----------------------------------------------------------------------------- weights


@pytest.mark.parametrize("name", ["bic", "aic", "icl", "score"])
def test_weights_of_criteria_are_repetition(name):
    X = blobs()
    weights = np.random.default_rng(0).integers(0, 4, size=len(X))
    mixture = fitted().fit(X, sample_weight=weights)
    criterion = getattr(mixture, name)
    expected = criterion(np.repeat(X, weights, axis=0))
    weighted = criterion(X, sample_weight=weights.astype(float))
    assert_allclose(weighted, expected, rtol=1e-10)
    assert abs(criterion(X) - expected) > 1e-3 * abs(expected)


def test_weights_of_held_out_rows():
    pytest.importorskip("sklearn.callback")
    X, weights = blobs(), np.random.default_rng(0).integers(1, 4, size=400)
    scores = []
    for held in (
        LogLikelihoodMonitor(X, sample_weight=weights),
        LogLikelihoodMonitor(np.repeat(X, weights, axis=0)),
    ):
        fitted(max_iter=4, tol=0).set_callbacks(held).fit(blobs(seed=1))
        scores.append(held.scores_)
    assert_allclose(*scores, rtol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_float32_labels_are_the_most_probable(seed):
    rng = np.random.default_rng(seed)
    X = np.tile(rng.normal(size=(8, 2)), (3, 1)).astype(np.float32)
    mixture = StochasticEMGaussianMixture(3, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mixture.fit(X)
    grid = rng.normal(size=(20_000, 2)).astype(np.float32)
    probabilities = mixture.predict_proba(grid)
    assert probabilities.dtype == np.float32
    assert_array_equal(probabilities.argmax(axis=1), mixture.predict(grid))
    assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)


# ------------------------------------------------------------------------- checkpoints


def test_a_killed_save_leaves_nothing_behind(tmp_path):
    pytest.importorskip("sklearn.callback")
    path = tmp_path / "fit.pickle"
    X = blobs()

    def fit():
        mixture = fitted(max_iter=5, tol=0, solver="iem", batch_size=20)
        return mixture.set_callbacks(Checkpoint(path)).fit(X)

    expected = fit().means_
    others = [tmp_path / "fit.pickle.abcdefgh.other", tmp_path / "fit.pickle2"]
    leftover = tmp_path / "fit.pickle.0a_bcdef.unfinished"
    for file in [*others, leftover]:
        file.write_bytes(b"half")
    path.unlink()
    assert_array_equal(fit().means_, expected)
    assert sorted(os.listdir(tmp_path)) == sorted(f.name for f in [path, *others])


# -------------------------------------------------------------------- what parts need


class OnlyDensity(LatentModel):
    """A model for random walks alone."""

    def initial_params(self, X, rng):
        return 0.0

    def mean_statistics(self, X, Z, sample_weight=None):
        return np.average(Z, axis=0, weights=sample_weight)

    def maximize(self, s, params):
        return float(s[0])

    def initial_latents(self, X, params, rng):
        return X[:, :1].copy()

    def log_joint(self, X, Z, params):
        return -((X[:, 0] - Z[:, 0]) ** 2) - (Z[:, 0] - params) ** 2


def test_methods_that_give_latents_are_listed():
    class Bare(OnlyDensity):
        log_joint = None

    with pytest.raises(ValueError, match="initial_latents and log_joint"):
        StochasticEM(Bare()).fit(blobs())


@pytest.mark.parametrize(
    "preconditioner, method",
    [("prior", "prior_moments"), ("curvature", "curvature_scale")],
)
@pytest.mark.parametrize("kind", ["mala", "ula"])
def test_preconditioners_name_what_they_need(kind, preconditioner, method):
    sampler = SAMPLERS[kind](preconditioner=preconditioner)
    assert method in sampler.requires
    with pytest.raises(TypeError, match=method):
        StochasticEM(RandomInterceptModel(), sampler=sampler).fit(blobs())
    assert method not in MALA(preconditioner=[1.0]).requires


def test_events_are_not_shared():
    with pytest.raises(TypeError):
        SamplerInfo().events["mended"] = 1


@pytest.mark.parametrize("scale, share", [(1e4, "0.00%"), (1e-6, "100.00%")])
def test_acceptance_out_of_bounds(scale, share):
    X = blobs()
    sampler = SAMPLERS["rwm"](scale=scale)
    em = StochasticEM(OnlyDensity(), sampler=sampler, max_iter=5, tol=0, random_state=0)
    with pytest.warns(FitWarning, match=f"RandomWalk accepted {share}"):
        em.fit(X)
    em.set_params(sampler=SAMPLERS["rwm"](scale=1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        em.fit(X)


def test_ran_out_is_still_told():
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        fitted(max_iter=1, solver="iem").fit(blobs())


# ---------------------------------------------------------------- who is warned, where


@pytest.mark.parametrize(
    "estimator",
    [
        fitted(solver="em", batch_size=9, tol=0.0, max_iter=3),
        StochasticEM(RandomInterceptModel(), solver="em", batch_size=9, tol=0),
    ],
    ids=lambda part: type(part).__name__,
)
def test_warnings_point_at_the_caller(estimator):
    with pytest.warns(FitWarning, match="does not use batch_size") as record:
        estimator.fit(blobs(2000))
    assert {warning.filename for warning in record} == {__file__}


def test_warnings_point_at_the_caller_of_a_stream_that_fails():
    class Fails(RandomInterceptModel):
        fails = False

        def maximize(self, s, params):
            found = super().maximize(s, params)
            return found._replace(mean=np.nan) if self.fails else found

    em = StochasticEM(Fails(), solver="online", batch_size=100, random_state=0)
    em.partial_fit(blobs())
    em.model.fails = True
    with pytest.warns(FitWarning, match="left out of the stream") as record:
        em.partial_fit(blobs(2000))
    assert record[0].filename == __file__


@pytest.mark.parametrize(
    "estimator",
    [
        StochasticEM(RandomInterceptModel()),
        StochasticEMGaussianMixture(),
        HiddenMarkovModel(2),
        RobustPoissonRegressor(),
        ARDLogisticClassifier(),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_interval_of_lines_is_checked_before_a_fit(estimator):
    """It was the division by zero of the first line."""
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    estimator.set_params(verbose=1, verbose_interval=0)
    with pytest.raises(ValueError, match="verbose_interval must be an integer >= 1"):
        estimator.fit(X, *([y] if hasattr(estimator, "predict") else []))
