"""CPU time to reach scikit-learn's own final log-likelihood, from the same start.

scikit-learn's GaussianMixture runs from a k-means start with tol=1e-6. From the same
start, the solvers of StochasticEMGaussianMixture run until they are certainly past it;
the time is that of the first epoch whose lower bound over all rows reaches
scikit-learn's final one (less 1e-6). The start itself is not counted on either side.
One thread. Run: ``python benchmarks/time_to_quality.py [--data NAME ...]``.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from machine import describe
from mixture_data import available, simulated
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from sktem import StochasticEMGaussianMixture
from sktem.solvers import VRTTEM

SOLVERS = {
    "em": dict(solver="em", max_iter=3000, tol=1e-9),
    "vrttem 1024 0.1": dict(solver=VRTTEM(rho=0.1), batch_size=1024, max_iter=300),
    "vrttem 2048 0.2": dict(solver=VRTTEM(rho=0.2), batch_size=2048, max_iter=300),
    "vrttem 4096 0.2": dict(solver=VRTTEM(rho=0.2), batch_size=4096, max_iter=300),
}


class StopAt:
    """Ends a fit when its recorded lower bound reaches a value."""

    def __init__(self, value):
        self.value = value
        self.time = None

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if context.task_name != "epoch":
            return False
        history = fitted_estimator.history_
        if history.objective[-1] >= self.value:
            self.time = history.cpu_time[-1], history.passes[-1]
            return True
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(describe())
    print("CPU seconds, one thread; median (least to most) of the repeats")
    data = {
        name: (load, "full")
        for name, load in available().items()
        if name in ("hipparcos", "ecoli_flow", "kddcup99")
    }
    data["simulated"] = (simulated, "diag")
    for name in arguments.data or data:
        load, covariance_type = data[name]
        X, n_components = load()
        with threadpool_limits(1):
            compare(name, X, n_components, covariance_type, arguments.repeats)


def compare(name, X, n_components, covariance_type, repeats):
    settings = dict(covariance_type=covariance_type, random_state=0)
    start = StochasticEMGaussianMixture(
        n_components, max_iter=0, init_size=50_000, **settings
    ).fit(X)
    given = dict(
        weights_init=start.weights_,
        means_init=start.means_,
        precisions_init=start.precisions_,
        **settings,
    )
    clock = time.process_time()
    peer = GaussianMixture(n_components, tol=1e-6, max_iter=3000, **given).fit(X)
    peer_time = time.process_time() - clock
    print(
        f"\n{name} {X.shape}, {n_components} components, {covariance_type}: "
        f"scikit-learn {peer_time:.1f} s, {peer.n_iter_} iterations, "
        f"lower bound {peer.lower_bound_:.6f}",
        flush=True,
    )
    for label, solver in SOLVERS.items():
        times, passes = [], []
        for seed in range(repeats):
            stop = StopAt(peer.lower_bound_ - 1e-6)
            mixture = StochasticEMGaussianMixture(
                n_components, **{**given, "tol": 1e-8, **solver, "random_state": seed}
            ).set_callbacks(stop)
            mixture.fit(X)
            if stop.time is None:
                times.append(np.inf)
                passes.append(mixture.lower_bound_ - peer.lower_bound_)
            else:
                times.append(stop.time[0])
                passes.append(stop.time[1])
        middle = float(np.median(times))
        if np.isinf(middle):
            gaps = ", ".join(f"{gap:.4f}" for gap in passes)
            print(f"  {label:18s} not reached; first, gap or passes: {gaps}")
            continue
        print(
            f"  {label:18s} {middle:8.2f} s ({min(times):.2f} to {max(times):.2f})  "
            f"{np.median(passes):6.0f} passes  {peer_time / middle:7.1f} times less",
            flush=True,
        )


if __name__ == "__main__":
    main()
