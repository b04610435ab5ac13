"""Where the time of a pharmacokinetic fit goes.

CPU seconds of one thread, medians of several fits with different seeds after one that
compiles what takes time only once: the start (a regression of all subjects together),
the iterations of SAEM, the Newton steps on the likelihood, the likelihood and the
standard errors of the finished fit. The studies: warfarin (32 subjects, oral doses as
records), theophylline (12, model of the library), 32 simulated subjects by the closed
form of one compartment with absorption, by its differential equations, with
predictions at 200 sets of their parameters, by such that are integrated (they might
depend on the time), with a lag time, and with transit compartments, by their closed
form and by integration (12 subjects); and 2,000 simulated
subjects with two doses, ten observations and two compartments, all four parameters
random.

Usage: ``python benchmarks/pk_pace.py [--repeats 5] [--only NAME]``
"""

import argparse
import time
import warnings
from contextlib import contextmanager

import numpy as np
import pandas as pd
from machine import describe
from shared_data import locate

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import ODE, OneCompartment, TwoCompartment, read_nonmem
from sktem.mixed_effects import problem as problems
from sktem.mixed_effects.last_climb import LastClimb

PARTS = ("start", "SAEM", "Newton", "likelihood", "errors")


def warfarin():
    """Return records of the concentrations of O'Reilly's warfarin study."""
    frame = pd.read_csv(locate("nlme/warfarin.csv.gz"))
    frame = frame[(frame.dvid == "cp") | (frame.evid == 1)]
    records = pd.DataFrame({
        "ID": frame.id, "TIME": frame.time, "AMT": frame.amt, "DV": frame.dv,
        "EVID": frame.evid, "CMT": np.where(frame.evid == 1, 1, 2),
    })  # fmt: skip
    return (read_nonmem(records),), {
        "model": OneCompartment("first-order"),
        "parameters": {"CL": 0.1, "V": 10.0, "KA": 1.0},
        "residual_error": "proportional",
    }


def theophylline():
    """Return the observations of theophylline."""
    frame = pd.read_csv(locate("nlme/saemix_theo.csv.gz")).astype(float)
    data = frame[["Dose", "Time"]], frame.Concentration, frame.Id
    return data, {
        "model": "one_compartment_oral",
        "parameters": {"ka": 1.0, "V": 20.0, "CL": 0.5},
    }


def simulated(model, typical, n, times, depot):
    """Return records with 10 % errors and random effects with a deviation of .3."""
    rng = np.random.default_rng(0)
    m = len(times) + 1
    frame = pd.DataFrame({
        "ID": np.repeat(np.arange(n), m), "TIME": np.tile([0.0, *times], n),
        "AMT": np.tile([100.0] + [0.0] * (m - 1), n),
        "ADDL": np.tile([1] + [0] * (m - 1), n), "II": 24.0,
        "EVID": np.tile([1] + [0] * (m - 1), n),
        "CMT": np.tile([1] + [1 + depot] * (m - 1), n),
    })  # fmt: skip
    frame["DV"] = 1.0
    psi = {k: v * np.exp(0.3 * rng.standard_normal(n)) for k, v in typical.items()}
    f = model.predict(read_nonmem(frame), psi)
    frame["DV"] = f * (1 + 0.1 * rng.standard_normal(len(f))) * (frame.EVID == 0)
    return read_nonmem(frame)


def two_compartments():
    """Return 2,000 subjects with ten observations each."""
    typical = {"CL": 4.0, "V1": 20.0, "Q": 6.0, "V2": 40.0}
    times = [0.25, 0.5, 1, 2, 4, 8, 12, 24.5, 30, 48]
    model = TwoCompartment()
    return (simulated(model, typical, 2000, times, 0),), {
        "model": model,
        "parameters": {name: 1.5 * value for name, value in typical.items()},
        "residual_error": "proportional",
    }


def oral(by_equations=False, lag=None, of_time=False):
    """Return 32 subjects of a closed form, of the same by equations, or with a lag."""
    typical = {"CL": 4.0, "V": 30.0, "KA": 1.0}
    if lag is not None:
        typical["ALAG"] = lag
    times = [0.5, 1, 2, 4, 8, 12, 25, 30, 36, 48]
    model = OneCompartment("first-order")
    data = simulated(model, typical, 32, times, 1)
    if by_equations:
        from numba import njit

        @njit
        def rhs(t, A, p):
            absorbed = p.KA * A[0]
            return -absorbed, absorbed - p.CL / p.V * A[1]

        @njit
        def rhs_of_time(t, A, p):
            absorbed = p.KA * A[0] + 0.0 * t
            return -absorbed, absorbed - p.CL / p.V * A[1]

        model = ODE(
            rhs_of_time if of_time else rhs,
            parameters=list(typical),
            n_states=2,
            output=lambda A, p: A[1] / p.V,
        )
    return (data,), {
        "model": model,
        "parameters": {name: 1.5 * value for name, value in typical.items()},
        "residual_error": "proportional",
    }


class Integrated(OneCompartment):
    """Transit compartments without their closed form."""

    _is_exact_transit = False


def transit(kind=OneCompartment):
    """Return 12 subjects of a model with transit compartments."""
    typical = {"CL": 4.0, "V": 30.0, "KA": 1.0, "MTT": 1.0, "N": 4.0}
    times = [0.5, 1, 2, 4, 8, 12, 25, 30, 36, 48]
    data = simulated(OneCompartment("transit"), typical, 12, times, 1)
    return (data,), {
        "model": kind("transit"),
        "parameters": {name: 1.5 * value for name, value in typical.items()},
        "omega": ["CL", "V"],
        "residual_error": "proportional",
    }


CASES = {
    "warfarin": warfarin,
    "theophylline": theophylline,
    "oral, closed form": oral,
    "oral, equations": lambda: oral(by_equations=True),
    "oral, integrated": lambda: oral(by_equations=True, of_time=True),
    "oral, lag time": lambda: oral(lag=0.2),
    "transit": transit,
    "transit, integrated": lambda: transit(Integrated),
    "two compartments": two_compartments,
}


@contextmanager
def clocked(spent):
    """Add the CPU seconds of the start and of Newton steps to a dict."""

    def timed(function, name):
        def call(*arguments, **options):
            before = time.process_time()
            try:
                return function(*arguments, **options)
            finally:
                spent[name] += time.process_time() - before

        return call

    start, ascended = problems.start_from_data, LastClimb.ascended
    problems.start_from_data = timed(start, "start")
    LastClimb.ascended = timed(ascended, "Newton")
    try:
        yield
    finally:
        problems.start_from_data = start
        LastClimb.ascended = ascended


def measured(data, settings, seed):
    """Return CPU seconds by part, and the fit."""
    spent = dict.fromkeys(PARTS, 0.0)
    fit = NonlinearMixedEffectsRegressor(**settings, random_state=seed)
    with clocked(spent):
        before = time.process_time()
        fit.fit(*data)
        whole = time.process_time() - before
    spent["SAEM"] = whole - spent["start"] - spent["Newton"]
    before = time.process_time()
    fit.log_likelihood()
    spent["likelihood"] = time.process_time() - before
    before = time.process_time()
    fit.standard_errors()
    spent["errors"] = time.process_time() - before
    return spent, fit


def prediction_time(data, settings):
    """Return CPU seconds of predictions at 200 sets of parameters."""
    rng = np.random.default_rng(0)
    (records,) = data
    n = records.n_subjects
    psi = [
        {name: value * np.exp(0.3 * rng.standard_normal(n))
         for name, value in settings["parameters"].items()} for _ in range(200)
    ]  # fmt: skip
    before = time.process_time()
    for one in psi:
        settings["model"].predict(records, one)
    return time.process_time() - before


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    print(describe())
    print()
    print(f"CPU seconds, medians of {chosen.repeats} seeds")
    print()
    head = f"{'study':20s}" + "".join(f"{name:>11s}" for name in ("first", *PARTS))
    print(head + f"{'fit':>8s}{'all':>8s}{'passes':>8s}{'-2 log L':>12s}{'range':>8s}")
    times = {}
    pair = "oral, closed form", "oral, equations"
    for name, case in CASES.items():
        if chosen.only not in name:
            continue
        data, settings = case()
        before = time.process_time()
        NonlinearMixedEffectsRegressor(**settings, random_state=0, max_iter=2).fit(
            *data
        )
        first = time.process_time() - before
        found = [measured(data, settings, seed) for seed in range(chosen.repeats)]
        middle = {
            part: np.median([spent[part] for spent, _ in found]) for part in PARTS
        }
        fits = [sum(spent[p] for p in PARTS[:3]) for spent, _ in found]
        wholes = [sum(spent.values()) for spent, _ in found]
        values = [-2 * fit.log_likelihood() for _, fit in found]
        line = f"{name:20s}{first:11.2f}"
        line += "".join(f"{middle[part]:11.3f}" for part in PARTS)
        passes = int(np.median([fit.n_iter_ for _, fit in found]))
        line += f"{np.median(fits):8.2f}{np.median(wholes):8.2f}{passes:8d}"
        print(line + f"{np.median(values):12.3f}{np.ptp(values):8.3f}", flush=True)
        times[name] = np.median(fits)
        if name in pair:
            repeats = [prediction_time(data, settings) for _ in range(chosen.repeats)]
            times[name, "predict"] = np.median(repeats)
    if all(name in times for name in pair):
        closed, equations = pair
        fit = times[equations] / times[closed]
        predict = times[equations, "predict"] / times[closed, "predict"]
        print(f"\nequations take {fit:.1f} times the closed form's time for a fit, "
              f"{predict:.1f} times for predictions")  # fmt: skip


if __name__ == "__main__":
    main()
