"""Property tests: whatever the shape, dtype and weights, the answer is a mixture."""

import warnings

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sktem import StochasticEMGaussianMixture

SOLVERS = ["em", "mcem", "saem", "online", "iem", "isaem", "vrttem", "fittem"]
KINDS = ["full", "tied", "diag", "spherical", "unit"]


@st.composite
def problems(draw):
    """Rows of any small shape and scale, weights or none, and settings."""
    n = draw(st.integers(4, 60))
    d = draw(st.integers(1, 4))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    scale = 10.0 ** draw(st.integers(-3, 3))
    X = scale * rng.normal(size=(n, d)) + scale * draw(st.integers(-5, 5))
    if draw(st.booleans()):  # few distinct rows
        X = X[rng.integers(draw(st.integers(1, 4)), size=n)]
    dtype, order = draw(st.sampled_from(["f4", "f8"])), draw(st.sampled_from("CF"))
    X = np.asarray(X, dtype=dtype, order=order)
    weights = None
    if draw(st.booleans()):
        weights = rng.integers(0, 4, size=n).astype(float)
        weights[rng.choice(n, 3, replace=False)] = 1.0
    parameters = {
        "n_components": draw(st.integers(1, 3)),
        "solver": draw(st.sampled_from(SOLVERS)),
        "covariance_type": draw(st.sampled_from(KINDS)),
        "sampling": draw(st.sampled_from(["shuffle", "fixed", "inclusion"])),
        "batch_size": draw(st.sampled_from(["auto", 1, 7, 100])),
        "average": draw(st.sampled_from(["auto", False, True, "tail", "random"])),
        "max_iter": draw(st.integers(1, 6)),
        "random_state": seed,
    }
    return X, weights, parameters


def quietly(method, *args, **kwargs):
    with warnings.catch_warnings():
        # That a run mends something or does not converge is allowed here.
        warnings.simplefilter("ignore")
        return method(*args, **kwargs)


def assert_is_a_mixture(mixture, X):
    K, d = mixture.n_components, X.shape[1]
    assert mixture.means_.shape == (K, d)
    assert mixture.means_.dtype == mixture.weights_.dtype == X.dtype
    for name in ("weights_", "means_", "covariances_", "precisions_cholesky_"):
        assert np.isfinite(getattr(mixture, name)).all(), name
    assert (mixture.weights_ >= 0).all()
    np.testing.assert_allclose(mixture.weights_.sum(), 1.0, rtol=1e-5)
    low, high = X.min(axis=0), X.max(axis=0)
    slack = 1e-3 * (np.abs(X).max() + (high - low).max())
    heavy = mixture.weights_ > 1e-6
    # Means are averages of rows.
    assert (mixture.means_[heavy] >= low - slack).all()
    assert (mixture.means_[heavy] <= high + slack).all()
    probabilities = mixture.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-5)
    labels = mixture.predict(X)
    rows = np.arange(len(X))
    assert (probabilities[rows, labels] >= probabilities.max(axis=1) - 1e-6).all()
    assert np.isfinite(mixture.score_samples(X)).all()


@settings(max_examples=120)
@given(problems())
def test_fit(problem):
    X, weights, parameters = problem
    mixture = StochasticEMGaussianMixture(**parameters)
    quietly(mixture.fit, X, sample_weight=weights)
    assert_is_a_mixture(mixture, X)
    if mixture.sampling != "inclusion" and len(mixture.history_):
        assert mixture.history_.passes[-1] <= mixture.max_iter + 1e-9


@settings(max_examples=60)
@given(problems(), st.integers(1, 60))
def test_partial_fit(problem, size):
    X, weights, parameters = problem
    mixture = StochasticEMGaussianMixture(**parameters)
    seen = 0
    for _ in range(3):
        for start in range(0, len(X), size):
            rows = slice(start, start + size)
            part = None if weights is None else weights[rows]
            if part is not None and not part.any():
                continue  # refused: a chunk without weight
            quietly(mixture.partial_fit, X[rows], sample_weight=part)
            seen += len(X[rows]) if part is None else int((part > 0).sum())
    assert mixture.n_samples_seen_ == seen
    assert_is_a_mixture(mixture, X)
