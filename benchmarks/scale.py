"""Many subjects: simulated one-compartment data, sktem beside pynlme.

N subjects with 10 observations each. The distance is the largest difference between an
estimate and the maximum-likelihood estimate, in standard errors; the maximum is that of
a long run (2000 passes, at most N = 1000, beyond that of 400 passes). Times are CPU
seconds of one thread. Then, at N = 1000, the distance after some visits of each subject
for the solvers.

Usage: ``python benchmarks/scale.py [--sizes 100,1000,5000] [--peer-python PATH]``
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from machine import describe
from sklearn.exceptions import ConvergenceWarning

from sktem import NonlinearMixedEffectsRegressor
from sktem.evaluation.observed_information import to_vector

START = {"ka": 1.0, "V": 20.0, "CL": 1.0}
TIMES = np.array([0.25, 0.5, 1.0, 2.0, 3.5, 5.0, 7.0, 9.0, 12.0, 24.0])


def simulate(n, seed=0):
    """Return X, y and groups of n subjects."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n), 10)
    psi = np.log([1.5, 30.0, 3.0]) + [0.5, 0.2, 0.3] * rng.standard_normal((n, 3))
    ka, V, CL = np.exp(psi[groups]).T
    t = np.tile(TIMES, n)
    k = CL / V
    f = 320 * ka / (V * (ka - k)) * (np.exp(-k * t) - np.exp(-ka * t))
    X = np.column_stack([np.full(10 * n, 320.0), t])
    return X, f + 0.7 * rng.standard_normal(10 * n), groups


def fitted(data, **options):
    """Return a fit and its CPU seconds."""
    X, y, groups = data
    fit = NonlinearMixedEffectsRegressor(
        "one_compartment_oral", parameters=START, **{"random_state": 0, **options}
    )
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit.fit(X, y, groups=groups)
    return fit, time.process_time() - begin


def peer(data, python):
    """Return the estimates of pynlme and its CPU seconds."""
    X, y, groups = data
    script = Path(__file__).with_name("peer_pynlme.py")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(
            path, dose=X[:, 0], time=X[:, 1], y=y, group=groups,
            start=list(START.values()),
        )  # fmt: skip
        one = {**os.environ, "RAYON_NUM_THREADS": "1", "PYTHONPATH": ""}
        command = [python, str(script), str(path), "1", "0", "0"]
        answer = subprocess.run(
            command, check=True, capture_output=True, text=True, env=one
        )
    line = json.loads(answer.stdout.splitlines()[-1])
    values = np.array(line["values"])
    values[:3] = np.log(values[:3])
    return values, line["cpu"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", default="100,1000,5000")
    parser.add_argument("--peer-python", default=None)
    options = parser.parse_args()
    print(describe())
    print("\nCPU seconds and distance to the maximum in standard errors")
    print(f"{'N':>7s}{'fit':>34s}{'passes':>8s}{'CPU s':>8s}{'distance':>10s}")
    for n in [int(size) for size in options.sizes.split(",")]:
        data = simulate(n)
        passes = 2000 if n <= 1000 else 400
        best, _ = fitted(data, tol=0, max_iter=passes, random_state=99)
        exact = to_vector(best._model, best.params_)
        natural = list(best.population_parameters_.values())
        errors = np.array(list(best.standard_errors_.values()))
        errors[:3] /= natural

        def distance(values, exact=exact, errors=errors):
            return np.max(np.abs(np.asarray(values) - exact) / errors)

        for name, settings in [
            ("sktem, 80 passes", {"tol": 0, "max_iter": 80, "n_burn_in": 40}),
            ("sktem, 150 passes", {"tol": 0, "max_iter": 150}),
            ("sktem, vrttem, 60 passes", {
                "tol": 0, "max_iter": 60, "solver": "vrttem", "n_burn_in": 15,
                "batch_size": max(n // 10, 1)}),
        ]:  # fmt: skip
            fit, spent = fitted(data, **settings)
            far = distance(to_vector(fit._model, fit.params_))
            print(f"{n:7d}{name:>34s}{fit.n_iter_:8d}{spent:8.2f}{far:10.3f}")
        if options.peer_python:
            values, spent = peer(data, options.peer_python)
            line = f"{n:7d}{'pynlme, 300 + 100 iterations':>34s}{400:8d}"
            print(line + f"{spent:8.2f}{distance(values):10.3f}", flush=True)
        if n == 1000:
            curves(data, distance)


def curves(data, distance):
    """Print the distance after some passes for each solver, without averaging."""
    passes = (2, 5, 10, 20, 40)
    print("\n  N = 1000: distance by passes, batches of 100, last iterate, seed 0")
    print("  " + f"{'solver':10s}" + "".join(f"{p:>9d}" for p in passes))
    for solver in ("saem", "isaem", "vrttem", "fittem"):
        row = f"  {solver:10s}"
        for count in passes:
            fit, _ = fitted(
                data, solver=solver, batch_size=100, max_iter=count, tol=0,
                n_burn_in=max(count // 2, 1), annealing=False,
            )  # fmt: skip
            last = np.array(list(fit.trace_.values()))[:, -1]
            row += f"{distance(last):9.3f}"
        print(row, flush=True)
    print()


if __name__ == "__main__":
    main()
