"""Which solver is the best default: held-out log-likelihood and CPU time.

For each real data set and seed, every solver starts from the same k-means start on the
training rows and runs to its own stop. Printed are the held-out mean log-likelihood
less that of scikit-learn's GaussianMixture with tol=1e-6, CPU seconds and passes. One
thread. Run: ``python benchmarks/default_solver.py``.
"""

from __future__ import annotations

import argparse
import time
import warnings

from machine import describe
from mixture_data import available, split
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from sktem import StochasticEMGaussianMixture
from sktem.solvers import FITTEM, VRTTEM

SOLVERS = {
    "default": {},
    "em, tol 1e-6": dict(solver="em", tol=1e-6, max_iter=3000),
    "squarem": dict(solver="squarem", tol=1e-6, max_iter=3000),
    "daarem": dict(solver="daarem", tol=1e-6, max_iter=3000),
    "vrttem, rho 0.1": dict(solver=VRTTEM(rho=0.1), max_iter=300),
    "vrttem": dict(solver="vrttem", max_iter=300),
    "fittem, rho 0.1": dict(solver=FITTEM(rho=0.1), max_iter=60),
    "iem": dict(solver="iem", max_iter=60),
    "online, averaged": dict(solver="online", average=1, max_iter=20),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--solvers", nargs="*", default=list(SOLVERS), choices=SOLVERS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(describe())
    data = available()
    with threadpool_limits(1):
        for name in arguments.data or data:
            X, n_components = data[name]()
            for seed in range(arguments.seeds):
                compare(name, X, n_components, seed, arguments.solvers)


def compare(name, X, n_components, seed, solvers):
    train, held_out = split(X, seed)
    clusters = KMeans(n_components, n_init=1, random_state=seed).fit(train)

    def start(X, n_components, random_state):
        return clusters.predict(X)

    first = StochasticEMGaussianMixture(n_components, init_params=start, max_iter=0)
    first.fit(train)
    clock = time.process_time()
    peer = GaussianMixture(
        n_components,
        tol=1e-6,
        max_iter=3000,
        weights_init=first.weights_,
        means_init=first.means_,
        precisions_init=first.precisions_,
    ).fit(train)
    peer_time = time.process_time() - clock
    peer_score = peer.score(held_out)
    print(
        f"\n{name} {train.shape}, {n_components} components, seed {seed}: scikit-learn "
        f"{peer_score:.5f} nats held out, {peer_time:.1f} s, {peer.n_iter_} iterations",
        flush=True,
    )
    for label in solvers:
        settings = SOLVERS[label]
        clock = time.process_time()
        mixture = StochasticEMGaussianMixture(
            n_components, init_params=start, random_state=seed, **settings
        ).fit(train)
        spent = time.process_time() - clock
        events = {key: value for key, value in mixture.history_.events.items() if value}
        print(
            f"  {label:18s} {mixture.score(held_out) - peer_score:+9.5f} nats  "
            f"(training {mixture.score(train) - peer.score(train):+9.5f})  "
            f"{spent:7.2f} s  {mixture.n_iter_:4d} passes  "
            f"{'converged' if mixture.converged_ else 'passes used up':14s} "
            f"{events or ''}",
            flush=True,
        )


if __name__ == "__main__":
    main()
