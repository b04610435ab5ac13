"""Simple models by which fits are judged, on rows that these were not fitted to."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.naive_bayes import GaussianNB

from sktem.estimators.peers import (
    PEERS,
    bayes_losses,
    doubt_of_mean,
    judged_rows,
    ridge_errors,
)


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_are_left_out_of_the_ridge_one_by_one(weighted):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(25, 2)), rng.normal(size=25)
    shares = rng.dirichlet(np.full(25, 5.0)) if weighted else np.full(25, 0.04)
    rule = PEERS._replace(lengths=(0.7,), ridges=(0.3,))
    errors, output = ridge_errors(X, y, shares, rule), y - shares @ y
    for row in range(25):
        rest = np.arange(25) != row
        peer = KernelRidge(alpha=0.3, kernel="rbf", gamma=0.5 / (0.7**2 * 2))
        peer.fit(X[rest], output[rest], 25 * shares[rest])
        expected = output[row] - peer.predict(X[[row]])[0]
        assert errors[row] == pytest.approx(expected, rel=1e-8)


def test_the_best_length_and_penalty_are_taken():
    rng = np.random.default_rng(1)
    X = rng.uniform(-3, 3, (120, 1))
    y, shares = np.sin(3 * X[:, 0]), np.full(120, 1 / 120)
    losses = [
        np.mean(ridge_errors(X, y, shares, rule) ** 2)
        for length in PEERS.lengths
        for ridge in PEERS.ridges
        for rule in [PEERS._replace(lengths=(length,), ridges=(ridge,))]
    ]
    best = np.mean(ridge_errors(X, y, shares) ** 2)
    assert best == pytest.approx(min(losses))
    assert best < 0.01 * max(losses)


def test_parts_are_left_out_of_naive_bayes():
    rng = np.random.default_rng(0)
    X, y, parts = rng.normal(size=(60, 3)), np.arange(60) % 2, np.arange(60) // 2 % 3
    shares = rng.dirichlet(np.full(60, 5.0))
    parts[:4], y[4] = -1, 2  # a class of one row
    losses = bayes_losses(X, y, shares, parts)
    assert np.isinf(losses[parts == parts[4]]).all()
    assert np.isinf(losses[:4]).all()
    part = (set(range(3)) - {int(parts[4])}).pop()
    out, taken = parts == part, (parts >= 0) & (parts != part)
    peer = GaussianNB().fit(X[taken], y[taken], shares[taken])
    logs = peer.predict_log_proba(X[out])[np.arange(out.sum()), y[out]]
    np.testing.assert_allclose(losses[out], -logs)


def test_rows_that_are_judged():
    X = np.random.default_rng(0).normal(size=(3000, 2))
    assert len(judged_rows(X, X[:, 0])) == PEERS.n_rows
    rows = judged_rows(np.repeat(X[:50], 20, axis=0))
    assert len(np.unique(rows // 20)) == len(rows) == 50
    assert judged_rows(X[: PEERS.fewest - 1]) is None


def test_means_are_judged_in_any_units():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (150, 2))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=150)
    shares = np.full(150, 1 / 150)
    doubt = doubt_of_mean(X, y, np.zeros(150), shares)
    assert "each row left out" in doubt
    scaled = doubt_of_mean(X * [1e6, 1e-6], 1e9 * y, np.zeros(150), shares)
    assert scaled == doubt
    assert doubt_of_mean(X, y, np.sin(2 * X[:, 0]), shares) is None
    assert doubt_of_mean(X, np.ones(150), np.ones(150), shares) is None
    # Of noise there is nothing to find.
    assert doubt_of_mean(X, rng.normal(size=150), np.zeros(150), shares) is None
