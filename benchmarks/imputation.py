"""Held-out cells of real tables of numbers, restored by several methods.

Cells are taken away at random, or with a probability that grows with the rank of the
next column, at rates of 10, 30 and 50 percent, from at most 300 rows of eight tables.
The methods: the mean of a column; scikit-learn's ``KNNImputer`` on standardised columns
and ``IterativeImputer`` (Bayesian ridge regressions; at 30 percent also histogram
gradient boosting, two rounds, which is slow), and draws of its ridge regressions with
``sample_posterior=True``; and ``MixtureImputer`` with its defaults. Rows are means over
five seeds, which choose the cells.

Measures, over the held-out cells, numbers being in standard deviations of their column:
the root mean squared error; the mean logarithm of the predictive density; the coverage
of intervals of 90 percent; processor time of the fit and the completion. The density of
the mixture is its own: the exact conditional mixture of the cell given what is observed
of its row. That of the draws is normal, with the mean and the standard deviation of
twenty of them. The others give points only: their densities are normal with a standard
deviation for each column, that of their errors on another tenth of the observed cells,
which are held out in a second fit whose time is not counted.

Run: ``OMP_NUM_THREADS=1 python benchmarks/imputation.py [--small]``; the table is
written to ``doc/tables/imputation.txt`` without ``--small``. It takes some minutes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from machine import describe
from scipy.special import logsumexp, ndtr
from shared_data import locate
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

from sktem import MixtureImputer
from sktem.emissions.elliptical import conditional_variances

ROWS, RATES, SEEDS = 300, (0.1, 0.3, 0.5), range(5)
BOOSTED_RATE, N_DRAWS = 0.3, 20


def shared(name, columns=None, keep=None):
    """Return the numbers of a shared table, rows in random order."""
    X = np.load(locate(name))["X"].astype(float)
    X = X if columns is None else X[:, columns]
    X = X if keep is None else X[keep(X)]
    X = X[np.random.default_rng(0).permutation(len(X))[:ROWS]]
    return X[:, X.std(axis=0) > 0]


TABLES = {
    "diabetes": lambda: load_diabetes().data[:ROWS],
    "wine": lambda: load_wine().data,
    "breast cancer": lambda: load_breast_cancer().data[:ROWS],
    "pima": lambda: shared("glm/pima.npz", keep=lambda X: (X[:, 1:6] > 0).all(axis=1)),
    "ionosphere": lambda: shared("glm/ionosphere.npz"),
    "hipparcos": lambda: shared("mixture/hipparcos.npz", [2, 3, 4, 5, 6, 7, 8]),
    "shuttle": lambda: shared("mixture/shuttle.npz"),
    "flow cytometry": lambda: shared("mixture/ecoli_flow.npz"),
}


def taken(X, rate, mechanism, rng):
    """Return which cells are held out; every column and row keeps some."""
    share = np.full(X.shape, rate)
    if mechanism == "next column":
        ranks = X.argsort(axis=0).argsort(axis=0) / (len(X) - 1)
        share = np.minimum(2 * rate * np.roll(ranks, -1, axis=1), 0.95)
    lost = rng.random(X.shape) < share
    full = np.flatnonzero(lost.all(axis=1))
    lost[full, rng.integers(X.shape[1], size=len(full))] = False
    return lost


def imputers():
    """Return the methods that give points."""
    return {
        "column mean": SimpleImputer,
        "k neighbours": KNNImputer,
        "iterative ridge": lambda: IterativeImputer(random_state=0),
        "iterative boosting": lambda: IterativeImputer(
            HistGradientBoostingRegressor(random_state=0), max_iter=2, random_state=0
        ),
    }


def points(imputer, holes, X, lost, rng):
    """Return the measures of a method that gives points, with calibrated normals."""
    begun = time.process_time()
    filled = imputer().fit_transform(holes)
    seconds = time.process_time() - begun
    spare = ~np.isnan(holes) & (rng.random(X.shape) < 0.1)
    spare[:, (~np.isnan(holes) & ~spare).sum(axis=0) < 2] = False
    errors = imputer().fit_transform(np.where(spare, np.nan, holes)) - X
    squares = np.where(spare, errors, 0.0) ** 2
    widths = np.sqrt(squares.sum(axis=0) / np.maximum(spare.sum(axis=0), 1))
    widths = np.broadcast_to(np.maximum(widths, 1e-3), X.shape)[lost]
    z = (X - filled)[lost] / widths
    density = -0.5 * z**2 - np.log(widths) - 0.5 * np.log(2 * np.pi)
    return (
        np.sqrt(np.mean((X - filled)[lost] ** 2)),
        density,
        np.abs(z) < 1.645,
        seconds,
    )


def draws(holes, X, lost):
    """Return the measures of draws of the chained regressions."""
    begun = time.process_time()
    imputer = IterativeImputer(sample_posterior=True, random_state=0).fit(holes)
    drawn = np.array([imputer.transform(holes)[lost] for _ in range(N_DRAWS)])
    seconds = time.process_time() - begun
    error, widths = X[lost] - drawn.mean(axis=0), np.maximum(drawn.std(axis=0), 1e-3)
    z = error / widths
    density = -0.5 * z**2 - np.log(widths) - 0.5 * np.log(2 * np.pi)
    return np.sqrt(np.mean(error**2)), density, np.abs(z) < 1.645, seconds


def mixture(holes, X, lost):
    """Return the measures of the mixture, with its own conditional densities."""
    begun = time.process_time()
    imputer = MixtureImputer(random_state=0).fit(holes)
    filled = imputer.transform(holes)
    seconds = time.process_time() - begun
    fitted = imputer.mixture_
    R, own = fitted.predict_proba(holes), fitted.params_
    K, terms, below = R.shape[1], [], 0.0
    for k in range(K):
        only = np.tile(np.eye(K)[k], (len(X), 1))
        mean = fitted.emission_.expected(holes, only, own)[lost]
        variance = conditional_variances("full", holes, own, k)[lost]
        weight = np.repeat(R[:, k], lost.sum(axis=1))
        z = (X[lost] - mean) / np.sqrt(variance)
        terms.append(np.log(weight + 1e-300) - 0.5 * (z**2 + np.log(variance)))
        below = below + weight * ndtr(z)
    density = logsumexp(terms, axis=0) - 0.5 * np.log(2 * np.pi)
    inside = (below > 0.05) & (below < 0.95)
    return np.sqrt(np.mean((X - filled)[lost] ** 2)), density, inside, seconds


def measured(X, rate, mechanism, seed):
    """Return (error, log score, coverage, seconds) of each method."""
    rng = np.random.default_rng(seed)
    lost = taken(X, rate, mechanism, rng)
    holes = np.where(lost, np.nan, X)
    found = {
        "mixture": mixture(holes, X, lost),
        "iterative draws": draws(holes, X, lost),
    }
    for name, imputer in imputers().items():
        if "boosting" not in name or (rate == BOOSTED_RATE and seed == SEEDS[0]):
            found[name] = points(imputer, holes, X, lost, rng)
    return {name: (e, d.mean(), i.mean(), t) for name, (e, d, i, t) in found.items()}


def main(names, rates, seeds):
    """Return the lines of the table."""
    lines = [describe(), ""]
    head = f"{'table':15}{'missing':13}{'rate':>5}  {'method':20}"
    lines.append(head + f"{'error':>7}{'log score':>11}{'coverage':>10}{'CPU':>9}")
    wins = {name: np.zeros(5, dtype=int) for name in names}
    totals: dict[str, float] = {}
    for name in names:
        X = TABLES[name]()
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        for mechanism in ("random", "next column"):
            for rate in rates:
                runs = [measured(X, rate, mechanism, seed) for seed in seeds]
                rows = {
                    method: np.mean([r[method] for r in runs if method in r], axis=0)
                    for method in runs[0]
                }
                for method, (error, score, cover, seconds) in rows.items():
                    line = f"{name:15}{mechanism:13}{rate:5.0%}  {method:20}"
                    line += f"{error:7.3f}{score:11.3f}{cover:10.1%}{seconds:7.2f} s"
                    print(line, flush=True)
                    lines.append(line)
                    n_runs = sum(method in run for run in runs)
                    totals[method] = totals.get(method, 0.0) + n_runs * seconds
                own, others = (
                    rows["mixture"],
                    [v for k, v in rows.items() if k != "mixture"],
                )
                wins[name] += (
                    1,
                    own[1] >= max(v[1] for v in others),
                    own[0] <= min(v[0] for v in others),
                    own[0] <= 1.03 * min(v[0] for v in others),
                    own[3] <= rows["iterative ridge"][3],
                )
    lines += ["", "Cells of each table in which the mixture has"]
    lines.append(
        f"{'table':15}{'of':>4}{'best log score':>16}{'least error':>13}"
        f"{'within 3 %':>12}{'less time than ridge':>22}"
    )
    for name, counts in wins.items():
        lines.append("{:15}{:4}{:16}{:13}{:12}{:22}".format(name, *counts))
    lines.append("")
    lines += [f"CPU in all, {k}: {v:.1f} s" for k, v in totals.items()]
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    warnings.simplefilter("ignore")
    names = ["wine", "shuttle"] if small else TABLES
    table = main(names, (0.3,) if small else RATES, SEEDS[:1] if small else SEEDS)
    if small:
        print("\n".join(table[-8:]))
    else:
        path = Path(__file__).parents[1] / "doc" / "tables" / "imputation.txt"
        path.write_text("\n".join(table) + "\n", encoding="utf-8")
