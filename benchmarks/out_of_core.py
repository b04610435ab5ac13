"""Rows on disk under a limit on memory, against the same rows in memory.

Single-precision rows of a mixture with diagonal covariances are written to a ``.npy``
file and to Parquet. Processes fit the array in memory and, with a data segment that the
operating system limits, the files by blocks.

*Passes.* CPU seconds of each pass of EM but the first, kinds in turns, and the ratio to
memory.

*Time to the optimum.* From one start, seconds of a fit until the log-likelihood is
within 1e-3 nats per row of where EM in the memory map ends (``tol=1e-6``), by EM and
by vrTTEM, whose seeds differ. It is that of half a million of the rows, after each
epoch; the clocks stand still meanwhile.

One thread. Run: ``python benchmarks/out_of_core.py --rows 20000000`` (1.3 GB, half an
hour).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from machine import describe
from threadpoolctl import threadpool_limits

from sktem import StochasticEMGaussianMixture
from sktem.solvers import VRTTEM

N_FEATURES, N_COMPONENTS, CHUNK, GROUP, JUDGED = 16, 32, 1 << 20, 1 << 18, 500_000
KINDS = ("memory", "memory map", "npy", "parquet")
SOLVERS = {
    "em": {"solver": "em", "tol": 1e-6, "max_iter": 300},
    "vrttem": {"solver": VRTTEM(rho=0.2), "batch_size": 4096, "tol": 0},
}
SHORT_OF_END = 1e-3


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--spread", type=float, default=1.0, help="of the means")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--parts", nargs="*", default=["passes", "optimum"])
    parser.add_argument("--folder", type=Path, help="keep the files here")
    parser.add_argument("--child", nargs="*", help="what a process is to do")
    arguments = parser.parse_args()
    if arguments.child:
        warnings.simplefilter("ignore")
        with threadpool_limits(1):
            found = CHILDREN[arguments.child[0]](*arguments.child[1:])
        print(json.dumps(found))
        return
    print(describe())
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        paths = write(folder, arguments.rows, arguments.spread)
        sizes = [paths[kind].stat().st_size / 1e6 for kind in ("npy", "parquet")]
        print(
            f"{arguments.rows:,} x {N_FEATURES} float32, {sizes[0]:.0f} MB as .npy and "
            f"{sizes[1]:.0f} MB as Parquet (snappy, plain), {N_COMPONENTS} components, "
            f"means with a standard deviation of {arguments.spread:g}; files in "
            f"processes with a data segment of {arguments.megabytes} MB",
            flush=True,
        )
        start = start_of(paths["npy"], folder / "start.npz")
        if "passes" in arguments.parts:
            passes(paths, start, arguments)
        if "optimum" in arguments.parts:
            optimum(paths, start, arguments)


def start_of(rows, path):
    """Make a start of the first rows by k-means."""
    X = np.array(np.load(rows, mmap_mode="r")[:JUDGED])
    found = mixture(max_iter=0).fit(X)
    np.savez(
        path, weights_init=found.weights_, means_init=found.means_,
        precisions_init=found.precisions_,
    )  # fmt: skip
    return path


def write(folder, n_rows, spread):
    """Write the rows to both kinds of files, chunk by chunk."""
    import pyarrow
    from pyarrow import parquet

    paths = {"npy": folder / "rows.npy", "parquet": folder / "rows.parquet"}
    if all(path.exists() for path in paths.values()):
        return paths
    rng = np.random.default_rng(0)
    means, scales = rng.standard_normal((2, N_COMPONENTS, N_FEATURES), np.float32)
    means, scales = np.float32(spread) * means, np.exp(np.float32(0.3) * scales)
    weights = rng.dirichlet(np.full(N_COMPONENTS, 5.0))
    table = np.lib.format.open_memmap(
        paths["npy"], "w+", dtype=np.float32, shape=(n_rows, N_FEATURES)
    )
    names = [f"x{j}" for j in range(N_FEATURES)]
    schema = pyarrow.schema([(name, pyarrow.float32()) for name in names])
    settings = {"use_dictionary": False, "compression": "snappy"}
    with parquet.ParquetWriter(paths["parquet"], schema, **settings) as writer:
        for start in range(0, n_rows, CHUNK):
            size = min(CHUNK, n_rows - start)
            labels = rng.choice(N_COMPONENTS, size, p=weights)
            rows = rng.standard_normal((size, N_FEATURES), dtype=np.float32)
            rows = rows * scales[labels] + means[labels]
            table[start : start + size] = rows
            columns = dict(zip(names, rows.T, strict=True))
            writer.write_table(pyarrow.table(columns, schema=schema), GROUP)
    table.flush()
    return paths


def child(*words):
    """Run a process and return what it prints."""
    command = [sys.executable, __file__, "--child", *map(str, words)]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(found.stdout.splitlines()[-1])


def path_of(paths, kind):
    return paths["parquet" if kind == "parquet" else "npy"]


def passes(paths, start, arguments):
    """Print the seconds of passes."""
    found = {kind: [] for kind in KINDS}
    for _ in range(arguments.turns):
        for kind in KINDS:
            path = path_of(paths, kind)
            seconds = child("pass", kind, path, arguments.megabytes, start)
            found[kind] += seconds
    count = len(found["memory"])
    print(f"\nCPU seconds of a pass of EM, median [quartiles] of {count}")
    memory = np.median(found["memory"])
    for kind in KINDS:
        low, middle, high = np.percentile(found[kind], (25, 50, 75))
        print(
            f"{kind:12} {middle:6.2f} [{low:.2f}, {high:.2f}], "
            f"{middle / memory:.2f} times memory",
            flush=True,
        )


def optimum(paths, start, arguments):
    """Print the seconds to the optimum."""
    end = None
    print(f"\nseconds to within {SHORT_OF_END:g} nats of the end of EM, same start")
    for kind in ("memory map", "parquet"):
        path = path_of(paths, kind)
        for name in SOLVERS:
            seeds = range(arguments.seeds if name != "em" else 1)
            runs = [
                child("optimum", kind, path, arguments.megabytes, name, start,
                      seed, "none" if end is None else end - SHORT_OF_END)
                for seed in seeds
            ]  # fmt: skip
            if end is None:
                end = runs[0][-1][3]
                print(f"EM ends after {len(runs[0])} passes at {end:.6f} nats a row")
            print(f"{kind:12} {name:7} {reached(runs, end)}", flush=True)


def reached(runs, end):
    """Return clocks of the first epochs that are close enough, one for each run."""
    cells = []
    for run in runs:
        close = [epoch for epoch in run if epoch[3] >= end - SHORT_OF_END]
        if not close:
            cells.append(f"not reached ({run[-1][3] - end:+.4f})")
            continue
        cpu, wall, visits, _ = close[0]
        cells.append(f"{cpu:.0f} CPU s, {wall:.0f} s by the clock, {visits:.1f} passes")
    return "; ".join(cells)


def rows_under_limit(kind, path, megabytes):
    """Return the rows, limit the memory of files."""
    few = np.random.default_rng(0).normal(size=(8192, N_FEATURES)).astype(np.float32)
    for settings in SOLVERS.values():  # loads the compiled code
        mixture(**{**settings, "max_iter": 2}).fit([few])
    if kind == "memory":
        return np.load(path)
    if kind == "parquet":
        import pyarrow.parquet  # noqa: F401
    limit = int(megabytes) * 10**6
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    return np.load(path, mmap_mode="r") if kind == "memory map" else path


def timed_passes(kind, path, megabytes, start):
    """Return CPU seconds of each pass after the first."""
    rows = rows_under_limit(kind, path, megabytes)
    given, epochs = given_by(start), Epochs()
    mixture(max_iter=4, tol=0, **given).set_callbacks(epochs).fit(rows)
    return np.diff([cpu for cpu, *_ in epochs.found]).tolist()


def given_by(start):
    """Return parameters of a start."""
    with np.load(start) as file:
        return dict(file)


def timed_optimum(kind, path, megabytes, name, start, seed, target):
    """Return clocks, visits and log-likelihood after each epoch up to a target."""
    rows = rows_under_limit(kind, path, megabytes)
    judged = np.array(np.load(Path(path).with_suffix(".npy"), mmap_mode="r")[:JUDGED])
    epochs = Epochs(judged, None if target == "none" else float(target))
    settings = {
        "max_iter": 40,
        **SOLVERS[name],
        **given_by(start),
        "random_state": int(seed),
    }
    mixture(**settings).set_callbacks(epochs).fit(rows)
    return epochs.found


class Epochs:
    """Clocks, visits and log-likelihood after each epoch, as a callback."""

    def __init__(self, judged=None, target=None):
        self.judged, self.target = judged, target
        self.found = []
        self.begun = time.process_time(), time.perf_counter()

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if context.task_name != "epoch":
            return False
        now = time.process_time(), time.perf_counter()
        spent = [one - other for one, other in zip(now, self.begun, strict=True)]
        visits = fitted_estimator.history_.passes[-1]
        score = None if self.judged is None else fitted_estimator.score(self.judged)
        self.found.append((*spent, visits, score))
        after = time.process_time() - now[0], time.perf_counter() - now[1]
        self.begun = tuple(map(sum, zip(self.begun, after, strict=True)))
        return self.target is not None and score >= self.target


def mixture(**settings):
    settings = {"covariance_type": "diag", "random_state": 0, **settings}
    return StochasticEMGaussianMixture(N_COMPONENTS, **settings)


CHILDREN = {"pass": timed_passes, "optimum": timed_optimum}


if __name__ == "__main__":
    main()
