"""The start from a sample of the rows against that from all: quality, time and memory.

*Quality.* For data sets with more rows than ``init_size="auto"`` takes, and each seed,
a mixture with diagonal covariances is fitted from k-means on the sample and on all
training rows. Printed are the difference of the held-out mean log-likelihoods, mean
over the seeds and its standard error, how many seeds are above, and the CPU seconds of
the starts.

*Cost.* CPU seconds of the start and of the first ten passes of a default fit, and how
much anonymous memory (what is not a page of the file) it takes beyond that of the
process before it: for rows in an array, and in a memory map.

One thread. Run: ``python benchmarks/init_size.py``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
from machine import describe
from mixture_data import SHARED, available, kddcup99, simulated, split
from threadpoolctl import threadpool_limits

from sktem import StochasticEMGaussianMixture
from sktem.mixture.start import START_ROWS

#: Rows, features and components of the cost of starts.
SIZES = {"array": (1_000_000, 8, 8), "memory map": (1_000_000, 8, 8)}

#: Rows of a data set whose quality is compared, drawn at random, at most.
MOST_ROWS = 150_000


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--max-iter", type=int, default=40)
    parser.add_argument("--parts", nargs="*", default=["quality", "cost"])
    parser.add_argument("--child", nargs=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        if arguments.child:
            print(json.dumps(cost_of(*arguments.child)))
            return
        print(describe())
        data = data_sets()
        for name in (arguments.data or data) if "quality" in arguments.parts else ():
            X, n_components = data[name]()
            X = X[np.random.default_rng(0).permutation(len(X))[:MOST_ROWS]]
            if sample_of(0.8 * len(X), X.shape[1], n_components):
                compare(name, X, n_components, arguments)
    if "cost" in arguments.parts:
        costs()


def data_sets():
    """Return functions that make the data sets, by name."""
    data = {"simulated": lambda: simulated(MOST_ROWS, 8, 16)}
    data |= available()
    if "kddcup99" in data:
        data["kddcup99, all columns"] = lambda: kddcup99(n_columns=None)
    if (SHARED / "images" / "mnist.npz").exists():
        data["patches of digits"] = patches
    return data


def patches(n=MOST_ROWS, side=4, seed=0):
    """Pieces of the MNIST digits with an edge in them: (150,000, 16), 16 components."""
    with np.load(SHARED / "images" / "mnist.npz") as file:
        images = file["X_train"]
    rng = np.random.default_rng(seed)
    windows = np.lib.stride_tricks.sliding_window_view(images, (side, side), (1, 2))
    pieces = windows[
        rng.integers(len(images), size=4 * n), *rng.integers(4, 21, (2, 4 * n))
    ].reshape(4 * n, -1)
    pieces = pieces[pieces.std(axis=1) > 20][:n].astype(np.float64)
    return pieces + rng.random(pieces.shape), 16


def sample_of(n, d, n_components):
    """Return the rows of the sample that "auto" takes, 0 if it is all."""
    size = START_ROWS.size(n_components, d)
    return size if size < n else 0


def compare(name, X, n_components, arguments):
    """Print the quality of starts from a sample, less that of starts from all rows."""
    differences, seconds = [], []
    for seed in range(arguments.seeds):
        train, held_out = split(X, seed)
        scores, spent = [], []
        for init_size in (None, "auto"):
            settings = {"covariance_type": "diag", "random_state": seed, "tol": 1e-4}
            clock = time.process_time()
            start = StochasticEMGaussianMixture(
                n_components, max_iter=0, init_size=init_size, **settings
            ).fit(train)
            spent.append(time.process_time() - clock)
            mixture = StochasticEMGaussianMixture(
                n_components, max_iter=arguments.max_iter, **settings,
                weights_init=start.weights_, means_init=start.means_,
                precisions_init=start.precisions_,
            ).fit(train)  # fmt: skip
            scores.append(mixture.score(held_out))
        differences.append(scores[1] - scores[0])
        seconds.append(spent)
    differences = np.array(differences)
    error = np.std(differences, ddof=1) / np.sqrt(len(differences))
    whole, sample = np.mean(seconds, axis=0)
    print(
        f"{name} {train.shape}, {n_components} components, a sample of "
        f"{sample_of(*train.shape, n_components):,}: sample less all "
        f"{np.mean(differences):+.5f} +- {error:.5f} nats held out, median "
        f"{np.median(differences):+.5f}, above in {np.sum(differences > 0)} of "
        f"{len(differences)} seeds; starts {whole:.2f} s and {sample:.2f} s",
        flush=True,
    )


def costs():
    """Print what starts cost, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for kind, (n, d, K) in SIZES.items():
            path = Path(folder) / f"{kind}.npy"
            np.save(path, simulated(n, d, K)[0].astype(np.float32))
            for init_size in ("None", "auto"):
                command = [sys.executable, __file__, "--child", kind, path, init_size]
                text = subprocess.check_output(list(map(str, command)), text=True)
                start, rest, n_passes, grown = json.loads(text.splitlines()[-1])
                print(
                    f"{kind} {n:,} x {d} float32 ({4e-6 * n * d:.0f} MB), {K} "
                    f"components, init_size={init_size}: start {start:.2f} s, "
                    f"{n_passes} passes {rest:.2f} s, {grown:.0f} MB more",
                    flush=True,
                )


def cost_of(kind, path, init_size):
    """Return seconds of the start and of the rest, passes and megabytes of a fit."""
    n, d, K = SIZES[kind]
    few = np.load(path, mmap_mode="r")[:20_000]
    default_fit(K, None, np.array(few), max_iter=2)  # loads what is needed
    X = np.load(path, mmap_mode=None if kind == "array" else "r")
    before, size = anonymous(), None if init_size == "None" else init_size
    with Peak() as peak:
        clock = time.process_time()
        default_fit(K, size, X, max_iter=0)
        start = time.process_time() - clock
        clock = time.process_time()
        mixture = default_fit(K, size, X, max_iter=10)
        rest = time.process_time() - clock - start
    return start, rest, mixture.n_iter_, peak.value - before


def default_fit(K, init_size, X, **settings):
    return StochasticEMGaussianMixture(
        K, init_size=init_size, random_state=0, **settings
    ).fit(X)


def anonymous():
    """Return the resident anonymous memory in MB (Linux)."""
    with open("/proc/self/status", encoding="ascii") as status:
        lines = [line.split() for line in status]
    return next(1.024e-3 * int(line[1]) for line in lines if line[0] == "RssAnon:")


class Peak:
    """The most anonymous memory while it is open, looked at every few milliseconds."""

    def __enter__(self):
        self.value, self.open = anonymous(), True
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.open = False
        self.thread.join()

    def _watch(self):
        while self.open:
            self.value = max(self.value, anonymous())
            time.sleep(0.005)


if __name__ == "__main__":
    main()
