"""Tables in which each distinct row occurs several times, which is no sample."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.exceptions import FitWarning, warn_user
from sktem.kernels.blocks import rows_per_block
from sktem.rows.held import carrier_of

__all__ = [
    "COUNTED",
    "COUNTED_ONCE",
    "copies_of_each",
    "counts_of_equal",
    "row_keys",
    "warn_of_copied_rows",
]


class CopyRule(NamedTuple):
    """Numbers of equal rows that are taken for copies.

    Attributes
    ----------
    by_chance : float
        Probability that the numbers of equal rows in a sample have a common divisor,
        below which they are copies.
    identified : float
        Distinct values of a column over distinct rows from which on it identifies them.
    n_distinct : int
        Distinct rows, at least, that real numbers can identify.
    few : float
        Rows over distinct ones, where real numbers identify these, up to which their
        copies do not matter.
    n_first, fewest_first : int
        Rows whose copies are counted first, which are enough of a sample: as many as
        ``most_compared`` allows, but at least the second number.
    most_compared : int
        Comparisons with the first rows.
    """

    by_chance: float = 1e-4
    identified: float = 0.9
    n_distinct: int = 10
    few: float = 1.1
    n_first: int = 50
    fewest_first: int = 5
    most_compared: int = 5_000_000

    def first_of(self, n_rows: int) -> int:
        """Return how many rows are compared with all others at first."""
        allowed = self.most_compared // max(n_rows, 1)
        return min(n_rows, self.n_first, max(self.fewest_first, allowed))


COPY_RULE = CopyRule()


def row_keys(rows):
    """Return a number for each row, the same for equal rows; NaN equals NaN."""
    factors = np.random.default_rng(0).random((2, rows.shape[1]))
    keys, size = np.empty(len(rows)), rows_per_block(rows.shape[1])
    for first in range(0, len(rows), size):
        block = rows[first : first + size]
        values = np.where(np.isnan(block), factors[0], block)
        keys[first : first + size] = (values * factors[1]).sum(axis=1)
    return keys


def counts_of_equal(keys):
    """Return how often each distinct key occurs, in the order of the keys."""
    ordered = np.sort(keys)
    ends = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    return np.diff(ends, prepend=0, append=len(keys))


def copies_of_each(*columns, rule: CopyRule = COPY_RULE) -> float:
    """Return how often distinct rows occur that are copies by design, 1 in samples.

    In a sample the numbers of equal rows have no common divisor, but by chance: where
    it divides the number of rows, with probability ``divisor ** (1 - n_distinct)``. And
    real numbers of two columns are not equal at once.
    """
    rows = columns[0] if len(columns) == 1 else np.column_stack(columns)
    rows = rows.reshape(len(rows), -1)
    n, keys = len(rows), row_keys(rows)
    some = rule.first_of(n)
    complete = ~np.isnan(rows[:some]).any(axis=1)
    few = [np.count_nonzero(keys == key) for key in keys[:some][complete]]
    if max(few, default=0) < 2:
        return 1.0
    counts = counts_of_equal(keys)
    divisor, n_distinct = float(np.gcd.reduce(counts)), len(counts)
    if divisor ** (1 - n_distinct) < rule.by_chance:
        return divisor
    if n_distinct < rule.n_distinct or n < rule.few * n_distinct:
        return 1.0
    numbers = [values for values in rows.T if (values != np.floor(values)).any()]
    if len(numbers) < 2:
        return 1.0
    _, first = np.unique(keys, return_index=True)
    identifying = [
        len(np.unique(values[first])) >= rule.identified * n_distinct
        for values in numbers
    ]
    return n / n_distinct if sum(identifying) > 1 else 1.0


COUNTED = (
    "a fit counts copies as observations and is too sure of them. Keep one of equal "
    "rows, or ignore this if copies stand for weights"
)
COUNTED_ONCE = (
    "the penalty is chosen as if they were there once, and a fit is the less sure of "
    "them. Ignore this if they are copies; pass sample_weight if they stand for weights"
)


def warn_of_copied_rows(*columns, consequence: str = COUNTED) -> float:
    """Warn of copies of rows, and return how often distinct rows occur."""
    arrays = [carrier_of(part).array for part in columns]
    if any(part is None or part.dtype.kind not in "fiub" for part in arrays):
        return 1.0
    n_copies = copies_of_each(*arrays)
    if n_copies > 1:
        warn_user(
            f"Distinct rows occur about {n_copies:.3g} times each, as in no sample: "
            f"{consequence}.",
            FitWarning,
        )
    return n_copies
