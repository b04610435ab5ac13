"""Warnings of fits to rows that have little to learn, and to rows that have much."""

import warnings

import numpy as np
import pytest

from sktem import LatentBoltzmannMachine
from sktem.exceptions import FitWarning


def told(X, **options):
    """Return the fitted machine, and the texts of its warnings."""
    machine = LatentBoltzmannMachine(**{"random_state": 0} | options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        machine.fit(X)
    return machine, [str(w.message) for w in caught]


@pytest.mark.parametrize("seed", range(3))
def test_independent_columns_are_fitted_without_an_error(seed):
    """Where the fit ends just below independent columns, in no triple."""
    rng = np.random.default_rng(seed)
    told(rng.random((100, 4)))
    told((rng.random((3, 4)) < 0.5) * 1.0)


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("n_rows", [20, 50, 1000])
def test_columns_of_one_value_depend_on_nothing(value, n_rows):
    X = np.full((n_rows, 20), value)
    assert not told(X, hidden_layer_sizes=3)[1]
    # Neither do they with a coin beside them.
    X[: n_rows // 2, 0] = 1.0 - value
    assert not any("not found" in text for text in told(X, hidden_layer_sizes=3)[1])


@pytest.mark.parametrize("seed", range(3))
def test_triples_that_were_found_are_not_told(seed):
    """An exclusive or among coins; of few rows it is not found, and told."""
    coins = np.random.default_rng(seed).integers(0, 2, (400, 7)) * 1.0
    X = np.column_stack([coins, coins[:, 0] != coins[:, 1]])
    machine, texts = told(X)
    assert machine.score(X) > -7 * np.log(2) - 0.1
    assert not texts
    machine, texts = told(X[:60])
    assert machine.score(X) < -7 * np.log(2) - 0.3
    assert len(texts) == 1 and "Columns 0, 1 and 7 depend" in texts[0]
    assert "is 1 in 0% of the rows" in texts[0]


@pytest.mark.parametrize("seed", range(3))
def test_gains_by_chance_are_told_of_few_rows(seed):
    """Correlations of ten rows are large by chance, more than those of many rows."""
    rng = np.random.default_rng(seed)
    X = (rng.random((10, 30)) < 0.5) * 1.0
    machine = LatentBoltzmannMachine(random_state=0)
    with pytest.warns(FitWarning, match="by chance"):
        machine.fit(X)
    new = (rng.random((500, 30)) < 0.5) * 1.0
    share = (X.sum(axis=0) + 0.5) / 11
    alone = (new * np.log(share) + (1 - new) * np.log1p(-share)).sum(axis=1).mean()
    assert machine.score(new) < alone - 0.5
    # The negative control: ten rows of two patterns.
    patterns = X[rng.integers(2, size=10)]
    assert not told(np.where(rng.random((10, 30)) < 0.05, 1 - patterns, patterns))[1]


@pytest.mark.parametrize("others", [[], [[0.0, 1.0] * 30]])
def test_real_columns_of_one_value_are_told(others):
    """Also in tables; not columns that vary, however little."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(60, 2)), np.full(60, 5.0), *others])
    options = {"max_iter": 3, "hidden_layer_sizes": 2}
    name = "x2" if others else "2"
    (text,) = [text for text in told(X, **options)[1] if "one value" in text]
    assert text.startswith(f"Columns {name} hold one value alone")
    X[0, 2] += 1e-3
    assert not any("one value" in text for text in told(X, **options)[1])


def latent_class(rng, n):
    """Return six binary columns that depend on two classes of the rows."""
    share = np.where(rng.random((n, 1)) < 0.5, 0.9, 0.1)
    return (rng.random((n, 6)) < share) * 1.0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("opposite", [False, True])
def test_binary_copies_of_columns_are_told(seed, opposite):
    """New rows are more likely without them, though there is as much to learn."""
    rng = np.random.default_rng(seed)
    X, new = latent_class(rng, 150), latent_class(rng, 2000)
    pairs = [np.column_stack([Y, 1 - Y if opposite else Y]) for Y in (X, new)]
    machine, texts = told(pairs[0])
    (text,) = [text for text in texts if "copies of others" in text]
    assert text.startswith("Columns 6, 7, 8, ... are copies")
    alone, texts = told(X)
    assert alone.score(new) > machine.score(pairs[1]) + 0.2
    # The negative controls: no copies, copies by chance, and rows of few patterns.
    assert not any("copies of others" in text for text in texts)
    few = (rng.random((8, 40)) < 0.3) * 1.0
    rare = (rng.random((100, 40)) < 0.01) * 1.0
    patterns = np.repeat([[0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]], 50, axis=0)
    for others in (few, rare, patterns):
        texts = told(others, hidden_layer_sizes=8)[1]
        assert not any("copies of others" in text for text in texts)


@pytest.mark.parametrize("seed", range(3))
def test_linear_functions_of_columns_are_told(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 3)) * [1e-6, 1.0, 1e6]
    options = {"max_iter": 3, "hidden_layer_sizes": 2}
    for extra in (X[:, 1], 2.5 * X[:, 0] + 7, X @ [1e6, 1.0, 1e-6]):
        texts = told(np.column_stack([X, extra]), **options)[1]
        assert any("linear functions of others" in text for text in texts)
    near = X[:, 1] + 1e-3 * rng.normal(size=80)
    holes = np.where(rng.random((80, 3)) < 0.1, np.nan, X)
    for others in (X, np.column_stack([X, near]), holes, X[:4], X[:2]):
        texts = told(others, **options)[1]
        assert not any("linear functions" in text for text in texts)
