"""Labels of one or several outputs, as places of their classes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

__all__ = ["Labels"]


@dataclass(frozen=True)
class Labels:
    """The classes of each output.

    A *column* is a class of an output; the columns of the first output come first.

    Attributes
    ----------
    classes : tuple of ndarray
        Sorted classes of each output.
    several : bool
        Whether labels come as a matrix, one column for each output.
    """

    classes: tuple[np.ndarray, ...]
    several: bool

    @classmethod
    def of(cls, y) -> Labels:
        """Return the labels that y has."""
        if y.ndim == 1:
            return cls((np.unique(y),), False)
        return cls(tuple(np.unique(column) for column in y.T), True)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Classes of each output."""
        return tuple(len(classes) for classes in self.classes)

    @property
    def n_columns(self) -> int:
        """Classes of all outputs."""
        return sum(self.sizes)

    @property
    def n_states(self) -> int:
        """Number of combinations of the labels of all outputs."""
        return math.prod(self.sizes)

    @property
    def columns(self) -> list[slice]:
        """The columns of each output."""
        ends = np.cumsum(self.sizes).tolist()
        return [slice(end - n, end) for end, n in zip(ends, self.sizes, strict=True)]

    def codes(self, y):
        """Return the column of the class of each output, (n, n_outputs)."""
        y = y if self.several else y[:, None]
        if y.shape[1] != len(self.classes):
            raise ValueError(f"y has {y.shape[1]} outputs, not {len(self.classes)}")
        out = np.empty(y.shape, np.int64)
        parts = zip(self.classes, y.T, self.columns, strict=True)
        for k, (classes, column, columns) in enumerate(parts):
            known = np.isin(column, classes)
            if not known.all():
                raise ValueError(
                    f"y has labels that are not in classes: {np.unique(column[~known])}"
                )
            out[:, k] = columns.start + np.searchsorted(classes, column)
        return out

    def decoded(self, codes):
        """Return labels, see `codes`."""
        outputs = [
            classes[codes[:, k] - columns.start]
            for k, (classes, columns) in enumerate(
                zip(self.classes, self.columns, strict=True)
            )
        ]
        return np.column_stack(outputs) if self.several else outputs[0]

    def indicators(self, codes):
        """Return 1 in the columns that are in `codes`, (n, n_columns)."""
        out = np.zeros((len(codes), self.n_columns))
        out[np.arange(len(codes))[:, None], codes] = 1.0
        return out

    def all_codes(self):
        """Return the codes of all labels of the outputs together, in order."""
        starts = [columns.start for columns in self.columns]
        return np.indices(self.sizes).reshape(len(self.sizes), -1).T + starts

    def state_numbers(self, codes):
        """Return which of `all_codes` each row is."""
        starts = [columns.start for columns in self.columns]
        return np.ravel_multi_index(tuple((codes - starts).T), self.sizes)

    def split(self, values):
        """Return values of columns for each output, or those of a single one."""
        if not self.several:
            return values
        return [values[:, columns] for columns in self.columns]
