"""Published fits of pharmacokinetic data against ours.

For each fit of ``../shared/data/pk`` that has a maximum of the likelihood, or estimates
at which the likelihood is known exactly, ours is computed from a rough start. OFV is
-2 log L without the constants of Gaussian observations, as NONMEM prints it; its error
is what the last refinement of the integral has changed. "exact" is the value at the
estimates of an approximate method, which the maximum may be below; "maximum" is that
found by quadrature. The largest difference of an estimate of the maximum is in units of
its standard error. The parameters that are stated for the simulation of mm_iv are far
from its maximum: the profiles of its subjects are multiples of one curve, which
saturable elimination does not give.

Usage: ``python benchmarks/reference_pk.py [--seed 0] [--only NAME]``
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from machine import describe
from scipy.special import gammaln
from scipy.stats import norm
from shared_data import locate

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import (
    OneCompartment,
    Reparametrized,
    Responses,
    ThreeCompartment,
    TwoCompartment,
    read_nonmem,
)


def records(name, **columns):
    """Return the records of a file."""
    return read_nonmem(locate(f"pk/{name}.csv.gz"), columns=columns or None)


def warfarin(name="warfarin", **settings):
    return records(name), {
        "model": OneCompartment("first-order"),
        "parameters": {"CL": 0.2, "V": 10.0, "KA": 1.0},
        "residual_error": "proportional",
        **settings,
    }


def oral(name, absorption, parameters, omega=("CL", "V"), **settings):
    data = records(name)
    return data, {
        "model": OneCompartment(absorption, rtol=1e-6, max_steps=300),
        "parameters": parameters,
        "omega": list(omega),
        "residual_error": "proportional",
        **settings,
    }


def scattered(psi, X, y, f):
    """Return log-densities of a proportional error that differs between subjects."""
    return norm.logpdf(y, f, psi["B"] * psi["RUV"] * np.maximum(np.abs(f), 1e-8))


def scattered_oral():
    inner = OneCompartment("first-order")
    model = Reparametrized(
        inner,
        lambda p, r: {"CL": p.CL, "V": p.V, "KA": p.KA},
        parameters=["CL", "V", "KA", "B", "RUV"],
    )
    return records("iiv_on_ruv"), {
        "model": model,
        "parameters": {"CL": 0.2, "V": 10.0, "KA": 1.0, "B": 0.1, "RUV": 1.0},
        "omega": ["CL", "V", "KA", "RUV"],
        "fixed": ["RUV"],
        "log_density": scattered,
    }


def log_concentrations():
    """Return the data on log concentrations, as concentrations."""
    frame = pd.read_csv(locate("pk/datsim_oral.csv.gz"), na_values=".")
    frame["DV"] = np.where(frame.EVID == 0, np.exp(frame.DV), np.nan)
    model = Reparametrized(
        OneCompartment("first-order"),
        lambda p, r: {"CL": p.KE * p.V, "V": p.V, "KA": p.KE + p.DIFF},
        parameters=["V", "KE", "DIFF"],
    )
    return read_nonmem(frame), {
        "model": model,
        "parameters": {"V": 30.0, "KE": 0.3, "DIFF": 0.3},
        "omega": "full",
        "residual_error": "log-additive",
    }


def propofol():
    data = records("schnider_propofol")
    size = np.log(data["WT"] / 70)
    data.columns["SIZE"] = size
    effects = dict.fromkeys(["V1", "V2", "V3"], 1.0)
    effects |= dict.fromkeys(["CL", "Q2", "Q3"], 0.75)
    return data, {
        "model": ThreeCompartment(),
        "parameters": {
            "V1": 5.0, "V2": 20.0, "V3": 250.0, "CL": 2.0, "Q2": 1.5, "Q3": 1.0,
        },
        "omega": ["V1", "V2", "CL", "Q2"],
        "covariates": {name: "SIZE" for name in effects},
        "fixed": {f"beta_SIZE({name})": value for name, value in effects.items()},
        "residual_error": "proportional",
    }  # fmt: skip


def sparse():
    return records("saem_sparse_combined"), {
        "model": TwoCompartment(),
        "parameters": {"CL": 5.0, "V1": 20.0, "Q": 12.0, "V2": 10.0},
        "omega": np.array([[1, 1, 0, 1], [1, 1, 0, 1], [0, 0, 0, 0], [1, 1, 0, 1]]),
        "fixed": ["Q"],
        "residual_error": "combined",
    }


def additive_covariate():
    model = Reparametrized(
        OneCompartment(),
        lambda p, r: {"CL": (p.TH1 + p.TH2 * (r["CRCL"] - 90)) * p.FREE, "V": p.V},
        parameters=["TH1", "TH2", "V", "FREE"],
    )
    return records("covmuref_additive"), {
        "model": model,
        "parameters": {"TH1": 5.0, "TH2": 0.02, "V": 40.0, "FREE": 1.0},
        "transforms": {"TH2": "normal"},
        "omega": ["V", "FREE"],
        "fixed": ["FREE"],
        "residual_error": "proportional",
    }


def newborns(covariates):
    frame = pd.read_csv(locate("pk/pheno.csv.gz"), na_values=".")
    frame["AMT"] = frame.AMT.fillna(0.0)
    data = read_nonmem(frame)
    settings = {"residual_error": "proportional"}
    if not covariates:
        return data, {
            "model": OneCompartment(),
            "parameters": {"CL": 0.01, "V": 1.0},
            **settings,
        }
    model = Reparametrized(
        OneCompartment(),
        lambda p, r: {
            "CL": p.CL * r["WGT"],
            "V": p.V * r["WGT"] * (1 + p.LOW * (r["APGR"] < 5)),
        },
        parameters=["CL", "V", "LOW"],
    )
    return data, {
        "model": model,
        "parameters": {"CL": 0.005, "V": 1.0, "LOW": 0.1},
        "transforms": {"LOW": "normal"},
        "omega": ["CL", "V"],
        **settings,
    }


def hazard_of(psi, X, y):
    """Return the log-likelihood of events with a constant hazard."""
    return y * np.log(psi["RATE"]) - psi["RATE"] * X["SINCE"]


def events(name):
    """Return records of events, and the time since the one before."""
    frame = pd.read_csv(locate(f"pk/{name}.csv.gz"), na_values=".")
    before = frame.groupby("ID").TIME.shift(fill_value=0.0)
    frame["SINCE"] = frame.TIME - before
    frame = frame[frame.EVID == 0]
    return (frame[["SINCE"]], frame.DV, frame.ID), {
        "model": None,
        "parameters": {"RATE": 0.1},
        "log_density": hazard_of,
    }


def gompertz():
    def log_density(psi, X, y):
        rate = psi["ALPHA"] * np.exp(psi["BETA"] * X["TRT"])
        log_hazard = np.log(rate) + psi["GAMMA"] * X["TIME"]
        whole = np.expm1(psi["GAMMA"] * X["TIME"]) / psi["GAMMA"]
        return y * log_hazard - rate * whole

    frame = pd.read_csv(locate("pk/tte_gompertz.csv.gz"), na_values=".")
    frame = frame[frame.EVID == 0]
    return (frame[["TIME", "TRT"]], frame.DV, frame.ID), {
        "model": None,
        "parameters": {"ALPHA": 0.003, "GAMMA": 0.003, "BETA": -0.5},
        "transforms": {"BETA": "normal"},
        "omega": [],
        "log_density": log_density,
    }


def concentrations_and_events():
    """Return a joint model, whose hazard follows the concentration."""
    model = Responses(
        OneCompartment("first-order"),
        hazards={3: lambda p, r, c: p.H0 * np.exp(p.BETA * c)},
        parameters=["H0", "BETA"],
    )
    return records("pktte_joint"), {
        "model": model,
        "parameters": {"CL": 1.2, "V": 12, "KA": 1.2, "H0": 0.02, "BETA": 0.2},
        "transforms": {"BETA": "normal"},
        "omega": ["CL"],
        "residual_error": {2: "proportional", 3: "event"},
    }


def herds():
    def log_density(psi, X, y):
        logit = psi["HERD"] + sum(psi[f"P{k}"] * (X["period"] == k) for k in (2, 3, 4))
        size = X["size"]
        choose = gammaln(size + 1) - gammaln(y + 1) - gammaln(size - y + 1)
        return choose + y * logit - size * np.logaddexp(0.0, logit)

    frame = pd.read_csv(locate("pk/cbpp.csv.gz"))
    return (frame[["size", "period"]], frame.incidence, frame.herd), {
        "model": None,
        "parameters": {"HERD": -1.0, "P2": -0.5, "P3": -0.5, "P4": -0.5},
        "transforms": "normal",
        "omega": ["HERD"],
        "log_density": log_density,
    }


def ticks():
    def log_density(psi, X, y):
        log_rate = psi["CHICK"] + psi["Y96"] * (X["YEAR"] == 96)
        log_rate = log_rate + psi["Y97"] * (X["YEAR"] == 97) + psi["H"] * X["cHEIGHT"]
        return y * log_rate - np.exp(log_rate) - gammaln(y + 1)

    frame = pd.read_csv(locate("pk/grouseticks.csv.gz"))
    return (frame[["YEAR", "cHEIGHT"]], frame.TICKS, frame.INDEX), {
        "model": None,
        "parameters": {"CHICK": 0.5, "Y96": 0.5, "Y97": -0.5, "H": -0.01},
        "transforms": "normal",
        "omega": ["CHICK"],
        "log_density": log_density,
    }


def saturable(**settings):
    return records("mm_iv"), {
        "model": OneCompartment(elimination="michaelis-menten"),
        "parameters": {"VMAX": 5.0, "KM": 2.0, "V": 10.0},
        "omega": ["VMAX", "V"],
        "residual_error": "proportional",
        **settings,
    }


#: By name: data and settings, what the reference is, its OFV, and its estimates.
CASES = {
    "warfarin": (warfarin, "exact", -285.977, {}),
    "warfarin_bloq (M3)": (
        lambda: warfarin("warfarin_bloq"), "maximum", -216.8059,
        {"CL": 0.1328, "V": 7.7315, "KA": 0.80984, "omega2_CL": 0.028844,
         "omega2_V": 0.0095444, "omega2_KA": 0.33582, "b": 0.01076},
    ),
    "warfarin_iov": (
        lambda: warfarin("warfarin_iov", occasions={"OCC": ["CL"]}),
        "maximum", 310.0255,
        {"CL": 0.17134, "V": 8.6216, "KA": 1.1953, "omega2_CL": 0.040745,
         "omega2_V": 0.010521, "omega2_KA": 0.026953, "kappa2_CL": 0.03555,
         "b": 0.18788},
    ),
    "pkpd_nonmem": (
        lambda: (records("pkpd_nonmem"), {
            "model": OneCompartment(response="effect"),
            "parameters": {"CL": 2.5, "V": 25.0, "KE0": 1.0},
            "omega": ["CL"],
            "residual_error": {1: "proportional", 2: "additive"},
        }),
        "maximum", -60.1249,
        {"CL": 1.9597, "V": 20.242, "KE0": 0.51126, "omega2_CL": 0.046521,
         "b_1": 0.095868, "a_2": 0.53746},
    ),
    "transit_oral": (
        lambda: oral("transit_oral", "transit",
                     {"CL": 5.0, "V": 50.0, "KA": 1.0, "MTT": 1.0, "N": 3.0}),
        "exact", -1077.349, {},
    ),
    "igd_oral, Weibull": (
        lambda: oral("igd_oral", "weibull",
                     {"CL": 5.0, "V": 50.0, "TD": 2.0, "BETA": 2.0}),
        "exact", -946.323, {},
    ),
    "igd_oral, inverse Gaussian": (
        lambda: oral("igd_oral", "inverse-gaussian",
                     {"CL": 5.0, "V": 50.0, "MAT": 3.0, "CV2": 1.0}),
        "exact", -899.111, {},
    ),
    "parallel_oral": (
        lambda: oral("parallel_oral", "parallel",
                     {"CL": 5.0, "V": 50.0, "KA1": 1.5, "KA2": 0.3, "FR1": 0.6},
                     transforms={"FR1": "logit"}),
        "maximum", -688.3787,
        {"CL": 5.3299, "V": 55.951, "FR1": 0.65252, "KA1": 1.365, "KA2": 0.26248,
         "omega2_CL": 0.048694, "omega2_V": 0.042896, "b": 0.15865},
    ),
    "first_order_alag": (
        lambda: oral("first_order_alag", "first-order",
                     {"CL": 5.0, "V": 50.0, "KA": 1.0, "ALAG": 0.4},
                     omega=("CL", "KA")),
        "maximum", -1046.8963,
        {"CL": 5.1474, "V": 49.782, "KA": 1.0319, "ALAG": 0.49925,
         "omega2_CL": 0.065961, "omega2_KA": 0.024406, "b": 0.098763},
    ),
    "mm_iv, as stated": (
        lambda: saturable(fixed=["VMAX", "KM", "V"]), "none", np.nan, {},
    ),
    "mm_iv": (saturable, "none", np.nan, {}),
    "iiv_on_ruv": (scattered_oral, "exact", 536.5, {}),
    "schnider_propofol": (propofol, "none", np.nan, {}),
    "datsim_oral": (log_concentrations, "FOCEI", 70.850528, {}),
    "saem_sparse_combined": (sparse, "exact", 3180.421, {}),
    "covmuref_additive": (
        additive_covariate, "maximum", -1178.4350,
        {"TH1": 4.9169, "TH2": 0.041774, "V": 48.080, "omega2_FREE": 0.040096,
         "omega2_V": 0.036039, "b": 0.099217},
    ),
    "pheno": (
        lambda: newborns(False), "maximum", 728.9702,
        {"CL": 5.6145e-3, "V": 1.4200, "omega2_CL": 0.15252, "omega2_V": 0.19635,
         "b": 0.12345},
    ),
    "pheno, weight and Apgar": (
        lambda: newborns(True), "maximum", 585.9031,
        {"CL": 4.6168e-3, "V": 0.97524, "LOW": 0.15867, "omega2_CL": 0.028968,
         "omega2_V": 0.027868, "b": 0.11506},
    ),
    "tte_exponential": (
        lambda: events("tte_exponential"), "maximum", 589.3830,
        {"RATE": 0.076353, "omega2_RATE": 0.17613},
    ),
    "rtte_exponential": (
        lambda: events("rtte_exponential"), "maximum", 1748.8885,
        {"RATE": 0.14089, "omega2_RATE": 0.16078},
    ),
    "tte_gompertz": (
        gompertz, "maximum", 3011.12117,
        {"ALPHA": np.exp(-6.00647), "GAMMA": np.exp(-5.39720), "BETA": -0.797413},
    ),
    "pktte_joint": (concentrations_and_events, "exact", 623.436, {}),
    "cbpp": (
        herds, "maximum", 2 * 91.9834,
        {"HERD": -1.39922551, "P2": -0.99139006, "P3": -1.12783411,
         "P4": -1.57944319, "omega2_HERD": 0.64751314**2},
    ),
    "grouseticks": (
        ticks, "maximum", np.nan,
        {"CHICK": 0.44412605, "Y96": 1.09717727, "Y97": -0.98892382,
         "H": -0.02368329, "omega2_CHICK": 1.13407686**2},
    ),
}  # fmt: skip


def fitted(name, seed):
    """Return the fit of a case, its OFV with error, and the CPU seconds of the fit."""
    data, settings = CASES[name][0]()
    estimator = NonlinearMixedEffectsRegressor(**settings, random_state=seed)
    arguments = data if isinstance(data, tuple) else (data,)
    given = dict(zip(("X", "y", "groups"), arguments, strict=False))
    before = time.process_time()
    estimator.fit(**given)
    seconds = time.process_time() - before
    value, error = estimator.log_likelihood(return_error=True)
    n_gaussian = 0
    if not isinstance(data, tuple):
        own = data.observed & (data["CENS"] == 0)
        if name == "pktte_joint":
            own = own & (data["CMT"] == 2)
        n_gaussian = own.sum()
    ofv = -2 * value - n_gaussian * np.log(2 * np.pi)
    if name == "datsim_oral":  # the reference is on the scale of logarithms
        ofv -= 2 * np.log(data["DV"][data.observed]).sum()
    return estimator, ofv, 2 * error, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(describe())
    fitted("pkpd_nonmem", 0)  # compiles what takes time only once
    header = f"{'fit':27s} {'reference':>10s} {'OFV':>11s} {'ours':>11s} {'error':>7s}"
    print(
        f"{header} {'difference':>10s} {'SE units':>9s} {'converged':>9s} {'CPU s':>6s}"
    )
    for name, (_, kind, reference, estimates) in CASES.items():
        if arguments.only not in name:
            continue
        fit, ofv, error, seconds = fitted(name, arguments.seed)
        worst = np.nan
        if estimates:
            errors = fit.standard_errors()
            table = fit.summary_.estimate
            worst = max(
                abs(table[key] - value) / errors[key]
                for key, value in estimates.items()
            )
        line = (
            f"{name:27s} {kind:>10s} {reference:11.4f} {ofv:11.4f} {error:7.4f} "
            f"{ofv - reference:10.4f} {worst:9.4f} {fit.converged_!s:>9s} "
            f"{seconds:6.1f}"
        )
        print(line.replace("nan", "  -"), flush=True)


if __name__ == "__main__":
    main()
