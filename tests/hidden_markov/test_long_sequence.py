"""One sequence read by blocks: the numbers of one in memory."""

import numpy as np
import pandas as pd
import pytest

from sktem import HiddenMarkovModel
from sktem.emissions import Autoregression, Gaussian, Regression
from sktem.hidden_markov.blocks import SeriesColumns, scale_of
from sktem.hidden_markov.given import BlockReader, TableReader
from sktem.hidden_markov.long_sequence import BlockRule, LongSequence
from sktem.rows import as_rows
from tests.hidden_markov.chains import draw_sequences

X, _ = draw_sequences(
    [500], [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], [[0.0], [3.0]],
    np.random.default_rng(1),
)  # fmt: skip
X[100], X[300:303] = np.nan, np.nan
Z = np.random.default_rng(2).normal(size=(500, 1))
X[77] = 40.0  # whose densities are too small for a float in one of the states
BOTH = np.column_stack([X, Z])
quiet = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore::sktem.exceptions.FitWarning",
)


def pieces(kind, path, rows):
    """Return rows in a file, of Parquet in row groups."""
    if kind == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        table = pd.DataFrame(rows, columns=["x", "z"][: rows.shape[1]])
        table.to_parquet(path / "rows.parquet", index=False, row_group_size=120)
        assert parquet.ParquetFile(path / "rows.parquet").num_row_groups == 5
        return path / "rows.parquet"
    np.save(path / "rows.npy", rows)
    return str(path / "rows.npy")


def long(kind, path, rows, covariates, emission):
    """Return a long sequence that is cut into many blocks."""
    source = as_rows(pieces(kind, path, rows))
    features = np.array([j for j in range(rows.shape[1]) if j not in covariates])
    reader = BlockReader(features, np.array(covariates, int), emission)
    return LongSequence(source, reader, rule=BlockRule(rows=37))


@quiet
@pytest.mark.parametrize("kind", ["parquet", "npy"])
@pytest.mark.parametrize("case", ["gaussian", "covariates", "regression", "means"])
def test_statistics_are_those_of_one_piece(kind, case, tmp_path):
    covariates = [1] if case == "covariates" else []
    emissions = {"regression": Regression(order=2), "means": Autoregression(2)}
    emission = emissions.get(case, Gaussian())
    rows, given = (BOTH, {"covariates": Z}) if covariates else (X, {})
    hmm = HiddenMarkovModel(2, emission=emission, max_iter=3, tol=0, random_state=0)
    fitted, whole = hmm.fit(X, **given)._asked(X, None, None, **given)
    model, params = fitted.model, fitted.params
    blocks = long(kind, tmp_path, rows, covariates, emission)
    assert blocks.n_blocks == (5 if kind == "parquet" else 14)
    found, value = model.expected_statistics(blocks, params)
    expected, log_likelihood = model.expected_statistics(whole, params)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    assert value == pytest.approx(log_likelihood, rel=1e-12)
    assert model.log_likelihood(blocks, params)[0] == pytest.approx(value, rel=1e-12)
    # The negative control: blocks that begin anew.
    parts = np.array_split(np.arange(500), 14)
    anew, _ = hmm._asked(X, None, [len(one) for one in parts], **given)
    pieces_of = hmm._asked(X, None, [len(one) for one in parts], **given)[1]
    assert abs(anew.model.expected_statistics(pieces_of, params)[1] - 14 * value) > 1e-3


@quiet
@pytest.mark.parametrize("solver", ["em", "squarem"])
def test_fits_of_files(solver, tmp_path):
    path = pieces("npy", tmp_path, X)
    model = HiddenMarkovModel(2, solver=solver, max_iter=6, tol=0, random_state=0)
    whole = model.fit(X)
    transitions, means = whole.transitions_, whole.emission_params_.means
    score, bic = whole.score(X), whole.bic(X)
    hmm = model.fit(path)
    np.testing.assert_allclose(hmm.transitions_, transitions, rtol=1e-9)
    np.testing.assert_allclose(hmm.emission_params_.means, means, rtol=1e-9)
    assert hmm.score(path) == pytest.approx(score, rel=1e-10)
    assert hmm.bic(path) == pytest.approx(bic, rel=1e-10)


@quiet
@pytest.mark.parametrize("kind", ["parquet", "npy"])
@pytest.mark.parametrize("covariates", [[], [1]])
def test_states_are_those_of_one_piece(kind, covariates, tmp_path):
    rows, given = (BOTH, {"covariates": Z}) if covariates else (X, {})
    hmm = HiddenMarkovModel(2, emission_init={"means": [[0.5], [1.5]]}, max_iter=3,
                            tol=0, random_state=0).fit(X, **given)  # fmt: skip
    fitted = hmm.fitted_
    blocks = long(kind, tmp_path, rows, covariates, Gaussian())
    path = list(fitted.long_paths(blocks))
    assert len(path) == blocks.n_blocks
    expected = hmm.predict(X, **given)
    np.testing.assert_array_equal(np.concatenate(path), expected)
    smooth = np.concatenate(list(fitted.long_smooth(blocks)))
    np.testing.assert_allclose(smooth, hmm.predict_proba(X, **given), atol=1e-10)
    # The negative control: blocks for themselves.
    sizes = np.diff(blocks.edges)
    apart = hmm.predict_proba(X, lengths=sizes, **given)
    assert np.abs(apart - smooth).max() > 1e-3
    file = pieces("npy", tmp_path, rows)
    names = {"covariates": covariates} if covariates else {}
    for method in ("viterbi", "marginal"):
        (found,) = hmm.predict(file, method=method, **names)
        whole = hmm.predict(X, method=method, **given)
        np.testing.assert_array_equal(found, whole)


@quiet
def test_what_is_refused(tmp_path):
    path = pieces("npy", tmp_path, X)
    for options in ({"solver": "online"}, {"durations": "poisson"}):
        with pytest.raises(ValueError, match="one sequence that is read by blocks"):
            HiddenMarkovModel(2, **options).fit(path)
    with pytest.raises(ValueError, match=r"columns \[1\]: leave them out"):
        lost = np.where([True, False], X, np.nan)
        HiddenMarkovModel(2).fit(pieces("npy", tmp_path, lost))
    hmm = HiddenMarkovModel(2, max_iter=1, tol=1.0, random_state=0).fit(X)
    with pytest.raises(TypeError, match="X would be read by blocks"):
        hmm.decode(path)
    source = as_rows(lambda: iter([X]))
    with pytest.raises(ValueError, match="write row groups"):
        reader = BlockReader(np.array([0]), np.empty(0, int), Gaussian())
        LongSequence(source, reader, rule=BlockRule(most=100))
    found = SeriesColumns.of(source, None, None).sequences(TableReader(Gaussian()))
    assert isinstance(found, LongSequence)


@pytest.mark.parametrize("kind", ["parquet", "npy"])
def test_covariates_of_single_precision_are_added_in_double(kind, tmp_path):
    values = np.random.default_rng(3).normal(1e4, 1.0, size=(500, 2))
    rows = values.astype(np.float32)
    blocks = long(kind, tmp_path, rows, [1], Gaussian())
    wanted = rows[:, 1].astype(np.float64)
    np.testing.assert_allclose(blocks.covariate_range[2], [wanted.sum()], rtol=1e-13)
    np.testing.assert_allclose(scale_of(blocks).centre, [wanted.mean()], rtol=1e-13)
