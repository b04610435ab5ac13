"""Kinds of visible units that the rows say, by default."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktem import LatentBoltzmannMachine
from sktem.exceptions import FitWarning

SHORT = dict(hidden_layer_sizes=2, max_iter=3, tol=None, random_state=0)
RNG = np.random.default_rng(0)
BITS = (RNG.random((60, 4)) < 0.5) * 1.0
SHARES = RNG.random((60, 4))
NUMBERS = RNG.normal(size=(60, 4))
HOLES = np.where(RNG.random((60, 4)) < 0.1, np.nan, BITS)
MIXED = np.c_[BITS[:, :2], NUMBERS]
OF_MIXED = ["binary"] * 2 + ["gaussian"] * 4


@pytest.mark.parametrize(
    "X, kind",
    [
        (BITS, "binary"), (SHARES, "binary"), (BITS > 0, "binary"),
        (BITS.tolist(), "binary"), (sparse.csr_array(BITS), "binary"),
        (HOLES, "binary"), (2 * BITS - 1, "spin"), (2 * HOLES - 1, "spin"),
        (NUMBERS, "gaussian"), (NUMBERS.astype(object), "gaussian"),
        (NUMBERS + 3.0, "gaussian"), (np.c_[NUMBERS, np.ones(60)], "gaussian"),
        (3 * BITS, "gaussian"),
    ],
)  # fmt: skip
def test_rows_say_the_kind(X, kind):
    """The fit is that of the kind said in words; so are streams and copies."""
    if kind == "gaussian" and np.allclose(np.asarray(X, float) % 3, 0):
        with pytest.warns(FitWarning, match="Columns 0, 1, 2, ... hold few distinct"):
            found = LatentBoltzmannMachine(**SHORT).fit(X)
    else:
        found = LatentBoltzmannMachine(**SHORT).fit(X)
    given = LatentBoltzmannMachine(visible=kind, **SHORT).fit(X)
    assert found.visible_ == given.visible_ == kind
    np.testing.assert_array_equal(found.params_, given.params_)
    again = pickle.loads(pickle.dumps(found))
    assert again.partial_fit(X).visible_ == kind
    np.testing.assert_array_equal(again.transform(X), found.partial_fit(X).transform(X))
    assert clone(found).visible == "auto"
    streams = [LatentBoltzmannMachine(visible=v, **SHORT) for v in ("auto", kind)]
    for stream in streams:
        for part in (X[:25], X[25:]):
            stream.partial_fit(part)
    np.testing.assert_array_equal(streams[0].params_, streams[1].params_)


def test_columns_of_several_kinds():
    pandas = pytest.importorskip("pandas")
    machine = LatentBoltzmannMachine(**SHORT).fit(MIXED)
    assert machine.visible_ == OF_MIXED
    assert machine.unit_names_[-2:] == ["x0", "x1"]
    frame = pandas.DataFrame(MIXED, columns=list("abcdef"))
    of_frame = LatentBoltzmannMachine(**SHORT).fit(frame)
    np.testing.assert_array_equal(of_frame.params_, machine.params_)
    assert list(of_frame.sample(2).columns) == list("abcdef")
    words = np.array([["a", "b"], ["b", "c"]] * 10)
    assert LatentBoltzmannMachine(**SHORT).fit(words).visible_ == ["categorical"] * 2
    with pytest.raises(ValueError, match="Columns 0, 1 of X hold zeros and ones, and"):
        LatentBoltzmannMachine(**SHORT).partial_fit(MIXED)
    with pytest.raises(ValueError, match="cannot begin with a table"):
        LatentBoltzmannMachine(**SHORT).partial_fit(words)


@pytest.mark.parametrize("X, kind", [(BITS, "binary"), (NUMBERS, "gaussian")])
def test_rows_in_files(X, kind, tmp_path):
    np.save(tmp_path / "rows.npy", X)
    files = np.load(tmp_path / "rows.npy", mmap_mode="r")
    machine = LatentBoltzmannMachine(**SHORT).fit([files[:30], files[30:]].__iter__)
    held = LatentBoltzmannMachine(**SHORT).fit(X)
    np.testing.assert_array_equal(machine.params_, held.params_)
    with pytest.raises(ValueError, match="Columns 0, 1 of X hold zeros and ones, and"):
        LatentBoltzmannMachine(**SHORT).fit([MIXED[:30], MIXED[30:]].__iter__)


@pytest.mark.parametrize("method", ["partial_fit", "score", "transform"])
def test_rows_that_contradict_the_kind(method):
    machine = LatentBoltzmannMachine(**SHORT).partial_fit(BITS)
    before = machine.params_.copy()
    with pytest.raises(ValueError, match="from 0 to 2, and visible='auto' has taken"):
        getattr(machine, method)(2 * BITS)
    np.testing.assert_array_equal(machine.params_, before)
    # Real numbers may be in [0, 1].
    real = LatentBoltzmannMachine(**SHORT).partial_fit(NUMBERS)
    getattr(real, method)(BITS)
    assert real.visible_ == "gaussian"


def test_each_fit_looks_anew_unless_warm():
    machine = LatentBoltzmannMachine(**SHORT).fit(NUMBERS)
    assert machine.fit(BITS).visible_ == "binary"
    with pytest.raises(ValueError, match="visible='auto' has taken"):
        machine.set_params(warm_start=True).fit(NUMBERS)
    on_graph = LatentBoltzmannMachine(np.ones((4, 4)) - np.eye(4), max_iter=2, tol=None)
    assert on_graph.fit(BITS).visible_ == "binary"
    assert on_graph.fit(2 * BITS - 1).visible_ == "spin"
    with pytest.raises(ValueError, match="must be in .0, 1. for visible='binary'"):
        on_graph.fit(NUMBERS)
    above = LatentBoltzmannMachine(binarize=0.0, **SHORT).fit(NUMBERS)
    assert above.visible_ == "binary"


def test_searches_and_pipelines():
    pipeline = make_pipeline(StandardScaler(), LatentBoltzmannMachine(**SHORT))
    sizes = {"latentboltzmannmachine__hidden_layer_sizes": [1, 2]}
    search = GridSearchCV(pipeline, sizes, cv=2).fit(NUMBERS)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_[-1].visible_ == "gaussian"


@pytest.mark.filterwarnings("error")
def test_codes_are_told_where_nothing_was_said():
    codes = RNG.integers(1, 5, (60, 3)).astype(float)
    X = np.c_[codes, NUMBERS]
    with pytest.warns(FitWarning, match="Columns 0, 1, 2 hold few distinct whole"):
        LatentBoltzmannMachine(**SHORT).fit(X)
    # Said in words, or not few beside the rows, there is nothing to tell.
    kinds = ["categorical"] * 3 + ["gaussian"] * 4
    for visible in (kinds, "gaussian"):
        LatentBoltzmannMachine(visible=visible, **SHORT).fit(X)
    LatentBoltzmannMachine(**SHORT).fit(X[:15])
    LatentBoltzmannMachine(**SHORT).fit(np.c_[RNG.poisson(40, 60), NUMBERS])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_skewed_columns_are_told():
    """Not columns of clusters, however unequal: a machine has these."""
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(600, 2)) @ [[1.0, 0.6], [0.0, 0.8]]
    with pytest.warns(FitWarning, match="0, 1 are skewed.*PowerTransformer"):
        LatentBoltzmannMachine(hidden_layer_sizes=4, random_state=0).fit(np.exp(normal))
    rare = 10.0 * (rng.random((600, 1)) < 0.05) + rng.normal(size=(600, 2))
    LatentBoltzmannMachine(hidden_layer_sizes=4, random_state=0).fit(rare)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_values_far_out_are_told():
    """Of both signs, so that no power transform brings them near."""
    X = np.random.default_rng(0).normal(size=(600, 2))
    X[[3, 7], 1] = 400.0, -300.0
    machine = LatentBoltzmannMachine(hidden_layer_sizes=2, random_state=0, max_iter=20)
    with pytest.warns(FitWarning, match="Columns 1 have .* QuantileTransformer"):
        machine.fit(X)
    # A negative control is in the test of skewed columns: logarithms do there.


@pytest.mark.parametrize("column", [np.nan, 1e150, 1e-200])
@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_columns_without_a_power_transform(column):
    """Their fit does not fail after its end: nothing observed, or out of range."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    X[:, 2] *= column
    machine = LatentBoltzmannMachine(hidden_layer_sizes=3, random_state=0, max_iter=20)
    assert np.isfinite(machine.fit(X).params_).all()
