"""Columns in messages: by their names, where the table has some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["AboutColumns", "ColumnError", "check_named", "listed"]

#: Columns or states that a message names at most.
NAMED = 5


class AboutColumns(NamedTuple):
    """Message about columns, whose names only the estimator knows.

    Attributes
    ----------
    text : str
        The message, with ``{columns}`` in the place of the columns.
    columns : sequence of int
        The columns.
    """

    text: str
    columns: Sequence[int] = ()

    def worded(self, names=None) -> str:
        """Return the message with columns by name, or by index without names."""
        words = [str(c) if names is None else repr(names[c]) for c in self.columns]
        return self.text.replace("{columns}", listed(words))


class ColumnError(ValueError):
    """Error about columns; its arguments are those of :class:`AboutColumns`."""

    def __str__(self):
        return AboutColumns(*self.args).worded()

    def named(self, names) -> ValueError:
        """Return the error with the names of the columns, if there are any."""
        if names is None:
            return self
        return ValueError(AboutColumns(*self.args).worded(names))


def check_named(emission, rows, names) -> None:
    """Raise for values that an emission cannot have, with the name of their column."""
    try:
        emission.check(rows)
    except ColumnError as error:
        raise error.named(names) from None


def listed(items):
    """Return the first items, and how many more there are."""
    more = len(items) - NAMED
    first = ", ".join(map(str, items[:NAMED]))
    return f"{first} and {more} more" if more > 0 else first
