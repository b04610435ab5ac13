"""What a call of ``partial_fit`` with a single row costs.

Mixtures that have learned 2,000 rows get a thousand more, one at a time, as on a stream
whose rows come singly. Most of a call is validation and the published parameters.
Beside it, by turns of fifty calls, those of scikit-learn's ``MiniBatchKMeans`` with as
many clusters, which learns less. Milliseconds of a call by the clock, median [1st and
9th decile], one thread.

Run: ``python benchmarks/one_row.py``.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from image_data import Report
from machine import describe
from sklearn.cluster import MiniBatchKMeans
from threadpoolctl import threadpool_limits

from sktem import StochasticEMGaussianMixture

#: Features, components and covariances.
SETTINGS = [
    (1, 2, "full"),
    (5, 3, "full"),
    (10, 10, "diag"),
    (16, 32, "diag"),
    (16, 32, "full"),
]

#: Calls of one of the two before those of the other.
TURN = 50


def milliseconds(n_features, n_components, covariance_type, n_calls):
    """Return the times of calls of both."""
    rng = np.random.default_rng(0)
    means = 5 * rng.normal(size=(n_components, n_features))
    labels = rng.integers(n_components, size=2000 + TURN + n_calls)
    X = means[labels] + rng.normal(size=(len(labels), n_features))
    learners = (
        StochasticEMGaussianMixture(
            n_components, covariance_type=covariance_type, random_state=0
        ),
        MiniBatchKMeans(n_components, n_init=1, random_state=0),
    )
    times = np.empty((2, len(X) - 2000))
    for learner in learners:
        learner.partial_fit(X[:2000])
    for start in range(2000, len(X), TURN):
        for own, learner in zip(times, learners, strict=True):
            for call in range(start, min(start + TURN, len(X))):
                row = X[call : call + 1]
                began = time.perf_counter()
                learner.partial_fit(row)
                own[call - 2000] = 1e3 * (time.perf_counter() - began)
    return times[:, TURN:]  # The first calls compile.


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--dry-run", action="store_true", help="write no table")
    options = parser.parse_args()
    report = Report(None if options.dry_run else "one_row")
    report(describe() + ", one thread")
    report()
    report("features  components  covariance  mixture, ms            k-means, ms")
    for features, components, kind in SETTINGS:
        times = milliseconds(features, components, kind, options.calls)
        cells = [
            "{1:.3f} [{0:.3f}, {2:.3f}]".format(*np.quantile(own, [0.1, 0.5, 0.9]))
            for own in times
        ]
        report(
            f"{features:8d}  {components:10d}  {kind:10s}  {cells[0]:21s}  {cells[1]}"
        )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
