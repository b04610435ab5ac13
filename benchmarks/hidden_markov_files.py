"""Hidden Markov models of rows in a Parquet file, under a limit on memory.

Sequences of 1,000 rows with a number and a label are written to a file. A process whose
data segment the operating system limits fits two states by EM, from the default start,
and prints the CPU seconds of a pass and the largest memory. The parameters are those of
the draw. One thread.

Run: ``python benchmarks/hidden_markov_files.py --rows 100000000 --passes 2``.
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

from sktem import HiddenMarkovModel
from sktem.emissions import Gaussian

LENGTH, CHUNK, GROUP, LEAVES, DISTANCE = 1000, 1_000_000, 1 << 18, 0.03, 3.0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="keep the file here")
    parser.add_argument("--child", help="the file that a process is to fit")
    arguments = parser.parse_args()
    if arguments.child:
        with threadpool_limits(1):
            fit(arguments.child, arguments.megabytes, arguments.passes)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = (arguments.folder or Path(folder)) / f"rows_{arguments.rows}.parquet"
        if not path.exists():
            write(path, arguments.rows)
        print(describe())
        print(
            f"{arguments.rows:,} rows of a number and a label, "
            f"{arguments.rows // LENGTH:,} sequences, "
            f"{path.stat().st_size / 1e6:.0f} MB as Parquet; a process with "
            f"a data segment of {arguments.megabytes} MB",
            flush=True,
        )
        words = ["--megabytes", arguments.megabytes, "--passes", arguments.passes]
        command = [sys.executable, __file__, "--child", path, *words]
        subprocess.run([str(word) for word in command], check=True)


def write(path, n_rows):
    """Write the rows, chunk by chunk."""
    import pyarrow
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    schema = pyarrow.schema([("x", pyarrow.float32()), ("key", pyarrow.int64())])
    with parquet.ParquetWriter(path, schema) as writer:
        for first in range(0, n_rows, CHUNK):
            size = min(CHUNK, n_rows - first)
            states = np.cumsum(rng.random(size) < LEAVES) % 2
            columns = {
                "x": (DISTANCE * states + rng.normal(size=size)).astype(np.float32),
                "key": np.arange(first, first + size) // LENGTH,
            }
            writer.write_table(pyarrow.table(columns, schema=schema), GROUP)


def fit(path, megabytes, passes):
    """Fit the rows of a file under a limit on memory."""
    import pyarrow.parquet  # noqa: F401

    warnings.simplefilter("ignore")
    options = {"emission": Gaussian("diag"), "random_state": 0, "tol": 0}
    few = np.random.default_rng(0).normal(size=(100, 1))
    HiddenMarkovModel(2, max_iter=2, **options).fit(few)
    limit = megabytes * 10**6
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    seconds = []
    for max_iter in (1, 1 + passes):
        begun = time.process_time()
        hmm = HiddenMarkovModel(2, max_iter=max_iter, **options)
        hmm.fit(path, groups="key")
        seconds.append(time.process_time() - begun)
    once = (seconds[1] - seconds[0]) / passes
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    order = hmm.emission_params_.means.ravel().argsort()
    means, stay = hmm.emission_params_.means.ravel()[order], np.diag(hmm.transitions_)
    print(
        f"a pass of EM: {once:.1f} CPU s; reading, labels and the start: "
        f"{seconds[0] - once:.1f} CPU s; largest memory: {peak:.0f} MB"
    )
    print(
        f"means {means.round(3)} (drawn with 0 and {DISTANCE:g}), probabilities of "
        f"staying {stay[order].round(4)} (drawn with {1 - LEAVES:g})"
    )


if __name__ == "__main__":
    main()
