"""Tables as they come (numbers, labels, names of columns) as rows of numbers."""

from __future__ import annotations

from copy import copy
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone

from sktem.choices import check_choice
from sktem.emissions.base import Emission
from sktem.emissions.categorical import Categorical
from sktem.emissions.columns import Columns
from sktem.emissions.names import EMISSIONS
from sktem.emissions.negative_binomial import NegativeBinomial
from sktem.rows.checked import checked_blocks

__all__ = ["Table", "is_frame"]


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
        categorical. "auto" takes columns of integers, also those that missing values
        have turned into floats, for counts with negative binomial distributions, and
        all other numbers for Gaussian.
    names : sequence of str or None, default=None
        Names of the columns of an array.

    Attributes
    ----------
    emission : Emission
        The emission, with indices of columns.
    categories : dict of int to ndarray
        Labels of each column of a categorical emission, in the order of their codes.
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
                    self.categories[index] = _all_codes(distinct, count)
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
        if places is None:
            places = list(range(source.n_columns))
        elif names is not None:
            names = [names[j] for j in places]
        d = len(places)
        table = cls(np.ones((1, d), source.dtype), emission, names)
        auto = isinstance(emission, str) and emission == "auto"
        columns = range(d) if auto and source.dtype.kind in "iu" else table.categories
        if not columns:
            return table
        values = [np.empty(0)] * d
        for block in checked_blocks(source, source.n_columns, allow_nan=True):
            for j in columns:
                distinct = np.unique(np.append(values[j], block[:, places[j]]))
                values[j] = distinct[:1] if auto else distinct
        X = np.full((max(map(len, values)), d), np.nan)
        for j, distinct in enumerate(values):
            X[: len(distinct), j] = distinct
        return cls(X.astype(source.dtype) if auto else X, emission, names)

    def declare(self, counts):
        """Take the labels of columns for some of a number of codes, if they can be."""
        n_categories = self.emission.n_categories
        for index, count in zip(self.categories, counts, strict=False):
            codes = _all_codes(self.categories[index], count)
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
                rows[:, index] = _codes(column, self.categories[index], _name(X, index))
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
        self.emission.check(self.encode(X) if self.has_labels else X)

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
        return _as_frame(columns, names, like)


def _as_frame(columns, names, like):
    """Return columns as a data frame of pandas or of the library of another one."""
    import pandas as pd

    names = list(like.columns) if is_frame(like) else list(names)
    frame = pd.DataFrame(dict(zip(names, columns.values(), strict=True)))
    if not is_frame(like):
        return frame.infer_objects()
    if not hasattr(like, "iloc"):
        return type(like)({name: list(frame[name]) for name in names})
    frame.index = like.index
    for name in names:
        wanted = like[name].dtype
        if frame[name].isna().any() and wanted.kind in "biu":
            continue
        whole = wanted.kind not in "iu" or (frame[name] == frame[name].round()).all()
        if wanted != frame[name].dtype and whole:
            frame[name] = frame[name].astype(wanted)
    return frame


def _emission_of(X, name, labels):
    """Return the emission for a name and a table."""
    d = X.shape[1]
    numbers = [index for index in range(d) if index not in labels]
    counts = []
    if name == "auto":
        name = "gaussian"
        if is_frame(X) or np.asarray(X).dtype.kind in "iu":
            counts = [j for j in numbers if _is_counts(_column(X, j))]
    numbers = [index for index in numbers if index not in counts]
    blocks = [
        ("labels", Categorical(), labels),
        ("counts", NegativeBinomial(), counts),
        ("numbers", EMISSIONS[name](), numbers),
    ]
    blocks = [block for block in blocks if block[2]]
    return blocks[0][1] if len(blocks) == 1 else Columns(blocks)


def _is_counts(column):
    """Return whether a column holds integers that are not negative.

    In a frame of pandas missing values turn integers into floats; whole floats without
    any are measurements.
    """
    kind = getattr(getattr(column, "dtype", None), "kind", "")
    if kind == "O":  # numbers, as others are labels
        present = np.asarray(column)[~_missing(np.asarray(column))]
        return all(isinstance(v, Integral) and int(v) >= 0 for v in present)
    if kind not in ("i", "u", "f"):
        return False
    values = _as_numbers(column)
    missing = np.isnan(values)
    values = values[~missing]
    if kind == "f" and not (missing.any() and (values == np.round(values)).all()):
        return False
    return not (values < 0).any()


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
        if _are_booleans(column):
            indices.append(index)
            continue
        try:
            _as_numbers(column)
        except (TypeError, ValueError):
            indices.append(index)
    return indices


def _are_booleans(column):
    """Return whether all observed values of a column of objects are booleans."""
    values = np.asarray(column)
    if values.dtype.kind != "O":
        return False
    values = values[~_missing(values)]
    return len(values) > 0 and all(isinstance(v, (bool, np.bool_)) for v in values)


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
    if getattr(getattr(column, "dtype", None), "kind", "") in ("m", "M"):
        raise ValueError("dates and durations: pass numbers, such as days")
    if hasattr(column, "to_numpy") and hasattr(column, "isna"):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    values = np.asarray(column)
    if values.dtype.kind == "O":
        values = np.where(_missing(values), np.nan, values)
    return values.astype(np.float64)


def _missing(values):
    """Return which labels are missing: None and NaN."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    return np.array([v is None or str(v) == "<NA>" or v != v for v in values], bool)


def labels_of(column, name) -> np.ndarray:
    """Return the labels of a column in order: of its type, or sorted.

    Raise ValueError for lists and the like, which are no labels.
    """
    categories = getattr(getattr(column, "dtype", None), "categories", None)
    if hasattr(categories, "__len__"):  # those of polars need not be known
        return np.asarray(categories, dtype=object)
    values = np.asarray(column)
    values = values[~_missing(values)]
    try:
        labels = set(values) if values.dtype.kind == "O" else ()
    except TypeError as error:
        raise ValueError(f"column {name!r} does not hold labels: {error}") from None
    try:
        return np.unique(values)
    except TypeError:  # of several types
        return np.array(sorted(labels, key=lambda v: (str(type(v)), str(v))), object)


def _all_codes(labels, count):
    """Return labels, or all codes if these are some of a given number of codes."""
    if isinstance(count, str) or labels.dtype.kind not in "fiu" or not len(labels):
        return labels
    codes = np.arange(int(count), dtype=labels.dtype)
    return codes if np.isin(labels, codes).all() else labels


def _codes(column, labels, name):
    """Return the codes of labels, NaN for missing ones."""
    numbers = isinstance(column, np.ndarray) and column.dtype.kind in "fiu"
    if numbers and labels.dtype.kind in "fiu" and len(labels):
        # The labels of an array of numbers are sorted; often they are codes already.
        if np.array_equal(labels, np.arange(len(labels))):
            codes = column.astype(np.float64)
            with np.errstate(invalid="ignore"):
                outside = (codes < 0) | (codes >= len(labels))
                if not (outside | (np.floor(codes) < codes)).any():
                    return codes
        codes = np.minimum(np.searchsorted(labels, column), len(labels) - 1)
        missing = _missing(column)
        if ((labels[codes] == column) | missing).all():
            return np.where(missing, np.nan, codes)
    code_of = {label: code for code, label in enumerate(labels.tolist())}
    if hasattr(column, "factorize"):
        places, distinct = column.factorize()
    else:
        values = np.asarray(column)
        missing = _missing(values)
        places = np.full(len(values), -1)
        try:
            distinct, places[~missing] = np.unique(
                values[~missing], return_inverse=True
            )
        except TypeError:  # of several types
            distinct = list(dict.fromkeys(values[~missing].tolist()))
            place_of = {label: place for place, label in enumerate(distinct)}
            places[~missing] = [place_of[v] for v in values[~missing].tolist()]
    table = np.full(len(distinct) + 1, np.nan)  # the last one is that of -1
    for place, label in enumerate(list(distinct)):
        label = label.item() if isinstance(label, np.generic) else label
        if label not in code_of:
            raise ValueError(
                f"column {name!r} has the label {label!r}, which the fit has not "
                f"seen: it knows {labels.tolist()[:10]}. Labels that come later have "
                "to be declared: by a categorical type of pandas with all categories, "
                "or as codes with Categorical(n_categories)"
            )
        table[place] = code_of[label]
    return table[places]
