"""What holes cost: a pass of EM over rows with holes beside one over complete rows.

Gaussian mixtures. "10 patterns": each row lacks one of ten sets of columns, one of them
empty. "all different": half of the values are missing at random, so that hardly two
rows lack the same; each row is then factored on its own for each component. Its floor
is the arithmetic of that: with o of d columns observed, ``o^3 / 6`` multiplications for
the factors, ``o (d - o) (d + 1) / 2`` for slopes and conditional covariances, and ``d
(d + 1) / 2 + o^2 / 2`` for the row itself, for each component. CPU milliseconds, least
of three passes, one thread; memory is what a pass allocates above the rows, in MB.
Factors of many components are computed by loops over the components, of few one after
the other: "apart" is the time of as many components in mixtures of four, over that of
all at once.

Run: ``python benchmarks/rows_with_holes.py``.
"""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
from image_data import Report
from machine import describe
from threadpoolctl import threadpool_limits

from sktem.mixture.model import GaussianMixtureModel, GaussianMixtureParams

#: Rows, columns, components and covariances.
SETTINGS = [
    (200_000, 16, 32, "full"),
    (200_000, 16, 32, "tied"),
    (200_000, 16, 32, "diag"),
    (100_000, 8, 4, "full"),
    (50_000, 30, 3, "full"),
]


def milliseconds(model, X, params, repeats=3):
    """Return the least CPU milliseconds of a pass."""
    times = []
    for _ in range(repeats + 1):
        began = time.process_time()
        model.expected_statistics(X, params)
        times.append(1e3 * (time.process_time() - began))
    return min(times[1:])


def megabytes(model, X, params):
    """Return what a pass allocates at most."""
    tracemalloc.start()
    model.expected_statistics(X, params)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 1e6


def parameters(d, K, kind, rng):
    """Return parameters of a mixture."""
    roots = rng.normal(size=(K, d, d + 4))
    covariances = {
        "full": roots @ np.swapaxes(roots, 1, 2) / d,
        "tied": roots[0] @ roots[0].T / d,
        "diag": np.ones((K, d)),
    }[kind]
    structure = GaussianMixtureModel(K, covariance_type=kind).structure(d)
    factors = structure.precisions_cholesky(covariances)
    means = rng.normal(size=(K, d))
    return GaussianMixtureParams(np.full(K, 1 / K), means, covariances, factors)


def multiplications(X, K):
    """Return those of a pass over rows that all differ."""
    d = X.shape[1]
    o = (~np.isnan(X)).sum(axis=1).astype(float)
    each = o**3 / 6 + o * (d - o) * (d + 1) / 2 + d * (d + 1) / 2 + o**2 / 2
    return K * each.sum()


def main():
    """Print the table."""
    report = Report("rows_with_holes")
    report(describe())
    report(
        f"{'rows, columns, components':>26} {'complete':>9} {'10 patterns':>12} "
        f"{'ratio':>6} {'rows that differ':>17} {'ms':>7} {'1e9/s':>6} {'MB':>5} "
        f"{'apart':>6}"
    )
    for n, d, K, kind in SETTINGS:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n, d))
        params = parameters(d, K, kind, rng)
        whole = GaussianMixtureModel(
            K, covariance_type=kind, centre=np.zeros(d), incomplete=False
        )
        model = GaussianMixtureModel(
            K, covariance_type=kind, centre=np.zeros(d), incomplete=True
        )
        patterns = rng.random((10, d)) < 0.3
        patterns[0] = False
        few, many = X.copy(), X[:100_000].copy()
        few[patterns[rng.integers(10, size=n)]] = np.nan
        many[rng.random(many.shape) < 0.5] = np.nan
        complete = milliseconds(whole, X, params)
        alike = milliseconds(model, few, params)
        different = milliseconds(model, many, params, 1)
        speed = multiplications(many, K) / different / 1e6
        rate = "" if kind == "diag" else f"{speed:6.1f}"
        apart = ""
        if K > 4 and kind == "full":
            parts = [parameters(d, 4, kind, rng) for _ in range(K // 4)]
            four = GaussianMixtureModel(4, centre=np.zeros(d), incomplete=True)
            ratio = sum(milliseconds(four, many, part, 1) for part in parts) / different
            apart = f"{ratio:6.2f}"
        report(
            f"{n:>9d}, {d}, {K}, {kind:>5} {complete:9.1f} {alike:12.1f} "
            f"{alike / complete:6.2f} {len(many):17d} {different:7.0f} {rate:>6} "
            f"{megabytes(model, many, params):5.0f} {apart:>6}"
        )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
