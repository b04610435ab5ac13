"""What fits on Dask cost beyond the computation, and what a second process brings.

*Overhead.* Processor time of an iteration on few rows in four partitions of a local
cluster of two processes, of this process, the scheduler and the workers together, less
that of an iteration on the same array; and that of a ``dask.compute`` of four tasks
that do nothing, in turns. *Two processes.* Seconds of a pass of EM over many rows in
the memory of one and of two worker processes of one thread, by the clock, in turns,
equally many rows in both of two;
where other programs run beside it, they slow down both, so that the processor time of
the busiest worker and of this process is printed, too: it is what the clock would show
with a core for each. *Memory and graphs.* How much this process, in which the scheduler
is, grows in a fit to the many rows, and the tasks and bytes that are sent to the
scheduler in a pass.

Run: ``python benchmarks/dask_overhead.py`` (two copies of 640 MB, at most four
minutes); the printed table is ``doc/tables/dask_overhead.txt``.
"""

from __future__ import annotations

import argparse
import os
import pickle
import resource
import time
import warnings
from pathlib import Path

import numpy as np
from machine import describe

from sktem import StochasticEMGaussianMixture

TABLE = Path(__file__).parent.parent / "doc" / "tables" / "dask_overhead.txt"
N_FEATURES, N_COMPONENTS, FEW_ROWS, FEW_PARTITIONS = 16, 8, 4_000, 4
ITERATIONS = 24


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=2, help="of repeats, about")
    parser.add_argument("--out", type=Path, default=TABLE)
    options = parser.parse_args()

    import dask
    from distributed import Client, LocalCluster

    warnings.simplefilter("ignore")
    dask.config.set({"distributed.worker.memory.target": False})
    dask.config.set({"distributed.worker.memory.spill": False})
    lines = [f"{describe()}, dask {dask.__version__}"]
    settings = {"threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(n_workers=2, **settings) as cluster, Client(cluster) as client:
        lines += overhead(client, time.perf_counter() + 20 * options.minutes)
    with (
        LocalCluster(n_workers=1, **settings) as small,
        LocalCluster(n_workers=2, **settings) as large,
        Client(small, set_as_default=False) as one,
        Client(large, set_as_default=False) as two,
    ):
        until = time.perf_counter() + 40 * options.minutes
        lines += processes((one, two), options.rows, options.partitions, until)
    text = "\n".join(lines) + "\n"
    print(text)
    options.out.write_text(text)


def overhead(client, until):
    """Return lines about iterations that compute next to nothing."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(FEW_ROWS, N_FEATURES)) + 2 * rng.choice(
        [-1, 1], (FEW_ROWS, N_FEATURES)
    )
    rows = client.persist(dask_rows(X, FEW_PARTITIONS))
    found = {"nothing": [], "em": [], "isaem": []}
    for solver in ("em", "isaem"):
        fitted(rows, solver, 4)  # the workers load what they need
    while len(found["isaem"]) < 3 or time.perf_counter() < until:
        if len(found["isaem"]) == 15:
            break
        found["nothing"].append(nothing(client))
        for solver in ("em", "isaem"):
            found[solver].append(beyond(client, rows, X, solver))
    lines = [
        "",
        f"Overhead of an iteration, {FEW_PARTITIONS} partitions, 2 processes: "
        f"milliseconds of processors, median [quartiles] of {len(found['em'])} turns",
    ]
    names = ("dask.compute of nothing", "em", "isaem, batches of a quarter")
    bare = np.array(found["nothing"])
    for name, values in zip(names, found.values(), strict=True):
        low, middle, high = 1000 * np.percentile(values, (25, 50, 75))
        ratio = np.median(np.array(values) / bare)
        lines.append(
            f"{name:>28s} {middle:6.1f} [{low:.1f}, {high:.1f}]  {ratio:5.2f} times"
        )
    return lines


def dask_rows(X, n_partitions):
    """Return a Dask array."""
    import dask.array as da

    return da.from_array(X, chunks=(-(-len(X) // n_partitions), -1))


def nothing(client):
    """Return processor seconds of a computation of nothing."""
    from dask import compute, delayed

    call = delayed(abs, pure=False, traverse=False)
    start = processor_time(client)
    for _ in range(ITERATIONS):
        compute(*map(call, range(FEW_PARTITIONS)), traverse=False)
    return (processor_time(client) - start) / ITERATIONS


def beyond(client, rows, X, solver):
    """Return processor seconds of an iteration, less those on the array."""
    seconds = []
    for data in (rows, X):
        ends = []
        for n_iterations in (4, 4 + ITERATIONS):
            start = processor_time(client)
            fitted(data, solver, n_iterations)
            ends.append(processor_time(client) - start)
        seconds.append((ends[1] - ends[0]) / ITERATIONS)
    return seconds[0] - seconds[1]


def fitted(X, solver, n_iterations, **settings):
    """Return a mixture after some iterations."""
    n_epochs = n_iterations
    if solver == "isaem":
        settings["batch_size"] = FEW_ROWS // 4
        n_epochs = 1 + n_iterations // 4  # the first pass is an epoch
    return StochasticEMGaussianMixture(
        N_COMPONENTS, covariance_type="diag", solver=solver, init_size=10_000,
        max_iter=n_epochs, tol=0, random_state=0, **settings,
    ).fit(X)  # fmt: skip


class Passes:
    """Records clocks at the end of each pass, as a callback."""

    def __init__(self, client):
        self.client = client
        self.clocks = []

    def setup(self, estimator, context):
        self.record()

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if context.task_name == "epoch":
            self.record()
        return False

    def record(self):
        workers = self.client.run(time.process_time).values()
        clocks = time.perf_counter(), time.process_time(), *sorted(workers)
        self.clocks.append(clocks)

    def seconds(self):
        """Return seconds by the clock and of processors, of each pass."""
        passes = np.diff(self.clocks, axis=0)[1:]  # the first has the start in it
        return [(clock, here + max(workers)) for clock, here, *workers in passes]


def processes(clients, n_rows, n_partitions, until):
    """Return lines about passes over many rows with one and two processes."""
    rows = [many_rows(client, n_rows, n_partitions) for client in clients]
    sizes, found, load = [], [[], []], os.getloadavg()[0]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    while min(map(len, found)) < 3 or time.perf_counter() < until:
        if len(found[0]) >= 30:
            break
        for client, X, seconds in zip(clients, rows, found, strict=True):
            passes = Passes(client)
            with client.as_current(), Sent(client) as sent:
                StochasticEMGaussianMixture(
                    N_COMPONENTS, covariance_type="diag", solver="em", max_iter=4,
                    init_size=10_000, tol=0, random_state=0,
                ).set_callbacks(passes).fit(X)  # fmt: skip
            seconds += passes.seconds()
            sizes.append(sent.graphs[-1])
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    count = min(map(len, found))
    one, two = (np.array(seconds[:count]) for seconds in found)
    lines = [
        "",
        f"A pass of EM over {n_rows:,} x {N_FEATURES} float32, K = {N_COMPONENTS}, "
        f"diagonal, {n_partitions} partitions: seconds, median [quartiles] of {count}",
        f"(other programs on the machine: load {load:.1f} of {os.cpu_count()} cores)",
    ]
    for k, what in enumerate(("by the clock", "busiest worker and client")):
        cells = [
            "{1:.2f} [{0:.2f}, {2:.2f}]".format(*np.percentile(v[:, k], (25, 50, 75)))
            for v in (one, two)
        ]
        ratio = np.median(one[:, k]) / np.median(two[:, k])
        lines.append(
            f"{what:>28s} 1 process {cells[0]}, 2 processes {cells[1]}, "
            f"{ratio:.2f} times"
        )
    n_tasks, n_bytes = np.max(sizes, axis=0)
    return [
        *lines,
        "",
        f"{n_tasks} tasks and {n_bytes / 1e3:.1f} kB go to the scheduler in a pass; "
        f"client and scheduler grow by {grown / 1e3:.0f} MB in the fits to "
        f"{n_rows * N_FEATURES * 4 / 1e6:,.0f} MB",
    ]


class Sent:
    """Records tasks and bytes of the graphs that a client sends."""

    def __init__(self, client):
        self.client, self.graphs = client, []

    def __enter__(self):
        get = self.client.get

        def counted(graph, *arguments, **settings):
            self.graphs.append((len(graph), len(pickle.dumps(graph))))
            return get(graph, *arguments, **settings)

        self.client.get = counted
        return self

    def __exit__(self, *error):
        del self.client.get


def many_rows(client, n_rows, n_partitions):
    """Return rows in the memory of the workers."""
    import dask.array as da
    from distributed import wait

    with client.as_current():
        shape, size = (n_rows, N_FEATURES), -(-n_rows // n_partitions)
        rows = da.zeros(shape, np.float32, chunks=(size, N_FEATURES))
        X = client.persist(rows.map_blocks(drawn, meta=np.empty((0, 1), np.float32)))
        wait(X)
        client.rebalance(X)
        return X


def drawn(block, block_id=(0,)):
    """Return rows of a mixture in place of zeros."""
    rng = np.random.default_rng(block_id[0])
    means = np.random.default_rng(0).standard_normal((N_COMPONENTS, N_FEATURES))
    rows = rng.standard_normal(block.shape, dtype=np.float32)
    return (
        rows
        + (1.5 * means.astype(np.float32))[rng.integers(N_COMPONENTS, size=len(rows))]
    )


def processor_time(client):
    """Return the processor seconds of this process and of the workers so far."""
    return time.process_time() + sum(client.run(time.process_time).values())


if __name__ == "__main__":
    main()
