"""A long stream: rows drawn on the fly, one model, memory that must stay flat.

Chunks of a drifting mixture are drawn and learned by ``partial_fit`` until the rows or
the seconds are used up. Printed ten times are the rows so far, rows per CPU second of
learning, the memory of the process, and the log-likelihood of the next chunk. It
fails if memory grows by more than 5 MB after the first twentieth of the rows, or of the
seconds. One thread. Run: ``python benchmarks/soak.py --seconds 300``.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
from image_data import Report
from machine import describe
from threadpoolctl import threadpool_limits

from sktem import StochasticEMGaussianMixture

LARGEST_GROWTH = 5.0


def megabytes():
    """Return the resident memory of the process."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--chunk", type=int, default=10_000)
    parser.add_argument("--features", type=int, default=8)
    parser.add_argument("--components", type=int, default=8)
    parser.add_argument("--dry-run", action="store_true", help="write no table")
    arguments = parser.parse_args()
    report = Report(None if arguments.dry_run else "soak")
    report(describe())
    report("       rows  rows / CPU s  memory MB  next chunk, nats")
    with threadpool_limits(1):
        growth = soak(arguments, report)
    report(f"growth after the first twentieth: {growth:.1f} MB")
    if growth > LARGEST_GROWTH:
        raise SystemExit(f"memory has grown by more than {LARGEST_GROWTH:g} MB")


def soak(arguments, report):
    """Learn the stream; return by how much memory has grown."""
    rng = np.random.default_rng(0)
    shape = (arguments.components, arguments.features)
    means = 5 * rng.normal(size=shape)
    mixture = StochasticEMGaussianMixture(
        arguments.components,
        covariance_type="diag",
        step_size=0.02,
        random_state=0,
    )
    begin, rows, spent, base, tenth = time.monotonic(), 0, 0.0, None, 0
    noise = np.empty((arguments.chunk, arguments.features))
    while True:
        labels = rng.integers(arguments.components, size=arguments.chunk)
        chunk = means[labels] + rng.standard_normal(out=noise)
        means += 1e-3 * rng.normal(size=shape)
        share = max(
            rows / arguments.rows, (time.monotonic() - begin) / arguments.seconds
        )
        if base is None and share >= 0.05:
            base = megabytes()
        if share * 10 >= tenth + 1 or share >= 1:
            tenth = int(share * 10)
            report(
                f"{rows:11,d} {rows / spent:13,.0f} {megabytes():10.1f} "
                f"{mixture.score(chunk):17.3f}"
            )
        if share >= 1:
            return megabytes() - base
        clock = time.process_time()
        mixture.partial_fit(chunk)
        spent += time.process_time() - clock
        rows += arguments.chunk


if __name__ == "__main__":
    main()
