"""Outcomes and hazards that follow concentrations: integrals of SciPy."""

import numpy as np
import pytest
from scipy.integrate import quad

from sktem.compartments import (
    ODE,
    OneCompartment,
    Reparametrized,
    Responses,
    read_nonmem,
)

PSI = {"CL": 2.0, "V": 10.0, "H0": 0.05, "BETA": 0.3}


def hazard(p, records, c):
    return p.H0 * np.exp(p.BETA * c + 0.2 * (records["WT"] - 1))


def joint(model=None, **settings):
    model = OneCompartment() if model is None else model
    return Responses(model, hazards={3: hazard}, parameters=["H0", "BETA"], **settings)


def study():
    """Return records of one subject: boluses, an infusion, and repeated events."""
    return {
        "ID": [1] * 7,
        "TIME": [0.0, 5, 7.5, 11, 13, 14, 17],
        "AMT": [40.0, 0, 0, 30, 0, 0, 0],
        "RATE": [0.0, 0, 0, 15, 0, 0, 0],
        "ADDL": [2.0, 0, 0, 0, 0, 0, 0],
        "II": [3.0, 0, 0, 0, 0, 0, 0],
        "EVID": [1.0, 0, 0, 1, 2, 0, 0],
        "CMT": [1.0, 3, 1, 1, 1, 3, 3],
        "DV": [np.nan, 1, 2.0, np.nan, np.nan, 1, 0],
        "WT": [1.0, 1, 1, 1, 1, 2, 2],
    }


def concentration(t):
    """Return the closed form by superposition."""
    k, V = PSI["CL"] / PSI["V"], PSI["V"]
    found = sum(4.0 * np.exp(-k * (t - s)) for s in (0, 3, 6) if t >= s)
    if t >= 11:
        found += 15 / (k * V) * (1 - np.exp(-k * min(t - 11, 2)))
    return found if t < 13 else _after(t, k, V)


def _after(t, k, V):
    boluses = sum(4.0 * np.exp(-k * (t - s)) for s in (0, 3, 6))
    end = 15 / (k * V) * (1 - np.exp(-2 * k))
    return boluses + end * np.exp(-k * (t - 13))


def test_hazards_are_integrated_between_doses():
    def rate(t):
        weight = 2 if t > 13 else 1
        exponent = PSI["BETA"] * concentration(t) + 0.2 * (weight - 1)
        return PSI["H0"] * np.exp(exponent)

    def whole(start, stop):
        points = [s for s in (3, 6, 11, 13) if start < s < stop]
        return quad(rate, start, stop, points=points or None, epsabs=1e-12)[0]

    found = joint().predict(study(), PSI)
    wanted = [
        rate(5) * np.exp(-whole(0, 5)),
        rate(14) * np.exp(-whole(5, 14)),
        np.exp(-whole(14, 17)),
    ]
    np.testing.assert_allclose(found[[1, 5, 6]], wanted, rtol=1e-7)
    assert found[2] == pytest.approx(concentration(7.5))
    # Fewer nodes are not enough.
    rough = joint(n_nodes=1).predict(study(), PSI)
    assert np.abs(rough[[1, 5, 6]] / wanted - 1).max() > 1e-4


@pytest.mark.parametrize("per_subject", [False, True])
def test_hazards_are_cut_where_doses_arrive_after_a_lag(per_subject):
    lag, share = 1.7, 0.5
    psi = PSI | {"ALAG": np.array([lag]) if per_subject else lag, "F": share}
    k, V = PSI["CL"] / PSI["V"], PSI["V"]

    def rate(t):
        c = sum(4 * share * np.exp(-k * (t - s)) for s in ARRIVALS if t >= s)
        if t >= 11 + lag:  # an infusion at the same rate, half as long
            c += 15 / (k * V) * (1 - np.exp(-k * min(t - 11 - lag, 1.0)))
            c = c if t < 12 + lag else _later(t)
        return PSI["H0"] * np.exp(PSI["BETA"] * c + (0.2 if t > 13 else 0.0))

    def _later(t):
        end = 15 / (k * V) * (1 - np.exp(-k)) * np.exp(-k * (t - 12 - lag))
        return end + sum(4 * share * np.exp(-k * (t - s)) for s in ARRIVALS)

    ARRIVALS = [lag, 3 + lag, 6 + lag]
    points = [*ARRIVALS, 11 + lag, 12 + lag, 13.0]

    def whole(start, stop):
        inside = [s for s in points if start < s < stop]
        return quad(rate, start, stop, points=inside or None, epsabs=1e-12)[0]

    wanted = [
        rate(5) * np.exp(-whole(0, 5)),
        rate(14) * np.exp(-whole(5, 14)),
        np.exp(-whole(14, 17)),
    ]
    found = joint().predict(study(), psi)[[1, 5, 6]]
    np.testing.assert_allclose(found, wanted, rtol=1e-7)
    # Nodes that know nothing of the lag are not enough.
    blind = joint()
    records = read_nonmem(study())
    nodes = blind._nodes(records, PSI)
    blind._nodes = lambda *given: nodes
    assert np.abs(blind.predict(records, psi)[[1, 5, 6]] / wanted - 1).max() > 1e-4


@pytest.mark.parametrize(
    ("dose", "psi"), [({}, {"ALAG": 8.3}), ({"RATE": [10, 0]}, {})]
)
def test_hazards_are_cut_where_doses_before_a_steady_state_arrive(dose, psi):
    """Those that are on their way, and infusions that run."""
    records = {"ID": [1, 1], "TIME": [0, 13.0], "AMT": [100, 0], "SS": [1, 0],
               "II": [6, 0], "ADDL": [2, 0], "CMT": [1, 2], "DV": [np.nan, 0],
               **dose}  # fmt: skip
    few, many = (
        Responses(
            OneCompartment(),
            hazards={2: lambda p, r, c: 0.02 * np.exp(0.4 * c)},
            n_nodes=n_nodes,
        ).predict(records, {"CL": 2, "V": 20, **psi})[1]
        for n_nodes in (8, 400)
    )
    assert few == pytest.approx(many, rel=1e-9)


@pytest.mark.parametrize("time", [1.0, 2.5, 6.0])
@pytest.mark.parametrize("is_lag", [True, False])
def test_hazards_are_cut_where_models_compute_arrivals(time, is_lag):
    """Lags that are functions of parameters, and ends of a zero-order absorption."""
    k, V, beta = 0.2, 10.0, 0.3

    def rate(t):
        if is_lag:
            c = 10 * np.exp(-k * (t - time)) if t > time else 0.0
        else:
            c = 10 / (k * time) * (1 - np.exp(-k * min(t, time)))
            c *= np.exp(-k * max(t - time, 0.0))
        return 0.02 * np.exp(beta * c)

    if is_lag:
        names = ["CL", "V", "HALF"]
        model = Reparametrized(
            OneCompartment(),
            lambda p, records: {"CL": p.CL, "V": p.V, "ALAG": 2 * p.HALF},
            parameters=names,
        )
        psi = {"CL": k * V, "V": V, "HALF": time / 2}
    else:
        model, psi = OneCompartment("zero-order"), {"CL": k * V, "V": V, "D1": time}
    events = Responses(
        model, hazards={3: lambda p, records, c: 0.02 * np.exp(beta * c)}
    )
    records = {"ID": [1, 1], "TIME": [0, 9.0], "AMT": [100, 0], "CMT": [1, 3],
               "DV": [np.nan, 0]}  # fmt: skip
    whole = quad(rate, 0, 9, points=[time], epsabs=1e-12)[0]
    assert events.predict(records, psi)[1] == pytest.approx(np.exp(-whole), rel=1e-7)


@pytest.mark.parametrize("shape", [0.4, 0.7, 1.3, 1.8, 5.0])
@pytest.mark.parametrize("since_last", [False, True])
def test_hazards_of_weibull_are_integrated_where_the_risk_begins(shape, since_last):
    """Below a shape of 1 they are infinite there: at time 0, or after an event."""
    scale, times, start = 12.0, np.r_[2.0, 30.0, 31.5], np.r_[0.0, 2.0, 30.0]

    def weibull(p, records, c):
        age = records["TIME"] - since_last * records["LAST"]
        return p.SHAPE / scale * (age / scale) ** (p.SHAPE - 1)

    model = Responses(None, hazards={1: weibull}, parameters=["SHAPE"])
    records = {
        "ID": [1] * 5, "TIME": [0, *times[:1], 9, *times[1:]], "DV": [0, 1, 0, 1, 0],
        "EVID": [2, 0, 2, 0, 0], "LAST": [0, 0, 2, *start[1:]],
    }  # fmt: skip
    found = model.predict(records, {"SHAPE": shape})[[1, 3, 4]]
    ages, before = times - since_last * start, start * (not since_last)
    wanted = np.exp((before / scale) ** shape - (ages / scale) ** shape)
    wanted[:2] *= shape / scale * (ages[:2] / scale) ** (shape - 1)
    np.testing.assert_allclose(found, wanted, rtol=2e-4)


def test_a_reset_does_not_end_what_has_been_survived():
    model = Responses(None, hazards={1: lambda p, r, c: p.H + 0 * c}, parameters=["H"])
    records = {"ID": [1] * 3, "TIME": [0, 10, 13.0], "EVID": [2, 3, 0], "DV": [0] * 3}
    found = model.predict(records, {"H": 0.1})
    assert found[2] == pytest.approx(np.exp(-1.3))
    # Time that begins anew does.
    anew = {"ID": [1] * 4, "TIME": [0, 10, 2, 3.0], "EVID": [2, 0, 3, 0], "DV": [0] * 4}
    found = model.predict(anew, {"H": 0.1})
    np.testing.assert_allclose(found[[1, 3]], np.exp([-1.0, -0.1]))


def test_hazard_of_an_ode_as_a_compartment():
    def rhs(t, A, p):
        return -p.CL / p.V * A[0], p.H0 * np.exp(p.BETA * A[0] / p.V)

    ode = ODE(
        rhs,
        parameters=["CL", "V", "H0", "BETA"],
        n_states=2,
        output=lambda A, p: A[1],
        rtol=1e-10,
    )
    records = {
        "ID": [1, 1, 2, 2], "TIME": [0.0, 9, 0, 4], "AMT": [50.0, 0, 20, 0],
        "DV": [0.0, 0, 0, 1], "CENS": [0, 0, 0, 1], "CMT": [1, 3, 1, 3],
        "WT": [1.0] * 4,
    }  # fmt: skip
    psi = {**PSI, "CL": np.array([2.0, 1.0])}
    whole = ode.predict({**records, "CMT": np.ones(4)}, psi)
    found = joint().predict(records, psi)
    assert found[1] == pytest.approx(np.exp(-whole[1]), rel=1e-6)
    # CENS 1: an event before this time.
    assert found[3] == pytest.approx(-np.expm1(-whole[3]), rel=1e-6)
    # One parameter for each record, and a model of concentrations by equations.
    inner = ODE(
        lambda t, A, p: (-p.CL / p.V * A[0],),
        parameters=["CL", "V"],
        n_states=1,
        output={1: lambda A, p: A[0] / p.V},
    )
    by_record = {**psi, "CL": np.array([2.0, 2.0, 1.0, 1.0])}
    same = joint(inner, driver=1).predict(records, by_record)
    np.testing.assert_allclose(same, found, rtol=1e-6)


def test_outcomes_without_a_model():
    model = Responses(
        None,
        outcomes={1: lambda p, records, c: p.A + p.B * records["X"]},
        hazards={2: lambda p, records, c: p.A},
        parameters=["A", "B"],
    )
    records = {"ID": [1, 1, 2], "TIME": [1.0, 2, 3], "CMT": [1, 2, 2],
               "X": [5.0, 0, 0], "DV": [0.0, 0, 1]}  # fmt: skip
    found = model.predict(records, {"A": 0.5, "B": 2.0})
    np.testing.assert_allclose(found, [10.5, np.exp(-1), 0.5 * np.exp(-1.5)])
    # A CMT of 0, as without the column, is the first.
    first = model.predict({**records, "CMT": [0, 2, 2]}, {"A": 0.5, "B": 2.0})
    np.testing.assert_array_equal(first, found)


def test_wrong_use():
    with pytest.raises(TypeError, match="dict of functions by CMT"):
        Responses(None, hazards={"event": hazard})
    with pytest.raises(ValueError, match="CMT 3 is both"):
        Responses(None, hazards={3: hazard}, outcomes={3: hazard})
    with pytest.raises(ValueError, match=r"needs the parameters \['BETA'\] too"):
        joint().check_names(["CL", "V", "H0"])
    with pytest.raises(ValueError, match="'KA'"):
        joint().check_names([*PSI, "KA"])
    wrong = Responses(None, hazards={3: lambda p, r, c: np.ones(2)}, parameters=["H0"])
    with pytest.raises(ValueError, match="one value for each of"):
        wrong.predict({**study(), "CMT": [3.0] * 7}, {"H0": 1.0})
    with pytest.raises(ValueError, match=r"record 3 .* CMT .* one of \[3\] for Resp"):
        wrong.predict(study(), {"H0": 1.0})
