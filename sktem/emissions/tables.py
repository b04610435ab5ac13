"""Tables as they come (numbers, labels, names of columns) as rows of numbers."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from sklearn.base import clone

from sktem.choices import check_choice
from sktem.emissions.base import Emission
from sktem.emissions.categorical import Categorical
from sktem.emissions.columns import Columns
from sktem.emissions.frames import as_frame
from sktem.emissions.labels import (
    LabelTable,
    SeenIntegers,
    SeenLabels,
    TextCodes,
    all_codes,
    are_booleans,
    codes_of,
    is_missing_label,
    label_places,
    labels_of,
    numbers_or_nan,
    with_coded,
)
from sktem.emissions.names import EMISSIONS
from sktem.emissions.negative_binomial import NegativeBinomial
from sktem.emissions.wording import check_named
from sktem.rows.checked import checked_blocks

__all__ = ["Table", "is_frame", "n_columns_of"]


def is_frame(X: Any) -> bool:
    """Return whether X is a data frame."""
    return hasattr(X, "columns") and hasattr(X, "__getitem__") and hasattr(X, "shape")


class Table:
    """Encoder of the columns of a table, learned from one table.

    Parameters
    ----------
    X : data frame or array of shape (n, d)
        The table.
    emission : str or Emission
        A name of ``EMISSIONS``, "auto", or an emission. A name is that of the columns
        of numbers; columns of labels (strings, categories, booleans) of a frame are
        categorical. "auto" takes columns of integers, or of whole floats that are
        zero or missing somewhere, for counts with negative binomial distributions, or
        for labels where they have two values that counts would hardly have alone.
        All other numbers are Gaussian, and so are integers far from zero.
    names : sequence of str or None, default=None
        Names of the columns of an array.

    Attributes
    ----------
    emission : Emission
        The emission, with indices of columns.
    categories : dict of int to ndarray
        Labels of each column of a categorical emission, in the order of their codes.
    names : list or None
        Names of the columns.
    """

    def __init__(self, X, emission, names=None):
        frame = is_frame(X)
        labels = label_columns(X) if frame else []
        if isinstance(emission, str):
            known = {"auto": None, **EMISSIONS}
            check_choice("emission", emission, known, " or an Emission")
            emission = _emission_of(X, emission, labels)
        elif not isinstance(emission, Emission):
            raise TypeError(
                f"emission must be a name or an instance of Emission, got {emission!r}"
            )
        self.emission = clone(emission)
        self.names = list(X.columns) if frame else names
        if isinstance(emission, Columns):
            self.emission = emission.resolved(X, names)
            self.emission.emissions = [
                (name, clone(block), columns)
                for name, block, columns in self.emission.emissions
            ]
        self.categories = {}
        for block, columns in self._blocks(X.shape[1]):
            if isinstance(block, Categorical):
                sizes = np.broadcast_to(block.n_categories, len(columns))
                for index, count in zip(columns, sizes, strict=True):
                    distinct = labels_of(_column(X, index), _name(X, index))
                    if distinct.dtype.kind == "b" and not frame:  # 0 and 1 in arrays
                        distinct = distinct.astype(np.uint8)
                    self.categories[index] = all_codes(distinct, count)
                if isinstance(block.n_categories, str):
                    counts = [len(self.categories[index]) for index in columns]
                    block.n_categories = [max(count, 1) for count in counts]

    @classmethod
    def of_rows(cls, source, emission, places=None) -> Table:
        """Return the table of rows that are read by blocks.

        Labels, and signs of integers for "auto", are found by a pass over the rows.

        Parameters
        ----------
        source : Rows
            The rows.
        emission : str or Emission
            As for an array.
        places : list of int or None, default=None
            Columns of the rows that the table has; None is all.

        Returns
        -------
        Table
            The table.
        """
        names = source.names
        places = [*range(n_columns_of(source))] if places is None else places
        if names is not None:
            names = [names[j] for j in places]
        seen = {j: SeenLabels(is_text=True) for j in label_places(source, places)}
        source = with_coded(source, seen) if seen else source
        text = {places.index(place): labels for place, labels in seen.items()}
        d, dtype = len(places), source.dtype
        ones = [np.array(["a"], object) if j in text else np.ones(1, dtype)
                for j in range(d)]  # fmt: skip
        table = cls(_joined(ones, names, text), emission, names)
        auto = isinstance(emission, str) and emission == "auto"
        columns = table.categories
        if not (columns or auto):
            return table
        # Text that no block has is not remembered: identifiers are many.
        unused = {places[j]: numbers_or_nan for j in text if j not in columns}
        source = with_coded(source, unused) if unused else source
        integers = {
            j: SeenIntegers(dtype.kind in "iub", dtype.kind == "b")
            for j in range(d)
            if auto and j not in text
        }
        if names is not None:
            looks = {places[j]: look for j, look in integers.items()}
            source = with_coded(source, looks)
        values = [np.empty(0)] * d
        for block in checked_blocks(source, n_columns_of(source), allow_nan=True):
            for j in columns:
                values[j] = np.unique(np.append(values[j], block[:, places[j]]))
            for j in integers if names is None else ():
                integers[j](block[:, places[j]])
        for j, labels in text.items():
            known = np.array([*labels.labels], object)
            values[j] = labels_of(known, names[j]) if j in columns else ones[j]
        for j, numbers in integers.items():
            values[j] = numbers.example()
        if auto:
            names = range(d) if names is None else names
            return cls(LabelTable(dict(zip(names, values, strict=True))), emission)
        return cls(_joined(values, names, text), emission, names)

    def read(self, source, places=None):
        """Return rows with codes for labels that are text, and NaN for unused text.

        Parameters
        ----------
        source : Rows
            The rows.
        places : list of int or None, default=None
            Columns of the rows that the table has; None is all.

        Returns
        -------
        Rows
            The rows, whose blocks are rows of :meth:`of_codes`.
        """
        if source.names is None:
            return source
        places = range(len(source.names)) if places is None else places
        used = {j for _, columns in self._blocks(len(places)) for j in columns}
        coded: dict[int, Any] = {
            place: numbers_or_nan for j, place in enumerate(places) if j not in used
        }
        for j, known in self.categories.items():
            if known.dtype.kind not in "fiu":
                coded[places[j]] = TextCodes(known, source.names[places[j]])
        return with_coded(source, coded) if coded else source

    def of_codes(self):
        """Return the table of rows from :meth:`read`, which have codes for text."""
        table = copy(self)
        table.categories = {
            index: known if known.dtype.kind in "fiu" else np.arange(len(known))
            for index, known in self.categories.items()
        }
        return table

    def declare(self, counts):
        """Take the labels of columns for some of a number of codes, if they can be."""
        n_categories = self.emission.n_categories
        for index, count in zip(self.categories, counts, strict=False):
            codes = all_codes(self.categories[index], count)
            if np.ndim(n_categories) and len(codes) > n_categories[index]:
                self.categories[index] = codes
                n_categories[index] = len(codes)

    def _blocks(self, n_columns):
        """Yield emissions and the indices of their columns."""
        if isinstance(self.emission, Columns):
            for _, block, columns in self.emission.emissions:
                yield block, columns
        else:
            yield self.emission, list(range(n_columns))

    @property
    def has_labels(self) -> bool:
        """Whether some column holds labels."""
        return bool(self.categories)

    def part(self, emission, columns):
        """Return the table of some of the columns, for their emission."""
        part = copy(self)
        part.emission = emission
        part.names = self.names and [self.names[index] for index in columns]
        part.categories = {
            place: self.categories[index]
            for place, index in enumerate(columns)
            if index in self.categories
        }
        return part

    def encode(self, X) -> np.ndarray:
        """Return rows of float64, with codes for labels and NaN for missing values."""
        n, d = X.shape
        rows = np.full((n, d), np.nan)
        used = {index for _, columns in self._blocks(d) for index in columns}
        for index in sorted(used):
            column = _column(X, index)
            if index in self.categories:
                known = self.categories[index]
                rows[:, index] = codes_of(column, known, _name(X, index))
                continue
            try:
                rows[:, index] = _as_numbers(column)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"column {_name(X, index)!r} does not hold numbers: give it a "
                    f"Categorical emission, or leave it out ({error})"
                ) from error
            if np.isinf(rows[:, index]).any():
                raise ValueError(
                    f"Input X contains infinity or a value too large: in column "
                    f"{_name(X, index)!r}"
                )
        return rows

    def check(self, X):
        """Raise ValueError for labels or numbers that the emission cannot have."""
        self.check_rows(self.encode(X) if self.has_labels else X)

    def check_rows(self, rows):
        """Raise ValueError for rows of numbers that the emission cannot have."""
        check_named(self.emission, rows, self.names)

    def with_numbers(self, rows):
        """Return rows (..., d) with labels that are numbers in the place of codes."""
        rows = rows.copy()
        for index, known in self.categories.items():
            if known.dtype.kind in "fiu":
                rows[..., index] = known[rows[..., index].astype(np.intp)]
        return rows

    def decode(self, rows, names=None, like=None):
        """Return rows as a table of the kind of ``like``: labels for codes.

        Parameters
        ----------
        rows : ndarray of shape (n, d)
            Rows of numbers.
        names : sequence of str or None, default=None
            Names of columns, with which a data frame is made.
        like : data frame, ndarray or None, default=None
            Table whose types and index are taken over.

        Returns
        -------
        data frame or ndarray
            The table.
        """
        columns = {}
        for index in range(rows.shape[1]):
            values = rows[:, index]
            if index in self.categories:
                known = self.categories[index]
                whole = np.isfinite(values)
                codes = np.where(whole, values, 0).astype(np.intp)
                if known.dtype.kind in "fiu" and whole.all():
                    columns[index] = known[codes]
                    continue
                column = known.astype(object)[codes]
                column[~whole] = None if known.dtype.kind == "O" else np.nan
                values = column
            columns[index] = values
        if names is None and not is_frame(like):
            if not self.has_labels:
                return rows
            kinds = {known.dtype.kind for known in self.categories.values()}
            numbers = kinds <= set("fiu")
            types = [values.dtype for values in columns.values()]
            stacked = np.empty(rows.shape, np.result_type(*types) if numbers else "O")
            for index, values in columns.items():
                stacked[:, index] = values
            wanted = getattr(like, "dtype", None)
            return stacked if wanted is None else stacked.astype(wanted)
        return as_frame(columns, names, like)


def n_columns_of(source) -> int:
    """Return the number of columns of rows, some of which may be text."""
    return source.n_columns if source.names is None else len(source.names)


def _joined(columns, names, text):
    """Return columns of distinct values as a table."""
    if text:
        return LabelTable(dict(zip(names, columns, strict=True)))
    X = np.full((max(map(len, columns)), len(columns)), np.nan)
    for j, distinct in enumerate(columns):
        X[: len(distinct), j] = distinct
    return X.astype(columns[0].dtype) if np.isfinite(X).all() else X


def _emission_of(X, name, labels):
    """Return the emission for a name and a table."""
    d = X.shape[1]
    numbers = [index for index in range(d) if index not in labels]
    counts: list[int] = []
    if name == "auto":
        name = "gaussian"
        seen = {j: SeenIntegers() for j in numbers}
        for j in numbers:
            seen[j](_column(X, j))
        codes = [j for j in numbers if seen[j].are_codes]
        labels = sorted([*labels, *codes])
        counts = [j for j in numbers if seen[j].are_counts and j not in codes]
    numbers = [index for index in numbers if index not in [*counts, *labels]]
    blocks = [
        ("labels", Categorical(), labels),
        ("counts", NegativeBinomial(), counts),
        ("numbers", EMISSIONS[name](), numbers),
    ]
    blocks = [block for block in blocks if block[2]]
    return blocks[0][1] if len(blocks) == 1 else Columns(blocks)


def label_columns(X) -> list[int]:
    """Return the indices of the columns of a frame that hold labels."""
    indices = []
    for index in range(X.shape[1]):
        column = _column(X, index)
        kind = getattr(getattr(column, "dtype", None), "kind", None)
        if kind in ("i", "u", "f", "c", "m", "M"):
            continue
        if kind == "b" or str(getattr(column, "dtype", "")).lower() in LABEL_TYPES:
            indices.append(index)
            continue
        if are_booleans(column):
            indices.append(index)
            continue
        try:
            _as_numbers(column)
        except (TypeError, ValueError):
            indices.append(index)
    return indices


#: Names of types of columns, in lower case, whose values are labels.
LABEL_TYPES = {"bool", "boolean", "category", "categorical", "enum", "string", "str"}


def _column(X, index):
    """Return a column of a frame or an array."""
    if hasattr(X, "iloc"):
        return X.iloc[:, index]
    if is_frame(X):
        return X[X.columns[index]]
    return np.asarray(X)[:, index]


def _name(X, index):
    """Return the name of a column, or its index."""
    return str(X.columns[index]) if is_frame(X) else index


def _as_numbers(column):
    """Return a column as float64, with NaN for missing values."""
    kind = getattr(getattr(column, "dtype", None), "kind", "")
    if kind in ("m", "M"):
        raise ValueError("dates and durations: pass numbers, such as days")
    if kind == "c":
        raise ValueError("complex data are not supported")
    if hasattr(column, "to_numpy") and hasattr(column, "isna"):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    values = np.asarray(column)
    if values.dtype.kind == "O":
        values = np.where(is_missing_label(values), np.nan, values)
    return values.astype(np.float64)
