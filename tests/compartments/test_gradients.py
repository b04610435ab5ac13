"""Derivatives of predictions by parameters."""

import numpy as np
import pytest
from scipy.special import lambertw

from sktem.compartments import (
    ODE,
    OneCompartment,
    Reparametrized,
    Responses,
    TwoCompartment,
    read_nonmem,
)

TIMES = np.array([0.5, 1.0, 2.0, 5.0, 8.5, 11.0, 13.5, 20.0, 24.5, 40.0])
PSI = {"CL": 2.0, "V": 10.0, "KA": 0.8}


def records(**dose):
    """Return records of a dose at 0, and of observations, of two subjects."""
    m = len(TIMES)
    table = {
        "ID": np.repeat([1.0, 2.0], m + 1),
        "TIME": np.tile(np.r_[0.0, TIMES], 2),
        "AMT": np.repeat([100.0, 50.0], m + 1) * np.tile(np.r_[1, np.zeros(m)], 2),
        "EVID": np.tile(np.r_[1, np.zeros(m)], 2),
    }
    for name, value in dose.items():
        table[name.upper()] = np.tile(np.r_[value, np.zeros(m)], 2)
    return table


def oral(t, A, p):
    absorbed = p.KA * A[0] + 0.0 * t
    return -absorbed, absorbed - p.CL / p.V * A[1]


def plain_oral(t, A, p):  # not compiled, as numba takes no dict of mixed types
    absorbed = p.KA * A[0] * {"one": 1.0, "other": "two"}["one"]
    return [-absorbed, absorbed - p.CL / p.V * A[1]]


def linear_oral(t, A, p):
    return -p.KA * A[0], p.KA * A[0] - p.CL / p.V * A[1]


def integrated(rhs=oral, parameters=tuple(PSI), **settings):
    settings = {"output": lambda A, p: A[1] / p.V, "n_states": 2} | settings
    return ODE(rhs, parameters=list(parameters), **settings)


def by_complex_steps(function, psi):
    """Return the derivatives of a function of parameters, which may be complex."""
    return {
        name: np.imag(function(**{**psi, name: psi[name] + 1e-30j})) / 1e-30
        for name in psi
    }


def after_doses(t, dose, given, CL, V, KA, F=1.0, ALAG=0.0):
    """Return concentrations after oral doses at some times."""
    total = np.zeros(len(t), dtype=complex)
    for start in given:
        way = t - start - ALAG
        k = CL / V
        value = F * dose * KA / V / (KA - k) * (np.exp(-k * way) - np.exp(-KA * way))
        total += np.where(np.real(way) > 0, value, 0.0)
    return total


def close(found, wanted, rtol):
    assert list(found) == list(wanted)
    for name, values in wanted.items():
        scale = np.abs(values).max()
        np.testing.assert_allclose(found[name], values, 0, rtol * scale, err_msg=name)


@pytest.mark.parametrize(
    ("model", "rtol"),
    [
        (OneCompartment("first-order"), 1e-9),
        (integrated(linear_oral), 1e-9),
        (integrated(rtol=1e-10, atol=1e-12), 1e-8),
        (integrated(), 1e-7),
        (integrated(rtol=1e-6, atol=1e-8), 1e-5),
        (integrated(rtol=1e-4, atol=1e-6), 1e-3),
        (integrated(method="stiff"), 1e-6),
        (integrated(plain_oral), 1e-5),
    ],
    ids=lambda value: getattr(value, "method", ""),
)
@pytest.mark.parametrize("dosing", [{}, {"F": 0.7, "ALAG": 0.3}])
def test_gradients_of_doses(model, rtol, dosing):
    psi = {**PSI, **dosing}
    data = records(ii=12.0, addl=1)
    found = model.gradient(data, psi)
    after = [
        by_complex_steps(lambda d=d, **p: after_doses(TIMES, d, [0, 12], **p), psi)
        for d in (100.0, 50.0)
    ]
    late = np.array(data["EVID"]) == 0
    wanted = {name: np.r_[after[0][name], after[1][name]] for name in psi}
    close({name: values[late] for name, values in found.items()}, wanted, rtol)
    # Those of each subject are those of it alone, and may have values of their own.
    both = {name: np.full(2, value) for name, value in psi.items()}
    close(model.gradient(data, both), found, 1e-12)
    each = {name: np.full(len(late), value) for name, value in psi.items()}
    close(model.gradient(data, each), found, 1e-7)


def test_differences_without_steps_in_common_have_jumps():
    """Where a step is rejected, or one is more: for few parameters, and by far."""
    n, m = 4000, len(TIMES) + 1
    data = {name: np.tile(column[:m], n) for name, column in records().items()}
    data["ID"] = np.repeat(np.arange(n), m)
    psi = {**PSI, "KA": np.exp(np.linspace(-1, 1, n))}
    model = integrated(rtol=1e-4, atol=1e-6)
    exact = OneCompartment("first-order").gradient(data, psi)["KA"]
    found = model.gradient(data, psi)["KA"]
    above, below = (
        model.predict(data, {**psi, "KA": psi["KA"] * (1 + s)}) for s in (1e-5, -1e-5)
    )
    jumps = (above - below) / (2e-5 * np.repeat(psi["KA"], m))
    errors = [np.abs(one - exact).max() / np.abs(exact).max() for one in (found, jumps)]
    assert errors[0] < 1e-3
    assert errors[1] > 20 * errors[0]


@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-8, 1e-10])
def test_gradients_of_saturable_elimination(rtol):
    def rhs(t, A, p):
        return (-p.VMAX * A[0] / (p.KM + A[0]),)

    psi = {"VMAX": 11.0, "KM": 20.0}
    model = ODE(rhs, parameters=list(psi), n_states=1, rtol=rtol, atol=0.01 * rtol)
    found = model.gradient(records(), psi)
    late = np.array(records()["EVID"]) == 0
    # A + KM log(A / dose) = dose - VMAX t
    dose, t = np.repeat([100.0, 50.0], len(TIMES)), np.tile(TIMES, 2)
    KM = psi["KM"]
    A = KM * lambertw(dose / KM * np.exp((dose - psi["VMAX"] * t) / KM), tol=1e-15).real
    share = A / (A + KM)
    wanted = {"VMAX": -t * share, "KM": -np.log(A / dose) * share}
    close({k: v[late] for k, v in found.items()}, wanted, 1e-9 + 20 * rtol)


@pytest.mark.parametrize(
    ("dose", "dosing"),
    [
        ({"rate": 40.0}, {}),
        ({"rate": 9.0, "ii": 8.0, "addl": 2}, {"F": 0.9}),
        ({"rate": -2.0}, {"D1": 3.3}),
        ({"rate": -1.0}, {"R1": 30.0, "ALAG": 0.7}),
        ({"rate": -2.0, "ii": 8.0, "addl": 3}, {"D": 9.3}),
        ({"ii": 8.0, "ss": 1}, {}),
        ({"ii": 8.0, "ss": 1, "rate": 20.0}, {"ALAG": 0.4}),
        ({"ii": 8.0, "ss": 1, "rate": -2.0}, {"D1": 3.0}),
        ({"evid": 4}, {"F": 0.5}),
    ],
)
def test_gradients_of_integration_and_of_closed_forms(dose, dosing):
    def rhs(t, A, p):
        flow = p.Q * (A[0] / p.V1 - A[1] / p.V2) + 0.0 * t
        return -p.CL / p.V1 * A[0] - flow, flow

    psi = {"CL": 2.0, "V1": 10.0, "Q": 3.0, "V2": 20.0}
    model = integrated(rhs, psi, output=lambda A, p: A[0] / p.V1)
    data = records(**dose)
    wanted = TwoCompartment().gradient(data, psi | dosing)
    # Steady states are searched for, each by itself.
    close(model.gradient(data, psi | dosing), wanted, 1e-5 if "ss" in dose else 1e-7)


def test_closed_forms_and_infusions_of_modelled_duration():
    psi, data = {"CL": 2.0, "V": 10.0, "D1": 3.3}, records()

    def zero_order(t, CL, V, D1, dose):
        k, rate = CL / V, dose / D1
        late = rate / CL * (1 - np.exp(-k * D1)) * np.exp(-k * (t - D1))
        return np.where(t < np.real(D1), rate / CL * (1 - np.exp(-k * t)), late)

    found = OneCompartment("zero-order").gradient(data, psi)
    wanted = by_complex_steps(lambda **p: zero_order(TIMES, **p, dose=100.0), psi)
    close({k: v[1 : 1 + len(TIMES)] for k, v in found.items()}, wanted, 1e-9)


def test_gradient_at_a_bound_is_the_one_from_the_inside():
    psi = {**PSI, "ALAG": 0.0}
    wanted = by_complex_steps(lambda **p: after_doses(TIMES, 100.0, [0], **p), psi)
    for model, rtol in ((OneCompartment("first-order"), 1e-4), (integrated(), 1e-4)):
        found = model.gradient(records(), psi)
        close({k: v[1 : 1 + len(TIMES)] for k, v in found.items()}, wanted, rtol)


def test_mass_balance_and_beginnings():
    """What is there, and what has left, are the dose and the beginning together."""

    def rhs(t, A, p):
        left = p.VMAX * A[0] / (p.KM + A[0])
        return -left, left

    psi = {"VMAX": 12.0, "KM": 20.0, "BASE": 4.0, "F1": 0.6}
    model = ODE(
        rhs, parameters=list(psi)[:3], n_states=2, output=lambda A, p: A[0] + A[1],
        initial=lambda p: (p.BASE, 0.0),
    )  # fmt: skip
    found = model.gradient(records(), psi)
    late = np.array(records()["EVID"]) == 0
    dose = np.repeat([100.0, 50.0], len(TIMES))
    wanted = {"VMAX": 0.0 * dose, "KM": 0.0 * dose, "BASE": 1 + 0 * dose, "F1": dose}
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name][late], values, rtol=1e-8, atol=1e-8)


def test_gradients_of_other_parameters_and_outcomes():
    model = Reparametrized(
        integrated(),
        lambda p, r: {"CL": p.CL * r["WT"] ** p.POWER, "V": p.V, "KA": p.KA},
        parameters=["CL", "V", "KA", "POWER"],
    )
    data = {**records(), "WT": np.repeat([0.8, 1.3], len(TIMES) + 1)}
    found = model.gradient(data, {**PSI, "POWER": 0.0})
    inner = integrated().gradient(records(), PSI)
    wanted = {**inner, "POWER": inner["CL"] * PSI["CL"] * np.log(data["WT"])}
    close(found, wanted, 1e-7)
    counts = Responses(
        integrated(), outcomes={3: lambda p, r, c: p.BASE * np.exp(-p.SLOPE * c)},
        hazards={4: lambda p, r, c: p.RATE * c}, parameters=["BASE", "SLOPE", "RATE"],
    )  # fmt: skip
    psi = {**PSI, "BASE": 5.0, "SLOPE": 0.1, "RATE": 0.01}
    kinds = np.tile(np.r_[1, [3, 3, 3, 3, 3, 3, 3, 3, 3, 4]], 2)
    data = {**records(), "CMT": kinds, "DV": 0.0 * kinds}
    found = counts.gradient(data, psi)
    c = integrated().predict(records(), PSI)
    of_three = kinds == 3
    value = psi["BASE"] * np.exp(-psi["SLOPE"] * c)
    for name in PSI:
        np.testing.assert_allclose(
            found[name][of_three], (-psi["SLOPE"] * value * inner[name])[of_three],
            rtol=1e-6, atol=1e-7,
        )  # fmt: skip
    # S = exp(-RATE AUC), with an area that the dose over the clearance bounds.
    survival = counts.predict(data, psi)[kinds == 4]
    np.testing.assert_allclose(
        found["RATE"][kinds == 4], survival * np.log(survival) / psi["RATE"], rtol=1e-7
    )


def test_steps_that_are_too_many_leave_no_derivative():
    data = read_nonmem(records())
    found = integrated().hasty(1).gradient(data, PSI)
    assert all(np.isnan(values[1:3]).any() for values in found.values())


def test_unknown_names():
    with pytest.raises(ValueError, match="needs the parameters"):
        OneCompartment().gradient(records(), {"CL": 1.0})
