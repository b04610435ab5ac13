"""Mixtures of any emission: the Gaussian class, closed forms, tables with holes."""

import re
import warnings

import numpy as np
import pandas as pd
import polars
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize, stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sktem import (
    GaussianMixtureRegressor,
    MixtureOutlierDetector,
    StochasticEM,
    StochasticEMGaussianMixture,
    StochasticEMMixture,
    emissions,
)
from sktem.emissions import (
    Bernoulli,
    Categorical,
    Columns,
    FactorAnalyser,
    Gaussian,
    NegativeBinomial,
    StudentT,
)
from sktem.emissions.labels import SeenIntegers
from sktem.exceptions import FitWarning
from sktem.mixture.emission_model import EmissionMixtureModel
from sktem.mixture.short_runs import ShortRuns
from sktem.mixture.start import StartRows
from tests.emissions.structures import KINDS
from tests.oracles import messages_of

SOLVERS = ["em", "online", "iem", "isaem", "vrttem", "fittem", "saem", "mcem", "auto"]


def gaussian_rows(n=400, d=3, seed=0, holes=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    X = X + 3 * rng.normal(size=(3, d))[rng.integers(3, size=n)]
    X[rng.random(X.shape) < holes] = np.nan
    return X


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(2, size=n)
    frame = pd.DataFrame(
        {
            "size": rng.normal(10.0 * z, 1.0),
            "colour": np.where(rng.random(n) < 0.2 + 0.6 * z, "red", "blue"),
            "kind": pd.Categorical(rng.choice(list("abc"), n), categories=list("cabd")),
            "count": rng.poisson(2.0 + 6 * z),
            "flag": rng.random(n) < 0.2 + 0.6 * z,
        }
    )
    frame.loc[frame.index[::7], "size"] = np.nan
    frame.loc[frame.index[::5], "colour"] = None
    frame.loc[frame.index[::11], "kind"] = np.nan
    return frame, z


@pytest.mark.parametrize("kind", KINDS)
def test_agrees_with_the_gaussian_class(kind):
    X = gaussian_rows()
    settings = {"random_state": 0, "tol": 0.0, "max_iter": 15}
    peer = StochasticEMGaussianMixture(3, covariance_type=kind, **settings).fit(X)
    own = StochasticEMMixture(3, emission=emissions.Gaussian(kind), **settings).fit(X)
    assert_allclose(own.params_.means, peer.means_, rtol=1e-10, atol=1e-10)
    assert_allclose(own.params_.covariances, peer.covariances_, rtol=1e-10, atol=1e-10)
    assert_allclose(own.weights_, peer.weights_, rtol=1e-10)
    assert_allclose(own.lower_bounds_, peer.lower_bounds_, rtol=1e-10)
    assert_allclose(own.predict_proba(X), peer.predict_proba(X), atol=1e-10)
    for name in ("bic", "aic", "icl", "score"):
        assert getattr(own, name)(X) == pytest.approx(getattr(peer, name)(X), rel=1e-10)


@pytest.mark.parametrize(
    "solver, name",
    [
        *((solver, one) for solver in SOLVERS for one in ("gaussian", None)),
        *((solver, "negative_binomial") for solver in SOLVERS),
        *((solver, "student_t") for solver in ("saem", "isaem", "vrttem")),
    ],
)
def test_every_solver_comes_to_the_optimum_of_em(solver, name):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 2)) + 5 * rng.integers(2, size=(150, 1))
    if name == "negative_binomial":
        X = np.floor(np.exp(X / 4 + 1))
    X[rng.random(X.shape) < 0.2] = np.nan
    kind = StochasticEMMixture if name else StochasticEMGaussianMixture
    options = {"random_state": 0, "init_params": halves}
    options |= {"emission": name} if name else {}
    best = kind(2, **options).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FitWarning)  # of a step that was projected
        found = kind(2, solver=solver, max_iter=150, **options).fit(X)
    noise = 1e-5 if found.converged_ else 1e-3
    assert found.score(X) > best.score(X) - noise


def test_draws_do_not_hide_slow_progress():
    # EM takes several hundred passes over a plateau.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4)) @ rng.normal(size=(4, 4))
    X += 1.5 * rng.integers(3, size=(600, 1))
    X[rng.random(X.shape) < 0.4] = np.nan
    best = StochasticEMGaussianMixture(3, random_state=0).fit(X)
    found = StochasticEMGaussianMixture(3, solver="saem", random_state=0).fit(X)
    assert best.n_iter_ > 300
    assert found.converged_
    assert found.score(X) > best.score(X) - 1e-3


def halves(X, n_components, random_state):
    return (np.nan_to_num(X[:, 0]) > np.nanmedian(X[:, 0])).astype(int)


def test_memory_of_rows_completes_at_the_visit():
    # With one batch that is the whole, incremental EM is EM, also with holes.
    X = gaussian_rows(n=200, seed=2, holes=0.3)
    options = {"random_state": 0, "tol": 0.0, "max_iter": 6, "emission": "student_t"}
    em = StochasticEMMixture(2, **options).fit(X)
    iem = StochasticEMMixture(2, solver="iem", batch_size=len(X), **options).fit(X)
    assert_allclose(iem.lower_bounds_[-1], em.lower_bounds_[-1], atol=1e-2)
    # The fixed point of incremental EM with small batches is that of EM.
    options["max_iter"] = 25
    em = StochasticEMMixture(2, **options).fit(X)
    iem = StochasticEMMixture(2, solver="iem", batch_size=50, **options).fit(X)
    assert iem.score(X) == pytest.approx(em.score(X), abs=1e-4)
    assert_allclose(iem.params_.means, em.params_.means, atol=3e-2)


def test_one_component_is_the_observed_likelihood_maximised():
    X = gaussian_rows(n=40, d=2, seed=3, holes=0.25)
    X = X[~np.isnan(X).all(axis=1)]
    own = StochasticEMMixture(
        1, emission=emissions.Gaussian(reg_covar=0.0), tol=1e-12, max_iter=5000
    ).fit(X)

    def loss(theta):
        factor = np.array([[np.exp(theta[2]), 0.0], [theta[3], np.exp(theta[4])]])
        covariance, total = factor @ factor.T, 0.0
        for row in X:
            seen = np.flatnonzero(~np.isnan(row))
            total -= stats.multivariate_normal.logpdf(
                row[seen], theta[:2][seen], covariance[np.ix_(seen, seen)]
            )
        return total

    begin = [*np.nanmean(X, axis=0), 0.0, 0.0, 0.0]
    best = optimize.minimize(loss, begin, method="BFGS", options={"gtol": 1e-6})
    assert -own.score(X) * len(X) == pytest.approx(best.fun, rel=1e-8)
    assert_allclose(own.params_.means[0], best.x[:2], atol=1e-4)


@pytest.mark.parametrize("name", ["gaussian", "student_t", "factor_analyser", "auto"])
def test_the_lower_bound_rises(name):
    X = gaussian_rows(seed=4, holes=0.3)
    options = {"emission": name, "tol": 0.0, "max_iter": 40, "random_state": 0}
    own = StochasticEMMixture(3, **options).fit(X)
    assert (np.diff(own.lower_bounds_) > -1e-9).all()


def test_rows_of_which_nothing_is_observed():
    X = gaussian_rows(seed=5, holes=0.2)
    more = np.vstack([X, np.full((50, 3), np.nan)])
    weights = np.ones(len(more))
    one = StochasticEMMixture(2, random_state=0).fit(X)
    other = StochasticEMMixture(2, random_state=0).fit(more, sample_weight=weights)
    assert_allclose(one.params_.means, other.params_.means, rtol=1e-10)
    assert_allclose(other.predict_proba(more)[-1], other.weights_)
    assert other.score_samples(more)[-1] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("cls", [StochasticEMMixture, StochasticEMGaussianMixture])
def test_criteria_do_not_count_rows_of_which_nothing_is_observed(cls):
    X = gaussian_rows(seed=5, holes=0.2)
    more = np.insert(X, [0, 0, 100, 400], np.nan, axis=0)
    weights = np.random.default_rng(0).uniform(0.5, 2, size=len(X))
    of_more = np.insert(weights, [0, 0, 100, 400], 7.0)
    mixture = cls(2, random_state=0).fit(X)
    for name in ("score", "bic", "aic", "icl"):
        criterion = getattr(mixture, name)
        assert criterion(more) == pytest.approx(criterion(X), rel=1e-12)
        assert criterion(more, sample_weight=of_more) == pytest.approx(
            criterion(X, sample_weight=weights), rel=1e-12
        )
        by_blocks = criterion(np.array_split(more, 3))
        assert by_blocks == pytest.approx(criterion(X), rel=1e-12)


@pytest.mark.parametrize("cls", [StochasticEMMixture, StochasticEMGaussianMixture])
def test_streams_pass_over_rows_of_which_nothing_is_observed(cls):
    X = gaussian_rows(n=2000, seed=5, holes=0.2)
    X = X[~np.isnan(X).all(axis=1)]
    more = np.insert(X, [0, 0, 3, 1700, 1700], np.nan, axis=0)
    one = cls(2, random_state=0).partial_fit(X)
    other = cls(2, random_state=0)
    for chunk in np.split(more, [2, 500, 1800]):
        other.partial_fit(chunk)
    assert other.n_samples_seen_ == one.n_samples_seen_ == len(X)
    assert_allclose(other.weights_, one.weights_, rtol=1e-12)
    assert other.score(X) == pytest.approx(one.score(X), rel=1e-12)


@pytest.mark.parametrize("cls", [StochasticEMMixture, StochasticEMGaussianMixture])
def test_columns_may_be_observed_later_on_a_stream(cls):
    X = gaussian_rows(n=2000, d=2, seed=5)
    X[:3, 0] = np.nan
    mixture = cls(2, random_state=0).partial_fit(X[:3]).partial_fit(X[3:])
    peer = cls(2, random_state=0).partial_fit(X)
    assert mixture.score(X) == pytest.approx(peer.score(X), rel=1e-12)
    X[:, 0] = np.nan
    with pytest.raises(ValueError, match=r"nothing has been observed.*\[0\]"):
        cls(2, random_state=0).partial_fit(X)


def test_a_column_never_observed_is_named():
    frame = pd.DataFrame(gaussian_rows(), columns=list("abc")).assign(b=np.nan)
    for mixture in (StochasticEMMixture(2), StochasticEMGaussianMixture(2)):
        with pytest.raises(ValueError, match="nothing has been observed.*'b'"):
            mixture.fit(frame)
        with pytest.raises(ValueError, match=r"nothing has been observed.*1"):
            mixture.fit(frame.to_numpy())


def test_weights_are_repetition():
    X = gaussian_rows(n=80, seed=6, holes=0.2)
    counts = np.random.default_rng(0).integers(0, 3, size=80)
    one = StochasticEMMixture(2, random_state=0, init_params=halves, tol=1e-10)
    other = clone(one).fit(np.repeat(X, counts, axis=0))
    one.fit(X, sample_weight=counts)
    expected = other.score(np.repeat(X, counts, axis=0))
    assert one.score(X, sample_weight=counts) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("name", ["gaussian", "auto"])
def test_a_frame_as_it_comes(name):
    frame, z = table()
    mixture = StochasticEMMixture(2, emission=name, random_state=0).fit(frame)
    assert mixture.converged_
    agree = (mixture.predict(frame) == z).mean()
    assert max(agree, 1 - agree) > 0.95
    assert list(mixture.feature_names_in_) == list(frame.columns)
    assert list(mixture.categories_[2]) == list("cabd")
    for method in ("mean", "draw", "mode"):
        filled = mixture.impute(frame, method)
        assert not filled.isna().any().any()
        assert (filled.dtypes == frame.dtypes).all()
        assert (filled.index == frame.index).all()
        seen = frame.notna().to_numpy()
        assert (filled.to_numpy()[seen] == frame.to_numpy()[seen]).all()
    drawn, labels = mixture.sample(20)
    assert set(drawn["colour"]) <= {"red", "blue"} and len(labels) == 20
    given, _ = mixture.sample(5, given=frame.iloc[:2])
    assert len(given) == 10 and (given["count"][:5] == frame["count"].iloc[0]).all()
    profiles = mixture.class_profiles()
    assert_allclose(profiles.loc["colour"].sum(), 1.0)
    assert_allclose(profiles.loc[("weight", "")], mixture.weights_)
    with pytest.raises(ValueError, match="label 'green'"):
        mixture.predict(frame.assign(colour="green"))


def test_other_frames_and_arrays_of_labels():
    frame, _ = table()
    columns = ["size", "colour", "count"]
    mixture = StochasticEMMixture(2, random_state=0).fit(frame[columns])
    with_polars = polars.from_pandas(frame[columns])
    other = StochasticEMMixture(2, random_state=0).fit(with_polars)
    assert_allclose(other.weights_, mixture.weights_)
    assert other.impute(with_polars)["colour"].null_count() == 0
    numbers = with_polars[["size", "count"]].fill_null(np.nan)
    gaussian = StochasticEMGaussianMixture(2, random_state=0).fit(numbers)
    filled = gaussian.impute(numbers)
    assert isinstance(filled, polars.DataFrame) and filled.columns == numbers.columns
    assert not np.isnan(filled.to_numpy()).any()
    labels = frame[["colour", "kind"]].to_numpy(dtype=object)
    third = StochasticEMMixture(2, emission="categorical", random_state=0).fit(labels)
    filled = third.impute(labels)
    assert set(filled[:, 0]) == {"red", "blue"}
    numbers = np.random.default_rng(0).choice([1, 5, 7], size=(50, 2))
    fourth = StochasticEMMixture(2, emission="categorical", random_state=0)
    assert_array_equal(fourth.fit(numbers).categories_[0], [1, 5, 7])


def test_columns_by_name():
    frame, z = table()
    emission = emissions.Columns(
        [
            ("numbers", emissions.StudentT(), ["size"]),
            ("labels", emissions.Categorical(), ["colour", "flag"]),
            ("counts", emissions.Poisson(), "count"),
        ]
    )
    mixture = StochasticEMMixture(2, emission=emission, random_state=0).fit(frame)
    agree = (mixture.predict(frame) == z).mean()
    assert max(agree, 1 - agree) > 0.95
    again = clone(mixture).set_params(emission__counts=emissions.NegativeBinomial())
    assert isinstance(again.fit(frame).params_.blocks[2].sizes, np.ndarray)
    with pytest.raises(ValueError, match="is in the blocks 'a' and 'b'"):
        twice = [("a", emissions.Poisson(), [0]), ("b", emissions.Poisson(), [0])]
        StochasticEMMixture(emission=emissions.Columns(twice)).fit(np.ones((5, 2)))
    with pytest.raises(ValueError, match="takes counts.*'counts'"):
        mixture.predict(frame.assign(count=0.5))


def test_columns_of_no_block_may_hold_anything():
    frame, _ = table()
    frame["when"] = pd.Timestamp("2024-01-01")
    emission = Columns([("size", Gaussian(), ["size"])])
    mixture = StochasticEMMixture(2, emission=emission, random_state=0).fit(frame)
    peer = StochasticEMMixture(2, random_state=0).fit(frame[["size"]])
    assert mixture.score(frame) == pytest.approx(peer.score(frame[["size"]]))


def test_categories_of_polars_are_labels():
    frame, _ = table()
    text = frame[["size", "colour"]]
    ours = polars.from_pandas(text).with_columns(
        polars.col("colour").cast(polars.Categorical)
    )
    mixture = StochasticEMMixture(2, random_state=0).fit(ours)
    peer = StochasticEMMixture(2, random_state=0).fit(text)
    assert mixture.score(ours) == pytest.approx(peer.score(text))


@pytest.mark.parametrize("cls", [StochasticEMMixture, StochasticEMGaussianMixture])
def test_rows_by_blocks_are_not_completed(cls):
    X = gaussian_rows()
    mixture = cls(2, random_state=0).fit(X)
    for call in (mixture.impute, lambda rows: mixture.sample(1, given=rows)):
        with pytest.raises(TypeError, match="pass rows in memory"):
            call(np.array_split(X, 3))


@pytest.mark.parametrize("seed", range(20, 30))
def test_rounding_errors_of_counts_are_nothing_to_gain(seed):
    X = np.random.default_rng(seed).negative_binomial(3, 0.1, size=(200, 2))
    mixture = StochasticEMMixture(1, emission="negative_binomial").fit(X)
    assert mixture.converged_ and mixture.n_iter_ < 30


def test_latent_classes_are_found():
    # Three binary items given two classes: the moments are those of the classes.
    rng = np.random.default_rng(0)
    p = np.array([[0.9, 0.8, 0.85, 0.9], [0.2, 0.1, 0.15, 0.2]])
    z = (rng.random(4000) < 0.35).astype(int)
    X = (rng.random((4000, 4)) < p[z]).astype(float)
    X[rng.random(X.shape) < 0.2] = np.nan
    mixture = StochasticEMMixture(2, emission="bernoulli", random_state=0, tol=1e-9)
    mixture.fit(X)
    order = np.argsort(mixture.weights_)[::-1]
    assert_allclose(mixture.params_.probabilities[order], p, atol=0.05)
    table_ = mixture.classification_table(X)
    assert_allclose(table_.sum(axis=1), 1.0)
    R = mixture.predict_proba(X)
    entropy = -(R * np.log(R)).sum() / (len(R) * np.log(2))
    assert mixture.entropy_r2(X) == pytest.approx(1 - entropy)
    seen = R[~np.isnan(X).all(axis=1)]  # other rows count for nothing
    entropy = -2 * (seen * np.log(seen)).sum()
    assert mixture.icl(X) == pytest.approx(mixture.bic(X) + entropy)
    assert mixture._n_parameters() == 9


@pytest.mark.parametrize("solver", ["em", "isaem"])
def test_streams(solver):
    X = gaussian_rows(n=3000, seed=7, holes=0.2)
    stream = StochasticEMMixture(3, solver=solver, random_state=0, n_init=2)
    for start in range(0, 3000, 500):
        stream.partial_fit(X[start : start + 500])
    whole = StochasticEMMixture(3, random_state=0, n_init=3).fit(X)
    assert stream.score(X) > whole.score(X) - 0.05
    assert stream.n_samples_seen_ >= (~np.isnan(X).all(axis=1)).sum()


def test_warm_start_goes_on():
    X = gaussian_rows(seed=8, holes=0.2)
    options = {"random_state": 0, "tol": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = StochasticEMMixture(2, warm_start=True, max_iter=5, **options).fit(X)
        parts.fit(X)
        whole = StochasticEMMixture(2, max_iter=10, **options).fit(X)
    assert_allclose(parts.params_.means, whole.params_.means, rtol=1e-8)
    with pytest.raises(ValueError, match="n_components=2"):
        parts.set_params(n_components=3).fit(X)


def test_threads_give_the_same_bits(memory_budget):
    memory_budget(cached=1024)
    X = gaussian_rows(n=3000, seed=9, holes=0.05)
    options = {"random_state": 0, "max_iter": 2, "tol": 0.0}
    one, two = (
        StochasticEMMixture(2, n_jobs=n, **options).fit(X).params_.means for n in (1, 2)
    )
    assert_array_equal(one, two)


def test_rows_from_a_file(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    X = gaussian_rows(n=3000, seed=10, holes=0.2)
    names = ["a", "b", "c"]
    data = pyarrow.table(dict(zip(names, X.T, strict=True)))
    parquet.write_table(data, tmp_path / "rows.parquet")
    options = {"random_state": 0, "init_params": halves}
    own = StochasticEMMixture(2, **options).fit(str(tmp_path / "rows.parquet"))
    peer = StochasticEMMixture(2, **options).fit(X)
    assert_allclose(own.params_.means, peer.params_.means, rtol=1e-6)
    assert own.score(str(tmp_path / "rows.parquet")) == pytest.approx(peer.score(X))


def test_components_without_rows_are_told():
    X = np.repeat([[0.0], [1.0]], 20, axis=0)
    with pytest.warns(FitWarning):
        StochasticEMMixture(4, emission="bernoulli", random_state=0).fit(X)


@pytest.mark.parametrize(
    "options, match",
    [
        ({"emission": "gausian"}, "did you mean 'gaussian'"),
        ({"emission": 3}, "emission must be a name"),
        ({"n_components": 0}, "n_components"),
        ({"init_params": "k"}, "init_params"),
        ({"emission": "poisson"}, "takes counts"),
        ({"emission": "gamma"}, "takes positive"),
    ],
)
def test_bad_settings(options, match):
    with pytest.raises((ValueError, TypeError), match=match):
        StochasticEMMixture(**{"n_components": 2, **options}).fit(gaussian_rows())


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
@pytest.mark.parametrize("cls", [StochasticEMMixture, StochasticEMGaussianMixture])
def test_components_of_single_heavy_rows_are_told(cls, scale):
    X, weights = np.random.default_rng(0).normal(size=(2000, 3)), np.full(2000, scale)
    weights[:2] *= 1e6
    with pytest.warns(FitWarning, match=r"Component\(s\) 0, 1 have"):
        mixture = cls(3, random_state=0).fit(X, sample_weight=weights)
    assert mixture.weights_.max() > 0.49  # half of all weight is one row
    # Control: as much weight on many rows.
    weights[:1000] = 1e6 * scale
    cls(3, random_state=0).fit(X, sample_weight=weights)


@pytest.mark.parametrize("n_unused", [0, 40])
def test_categories_that_no_row_has_are_no_parameters(n_unused):
    """Levels that filtering has left behind change neither criteria nor warnings."""
    rng = np.random.default_rng(2)
    z = rng.integers(3, size=300)
    p = np.full((3, 4), 0.1) + 0.6 * np.eye(3, 4)
    codes = (p.cumsum(axis=1)[z][:, None] < rng.random((300, 6, 1))).sum(axis=2)
    labels = [f"l{code}" for code in range(4 + n_unused)]
    table = pd.DataFrame(
        {
            f"c{j}": pd.Categorical.from_codes(codes[:, j], labels)
            for j in range(codes.shape[1])
        }
    )
    occurring = table.astype(str)
    mixture = StochasticEMMixture("auto", random_state=0)
    assert messages_of(lambda: mixture.fit(table))[1] == []
    assert mixture.n_components_ == 3
    known = clone(mixture).fit(occurring)
    assert_allclose(mixture.bic(table), known.bic(occurring), rtol=1e-9)


@pytest.mark.parametrize("form", ["array", "file", "stream", "frame"])
def test_booleans_of_any_form_are_labels(form, tmp_path):
    """Also those that are rarely true, which counts could be, or never."""
    X = np.random.default_rng(0).random((300, 4)) < [0.5, 0.3, 0.02, 0]
    mixture = StochasticEMMixture(2, emission="auto", random_state=0)
    if form == "file":
        np.save(tmp_path / "rows.npy", X)
        mixture.fit(str(tmp_path / "rows.npy"))
    elif form == "stream":
        mixture.partial_fit(X)
    else:
        mixture.fit(pd.DataFrame(X) if form == "frame" else X)
    assert [known.tolist() for known in mixture.categories_.values()] == [[0, 1]] * 4
    never = np.ones((1, 4), dtype=bool)
    score = mixture.score_samples(pd.DataFrame(never) if form == "frame" else never)
    assert np.isfinite(score).all()


def test_a_stream_has_the_attributes_of_a_fit():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=200), "s": rng.choice(["a", "b"], 200)})
    mixture = StochasticEMMixture(2, random_state=0)
    for _ in range(2):  # attributes are computed when they are read, on each chunk
        mixture.partial_fit(table)
        assert mixture.n_components_ == 2
        assert isinstance(mixture.emission_, Columns)
        assert mixture.categories_[1].tolist() == ["a", "b"]


def test_booleans_with_holes_are_labels():
    table = pd.DataFrame({"flag": [True, None, False, True] * 10})
    mixture = StochasticEMMixture(1).fit(table)
    assert mixture.categories_[0].tolist() == [False, True]
    assert mixture.params_.probabilities[0, 0].round(2).tolist() == [0.33, 0.67]


# ---------------------------------------------------- covariances that are reg_covar

NARROW = {
    "gaussian": Gaussian(),
    "diagonal": Gaussian("diag"),
    "tied": Gaussian("tied"),
    "student_t": StudentT(),
    "factor_analyser": FactorAnalyser(1),
    "blocks": Columns([("x", Gaussian(), [0, 1]), ("y", StudentT(), [2, 3])]),
}


@pytest.mark.parametrize("name", sorted(NARROW))
def test_columns_that_are_small_beside_reg_covar_are_told(name):
    X = np.random.default_rng(0).normal(size=(300, 4))
    mixture = StochasticEMMixture(2, emission=NARROW[name], random_state=0, tol=1e-4)
    for unit in (1e-6, 1e-12):  # such variances are a rounding error of reg_covar
        with pytest.warns(FitWarning, match="of the variance .* in column"):
            clone(mixture).fit(X * unit)
    mixture.fit(X)  # an error, if it warned


@pytest.mark.parametrize("cls", [StochasticEMMixture, StochasticEMGaussianMixture])
def test_reg_covar_that_doubles_variances_is_told(cls):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 1)) + 5.0 * rng.integers(2, size=(2000, 1))
    mixture = cls(2, random_state=0)
    with pytest.warns(FitWarning, match="a tenth or more of the variance"):
        mixture.fit(1e-3 * X)
    clone(mixture).fit(5e-3 * X)  # an error, if it warned


@pytest.mark.parametrize("name", ["gaussian", "student_t", "factor_analyser", "blocks"])
def test_values_whose_squares_overflow_are_refused(name):
    X = np.random.default_rng(0).normal(size=(30, 4))
    X[3, 1] = -1e200
    mixture = StochasticEMMixture(2, emission=NARROW[name])
    with pytest.raises(
        ValueError, match="squares overflow: in column 1 .* is 1e\\+200"
    ):
        mixture.fit(X)


@pytest.mark.parametrize("name", ["gaussian", "student_t", "factor_analyser", "blocks"])
def test_components_short_of_rows_are_told(name):
    rng = np.random.default_rng(1)
    mixture = StochasticEMMixture(2, emission=NARROW[name], random_state=0, tol=1e-3)
    with pytest.warns(FitWarning, match=r"Component\(s\) .* fewer rows than"):
        mixture.fit(rng.normal(size=(3, 4)))


def test_columns_of_blocks_are_named_as_they_are_in_the_table():
    """A column of two values, in the second block, lets components collapse."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(400, 3)), rng.integers(0, 2, 400)])
    emission = Columns([("a", Gaussian(), [0, 1]), ("b", Gaussian(), [2, 3])])

    def start(X, n_components, random_state):
        return (X[:, 3] > 0.5).astype(int)

    mixture = StochasticEMMixture(2, emission=emission, init_params=start)
    with pytest.warns(FitWarning, match=r"mostly of column\(s\) 3\)"):
        mixture.fit(X)
    with pytest.warns(FitWarning, match=r"mostly of column\(s\) 'd'\)"):
        mixture.fit(pd.DataFrame(X, columns=list("abcd")))


def test_values_that_a_block_cannot_have_are_in_a_column_of_the_table():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(50, 2)), rng.poisson(3, size=(50, 2))])
    emission = Columns([("x", Gaussian(), [0, 1]), ("n", NegativeBinomial(), [2, 3])])
    mixture = StochasticEMMixture(1, emission=emission).fit(X)
    wrong = X.copy()
    wrong[7, 3] = -1
    with pytest.raises(ValueError, match=r"column 3 has -1 \(in the block 'n'\)"):
        mixture.score(wrong)
    frame, wrong = (pd.DataFrame(x, columns=list("abcd")) for x in (X, wrong))
    named = clone(mixture).fit(frame)
    for call in (clone(mixture).fit, clone(mixture).partial_fit, named.predict):
        with pytest.raises(ValueError, match="column 'd' has -1"):
            call(wrong)
    with pytest.raises(ValueError, match="column 'd' has -2"):
        named.condition(["d"], [-2])
    with pytest.raises(ValueError, match="column 'd' has -1"):
        named.marginal(["a", "d"]).predict(wrong[["a", "d"]])
    twice = Columns([("x", Gaussian(), ["a", "b"]), ("n", NegativeBinomial(), ["b"])])
    with pytest.raises(ValueError, match="column 'b' is in the blocks 'x' and 'n'"):
        StochasticEMMixture(1, emission=twice).fit(frame)


@pytest.mark.parametrize("seed", range(3))
def test_identifiers_are_told_that_leave_one_component(seed):
    """A label for each row costs a split of them more than two clusters gain."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"size": rng.normal(np.repeat([0.0, 9.0], 60))})
    mixture = StochasticEMMixture("auto", emission="auto", random_state=0)
    assert clone(mixture).fit(frame).n_components_ == 2
    frame["key"] = [f"row {i}" for i in range(120)]
    with pytest.warns(FitWarning, match=r"Column\(s\) 'key' .* identifiers do"):
        clone(mixture).fit(frame)
    frame["key"] = rng.choice(list("abcdefghij"), 120)
    assert clone(mixture).fit(frame).n_components_ == 2  # an error, if it warned


def test_complex_numbers_are_refused():
    frame = pd.DataFrame({"a": list("xyzxyzxyz"), "b": np.arange(9) * 1j})
    with pytest.raises(ValueError, match="column 'b' .*complex data are not"):
        StochasticEMMixture(2).fit(frame)


def test_integers_that_holes_have_made_floats_are_counts():
    counts = np.random.default_rng(0).poisson(4.0, 200)
    table = pd.DataFrame({"count": counts, "size": counts + 0.5})
    holes = table.mask(np.arange(400).reshape(200, 2) % 7 == 0)
    assert holes["count"].dtype == float
    for frame in (table, holes):
        blocks = StochasticEMMixture(1, emission="auto").fit(frame).emission_.emissions
        assert [(name, columns) for name, _, columns in blocks] == [
            ("counts", [0]), ("numbers", [1]),
        ]  # fmt: skip
    for whole, kind in [(counts, NegativeBinomial), (counts + 1, Gaussian)]:
        for X in (pd.DataFrame({"n": whole * 1.0}), whole[:, None] * 1.0):
            mixture = StochasticEMMixture(1, emission="auto").fit(X)
            assert isinstance(mixture.emission_, kind)  # by zeros, which counts have


@pytest.mark.parametrize("carrier", ["frame", "array", "parquet", "map"])
@pytest.mark.parametrize("seed", range(5))
def test_integers_far_from_zero_are_measurements(seed, carrier, tmp_path):
    """As counts, with a variance above the mean, two groups of years would be one."""
    rng = np.random.default_rng(seed)
    z = np.arange(300) % 2
    years = rng.normal(1985 + 20 * z, 5).round().astype(int)
    pressure = rng.normal(120.0, 17, size=300)
    low = (0.45 * pressure + rng.normal(26.0, 8, size=300)).round().astype(int)
    table = np.column_stack([years, pressure.round().astype(int), low])
    X = {"frame": pd.DataFrame(table, columns=list("abc")), "array": table}.get(carrier)
    if carrier == "parquet":
        X = tmp_path / "rows.parquet"
        pd.DataFrame(table, columns=list("abc")).to_parquet(X)
    elif carrier == "map":
        X = tmp_path / "rows.npy"
        np.save(X, table)
    mixture = StochasticEMMixture(2, emission="auto", random_state=0).fit(X)
    assert isinstance(mixture.emission_, Gaussian)
    same = np.mean(mixture.predict(X) == z)
    assert max(same, 1 - same) > 0.95
    # Counts near zero, and few values, are no measurements.
    few = 100 + 10 * rng.integers(2, size=300), 100 + rng.integers(9, size=300)
    for counts in (rng.poisson(5, 300), np.full(300, 7), *few):
        found = StochasticEMMixture(1, emission="auto").fit(counts[:, None])
        assert not isinstance(found.emission_, Gaussian)


@pytest.mark.parametrize("carrier", ["frame", "holes", "array", "parquet", "map"])
def test_integers_of_two_values_are_labels_unless_they_may_be_rare_counts(
    carrier, tmp_path, global_random_seed
):
    rng = np.random.default_rng(global_random_seed)
    table = pd.DataFrame(
        {
            "smokes": rng.integers(2, size=600),
            "sex": rng.integers(1, 3, size=600),
            "claims": (np.arange(600) % 100 == 0).astype(int),  # six ones
            "visits": rng.poisson(2.0, 600),
        }
    )
    X = table
    if carrier == "holes":
        X = table.mask(rng.random(table.shape) < 0.1)
    elif carrier == "array":
        X = table.to_numpy()
    elif carrier == "parquet":
        X = tmp_path / "rows.parquet"
        table.to_parquet(X)
    elif carrier == "map":
        np.save(tmp_path / "rows.npy", table.to_numpy())
        X = tmp_path / "rows.npy"
    mixture = StochasticEMMixture(1, emission="auto", random_state=0).fit(X)
    blocks = [(name, list(c)) for name, _, c in mixture.emission_.emissions]
    assert blocks == [("labels", [0, 1]), ("counts", [2, 3])]
    # Two labels are what one would have written by hand.
    columns = [
        ("labels", Categorical(), [0, 1]),
        ("counts", NegativeBinomial(), [2, 3]),
    ]
    same = StochasticEMMixture(1, emission=Columns(columns), random_state=0).fit(X)
    assert_allclose(mixture.score(X), same.score(X), rtol=1e-12)


def test_rare_counts_are_seldom_taken_for_labels():
    codes = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        for mean in (0.02, 0.05, 0.1, 0.2, 0.4):
            seen = SeenIntegers()
            for _ in range(5):
                seen(rng.poisson(mean, 80))
            codes += seen.are_codes
    assert codes <= 5  # of 1000


def test_dates_are_an_error_with_the_remedy():
    frame = pd.DataFrame({"x": np.arange(30.0), "day": np.arange(30.0)})
    StochasticEMMixture(1, emission="auto").fit(frame)
    for dates in [
        pd.date_range("2020-01-01", periods=30),
        pd.to_timedelta(np.arange(30), "D"),
    ]:
        table = frame.assign(day=dates)
        for one in (table, table.assign(label=list("ab") * 15)):
            with pytest.raises(ValueError, match="'day'.*numbers.* days"):
                StochasticEMMixture(1, emission="auto").fit(one)


def test_integers_among_objects_are_counts():
    counts = np.random.default_rng(0).poisson(3, 60).astype(object)
    counts[::7] = None
    frame = pd.DataFrame({"n": counts, "x": np.arange(60.0) + 0.5})
    mixture = StochasticEMMixture(1, emission="auto").fit(frame)
    assert [name for name, *_ in mixture.emission_.emissions] == ["counts", "numbers"]
    frame["n"] = [None if n is None else n + 0.5 for n in counts]
    mixture = StochasticEMMixture(1, emission="auto").fit(frame.astype(object))
    assert isinstance(mixture.emission_, Gaussian)


def test_declared_codes_may_come_later():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.integers(2, size=(2000, 3)), rng.integers(4, size=(99, 3))])
    streams = StochasticEMMixture(2, emission=Categorical(4), random_state=0)
    for start in range(0, len(X), 100):
        streams.partial_fit(X[start : start + 100])
    assert np.isfinite(streams.score(X))
    one = StochasticEMMixture(emission=Categorical(4)).fit(X[:2000])
    p = one.params_.probabilities[0]
    wanted = np.log(p[[0, 1, 2], [0, 1, 3]]).sum()
    assert_allclose(one.score_samples([[0, 1, 3]]), wanted)
    with pytest.raises(ValueError, match="Labels that come later have to be declared"):
        StochasticEMMixture(emission=Categorical()).fit(X[:2000]).partial_fit(X[2000:])


def test_degrees_are_refused():
    angles = np.random.default_rng(0).vonmises(2.0, 4.0, size=(200, 1))
    mixture = StochasticEMMixture(2, emission="von_mises", random_state=0)
    mixture.fit(angles % (2 * np.pi))
    with pytest.raises(ValueError, match="numpy.deg2rad"):
        mixture.fit(np.rad2deg(angles % (2 * np.pi)))


@pytest.mark.parametrize(
    "kind, n_labels, d, n, is_told",
    [
        ("labels", 50, 2, 500, True),
        ("labels", 4, 6, 60, True),
        ("labels", 5, 2, 500, False),
        ("mixed", 4, 6, 60, True),
        ("mixed", 5, 2, 500, False),
        ("binary", 2, 10, 40, True),
        ("binary", 2, 10, 500, False),
    ],
)
def test_labels_that_no_row_has_are_told(kind, n_labels, d, n, is_told):
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(n_labels), (2, d)).cumsum(axis=2)[..., :-1]
    classes = rng.integers(2, size=2 * n)
    X = (rng.random((2 * n, d, 1)) > shares[classes]).sum(axis=2)
    X, new = X[:n], X[n:]

    def mixture(smoothing):
        emission = Categorical(n_labels, smoothing=smoothing)
        if kind == "mixed":
            emission = Columns(
                [("one", emission, [0]), ("rest", emission, [*range(1, d)])]
            )
        elif kind == "binary":
            emission = Bernoulli(smoothing=smoothing)
        return StochasticEMMixture(3, emission=emission, random_state=0)

    fitted, messages = messages_of(mixture(0.0).fit, X)
    told = [re.search(r"smoothing=([\d.e-]+)\), a prior", text) for text in messages]
    told = [float(found[1]) for found in told if found]

    assert bool(told) == is_told
    gain = mixture(told[0] if told else 1 / n).fit(X).score(new) - fitted.score(new)
    assert gain > 0.5 if is_told else gain < 0.2


@pytest.mark.parametrize("emission", ["poisson", "negative_binomial"])
@pytest.mark.parametrize("n, is_told", [(40, True), (1000, False)])
def test_counts_that_no_row_has_are_told(n, is_told, emission):
    rng = np.random.default_rng(0)
    rates = rng.gamma(1.0, 0.2, (2, 10))
    X = rng.poisson(rates[rng.integers(2, size=n)])
    new = rng.poisson(rates[rng.integers(2, size=2000)])
    seen = X.any(axis=0)
    mixture = StochasticEMMixture(4, emission=emission, random_state=0)
    _, found = messages_of(mixture.fit, X[:, seen])
    assert any("has counts above zero of column(s)" in one for one in found) == is_told
    one = StochasticEMMixture(emission=emission).fit(X[:, seen])
    loss = one.score(new[:, seen]) - mixture.score(new[:, seen])
    assert loss > 0.5 if is_told else loss < 0.1


@pytest.mark.parametrize("n_clusterings", [10, 1])
def test_starts_do_not_depend_on_the_seed(n_clusterings, monkeypatch):
    rng = np.random.default_rng(2)
    limits = rng.dirichlet(np.ones(4), (6, 10)).cumsum(axis=2)
    states = rng.integers(6, size=600)
    X = (rng.random((600, 10, 1)) > limits[states]).sum(axis=2)
    rule = StartRows(n_clusterings=n_clusterings)
    monkeypatch.setattr("sktem.mixture.start.START_ROWS", rule)
    if n_clusterings == 1:
        alone = ShortRuns(random=0)
        monkeypatch.setattr("sktem.mixture.short_runs.SHORT_RUNS", alone)
    settings = {"emission": Categorical(4), "tol": 1e-5}
    scores = [
        StochasticEMMixture(6, random_state=seed, **settings).fit(X).score(X)
        for seed in range(10)
    ]
    # Of single starts some end lower.
    assert (max(scores) - min(scores) < 0.002) == (n_clusterings > 1)


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}])
def test_columns_of_lists_are_named(value):
    frame = pd.DataFrame({"size": np.arange(20.0), "parts": [value] * 20})
    with pytest.raises(ValueError, match="column 'parts' does not hold labels: unhash"):
        StochasticEMMixture(2).fit(frame)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_the_gaussian_class_keeps_the_types_of_frames(kind):
    """But for integers and booleans whose holes are filled with fractions."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "n": rng.integers(9, size=80),
            "holes": pd.array(rng.integers(9, size=80), dtype="Int64"),
            "flag": pd.array(rng.random(80) < 0.5, dtype="boolean"),
            "x": rng.normal(size=80).astype(np.float32),
        }
    )
    if kind == "pandas":
        table["codes"] = pd.Categorical(rng.integers(9, size=80))
        table.loc[5, "codes"] = None
    table.loc[3, ["holes", "flag"]] = pd.NA
    table.loc[4, "x"] = np.nan
    table = table if kind == "pandas" else polars.from_pandas(table)
    completed = StochasticEMGaussianMixture(random_state=0).fit(table).impute(table)
    types = [str(completed[name].dtype).lower() for name in completed.columns]
    assert types[:4] == ["int64", "float64", "float64", "float32"]
    assert not np.isnan(np.asarray(completed, dtype=float)).any()
    assert 0 < completed["flag"][3] < 1


def test_frames_of_polars_keep_their_types():
    pl, rng = polars, np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "kind": pl.Series(rng.choice(["a", "b"], 60), dtype=pl.Categorical),
            "count": pl.Series(rng.poisson(3.0, 60), dtype=pl.Int16),
            "holes": [None if i % 9 == 0 else i % 4 for i in range(60)],
            "real": pl.Series(rng.normal(size=60), dtype=pl.Float32),
        }
    )
    fitted = StochasticEMMixture(1, emission="auto", random_state=0).fit(frame)
    assert fitted.impute(frame, method="draw").schema == frame.schema
    filled = fitted.impute(frame)  # of which the means are no integers
    assert filled.drop("holes").equals(frame.drop("holes"))
    assert filled.schema["holes"] == pl.Float64


@pytest.mark.parametrize(
    "estimator",
    [
        StochasticEMGaussianMixture(),
        MixtureOutlierDetector(),
        GaussianMixtureRegressor(),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_gaussian_classes_say_what_takes_labels(estimator):
    frame = pd.DataFrame({"a": [0.0, 1.0], "b": ["x", "y"]})
    with pytest.raises(ValueError, match=r"\['b'\].* take StochasticEMMixture"):
        estimator.fit(frame, np.arange(2.0))


@pytest.mark.parametrize("solver", ["isaem", "vrttem", "fittem"])
def test_models_of_a_loop_project_statistics(solver):
    X = np.random.default_rng(0).normal(size=(60, 2))
    X[30:] += 4.0
    model = EmissionMixtureModel(Gaussian(), 2)
    for rows in (X, X[:, :1]):  # the same model learns of other columns
        options = {"random_state": 0, "tol": 1e-5}
        fits = [StochasticEM(model, solver=s, **options) for s in (solver, "em")]
        scores = [fit.fit(rows).score(rows) for fit in fits]
        assert abs(scores[0] - scores[1]) < 1e-3
