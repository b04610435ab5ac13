"""Missing cells of tables with numbers and categories, restored by several methods.

A quarter of the cells is taken away at random, and every method learns from what is
left: the mean or the most frequent category of a column; scikit-learn's
``IterativeImputer`` on columns that are encoded by a dummy for each category but one
(Bayesian ridge regressions in turn, ten times or once, and the largest of a column);
gradient boosting of each column on all others, ``HistGradientBoosting``, which takes
missing values as they are; and the expectation under a restricted Boltzmann machine
with Gaussian, categorical and binary units. The error of numbers is the root mean
squared one in standard deviations of the column; that of categories is the share of
wrong ones. Mean over three draws of what is missing, with its standard error.
Run: ``OMP_NUM_THREADS=1 python benchmarks/mixed_imputation.py [--small]``; the table is
written to ``doc/tables`` without ``--small``. Takes about three minutes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from machine import describe
from sklearn.datasets import load_diabetes, load_wine
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

from sktem import LatentBoltzmannMachine

HIDDEN = 10


def wine():
    """The measurements of wines, and their cultivar as a category."""
    data = load_wine()
    kinds = ["gaussian"] * data.data.shape[1] + ["categorical"]
    return np.column_stack([data.data, data.target]), kinds


def diabetes():
    """Measurements of patients; sex has two values."""
    X = load_diabetes(scaled=False).data
    return X, ["binary" if len(np.unique(x)) == 2 else "gaussian" for x in X.T]


def classes(n=1000):
    """Four classes that are not in the table, each with its rates and means."""
    rng = np.random.default_rng(0)
    of_row = rng.integers(4, size=n)
    columns = [rng.normal(rng.normal(0, 2, 4)[of_row], 1) for _ in range(4)]
    for n_categories in (3, 4, 5):
        rates = rng.dirichlet(np.full(n_categories, 0.4), 4).cumsum(axis=1)[of_row]
        columns.append(
            (rng.random((n, 1)) > rates).sum(axis=1).clip(0, n_categories - 1)
        )
    columns += [rng.random(n) < rng.random(4)[of_row] for _ in range(3)]
    kinds = ["gaussian"] * 4 + ["categorical"] * 3 + ["binary"] * 3
    return np.column_stack(columns).astype(float), kinds


TABLES = {"wine": wine, "diabetes": diabetes, "hidden classes": classes}


def by_column(X, kinds, rng):
    """Return means and most frequent categories."""
    out = X.copy()
    for k, kind in enumerate(kinds):
        seen = X[~np.isnan(X[:, k]), k]
        values, counts = np.unique(seen, return_counts=True)
        fill = seen.mean() if kind == "gaussian" else values[counts.argmax()]
        out[np.isnan(X[:, k]), k] = fill
    return out


def in_turn(X, kinds, rng, max_iter=10):
    """Return what regressions of each column on the others give, in turn."""
    parts, levels = [], []
    for k, kind in enumerate(kinds):
        x = X[:, [k]]
        known = None if kind == "gaussian" else np.unique(x[~np.isnan(x)])
        levels.append(known)
        if known is not None:
            x = np.where(np.isnan(x), np.nan, x == known[1:])
        parts.append(x)
    scale = np.nanstd(np.hstack(parts), axis=0)
    imputer = IterativeImputer(max_iter=max_iter, random_state=0)
    full = imputer.fit_transform(np.hstack(parts) / scale) * scale
    out, begin = X.copy(), 0
    for k, (part, known) in enumerate(zip(parts, levels, strict=True)):
        found = full[:, begin : begin + part.shape[1]]
        begin += part.shape[1]
        new = found[:, 0]
        if known is not None:
            first = 1 - found.sum(axis=1, keepdims=True)
            new = known[np.hstack([first, found]).argmax(axis=1)]
        out[:, k] = np.where(np.isnan(X[:, k]), new, X[:, k])
    return out


def boosted(X, kinds, rng):
    """Return what gradient boosting of each column on the others gives."""
    out = X.copy()
    for k, kind in enumerate(kinds):
        lost = np.isnan(X[:, k])
        number = kind == "gaussian"
        model = (
            HistGradientBoostingRegressor if number else HistGradientBoostingClassifier
        )
        others = np.delete(X, k, axis=1)
        fitted = model(random_state=0).fit(others[~lost], X[~lost, k])
        out[lost, k] = fitted.predict(others[lost])
    return out


def machine(X, kinds, rng):
    """Return expectations under a machine with units of each kind."""
    learned = LatentBoltzmannMachine(
        visible=kinds, hidden_layer_sizes=HIDDEN, max_iter=500, random_state=0
    )
    return learned.fit(X).impute(X)


METHODS = {
    "column": by_column,
    "iterative, 10": in_turn,
    "iterative, 1": partial(in_turn, max_iter=1),
    "boosting": boosted,
    "machine": machine,
}


def errors(found, X, lost, kinds):
    """Return the error of numbers and that of categories."""
    numbers, others = [], []
    for k, kind in enumerate(kinds):
        rows = lost[:, k]
        if kind == "gaussian":
            squares = (found[rows, k] - X[rows, k]) ** 2 / X[:, k].var()
            numbers.append(squares.mean())
        else:
            others.append(np.mean(found[rows, k] != X[rows, k]))
    return np.sqrt(np.mean(numbers)), np.mean(others)


def main(tables, n_repeats):
    """Return the lines of the table."""
    lines = [describe(), ""]
    lines.append(
        f"{'table':15}{'method':14}{'numbers, sd':>18}{'categories, wrong':>20}"
        f"{'CPU':>9}"
    )
    for name in tables:
        X, kinds = TABLES[name]()
        for method, restore in METHODS.items():
            found, begun = [], time.process_time()
            for seed in range(n_repeats):
                rng = np.random.default_rng(seed)
                lost = rng.random(X.shape) < 0.25
                restored = restore(np.where(lost, np.nan, X), kinds, rng)
                found.append(errors(restored, X, lost, kinds))
            seconds = (time.process_time() - begun) / n_repeats
            mean = np.mean(found, axis=0)
            error = np.std(found, axis=0, ddof=1) / np.sqrt(n_repeats)
            line = f"{name:15}{method:14}{mean[0]:9.3f} +- {error[0]:.3f}"
            line += f"{mean[1]:11.3f} +- {error[1]:.3f}{seconds:7.1f} s"
            print(line, flush=True)
            lines.append(line)
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    warnings.simplefilter("ignore", ConvergenceWarning)
    table = main(["wine"] if small else TABLES, 2 if small else 3)
    if not small:
        path = Path(__file__).parents[1] / "doc" / "tables" / "mixed_imputation.txt"
        path.write_text("\n".join(table) + "\n", encoding="utf-8")
