"""Counter-based draws: what they equal, and that they are uniform and independent."""

import numpy as np
import pytest
from scipy import stats

from sktem.kernels import counter
from sktem.kernels.counter import (
    halves,
    hashed,
    hashed_byte,
    lane_number,
    odds,
    power_of_two,
)
from tests.oracles import for_python

mixed = for_python(counter.mixed)

U64 = 2**64 - 1


def reference_mixed(seed, step, group):
    z = (seed + step * 0x9E3779B97F4A7C15 + group * 0xD1342543DE82EF95) & U64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & U64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & U64
    return z ^ (z >> 31)


def reference_hashed(key, lane):
    """Return what the kernels draw, in NumPy's integers."""
    low, high = np.uint32(key & 0xFFFFFFFF), np.uint32(key >> 32)
    return (reference_bits(low, high, lane) >> np.uint32(8)).astype(np.float32)


def reference_bits(low, high, lane):
    x = np.asarray(lane, np.uint32) * np.uint32(0x9E3779B1) + low
    x = (x ^ x >> np.uint32(16)) * np.uint32(0x7FEB352D) ^ high
    return (x ^ x >> np.uint32(15)) * np.uint32(0x846CA68B)


def reference_bytes(key, lane, byte):
    """Return a byte of each hash, the lowest being the first."""
    x = reference_bits(np.uint32(key & 0xFFFFFFFF), np.uint32(key >> 32), lane)
    return (x ^ x >> np.uint32(16)) >> np.asarray(8 * byte, np.uint32) & np.uint32(255)


def test_keys_and_draws_equal_their_reference():
    rng = np.random.default_rng(0)
    for _ in range(50):
        seed, step, group = (int(v) for v in rng.integers(0, 2**63, 3))
        key = mixed(np.uint64(seed), np.uint64(step), np.uint64(group))
        assert int(key) == reference_mixed(seed, step, group)
        low, high = halves(np.uint64(key))
        lane = int(rng.integers(2**32))
        found = hashed(
            np.uint32(low), np.uint32(high), np.uint32(lane_number(np.uint32(lane)))
        )
        assert found == reference_hashed(int(key), np.array([lane]))[0]
        number, shift = lane_number(np.uint32(lane)), np.uint32(8 * (lane % 4))
        found = hashed_byte(np.uint32(low), np.uint32(high), np.uint32(number), shift)
        assert found == reference_bytes(int(key), np.array([lane]), lane % 4)[0]


def table(n_groups, n_lanes, seed=3):
    keys = [reference_mixed(seed, step, 7) for step in range(n_groups)]
    return np.array([reference_hashed(key, np.arange(n_lanes)) for key in keys])


def byte_table(n_groups, n_lanes, seed=3):
    """Return uniform numbers below 256 whose first bytes are parts of hashes."""
    keys = [reference_mixed(seed, step, 7) for step in range(n_groups)]
    places = np.arange(n_lanes)
    bytes_of = [reference_bytes(key, -1 - places // 4, places % 4) for key in keys]
    return np.array(bytes_of) + np.array(table(n_groups, n_lanes, seed)) / 2**24


@pytest.mark.parametrize("whole", [True, False])
def test_draws_are_uniform(whole):
    values = table(100, 2000) / 2**24 if whole else byte_table(100, 2000) / 256
    assert stats.kstest(values.ravel(), "uniform").pvalue > 1e-3
    for bits in (1, 4, 8):
        counts = np.bincount((values.ravel() * 2**bits).astype(int), minlength=2**bits)
        assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("whole", [True, False])
def test_neighbours_are_independent(axis, whole):
    values = table(1000, 1000) / 2**24 if whole else byte_table(1000, 1000) / 256
    values -= 0.5
    for lag in (1, 2, 3, 4, 16):
        one = np.take(values, range(1000 - lag), axis=axis)
        two = np.take(values, range(lag, 1000), axis=axis)
        score = 12 * np.mean(one * two) * np.sqrt(one.size)
        assert abs(score) < 4


def test_the_test_of_independence_can_fail():
    values = table(1000, 1000) / 2**24 - 0.5
    values[1:] = 0.99 * values[1:] + 0.01 * values[:-1]
    score = 12 * np.mean(values[:-1] * values[1:]) * np.sqrt(values[1:].size)
    assert abs(score) > 4


def test_powers():
    x = np.linspace(-115, 115, 10_001, dtype=np.float32)
    found = np.array([power_of_two(value) for value in x], np.float64)
    np.testing.assert_allclose(found, 2.0 ** x.astype(np.float64), rtol=2.5e-7)
    assert power_of_two(np.float32(200)) == power_of_two(np.float32(115))
    assert power_of_two(np.float32(-200)) == power_of_two(np.float32(-115))
    assert odds(np.float32(0)) == 2
