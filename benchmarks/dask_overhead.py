"""What fits on Dask cost beyond the computation, and what a second process brings.

*Overhead.* Milliseconds of an iteration on few rows in four partitions of a local
cluster of two processes, less those of an iteration on the same array: by the clock,
and of the processors, of this process, the scheduler and the workers together. In
turns with them the same of a ``dask.compute`` of four tasks that do nothing. *Two
processes.* Seconds of a pass of EM over many rows in the memory of one and of two
worker processes of one thread, in turns, with one cluster at a time. Where other
programs run beside it, they slow down two processes more than one, so that what these
took of the machine is printed, and the processor time of the busiest worker and of this
process together: a bound of what the clock would show without them. *Memory and
graphs.* How much this process, in which the scheduler is, grows in a fit to the many
rows, and the tasks and bytes that are sent to the scheduler in a pass.

Run: ``python benchmarks/dask_overhead.py`` (640 MB of rows, at most four
minutes); the printed tables are ``doc/tables/dask_overhead.txt`` and
``dask_processes.txt``.
"""

from __future__ import annotations

import argparse
import os
import pickle
import resource
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
from machine import describe

from sktem import StochasticEMGaussianMixture
from sktem.rows import partitions

TABLES = Path(__file__).parent.parent / "doc" / "tables"
PARTS = ("overhead", "processes")
N_FEATURES, N_COMPONENTS, FEW_ROWS, FEW_PARTITIONS = 16, 8, 4_000, 4
ITERATIONS = 24


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS)
    parser.add_argument("--minutes", type=float, default=2, help="of repeats, about")
    parser.add_argument("--folder", type=Path, default=TABLES, help="of the tables")
    options = parser.parse_args()

    import dask

    warnings.simplefilter("ignore")
    dask.config.set({"distributed.worker.memory.target": False})
    dask.config.set({"distributed.worker.memory.spill": False})
    for part in options.parts:
        if part == "overhead":
            with cluster_of(2) as client:
                lines = overhead(client, time.perf_counter() + 20 * options.minutes)
        else:
            until = time.perf_counter() + 40 * options.minutes
            lines = processes(options.rows, options.partitions, until)
        text = "\n".join([f"{describe()}, dask {dask.__version__}", *lines]) + "\n"
        print(text)
        (options.folder / f"dask_{part}.txt").write_text(text)


@contextmanager
def cluster_of(n_processes):
    """Yield the client of a cluster of processes of one thread."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=n_processes, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def overhead(client, until):
    """Return lines about iterations that compute next to nothing."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(FEW_ROWS, N_FEATURES)) + 2 * rng.choice(
        [-1, 1], (FEW_ROWS, N_FEATURES)
    )
    rows = client.persist(dask_rows(X, FEW_PARTITIONS))
    computed = {
        "dask.compute of nothing": lambda: nothing(client),
        "em": lambda: beyond(client, rows, X, "em"),
        "online, batches of a quarter": lambda: beyond(client, rows, X, "online"),
    }
    for solver in ("em", "online"):
        fitted(rows, solver, 4)  # the workers load what they need
    found: dict[str, list] = {name: [] for name in computed}
    busy, own, clock = busy_time(), 0.0, time.perf_counter()
    while len(found["em"]) < 3 or time.perf_counter() < until:
        if len(found["em"]) == 15:
            break
        for name, call in computed.items():
            before = clocks(client)
            found[name].append(call())
            own += (clocks(client) - before)[1]
    others = (busy_time() - busy - own) / (time.perf_counter() - clock)
    lines = [
        "",
        f"Overhead of an iteration, {FEW_PARTITIONS} partitions, 2 processes: "
        f"milliseconds, median [quartiles] of {len(found['em'])} turns",
        f"(other programs took {others:.2f} of {os.cpu_count()} cores)",
    ]
    for k, what in enumerate(("by the clock", "of processors")):
        bare = np.median(np.array(found["dask.compute of nothing"])[:, k])
        for name, values in found.items():
            low, middle, high = 1000 * np.percentile(values, (25, 50, 75), axis=0)[:, k]
            lines.append(
                f"{what:>14s}, {name:<28s}{middle:6.1f} [{low:.1f}, {high:.1f}]"
                f"  {middle / bare / 1000:5.2f} times"
            )
    return lines


def dask_rows(X, n_partitions):
    """Return a Dask array."""
    import dask.array as da

    return da.from_array(X, chunks=(-(-len(X) // n_partitions), -1))


def nothing(client):
    """Return seconds of a computation of nothing."""
    from dask import compute, delayed

    call = delayed(abs, pure=False, traverse=False)
    start = clocks(client)
    for _ in range(ITERATIONS):
        compute(*map(call, range(FEW_PARTITIONS)), traverse=False)
    return (clocks(client) - start) / ITERATIONS


def beyond(client, rows, X, solver):
    """Return seconds of an iteration, less those on the array."""
    seconds = []
    for data in (rows, X):
        ends = []
        for n_iterations in (4, 4 + ITERATIONS):
            start = clocks(client)
            fitted(data, solver, n_iterations)
            ends.append(clocks(client) - start)
        seconds.append((ends[1] - ends[0]) / ITERATIONS)
    return seconds[0] - seconds[1]


def fitted(X, solver, n_iterations, **settings):
    """Return a mixture after some iterations."""
    n_epochs = n_iterations
    if solver == "online":
        settings["batch_size"] = FEW_ROWS // 4
        n_epochs = n_iterations // 4
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
        clocks = time.perf_counter(), busy_time(), time.process_time()
        self.clocks.append((*clocks, *workers))

    def seconds(self):
        """Return seconds of each pass: by the clock, of processors, of others."""
        passes = np.diff(self.clocks, axis=0)[1:]  # the first has the start in it
        return [
            (clock, here + max(workers), (busy - here - sum(workers)) / clock)
            for clock, busy, here, *workers in passes
        ]


def processes(n_rows, n_partitions, until):
    """Return lines about passes over many rows with one and two processes."""
    sizes, found, grown = [], [[], []], 0
    while min(map(len, found)) < 3 or time.perf_counter() < until:
        for n_processes, seconds in zip((1, 2), found, strict=True):
            with cluster_of(n_processes) as client:
                X = many_rows(client, n_rows, n_partitions)
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                passes = Passes(client)
                with sent() as graphs:
                    StochasticEMGaussianMixture(
                        N_COMPONENTS, covariance_type="diag", solver="em", max_iter=6,
                        init_size=10_000, tol=0, random_state=0,
                    ).set_callbacks(passes).fit(X)  # fmt: skip
                seconds += passes.seconds()
                sizes.append(graphs[-1])
                after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                grown = max(grown, after - before)
                del X
    one, two = (np.array(seconds) for seconds in found)
    others = [np.median(v[:, 2]) for v in (one, two)]
    lines = [
        "",
        f"A pass of EM over {n_rows:,} x {N_FEATURES} float32, K = {N_COMPONENTS}, "
        f"diagonal, {n_partitions} partitions: seconds, median [quartiles] of "
        f"{len(one)}",
        f"(other programs took {others[0]:.2f} of {os.cpu_count()} cores beside 1 "
        f"process, {others[1]:.2f} beside 2)",
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


@contextmanager
def sent():
    """Yield a list of the tasks and bytes of graphs, which grows as they are sent."""
    graphs, run = [], partitions.reduced

    def counted(calls, join):
        calls = [*calls]
        tasks = {key: task for call in calls for key, task in dict(call.dask).items()}
        graphs.append((len(tasks), len(pickle.dumps(tasks))))
        return run(calls, join)

    with mock.patch.object(partitions, "reduced", counted):
        yield graphs


def many_rows(client, n_rows, n_partitions):
    """Return rows in the memory of the workers."""
    import dask.array as da
    from distributed import wait

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


def clocks(client):
    """Return seconds by the clock, and of processors here and on the workers."""
    here, workers = time.process_time(), client.run(time.process_time).values()
    return np.array([time.perf_counter(), here + sum(workers)])


def busy_time():
    """Return the seconds that the processors of this machine have worked so far."""
    with open("/proc/stat") as file:
        user, nice, system = map(int, file.readline().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
