"""Accelerated EM against EM: how high it ends, and in how many passes.

For each real data set and seed, EM, SQUAREM and DAAREM start from the same k-means
start and run to the same ``tol``. Printed for each set are the mean log-likelihood of a
row at the end, less that of EM from the same start, as mean and standard error over
seeds, with the worst; the shares of seeds that end lower and higher by over 1e-4; and
the ratio of EM's passes and CPU seconds to those of the accelerated scheme, as median
and quartiles. One thread. Run: ``python benchmarks/accelerated.py --seeds 20``.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from machine import describe
from mixture_data import available, split
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from sktem import StochasticEMGaussianMixture

SOLVERS = ("em", "squarem", "daarem")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--tol", type=float, default=1e-6)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(describe())
    print(f"{arguments.seeds} seeds, tol={arguments.tol:g}")
    sets = available()
    with threadpool_limits(1):
        for name in arguments.data or sets:
            X, n_components = sets[name]()
            ends = np.array([
                ends_of(split(X, seed)[0], n_components, seed, arguments.tol)
                for seed in range(arguments.seeds)
            ])  # fmt: skip
            report(f"{name} {X.shape}, {n_components} components", ends)


def ends_of(X, n_components, seed, tol):
    """Return the mean log-likelihood, passes and CPU seconds of each solver."""
    clusters = KMeans(n_components, n_init=1, random_state=seed).fit(X)

    def start(X, n_components, random_state):
        return clusters.predict(X)

    ends = []
    for solver in SOLVERS:
        mixture = StochasticEMGaussianMixture(
            n_components, solver=solver, tol=tol, max_iter=5000, init_params=start
        )
        clock = time.process_time()
        mixture.fit(X)
        spent = time.process_time() - clock
        ends.append((mixture.score(X), mixture.n_iter_, spent))
    return ends


def report(title, ends):
    """Print what each scheme ends at and costs, less that of EM from the same start."""
    print(f"\n{title}: EM {np.median(ends[:, 0, 1]):.0f} passes", flush=True)
    for k, solver in enumerate(SOLVERS[1:], start=1):
        gain = ends[:, k, 0] - ends[:, 0, 0]
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
        passes, seconds = (
            np.percentile(ends[:, 0, j] / ends[:, k, j], [50, 25, 75]) for j in (1, 2)
        )
        print(
            f"  {solver:8s} {gain.mean():+9.5f} ({error:.5f}) nats a row, worst "
            f"{gain.min():+9.5f}; lower {np.mean(gain < -1e-4):4.0%}, higher "
            f"{np.mean(gain > 1e-4):4.0%}; fewer passes {passes[0]:4.1f} "
            f"({passes[1]:.1f} to {passes[2]:.1f}), seconds {seconds[0]:4.1f} "
            f"({seconds[1]:.1f} to {seconds[2]:.1f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
