"""Which rows are visited: schemes, weights, unbiased coefficients."""

import numpy as np
import pytest

from sktem.e_step.batches import SAMPLING_SCHEMES, RowSelector, batch_edges
from tests.oracles import LIMIT, chi_square_p, standard_errors

N = 12
WEIGHTS = np.arange(1.0, N + 1)
WEIGHTS /= WEIGHTS.sum()


def coefficients(scheme, batch_size, weights, seed, n_batches=3600):
    """Return the coefficients of all rows in many batches, zero where not visited."""
    rng = np.random.default_rng(seed)
    selector = RowSelector(N, batch_size, scheme, weights)
    table = np.zeros((n_batches, N))
    for line in table:
        batch = selector.next(rng)
        assert len(np.unique(batch.rows)) == len(batch.rows) == len(batch.coefficients)
        line[batch.rows] = batch.coefficients
    return table


def coefficient_variance(scheme, batch_size, weights):
    """Return the variance of each row's coefficient, from the definition."""
    if scheme == "inclusion":
        share = np.full(N, 1 / N) if weights is None else weights
        included = np.minimum(1, batch_size * share)
        return share**2 * (1 - included) / included
    if weights is None:
        return np.full(N, (1 - batch_size / N) / (batch_size * N))
    return weights * (1 - weights) / batch_size


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weights"])
@pytest.mark.parametrize("batch_size", [1, 3, 4])
@pytest.mark.parametrize("scheme", SAMPLING_SCHEMES)
def test_unbiased(scheme, batch_size, weights, global_random_seed):
    """The expected coefficient of each row is its share in the mean."""
    table = coefficients(scheme, batch_size, weights, global_random_seed)
    if scheme == "shuffle" and weights is None:
        # Within a pass batches depend on each other, whole passes do not.
        table = table.reshape(-1, N // batch_size, N).mean(axis=1)
        np.testing.assert_allclose(table, 1 / N)
        return
    share = np.full(N, 1 / N) if weights is None else weights
    # The known variance: that of a sample is too small where few visits are rare.
    error = np.sqrt(coefficient_variance(scheme, batch_size, weights) / len(table))
    wrong = share * np.where(np.arange(N) % 2, 1.4, 0.6)
    assert (np.abs(table.mean(axis=0) - share) / error).max() < LIMIT
    assert (np.abs(table.mean(axis=0) - wrong) / error).max() > LIMIT
    np.testing.assert_allclose(table.std(axis=0) ** 2, error**2 * len(table), rtol=0.5)


@pytest.mark.parametrize("scheme", ["fixed", "shuffle"])
def test_rows_that_are_drawn_twice_count_twice(scheme, global_random_seed):
    weights = np.full(N, 0.2 / (N - 1))
    weights[3] = 0.8
    table = coefficients(scheme, 4, weights, global_random_seed)
    np.testing.assert_allclose(4 * table, np.round(4 * table), atol=1e-12)
    np.testing.assert_allclose(table.sum(axis=1), 1)
    assert standard_errors(table, weights).max() < LIMIT
    # Batches in which all visited rows count the same would be far off.
    wrong = (table > 0) / (table > 0).sum(axis=1, keepdims=True)
    assert standard_errors(wrong, weights).max() > 3 * LIMIT


@pytest.mark.parametrize("batch_size", [1, 4])
def test_inclusion_with_equal_coefficients_would_be_biased(
    batch_size, global_random_seed
):
    table = coefficients("inclusion", batch_size, WEIGHTS, global_random_seed)
    wrong = (table > 0) / batch_size * N * WEIGHTS  # drawn by weight, weighted again
    assert standard_errors(wrong, WEIGHTS).max() > 2 * LIMIT


def test_inclusion_of_a_row_that_is_always_in():
    weights = np.full(N, 0.2 / (N - 1))
    weights[3] = 0.8
    table = coefficients("inclusion", 4, weights, 0)
    np.testing.assert_array_equal(table[:, 3], 0.8)  # certain: its weight itself
    others = np.delete(table, 3, axis=1)
    assert standard_errors(others, np.delete(weights, 3)).max() < LIMIT


@pytest.mark.parametrize("scheme", ["fixed", "shuffle"])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_frequencies_follow_the_weights(scheme, batch_size, global_random_seed):
    table = coefficients(scheme, batch_size, WEIGHTS, global_random_seed)
    counts = (table * batch_size).sum(axis=0)
    assert counts.sum() == pytest.approx(len(table) * batch_size)
    assert chi_square_p(counts, WEIGHTS) > 1e-5
    assert chi_square_p(counts, np.ones(N)) < 1e-8
    plain = coefficients(scheme, batch_size, None, global_random_seed)
    assert chi_square_p((plain * batch_size).sum(axis=0), WEIGHTS) < 1e-8


def test_inclusion_is_independent_between_rows(global_random_seed):
    visited = coefficients("inclusion", 4, None, global_random_seed) > 0
    assert standard_errors(visited, 4 / N).max() < LIMIT
    correlation = np.corrcoef(visited.T)[np.triu_indices(N, 1)]
    assert np.abs(correlation).max() < LIMIT / np.sqrt(len(visited))
    fixed = coefficients("fixed", 4, None, global_random_seed) > 0
    correlation = np.corrcoef(fixed.T)[np.triu_indices(N, 1)]
    assert correlation.mean() < -0.05  # of a fixed number, rows exclude each other


def test_fixed_batches_are_independent(global_random_seed):
    visited = coefficients("fixed", 4, None, global_random_seed) > 0
    assert (visited.sum(axis=1) == 4).all()
    again = (visited[1:] & visited[:-1]).sum(axis=1)
    assert standard_errors(again[::2], 4 * 4 / N) < LIMIT


def test_shuffle_visits_all_rows_once_in_a_pass():
    rng = np.random.default_rng(0)
    selector = RowSelector(N, 5, "shuffle")
    orders = []
    for _ in range(20):
        batches = [selector.next(rng) for _ in range(3)]
        assert [len(batch.rows) for batch in batches] == [4, 4, 4]
        for batch in batches:
            np.testing.assert_allclose(batch.coefficients.sum(), 1.0)
        order = np.concatenate([batch.rows for batch in batches])
        np.testing.assert_array_equal(np.sort(order), np.arange(N))
        orders.append(tuple(order))
    assert len(set(orders)) == 20


@pytest.mark.parametrize("scheme", ["fixed", "shuffle"])
def test_all_rows_in_a_batch(scheme):
    selector = RowSelector(N, N, scheme)
    batch = selector.next(np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(batch.rows), np.arange(N))
    np.testing.assert_allclose(batch.coefficients, 1 / N)


@pytest.mark.parametrize("n_rows", [1, 2, 3, 50, 1000, 1001, 2001, 5001, 20481])
@pytest.mark.parametrize("batch_size", [1, 2, 7, 500, 1000, 1024, 30000])
def test_batches_are_nearly_equal(n_rows, batch_size):
    sizes = np.diff(batch_edges(n_rows, batch_size))
    assert sizes.sum() == n_rows
    assert len(sizes) == -(-n_rows // batch_size)
    assert sizes.max() <= batch_size
    assert sizes.min() >= max(sizes.max() - 1, 1)


@pytest.mark.parametrize("scheme", SAMPLING_SCHEMES)
def test_mean_size(scheme):
    """A pass of equal batches visits every row once."""
    selector = RowSelector(1001, 1000, scheme)
    assert selector.mean_size == (500.5 if scheme == "shuffle" else 1000)
    weighted = RowSelector(1001, 1000, scheme, np.full(1001, 1 / 1001))
    assert weighted.mean_size == 1000
