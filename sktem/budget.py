"""Memory budget of all blocks of rows."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MEMORY", "MemoryBudget", "block_rows"]


class MemoryBudget(NamedTuple):
    """Sizes of blocks and buffers; a value is a number of eight bytes.

    Attributes
    ----------
    rows : int
        Rows of a block that is read, checked or summed at once.
    values : int
        Values of such a block, 128 MB, where rows are wide; also of the largest
        temporary on a GPU, which needs as many to be busy.
    kept : int
        Values that stay in memory from one pass to the next, or in a buffer of
        batches: 32 MB.
    cached : int
        Values of the largest temporary on a processor: 2 MB, which its cache holds.
    """

    rows: int = 1 << 16
    values: int = 1 << 24
    kept: int = 1 << 22
    cached: int = 1 << 18


#: Read as ``budget.MEMORY`` at each use, so that all blocks can be made small at once.
MEMORY = MemoryBudget()


def block_rows(n_columns: int) -> int:
    """Return the rows of a block: a power of two, fewer where rows are wide."""
    fitting = max(MEMORY.values // max(n_columns, 1), 16)
    return min(MEMORY.rows, 1 << (fitting.bit_length() - 1))
