"""Machines of tables: numbers, truth values and categories side by side."""

import pickle

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.base import clone

from sktem import LatentBoltzmannMachine

KINDS = ["categorical", "gaussian", "binary", "categorical"]
SHORT = dict(hidden_layer_sizes=2, max_iter=20, tol=None, random_state=0)


def values(n=600, seed=0):
    """Columns that depend on a hidden state."""
    rng = np.random.default_rng(seed)
    state = rng.integers(2, size=n)
    colour = np.where(rng.random(n) < 0.8, state, 2)
    size = 5.0 + 3 * state + rng.standard_normal(n)
    old = rng.random(n) < np.where(state, 0.9, 0.2)
    grade = np.where(rng.random(n) < 0.7, 3 * state, 7)
    return colour, size, old, grade


def frame(n=600, seed=0, package="pandas"):
    package = pytest.importorskip(package)
    colour, size, old, grade = values(n, seed)
    colours = np.array(["red", "green", "blue"])[colour]
    return package.DataFrame(
        {"colour": colours, "size": size, "old": old, "grade": grade.astype(str)}
    )


def array(n=600, seed=0):
    return np.column_stack([column.astype(float) for column in values(n, seed)])


def test_likelihoods_are_those_of_all_categories():
    """Their sum over the discrete columns, by the density of the number, is one."""
    X = array()
    machine = LatentBoltzmannMachine(visible=KINDS, **SHORT).fit(X)
    sizes = np.linspace(-8, 22, 601)
    rows = [[c, s, o, g] for c in range(3) for s in sizes for o in (0, 1)
            for g in (0, 3, 7)]  # fmt: skip
    total = np.exp(logsumexp(machine.score_samples(np.array(rows)))) * 0.05
    assert total == pytest.approx(1.0, abs=1e-4)


def test_a_machine_without_use_of_hidden_units_is_independent():
    """Rows that are independent have the likelihood of their frequencies."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(3, size=2000), rng.normal(4, 2, 2000)])
    machine = LatentBoltzmannMachine(
        visible=["categorical", "gaussian"], hidden_layer_sizes=1, random_state=0
    ).fit(X)
    p = np.bincount(X[:, 0].astype(int)) / 2000
    expected = (
        p @ np.log(p) + norm(X[:, 1].mean(), X[:, 1].std()).logpdf(X[:, 1]).mean()
    )
    assert expected - 1e-3 < machine.score(X) < expected + 0.01


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_digits_as_text_are_labels(package):
    """With and without a column of other text; numbers as objects are numbers."""
    package = pytest.importorskip(package)
    grade, size = values(60)[3], values(60)[1]
    texts, numbers = grade.astype(str), [*size[:-1].tolist(), None]
    for others in ({}, {"colour": ["red", "blue"] * 30}):
        X = package.DataFrame({"grade": texts, "size": numbers} | others)
        machine = LatentBoltzmannMachine(**SHORT).fit(X)
        assert machine.visible_[:2] == ["categorical", "gaussian"]
        assert set(machine.sample(50)["grade"]) <= set(texts)
    X = package.DataFrame({"size": numbers, "other": numbers[::-1]})
    if hasattr(X, "astype"):
        X = X.astype(object)
    assert LatentBoltzmannMachine(**SHORT).fit(X).visible_ == "gaussian"


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_frames(package):
    X = frame(package=package)
    machine = LatentBoltzmannMachine(visible="auto", **SHORT).fit(X)
    same = LatentBoltzmannMachine(visible=KINDS, **SHORT).fit(X)
    np.testing.assert_array_equal(machine.params_, same.params_)
    assert machine.n_features_in_ == 4
    assert list(machine.feature_names_in_) == ["colour", "size", "old", "grade"]
    assert machine.unit_names_ == [
        "size", "colour=blue", "colour=green", "colour=red",
        "grade=0", "grade=3", "grade=7", "old",
    ]  # fmt: skip
    assert machine.variances_.shape == (1,)
    drawn = machine.sample(300)
    assert type(drawn) is type(X) and list(drawn.columns) == list(X.columns)
    assert list(drawn.dtypes) == list(X.dtypes)
    assert set(drawn["colour"]) <= {"red", "green", "blue"}
    assert machine.transform(X).shape == (600, 2)
    again = pickle.loads(pickle.dumps(machine))
    np.testing.assert_array_equal(again.score_samples(X), machine.score_samples(X))
    coded = LatentBoltzmannMachine(visible=KINDS, **SHORT).fit(array())
    assert coded.score(array()) == pytest.approx(machine.score(X), abs=0.1)


def test_missing_values_are_filled_and_others_kept():
    pandas = pytest.importorskip("pandas")
    X, holed = frame(), frame()
    rng = np.random.default_rng(0)
    holes = rng.random(X.shape) < 0.2
    holed = X.astype(object).mask(holes)
    holed["size"] = holed["size"].astype(float)
    machine = LatentBoltzmannMachine(visible="auto", **{**SHORT, "max_iter": 80})
    machine.fit(holed)
    for fill in (machine.impute, machine.sample_conditional):
        found = fill(holed)
        assert not found.isna().any().any()
        for k, name in enumerate(X.columns):
            kept = ~holes[:, k]
            assert (found[name][kept] == X[name][kept]).all()
    found = machine.impute(holed)
    lost = holes[:, 1]
    error = np.mean((found["size"] - X["size"])[lost] ** 2)
    assert error < 0.7 * X["size"].var()
    right = (found["old"] == X["old"])[holes[:, 2]].mean()
    assert right > max(X["old"].mean(), 1 - X["old"].mean()) + 0.05
    # Chains agree with the exact expectations, but for their noise.
    chains = machine.impute(holed, n_steps=200, n_chains=4)
    spread = np.abs((chains["size"] - found["size"])[lost])
    assert spread.mean() < 0.1 * X["size"].std()
    # Results go beside their rows; draws are numbered.
    turned = holed[::-1]
    for fill in (machine.impute, machine.sample_conditional):
        assert fill(turned).index.equals(turned.index)
    assert (machine.impute(turned)["size"] - found["size"]).abs().max() < 1e-6
    assert machine.sample(3).index.tolist() == [0, 1, 2]
    nullable = holed.astype({"old": "boolean", "colour": "category"})
    filled = machine.impute(nullable)
    assert isinstance(filled, pandas.DataFrame) and not filled.isna().any().any()


def test_conditional_draws_have_the_right_frequencies():
    machine = LatentBoltzmannMachine(visible="categorical", **SHORT)
    colour, _, old, grade = values()
    X = np.column_stack([colour, old, grade]).astype(float)
    machine.fit(X)
    partly = np.full((4000, 3), np.nan)
    partly[:, 2] = 3.0
    drawn = machine.sample_conditional(partly)
    rows = np.array([[c, o, 3] for c in (0, 1, 2) for o in (0, 1)], float)
    p = np.exp(machine.score_samples(rows))
    p = (p / p.sum()).reshape(3, 2)
    for k in range(3):
        share = np.mean(drawn[:, 0] == k)
        q = p[k].sum()
        assert abs(share - q) < 4.5 * np.sqrt(q * (1 - q) / 4000)
    assert (machine.impute(partly)[:, 1] == p.sum(axis=0).argmax()).all()
    units, pairs = machine.marginals()
    everything = np.array(
        [[c, o, g] for c in (0, 1, 2) for o in (0, 1) for g in (0, 3, 7)], float
    )
    weights = np.exp(machine.score_samples(everything))
    by_grade = [weights[everything[:, 2] == g].sum() for g in (0, 3, 7)]
    np.testing.assert_allclose(units[0][5:], by_grade, atol=1e-5)


def test_weights_count_rows():
    X, weights = array(60), np.random.default_rng(0).integers(0, 3, 60)
    found = []
    for rows, of in ((X, weights), (np.repeat(X, weights, axis=0), None)):
        machine = LatentBoltzmannMachine(visible=KINDS, hidden_layer_sizes=1)
        machine.set_params(max_iter=0, tol=None, random_state=0)
        machine.fit(rows, sample_weight=of)
        found.append(machine.params_)
    np.testing.assert_allclose(*found, atol=1e-5)


def test_deep_machines_and_streams():
    X = frame()
    machine = LatentBoltzmannMachine(
        visible="auto", hidden_layer_sizes=(3, 2), max_iter=5, tol=None, random_state=0
    )
    with pytest.raises(ValueError, match="use fit first"):
        clone(machine).partial_fit(X)
    before = machine.fit(X).params_
    machine.partial_fit(X)
    assert np.abs(machine.params_ - before).max() > 0
    machine.set_params(warm_start=True).fit(X)
    assert np.isfinite(machine.score(X))


@pytest.mark.parametrize(
    "options, rows, message",
    [
        (dict(visible=["binary"]), array(), "1 kinds, and X has 4 columns"),
        (dict(visible=["word"] * 4), array(), "visible"),
        (dict(visible="categorical", graph=[(0, 1), (1, 2), (2, 3)],
              hidden_layer_sizes=None),
         array(), "layers"),
        (dict(visible=KINDS, binarize=0.5), array(), "binarize"),
        (dict(visible=["binary"] * 4), array(), "has 3 values"),
        (dict(visible=["gaussian"] * 4), np.array([["a"] * 4] * 9, object),
         "column 'x0' is to hold numbers: .*float"),
        (dict(visible={"x0": "gaussian"}), array(), "got a dict"),
        (dict(visible=["gaussian"] * 4), array() * [1, 1, np.nan, 1],
         "column 'x2' has no value"),
        (dict(visible="auto"), array().astype("M8[s]"),
         "column 'x0' has type datetime"),
    ],
)  # fmt: skip
def test_bad_tables(options, rows, message):
    with pytest.raises(ValueError, match=message):
        LatentBoltzmannMachine(**{**SHORT, **options}).fit(rows)


def test_bad_rows():
    machine = LatentBoltzmannMachine(visible=KINDS, **SHORT).fit(array())
    row = array()[:1]
    with pytest.raises(ValueError, match="NaN: score_samples needs rows .* impute"):
        machine.score(np.where([0, 1, 0, 0], np.nan, row))
    with pytest.raises(ValueError, match=r"'x3' has the value 5\.0"):
        machine.score(np.where([0, 0, 0, 1], 5.0, row))
    with pytest.raises(ValueError, match="features"):
        machine.score(row[:, :3])
    with pytest.raises(ValueError, match="visible='binary' or 'spin'"):
        machine.pseudo_log_likelihood(row)
