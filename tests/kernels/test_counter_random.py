"""Random numbers as pure functions of key and counter."""

import numpy as np
import pytest
from scipy import special, stats

from sktem.kernels import counter_random
from sktem.kernels.counter_random import (
    combined,
    fill_row_uniforms,
    fill_visit_uniforms,
)
from tests.oracles import LIMIT, for_python, standard_errors

fill_normals = for_python(counter_random.fill_normals)
normal_quantile = for_python(counter_random.normal_quantile)
stream_key = for_python(counter_random.stream_key)
uniform = for_python(counter_random.uniform)

MASK = 2**64 - 1


def split_mix(x):
    """The output function of SplitMix64 in Python's integers."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def key_of(seed, row):
    # Python's integers forget that they are unsigned.
    return np.uint64(stream_key(np.uint64(seed), row))


def uniforms(key, n, first=0):
    return np.array([uniform(key, i) for i in range(first, first + n)])


def normals(key, n, first=0):
    out = np.empty(n)
    return out, fill_normals(key, first, out)


@pytest.mark.parametrize("counter", [0, 1, 1000, 2**40])
@pytest.mark.parametrize("seed, row", [(0, 0), (7, 3), (2**63 - 1, 2**33)])
def test_bits_are_those_of_the_published_generator(seed, row, counter):
    golden = 0x9E3779B97F4A7C15
    key = split_mix(seed ^ split_mix((row + 1) * golden & MASK))
    assert int(stream_key(np.uint64(seed), row)) == key
    bits = split_mix((key + (counter + 1) * golden) & MASK)
    assert uniform(np.uint64(key), counter) == ((bits >> 11) + 0.5) * 2.0**-53


def test_uniforms(global_random_seed):
    n = 50_000
    values = uniforms(key_of(global_random_seed, 5), n)
    assert 0 < values.min() and values.max() < 1
    powers = values[:, None] ** np.arange(1, 5)
    assert standard_errors(powers, 1 / np.arange(2, 6)).max() < LIMIT
    assert stats.kstest(values, "uniform").pvalue > 1e-5
    for lag in (1, 2, 7):
        products = (values[lag:] - 0.5) * (values[:-lag] - 0.5)
        assert np.abs(products.mean()) < LIMIT / 12 / np.sqrt(n)
    # The judgement finds numbers that are a little off.
    assert standard_errors(values**1.05, 1 / 2) > LIMIT


def test_normals(global_random_seed):
    n = 50_001  # odd: the last pair gives one number only
    values, used = normals(key_of(global_random_seed, 0), n)
    assert used == n + 1
    powers = values[:, None] ** np.arange(1, 7)
    assert standard_errors(powers, [0, 1, 0, 3, 0, 15]).max() < LIMIT
    assert stats.kstest(values, "norm").pvalue > 1e-5
    assert standard_errors(values[::2][:-1] * values[1::2], 0) < LIMIT
    assert standard_errors((1.02 * values) ** 2, 1) > LIMIT / 2


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_normals_are_the_transform_of_box_and_muller(n):
    key = key_of(3, 1)
    values, used = normals(key, n, first=11)
    pairs = uniforms(key, 2 * ((n + 1) // 2), first=11).reshape(-1, 2)
    radius, angle = np.sqrt(-2 * np.log(pairs[:, 0])), 2 * np.pi * pairs[:, 1]
    both = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    np.testing.assert_allclose(values, both.ravel()[:n], rtol=1e-13)
    assert used == 11 + pairs.size


def test_streams_are_independent(global_random_seed):
    """Neighbouring rows, and the same row under neighbouring seeds."""
    n, seed = 4000, global_random_seed
    keys = [key_of(seed, row) for row in range(6)]
    keys += [key_of(seed + 1, row) for row in range(6)]
    keys += [key_of(seed, 2**32), key_of(seed, 2**33)]
    values = np.array([normals(key, n)[0] for key in keys])
    correlations = np.corrcoef(values)[np.triu_indices(len(keys), 1)]
    assert np.abs(correlations).max() < LIMIT / np.sqrt(n)
    # First draws of many rows are a sample too.
    first = [uniform(key_of(seed, row), 0) for row in range(5000)]
    assert stats.kstest(first, "uniform").pvalue > 1e-5
    squares = np.array([normals(key_of(s, 0), 1)[0] for s in range(4000)])
    assert stats.kstest(squares[:, 0], "norm").pvalue > 1e-5


def test_keys_differ():
    keys = {int(key_of(s, r)) for s in range(60) for r in range(60)}
    assert len(keys) == 3600


def test_order_does_not_matter():
    key = key_of(1, 2)
    forward = [uniform(key, i) for i in range(20)]
    assert [uniform(key, i) for i in reversed(range(20))] == forward[::-1]
    whole, _ = normals(key, 10)
    first, used = normals(key, 4)
    rest, _ = normals(key, 6, first=used)
    np.testing.assert_array_equal(np.concatenate([first, rest]), whole)


def test_normal_quantiles_are_those_of_scipy():
    p = np.random.default_rng(0).random(20_000)
    tails = 10.0 ** -np.arange(1.0, 17.0)
    p = np.r_[p, tails, 1 - tails[:-1], 0.5, 0.075, 0.925]
    found = [normal_quantile(value) for value in p]
    np.testing.assert_allclose(found, special.ndtri(p), rtol=4e-15)


def test_keys_of_four_integers_differ():
    values = [0, 1, 2, 7, 2**32, 2**32 + 1]
    keys = {
        int(np.uint64(combined(np.uint64(seed), a, b, c)))
        for seed in (0, 1, 2**64 - 1)
        for a in values
        for b in values
        for c in values
    }
    assert len(keys) == 3 * len(values) ** 3


def test_visits_have_the_uniforms_of_their_rows():
    rows = np.random.default_rng(0).integers(50, size=13)
    edges = np.array([[0, 2, 3, 6], [6, 10, 10, 13]])
    found = np.empty((13, 3))
    fill_visit_uniforms(np.uint64(5), 11, 8, rows, edges, found)
    for side in range(2):
        for t in range(3):
            part = slice(*edges[side, t : t + 2])
            expected = np.empty((len(rows[part]), 3))
            arguments = (np.uint64(5), 11 + t, 8 + side, rows[part], 0)
            assert fill_row_uniforms(*arguments, expected) == 3
            np.testing.assert_array_equal(found[part], expected)
