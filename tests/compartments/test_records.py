"""Records are read from files and frames, and errors name them."""

import gzip
import pickle

import numpy as np
import pytest

import sktem
from sktem.compartments import OneCompartment, Records, read_nonmem

TABLE = {
    "ID": [1, 1, 1, 2, 2],
    "TIME": [0.0, 1.0, 2.5, 0.0, 4.0],
    "AMT": [100.0, 0.0, 0.0, 50.0, 0.0],
    "DV": [np.nan, 4.0, 3.0, np.nan, 2.0],
    "WT": [70.0, 70.0, 70.0, 50.0, 50.0],
}
TEXT = """ID,TIME,AMT,DV,WT
1,0,100,.,70
1,1,.,4,70
1,2.5,,3,70
2,0,50,.,50
2,4,0,2,50
"""


def assert_same(found):
    wanted = read_nonmem(TABLE)
    assert found.labels.tolist() == [1, 2]
    for name in wanted.columns:
        np.testing.assert_array_equal(found[name], wanted[name])


def test_defaults():
    records = read_nonmem(TABLE)
    assert records["EVID"].tolist() == [1, 0, 0, 1, 0]
    assert records["MDV"].tolist() == [1, 0, 0, 1, 0]
    assert records.observed.tolist() == [False, True, True, False, True]
    assert records.offsets.tolist() == [0, 3, 5]
    assert records.n_subjects == 2 and len(records) == 5
    assert records["SS"].sum() == 0
    assert read_nonmem(records) is records


def test_files(tmp_path):
    plain, packed = tmp_path / "a.csv", tmp_path / "a.csv.gz"
    plain.write_text(TEXT, encoding="utf-8")
    with gzip.open(packed, "wt") as file:
        file.write(TEXT)
    for path in (plain, str(plain), packed):
        assert_same(read_nonmem(path))
    blanks = tmp_path / "b.txt"
    blanks.write_text(
        TEXT.replace(",.", ",0").replace(",,", ",.,").replace(",", " "),
        encoding="utf-8",
    )
    found = read_nonmem(blanks)
    assert found["AMT"].tolist() == [100, 0, 0, 50, 0]


def test_covariates_with_missing_fields_are_numbers():
    # As pandas reads a file of NONMEM's, whose missing values are dots.
    texts = {**TABLE, "WT": ["70", "70", ".", "50", "50.5"], "SEX": list("FFFMM")}
    for dtype in (object, str):
        columns = {name: np.array(values, dtype) for name, values in texts.items()}
        found = read_nonmem(columns)
        np.testing.assert_array_equal(found["WT"], [70, 70, np.nan, 50, 50.5])
        assert found["SEX"].tolist() == texts["SEX"]


def test_comments_are_left_out(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(TEXT + "C2,5,0,1,50\n#2,5,0,1,50\n@2,5\n", encoding="utf-8")
    assert_same(read_nonmem(path))
    # A table has them in a column, which a line of a file begins with.
    marked = {"C": [".", ".", "C", ".", np.nan], **TABLE}
    with pytest.raises(ValueError, match="column 'C' marks 1 records"):
        read_nonmem(marked)
    assert len(read_nonmem({**marked, "C": [".", ".", 1, 2, "b"]})) == 5
    assert len(read_nonmem(marked, ignore="")) == 5


def test_labels_may_begin_as_comments_do(tmp_path):
    path = tmp_path / "a.csv"
    lines = ["ID,TIME,DV", "A1,0,1", "C1,0,2", "#A1,1,3", "C2,0,4"]
    path.write_text("\n".join(lines), encoding="utf-8")
    assert read_nonmem(path).labels.tolist() == ["A1", "C1", "C2"]
    path.write_text("\n".join([lines[0], *lines[2:]]), encoding="utf-8")
    assert read_nonmem(path).labels.tolist() == ["C1", "C2"]


def test_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE)
    assert_same(read_nonmem(frame))
    mixed = frame.astype({"AMT": object})
    mixed.loc[1, "AMT"] = "."
    mixed.loc[2, "AMT"] = None
    assert_same(read_nonmem(mixed))


def test_polars():
    polars = pytest.importorskip("polars")
    assert_same(read_nonmem(polars.DataFrame(TABLE)))


def test_names_of_columns():
    lower = {name.lower(): values for name, values in TABLE.items() if name != "WT"}
    lower["conc"] = lower.pop("dv")
    found = read_nonmem(lower, columns={"DV": "conc"})
    np.testing.assert_array_equal(found["DV"], TABLE["DV"])
    with pytest.raises(ValueError, match="there is no 'con'"):
        read_nonmem(lower, columns={"DV": "con"})
    with pytest.raises(ValueError, match="columns must be names among"):
        read_nonmem(lower, columns={"CONC": "conc"})


WRONG = {
    "EVID must be 0": {"EVID": [1, 5, 0, 1, 0]},
    "TIME is before": {"TIME": [0.0, 2.0, 1.0, 0.0, 4.0]},
    "TIME must be a number": {"TIME": [0.0, np.nan, 1.0, 0.0, 4.0]},
    "II > 0": {"ADDL": [3, 0, 0, 0, 0]},
    "SS must be": {"SS": [3, 0, 0, 0, 0], "II": [1, 0, 0, 0, 0]},
    "AMT and RATE are for doses": {"EVID": [0, 0, 0, 1, 0]},
    "RATE must be positive": {"RATE": [-3, 0, 0, 0, 0]},
    "AMT must not be negative": {"AMT": [-1.0, 0, 0, 0, 0]},
    "CMT must be an integer": {"CMT": [1.5, 0, 0, 0, 0]},
    "needs SS 1": {"EVID": [1, 1, 0, 1, 0], "RATE": [0, 10, 0, 0, 0]},
    "DUR must not be negative": {"DUR": [-1.0, 0, 0, 0, 0]},
    "RATE differs": {"RATE": [5, 0, 0, 0, 0], "DUR": [100.0, 0, 0, 0, 0]},
    "AMT must be a number": {"AMT": [np.nan, 0, 0, 1, 0], "EVID": [1, 0, 0, 1, 0]},
    "days are not added": {"DAT2": [1, 1, 2, 1, 1]},
    "next to each other": {"ID": [1, 1, 2, 1, 1], "TIME": [0, 1, 1, 2, 3]},
    "'DV' must have the shape": {"DV": [1.0]},
}


@pytest.mark.parametrize("message", WRONG)
def test_errors_name_the_record(message):
    with pytest.raises(ValueError, match=message) as error:
        read_nonmem({**TABLE, **WRONG[message]})
    assert "record" in str(error.value) or "column" in str(error.value)


def test_text_that_is_no_number(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(TEXT.replace("2.5", "later"), encoding="utf-8")
    with pytest.raises(ValueError, match="record 3: TIME must be a number, got"):
        read_nonmem(path)
    path.write_text(TEXT + "3,4\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 7: 2 fields"):
        read_nonmem(path)
    path.write_text("ID,TIME\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no records"):
        read_nonmem(path)
    with pytest.raises(TypeError, match="got int"):
        read_nonmem(3)
    with pytest.raises(ValueError, match="record 4: DV .*'<2'; .* has CENS 1"):
        read_nonmem({**TABLE, "DV": [".", 4, 3, "<2", 1]})
    with pytest.raises(ValueError, match="need a column 'TIME'"):
        Records({"ID": [1]})


@pytest.mark.parametrize("unit", ["datetime64[ns]", "timedelta64[s]"])
def test_dates_and_durations_have_no_unit(unit):
    moments = np.array([0, 1, 2, 0, 4]).astype(unit)
    with pytest.raises(ValueError, match="TIME holds dates or durations"):
        read_nonmem({**TABLE, "TIME": moments})
    hours = moments.astype(np.int64)
    assert len(read_nonmem({**TABLE, "TIME": hours})) == 5


def test_labels_must_not_be_missing():
    for missing in (np.nan, None):
        labels = np.array([1, 1, missing, 2, 2], dtype=object)
        with pytest.raises(ValueError, match="record 3: ID is missing"):
            read_nonmem({**TABLE, "ID": labels})
    assert read_nonmem({**TABLE, "ID": list("aaabb")}).n_subjects == 2


def test_other_encodings(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("ID,TIME,UNIT\n1,0,µg\n1,2,µg\n".encode("latin-1"))
    assert read_nonmem(path)["UNIT"].tolist() == ["µg", "µg"]


def test_doses_of_nothing_are_none():
    amounts = {"AMT": [10.0, 0, 0, 0, 0], "EVID": [1, 0, 0, 1, 0]}
    assert read_nonmem({**TABLE, **amounts}).undosed.tolist() == [
        False, False, False, True, True
    ]  # fmt: skip


def test_infusions_by_their_duration():
    given = {"ID": [1, 1], "TIME": [0, 3], "AMT": [100, 0]}
    by_rate = read_nonmem({**given, "RATE": [50, 0]})
    psi = {"CL": 1.0, "V": 10.0}
    wanted = OneCompartment().predict(by_rate, psi)
    for more in ({}, {"RATE": [50.0, 0]}, {"RATE": [".", "."]}):
        records = read_nonmem({**given, "dur": [2, np.nan], **more})
        np.testing.assert_array_equal(OneCompartment().predict(records, psi), wanted)


def test_times_of_a_clock_are_in_hours():
    times = read_nonmem({"ID": [1] * 3, "TIME": ["08:00", "9:30", "13:30:36"]})["TIME"]
    np.testing.assert_allclose(times, [8, 9.5, 13.51])
    dated = {"ID": [1, 1, 2], "DATE": [1, 1, 2], "TIME": [0, 1, 0]}
    assert read_nonmem(dated)["DATE"].tolist() == [1, 1, 2]
    # TIME that goes on has no need of dates.
    read_nonmem({"ID": [1, 1], "DATE": [1, 2], "TIME": [0, 24]})


def test_tables_as_programs_write_them(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("ID,TIME,NOTE\n1,0,\"a, b\"\n1,1,'c'\n", encoding="utf-8")
    assert read_nonmem(path)["NOTE"].tolist() == ["a, b", "c"]
    path.write_text("TABLE NO.  1\n ID TIME DV\n 1 0 2.5\n", encoding="utf-8")
    assert read_nonmem(path)["DV"].tolist() == [2.5]
    path.write_text("ID,TIME,DV,DV\n1,0,1,2\n", encoding="utf-8")
    with pytest.raises(ValueError, match="several columns 'DV'"):
        read_nonmem(path)


def test_resets_may_begin_anew():
    table = {**TABLE, "EVID": [4, 0, 4, 1, 0], "TIME": [0, 3, 0, 0, 4]}
    table["AMT"] = [100.0, 0.0, 100.0, 50.0, 0.0]
    found = OneCompartment().predict(table, {"CL": 1.0, "V": 10.0})
    np.testing.assert_allclose(found[[0, 2]], 10.0)


def test_other_events_do_nothing():
    table = {"ID": [1] * 4, "TIME": [0, 1, 1, 2], "EVID": [1, 2, 0, 0]}
    table["AMT"] = [100, 0, 0, 0]
    found = OneCompartment().predict(table, {"CL": 1.0, "V": 10.0})
    np.testing.assert_allclose(found, 10 * np.exp([0, -0.1, -0.1, -0.2]))


def test_room_is_lazy_and_public():
    assert "compartments" in sktem.__all__
    assert sktem.compartments.read_nonmem is read_nonmem
    assert "ODE" in dir(sktem.compartments)
    with pytest.raises(AttributeError, match="no_such"):
        sktem.compartments.no_such  # noqa: B018
    records = pickle.loads(pickle.dumps(read_nonmem(TABLE)))
    assert_same(records)
