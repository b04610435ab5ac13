"""Published fits of mixed-effects models against ours: -2 log-likelihood.

For each model of ``reference_estimates.json`` that has one, the log-likelihood at the
published estimates and at ours is computed by the same adaptive quadrature, so that
the difference is that of the estimates. Lower is better. The heights of the Oxford boys
are a linear mixed model, whose reference is the maximum that MixedLM of statsmodels
finds, and is left out without an interpreter that has it. The estimates for warfarin
were made by another program from a variant of the data, and are not those of a maximum.

Usage: ``python benchmarks/reference_fits.py [--seed 0] [--peer-python PATH]``, the path
being that of an interpreter that has statsmodels.
"""

import argparse
import json
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from machine import describe
from scipy.special import expit, gammaln
from shared_data import locate
from sklearn.exceptions import ConvergenceWarning

from sktem import NonlinearMixedEffectsRegressor
from sktem.mixed_effects.inference.conditional import conditional_modes
from sktem.mixed_effects.inference.marginal_likelihood import quadrature_draws


def read(name):
    return pd.read_csv(locate(name))


def bernoulli(psi, X, y):
    logit = psi["theta1"] + psi["theta2"] * X["time"]
    return y * logit - np.logaddexp(0.0, logit)


def poisson_line(psi, X, y):
    log_rate = psi["intercept"] + psi["slope"] * X["time"]
    return y * log_rate - np.exp(log_rate) - gammaln(y + 1)


def zero_inflated(psi, X, y):
    log_rate = psi["intercept"] + psi["slope"] * X["time"]
    rate, p0 = np.exp(log_rate), psi["p0"]
    some = np.log1p(-p0) + y * log_rate - rate - gammaln(y + 1)
    return np.where(y == 0, np.log(p0 + (1 - p0) * np.exp(-rate)), some)


def proportional_odds(psi, X, y):
    level = psi["alp1"] + psi["beta"] * X["time"]
    below = [np.zeros(len(y)), expit(level)]
    for name in ("alp2", "alp3", "alp4"):
        level = level + psi[name]
        below.append(expit(level))
    below = np.array([*below, np.ones(len(y))])
    k = y.astype(int)
    rows = np.arange(len(y))
    return np.log(np.maximum(below[k, rows] - below[k - 1, rows], 1e-300))


def weibull(psi, X, y):
    """Two rows per subject: the first opens the interval, with time 0."""
    ratio = X["time"] / psi["lambda_"]
    log_hazard = np.log(psi["beta"] / psi["lambda_"])
    log_hazard = log_hazard + (psi["beta"] - 1) * np.log(np.maximum(ratio, 1e-300))
    return np.where(X["time"] > 0, y * log_hazard - ratio ** psi["beta"], 0.0)


def warfarin_curve(psi, X):
    ka, V, k = psi["ka"], psi["V"], psi["k"]
    t = X["time"]
    return X["dose"] * ka / (V * (ka - k)) * (np.exp(-k * t) - np.exp(-ka * t))


def counts(psi, X, y):
    return y * np.log(psi["lambda_"]) - psi["lambda_"] - gammaln(y + 1)


def statsmodels_fit(boys, python):
    """Return the estimates of statsmodels."""
    script = Path(__file__).with_name("peer_statsmodels.py")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, x=boys.age, y=boys.height, group=boys.Subject)
        answer = subprocess.run(
            [python, str(script), str(path)], check=True, capture_output=True, text=True
        )
    return json.loads(answer.stdout)


def cases(peer_python=None):
    """Yield (name, frame, y, groups, options, published psi, omega2, sigma, nodes)."""
    theo = read("nlme/saemix_theo.csv.gz")
    yield (
        "theophylline", theo[["Dose", "Time"]], theo.Concentration, theo.Id,
        {"model": "one_compartment_oral",
         "parameters": {"ka": 1.0, "V": 20.0, "CL": 0.5}},
        {"ka": 1.57, "V": 31.47, "CL": 2.77},
        {"ka": 0.397, "V": 0.017, "CL": 0.074}, {"a": 0.74}, 15,
    )  # fmt: skip
    emax = read("nlme/saemix_PD2.csv.gz")
    yield (
        "PD2 (Emax)", emax[["dose", "gender"]], emax.response, emax.subject,
        {"model": "emax", "parameters": {"E0": 100, "Emax": 100, "EC50": 10},
         "covariates": {"EC50": ["gender"]}},
        {"E0": 23.18, "Emax": 96.14, "EC50": 12.38, ("EC50", "gender"): -0.06},
        {"E0": 0.16, "Emax": 0.22, "EC50": 0.01}, {"a": 4.67}, 9,
    )  # fmt: skip
    cow = read("nlme/saemix_cow.csv.gz")
    yield (
        "cow", cow[["time"]], cow.weight, cow.cow,
        {"model": "exponential_growth",
         "parameters": {"A": 700, "B": 0.9, "k": 0.02}},
        {"A": 750, "B": 0.94, "k": 0.0016},
        {"A": 0.0064, "B": 4.7e-5, "k": 0.014}, {"a": 27.0}, 5,
    )  # fmt: skip
    toenail = read("nlme/saemix_toenail.csv.gz")
    yield (
        "toenail", toenail[["time", "treatment"]], toenail.y, toenail.id,
        {"model": None, "log_density": bernoulli, "transforms": "normal",
         "parameters": {"theta1": 0.0, "theta2": -0.1}, "omega": ["theta1"],
         "covariates": {"theta2": ["treatment"]}, "omega_start": 4.0},
        {"theta1": -1.71, "theta2": -0.39, ("theta2", "treatment"): -0.15},
        {"theta1": 16.11}, {}, 60,
    )  # fmt: skip
    knee = read("nlme/saemix_knee.csv.gz")
    yield (
        "knee", knee[["time"]], knee.y, knee.id,
        {"model": None, "log_density": proportional_odds,
         "transforms": {"alp1": "normal"}, "omega": ["alp1", "beta"],
         "parameters": {"alp1": -10.0, "alp2": 4.0, "alp3": 6.0, "alp4": 8.0,
                        "beta": 0.8}, "omega_start": {"alp1": 100.0, "beta": 1.0}},
        {"alp1": -15.21, "alp2": 6.51, "alp3": 8.49, "alp4": 12.48, "beta": 0.87},
        {"alp1": 189.8, "beta": 0.55}, {}, 100,
    )  # fmt: skip
    rapi = read("nlme/saemix_rapi.csv.gz")
    frame = pd.DataFrame({"time": rapi.time, "women": (rapi.gender == "Women") * 1.0})
    covariates = {"intercept": ["women"], "slope": ["women"]}
    yield (
        "rapi (Poisson)", frame, rapi.rapi, rapi.id,
        {"model": None, "log_density": poisson_line, "transforms": "normal",
         "parameters": {"intercept": 3.0, "slope": 0.01}, "omega": "full",
         "covariates": covariates, "omega_start": {"intercept": 1.0, "slope": 0.01}},
        {"intercept": 1.683, "slope": -0.022, ("intercept", "women"): -0.196,
         ("slope", "women"): -0.017},
        {"intercept": 0.9179, "slope": 0.0039, "corr": -0.14}, {}, 15,
    )  # fmt: skip
    yield (
        "rapi (zero-inflated)", frame, rapi.rapi, rapi.id,
        {"model": None, "log_density": zero_inflated,
         "transforms": {"intercept": "normal", "slope": "normal", "p0": "logit"},
         "parameters": {"intercept": 1.5, "slope": 0.01, "p0": 0.2},
         "omega": ["intercept", "slope"], "covariates": covariates,
         "omega_start": {"intercept": 1.0, "slope": 0.01}},
        {"intercept": 1.773, "slope": -0.02, "p0": 0.075,
         ("intercept", "women"): -0.197, ("slope", "women"): -0.016},
        {"intercept": 0.7826, "slope": 0.0033}, {}, 15,
    )  # fmt: skip
    lung = read("nlme/saemix_lung.csv.gz")
    yield (
        "lung (Weibull)", lung[["time"]], lung.status, lung.id,
        {"model": None, "log_density": weibull, "omega": ["lambda_"],
         "parameters": {"lambda_": 200.0, "beta": 2.0}},
        {"lambda_": 431.8, "beta": 1.3}, {"lambda_": 0.009}, {}, 15,
    )  # fmt: skip
    epil = read("glm/epil.csv.gz")
    yield (
        "epil (Poisson)", epil[["period"]], epil.y, epil.subject,
        {"model": None, "log_density": counts, "parameters": {"lambda_": 5.0}},
        {"lambda_": 5.1}, {"lambda_": 0.9}, {}, 25,
    )  # fmt: skip
    warfarin = read("nlme/warfarin.csv.gz")
    doses = warfarin[warfarin.evid == 1].set_index("id").amt
    warfarin = warfarin[(warfarin.evid == 0) & (warfarin.dvid == "cp")]
    frame = pd.DataFrame(
        {"dose": doses.loc[warfarin.id].to_numpy(), "time": warfarin.time.to_numpy()}
    )
    yield (
        "warfarin", frame, warfarin.dv, warfarin.id,
        {"model": warfarin_curve, "parameters": {"ka": 1.0, "V": 10.0, "k": 0.05}},
        {"ka": 0.605, "V": 7.62, "k": 0.017},
        {"ka": 0.398, "V": 0.044, "k": 0.053}, {"a": 0.993}, 9,
    )  # fmt: skip
    if peer_python:
        boys = read("nlme/saemix_oxboys.csv.gz")
        peer = statsmodels_fit(boys, peer_python)
        omega = np.array(peer["omega"])
        spread = np.sqrt(np.diag(omega))
        yield (
            "oxboys (linear)", boys[["age"]], boys.height, boys.Subject,
            {"model": "linear", "transforms": "normal", "omega": "full",
             "parameters": {"intercept": 140.0, "slope": 1.0}},
            dict(zip(("intercept", "slope"), peer["psi"], strict=True)),
            {"intercept": omega[0, 0], "slope": omega[1, 1],
             "corr": omega[0, 1] / spread[0] / spread[1]}, {"a": peer["a"]}, 9,
        )  # fmt: skip


def published(fit, psi, omega2, sigma):
    """Return the parameters of a fitted estimator with published values in place."""
    design, params = fit.fitted_.model.design, fit.params_
    subject = design.covariate_names

    def value(p, column):
        name = design.names[p]
        if column:
            return psi[name, subject[column]]
        from sktem.mixed_effects.transforms import TRANSFORMS

        return TRANSFORMS[design.transforms[p]].inverse(psi[name])

    coefficients = [
        value(design.random[position], column)
        for position, column in zip(design.positions, design.columns, strict=True)
    ]
    numeric = [value(entry.parameter, entry.column) for entry in design.numeric]
    omega = np.diag([omega2[design.names[p]] for p in design.random])
    if "corr" in omega2:
        omega[0, 1] = omega[1, 0] = omega2["corr"] * np.sqrt(omega[0, 0] * omega[1, 1])
    return params._replace(
        coefficients=np.array(coefficients, dtype=float),
        numeric=np.array(numeric, dtype=float),
        omega=omega,
        sigma=np.array([sigma.get("a", 0.0), 0.0]),
    )


def deviance(fit, params, n_nodes):
    """Return -2 log-likelihood by adaptive quadrature."""
    model, rows = fit.fitted_.model, fit.fitted_.rows
    start = fit.fitted_.modes()[0]
    draws = quadrature_draws(
        *conditional_modes(model, rows, params, start)[:2], n_nodes
    )
    log_joint = draws.log_joint(model, rows, params)
    return -2 * draws.log_likelihood(log_joint)[0].sum()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peer-python", default=None)
    chosen = parser.parse_args()
    print(describe())
    print()
    settings = f"default settings, seed {chosen.seed}"
    print(f"-2 log-likelihood by adaptive quadrature, {settings}")
    print()
    header = f"{'data (model)':22s}{'published':>11s}{'ours':>11s}{'change':>9s}"
    print(header + f"{'passes':>8s}{'CPU s':>8s}")
    for name, frame, y, groups, options, psi, omega2, sigma, n_nodes in cases(
        chosen.peer_python
    ):
        fit = NonlinearMixedEffectsRegressor(**options, random_state=chosen.seed)
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fit.fit(frame.astype(float), y.astype(float), groups=groups)
        spent = time.process_time() - start
        theirs = deviance(fit, published(fit, psi, omega2, sigma), n_nodes)
        ours = deviance(fit, fit.params_, n_nodes)
        line = f"{name:22s}{theirs:11.2f}{ours:11.2f}{ours - theirs:9.2f}"
        print(line + f"{fit.n_iter_:8d}{spent:8.2f}", flush=True)


if __name__ == "__main__":
    main()
