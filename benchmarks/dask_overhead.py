"""What a pass on Dask costs beyond the computation, and what a second process brings.

Rows of a mixture with diagonal covariances are made by the workers of a local cluster
and stay in their memory. A pass of EM is timed as the difference of fits with many and
with few passes, so that checks and the start do not count, for one and two worker
processes of one thread, in turns. Printed are seconds by the clock and of the workers'
processors, and the ratio of one worker to two. The same on few rows, where there is
next to nothing to compute, is the overhead of an iteration; and what a stochastic
solver costs there that keeps latents with the partitions.
Run: ``python benchmarks/dask_overhead.py --rows 10000000`` (640 MB).
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from machine import describe

from sktem import StochasticEMGaussianMixture

N_FEATURES, N_COMPONENTS, FEW_ROWS = 16, 32, 10_000


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()

    from distributed import Client, LocalCluster

    warnings.simplefilter("ignore")
    print(describe())
    clusters = [
        LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=None)
        for n in (1, 2)
    ]
    clients = [Client(cluster, set_as_default=False) for cluster in clusters]
    for n_rows in (FEW_ROWS, arguments.rows):
        compare(clients, n_rows, arguments.partitions, arguments.repeats)
    for client, cluster in zip(clients, clusters, strict=True):
        client.close()
        cluster.close()


def compare(clients, n_rows, n_partitions, repeats):
    """Print times of a pass with each client, the medians of several turns."""
    print(f"{n_rows:,} x {N_FEATURES} float32 in {n_partitions} partitions")
    rows = [rows_of(client, n_rows, n_partitions) for client in clients]
    solvers = ("em", "isaem") if n_rows == FEW_ROWS else ("em",)
    for client, X in zip(clients, rows, strict=True):
        timed(client, X, solvers[-1], (1, 2))  # the workers load what they need
    for solver in solvers:
        found = np.array(
            [
                [
                    timed(client, X, solver)
                    for client, X in zip(clients, rows, strict=True)
                ]
                for _ in range(repeats)
            ]
        )
        wall, computed = np.median(found, axis=0).T
        for workers, seconds, own in zip((1, 2), wall, computed, strict=True):
            print(
                f"{solver:6} {workers} workers {1000 * seconds:9.1f} ms an iteration, "
                f"{1000 * own:9.1f} ms of the workers' processors",
                flush=True,
            )
        ratio = np.median(found[:, 0, 0] / found[:, 1, 0])
        print(f"{solver:6} one worker / two {ratio:.2f}", flush=True)


def rows_of(client, n_rows, n_partitions):
    """Return rows in the memory of the workers."""
    import dask.array as da

    with client.as_current():
        generator = da.random.default_rng(0)
        shape, chunks = (n_rows, N_FEATURES), (-(-n_rows // n_partitions), N_FEATURES)
        noise = generator.standard_normal(shape, chunks=chunks, dtype=np.float32)
        means = 1.5 * np.random.default_rng(0).standard_normal((32, N_FEATURES))
        which = generator.integers(len(means), size=n_rows, chunks=chunks[0])
        centres = which.map_blocks(
            lambda k: means[k].astype(np.float32),
            new_axis=1,
            chunks=(which.chunks[0], (N_FEATURES,)),
            meta=np.empty((0, N_FEATURES), np.float32),
        )
        return client.persist(noise + centres)


def timed(client, X, solver, numbers=(3, 23)):
    """Return seconds of an iteration, by the clock and of the workers' processors."""
    seconds = []
    with client.as_current():
        for passes in numbers:
            start, before = time.perf_counter(), processor_time(client)
            fitted = StochasticEMGaussianMixture(
                N_COMPONENTS,
                covariance_type="diag",
                solver=solver,
                init_size=10_000,
                max_iter=passes,
                tol=0,
                random_state=0,
            ).fit(X)
            iterations = fitted.history_.n_iterations[-1]
            wall = time.perf_counter() - start
            seconds.append((wall, processor_time(client) - before, iterations))
    few, many = np.array(seconds)
    return (many - few)[:2] / (many - few)[2]


def processor_time(client):
    """Return the processor seconds that the workers have used so far."""
    return sum(client.run(time.process_time).values())


if __name__ == "__main__":
    main()
