"""Whether the rows of a stream come in random order, by the means of its batches."""

import numpy as np
import pytest

from sktem.loop.batch_means import BatchMeans, OrderRule

RULES = [OrderRule(apart=3.0), OrderRule(share=0.3)]


def is_ordered(rows, rule, size=100, chunk=40):
    means = BatchMeans(size, rule)
    for first in range(0, len(rows), chunk):
        means.add(rows[first : first + chunk])
    assert means.n == len(rows) // size
    return means.is_ordered


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("offset", [0.0, 1e7])
def test_sorted_rows_come_in_an_order(rule, offset):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(600, 2)) + [offset, 0.0]
    rows[:, 1] += 3 * np.repeat(np.arange(3), 200)
    assert is_ordered(rows, rule)
    assert not is_ordered(rng.permutation(rows), rule)
    assert not is_ordered(rows[:200], rule)


def test_a_share_of_one_column():
    """Batches of a column may differ by more than chance, but not by much."""
    rng, step = np.random.default_rng(0), np.repeat(np.arange(10) % 2, 100)
    rows = rng.normal(size=(1000, 1)) + 0.6 * step[:, None]  # a share of .09 / 1.09
    apart, share = (is_ordered(rows, rule) for rule in RULES)
    assert apart and not share
    assert is_ordered(rows + step[:, None], RULES[1])  # .64 / 1.64


def test_holes_and_constants():
    rng, rule = np.random.default_rng(0), RULES[1]
    rows = rng.normal(size=(600, 2)) + 3 * np.repeat(np.arange(3), 200)[:, None]
    rows[rng.random(rows.shape) < 0.3] = np.nan
    assert is_ordered(rows, rule) and not is_ordered(rng.permutation(rows), rule)
    constant = np.full((600, 1), 0.1) * np.repeat([1.0, 1.0 + 3e-16, 1.0], 200)[:, None]
    assert not any(is_ordered(constant, rule) for rule in RULES)


@pytest.mark.parametrize("rule", [OrderRule(apart=1.0), OrderRule(share=0.0)])
def test_chance_is_no_order(rule):
    """Of 2,000 streams in random order none, with thresholds of chance alone."""
    rng = np.random.default_rng(0)
    for i in range(2000):
        n, rate = rng.integers(3, 40), rng.choice([0.01, 0.05, 0.5])
        rows = (rng.random((50 * n, 1)) < rate) * np.ones(rng.integers(1, 4))
        assert not is_ordered(rows, rule, 50, 500), (i, n, rate)
