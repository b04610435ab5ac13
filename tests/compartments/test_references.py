"""Predictions agree with NONMEM's on published data sets of records."""

import numpy as np
import pytest

from sktem.compartments import OneCompartment, read_nonmem

#: Numbers of the reference have five digits.
DIGITS = 5.5e-5
DOSE = {"CL": 1.1, "V": 20, "KA": 1.5}


@pytest.fixture
def records(shared_data):
    return lambda name: read_nonmem(shared_data(f"pk/{name}.csv.gz"))


def assert_agrees(found, wanted, absolute=0.0):
    assert np.isfinite(wanted).any()
    np.testing.assert_allclose(found, wanted, rtol=DIGITS, atol=absolute)


@pytest.mark.parametrize("name", ["dosing_scenarios", "dosing_steady_state_lag"])
def test_doses(records, name):
    data = records(name)
    found = OneCompartment(absorption="first-order").predict(
        data,
        {
            **DOSE,
            "ALAG2": data["LAGT"],
            "F2": data["BIOAV"],
            "D2": data["DUR2"],
            "R2": data["RAT2"],
        },
    )
    assert_agrees(1000 * found, data["CP"], absolute=1e-6)


def test_parameters_hold_until_their_record(records):
    data = records("dosing_time_varying_weight")
    CL = 1.1 * (data["WT"] / 70) ** 0.75
    assert_agrees(CL, data["CL"])
    found = OneCompartment(absorption="first-order").predict(data, {**DOSE, "CL": CL})
    assert_agrees(1000 * found, data["CP"])


def test_steady_state_with_lag(records):
    data = records("pred_ss_oral_lag")
    found = OneCompartment(absorption="first-order").predict(
        data, {"CL": 2, "V": 20, "KA": 1.5, "ALAG": 1.5}
    )
    assert_agrees(found[data.observed], data["DV"][data.observed])


def test_two_routes(records):
    data = records("pred_two_route")
    found = OneCompartment(absorption="first-order").predict(
        data, {"CL": 5, "V": 50, "KA": 1.5, "F1": 0.7, "F2": 0.4, "ALAG2": 2}
    )
    assert_agrees(found[data.observed], data["PRED"][data.observed])


def test_modelled_duration_and_rate(records):
    data = records("pred_modeled_duration")
    psi = {"CL": 5, "V": 50}
    by_duration = OneCompartment().predict(data, {**psi, "D1": 5})
    assert_agrees(by_duration[data.observed], data["PRED"][data.observed])
    rate = np.where(data["RATE"] == -2, -1.0, data["RATE"])
    other = read_nonmem({**data.columns, "RATE": rate})
    by_rate = OneCompartment().predict(other, {**psi, "R": 20})
    np.testing.assert_allclose(by_rate, by_duration, rtol=1e-12)


def test_bioavailability(records):
    data = records("pred_bioavailability")
    found = OneCompartment(absorption="first-order").predict(
        data, {"CL": 5, "V": 50, "KA": 1.5, "F": 0.7}
    )
    assert_agrees(found[data.observed], data["PRED"][data.observed])


def test_reset(records):
    data = records("reset_iv_washout")
    found = OneCompartment().predict(data, {"CL": 2, "V": 20})
    np.testing.assert_allclose(
        found[data.observed], data["DV"][data.observed], rtol=0.15
    )


def test_profiles_of_mm_iv_are_multiples_of_one_curve(shared_data):
    records = read_nonmem(shared_data("pk/mm_iv.csv.gz"))
    y = records["DV"][records.observed].reshape(10, -1)
    stated = {"VMAX": 5.0, "KM": 2.0, "V": 10.0}
    model = OneCompartment(elimination="michaelis-menten")
    f = model.predict(records, stated)[records.observed].reshape(10, -1)
    ratios = np.log(y / f)
    # Ratios to any curve are constant in time, up to the digits of the data.
    assert np.ptp(ratios - ratios.mean(axis=0), axis=1).max() < 0.03
    # Where volumes differ, those of the model are not.
    other = model.predict(records, stated | {"V": 12.0})[records.observed]
    assert np.ptp(np.log(other.reshape(10, -1) / f)[0]) > 0.1
    # And the curve is not that of the stated parameters.
    assert np.ptp(ratios.mean(axis=0)) > 0.5
