"""Conditional machines judge themselves by simple models, on rows left out."""

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB

from sktem import BoltzmannMachineClassifier, BoltzmannMachineRegressor
from sktem.exceptions import FitWarning


def told(estimator, X, y, words):
    """Return whether a fit says some words."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(X, y)
    hits = [w for w in caught if words in str(w.message)]
    assert all(w.category is FitWarning and w.filename == __file__ for w in hits)
    return len(hits) > 0


@pytest.mark.parametrize("n, noise", [(50, 0.05), (50, 0.3), (150, 0.05)])
def test_curves_that_are_missed_are_told(n, noise, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.uniform(-3, 3, (n + 500, 1))
    y = np.sin(3 * X[:, 0]) + noise * rng.normal(size=n + 500)
    machine = BoltzmannMachineRegressor(random_state=0)
    is_told = told(machine, X[:n], y[:n], "misses a curve")
    peer = GaussianProcessRegressor(1.0 * RBF(0.5) + WhiteKernel(0.1), normalize_y=True)
    behind = peer.fit(X[:n], y[:n]).score(X[n:], y[n:]) - machine.score(X[n:], y[n:])
    assert is_told or behind < 0.15


@pytest.mark.parametrize("kind", ["line", "noise", "bend", "branches"])
@pytest.mark.parametrize("seed", range(5))
def test_means_that_are_right_are_not_told(kind, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (120, 1 if kind == "branches" else 3))
    y = {
        "line": X[:, 0] + 0.3 * rng.normal(size=120),
        "noise": rng.normal(size=120),
        "bend": np.abs(X[:, 0]) + 0.1 * rng.normal(size=120),
        "branches": X[:, 0]
        + 6 * rng.integers(2, size=120)
        + 0.3 * rng.normal(size=120),
    }[kind]
    machine = BoltzmannMachineRegressor(4, random_state=0)
    assert not told(machine, X, y, "misses a curve")


def spreads(seed, n):
    """Return inputs of classes that differ by their variances alone."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return rng.normal(size=(n, 4)) * np.where(y, 3.0, 1.0)[:, None], y


@pytest.mark.filterwarnings("ignore:Inputs .* have heavy tails")
def test_classes_that_naive_bayes_sees_are_told():
    n_told, gains = 0, []
    for seed in range(6):
        X, y = spreads(seed, 1040)
        with_squares = np.hstack([X, X**2])
        machine, losses = BoltzmannMachineClassifier(random_state=0), []
        n_told += told(machine, X[:40], y[:40], "naive Bayes")
        for kind, rows in [
            (machine, X),
            (GaussianNB(), X),
            # The advice of the warning.
            (BoltzmannMachineClassifier(random_state=0), with_squares),
        ]:
            if kind is not machine:
                kind.fit(rows[:40], y[:40])
            losses.append(log_loss(y[40:], kind.predict_proba(rows[40:])))
        gains.append(losses[0] - np.array(losses[1:]))
    # Of 40 rows, one far out can make that doubtful.
    assert n_told >= 4
    assert (np.mean(gains, axis=0) > 0.2).all()


@pytest.mark.parametrize("kind", ["means", "noise", "logit", "bits"])
@pytest.mark.parametrize("seed", range(5))
def test_other_classes_are_not_told(kind, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(60, 4)), np.arange(60) % 2
    if kind == "means":
        X += 0.8 * y[:, None]
    elif kind == "bits":
        X = (X > 0) * 1.0
    if kind in ("logit", "bits"):
        y = (rng.random(60) < 1 / (1 + np.exp(1 - 2 * X[:, 0]))).astype(int)
    machine = BoltzmannMachineClassifier(8, random_state=0)
    assert not told(machine, X, y, "naive Bayes")


@pytest.mark.parametrize(
    "kind", [BoltzmannMachineRegressor, BoltzmannMachineClassifier]
)
def test_copies_count_once(kind):
    """Penalties are those of distinct rows, and so is the fit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 3))
    y = X[:, 0] + 0.7 * rng.normal(size=24)
    y = y if kind is BoltzmannMachineRegressor else (y > 0).astype(int)
    machine, copied = kind(3, random_state=0).fit(X, y), kind(3, random_state=0)
    with pytest.warns(FitWarning, match="25 times each.*as if they were there once"):
        copied.fit(np.repeat(X, 25, axis=0), np.repeat(y, 25))
    assert copied.weight_decay_ == pytest.approx(machine.weight_decay_)
    assert copied.objective_ == pytest.approx(machine.objective_, abs=1e-3)
