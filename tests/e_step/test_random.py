"""Random generators: one for each purpose, spawned from one seed."""

from dataclasses import fields

import numpy as np
import pytest

from sktem.e_step.random import (
    Generators,
    seed_sequence,
    spawn_generators,
)

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
