"""Whole fits with batches of one row: the sweep of single rows beside that of batches.

Covariances that are diagonal, spherical or unit have a compiled sweep of their own for
batches of one row, :func:`sktem.mixture.kernels.sweep.iterate_rows`; that of all other
batches does the same. CPU seconds of a fit of a few passes, least of some runs in turn,
one thread, after a run of each that compiles.

Run: ``python benchmarks/row_sweeps.py``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import replace
from unittest.mock import patch

import numpy as np
from machine import describe
from threadpoolctl import threadpool_limits

from sktem import StochasticEMGaussianMixture
from sktem.mixture.kernels import sweep

#: Features, components.
SIZES = [(2, 3), (4, 4), (10, 10), (32, 16)]
SOLVERS = ["online", "isaem", "vrttem", "fittem"]


#: The sweep of the package.
SWEEP = sweep.sweep


def by_batches(settings, *given):
    """Sweep as with larger batches, which is decided by their stated size alone."""
    return SWEEP(replace(settings, batch_size=2), *given)


def seconds(X, n_components, kind, solver, passes):
    """Return the CPU seconds of a fit, and its bound."""
    mixture = StochasticEMGaussianMixture(
        n_components, covariance_type=kind, solver=solver, batch_size=1, tol=0,
        max_iter=passes, init_params="random_from_data", random_state=0,
    )  # fmt: skip
    start = time.process_time()
    mixture.fit(X)
    return time.process_time() - start, mixture.score(X)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    print(describe())
    print(f"{options.rows:,} rows, {options.passes} passes, batches of one row\n")
    print("kind       d   K  solver     rows  batches  ratio  difference of scores")
    ratios = []
    for kind in ("diag", "spherical"):
        for d, K in SIZES:
            rng = np.random.default_rng(0)
            X = rng.normal(size=(options.rows, d))
            X += 3 * rng.normal(size=(K, d))[rng.integers(K, size=len(X))]
            for solver in SOLVERS:
                times, scores = [[], []], [0.0, 0.0]
                for run in range(options.runs + 1):
                    for which in (0, 1):
                        taken = sweep.sweep if which == 0 else by_batches
                        with patch.object(sweep, "sweep", taken):
                            found = seconds(X, K, kind, solver, options.passes)
                        scores[which] = found[1]
                        if run:
                            times[which].append(found[0])
                rows, batches = map(min, times)
                ratios.append(batches / rows)
                print(
                    f"{kind:9} {d:3d} {K:3d}  {solver:8} {rows:6.3f} {batches:8.3f} "
                    f"{ratios[-1]:6.2f}  {abs(scores[0] - scores[1]):.1e}",
                    flush=True,
                )
    print(f"\ngeometric mean of the ratios: {np.exp(np.log(ratios).mean()):.2f}")


if __name__ == "__main__":
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
