"""Coverage of intervals, bias and error of estimates in simulated studies.

Each study has 30 subjects, clearance and volume with random effects, and a proportional
error. Fits have default settings and begin at rough values. In the plain studies
subjects have one oral dose and six samples; in the others the same on two occasions
between which clearance varies; with values below a limit of .5 censored, about a
quarter; and with an event, whose hazard rises with the concentration, or the end of the
study after 24 hours. Shown are, over all studies, the mean of the estimates, its
relative deviation from the truth with the error of that, the relative root mean square
error, and the share of intervals, estimate and 1.96 standard errors, that hold the
truth; these are on the logarithmic scale.

With ``--first`` and ``--last`` only some studies are fitted; what was fitted is kept in
a folder, from which all are summed up.
Usage: ``python benchmarks/pk_coverage.py [--kind plain] [--first 0] [--last 200]
[--folder PATH] [--only-print]``
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
from sktem.compartments import OneCompartment, Responses, read_nonmem

TRUTH = {
    "CL": 4.0, "V": 40.0, "KA": 1.2, "omega2_CL": 0.09, "omega2_V": 0.06, "b": 0.15,
}  # fmt: skip
TIMES = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
N_SUBJECTS, LIMIT, END = 30, 0.5, 24.0
#: Parameters that some studies have beside those.
MORE = {
    "plain": {},
    "occasions": {"kappa2_CL": 0.05},
    "censored": {},
    "events": {"H0": 0.02, "BETA": 1.0},
}


def hazard(p, records, c):
    """Return the hazard of an event at concentrations."""
    return p.H0 * np.exp(p.BETA * c)


def with_events(kind):
    """Return the model, with events as a last kind of observation for some studies."""
    model = OneCompartment("first-order")
    if kind != "events":
        return model
    return Responses(model, hazards={3: hazard}, parameters=["H0", "BETA"])


def study(kind, seed):
    """Return the records of a study."""
    rng = np.random.default_rng([seed, 1])
    n, m = N_SUBJECTS, len(TIMES) + 1
    rows = pd.DataFrame({
        "ID": np.repeat(np.arange(n), m), "TIME": np.tile([0.0, *TIMES], n),
        "AMT": np.tile([100.0] + [0.0] * (m - 1), n),
        "CMT": np.tile([1] + [2] * (m - 1), n),
    })  # fmt: skip
    if kind == "occasions":
        rows = pd.concat([rows.assign(OCC=k, TIME=rows.TIME + 48 * k) for k in (0, 1)])
        rows = rows.sort_values(["ID", "TIME"], kind="stable", ignore_index=True)
    psi = {name: TRUTH[name] for name in ("CL", "V", "KA")}
    for name in ("CL", "V"):
        spread = np.sqrt(TRUTH[f"omega2_{name}"])
        psi[name] = psi[name] * np.exp(spread * rng.standard_normal(n))
    if kind == "occasions":
        effects = np.sqrt(MORE[kind]["kappa2_CL"]) * rng.standard_normal((n, 2))
        psi = {name: np.broadcast_to(value, n)[rows.ID] for name, value in psi.items()}
        psi["CL"] = psi["CL"] * np.exp(effects[rows.ID, rows.OCC])
    f = OneCompartment("first-order").predict(rows.assign(DV=1.0), psi)
    noise = TRUTH["b"] * rng.standard_normal(len(f))
    rows["DV"] = f * (1 + noise) * (rows.AMT == 0)
    if kind == "censored":
        rows["CENS"] = ((rows.DV < LIMIT) & (rows.AMT == 0)).astype(int)
        rows["DV"] = rows.DV.clip(lower=LIMIT) * (rows.AMT == 0)
    if kind == "events":
        events = simulated_events(psi, rng)
        rows = pd.concat([rows, events]).sort_values(["ID", "TIME"], kind="stable")
    return read_nonmem(rows.reset_index(drop=True))


def simulated_events(psi, rng):
    """Return a record of each subject: an event, or the end of the study."""
    times = np.linspace(0, END, 2401)
    values = {k: np.broadcast_to(v, N_SUBJECTS)[:, None] for k, v in psi.items()}
    k = values["CL"] / values["V"]
    factor = 100 * values["KA"] / values["V"] / (values["KA"] - k)
    c = factor * (np.exp(-k * times) - np.exp(-values["KA"] * times))
    rates = MORE["events"]["H0"] * np.exp(MORE["events"]["BETA"] * c)
    steps = (rates[:, 1:] + rates[:, :-1]) / 2 * np.diff(times)
    cumulated = np.cumsum(steps, axis=1)
    reached = cumulated >= rng.exponential(size=N_SUBJECTS)[:, None]
    first = np.where(reached.any(axis=1), reached.argmax(axis=1) + 1, len(times) - 1)
    return pd.DataFrame({
        "ID": np.arange(N_SUBJECTS), "TIME": times[first], "AMT": 0.0, "CMT": 3,
        "DV": reached.any(axis=1).astype(float),
    })  # fmt: skip


def fitted(kind, seed):
    """Return estimates and standard errors of a study, and whether it converged."""
    parameters = {"CL": 1.0, "V": 10.0, "KA": 1.0}
    error, occasions = "proportional", None
    if kind == "events":
        parameters |= {"H0": 0.1, "BETA": 0.5}
        error = {2: "proportional", 3: "event"}
    if kind == "occasions":
        occasions = {"OCC": ["CL"]}
    fit = NonlinearMixedEffectsRegressor(
        with_events(kind),
        parameters=parameters,
        omega=["CL", "V"],
        occasions=occasions,
        residual_error=error,
        random_state=0,
    ).fit(study(kind, seed))
    variances = dict(zip(("omega2_CL", "omega2_V"), np.diag(fit.omega_), strict=True))
    values = {**fit.population_parameters_, **variances}
    errors = fit.standard_errors()
    own = {
        name.removesuffix("_2"): value for name, value in fit.residual_error_.items()
    }
    errors = {name.removesuffix("_2"): value for name, value in errors.items()}
    values |= {f"kappa2_{k}": v for k, v in fit.occasion_variances_.items()} | own
    names = {**TRUTH, **MORE[kind]}
    return [[values[name], errors[name]] for name in names], bool(fit.converged_)


def table_of(kind, folder):
    """Print what the studies of a kind have come to."""
    found = [json.loads(path.read_text()) for path in folder.glob(f"{kind}_*.json")]
    if not found:
        return
    table = np.array([values for values, _ in found])
    done, n = sum(converged for _, converged in found), len(found)
    print(f"{kind}: {n} studies of {N_SUBJECTS} subjects, {done} fits converged\n")
    print(f"{'':12s}{'truth':>8s}{'mean':>9s}{'bias %':>8s}{'(error)':>9s}"
          f"{'RMSE %':>8s}{'coverage %':>12s}{'(error)':>9s}")  # fmt: skip
    for k, (name, truth) in enumerate({**TRUTH, **MORE[kind]}.items()):
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
    print()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=list(MORE), default="plain")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, default=200)
    parser.add_argument("--only-print", action="store_true")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "pk_coverage"
    )
    chosen = parser.parse_args()
    chosen.folder.mkdir(exist_ok=True)
    for seed in range(chosen.first, 0 if chosen.only_print else chosen.last):
        path = chosen.folder / f"{chosen.kind}_{seed}.json"
        if not path.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                path.write_text(json.dumps(fitted(chosen.kind, seed)))
    print(describe())
    print()
    for kind in MORE:
        table_of(kind, chosen.folder)


if __name__ == "__main__":
    main()
