"""Closed forms, integrators and quadrature give the same amounts."""

from types import SimpleNamespace

import numpy as np
import pytest
from numba import njit
from scipy.integrate import quad, solve_ivp
from scipy.linalg import expm
from scipy.special import lambertw
from scipy.stats import gamma, invgauss, weibull_min

from sktem.compartments import (
    ODE,
    OneCompartment,
    ThreeCompartment,
    TwoCompartment,
    read_nonmem,
)
from sktem.exceptions import FitWarning

TIMES = np.array([0.0, 0.3, 1.0, 2.0, 5.0, 11.0, 12.0, 13.5, 20.0, 24.0, 40.0])
THREE = {"CL": 5.0, "V1": 10.0, "Q2": 2.0, "V2": 20.0, "Q3": 1.5, "V3": 30.0}


def regimen(compartment=1, **dose):
    """Return records of a dose at 0 and of observations."""
    n = len(TIMES)
    table = {
        "ID": np.ones(n + 1),
        "TIME": np.r_[0.0, TIMES],
        "EVID": np.r_[1, np.zeros(n)],
        "AMT": np.r_[100.0, np.zeros(n)],
        "CMT": np.r_[compartment, np.ones(n)],
    }
    for name, value in dose.items():
        table[name.upper()] = np.r_[value, np.zeros(n)]
    return read_nonmem(table)


REGIMENS = {
    "bolus": regimen(),
    "repeated": regimen(ii=8, addl=4),
    "infusion": regimen(rate=40),
    "overlapping": regimen(rate=9, ii=8, addl=2),
    "steady": regimen(ii=8, ss=1),
    "steady infusion": regimen(ii=8, ss=1, rate=20, addl=1),
    "steady overlapping": regimen(ii=8, ss=1, rate=6),
    "steady added": regimen(ii=12, ss=2, rate=30),
}


def oral_three(t, A, p):
    flow = p.CL / p.V1 * A[1]
    second = p.Q2 * (A[1] / p.V1 - A[2] / p.V2)
    third = p.Q3 * (A[1] / p.V1 - A[3] / p.V3)
    passed = p.KA * A[0]
    return -passed, passed - flow - second - third, second, third


def of_time(t, A, p):
    """Return the same, which is integrated since it might depend on the time."""
    flow = p.CL / p.V1 * A[1] + 0.0 * t
    second = p.Q2 * (A[1] / p.V1 - A[2] / p.V2)
    third = p.Q3 * (A[1] / p.V1 - A[3] / p.V3)
    passed = p.KA * A[0]
    return -passed, passed - flow - second - third, second, third


COMPILED = njit(of_time)


def ode(rhs, parameters, n_states, **settings):
    return ODE(rhs, parameters=parameters, n_states=n_states, **settings)


@pytest.mark.parametrize("name", REGIMENS)
def test_closed_form_is_that_of_the_equations(name):
    psi = {**THREE, "KA": 0.7}
    closed = ThreeCompartment(absorption="first-order").amounts(REGIMENS[name], psi)
    model = ode(COMPILED, list(psi), 4)
    found = model.amounts(REGIMENS[name], psi)
    np.testing.assert_allclose(found, closed, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("method", ["non-stiff", "stiff"])
@pytest.mark.parametrize("name", ["steady overlapping", "infusion"])
def test_scipy_integrates_the_same(name, method):
    psi = {**THREE, "KA": 0.7}
    closed = ThreeCompartment(absorption="first-order").amounts(REGIMENS[name], psi)

    def plain(t, A, p):
        return [value + 0.0 * sum({"t": t}.values()) for value in oral_three(t, A, p)]

    model = ode(plain, list(psi), 4, method=method)
    found = model.amounts(REGIMENS[name], psi)
    assert not model._is_linear
    np.testing.assert_allclose(found, closed, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("method", ["non-stiff", "stiff"])
@pytest.mark.parametrize("rhs", [oral_three, njit(oral_three)])
@pytest.mark.parametrize("name", REGIMENS)
def test_linear_equations_are_exact(name, rhs, method):
    psi = {**THREE, "KA": 0.7}
    closed = ThreeCompartment(absorption="first-order").amounts(REGIMENS[name], psi)
    model = ode(rhs, list(psi), 4, method=method)
    found = model.amounts(REGIMENS[name], psi)
    assert model._is_linear
    np.testing.assert_allclose(found, closed, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", REGIMENS)
def test_integrator_of_mammillary_models(name):
    # A mixed elimination without its nonlinear part is integrated.
    psi = {"CL": 3.0, "V1": 10.0, "Q": 2.0, "V2": 20.0}
    psi |= {"KA1": 1.0, "KA2": 0.3, "FR1": 0.6}
    closed = TwoCompartment("parallel").amounts(REGIMENS[name], psi)
    mixed = TwoCompartment("parallel", elimination="mixed")
    found = mixed.amounts(REGIMENS[name], {**psi, "VMAX": 0.0, "KM": 1.0})
    np.testing.assert_allclose(found, closed, rtol=1e-7, atol=1e-7)


def matrix_of(ka, psi, ke0):
    """Return the matrix of depot, three compartments and effect."""
    CL, V1, Q2, V2, Q3, V3 = psi.values()
    matrix = np.zeros((5, 5))
    matrix[0, 0], matrix[1, 0] = -ka, ka
    matrix[1, 1] = -(CL + Q2 + Q3) / V1
    matrix[2, 1], matrix[1, 2], matrix[2, 2] = Q2 / V1, Q2 / V2, -Q2 / V2
    matrix[3, 1], matrix[1, 3], matrix[3, 3] = Q3 / V1, Q3 / V3, -Q3 / V3
    matrix[4, 1], matrix[4, 4] = ke0 / V1, -ke0
    return matrix


CASES = {
    "plain": (0.7, {}, 0.4),
    "rates that meet": (0.5, {"Q2": 0.0, "Q3": 0.0}, 0.5),
    "almost": (0.5 + 1e-9, {"Q2": 0.0, "Q3": 1e-12}, 0.5 - 1e-8),
    "equal compartments": (0.1, {"Q2": 2, "Q3": 2, "V2": 20, "V3": 20}, 0.1),
    "no elimination": (0.7, {"CL": 0.0}, 0.4),
    "fast": (300.0, {}, 200.0),
    "slow": (1e-6, {}, 1e-7),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("compartment", [1, 2, 3])
def test_closed_form_is_a_matrix_exponential(case, compartment):
    ka, changes, ke0 = CASES[case]
    psi = {**THREE, **changes}
    model = ThreeCompartment("first-order", response="effect")
    data = regimen(compartment, rate=25)
    found = model.amounts(data, {**psi, "KA": ka, "KE0": ke0})[1:]
    augmented = np.zeros((6, 6))
    augmented[:5, :5] = matrix_of(ka, psi, ke0)
    augmented[compartment - 1, 5] = 25.0
    for t, amounts in zip(TIMES, found, strict=True):
        during = expm(augmented * min(t, 4.0))[:5, 5]
        wanted = expm(augmented[:5, :5] * max(t - 4.0, 0.0)) @ during
        np.testing.assert_allclose(amounts, wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["steady", "steady infusion", "steady overlapping"])
def test_steady_state_is_reached(name):
    # What many doses lead to: additional ones up to the first record.
    data = REGIMENS[name]
    psi = {**THREE, "KA": 0.7, "KE0": 0.2}
    model = ThreeCompartment("first-order", response="effect")
    many = {key: values.copy() for key, values in data.columns.items()}
    many["SS"][0] = 0
    many["ADDL"][0] += 400
    many["TIME"][1:] += 400 * 8
    found = model.amounts(many, psi)[1:]
    np.testing.assert_allclose(found, model.amounts(data, psi)[1:], rtol=1e-9)


def test_mass_is_kept():
    # What is eliminated is the area under the concentration, by Gauss-Legendre nodes.
    nodes, weights = np.polynomial.legendre.leggauss(40)
    times = 10.0 * (nodes + 1)
    table = {
        "ID": np.ones(42), "TIME": np.r_[0.0, times, 20.0], "CMT": np.ones(42),
        "AMT": np.r_[100.0, np.zeros(41)], "RATE": np.r_[8.0, np.zeros(41)],
    }  # fmt: skip
    psi = {**THREE, "KA": 0.7}
    model = ThreeCompartment("first-order")
    concentration = model.predict(table, {**psi, "F": 0.8})[1:-1]
    left = model.amounts(table, {**psi, "F": 0.8})[-1].sum()
    # The infusion ends at 10, where the area is cut.
    area = 0.0
    for low in (0.0, 10.0):
        part = {**table, "TIME": np.r_[0.0, low + 5.0 * (nodes + 1), 20.0]}
        concentration = model.predict(part, {**psi, "F": 0.8})[1:-1]
        area += 5.0 * weights @ concentration
    assert psi["CL"] * area + left == pytest.approx(80.0, rel=1e-9)


def test_michaelis_menten_bolus():
    # Lambert's W: Schnell and Mendoza (1997).
    VMAX, KM, V = 5.0, 2.0, 10.0
    model = OneCompartment(elimination="michaelis-menten")
    found = model.predict(regimen(), {"VMAX": VMAX, "KM": KM, "V": V})[1:]
    start = 100 / V / KM
    wanted = KM * lambertw(start * np.exp(start - VMAX / V / KM * TIMES)).real
    np.testing.assert_allclose(found, wanted, rtol=1e-7)


DENSITIES = {
    "transit": ({"MTT": 1.3, "N": 3.2, "KA": 40.0}, gamma(4.2, scale=1.3 / 4.2)),
    "weibull": ({"TD": 1.7, "BETA": 2.5}, weibull_min(2.5, scale=1.7)),
    "inverse-gaussian": ({"MAT": 3.0, "CV2": 0.5}, invgauss(0.5, scale=3.0 / 0.5)),
}


@pytest.mark.parametrize("name", DENSITIES)
def test_input_functions(name):
    psi, density = DENSITIES[name]
    model = OneCompartment(name)
    found = model.predict(regimen(), {"CL": 2.0, "V": 10.0, **psi})[1:]
    ka = psi.get("KA")

    def after(t):
        if ka is None:
            return np.exp(-0.2 * t)
        return ka / (ka - 0.2) * (np.exp(-0.2 * t) - np.exp(-ka * t))

    wanted = [
        10 * quad(lambda s, t=t: density.pdf(s) * after(t - s), 0, t, epsabs=1e-10)[0]
        for t in TIMES[:6]
    ]
    np.testing.assert_allclose(found[:6], wanted, rtol=1e-6, atol=1e-7)


WAYS = {
    "usual": (1.0, 3.0, 1.0),
    "one transit compartment": (0.5, 0.0, 2.0),
    "many": (1.0, 2000.0, 1.0),
    "slower than elimination": (30.0, 0.5, 0.1),
    "much slower, sharp": (50.0, 30.0, 20.0),
    "absorption as fast as elimination": (2.0, 5.5, 0.2),
    "nearly as fast": (2.0, 5.5, 0.2 * (1 + 1e-6)),
    "transit as fast as absorption": (2.0, 3.0, 2.0),
    "fast absorption": (0.3, 40.0, 200.0),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_transit_compartments_in_closed_form(way):
    class Integrated(OneCompartment):
        _is_exact_transit = False

    class TwoIntegrated(TwoCompartment):
        _is_exact_transit = False

    n = 14
    data = {
        "ID": np.ones(n), "CMT": np.full(n, 2.0), "AMT": np.zeros(n),
        "TIME": [0, 0.1, 0.5, 1, 2, 3, 8, 12, 12.3, 20, 24, 24, 30, 60],
        "RATE": np.zeros(n), "WT": np.linspace(1, 1.5, n),
    }  # fmt: skip
    for record, compartment in ((0, 1), (4, 2), (7, 1)):
        data["AMT"][record], data["CMT"][record] = 100.0, compartment
    data["RATE"][4] = 25.0
    inputs = dict(zip(("MTT", "N", "KA"), WAYS[way], strict=True))
    one = {"CL": 2.0 * data["WT"], "V": 10.0}
    two = {"CL": 2.0, "V1": 8.0, "Q": 3.0, "V2": 15.0}
    accuracy = {"rtol": 1e-10, "atol": 1e-12}
    for exact, integrated, psi in (
        (OneCompartment, Integrated, one), (TwoCompartment, TwoIntegrated, two)
    ):  # fmt: skip
        psi = psi | inputs
        found = exact("transit").predict(data, psi)
        wanted = integrated("transit", **accuracy).predict(data, psi)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-7 * wanted.max())
        # Negative control: another number of transit compartments.
        other = exact("transit").predict(data, psi | {"N": 1.01 * psi["N"] + 0.01})
        assert np.abs(other - wanted).max() > 1e-6 * wanted.max()


def test_transit_compartments_without_end():
    # Rates that have no number, and more compartments than terms of a series.
    psi = {"CL": 2.0, "V": 10.0, "KA": 0.8}
    found = OneCompartment("transit").predict(regimen(), psi | {"MTT": 1, "N": np.inf})
    assert np.isnan(found[-1])
    with pytest.warns(FitWarning, match="check the parameters"):
        found = OneCompartment("transit").predict(regimen(), psi | {"MTT": 0, "N": 0})
    assert np.isnan(found[-1])
    fast = OneCompartment("transit").predict(regimen(), psi | {"MTT": 1e-9, "N": 1e5})
    at_once = OneCompartment("first-order").predict(regimen(), psi)
    np.testing.assert_allclose(fast[3:], at_once[3:], rtol=1e-7)


def test_input_function_at_steady_state():
    psi = {"CL": 2.0, "V": 10.0, "MTT": 3.0, "N": 2.0, "KA": 0.8}
    model = OneCompartment("transit")
    many = {**regimen(ii=8, addl=60).columns}
    many["TIME"] = np.r_[0.0, TIMES + 60 * 8]
    found = model.predict(many, psi)[1:]
    steady = model.predict(regimen(ii=8, ss=1), psi)[1:]
    np.testing.assert_allclose(steady, found, rtol=1e-6)


def test_zero_order_absorption_is_an_infusion():
    psi = {"CL": 2.0, "V": 10.0}
    found = OneCompartment("zero-order").predict(regimen(), {**psi, "D1": 4.0})
    wanted = OneCompartment().predict(regimen(rate=25), psi)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_effect_compartment_is_observed_by_its_number():
    data = regimen()
    psi = {"CL": 2.0, "V": 20.0, "KE0": 0.5}
    model = OneCompartment(response="effect")
    kinds = {**data.columns, "CMT": np.r_[1, np.full(len(TIMES), 2)]}
    effect = model.predict(kinds, psi)[1:]
    wanted = 5 * 0.5 / (0.1 - 0.5) * (np.exp(-0.5 * TIMES) - np.exp(-0.1 * TIMES))
    np.testing.assert_allclose(effect, wanted, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(model.predict(data, psi)[1:], 5 * np.exp(-0.1 * TIMES))


RESPONSES = {
    "inhibited-production": lambda g, p, R: p.KIN * (1 - g) - p.KOUT * R,
    "inhibited-loss": lambda g, p, R: p.KIN - p.KOUT * (1 - g) * R,
    "stimulated-production": lambda g, p, R: p.KIN * (1 + g) - p.KOUT * R,
    "stimulated-loss": lambda g, p, R: p.KIN - p.KOUT * (1 + g) * R,
}


@pytest.mark.parametrize("name", RESPONSES)
def test_indirect_responses(name):
    most = "IMAX" if name.startswith("inhibited") else "EMAX"
    half = "IC50" if name.startswith("inhibited") else "EC50"
    psi = {"CL": 2.0, "V": 20.0, "KIN": 3.0, "KOUT": 0.4, most: 0.8, half: 1.5}

    def rhs(t, A, p):
        C = A[0] / p.V
        g = getattr(p, most) * C / (getattr(p, half) + C)
        return -p.CL * C, RESPONSES[name](g, p, A[1])

    kinds = {**regimen().columns, "CMT": np.r_[1, np.full(len(TIMES), 2)]}
    found = OneCompartment(response=name).predict(kinds, psi)
    model = ODE(
        rhs,
        parameters=list(psi),
        n_states=2,
        initial=lambda p: (0.0, p.KIN / p.KOUT),
        output={1: lambda A, p: A[0] / p.V, 2: lambda A, p: A[1]},
    )
    np.testing.assert_allclose(found, model.predict(kinds, psi), rtol=1e-6)
    assert found[1] == pytest.approx(7.5)
    model.initial = lambda p: 1.0
    with pytest.raises(ValueError, match="a tuple of 2 amounts, got a number"):
        model.predict(kinds, psi)


def test_parameters_of_subjects_and_records():
    one = regimen().columns
    n = len(one["TIME"])
    both = {name: np.tile(values, 2) for name, values in one.items()}
    both["ID"] = np.repeat([7, 3], n)
    model = OneCompartment()
    found = model.predict(both, {"CL": [1.0, 2.0], "V": 10.0})
    apart = [model.predict(one, {"CL": CL, "V": 10.0}) for CL in (1.0, 2.0)]
    np.testing.assert_allclose(found, np.concatenate(apart), rtol=1e-12)
    CL = np.repeat([1.0, 2.0], n)
    np.testing.assert_allclose(
        model.predict(both, {"cl": CL, "v": 10.0}), found, rtol=1e-12
    )


def test_compiled_and_plain_functions_agree():
    def rhs(t, A, p):
        return (-p.CL / p.V * A[0] + 0.1 * t,)

    settings = {"parameters": ["CL", "V"], "n_states": 1}
    psi = {"CL": 2.0, "V": 10.0}
    plain = ODE(lambda t, A, p: rhs(t, A, p), **settings).predict(regimen(), psi)
    compiled = ODE(njit(rhs), **settings).predict(regimen(), psi)
    np.testing.assert_allclose(compiled, plain, rtol=1e-7)


def van_der_pol(t, A, p):
    return A[1], p.MU * (1 - A[0] ** 2) * A[1] - A[0]


def forced(t, A, p):
    return (-p.VMAX * A[0] / (p.KM + A[0]) * (1 + np.sin(3 * t)),)


def robertson(t, A, p):
    first, second, third = p.K1 * A[0], p.K2 * A[1] ** 2, p.K3 * A[1] * A[2]
    return third - first, first - third - second, second


def binding(t, A, p):
    """Return derivatives of a drug, its target, their complex and a response to it."""
    bound = p.KON * A[0] * A[1] - p.KOFF * A[2]
    made = 1.0 - 0.2 * A[1]
    return -0.1 * A[0] - bound, made - bound, bound - 0.05 * A[2], A[2] ** 1.5 - A[3]


def exchange(t, A, p):
    flow = p.Q * (A[0] / p.V1 - A[1] / p.V2) + 0.0 * t
    return -p.CL / p.V1 * A[0] - flow, flow


def start_at(rhs, psi, start, times, **settings):
    """Return amounts from a start on, by a model and by SciPy."""
    initial = {"initial": lambda p: start}
    model = ode(rhs, list(psi), len(start), **initial, **settings)
    zeros = np.zeros(len(times))
    records = {"ID": zeros, "TIME": times, "AMT": zeros, "EVID": zeros + 2}
    p = SimpleNamespace(**psi)
    wanted = solve_ivp(
        lambda t, A: rhs(t, A, p), times[[0, -1]], start, method="Radau",
        rtol=1e-11, atol=1e-14, t_eval=times,
    ).y.T  # fmt: skip
    return model, records, wanted


@pytest.mark.parametrize(
    ("rhs", "psi", "start", "end", "n_steps"),
    [(van_der_pol, {"MU": 10.0}, (2.0, 0.0), 3.0, 100),
     (forced, {"VMAX": 5.0, "KM": 2.0}, (10.0,), 4.0, 64)],
)  # fmt: skip
def test_stiff_method_is_of_order_five(rhs, psi, start, end, n_steps):
    errors = []
    for n in (n_steps, 2 * n_steps):
        # Without tolerances there is a step from record to record.
        case = rhs, psi, start, np.linspace(0.0, end, n + 1)
        model, records, wanted = start_at(*case, method="stiff", rtol=1e9, atol=1e9)
        errors.append(np.abs(model.amounts(records, psi)[-1] - wanted[-1]).max())
    assert 4.5 < np.log2(errors[0] / errors[1]) < 5.5


@pytest.mark.parametrize(
    ("rhs", "psi", "start", "times"),
    [(robertson, {"K1": 0.04, "K2": 3e7, "K3": 1e4}, (1.0, 0.0, 0.0),
      np.r_[0.0, np.logspace(-5, 4, 8)]),
     (binding, {"KON": 1e4, "KOFF": 1e3}, (30.0, 5.0, 0.0, 0.0), TIMES)],
)  # fmt: skip
def test_stiff_equations(rhs, psi, start, times):
    case = rhs, psi, start, times
    model, records, wanted = start_at(*case, method="stiff", max_steps=150)
    found = model.amounts(records, psi)
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-8)
    # Negative control: the other method needs a hundred times as many steps.
    other, *_ = start_at(*case, max_steps=100 * 150)
    for short in (other, model.hasty(5)):
        with pytest.warns(FitWarning, match=r"does not reach it.*method=\"stiff\""):
            lost = np.isnan(short.amounts(records, psi)).any(axis=1)
        with pytest.warns(FitWarning, match=rf"record {1 + np.argmax(lost)} \(ID 0"):
            short.predict(records, psi)
    # Nothing is told of parameters that are no numbers.
    assert np.isnan(model.predict(records, dict.fromkeys(psi, np.nan))).any()


@pytest.mark.parametrize("Q", [1e4, 1e7])
def test_stiff_equations_of_doses(Q):
    regimens = {**REGIMENS, "modelled": regimen(rate=-2)}
    for name, data in regimens.items():
        psi = {"CL": 1.0, "V1": 10.0, "Q": Q, "V2": 20.0}
        dosing = {"ALAG": 0.7, "D1": 3.0} if name == "modelled" else {"ALAG": 0.7}
        wanted = TwoCompartment().amounts(data, psi | dosing)
        model = ode(exchange, list(psi), 2, method="stiff")
        found = model.amounts(data, psi | dosing)
        assert not model._is_linear
        np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("method", ["stiff", "non-stiff"])
@pytest.mark.parametrize("is_compiled", [True, False])
def test_equations_without_a_solution_end(method, is_compiled):
    calls = []

    def plain(t, A, p):
        calls.append(t)
        assert len(calls) < 30_000
        return (-np.inf if A[0] < 50 else -p.K * A[0],)

    def compiled(t, A, p):
        return (-np.inf if A[0] < 50 else -p.K * A[0],)

    rhs = compiled if is_compiled else plain
    model = ODE(rhs, parameters=["K"], n_states=1, method=method, max_steps=1000)
    with pytest.warns(FitWarning, match="does not reach it"):
        found = model.predict(regimen(), {"K": 0.1})
    late = np.array(regimen()["TIME"]) > np.log(2) / 0.1
    assert np.isnan(found[late]).all()
    np.testing.assert_allclose(found[~late][1:], 100 * np.exp(-0.1 * TIMES[~late[1:]]))


def pairs(t, A, p):
    return [-sum({"K": p.VMAX / p.KM}.values()) * A[0] / (1 + A[0] / p.KM)]


def saturated(t, A, p):
    return (-p.VMAX * A[0] / (p.KM + A[0]),)


@pytest.mark.parametrize(
    ("rhs", "method"),
    [(saturated, "non-stiff"), (saturated, "stiff"), (pairs, "non-stiff")],
)
@pytest.mark.parametrize("dose", [{"ii": 8}, {"ii": 8, "rate": 25.0}])
@pytest.mark.filterwarnings("ignore:.*does not reach it")
def test_no_steady_state_where_more_enters_than_can_leave(rhs, method, dose):
    model = ODE(rhs, parameters=["VMAX", "KM"], n_states=1, method=method)
    data = regimen(ss=1, **dose)
    for most, is_known in ((20.0, True), (12.6, True), (12.4, False), (5.0, False)):
        found = model.predict(data, {"VMAX": most, "KM": 20.0})
        assert np.isfinite(found).all() == is_known
    constant = {**regimen(ss=1, ii=1).columns, "AMT": np.zeros(12)}
    constant["RATE"] = np.r_[10.0, np.zeros(11)]
    for most, is_known in ((20.0, True), (9.0, False)):
        found = model.predict(read_nonmem(constant), {"VMAX": most, "KM": 20.0})
        assert np.isfinite(found).all() == is_known
        if is_known:  # VMAX A / (KM + A) = 10
            np.testing.assert_allclose(found[1], 20.0, rtol=1e-5)


def test_nothing_enters_without_bioavailability():
    psi = {"CL": 1.0, "V": 10.0}
    for dose in ({"rate": 40}, {"rate": -2}, {"rate": 9, "ii": 8, "ss": 1}, {}):
        data = regimen(**dose)
        own = {"D1": 2.0} if dose.get("rate") == -2 else {}
        assert (OneCompartment().predict(data, psi | own | {"F1": 0.0}) == 0).all()
        little = OneCompartment().predict(data, psi | own | {"F1": 1e-9})
        assert 0 < little.max() < 1e-7


@pytest.mark.parametrize(
    ("rate", "wrong"),
    [(-2, {"D1": 0.0}), (-2, {"D1": -3.0}), (-1, {"R1": 0.0}), (-1, {"R1": -1.0}),
     (0, {"F1": -0.5}), (0, {"ALAG1": -1.0}), (5, {"ALAG1": np.nan})],
)  # fmt: skip
def test_impossible_parameters_of_doses_predict_nothing(rate, wrong):
    psi = {"CL": 1.0, "V": 10.0}
    found = OneCompartment().predict(regimen(rate=rate), psi | wrong)
    assert np.isnan(found[2:]).all()
    right = {name: np.abs(np.nan_to_num(v)) + 0.5 for name, v in wrong.items()}
    assert np.isfinite(OneCompartment().predict(regimen(rate=rate), psi | right)).all()


@pytest.mark.filterwarnings("ignore:.*does not reach it")
@pytest.mark.parametrize("method", ["non-stiff", "stiff"])
def test_subjects_do_not_know_of_each_other(method):
    """Subjects are integrated side by side, each with steps of its own."""

    @njit
    def rhs(t, A, p):
        if p.KM < 0:
            raise ValueError("never seen")
        return (-p.VMAX * A[0] / (p.KM + A[0]),)

    n = 21
    rng = np.random.default_rng(0)
    offsets = np.cumsum(rng.uniform(0, 3, (n, 6)), axis=1)
    rows = {
        "ID": np.repeat(np.arange(n), 7), "AMT": np.tile([50.0] + [0.0] * 6, n),
        "TIME": np.column_stack([np.zeros(n), offsets]).ravel(),
        "II": np.full(7 * n, 4.0), "ADDL": np.tile([2] + [0] * 6, n),
        "SS": np.repeat(np.arange(n) % 3 == 0, 7) * np.tile([1] + [0] * 6, n),
    }  # fmt: skip
    data = read_nonmem(rows)
    psi = {"VMAX": rng.uniform(20, 60, n), "KM": rng.uniform(1, 30, n)}
    psi["KM"][4] = -1.0  # raises
    psi["VMAX"][7] = np.nan
    model = ODE(rhs, parameters=["VMAX", "KM"], n_states=1, method=method)
    together = model.predict(data, psi).reshape(n, 7)
    for i in range(n):
        own = {name: values[i] for name, values in psi.items()}
        alone = model.predict(data.take([i]), own)
        np.testing.assert_array_equal(together[i], alone)
        assert np.isfinite(alone).all() == (i not in (4, 7)), i


@pytest.mark.parametrize("rhs", [saturated, njit(saturated), pairs])
def test_as_many_derivatives_as_states(rhs):
    for n_states in (2, 3):
        model = ODE(rhs, parameters=["VMAX", "KM"], n_states=n_states)
        with pytest.raises(ValueError, match=f"must return {n_states} derivatives"):
            model.predict(regimen(), {"VMAX": 1.0, "KM": 1.0})
    model = ODE(rhs, parameters=["VMAX", "KM"], n_states=1)
    assert np.isfinite(model.predict(regimen(), {"VMAX": 1.0, "KM": 1.0})).all()


def test_wrong_parameters():
    model = OneCompartment("first-order")
    with pytest.raises(ValueError, match="needs the parameters"):
        model.predict(regimen(), {"CL": 1.0, "V": 1.0})
    with pytest.raises(ValueError, match="did you mean 'KA'"):
        model.predict(regimen(), {"CL": 1.0, "V": 1.0, "KAA": 1.0})
    with pytest.raises(ValueError, match="one value for each of the 1 subjects"):
        model.predict(regimen(), {"CL": [1.0, 2.0], "V": 1.0, "KA": 1.0})
    with pytest.raises(ValueError, match=r"record 1 \(ID 1.0, TIME 0\): RATE is -2"):
        OneCompartment().predict(regimen(rate=-2), {"CL": 1.0, "V": 1.0})
    with pytest.raises(ValueError, match="CMT must be at most 2"):
        model.predict(regimen(3), {"CL": 1.0, "V": 1.0, "KA": 1.0})
    with pytest.raises(ValueError, match="'f3' is of doses into compartment 3"):
        model.predict(regimen(), {"CL": 1.0, "V": 1.0, "KA": 1.0, "f3": 0.5})
    with pytest.raises(ValueError, match="did you mean 'first-order'"):
        OneCompartment("first order")


def test_elimination_equals_numpy():
    from sktem.compartments.kernels.elimination import solve

    rng = np.random.default_rng(0)
    matrix, values = rng.standard_normal((4, 4)), rng.standard_normal(4)
    matrix[0, 0] = 0.0
    found = values.copy()
    assert solve(matrix.copy(), found)
    np.testing.assert_allclose(found, np.linalg.solve(matrix, values), rtol=1e-10)
    for wrong in (np.ones((2, 2)), np.array([[1.0, np.nan], [2.0, 1.0]])):
        assert not solve(wrong, np.ones(2))


def test_plain_python_is_compiled_where_nothing_may_change(monkeypatch):
    rate = 0.3
    # A name that is no more than that of an attribute is nothing from outside.
    monkeypatch.setitem(globals(), "K", 7.0)

    def plain(t, A, p):
        return [-p.K * np.exp(0.0 * t) * A[0]]

    def of_outside(t, A, p):
        return [-rate * A[0] + 0.0 * t]

    def of_python(t, A, p):
        return [-sum({"K": p.K}.values()) * A[0] + 0.0 * t]

    records = {"ID": [1, 1, 1], "TIME": [0, 1, 5], "AMT": [10, 0, 0]}
    for rhs, is_compiled in ((plain, True), (of_outside, False), (of_python, False)):
        model = ODE(rhs, parameters=["K"], n_states=1)
        found = model.predict(records, {"K": 0.3})
        expected = 10 * np.exp(-0.3 * np.array([0, 1, 5]))
        np.testing.assert_allclose(found, expected, rtol=1e-7)
        assert bool(model._compiled) is is_compiled
        # The search of a fit for its start does not compile it again.
        assert model.hasty(300)._compiled is model._compiled
