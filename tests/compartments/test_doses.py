"""Doses in a table of their own."""

import numpy as np
import pandas as pd
import pytest

from sktem.compartments import Doses, OneCompartment, read_nonmem

PSI = {"CL": 1.1, "V": 20.0, "KA": 1.5}


def test_same_predictions_as_one_table():
    doses = pd.DataFrame(
        {"ID": [2, 1, 1], "TIME": [0.0, 0.0, 12.0], "AMT": [80.0, 100.0, 50.0]}
    )
    X = pd.DataFrame({"TIME": [12.0, 1.0, 2.0, 14.0]})
    groups = [1, 1, 2, 1]
    records, rows = Doses(doses).with_observations(X, groups=groups)
    model = OneCompartment("first-order")
    found = model.predict(records, PSI)[rows]
    whole = read_nonmem({
        "ID": [1, 1, 1, 1, 1, 2, 2],
        "TIME": [0.0, 1, 12, 12, 14, 0, 2],
        "AMT": [100.0, 0, 50, 0, 0, 80, 0],
    })  # fmt: skip
    wanted = model.predict(whole, PSI)[[3, 1, 6, 4]]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_a_dose_comes_before_observations_of_its_time():
    doses = Doses({"time": [0.0], "amt": [100.0]})
    records, rows = doses.with_observations(np.array([[0.0], [1.0]]), groups=[7, 7])
    found = OneCompartment().predict(records, {"CL": 1.0, "V": 20.0})[rows]
    np.testing.assert_allclose(found, 5.0 * np.exp([0.0, -1 / 20]), rtol=1e-12)


def test_covariates_come_from_the_next_record():
    doses = Doses({"TIME": [0.0, 10.0], "AMT": [100.0, 100.0], "RISK": [1.0, 2.0]})
    X = {"TIME": [1.0, 5.0], "WT": [70.0, 71.0]}
    records, rows = doses.with_observations(X, [3.0, 4.0], groups=["b", "b"])
    assert rows.tolist() == [1, 2]
    assert records["WT"].tolist() == [70.0, 70.0, 71.0, 71.0]
    assert records["RISK"].tolist() == [1.0, 2.0, 2.0, 2.0]
    assert records["DV"][rows].tolist() == [3.0, 4.0]
    assert records.observed.tolist() == [False, True, True, False]


def test_kinds_and_limits_of_observations():
    X = {"TIME": [1.0, 1.0], "CMT": [1, 2], "CENS": [0, 1]}
    doses = Doses({"TIME": [0.0], "AMT": [9.0], "CMT": [1], "RATE": [3.0]})
    records, rows = doses.with_observations(X, [1.0, 2.0], groups=[0, 0])
    assert records["CMT"][rows].tolist() == [1.0, 2.0]
    assert records["CENS"][rows].tolist() == [0.0, 1.0]
    assert records["RATE"].tolist() == [3.0, 0.0, 0.0]


def test_wrong_tables():
    with pytest.raises(ValueError, match="doses need a column 'AMT'"):
        Doses({"TIME": [0.0]})
    doses = Doses({"TIME": [0.0], "AMT": [1.0]})
    with pytest.raises(ValueError, match="X needs a column 'TIME'"):
        doses.with_observations({"WT": [1.0]}, groups=[0])
    with pytest.raises(ValueError, match="one label"):
        doses.with_observations({"TIME": [1.0]}, groups=[0, 0])
    with pytest.raises(ValueError, match="AMT must not be negative"):
        Doses({"TIME": [0.0], "AMT": [-1.0]}).with_observations(
            {"TIME": [1.0]}, groups=[0]
        )
    again = {"ID": [1, 2, 1], "TIME": [5, 0, 0], "AMT": [1, 1, 1], "EVID": [1, 4, 4]}
    with pytest.raises(ValueError, match="dose 3: TIME begins anew"):
        Doses(again)
    Doses({**again, "TIME": [0, 0, 5]})


def test_clocks_and_missing_kinds_in_a_table_of_doses():
    doses = Doses({"TIME": ["08:30", "20:30"], "AMT": [1.0, 1.0], "EVID": ["1", "1"]})
    records, rows = doses.with_observations({"TIME": ["9:00"]}, groups=["A"])
    assert records["TIME"][rows].tolist() == [9.0]
    assert records["TIME"].tolist() == [8.5, 9.0, 20.5]
