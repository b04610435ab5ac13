"""The start from a sample of the rows against that from all: quality and time.

For each data set with more rows than ``init_size="auto"`` takes, and each seed, a
default mixture with diagonal covariances is fitted from k-means on the sample and on
all training rows. Printed are the difference of the held-out mean log-likelihoods, mean
over the seeds and its standard error, and the CPU seconds of the starts. One thread.
Run: ``python benchmarks/init_size.py``.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from machine import describe
from mixture_data import available, simulated, split
from threadpoolctl import threadpool_limits

from sktem import StochasticEMGaussianMixture
from sktem.mixture.start import MOST_VALUES


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--max-iter", type=int, default=100)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(describe())
    data = available() | {"simulated": lambda: simulated(1_000_000, 8, 16)}
    with threadpool_limits(1):
        for name in arguments.data or data:
            X, n_components = data[name]()
            if 0.8 * X.size > MOST_VALUES:
                compare(name, X, n_components, arguments)


def compare(name, X, n_components, arguments):
    differences, seconds = [], []
    for seed in range(arguments.seeds):
        train, held_out = split(X, seed)
        scores, spent = [], []
        for init_size in (None, "auto"):
            settings = {"covariance_type": "diag", "random_state": seed}
            settings |= {"init_size": init_size, "tol": 1e-4}
            clock = time.process_time()
            start = StochasticEMGaussianMixture(n_components, max_iter=0, **settings)
            start.fit(train)
            spent.append(time.process_time() - clock)
            mixture = StochasticEMGaussianMixture(
                n_components, max_iter=arguments.max_iter, **settings
            ).fit(train)
            scores.append(mixture.score(held_out))
        differences.append(scores[1] - scores[0])
        seconds.append(spent)
    error = np.std(differences, ddof=1) / np.sqrt(len(differences))
    whole, sample = np.mean(seconds, axis=0)
    print(
        f"{name} {train.shape}, {n_components} components: sample less all "
        f"{np.mean(differences):+.5f} +- {error:.5f} nats held out, "
        f"starts {whole:.2f} s and {sample:.2f} s",
        flush=True,
    )


if __name__ == "__main__":
    main()
