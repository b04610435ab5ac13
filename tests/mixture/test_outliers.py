"""Outliers by the density of a mixture."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal, norm
from sklearn.base import clone
from sklearn.preprocessing import PowerTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from sktem import MixtureOutlierDetector
from sktem.exceptions import FitWarning
from sktem.mixture import outliers
from sktem.mixture.left_out import Components, left_out_scores


@parametrize_with_checks([MixtureOutlierDetector(), MixtureOutlierDetector(2)])
def test_estimator_check(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        check(estimator)


def groups(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3))
    X[: n // 2] += 8
    return rng.permutation(X)


def test_far_rows_are_outliers():
    X = groups()
    detector = MixtureOutlierDetector(2, random_state=0).fit(X)
    assert 0 < (detector.predict(X) == -1).mean() < 0.05
    assert (detector.predict(X + [40, -40, 40]) == -1).all()
    far = np.array([[100.0, 0, 0]])
    assert detector.predict(far) == [-1]
    np.testing.assert_allclose(
        detector.decision_function(far), detector.score_samples(far) - detector.offset_
    )


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_contamination_is_the_share_of_outliers(share):
    X = groups()
    detector = MixtureOutlierDetector(2, contamination=share, random_state=0).fit(X)
    assert abs((detector.predict(X) == -1).mean() - share) < 2 / len(X)


def test_auto_is_exceeded_by_98_of_100_draws():
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(3000, 2)), rng.normal(size=(20_000, 2))
    detector = MixtureOutlierDetector(1, random_state=0).fit(X)
    assert abs((detector.predict(new) == -1).mean() - 0.02) < 0.006


def test_units_do_not_matter():
    X = groups()
    scale, shift = [1e6, 1e-6, 1], [0, 0, 1e6]
    one = MixtureOutlierDetector(2, random_state=0).fit(X)
    other = MixtureOutlierDetector(2, random_state=0).fit(X * scale + shift)
    found = other.decision_function(X * scale + shift)
    np.testing.assert_allclose(found, one.decision_function(X), atol=1e-4)


def test_missing_values_count_as_expected():
    X = groups(3000)[:, :2]
    detector = MixtureOutlierDetector(1, shrinkage=0, random_state=0).fit(X)
    mixture = detector.mixture_
    law = multivariate_normal(mixture.means_[0], mixture.covariances_[0])
    draws = mixture.condition(0, 1.0).sample(100_000)[0][:, 0]
    logs = law.logpdf(np.column_stack([np.ones(100_000), draws]))
    error = logs.std() / np.sqrt(len(logs))
    found = detector.score_samples([[1.0, np.nan]])[0]
    assert abs(found - logs.mean()) < 5 * error
    nothing = detector.score_samples([[np.nan, np.nan]])[0]
    assert abs(nothing + law.entropy()) < 1e-9
    holes = np.where(np.random.default_rng(5).random(X.shape) < 0.3, np.nan, X)
    learned = MixtureOutlierDetector(2, random_state=0).fit(holes)
    assert (learned.predict(holes) == -1).mean() < 0.05
    assert learned.predict([[np.nan, 200.0]]) == [-1]


def test_streams_forget_no_threshold():
    X = groups(6000)
    stream = MixtureOutlierDetector(2, contamination=0.05, random_state=0)
    for start in range(0, 6000, 500):
        stream.partial_fit(X[start : start + 500])
        assert (stream.predict([[300.0, 0, 0]]) == -1).all()
    assert abs((stream.predict(X) == -1).mean() - 0.05) < 0.02
    again = pickle.loads(pickle.dumps(stream))
    assert again.offset_ == stream.offset_
    fitted = MixtureOutlierDetector(2, random_state=0).fit(X[:700])
    first = MixtureOutlierDetector(2, random_state=0).partial_fit(X[:700])
    np.testing.assert_array_equal(first.score_samples(X), fitted.score_samples(X))


def test_constant_columns_and_few_rows():
    X = np.column_stack([groups(), np.full(600, 5.0)])
    detector = MixtureOutlierDetector(2, random_state=0).fit(X)
    assert (detector.predict(X + [0, 0, 0, 1.0]) == -1).all()
    assert (detector.predict(X) == 1).mean() > 0.95
    with pytest.warns(FitWarning, match="2 distinct rows"):
        few = MixtureOutlierDetector().fit(X[:2])
    assert np.isfinite(few.score_samples(X)).all()


def test_rows_of_which_nothing_is_observed_count_for_nothing():
    X = np.random.default_rng(0).normal(size=(60, 2))
    holes = np.insert(X, np.repeat([0, 20, 60], 9), np.nan, axis=0)
    for options in ({}, {"contamination": 0.1, "n_components": 1}):
        detector = MixtureOutlierDetector(random_state=0, **options)
        levels = [clone(detector).fit(rows).offset_ for rows in (X, holes)]
        levels += [clone(detector).partial_fit(rows).offset_ for rows in (X, holes)]
        np.testing.assert_allclose(levels[1::2], levels[::2], rtol=1e-12)
    twice = np.vstack([X[:1], X[:1], np.full((5, 2), np.nan)])
    with pytest.warns(FitWarning, match="the 1 distinct rows: 1 are fitted"):
        MixtureOutlierDetector(2).fit(twice)
    detector = MixtureOutlierDetector().partial_fit(holes[:9])
    assert not hasattr(detector, "mixture_")


def test_errors():
    with pytest.raises(ValueError, match=r"of the columns \['b'\]: leave them out"):
        MixtureOutlierDetector().fit(pd.DataFrame({"a": [1.0, 2], "b": [np.nan] * 2}))
    with pytest.raises(TypeError, match="Detector needs X in memory.*partial_fit"):
        MixtureOutlierDetector().fit([groups(), groups()])
    with pytest.raises(ValueError, match=r"\(0, 0.5\]"):
        MixtureOutlierDetector(contamination=0.7).fit(groups())
    with pytest.raises(ValueError, match="contamination"):
        MixtureOutlierDetector(contamination=0).fit(groups())
    with pytest.raises(AttributeError):
        MixtureOutlierDetector().offset_  # noqa: B018


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag"])
def test_left_out_scores_are_those_of_a_fit_without_the_row(
    covariance_type, memory_budget
):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4)) @ rng.normal(size=(4, 4)) + 3
    detector = MixtureOutlierDetector(1, covariance_type=covariance_type).fit(X)
    prior = 0.2 * len(X)  # rows of the default shrinkage
    expected = []
    for i in range(len(X)):
        others = np.delete(X, i, axis=0)
        spread = (len(others) * np.cov(others.T, bias=True)) + prior * np.diag(X.var(0))
        covariance = spread / (len(others) + prior)
        if covariance_type == "diag":
            covariance = np.diag(np.diag(covariance))
        law = multivariate_normal(others.mean(axis=0), covariance)
        expected.append(law.logpdf(X[i]))
    mixture = detector.mixture_
    factors = mixture.precisions_cholesky_
    components = Components(covariance_type, mixture.means_, factors)
    R = mixture.predict_proba(X)
    scores = left_out_scores(components, X, R, prior)
    memory_budget(cached=40)  # rows go by blocks of ten
    blocks = left_out_scores(components, X, R, prior)
    np.testing.assert_allclose(blocks, scores, rtol=1e-12)
    np.testing.assert_allclose(scores, expected, atol=1e-5)  # reg_covar
    assert (detector.score_samples(X) > np.array(expected) + 1e-3).all()


def test_thresholds_of_few_rows_hold_for_new_rows():
    rng = np.random.default_rng(0)
    few, new = rng.normal(size=(100, 20)), rng.normal(size=(2000, 20))
    detector = MixtureOutlierDetector(random_state=0).fit(few)
    assert (detector.predict(new) == -1).mean() < 0.1
    with pytest.warns(FitWarning, match="of new rows like them about") as caught:
        detector.set_params(contamination=0.05).fit(few)
    share = (detector.predict(new) == -1).mean()
    assert share > 0.15  # all of them are ordinary
    told = int(str(caught[0].message).split("about ")[1].split("%")[0]) / 100
    assert abs(told - share) < 4 * np.sqrt(share * (1 - share) / len(few))
    detector.fit(rng.normal(size=(1500, 20)))  # enough rows: no warning
    assert (detector.predict(new) == -1).mean() < 0.1


def share_told(X, share):
    """Return the share of new rows that a warning of a contamination expects."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        MixtureOutlierDetector(contamination=share, random_state=0).fit(X)
    found = [str(w.message) for w in caught if "of new rows like" in str(w.message)]
    return int(found[0].split("about ")[1].split("%")[0]) / 100 if found else None


@pytest.mark.parametrize("seed", range(10))
def test_contaminations_of_hundred_rows_are_told_to_be_less_than_of_new_rows(seed):
    rng = np.random.default_rng(seed)
    few, new = rng.normal(size=(100, 10)), rng.normal(size=(2000, 10))
    detector = MixtureOutlierDetector(contamination=0.1, random_state=0)
    with pytest.warns(FitWarning, match="of new rows"):
        share = (detector.fit(few).predict(new) == -1).mean()
    assert share > 0.15 and share_told(few, 0.1) > 0.15
    # Shares that hold are not told of: many rows, few columns, outliers that are far.
    assert share_told(rng.normal(size=(1000, 2)), 0.1) is None
    assert share_told(rng.normal(size=(100, 2)), 0.5) is None
    far = np.vstack([rng.normal(size=(285, 3)), rng.uniform(-12, 12, size=(15, 3))])
    assert share_told(far, 0.05) is None


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
@pytest.mark.parametrize("n, d", [(400, 2), (200, 3), (300, 1), (100, 4)])
def test_rows_that_most_are_like_are_no_outliers(n, d, learn):
    """Scores of most rows are the same, so that they have no quartiles."""
    X = np.ones((n, d))
    X[0] = 0.0
    detector = getattr(MixtureOutlierDetector(random_state=0), learn)(X)
    assert (detector.predict(X) < 0).tolist() == [True] + [False] * (n - 1)
    rng = np.random.default_rng(0)
    common = rng.random((n, d)) < 0.1  # zeros are more than half of the entries
    binary = getattr(MixtureOutlierDetector(random_state=0), learn)(common * 1.0)
    assert (binary.predict(common * 1.0) < 0).mean() <= 0.1
    assert binary.predict(np.zeros((1, d))) == 1


def test_rows_that_are_all_alike_are_no_outliers():
    X = np.full((50, 2), 3.0)
    detector = MixtureOutlierDetector(random_state=0).fit(X)
    assert (detector.predict(X) == 1).all()
    assert (detector.predict(X + 1) == -1).all()


def test_levels_of_rows_that_differ_are_as_they_were(monkeypatch):
    for seed in range(5):
        X = np.random.default_rng(seed).normal(size=(300, 2))
        level = MixtureOutlierDetector(random_state=0).fit(X).offset_
        monkeypatch.setattr(outliers, "_below_most", lambda level, scores: level)
        assert MixtureOutlierDetector(random_state=0).fit(X).offset_ == level
        monkeypatch.undo()


@pytest.mark.parametrize("seed", range(3))
def test_skewed_columns_are_told(seed):
    rng = np.random.default_rng(seed)
    X = np.exp(2 * rng.normal(size=(300, 3)))
    with pytest.warns(FitWarning, match="skewed") as caught:
        detector = MixtureOutlierDetector(random_state=0).fit(X)
    share = (detector.predict(X) < 0).mean()
    assert share > 0.1 and str(caught[0].message).startswith(f"{share:.0%} of the rows")
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        # The advice helps, and rows far out of normal columns are not skew.
        normal = PowerTransformer().fit_transform(X)
        assert (detector.fit(normal).predict(normal) < 0).mean() < 0.05
        normal[:30] = 8 + rng.normal(size=(30, 3)) * 3
        detector.fit(normal)
        detector.fit(rng.exponential(size=(300, 3)))


def test_densities_of_transformed_columns():
    values = np.exp(np.random.default_rng(0).normal(size=400))
    transform = PowerTransformer(standardize=False).fit(values[:, None])
    moved, power = transform.transform(values[:, None])[:, 0], transform.lambdas_[0]
    slopes = (power - 1) * np.log1p(values)  # of the transform, for positive values
    logs = norm(moved.mean(), moved.std()).logpdf(moved) + slopes
    likelihood = outliers._transformed_likelihood(values)
    np.testing.assert_allclose(likelihood, logs.mean() - 3 / 400, rtol=1e-6)


@pytest.mark.parametrize("values", [
    np.empty(0), np.ones(1), np.ones(50), np.arange(5.0),
    np.linspace(-1e200, 1e200, 50), np.linspace(-1e-200, 1e-200, 50),
    1e15 + np.linspace(-1, 1, 50),
], ids=["none", "one", "constant", "few", "huge", "tiny", "offset"])  # fmt: skip
def test_columns_without_a_power_transform(values):
    """A fit that has many outliers is neither lost for them, nor told of skew."""
    assert outliers._transformed_likelihood(values) == -np.inf
    normal = norm.ppf((np.arange(200) + 0.5) / 200)
    assert abs(outliers._transformed_likelihood(normal) + norm.entropy()) < 0.05
