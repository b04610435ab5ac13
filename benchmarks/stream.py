"""A stream of 1,000 chunks of 1,000 rows against batch EM on all rows.

Prints, for several simulated mixtures, the held-out log-likelihood of ``partial_fit``
less that of batch EM on all the rows: from the start that the stream made of its first
rows (k-means and 20 EM passes), and from k-means on 50,000 rows, where the optima can
differ. Also the CPU seconds of both and the memory that the stream keeps. Run: ``python
benchmarks/stream.py``.
"""

from __future__ import annotations

import argparse
import pickle
import time
import warnings

import numpy as np
from machine import describe
from mixture_data import simulated

from sktem import StochasticEMGaussianMixture
from sktem.mixture.stream import FIRST_ROWS

CASES = [(2, 10, "full"), (5, 8, "full"), (16, 32, "diag"), (16, 8, "full")]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(describe())
    print(f"{arguments.chunks} chunks of {arguments.rows} rows, 100,000 rows held out")
    print(
        "   d   K covariance seed  same start, gap  own start, gap "
        "stream s  batch s  state kB"
    )
    n = arguments.chunks * arguments.rows
    for d, n_components, covariance_type in CASES:
        for seed in range(arguments.seeds):
            X, _ = simulated(n + 100_000, d, n_components, seed)
            X, held_out = X[:n], X[n:]
            settings = dict(covariance_type=covariance_type, random_state=seed)
            # The start that the stream makes from its first rows.
            needed = FIRST_ROWS.needed(n_components, d)
            first = StochasticEMGaussianMixture(
                n_components, max_iter=FIRST_ROWS.passes, tol=0.0, **settings
            ).fit(X[:needed])
            start = time.process_time()
            batch = StochasticEMGaussianMixture(
                n_components,
                weights_init=first.weights_,
                means_init=first.means_,
                precisions_init=first.precisions_,
                **settings,
            ).fit(X)
            batch_time = time.process_time() - start
            own = StochasticEMGaussianMixture(
                n_components, init_size=50_000, **settings
            ).fit(X)
            stream = StochasticEMGaussianMixture(
                n_components, solver="online", **settings
            )
            start = time.process_time()
            for chunk in np.array_split(X, arguments.chunks):
                stream.partial_fit(chunk)
            stream_time = time.process_time() - start
            score = stream.score(held_out)
            difference = score - batch.score(held_out)
            from_own = score - own.score(held_out)
            size = len(pickle.dumps(stream)) / 1e3
            print(
                f"{d:4d} {n_components:3d} {covariance_type:10s} {seed:4d} "
                f"{difference:18.5f} {from_own:16.5f} {stream_time:9.2f} "
                f"{batch_time:8.2f} {size:9.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
