"""The table of latents."""

import time

import numpy as np
import pytest

from sktem.e_step.memory import LatentMemory


def test_put_and_get():
    memory = LatentMemory(5)
    memory.put(slice(0, 5), np.arange(10.0).reshape(5, 2))
    memory.put(np.array([3, 1]), np.array([[-1.0, -2.0], [-3.0, -4.0]]))
    expected = np.array([[0, 1], [-3, -4], [4, 5], [-1, -2], [8, 9]])
    np.testing.assert_array_equal(memory.get(slice(0, 5)), expected)
    np.testing.assert_array_equal(memory.get(np.array([1, 3])), expected[[1, 3]])


def test_what_is_put_is_copied():
    memory = LatentMemory(2)
    Z = np.zeros((2, 1))
    memory.put(slice(0, 2), Z)
    Z[:] = 7
    assert memory.get(slice(0, 2)).max() == 0


def test_dtype_stays_small_and_widens():
    memory = LatentMemory(3)
    memory.put(slice(0, 3), np.full((3, 2), 200, dtype=np.uint8))
    assert memory.values.dtype == np.uint8
    memory.put(np.array([1]), np.full((1, 2), 300, dtype=np.int16))
    np.testing.assert_array_equal(memory.get(np.arange(3))[:, 0], [200, 300, 200])
    memory.put(np.array([1]), np.array([[1, 2]], dtype=np.uint8))
    assert memory.values.dtype == np.int16
    memory.put(np.array([0]), np.array([[0.5, 1.5]]))
    np.testing.assert_array_equal(memory.get(np.arange(3))[:, 0], [0.5, 1, 200])


def test_empty_memory():
    with pytest.raises(ValueError, match="nothing has been remembered"):
        LatentMemory(3).get(slice(0, 3))


def test_ragged_against_a_list(global_random_seed):
    """Growing and shrinking numbers of draws, against one array for each row."""
    rng = np.random.default_rng(global_random_seed)
    n = 20
    memory, expected = LatentMemory(n, ragged=True), [None] * n
    for step in range(60):
        rows = np.arange(n) if step == 0 else rng.permutation(n)[: rng.integers(0, 6)]
        Z = rng.normal(size=(len(rows), rng.integers(1, 4 + step), 2))
        memory.put(rows, Z)
        for row, z in zip(rows, Z, strict=True):
            expected[row] = z
    asked = rng.permutation(n)[:15]
    found = {}
    for positions, Z, _ in memory.groups(asked):
        assert Z.shape[0] == len(positions)
        found.update(zip(positions.tolist(), Z, strict=True))
    assert sorted(found) == list(range(15))
    for position, row in enumerate(asked):
        np.testing.assert_array_equal(found[position], expected[row])


def test_ragged_rows_need_groups():
    memory = LatentMemory(2, ragged=True)
    memory.put(np.array([0]), np.zeros((1, 2, 1)))
    memory.put(np.array([1]), np.zeros((1, 5, 1)))
    assert memory.get(np.array([0])).shape == (1, 2, 1)
    with pytest.raises(ValueError, match="different numbers of draws"):
        memory.get(np.array([0, 1]))


def test_plain_memory_is_one_group():
    memory = LatentMemory(4)
    memory.put(slice(0, 4), np.arange(4.0)[:, None])
    [(positions, Z, _)] = memory.groups(np.array([2, 0]))
    np.testing.assert_array_equal(positions, [0, 1])
    np.testing.assert_array_equal(Z[:, 0], [2, 0])


def test_no_rows():
    memory = LatentMemory(3, ragged=True)
    memory.put(slice(0, 3), np.zeros((3, 2, 1)))
    none = np.array([], dtype=int)
    assert list(memory.groups(none)) == []
    assert len(memory.get(none)) == 0


def test_parameters_of_visits_are_remembered_as_long_as_rows_need_them():
    memory, rng = LatentMemory(40), np.random.default_rng(0)
    latest = np.full(40, -1)
    for visit in range(300):
        rows = rng.choice(40, 5, replace=False) if visit else np.arange(40)
        memory.put(rows, np.full((len(rows), 1), float(visit)), {"visit": visit})
        latest[rows] = visit
    asked = np.arange(0, 40, 3)
    for positions, Z, params in memory.groups(asked):
        assert (latest[asked[positions]] == params["visit"]).all()
        assert (Z == params["visit"]).all()
    assert len(memory.visited) <= 80


def test_parameters_of_visits_take_time_in_proportion_to_their_number():
    """Each visit of one row looked through all visits before it."""

    def seconds(n_rows):
        memory, Z = LatentMemory(n_rows), np.zeros((1, 1))
        begin = time.process_time()
        for row in range(n_rows):
            memory.put(slice(row, row + 1), Z, [row])
        return time.process_time() - begin

    seconds(100)
    few = min(seconds(1000) for _ in range(5))
    assert min(seconds(16_000) for _ in range(3)) < 64 * few
