"""Starts of a mixture against the clusterings and moments that they stand for."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.datasets import load_iris
from sklearn.mixture import GaussianMixture

from sktem import StochasticEMGaussianMixture
from sktem.mixture.start import POINTS, START_METHODS, StartRows, start_statistics
from sktem.models import GaussianMixtureModel
from tests.emissions.structures import KINDS

K = 3


def data(n=120, d=2, seed=0):
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=(n, d)) + 6 * rng.normal(size=(K, d))[rng.integers(K, size=n)]
    )


def start(model, X, method, seed=0, sample_weight=None):
    s = start_statistics(model, X, method, np.random.RandomState(seed), sample_weight)
    return model.maximize(s, None)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("method", ["kmeans", "random"])
@pytest.mark.parametrize("kind", KINDS[:4])
def test_same_start_as_scikit_learn(kind, method, seed):
    X = data()
    peer = GaussianMixture(
        K, covariance_type=kind, init_params=method, max_iter=0, random_state=seed
    ).fit(X)
    model = GaussianMixtureModel(K, covariance_type=kind, reg_covar=1e-6)
    params = start(model, X, method, seed)
    assert_allclose(params.weights, peer.weights_, rtol=1e-12)
    assert_allclose(params.means, peer.means_, rtol=1e-10)
    assert_allclose(params.covariances, peer.covariances_, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_k_means_gives_the_moments_of_its_clusters(kind):
    X = data()
    labels = KMeans(K, n_init=1, random_state=np.random.RandomState(0)).fit(X).labels_
    model = GaussianMixtureModel(K, covariance_type=kind)
    params = start(model, X, "kmeans")
    assert_allclose(params.weights, np.bincount(labels) / len(X), rtol=1e-12)
    expected = [X[labels == k].mean(axis=0) for k in range(K)]
    assert_allclose(params.means, expected, rtol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("method", ["k-means++", "random_from_data"])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_belong_to_the_nearest_chosen_row(kind, method, offset):
    X = data() + offset
    model = GaussianMixtureModel(
        K, covariance_type=kind, reg_covar=0.0, centre=np.median(X, axis=0)
    )
    params = start(model, X, method)
    rng = np.random.RandomState(0)
    if method == "k-means++":
        points, _ = kmeans_plusplus(X, K, random_state=rng)
    else:
        points = X[rng.choice(len(X), K, replace=False)]
    labels = ((X[:, None] - points) ** 2).sum(axis=2).argmin(axis=1)
    expected = start(model, X, lambda *_: labels)
    for found, value in zip(params[:4], expected[:4], strict=True):
        assert_allclose(found, value, rtol=1e-9)


@pytest.mark.parametrize("kind", ["full", "diag"])
@pytest.mark.parametrize("method", ["k-means++", "random_from_data"])
def test_as_good_as_scikit_learns_start(method, kind):
    """Its components of no width assign each row to the nearest chosen one, too."""
    X = load_iris().data
    for seed in range(3):
        options = {
            "covariance_type": kind,
            "init_params": method,
            "random_state": seed,
        }
        options |= {"tol": 1e-6, "max_iter": 2000}
        peer = GaussianMixture(K, **options).fit(X)
        found = StochasticEMGaussianMixture(K, **options).fit(X)
        assert_allclose(found.score(X), peer.score(X), atol=1e-3)


def test_random_rows_are_distinct():
    """Of two rows that are there ninety times, one component each."""
    X = np.repeat([[0.0], [1.0], [5.0]], [90, 90, 2], axis=0)
    model = GaussianMixtureModel(K, covariance_type="spherical")
    for seed in range(20):
        params = start(model, X, "random_from_data", seed)
        assert_allclose(np.sort(params.means[:, 0]), [0, 1, 5])


@pytest.mark.parametrize("method", sorted(START_METHODS))
def test_the_centre_does_not_matter(method):
    X = data()
    found = []
    for centre in (None, np.array([3.0, -2.0])):
        model = GaussianMixtureModel(K, centre=centre)
        params = start(model, X, method)
        found.append((params.means + (0.0 if centre is None else centre), params))
    assert_allclose(found[0][0], found[1][0], rtol=1e-9, atol=1e-9)
    assert_allclose(found[0][1].covariances, found[1][1].covariances, rtol=1e-8)


@pytest.mark.parametrize("method", sorted(START_METHODS))
def test_long_data_are_handled_in_chunks(method, memory_budget):
    X = data()
    weights = np.random.default_rng(1).random(len(X)) + 0.1
    model = GaussianMixtureModel(K)
    for sample_weight in (None, weights):
        expected = start(model, X, method, sample_weight=sample_weight)
        memory_budget(rows=17)
        found = start(model, X, method, sample_weight=sample_weight)
        memory_budget()
        assert_allclose(found.weights, expected.weights, rtol=1e-12)
        assert_allclose(found.means, expected.means, rtol=1e-10)
        assert_allclose(found.covariances, expected.covariances, rtol=1e-9)


def test_weights_of_random_responsibilities_are_repetition():
    X = data(n=40)
    repeats = np.random.default_rng(0).integers(1, 4, size=len(X))
    posterior = np.random.default_rng(1).dirichlet(np.ones(K), size=len(X))
    model = GaussianMixtureModel(K)

    weighted = start(
        model, X, lambda *_: posterior, sample_weight=repeats.astype(float)
    )
    repeated = start(
        model,
        np.repeat(X, repeats, axis=0),
        lambda *_: np.repeat(posterior, repeats, axis=0),
    )
    assert_allclose(weighted.means, repeated.means, rtol=1e-12)
    assert_allclose(weighted.covariances, repeated.covariances, rtol=1e-10)


def test_rows_are_drawn_by_weight():
    """A row of weight 0.9 is nearly always among three of a hundred."""
    X = np.arange(100.0)[:, None]
    sample_weight = np.full(100, 0.1 / 99)
    sample_weight[70] = 0.9

    def hits(points, weights):
        starts = map(np.random.RandomState, range(30))
        return sum(70 in points(X, K, start, weights) for start in starts)

    for method, points in POINTS.items():
        assert hits(points, sample_weight) >= 25 > 10 > hits(points, None), method


@pytest.mark.parametrize("n_distinct", [1, 2])
@pytest.mark.parametrize("method", sorted(START_METHODS))
def test_fewer_distinct_rows_than_components(method, n_distinct):
    X = np.repeat(np.arange(n_distinct, dtype=float)[:, None], 10, axis=0)
    params = start(GaussianMixtureModel(K), X, method)
    for value in params[:4]:
        assert np.isfinite(value).all()
    assert params.weights.sum() == pytest.approx(1.0)


# ------------------------------------------------------------------------- callables


def test_callable_that_returns_labels():
    X = data()
    labels = np.arange(len(X)) % K
    params = start(GaussianMixtureModel(K), X, lambda X, n, rng: labels)
    assert_allclose(params.means, [X[labels == k].mean(axis=0) for k in range(K)])


def test_callable_that_returns_responsibilities():
    X = data()
    posterior = np.random.default_rng(0).dirichlet(np.ones(K), size=len(X))
    params = start(GaussianMixtureModel(K), X, lambda X, n, rng: posterior)
    assert_allclose(params.weights, posterior.mean(axis=0), rtol=1e-12)
    expected = posterior.T @ X / posterior.sum(axis=0)[:, None]
    assert_allclose(params.means, expected, rtol=1e-10)


def test_callable_gets_data_number_and_random_state():
    X, seen = data(), []

    def method(rows, n_components, random_state):
        seen.append((rows, n_components, random_state))
        return random_state.randint(n_components, size=len(rows))

    start(GaussianMixtureModel(K), X, method, seed=5)
    ((rows, n_components, random_state),) = seen
    assert_array_equal(rows, X)
    assert n_components == K
    assert isinstance(random_state, np.random.RandomState)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda X, n, rng: np.zeros((len(X), n + 1)),
        lambda X, n, rng: np.zeros((len(X), n)),
        lambda X, n, rng: -np.ones((len(X), n)),
        lambda X, n, rng: np.full((len(X), n), np.nan),
        lambda X, n, rng: np.zeros(len(X) - 1, dtype=int),
        lambda X, n, rng: np.full(len(X), n),
        lambda X, n, rng: np.full(len(X), -1),
        lambda X, n, rng: np.zeros(len(X)),
        lambda X, n, rng: np.full(len(X), "a"),
        lambda X, n, rng: None,
    ],
    ids=[
        "too many columns",
        "rows of zeros",
        "negative",
        "nan",
        "too few labels",
        "label too large",
        "negative label",
        "labels of type float",
        "text",
        "nothing",
    ],
)
def test_callable_that_returns_something_else(wrong):
    with pytest.raises(ValueError, match="init_params must return") as error:
        start(GaussianMixtureModel(K), data(), wrong)
    assert "(120, 3)" in str(error.value)
    assert "[0, n_components)" in str(error.value)


def test_unnormalised_responsibilities():
    """Only their proportions within a row count."""
    X = data()
    posterior = np.random.default_rng(0).dirichlet(np.ones(K), size=len(X))
    factor = np.random.default_rng(1).random((len(X), 1)) + 0.5
    model = GaussianMixtureModel(K)
    scaled = start(model, X, lambda *_: factor * posterior)
    plain = start(model, X, lambda *_: posterior)
    assert_allclose(scaled.weights, plain.weights, rtol=1e-12)
    assert_allclose(scaled.means, plain.means, rtol=1e-10)


def test_sizes_of_samples():
    rule = StartRows()
    # Few columns: as many numbers as k-means takes in no time.
    assert rule.size(8, 5) == 2**18 // 5
    # Many parameters: a hundred rows for each, within four million numbers.
    assert rule.size(30, 30) == 100 * 30 * 31
    assert rule.size(50, 30) == 2**22 // 30
    assert rule.size(100, 60) == 20 * 100 * 61 > 2**22 // 60
    assert rule.size(100, 50) < 100 * 100 * 51
