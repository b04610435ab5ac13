"""Dosing records with their defaults: exact maxima, formulas, scales, censoring."""

from __future__ import annotations

from functools import cache

import numpy as np

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import (
    OneCompartment,
    Reparametrized,
    TwoCompartment,
    read_nonmem,
)
from tests.defaults.harness import Case, shared_path

NAME = "NonlinearMixedEffectsRegressor"
ORAL = {"CL": 0.2, "V": 10.0, "KA": 1.0}


@cache
def records(name):
    return read_nonmem(shared_path(f"pk/{name}.csv.gz"))


def warfarin(**settings):
    return {
        "model": OneCompartment("first-order"), "parameters": ORAL,
        "residual_error": "proportional", **settings,
    }  # fmt: skip


def effect():
    return {
        "model": OneCompartment(response="effect"),
        "parameters": {"CL": 2.5, "V": 25.0, "KE0": 1.0},
        "omega": ["CL"],
        "residual_error": {1: "proportional", 2: "additive"},
    }


def renal():
    model = Reparametrized(
        OneCompartment(),
        lambda p, r: {"CL": (p.TH1 + p.TH2 * (r["CRCL"] - 90)) * p.FREE, "V": p.V},
        parameters=["TH1", "TH2", "V", "FREE"],
    )
    return {
        "model": model,
        "parameters": {"TH1": 5.0, "TH2": 0.02, "V": 40.0, "FREE": 1.0},
        "transforms": {"TH2": "normal"},
        "omega": ["V", "FREE"],
        "fixed": ["FREE"],
        "residual_error": "proportional",
    }


def delayed():
    return {
        "model": OneCompartment("first-order"),
        "parameters": {"CL": 5.0, "V": 50.0, "KA": 1.0, "ALAG": 0.4},
        "omega": ["CL", "KA"],
        "residual_error": "proportional",
    }


def objective(fit, data):
    """-2 log-likelihood without the constants of Gaussian observations."""
    n = (data.observed & (data["CENS"] == 0)).sum()
    return -2 * fit.log_likelihood() - n * np.log(2 * np.pi)


def published(name, settings, factor=1.0, best=None):
    """Half of the objective above the exact maximum, from starts times a factor."""

    def distance(seed):
        data, options = records(name), settings()
        free = set(options["parameters"]) - set(options.get("fixed", ()))
        options["parameters"] = {
            key: value * factor if key in free else value
            for key, value in options["parameters"].items()
        }
        fit = NonlinearMixedEffectsRegressor(**options, random_state=seed).fit(data)
        return (objective(fit, data) - best) / 2 if fit.converged_ else np.inf

    return distance


def study(seed, n=24, amount=100.0, quantify=0.0):
    """Two doses of n subjects; concentrations below a limit are censored."""
    rng = np.random.default_rng(seed)
    times = np.array([0.0, 0.5, 1, 2, 4, 8, 12, 12.5, 14, 18, 24, 36])
    m = len(times)
    table = {
        "ID": np.repeat(np.arange(n), m), "TIME": np.tile(times, n),
        "AMT": np.tile(np.where(np.isin(times, [0, 12]), amount, 0.0), n),
        "EVID": np.tile(np.isin(times, [0, 12]) * 1, n),
    }  # fmt: skip
    psi = {
        key: value * np.exp(width * rng.standard_normal(n))
        for (key, value), width in zip(ORAL.items(), (0.3, 0.2, 0.4), strict=True)
    }
    f = OneCompartment("first-order").predict(table, psi)
    table["DV"] = f * (1 + 0.1 * rng.standard_normal(len(f)))
    low = table["DV"] < quantify
    table["CENS"] = np.where(low, 1, 0)
    table["DV"] = np.where(low, quantify, table["DV"]) * (table["EVID"] == 0)
    return table


def fitted(table, seed, factor=1.0):
    start = {key: value * factor for key, value in ORAL.items()}
    settings = {**warfarin(), "parameters": start}
    return NonlinearMixedEffectsRegressor(**settings, random_state=seed).fit(
        read_nonmem(table)
    )


def simulated(factor):
    """Log-likelihood lost to the best of fits from the truth and from elsewhere."""

    def distance(seed):
        table = study(seed)
        best = fitted(table, seed).log_likelihood()
        fit = fitted(table, seed, factor)
        return best - fit.log_likelihood() if fit.converged_ else np.inf

    return distance


def units(seed):
    """Amounts and concentrations in other units shift the likelihood only."""
    table, other = study(seed), study(seed, amount=1e8)
    n = (table["EVID"] == 0).sum()
    one = fitted(table, seed).log_likelihood()
    return abs(one - n * np.log(1e6) - fitted(other, seed).log_likelihood())


def below_the_limit(seed):
    """Standard errors that log-clearance is off, where a third is censored."""
    errors = []
    for k in range(4):
        fit = fitted(study(100 * seed + k, n=40, quantify=2.5), seed)
        error = fit.standard_errors()["CL"] / fit.population_parameters_["CL"]
        errors.append(np.log(fit.population_parameters_["CL"] / 0.2) / error)
    return abs(np.mean(errors)) * 2


def two_compartments(seed):
    """Error of clearance in standard errors, few samples of 60 subjects."""
    rng = np.random.default_rng(seed)
    n, times = 60, np.array([0.0, 0.3, 1.5, 6.0, 20.0])
    truth = {"CL": 5.0, "V1": 20.0, "Q": 12.0, "V2": 40.0}
    table = {
        "ID": np.repeat(np.arange(n), 5), "TIME": np.tile(times, n),
        "AMT": np.tile([500.0, 0, 0, 0, 0], n), "EVID": np.tile([1, 0, 0, 0, 0], n),
    }  # fmt: skip
    psi = {k: np.full(n, v) for k, v in truth.items()}
    psi["CL"] = psi["CL"] * np.exp(0.3 * rng.standard_normal(n))
    f = TwoCompartment().predict(table, psi)
    table["DV"] = f * (1 + 0.15 * rng.standard_normal(len(f))) * (table["EVID"] == 0)
    fit = NonlinearMixedEffectsRegressor(
        TwoCompartment(), parameters=dict.fromkeys(truth, 10.0), omega=["CL"],
        residual_error="proportional", random_state=seed,
    ).fit(read_nonmem(table))  # fmt: skip
    error = fit.standard_errors()["CL"]
    return abs(fit.population_parameters_["CL"] - 5.0) / error


def lost(name, distance, **options):
    return Case(
        name, NAME, "the exact maximum", "log-likelihood lost", 0.05, distance,
        **options,
    )  # fmt: skip


def maximum(file, settings, best, name=None, **options):
    distance = published(file, settings, options.pop("factor", 1.0), best)
    return lost(name or file, distance, **options)


CASES = [
    maximum("warfarin_bloq", warfarin, -216.8059, slow=True),
    maximum("warfarin_bloq", warfarin, -216.8059, "warfarin_bloq, start x0.1",
            factor=0.1, slow=True),
    maximum("warfarin_bloq", warfarin, -216.8059, "warfarin_bloq, start x10",
            factor=10.0, slow=True),
    maximum("warfarin_iov", lambda: warfarin(occasions={"OCC": ["CL"]}), 310.0255,
            slow=True),
    maximum("pkpd_nonmem", effect, -60.1249, slow=True),
    maximum("pkpd_nonmem", effect, -60.1249, "pkpd_nonmem, start x10", factor=10.0,
            slow=True),
    maximum("covmuref_additive", renal, -1178.4350, slow=True),
    maximum("first_order_alag", delayed, -1046.8963, slow=True),
    *(
        lost(f"two doses, start x{factor:g}", simulated(factor), slow=True)
        for factor in (0.1, 10.0, 100.0)
    ),
    lost("two doses, amounts x 1e6", units, slow=True),
    Case("a third below the limit", NAME, "the truth", "standard errors", 3.5,
         below_the_limit, slow=True),
    Case("two compartments, few samples", NAME, "the truth", "standard errors", 3.5,
         two_compartments, slow=True),
]  # fmt: skip
