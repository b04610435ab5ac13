"""Distributions of an output given inputs: a Gaussian mixture and quantile regression.

Simulated data whose output has one mode, two modes or a spread that grows, and real
tables with one column as the output; half of the rows (at most 800) are learned, the
others judged. The methods: ``GaussianMixtureRegressor`` with its defaults;
``HistGradientBoostingRegressor`` and ``QuantileRegressor`` (penalised by 1e-3)
with a fit for each of nine quantiles, sorted for each row. The measures: the mean
pinball loss of the quantiles 0.1, ..., 0.9, in standard deviations of the output (the
continuous ranked probability score is twice its integral: twice the mean over the nine
is printed as CRPS); the root mean squared error of the mean of the mixture, and of
boosting for squares; coverage of the interval between the quantiles 0.1 and 0.9; and
processor time of all fits and predictions.
Run: ``OMP_NUM_THREADS=1 python benchmarks/conditional_regression.py [--small]``; the
table is written to ``doc/tables`` without ``--small``. Takes about two minutes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from machine import describe
from shared_data import locate
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktem import GaussianMixtureRegressor

LEVELS = np.linspace(0.1, 0.9, 9)
ROWS = 1600


def two_modes(rng):
    """One of two waves, at random."""
    x = rng.uniform(-3, 3, ROWS)
    sign = rng.choice([-1, 1], ROWS)
    return x[:, None], sign * (1 + np.cos(x)) + 0.2 * rng.normal(size=ROWS)


def wave(rng):
    """A sine with noise, and an input that says nothing."""
    X = rng.uniform(-4, 4, (ROWS, 2))
    return X, np.sin(X[:, 0]) + 0.2 * rng.normal(size=ROWS)


def fan(rng):
    """A line whose noise grows."""
    x = rng.uniform(0, 4, ROWS)
    return x[:, None], x + 0.5 * x * rng.normal(size=ROWS)


def friedman(rng):
    """Friedman's first function of ten inputs, five of which say nothing."""
    return make_friedman1(ROWS, noise=1.0, random_state=int(rng.integers(1000)))


def table(name, columns, output, keep=None):
    """Return inputs and output of a shared table."""
    X = np.load(locate(name))["X"].astype(float)
    X = X if keep is None else X[keep(X)]
    return X[:, columns], X[:, output]


def shuffled(load):
    """Return a function that draws rows of a table."""

    def draw(rng):
        X, y = load()
        rows = rng.permutation(len(X))[:ROWS]
        return X[rows], y[rows]

    return draw


TABLES = {
    "two modes": two_modes,
    "wave": wave,
    "fan": fan,
    "friedman": friedman,
    "diabetes": shuffled(lambda: load_diabetes(return_X_y=True)),
    "pima (mass)": shuffled(
        lambda: table(
            "glm/pima.npz", [0, 1, 2, 3, 4, 6, 7], 5, lambda X: (X[:, 1:6] > 0).all(1)
        )
    ),
    "hipparcos (v_i)": shuffled(lambda: table("mixture/hipparcos.npz", [2, 6, 7], 8)),
    "flow cytometry": shuffled(
        lambda: table("mixture/ecoli_flow.npz", [0, 1, 3, 4], 2)
    ),
}


def mixture(X, y, new, seed):
    """Return quantiles and means of the mixture."""
    regressor = GaussianMixtureRegressor(random_state=seed).fit(X, y)
    return regressor.predict_quantiles(new, LEVELS), regressor.predict(new)


def boosting(X, y, new, seed):
    """Return quantiles and means of boosting, a fit for each."""
    found = [
        HistGradientBoostingRegressor(loss="quantile", quantile=q, random_state=seed)
        .fit(X, y)
        .predict(new)
        for q in LEVELS
    ]
    mean = HistGradientBoostingRegressor(random_state=seed).fit(X, y).predict(new)
    return np.sort(np.column_stack(found), axis=1), mean


def linear(X, y, new, seed):
    """Return quantiles and means of linear regressions."""
    found = [
        make_pipeline(StandardScaler(), QuantileRegressor(quantile=q, alpha=1e-3))
        .fit(X, y)
        .predict(new)
        for q in LEVELS
    ]
    mean = LinearRegression().fit(X, y).predict(new)
    return np.sort(np.column_stack(found), axis=1), mean


METHODS = {"mixture": mixture, "boosting": boosting, "linear quantiles": linear}


def measures(quantiles, mean, y, scale):
    """Return CRPS, error and coverage."""
    short = y[:, None] - quantiles
    pinball = np.maximum(LEVELS * short, (LEVELS - 1) * short).mean()
    inside = (y >= quantiles[:, 0]) & (y <= quantiles[:, -1])
    error = np.sqrt(np.mean((mean - y) ** 2))
    return pinball / scale, 2 * pinball / scale, error / scale, inside.mean()


def main(names, n_repeats):
    """Return the lines of the table."""
    lines = [describe(), ""]
    lines.append(
        f"{'table':17}{'method':18}{'pinball':>9}{'CRPS':>8}{'error':>8}"
        f"{'coverage of 80 %':>18}{'CPU':>10}"
    )
    for name in names:
        for method, learn in METHODS.items():
            found, begun = [], time.process_time()
            for seed in range(n_repeats):
                X, y = TABLES[name](np.random.default_rng(seed))
                half = len(X) // 2
                quantiles, mean = learn(X[:half], y[:half], X[half:], seed)
                found.append(measures(quantiles, mean, y[half:], y.std()))
            seconds = (time.process_time() - begun) / n_repeats
            pinball, crps, error, inside = np.mean(found, axis=0)
            line = f"{name:17}{method:18}{pinball:9.4f}{crps:8.4f}{error:8.3f}"
            lines.append(f"{line}{inside:18.1%}{seconds:8.2f} s")
            print(lines[-1], flush=True)
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    warnings.simplefilter("ignore")
    found = main(["two modes", "fan"] if small else TABLES, 1 if small else 3)
    if not small:
        path = (
            Path(__file__).parents[1] / "doc" / "tables" / "conditional_regression.txt"
        )
        path.write_text("\n".join(found) + "\n", encoding="utf-8")
