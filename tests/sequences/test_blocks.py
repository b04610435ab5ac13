"""Sequences that are read by blocks."""

from types import SimpleNamespace

import numpy as np
import pytest

from sktem import budget
from sktem.sequences.blocks import SequenceBlocks


class Counted(np.ndarray):
    """Rows that count those that are joined."""

    n_joined = 0

    def __array_function__(self, function, types, args, kwargs):
        args = [
            [np.asarray(part) for part in arg] if isinstance(arg, list) else arg
            for arg in args
        ]
        plain = [
            arg.view(np.ndarray) if isinstance(arg, Counted) else arg for arg in args
        ]
        joined = function(*plain, **kwargs)
        if function is np.concatenate:
            Counted.n_joined += len(joined)
        return joined


def cut(labels, size):
    """Return the blocks of sequences of two columns whose chunks have some rows."""
    rows = np.column_stack([labels, np.arange(len(labels))]).view(Counted)
    chunks = [
        (first, rows[first : first + size]) for first in range(0, len(rows), size)
    ]
    blocks = object.__new__(SequenceBlocks)
    blocks.table = SimpleNamespace(shape=rows.shape, pieces=lambda: iter(chunks))
    blocks.roles = SimpleNamespace(groups=0)
    Counted.n_joined = 0
    return list(blocks._cut())


def test_one_long_sequence_is_joined_once(memory_budget):
    """It was joined at each chunk."""
    memory_budget(rows=100)
    size = budget.block_rows(2)
    (block,) = cut(np.zeros(50 * size), size // 2)
    assert len(block) == Counted.n_joined == 50 * size


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
def test_blocks_have_whole_sequences(chunk, memory_budget, global_random_seed):
    memory_budget(rows=100)
    rng = np.random.default_rng(global_random_seed)
    labels = np.repeat(np.arange(60), rng.integers(1, [5, 400][chunk > 7], size=60))
    blocks = cut(labels, chunk)
    np.testing.assert_array_equal(np.concatenate(blocks)[:, 1], np.arange(len(labels)))
    assert len(blocks) > 1
    for one, other in zip(blocks[:-1], blocks[1:], strict=True):
        assert one[-1, 0] != other[0, 0]
    longest = np.bincount(labels).max()
    assert max(map(len, blocks)) < budget.block_rows(2) + longest + chunk
