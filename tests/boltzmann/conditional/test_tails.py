"""Inputs and outputs with heavy tails, and those without."""

import numpy as np
import pytest
from sklearn.preprocessing import QuantileTransformer

from sktem import BoltzmannMachineClassifier, BoltzmannMachineRegressor
from sktem.exceptions import FitWarning

N, SEEDS = 500, 3
TO_NORMAL = QuantileTransformer(n_quantiles=100, output_distribution="normal")
ORDINARY = {
    "normal": lambda rng, n: rng.normal(size=(n, 3)),
    "exponential": lambda rng, n: rng.exponential(size=(n, 3)),
    "t(5)": lambda rng, n: rng.standard_t(5, (n, 3)),
    "counts": lambda rng, n: rng.poisson(0.7, (n, 3)).astype(float),
    "rare": lambda rng, n: (rng.random((n, 3)) < 0.02).astype(float),
    "mostly zero": lambda rng, n: rng.permuted(mostly_zero(n), axis=0),
}


def mostly_zero(n):
    """Return columns as of pixels near an edge, whose quartiles hardly differ."""
    return np.repeat(np.maximum(np.arange(n) / n - 0.74, 0)[:, None], 3, axis=1)


def classified(X, rng):
    """Return labels that depend on the ranks of inputs, and their logits."""
    U = X > np.median(X, axis=0)
    logits = 3.0 * U[:, 0] + 3.0 * (U[:, 1] & U[:, 2]) - 2.0
    return (rng.random(len(X)) < 1 / (1 + np.exp(-logits))).astype(int)


def labelled(X, y):
    options = {"n_hidden": 4, "weight_decay": 0.01, "random_state": 0}
    return BoltzmannMachineClassifier(**options).fit(X, y)


@pytest.mark.parametrize("kind", ORDINARY)
def test_ordinary_inputs_say_nothing(kind, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = ORDINARY[kind](rng, N)
    labelled(X, classified(X, rng))


def test_heavy_inputs_are_named_and_better_when_transformed(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    gains = []
    for _ in range(SEEDS):
        X = rng.standard_cauchy((3 * N, 3))
        y = classified(X, rng)
        with pytest.warns(FitWarning, match="0, 1, 2 have heavy tails"):
            machine = labelled(X[:N], y[:N])
        Z = TO_NORMAL.fit(X[:N]).transform(X)
        better = labelled(Z[:N], y[:N])
        losses = machine.log_likelihood(X[N:], y[N:])
        gains.append((better.log_likelihood(Z[N:], y[N:]) - losses) / (2 * N))
    assert np.mean(gains) > 0.05


def test_one_wrong_entry_is_named(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.normal(size=(N, 3))
    X[0, 1] = 1e4
    with pytest.warns(FitWarning, match="Inputs 1 have heavy tails"):
        labelled(X, classified(X, rng))


def target(rng, noise):
    X = rng.normal(size=(N, 3))
    means = np.sin(2 * X[:, 0]) + X[:, 1]
    return X, means, means + noise(rng, X)


@pytest.mark.filterwarnings("ignore:The mean of output")  # of three units
@pytest.mark.parametrize(
    "noise",
    [
        lambda rng, X: 0.3 * rng.normal(size=N),
        lambda rng, X: 0.3 * np.exp(X[:, 2]) * rng.normal(size=N),
        lambda rng, X: 0.3 * rng.exponential(size=N),
        lambda rng, X: 0.1 * rng.normal(size=N) + rng.choice([-1, 1], N),
    ],
)
def test_ordinary_errors_say_nothing(noise, global_random_seed):
    X, _, y = target(np.random.default_rng(global_random_seed), noise)
    machine = BoltzmannMachineRegressor(3, weight_decay=0.005, random_state=0)
    machine.fit(X, y)


def test_errors_far_out_are_named_and_spoil_the_deviations(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, means, y = target(rng, lambda rng, X: 0.3 * rng.standard_cauchy(N))
    machine = BoltzmannMachineRegressor(3, weight_decay=0.005, random_state=0)
    with pytest.warns(FitWarning, match="errors far out"):
        machine.fit(X, y)
    of_half = np.subtract(*np.quantile(y - means, [0.75, 0.25])) / 1.349
    assert np.median(machine.predict(X, return_std=True)[1]) > 3 * of_half
