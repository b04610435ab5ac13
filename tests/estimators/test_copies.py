"""Copies of rows are told from rows that are equal by chance."""

import warnings

import numpy as np
import pytest

from sktem import (
    BoltzmannMachineClassifier,
    BoltzmannMachineRegressor,
    LatentBoltzmannMachine,
    StochasticEMGaussianMixture,
)
from sktem.estimators.copies import copies_of_each
from sktem.exceptions import FitWarning


def reals(rng, n=40):
    return rng.normal(size=(n, 3))


def bits(rng, n=40):
    return (rng.random((n, 5)) < 0.5) * 1.0


def rounded(rng, n=400):
    """Return columns of which one has few values, and one as many as rows."""
    return np.column_stack([rng.normal(size=n).round(1), rng.integers(0, 5, n)])


def with_holes(rng):
    X = reals(rng)
    X[::2, 0] = np.nan
    return X


@pytest.mark.parametrize("make", [reals, bits, rounded, with_holes])
@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_designed_copies_are_found(make, order):
    rng = np.random.default_rng(0)
    X = make(rng)
    assert copies_of_each(X) == 1
    rows = np.repeat(np.arange(len(X)), 3)
    if order == "shuffled":
        rng.shuffle(rows)
    assert copies_of_each(X[rows]) == 3
    # Of rows and outputs, neither of which is a copy alone.
    assert copies_of_each(X[rows], np.arange(len(rows))) == 1
    assert copies_of_each(X[rows], rows % 2) == 3


@pytest.mark.parametrize("make, found", [(reals, True), (bits, False)])
def test_draws_of_real_rows_with_replacement_are_copies(make, found):
    rng = np.random.default_rng(1)
    X = make(rng)
    assert (copies_of_each(X[rng.integers(0, len(X), 200)]) > 4) == found


def test_equal_rows_of_samples_are_no_copies():
    found = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        shares = rng.dirichlet(np.full(rng.integers(2, 30), rng.uniform(0.2, 5)))
        kinds = rng.choice(len(shares), rng.integers(1, 300), p=shares)
        found += copies_of_each(np.column_stack([kinds, kinds**2])) > 1
    assert found == 0


def fits(estimator, X, **options):
    """Return whether a fit warns of copies."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(X, **options)
    kinds = [w.category for w in caught if "counts copies as" in str(w.message)]
    return kinds == [FitWarning]


@pytest.mark.parametrize(
    "estimator",
    [
        LatentBoltzmannMachine(hidden_layer_sizes=2, max_iter=2),
        BoltzmannMachineClassifier(2, weight_decay=1.0),
        BoltzmannMachineRegressor(2, weight_decay=1.0),
        StochasticEMGaussianMixture(2, max_iter=2),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_fits_say_so(estimator):
    rng = np.random.default_rng(0)
    X, y = reals(rng), np.arange(40) % 2
    assert not fits(estimator, X, y=y)
    assert fits(estimator, np.repeat(X, 4, axis=0), y=np.repeat(y, 4))
    # Weights say what the copies are worth.
    shares = np.full(160, 0.25)
    copies = {"y": np.repeat(y, 4), "sample_weight": shares}
    assert not fits(estimator, np.repeat(X, 4, axis=0), **copies)
