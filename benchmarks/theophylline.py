"""Theophylline: default fits with 30 seeds against the exact maximum and pynlme.

The maximum-likelihood estimate and its standard errors are by adaptive quadrature with
31 nodes per dimension. Times are CPU seconds of one thread; runs of the two alternate
in blocks. Usage: ``python benchmarks/theophylline.py [--seeds 30] [--peer-python
PATH]``, the path being that of an interpreter that has pynlme.
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
import pandas as pd
from machine import describe
from shared_data import locate
from sklearn.exceptions import ConvergenceWarning

from sktem import NonlinearMixedEffectsRegressor

NAMES = ["ka", "V", "CL", "omega2 ka", "omega2 V", "omega2 CL", "a"]
EXACT = [1.579396, 31.62598, 2.747989, 0.394725, 0.017888, 0.070751, 0.737977]
ERRORS = [0.302802, 1.47072, 0.234706, 0.189507, 0.011017, 0.036195, 0.056271]
SAEMIX = [0.0089, 0.0758, 0.0080, 0.0099, 0.00110, 0.0023, 0.0019]
START = {"ka": 1.0, "V": 20.0, "CL": 0.5}


def ours(data, seed):
    """Return estimates, CPU seconds of the fit and of the likelihood, and the fit."""
    X = data[["Dose", "Time"]]
    fit = NonlinearMixedEffectsRegressor(
        "one_compartment_oral", parameters=START, random_state=seed
    )
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit.fit(X, data.Concentration, groups=data.Id)
    spent = time.process_time() - begin
    values = [*fit.population_parameters_.values(), *np.diag(fit.omega_)]
    begin = time.process_time()
    importance = -2 * fit.log_likelihood(method="importance")
    rest = time.process_time() - begin
    quadrature = -2 * fit.log_likelihood(method="quadrature")
    return [*values, fit.residual_error_["a"]], spent, rest, importance, quadrature


def theirs(data, python, n_seeds, first):
    """Return estimates and CPU seconds of pynlme."""
    script = Path(__file__).with_name("peer_pynlme.py")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(
            path, dose=data.Dose, time=data.Time, y=data.Concentration,
            group=data.Id, start=list(START.values()),
        )  # fmt: skip
        one = {**os.environ, "RAYON_NUM_THREADS": "1", "PYTHONPATH": ""}
        command = [python, str(script), str(path), str(n_seeds), "1", str(first)]
        answer = subprocess.run(
            command, check=True, capture_output=True, text=True, env=one
        )
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    return [line["values"] for line in lines], [line["cpu"] for line in lines]


def table(title, found):
    print(f"\n{title}")
    head = f"{'':10s}{'exact':>10s}{'mean':>10s}{'(mean - exact) / SE':>21s}"
    print(head + f"{'sd of seeds':>13s}{'sd / sd of saemix':>19s}")
    means, spread = np.mean(found, axis=0), np.std(found, axis=0, ddof=1)
    for row in zip(NAMES, EXACT, means, ERRORS, spread, SAEMIX, strict=True):
        name, exact, mean, error, sd, saemix = row
        line = f"{name:10s}{exact:10.5g}{mean:10.5g}{(mean - exact) / error:21.3f}"
        print(line + f"{sd:13.2g}{sd / saemix:19.2f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--peer-python", default=None)
    options = parser.parse_args()
    data = pd.read_csv(locate("nlme/saemix_theo.csv.gz"))
    print(describe())
    ours(data, 0)
    blocks = np.array_split(np.arange(options.seeds), 3)
    runs, peer_values, peer_times = [], [], []
    for block in blocks:
        runs += [ours(data, int(seed)) for seed in block]
        if options.peer_python:
            values, times = theirs(data, options.peer_python, len(block), int(block[0]))
            peer_values, peer_times = peer_values + values, peer_times + times
    table(f"sktem, default settings, {options.seeds} seeds", [run[0] for run in runs])
    if peer_values:
        table(f"pynlme, default settings, {options.seeds} seeds", peer_values)
    importance = np.array([run[3] for run in runs])
    quadrature = np.array([run[4] for run in runs])
    print(f"\n-2 log-likelihood at the maximum 345.43483; by quadrature "
          f"{quadrature.mean():.4f} (sd {quadrature.std():.4f}), importance sampling "
          f"less quadrature {np.mean(importance - quadrature):.3f} (sd "
          f"{np.std(importance - quadrature):.3f})")  # fmt: skip
    fits, rests = (np.array([run[k] for run in runs]) for k in (1, 2))
    print("\nCPU seconds, median [10 %, 90 %]")
    for name, times in [
        ("sktem fit", fits),
        ("sktem fit and likelihood by importance sampling", fits + rests),
        ("pynlme fit, errors and likelihood", np.array(peer_times)),
    ]:
        if len(times):
            low, middle, high = np.quantile(times, [0.1, 0.5, 0.9])
            print(f"  {name:50s}{middle:7.3f} [{low:.3f}, {high:.3f}]")
    if peer_times:
        ratio = np.median(peer_times) / np.median(fits)
        print(f"  pynlme / sktem fit: {ratio:.1f}, with the likelihood: "
              f"{np.median(peer_times) / np.median(fits + rests):.1f}")  # fmt: skip


if __name__ == "__main__":
    main()
