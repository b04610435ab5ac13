"""The loop of passes over columns of labels, and the passes that it replaces."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from sktem.emissions import Categorical, Columns, Gaussian, Poisson
from sktem.emissions.kernels.categories import code_cells
from sktem.mixture.emission_model import EmissionMixtureModel
from sktem.mixture.kernels.labels import Numbers, expected_counts
from sktem.mixture.label_pass import LabelRows

COUNTS, COLUMNS, K = np.array([3, 2, 5]), np.array([1, 3, 0]), 3


def block(n):
    """Return rows with holes, codes of three of their columns, and tables of logs."""
    rng = np.random.default_rng(0)
    codes = rng.integers(COUNTS + 1, size=(n, 3))
    X = rng.normal(size=(n, 4))
    X[:, COLUMNS] = np.where(codes < COUNTS, codes, np.nan)
    table, log_weights = rng.normal(size=(K, 3, 6)), rng.normal(size=K)
    return X, codes, table, log_weights, rng.normal(size=(n, K)), rng.random(n)


def normal(columns):
    """Return normal columns with any parameters, and moments that are zero."""
    d, rng = len(columns), np.random.default_rng(2)
    shape = K, d
    own = rng.normal(size=d), rng.normal(size=shape), rng.random(shape) + 0.5
    return Numbers(np.array(columns, dtype=int), *own, np.zeros(shape), np.zeros(shape))


@pytest.mark.parametrize("n", [1, 127, 3000])
@pytest.mark.parametrize("has_rest", [False, True])
@pytest.mark.parametrize("has_numbers", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_expected_counts(n, has_rest, has_numbers, weighted):
    X, codes, table, log_weights, rest, weights = block(n)
    rest = rest if has_rest else rest[:0]
    weights = weights if weighted else weights[:0]
    found, sums = np.empty((n, K)), np.empty((3, 6, K))
    numbers = normal([2] if has_numbers else [])
    own = X, code_cells(X, COLUMNS, COUNTS + 1, n), n, COUNTS + 1, table, numbers
    value = expected_counts(*own, log_weights, rest, weights, found, sums)
    joint = table[:, np.arange(3), codes].sum(axis=2).T + log_weights
    joint = joint + rest if has_rest else joint
    z = X[:, numbers.columns] - numbers.centre
    y = (z[:, None] - numbers.means) * numbers.factors
    joint = joint - 0.5 * (y**2).sum(axis=2)
    each = weights if weighted else np.ones(n)
    top = logsumexp(joint, axis=1)
    R = np.exp(joint - top[:, None]) * each[:, None]
    assert_allclose(value, each @ top, rtol=1e-12)
    assert_allclose(found, R, rtol=1e-11, atol=1e-14)
    for j in range(3):
        for code in range(6):
            assert_allclose(sums[j, code], R[codes[:, j] == code].sum(axis=0), 1e-11)
    assert_allclose(numbers.first, R.T @ z, rtol=1e-10, atol=1e-12)
    assert_allclose(numbers.second, R.T @ z**2, rtol=1e-10, atol=1e-12)


def test_rows_with_an_unknown_code_have_no_cells():
    X = block(200)[0]
    assert len(code_cells(X, COLUMNS, COUNTS + 1, 200)) == 200
    for wrong in (-1.0, 0.5, 2.0, np.inf):  # the codes of the column are 0, 1 and NaN
        X[150, 3] = wrong
        assert len(code_cells(X, COLUMNS, COUNTS + 1, 200)) == 0


@pytest.mark.parametrize("fault", ["none", "nan", "impossible", "hole", "rare"])
def test_rows_that_the_loop_leaves_to_others(fault):
    X, _, table, log_weights, rest, weights = block(200)
    if fault == "rare":  # of products of probabilities nothing would be left
        table[:] = -400.0
    if fault in ("nan", "impossible"):
        rest[150] = [0.0, np.nan, 0.0] if fault == "nan" else -np.inf
    X[150, 2] = np.nan if fault == "hole" else 0.0
    cells = code_cells(X, COLUMNS, COUNTS + 1, 200)
    alone = fault == "rare"
    own = X, cells, 200, COUNTS + 1, table, normal([] if alone else [2])
    rest = rest[:0] if alone else rest
    out = np.empty((0, K)), np.empty((3, 6, K))
    value = expected_counts(*own, log_weights, rest, weights, *out)
    assert np.isfinite(value) == (fault == "none")


def numbers_around(labels, kind):
    """Return an emission whose columns of labels stand among others."""
    numbers = ("numbers", Gaussian("diag" if kind == "diag" else "full"), [2, 4])
    return Columns([numbers, ("counts", Poisson(), [0]), ("labels", labels, [1, 3])])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["labels", "full", "diag", "two"])
def test_a_pass_is_that_of_densities_then_statistics(kind, weighted):
    rng = np.random.default_rng(1)
    labels, n = Categorical(4), 5000
    X = rng.integers(4, size=(n, 5)).astype(float)
    emission = labels if kind == "labels" else numbers_around(labels, kind)
    if kind == "two":
        emission = Columns([("a", labels, [4, 2]), ("b", Categorical(4), [0])])
    X[:, 2] += 0.0 if kind in ("labels", "two") else rng.normal(size=n)
    holes = rng.random(X.shape) < 0.2
    holes[:3] = kind != "diag"  # rows of which nothing is observed count for nothing
    holes[:, [2, 4]] &= kind != "diag"
    X[holes] = np.nan
    R = rng.dirichlet(np.ones(K), n)
    weights = rng.random(n) if weighted else None
    model = EmissionMixtureModel(emission, K)
    params = model.start_of(X, R, weights)
    rows = model.prepared(X, params)
    assert isinstance(rows, LabelRows)
    s, value = model.expected_statistics(rows, params, weights)
    assert_allclose(s, model.expected_statistics(X, params, weights)[0], rtol=1e-13)
    total = n if weights is None else weights.sum()
    s, value = s * total, value * total
    R, values = model._posterior(X, params)
    each = np.ones(n) if weights is None else weights
    assert_allclose(value, each @ values, rtol=1e-12)
    wanted = model._sums(X, R, weights, params)
    assert_allclose(s, wanted, rtol=1e-10, atol=1e-9)
    # Were rows of which nothing is observed counted, the masses would be others.
    empty = each[np.isnan(X).all(axis=1)].sum()
    assert_allclose(each.sum() - s[:K].sum(), empty, atol=1e-8)
    assert (empty > 0) == (kind != "diag")


@pytest.mark.parametrize("d", [40, 3000])
def test_products_of_many_columns_do_not_vanish(d):
    rng, n = np.random.default_rng(3), 300
    X = rng.integers(2, size=(n, d)).astype(float)
    model = EmissionMixtureModel(Categorical(2), K)
    params = model.start_of(X, rng.dirichlet(np.ones(K), n))
    s, value = model.expected_statistics(X, params)
    R, values = model._posterior(X, params)
    assert_allclose(value, values.mean(), rtol=1e-13)
    assert_allclose(s * n, model._sums(X, R, None, params), rtol=1e-9, atol=1e-9)


def test_other_emissions_are_left_alone():
    X = np.random.default_rng(0).poisson(3.0, size=(50, 2)).astype(float)
    model = EmissionMixtureModel(Poisson(), 2)
    params = model.start_of(X, np.full((50, 2), 0.5))
    assert model.prepared(X, params) is X
