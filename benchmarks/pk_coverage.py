"""Coverage of intervals, bias and error of estimates in simulated studies.

Each study has 30 subjects with one oral dose and six samples, clearance and volume
with random effects, and a proportional error. Fits have default settings and begin at
rough values. Shown are, over all studies, the mean of the estimates, its relative
deviation from the truth with the error of that, the relative root mean square error,
and the share of intervals, estimate and 1.96 standard errors, that hold the truth;
these are on the logarithmic scale.

With ``--first`` and ``--last`` only some studies are fitted; what was fitted is kept in
a folder, from which all are summed up.
Usage: ``python benchmarks/pk_coverage.py [--first 0] [--last 200] [--folder PATH]``
"""

import argparse
import json
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from machine import describe

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import OneCompartment, read_nonmem

TRUTH = {
    "CL": 4.0, "V": 40.0, "KA": 1.2, "omega2_CL": 0.09, "omega2_V": 0.06, "b": 0.15,
}  # fmt: skip
TIMES = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
N_SUBJECTS = 30


def study(seed):
    """Return the records of a study."""
    rng = np.random.default_rng([seed, 1])
    n, m = N_SUBJECTS, len(TIMES) + 1
    rows = pd.DataFrame({
        "ID": np.repeat(np.arange(n), m), "TIME": np.tile([0.0, *TIMES], n),
        "AMT": np.tile([100.0] + [0.0] * (m - 1), n),
        "CMT": np.tile([1] + [2] * (m - 1), n),
    })  # fmt: skip
    psi = {name: TRUTH[name] for name in ("CL", "V", "KA")}
    for name in ("CL", "V"):
        spread = np.sqrt(TRUTH[f"omega2_{name}"])
        psi[name] = psi[name] * np.exp(spread * rng.standard_normal(n))
    f = OneCompartment("first-order").predict(rows.assign(DV=1.0), psi)
    rows["DV"] = f * (1 + TRUTH["b"] * rng.standard_normal(len(f)))
    return read_nonmem(rows)


def fitted(seed):
    """Return estimates and standard errors of a study, and whether it converged."""
    fit = NonlinearMixedEffectsRegressor(
        OneCompartment("first-order"),
        parameters={"CL": 1.0, "V": 10.0, "KA": 1.0},
        omega=["CL", "V"],
        residual_error="proportional",
        random_state=0,
    ).fit(study(seed))
    variances = dict(zip(("omega2_CL", "omega2_V"), np.diag(fit.omega_), strict=True))
    values = {**fit.population_parameters_, **variances, **fit.residual_error_}
    errors = fit.standard_errors()
    return [[values[name], errors[name]] for name in TRUTH], bool(fit.converged_)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, default=200)
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "pk_coverage"
    )
    chosen = parser.parse_args()
    chosen.folder.mkdir(exist_ok=True)
    for seed in range(chosen.first, chosen.last):
        path = chosen.folder / f"{seed}.json"
        if not path.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                path.write_text(json.dumps(fitted(seed)))
    found = [json.loads(path.read_text()) for path in chosen.folder.glob("*.json")]
    table = np.array([values for values, _ in found])
    print(describe())
    print()
    done, n = sum(converged for _, converged in found), len(found)
    print(f"{n} studies of {N_SUBJECTS} subjects, {done} fits converged\n")
    print(f"{'':12s}{'truth':>8s}{'mean':>9s}{'bias %':>8s}{'(error)':>9s}"
          f"{'RMSE %':>8s}{'coverage %':>12s}{'(error)':>9s}")  # fmt: skip
    for k, (name, truth) in enumerate(TRUTH.items()):
        values, errors = table[:, k].T
        known = np.isfinite(errors)
        relative = values / truth - 1
        widths = 1.96 * errors[known] / values[known]
        inside = np.abs(np.log(values[known] / truth)) < widths
        print(
            f"{name:12s}{truth:8.3g}{values.mean():9.4g}{100 * relative.mean():8.2f}"
            f"{100 * relative.std(ddof=1) / np.sqrt(n):9.2f}"
            f"{100 * np.sqrt((relative**2).mean()):8.1f}{100 * inside.mean():12.1f}"
            f"{100 * inside.std(ddof=1) / np.sqrt(known.sum()):9.1f}"
        )


if __name__ == "__main__":
    main()
