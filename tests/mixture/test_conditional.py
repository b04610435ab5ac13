"""Marginals and conditionals of mixtures."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, multivariate_t

from sktem import StochasticEMGaussianMixture, StochasticEMMixture
from sktem.emissions import (
    Columns,
    FactorAnalyser,
    Gamma,
    Gaussian,
    LogNormal,
    StudentT,
    VonMises,
    VonMisesFisher,
)

pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)) @ rng.normal(size=(4, 4))
    X[:100] += 2
    return np.abs(X + 3)


def check_ratio(mixture, X):
    """Compare with the ratio of densities of the joint and of what is given."""
    given, others = [2, 0], [1, 3]
    for row in X[:3]:
        found = mixture.condition(given, row[given])
        alone = np.full((1, 4), np.nan)
        alone[0, given] = row[given]
        known = mixture.score_samples(alone)
        marginal = mixture.marginal(given).score_samples(row[None, given])
        np.testing.assert_allclose(marginal, known, rtol=1e-9)
        expected = mixture.score_samples(row[None]) - known
        values = found.score_samples(row[None, others])
        np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-9)
        assert type(found) is type(mixture)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical", "unit"])
def test_gaussian_is_joint_over_marginal(rows, kind):
    mixture = StochasticEMGaussianMixture(
        3, covariance_type=kind, random_state=0, tol=1e-3
    ).fit(rows)
    check_ratio(mixture, rows)


@pytest.mark.parametrize(
    "emission",
    [
        Gaussian(mean_prior=np.zeros(4), covariance_prior=np.eye(4)),
        StudentT(),
        StudentT("tied"),
        StudentT("diag"),
        StudentT("spherical"),
        FactorAnalyser(1),
        LogNormal("full"),
        Gamma(),
        VonMises(),
        Columns([("a", Gaussian(), [0, 3]), ("b", StudentT(), [2, 1])]),
        Columns([("a", Gamma(), [0]), ("b", StudentT(), [2, 1, 3])]),
    ],
    ids=str,
)
def test_emission_is_joint_over_marginal(rows, emission):
    mixture = StochasticEMMixture(2, emission=emission, random_state=0, tol=1e-3)
    check_ratio(mixture.fit(rows), rows)


def test_gaussian_is_scipys():
    mean, covariance = (
        np.array([1.0, -1.0, 2.0]),
        np.array([[2.0, 0.5, 0.3], [0.5, 1.0, -0.4], [0.3, -0.4, 1.5]]),
    )
    X = multivariate_normal(mean, covariance).rvs(500, random_state=0)
    mixture = StochasticEMGaussianMixture().fit(X)
    joint = multivariate_normal(mixture.means_[0], mixture.covariances_[0])
    alone = multivariate_normal(mixture.means_[0, 1], mixture.covariances_[0, 1, 1])
    found = mixture.condition(1, 0.3)
    expected = joint.logpdf([2.0, 0.3, 1.0]) - alone.logpdf(0.3)
    np.testing.assert_allclose(found.score_samples([[2.0, 1.0]]), expected)


def test_student_is_scipys():
    X = multivariate_t([0, 1], [[1.0, 0.6], [0.6, 2.0]], 4).rvs(400, random_state=0)
    mixture = StochasticEMMixture(emission="student_t").fit(X)
    own = mixture.params_
    degrees = own.degrees_of_freedom[0]
    joint = multivariate_t(own.means[0], own.covariances[0], degrees)
    alone = multivariate_t(own.means[0, :1], own.covariances[0, :1, :1], degrees)
    found = mixture.condition([0], [3.0]).score_samples([[0.5]])
    np.testing.assert_allclose(found, joint.logpdf([3, 0.5]) - alone.logpdf(3.0))


def test_frames_are_conditioned_by_name():
    rng = np.random.default_rng(0)
    size = rng.normal(size=300)
    table = pd.DataFrame(
        {
            "size": size,
            "kind": np.where(size > 0, "large", "small"),
            "count": rng.poisson(np.where(size > 0, 9, 1)),
        }
    )
    mixture = StochasticEMMixture(2, emission="auto", random_state=0).fit(table)
    found = mixture.condition("kind", "large")
    assert found.feature_names_in_.tolist() == ["size", "count"]
    k = mixture.predict(table[table["kind"] == "large"])[0]
    assert found.weights_.argmax() == k
    swapped = mixture.marginal(["count", "kind"])
    assert swapped.feature_names_in_.tolist() == ["count", "kind"]
    assert list(swapped.sample(2)[0].columns) == ["count", "kind"]
    whole = table.assign(size=np.nan)
    np.testing.assert_allclose(
        swapped.score_samples(table[["count", "kind"]]), mixture.score_samples(whole)
    )
    again = found.fit(table[["size", "count"]])
    assert again.n_features_in_ == 2
    gaussian = StochasticEMGaussianMixture().fit(table[["size", "count"]])
    assert gaussian.condition("size", 0.0).feature_names_in_.tolist() == ["count"]


def test_unknown_values_are_integrated_out(rows):
    mixture = StochasticEMGaussianMixture(2, random_state=0, tol=1e-3).fit(rows)
    found = mixture.condition([0, 1], [3.0, np.nan])
    expected = mixture.condition((0,), 3.0).marginal(range(1, 3))
    np.testing.assert_allclose(found.means_, expected.means_)
    np.testing.assert_allclose(found.covariances_, expected.covariances_)


def test_far_offset_and_float32(rows):
    far = StochasticEMGaussianMixture(2, random_state=0, tol=1e-3).fit(rows + 1e7)
    near = StochasticEMGaussianMixture(2, random_state=0, tol=1e-3).fit(rows)
    found, expected = far.condition(0, 3 + 1e7), near.condition(0, 3.0)
    np.testing.assert_allclose(found.means_ - 1e7, expected.means_, atol=1e-5)
    single = StochasticEMGaussianMixture(random_state=0).fit(rows.astype(np.float32))
    assert single.condition(0, 3.0).means_.dtype == np.float32


def test_what_is_known_exactly_keeps_a_density():
    x = np.linspace(0, 1, 50)
    table = np.column_stack([x, 2 * x, 3 * x])
    mixture = StochasticEMGaussianMixture(reg_covar=1e-12).fit(table)
    found = mixture.condition([0, 1], [0.5, 1.0])
    np.testing.assert_allclose(found.means_, [[1.5]], atol=1e-3)
    assert np.isfinite(found.score_samples([[1.5]])).all()


def test_errors(rows):
    mixture = StochasticEMGaussianMixture().fit(rows)
    with pytest.raises(ValueError, match="one value for each column"):
        mixture.condition([0, 1], [1.0])
    with pytest.raises(ValueError, match="none is left"):
        mixture.condition([0, 1, 2, 3], rows[0])
    with pytest.raises(ValueError, match="twice"):
        mixture.marginal([1, 1])
    with pytest.raises(ValueError, match="infinity"):
        mixture.condition(0, np.inf)
    directions = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    sphere = StochasticEMMixture(emission=VonMisesFisher()).fit(directions)
    assert sphere.marginal([0, 1]).n_features_in_ == 2
    with pytest.raises(TypeError, match="smaller sphere"):
        sphere.condition(0, 0.5)
    counts = StochasticEMMixture(emission="poisson").fit(np.arange(20.0).reshape(10, 2))
    with pytest.raises(ValueError, match="counts"):
        counts.condition(0, 1.5)
