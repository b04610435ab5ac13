"""Degenerate data are fitted without NaN and noise, bad input is refused in words."""

import warnings
from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from sktem import (
    GaussianMixturePrior,
    StochasticEMGaussianMixture,
    StochasticEMMixture,
)
from sktem.emissions import Gaussian
from sktem.emissions.covariances import COVARIANCES
from sktem.exceptions import FitWarning
from sktem.mixture.start import START_METHODS
from sktem.samplers import ExactDraws
from sktem.schedules import Polynomial
from sktem.solvers import FITTEM, SOLVERS, FullBatch
from tests.emissions.structures import KINDS, LEARNED, reduced
from tests.oracles import messages_of

NAMES = ["em", "online", "saem", "mcem", "iem", "isaem", "vrttem", "fittem"]
PARAMETERS = (
    "weights_",
    "means_",
    "covariances_",
    "precisions_",
    "precisions_cholesky_",
)

plain = np.random.default_rng(0).normal(size=(60, 2))
far = np.array([[1e12, -1e12]])

# Rows, and settings that make it hard.
DEGENERATE = {
    "one point": (np.tile([[1.5, -2.0]], (40, 1)), {}),
    "one point without floor": (np.tile([[1.5, -2.0]], (40, 1)), {"reg_covar": 0.0}),
    "zeros": (np.zeros((40, 2)), {}),
    "two distinct rows": (np.repeat([[0.0, 0.0], [1.0, 5.0]], 20, axis=0), {}),
    "constant column": (np.column_stack([plain, np.full(60, 7.0)]), {}),
    "constant column without floor": (
        np.column_stack([plain, np.full(60, 7.0)]),
        {"reg_covar": 0.0},
    ),
    "columns on a line": (
        np.column_stack([plain[:, 0], 2 * plain[:, 0]]),
        {"reg_covar": 0.0},
    ),
    "integers": (np.random.default_rng(1).integers(0, 3, (60, 2)).astype(float), {}),
    "one column": (plain[:, :1], {}),
    "as many rows as components": (plain[:3], {}),
    "the same without floor": (plain[:3], {"reg_covar": 0.0}),
    "one component": (plain, {"n_components": 1}),
    "far outlier": (np.concatenate([plain, far]), {}),
    "far outliers without floor": (
        np.concatenate([plain, far * [[1, 2]], far * [[-3, 1]]]),
        {"reg_covar": 0.0},
    ),
    "components far from all data": (
        plain,
        {"means_init": [[0.0, 0.0], [1e6, 1e6], [1e9, 0.0]]},
    ),
    "components without weight": (plain, {"weights_init": [1.0, 0.0, 0.0]}),
    "tiny": (1e-150 * plain, {}),
    "tiny without floor": (1e-140 * plain, {"reg_covar": 0.0}),
    "columns of different size": (plain * [1e8, 1e-8], {"reg_covar": 0.0}),
}


def identities(kind, K):
    return reduced(kind, np.tile(np.eye(2), (K, 1, 1)), np.full(K, 1 / K))


def assert_sane(mixture, X):
    for name in PARAMETERS:
        assert np.isfinite(getattr(mixture, name)).all(), name
    assert (mixture.weights_ >= 0).all()
    assert mixture.weights_.sum() == pytest.approx(1.0)
    assert np.isfinite(mixture.score_samples(X)).all()
    probabilities = mixture.predict_proba(X)
    assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-9)
    assert_array_equal(mixture.predict(X), probabilities.argmax(axis=1))
    labels = mixture.sample(20)[1]
    assert set(labels) <= set(range(mixture.n_components))


def quiet(function, *args):
    """Call, and return the kinds of warnings: of each of ours one at most."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*args)
    counts = Counter(one.category for one in caught)
    assert set(counts) <= {FitWarning, ConvergenceWarning}, [str(w) for w in caught]
    assert max(counts.values(), default=0) <= 1, [str(w.message) for w in caught]
    return set(counts)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_data(case, kind):
    X, settings = DEGENERATE[case]
    settings = {"n_components": 3, "max_iter": 4, **settings}
    for solver in NAMES:
        # One row at a time is harder still, for the solvers that can leave the data;
        # EM and its like have no batches.
        sizes = (10, 1) if solver in ("vrttem", "fittem") else (10,)
        for batch_size in ("auto",) if SOLVERS[solver][0] is FullBatch else sizes:
            mixture = StochasticEMGaussianMixture(
                covariance_type=kind,
                solver=solver,
                batch_size=batch_size,
                random_state=0,
                **settings,
            )
            quiet(mixture.fit, X)
            assert_sane(mixture, X)
            assert np.isfinite(mixture.lower_bound_)


@pytest.mark.parametrize("kind", ["full", "tied"])
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_streams(case, kind):
    X, settings = DEGENERATE[case]
    settings = {"n_components": 3, **settings}
    for solver in ("online", "mcem", "iem", "vrttem", "fittem"):
        mixture = StochasticEMGaussianMixture(
            covariance_type=kind, solver=solver, random_state=0, **settings
        )

        def stream(mixture=mixture):
            mixture.partial_fit(X[:2])
            assert_sane(mixture, X)
            mixture.partial_fit(np.tile(X, (1 + 1200 // len(X), 1)))
            mixture.partial_fit(X)

        quiet(stream)
        assert_sane(mixture, X)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_extreme_scale(kind, scale):
    """The fit is that of the same data at an ordinary scale."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2)) + 6 * rng.integers(0, 2, (90, 1))
    settings = {
        "covariance_type": kind,
        "reg_covar": 0.0,
        "max_iter": 8,
        "tol": 0.0,
        "random_state": 0,
        "init_params": lambda X, n, rng: (X[:, 0] > np.median(X[:, 0])).astype(int),
    }
    for solver in NAMES:
        settings["batch_size"] = 10
        mixture = StochasticEMGaussianMixture(2, solver=solver, **settings)
        quiet(mixture.fit, scale * X)
        assert_sane(mixture, scale * X)
        expected = StochasticEMGaussianMixture(2, solver=solver, **settings)
        quiet(expected.fit, X)
        assert_allclose(mixture.means_ / scale, expected.means_, rtol=1e-6)
        assert_allclose(mixture.weights_, expected.weights_, rtol=1e-6)
        covariances = mixture.covariances_ / scale / scale
        assert_allclose(covariances, expected.covariances_, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
@pytest.mark.parametrize("solver", ["em", "iem", "vrttem", "fittem"])
def test_a_far_outlier_costs_one_component(solver, kind):
    """The others describe the bulk as if it was not there."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-3, 1, (120, 2)), rng.normal(3, 1.5, (80, 2))])
    settings = {"covariance_type": kind, "solver": solver, "random_state": 0}
    settings.update(max_iter=40, tol=0.0)
    settings.update({} if solver == "em" else {"batch_size": 25})
    labels = np.repeat([0, 1, 2], [120, 80, 1])
    settings["init_params"] = lambda X, n, rng: labels[: len(X)]
    bulk = StochasticEMGaussianMixture(2, **settings).fit(X)
    mixture = StochasticEMGaussianMixture(3, **settings)
    with pytest.warns(FitWarning, match="have fewer rows than a covariance needs"):
        mixture.fit(np.concatenate([X, far]))
    outlying = np.abs(mixture.means_[:, 0]).argmax()
    assert_allclose(mixture.means_[outlying], far[0])
    assert mixture.weights_[outlying] == pytest.approx(1 / 201)
    others = np.delete(np.arange(3), outlying)
    order, expected = (
        np.argsort(means[:, 0]) for means in (mixture.means_[others], bulk.means_)
    )
    assert_allclose(
        mixture.means_[others][order], bulk.means_[expected], rtol=1e-4, atol=1e-4
    )
    assert_allclose(
        mixture.covariances_[others][order],
        bulk.covariances_[expected],
        rtol=1e-3,
        atol=1e-4,
    )


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_emptied_components_are_counted_and_told(kind):
    mixture = StochasticEMGaussianMixture(
        3,
        covariance_type=kind,
        means_init=[[0.0, 0.0], [1e6, 1e6], [1e9, 0.0]],
        precisions_init=identities(kind, 3),
        weights_init=[0.4, 0.3, 0.3],
        tol=1e-3,
    )
    with pytest.warns(FitWarning, match="degenerate.*history_.events"):
        mixture.fit(plain)
    assert mixture.history_.events["degenerate"] >= 2
    assert_allclose(mixture.weights_, [1, 0, 0])
    assert_allclose(mixture.means_[0], plain.mean(axis=0), rtol=1e-9)
    assert_allclose(mixture.means_[1:], [[1e6, 1e6], [1e9, 0.0]])
    alone = StochasticEMGaussianMixture(1, covariance_type=kind).fit(plain)
    assert_allclose(mixture.covariances_[0], alone.covariances_[0], rtol=1e-9)
    assert mixture.score(plain) == pytest.approx(alone.score(plain), rel=1e-9)


def test_good_data_warn_of_nothing():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-3, 1, (120, 2)), rng.normal(3, 1.5, (80, 2))])
    for kind in KINDS:
        for solver in NAMES:
            mixture = StochasticEMGaussianMixture(
                2, covariance_type=kind, solver=solver, random_state=0, tol=1e-3
            )
            assert quiet(mixture.fit, X) == set(), (kind, solver)
            assert not any(mixture.history_.events.values())


@pytest.mark.parametrize("solver", NAMES)
def test_running_out_of_passes_warns_once(solver):
    mixture = StochasticEMGaussianMixture(2, solver=solver, max_iter=4, tol=1e-12)
    with pytest.warns(ConvergenceWarning, match="max_iter") as caught:
        mixture.set_params(random_state=0).fit(plain)
    assert len(caught) == 1
    assert not mixture.converged_
    assert mixture.n_iter_ <= 4
    # Who asks for no check of convergence, or for the start only, is told nothing.
    assert quiet(mixture.set_params(tol=0.0).fit, plain) == set()
    assert quiet(mixture.set_params(tol=1e-12, max_iter=0).fit, plain) == set()


# -------------------------------------------------------------------------- one row


@pytest.mark.parametrize("solver", NAMES)
def test_fit_needs_two_rows_as_in_scikit_learn(solver):
    messages = []
    for mixture in (StochasticEMGaussianMixture(solver=solver), GaussianMixture()):
        with pytest.raises(ValueError, match="Found array with 1 sample") as error:
            mixture.fit([[1.0, 2.0]])
        messages.append(str(error.value).replace(type(mixture).__name__, "it"))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("kind", KINDS)
def test_partial_fit_of_one_row(kind):
    mixture = StochasticEMGaussianMixture(covariance_type=kind, random_state=0)
    mixture.partial_fit([[1.0, 2.0]])
    assert_allclose(mixture.means_, [[1.0, 2.0]])
    if kind != "unit":
        wide = mixture.covariances_ * (np.eye(2) if kind == "spherical" else 1)
        diagonal = wide if kind == "diag" else np.diagonal(np.squeeze(wide))
        assert_allclose(np.ravel(diagonal), [1e-6, 1e-6])
    assert_sane(mixture, np.array([[1.0, 2.0], [3.0, 4.0]]))


def test_fewer_rows_than_components():
    messages = []
    for mixture in (StochasticEMGaussianMixture(4), GaussianMixture(4)):
        with pytest.raises(ValueError, match="n_samples >= n_components") as error:
            mixture.fit(plain[:3])
        messages.append(str(error.value))
    assert messages[0] == messages[1]


# ------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("method", ["score", "score_samples", "predict", "bic", "icl"])
def test_bad_data_of_a_fitted_mixture(method):
    mixture = StochasticEMGaussianMixture(random_state=0).fit(plain)
    with pytest.raises(ValueError, match="Input X contains infinity"):
        getattr(mixture, method)([[np.inf, 0.0]])
    with pytest.raises(ValueError, match="X has 3 features, but"):
        getattr(mixture, method)(np.zeros((2, 3)))


@pytest.mark.parametrize(
    "settings, names",
    [
        ({"solver": "newton"}, SOLVERS),
        ({"sampler": "gibbs-ish"}, ["exact", "mc", "ula"]),
        ({"covariance_type": "banded"}, COVARIANCES),
        ({"init_params": "best"}, START_METHODS),
        ({"sampling": "sometimes"}, ["fixed", "shuffle", "inclusion"]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_unknown_names(method, settings, names):
    mixture = StochasticEMGaussianMixture(**settings)
    with pytest.raises(ValueError, match="must be one of") as error:
        getattr(mixture, method)(np.tile(plain, (20, 1)))
    for name in [*settings, *settings.values(), *names]:
        assert name in str(error.value)


def prior(**settings):
    return {"prior": GaussianMixturePrior(**settings)}


def test_parameters_of_parts_are_named_where_they_are():
    message = r"mean_penalty'?: give it as prior=GaussianMixturePrior\(mean_penalty="
    with pytest.raises(TypeError, match=message):
        StochasticEMGaussianMixture(2, mean_penalty=1.0)
    with pytest.raises(TypeError, match=r"give it as solver=VRTTEM\(rho="):
        StochasticEMGaussianMixture(2, rho=0.1)
    with pytest.raises(TypeError, match=r"give it as sampler=ExactDraws\(n_draws="):
        StochasticEMGaussianMixture(2, n_draws=3)
    mixture = StochasticEMGaussianMixture(2, prior=GaussianMixturePrior())
    with pytest.raises(ValueError, match="give it as prior=GaussianMixturePrior"):
        mixture.set_params(mean_penalty=1.0)
    assert mixture.set_params(prior__mean_penalty=1.0).prior.mean_penalty == 1.0
    with pytest.raises(TypeError, match="prior must be a GaussianMixturePrior"):
        mixture.set_params(prior=1.0).fit(plain)


@pytest.mark.parametrize(
    "settings, match",
    [
        ({"n_components": 0}, "n_components must be an integer >= 1, got 0"),
        ({"n_components": 1.5}, "n_components must be an integer"),
        ({"n_components": "two"}, "n_components must be an integer >= 1 or one of"),
        ({"n_components": True}, "n_components must be an integer"),
        ({"tol": -1.0}, "tol must be a number >= 0"),
        ({"tol": np.nan}, "tol must be a number"),
        ({"reg_covar": -1e-6}, "reg_covar must be a number >= 0"),
        ({"max_iter": -1}, "max_iter must be an integer >= 0"),
        ({"n_init": 0}, "n_init must be an integer >= 1"),
        ({"init_size": 0}, "init_size must be an integer >= 1"),
        ({"batch_size": 0}, "batch_size must be an integer >= 1"),
        ({"batch_size": 2.5}, "batch_size must be an integer"),
        ({"n_iter_no_change": 0}, "n_iter_no_change must be an integer >= 1"),
        ({"verbose_interval": 0}, "verbose_interval must be an integer >= 1"),
        (prior(mean_penalty=-1.0), "mean_penalty must be a number >= 0"),
        (prior(weight_concentration=-1.0), "weight_concentration must be a number"),
        ({"step_size": 0.0}, r"in \(0, 1\]"),
        ({"step_size": 1.5}, r"in \(0, 1\]"),
        ({"solver": FITTEM(rho=0.0)}, r"rho must be .*\(0, 1\]"),
        (
            {"solver": "saem", "sampler": ExactDraws(n_draws=0)},
            "n_draws must be a positive integer",
        ),
        ({"solver": "mcem", "sampler": "exact"}, "means the sampler 'mc'"),
        ({"average": -1}, "average must be"),
        ({"average": "always"}, "average must be"),
        (prior(covariance_prior=1.0), "must be given together"),
        (prior(covariance_prior_strength=1.0), "must be given together"),
        (
            prior(covariance_prior=np.ones(3), covariance_prior_strength=1.0),
            r"covariance_prior must be .*\(2, 2\), got shape \(3,\)",
        ),
        (prior(mean_prior=[1.0], mean_penalty=1.0), r"mean_prior must have shape"),
        (
            {"covariance_type": "unit", "precisions_init": [1.0]},
            "precisions_init cannot be given",
        ),
    ],
    ids=str,
)
def test_bad_settings(settings, match):
    with pytest.raises(ValueError, match=match):
        StochasticEMGaussianMixture(**settings).fit(plain)


@pytest.mark.parametrize(
    "settings, match",
    [
        ({"solver": 3}, "solver must be one of"),
        ({"sampler": 3}, "sampler must be one of"),
        ({"sampler": "ula"}, "ULA cannot sample GaussianMixtureModel"),
        ({"step_size": None}, "step_size must be a number"),
    ],
    ids=str,
)
def test_settings_of_wrong_type(settings, match):
    settings = {"solver": "saem", **settings}
    with pytest.raises(TypeError, match=match):
        StochasticEMGaussianMixture(**settings).fit(plain)


GOOD = {kind: identities(kind, 2) for kind in LEARNED}


@pytest.mark.parametrize(
    "settings",
    [
        {"weights_init": [0.5, 0.3, 0.2]},
        {"weights_init": [0.5, 0.6]},
        {"weights_init": [1.5, -0.5]},
        {"means_init": np.zeros((3, 2))},
        {"means_init": np.zeros((2, 3))},
        {"means_init": np.array([[0.0, np.nan], [0.0, 1.0]])},
        *(
            {"covariance_type": kind, "precisions_init": wrong}
            for kind, good in GOOD.items()
            for wrong in (good[:1], -good, np.full_like(good, np.nan))
        ),
        {"covariance_type": "tied", "precisions_init": [[1.0, 2.0], [0.0, 1.0]]},
        {"covariance_type": "full", "precisions_init": [[[1, 2], [2, 1.0]]] * 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_bad_start(method, settings):
    """What scikit-learn refuses is refused, naming the parameter as it does."""
    with pytest.raises(ValueError) as theirs:
        GaussianMixture(2, **settings).fit(plain)
    with pytest.raises(ValueError) as ours:
        getattr(StochasticEMGaussianMixture(2, **settings), method)(plain)
    (name,) = {name for name in settings if name.endswith("_init")}
    name = name.removesuffix("_init").removesuffix("s")
    assert name in str(ours.value)
    if "NaN" not in str(theirs.value):
        quoted = str(theirs.value).split("'")[1]  # such as 'full precision'
        assert f"'{quoted}'" in str(ours.value)


def test_sample_of_no_rows():
    mixture = StochasticEMGaussianMixture(random_state=0).fit(plain)
    with pytest.raises(ValueError, match="Invalid value for 'n_samples': 0"):
        mixture.sample(0)


@pytest.mark.parametrize("scale", [1e-4, 1e-9])
@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_columns_below_reg_covar_are_told(kind, scale):
    """However small they are: only constant columns have a right to no variance."""
    X = np.column_stack([plain, np.full(60, 0.1)]) * [scale, scale, 1.0]
    mixture = StochasticEMGaussianMixture(2, covariance_type=kind, random_state=0)
    columns = "0, 1, 2" if kind == "spherical" else "0, 1"
    with pytest.warns(FitWarning, match=rf"in column\(s\) {columns}:"):
        mixture.fit(X)


@pytest.mark.parametrize("kind", ["full", "tied"])
def test_components_short_of_rows_are_told(kind):
    """Such a fit is far from new rows of the same law, and one that is not is quiet."""
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(2, 400, 20))
    mixture = StochasticEMGaussianMixture(2, covariance_type=kind, random_state=0)
    with pytest.warns(FitWarning, match=r"Component\(s\) 0, 1 have fewer rows"):
        assert mixture.fit(X[:20]).score(new) < -1000
    assert mixture.fit(X).score(new) > -40  # an error, if it warned
    weak = prior(covariance_prior=1.0, covariance_prior_strength=0.1)
    mixture.set_params(**weak).fit(X[:20])


@pytest.mark.parametrize("emission", [None, "gaussian"])
def test_more_parameters_than_rows_tell_are_told(emission):
    """New rows are far less likely; with a diagonal or more rows all is quiet."""
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(2, 600, 20))
    kind = StochasticEMGaussianMixture if emission is None else StochasticEMMixture
    mixture = kind(2, random_state=0)
    with pytest.warns(FitWarning, match="461 free parameters .* of 180 rows"):
        loss = mixture.fit(X[:180]).score(X[:180]) - mixture.score(new)
    assert loss > 461 / 180
    weights = np.append(np.ones(180), np.full(420, 1e-9))
    with pytest.warns(FitWarning, match="461 free parameters .* of 180 rows"):
        mixture.fit(X, sample_weight=weights)
    mixture.fit(X)  # an error, if it warned
    simple = {} if emission is None else {"emission": Gaussian("diag")}
    mixture.set_params(**simple or {"covariance_type": "diag"}).fit(X[:180])


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_small_columns_are_no_trouble_with_a_prior(kind):
    """What the covariances then consist of is not reg_covar."""
    strong = prior(covariance_prior=1.0, covariance_prior_strength=1.0)
    mixture = StochasticEMGaussianMixture(2, covariance_type=kind, random_state=0)
    mixture.set_params(**strong).fit(1e-5 * plain)  # an error, if it warned


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_online_with_batches_of_one_keeps_its_components(kind):
    """A row is no basis for a covariance: first steps average over enough of them."""
    X = np.random.default_rng(0).normal(size=(3000, 5))
    settings = {"covariance_type": kind, "solver": "online", "batch_size": 1}
    settings |= {"max_iter": 4, "tol": 0.0, "random_state": 0}
    mixture = StochasticEMGaussianMixture(3, **settings).fit(X)
    assert mixture.history_.events["degenerate"] == 0
    assert mixture.weights_.min() > 1e-3
    # Control: the steps of large batches.
    settings["step_size"] = Polynomial(alpha=0.6, offset=2.0)
    with pytest.warns(FitWarning, match="degenerate"):
        mixture = StochasticEMGaussianMixture(3, **settings).fit(X)
    assert mixture.weights_.min() < 1e-6


def told(X, **settings):
    mixture = StochasticEMGaussianMixture(random_state=0, **settings)
    return " ".join(messages_of(mixture.fit, X, kind=FitWarning)[1])


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_components_on_one_of_few_values_are_said(kind):
    """Likelihoods of such components are as high as `reg_covar` is small."""
    rng = np.random.default_rng(1)
    flags = rng.integers(0, 2, size=(600, 1 if kind == "spherical" else 2))
    noise = rng.normal(size=(600, 0 if kind == "spherical" else 2))
    X = np.column_stack([flags, noise])
    few = 2 if kind == "spherical" else 4
    message = told(X, n_components=few, covariance_type=kind)
    assert "have no variance but" in message and "few distinct values" in message
    assert not told(X, n_components=few, covariance_type=kind, reg_covar=0.01)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_columns_that_depend_on_each_other_are_no_fault(kind):
    """New rows depend as the old ones do: nothing is lost."""
    X = np.random.default_rng(2).normal(size=(800, 3))
    X = np.column_stack([X, X.sum(axis=1), np.ones(800)])
    assert not told(X, n_components=2, covariance_type=kind)


def two_clusters(n=1000):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 2)) + rng.choice([-2, 2], n)[:, None]


@pytest.mark.parametrize("kind", ["full", "tied"])
@pytest.mark.parametrize("apart", [0.0, 1e-5, 1e-2])
def test_components_that_start_equal_are_told(kind, apart):
    """Means of components whose covariances are those of all rows hardly part."""
    X = two_clusters()
    precision = np.linalg.inv(np.cov(X.T))
    mixture = StochasticEMGaussianMixture(
        2,
        covariance_type=kind,
        weights_init=[0.5, 0.5],
        means_init=X.mean(axis=0) + apart * np.array([[-1.0], [1.0]]),
        precisions_init=precision if kind == "tied" else [precision] * 2,
    )
    _, told = messages_of(mixture.fit, X)
    is_told = any("lower maximum, or to a saddle" in message for message in told)
    free = StochasticEMGaussianMixture(2, covariance_type=kind, random_state=0).fit(X)
    assert is_told == (mixture.score(X) < free.score(X) - 0.3)
    assert is_told or apart == 1e-2


@pytest.mark.parametrize("n_components", [2, 5])
def test_components_of_one_cluster_are_not_equal(n_components):
    X = np.random.default_rng(0).normal(size=(500, 3))
    StochasticEMGaussianMixture(n_components, random_state=0).fit(X)  # no warning
