"""Rows on disk under a limit on memory, against the same rows in memory.

Single-precision rows of a mixture with diagonal covariances are written to a ``.npy``
file and to Parquet. One process fits the array in memory; others, whose data segment
the operating system limits, fit the files by blocks. Printed are CPU seconds for each
pass (the difference of runs with 3 and with 1 pass, so that the checks and the start
do not count), the seconds of all that comes before, and the ratio to memory. One
thread. Run: ``python benchmarks/out_of_core.py --rows 20000000`` (1.3 GB).
"""

from __future__ import annotations

import argparse
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

N_FEATURES, N_COMPONENTS, CHUNK = 16, 32, 1_000_000


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--fit", nargs=2, metavar=("KIND", "PATH"))
    arguments = parser.parse_args()
    if arguments.fit:
        fit(*arguments.fit, arguments.megabytes)
        return
    print(describe())
    with tempfile.TemporaryDirectory() as folder:
        paths = write(Path(folder), arguments.rows)
        size = arguments.rows * N_FEATURES * 4 / 1e6
        print(
            f"{arguments.rows:,} x {N_FEATURES} float32 ({size:.0f} MB), "
            f"{N_COMPONENTS} components; files in processes with "
            f"{arguments.megabytes} MB beyond the start",
            flush=True,
        )
        for kind in ("memory", "memory map", "npy", "parquet"):
            path = paths["parquet" if kind == "parquet" else "npy"]
            subprocess.run(
                [
                    *[sys.executable, __file__, "--fit", kind, str(path)],
                    *["--megabytes", str(arguments.megabytes)],
                ],
                check=True,
            )


def write(folder, n_rows):
    """Write the rows to both kinds of files, chunk by chunk."""
    import pyarrow
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    means = 1.5 * rng.standard_normal((N_COMPONENTS, N_FEATURES))
    paths = {"npy": folder / "rows.npy", "parquet": folder / "rows.parquet"}
    table = np.lib.format.open_memmap(
        paths["npy"], "w+", dtype=np.float32, shape=(n_rows, N_FEATURES)
    )
    names = [f"x{j}" for j in range(N_FEATURES)]
    schema = pyarrow.schema([(name, pyarrow.float32()) for name in names])
    with parquet.ParquetWriter(paths["parquet"], schema) as writer:
        for start in range(0, n_rows, CHUNK):
            size = min(CHUNK, n_rows - start)
            rows = rng.standard_normal((size, N_FEATURES), dtype=np.float32)
            rows += means[rng.integers(N_COMPONENTS, size=size)]
            table[start : start + size] = rows
            columns = dict(zip(names, rows.T, strict=True))
            writer.write_table(pyarrow.table(columns, schema=schema), 262_144)
    table.flush()
    return paths


def fit(kind, path, megabytes):
    warnings.simplefilter("ignore")
    few = np.random.default_rng(0).normal(size=(1000, N_FEATURES))
    mixture(1).fit([few.astype(np.float32)])  # loads the compiled code
    rows = path
    if kind == "memory":
        rows = np.load(path)
    elif kind == "memory map":
        rows = np.load(path, mmap_mode="r")
    if kind == "parquet":
        import pyarrow.parquet  # noqa: F401
    if kind != "memory":
        limit = data_in_use() + megabytes * 2**20
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    seconds = []
    with threadpool_limits(1):
        for passes in (1, 3):
            clock = time.process_time()
            mixture(passes).fit(rows)
            seconds.append(time.process_time() - clock)
    each = (seconds[1] - seconds[0]) / 2
    print(
        f"{kind:12} {each:7.2f} s a pass, {seconds[0] - each:7.2f} s before", flush=True
    )


def mixture(passes):
    return StochasticEMGaussianMixture(
        N_COMPONENTS, covariance_type="diag", max_iter=passes, tol=0, random_state=0
    )


def data_in_use():
    """Return the size of the data segment in bytes (Linux)."""
    with open("/proc/self/status", encoding="ascii") as status:
        lines = [line.split() for line in status]
    return next(1024 * int(line[1]) for line in lines if line[0] == "VmData:")


if __name__ == "__main__":
    main()
