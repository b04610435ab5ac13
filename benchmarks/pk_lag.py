"""Pharmacokinetics with a lag time: SAEM, iSAEM, vrTTEM and fitTEM by passes.

The study of Karimi and Li (2021, full version) with the settings of their code: batches
of half of the subjects, rho = 0.1 (and our default, 0.63), step 1, one chain,
covariance I at the start; data sets of n subjects with 10 observations each. Printed is
the mean over data sets of ``(ka - 1)^2`` after some passes; the initial pass, the
anchors of vrTTEM and both index sets of fitTEM count, so that the first iterate may
come after more passes than asked for, and the start stands in its place. Sampling times
are not stated there; here they are 0.5 to 24 h.

Usage: ``python benchmarks/pk_lag.py [--data-sets 5] [--subjects 1000]``
"""

import argparse
import warnings

import numpy as np
from machine import describe

from sktem import NonlinearMixedEffectsRegressor
from sktem.models import STRUCTURAL_MODELS

TIMES = np.array([0.5, 1.25, 1.75, 2.5, 4.0, 6.0, 9.0, 12.0, 18.0, 24.0])
START = {"lag": 0.2, "ka": 3.0, "V": 10.0, "CL": 2.0}
TRUTH = {"lag": 1.0, "ka": 1.0, "V": 8.0, "CL": 0.8}
PASSES = (2, 5, 10, 15, 30)
SOLVERS = [
    ("saem", "auto"),
    ("isaem", "auto"),
    ("vrttem", 0.1),
    ("fittem", 0.1),
    ("vrttem", "auto"),
    ("fittem", "auto"),
]


def simulate(n, seed):
    """Return X (dose, time, logarithm of the weight ratio), y and groups."""
    rng = np.random.default_rng(seed)
    weight = 0.2 * rng.standard_normal(n)
    effects = [0.4, 0.5, 0.2, 0.3] * rng.standard_normal((n, 4))
    effects[:, 2] += weight
    groups = np.repeat(np.arange(n), len(TIMES))
    values = np.array(list(TRUTH.values())) * np.exp(effects)
    psi = dict(zip(TRUTH, values[groups].T, strict=True))
    X = np.column_stack(
        [np.full(len(groups), 100.0), np.tile(TIMES, n), weight[groups]]
    )
    f = STRUCTURAL_MODELS["one_compartment_oral_lag"].function(psi, X)
    return X, f + np.sqrt(0.5) * rng.standard_normal(len(f)), groups


def path(data, solver, rho, seed):
    """Return ka after the passes."""
    X, y, groups = data
    n = groups.max() + 1
    options = {} if solver == "saem" else {"batch_size": n // 2}
    options["rho"] = rho
    fit = NonlinearMixedEffectsRegressor(
        "one_compartment_oral_lag", parameters=START, covariates={"V": [2]},
        omega_start=1.0, annealing=False, n_burn_in=max(PASSES) + 1, solver=solver,
        step_size=1.0, n_chains=1, max_iter=max(PASSES), tol=0, random_state=seed,
        **options,
    ).fit(X, y, groups=groups)  # fmt: skip
    done = np.array(fit.history_.passes)
    last = np.searchsorted(done, np.array(PASSES) + 0.5) - 1
    ka = np.exp(fit.trace_["ka"])
    return np.where(last < 0, START["ka"], ka[np.maximum(last, 0)])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-sets", type=int, default=5)
    parser.add_argument("--subjects", type=int, default=1000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(describe())
    print(f"\nMean of (ka - 1)^2 over {options.data_sets} data sets of "
          f"{options.subjects} subjects (standard error)")  # fmt: skip
    print(f"{'passes':18s}" + "".join(f"{p:>18d}" for p in PASSES))
    for solver, rho in SOLVERS:
        found = np.array(
            [
                path(simulate(options.subjects, seed), solver, rho, seed)
                for seed in range(options.data_sets)
            ]
        )
        squares = (found - 1) ** 2
        errors = squares.std(axis=0, ddof=1) / np.sqrt(options.data_sets)
        cells = zip(squares.mean(axis=0), errors, strict=True)
        row = "".join(f"{f'{mean:.4f} ({error:.4f})':>18s}" for mean, error in cells)
        name = solver if rho == "auto" else f"{solver}, rho {rho}"
        print(f"{name:18s}" + row, flush=True)


if __name__ == "__main__":
    main()
