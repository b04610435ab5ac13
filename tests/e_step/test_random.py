"""Random generators: one for each purpose, spawned from one seed."""

from dataclasses import fields

import numpy as np
import pytest

from sktem.e_step.random import (
    LEAST_COMPILED,
    Generators,
    permutation,
    seed_sequence,
    spawn_generators,
)
from sktem.kernels.shuffle import permute_rows

NAMES = [field.name for field in fields(Generators) if field.name != "row_seed"]


def values(generators, size=4):
    return {name: getattr(generators, name).random(size).tolist() for name in NAMES}


def test_same_seed_same_streams():
    assert values(spawn_generators(3)) == values(spawn_generators(3))


def test_streams_differ_from_each_other_and_between_seeds():
    several = [
        *values(spawn_generators(3)).values(),
        *values(spawn_generators(4)).values(),
    ]
    assert len({tuple(numbers) for numbers in several}) == 2 * len(NAMES)


def test_streams_are_independent(global_random_seed):
    n = 4000
    numbers = np.array(list(values(spawn_generators(global_random_seed), n).values()))
    correlations = np.corrcoef(numbers)[np.triu_indices(len(NAMES), 1)]
    assert np.abs(correlations).max() < 4.5 / np.sqrt(n)


@pytest.mark.parametrize("advance", NAMES)
def test_one_stream_does_not_move_another(advance):
    generators = spawn_generators(0)
    getattr(generators, advance).random(1000)
    after, fresh = values(generators), values(spawn_generators(0))
    assert {name for name in NAMES if after[name] != fresh[name]} == {advance}


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
def test_generators_advance(make):
    generator = make(5)
    first, second = (
        values(spawn_generators(generator)),
        values(spawn_generators(generator)),
    )
    assert first != second
    assert first == values(spawn_generators(make(5)))


def test_none_is_fresh_entropy():
    assert values(spawn_generators(None)) != values(spawn_generators(None))


def test_legacy_global_state():
    np.random.seed(0)  # noqa: NPY002  what scikit-learn users may pass is this state
    first = seed_sequence(np.random).entropy
    np.random.seed(0)  # noqa: NPY002
    assert seed_sequence(np.random).entropy == first


def test_numpy_integer_is_the_integer():
    assert values(spawn_generators(np.int64(7))) == values(spawn_generators(7))


@pytest.mark.parametrize("wrong", [-1, "seed", 0.5])
def test_wrong_seed(wrong):
    with pytest.raises(ValueError):
        spawn_generators(wrong)


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.MT19937])
def test_permutation_is_that_of_numpy(kind, global_random_seed):
    ours, its = (np.random.Generator(kind(global_random_seed)) for _ in range(2))
    first = LEAST_COMPILED
    for n in (first - 1, first, first + 1, 8191, 8192, 8193, 40_000, 1, 0, 65_537):
        # Half a number may be left over, before and after.
        for size in (0, 1, 2):
            assert np.array_equal(
                ours.integers(2**32, size=size, dtype=np.uint32),
                its.integers(2**32, size=size, dtype=np.uint32),
            )
            order, expected = permutation(ours, n), its.permutation(n)
            assert order.dtype == expected.dtype
            assert np.array_equal(order, expected)
            assert str(ours.bit_generator.state) == str(its.bit_generator.state)


def test_shuffle_by_given_words():
    rng = np.random.default_rng(0)
    n = 1000
    numbers = rng.integers(2**64, size=n, dtype=np.uint64)
    halves = [half for number in numbers for half in (number % 2**32, number >> 32)]
    expected, last = list(range(n)), n - 1
    words = iter(int(half) for half in halves)
    while last > 0:
        j = next(words) & (2 ** last.bit_length() - 1)
        if j <= last:
            expected[last], expected[j] = expected[j], expected[last]
            last -= 1
    order, last, n_used = np.arange(n), n - 1, 0
    for part in np.split(numbers, [1, 7, 300]):  # in pieces of any length
        last, used = permute_rows(order, last, part, 0)
        n_used += used
    assert last == 0
    assert n_used == len(halves) - len(list(words)) < len(halves)
    assert order.tolist() == expected
