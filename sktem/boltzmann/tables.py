"""Columns of tables as visible units: numbers, truth values, and categories."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
from scipy import sparse

from sktem.arrays import input_arrays
from sktem.rows.sources import found_rows, is_stream

__all__ = ["COLUMN_KINDS", "Table", "holds_labels", "is_tabular"]

#: Types of columns whose values are labels, whatever they are made of.
TYPES_OF_LABELS = ("category", "categorical", "enum", "date", "time", "duration")


def is_tabular(visible) -> bool:
    """Return whether the visible units are columns of a table, of different kinds."""
    return not isinstance(visible, str) or visible in ("table", "categorical")


def holds_labels(X) -> bool:
    """Return whether X has columns of text, categories or dates in memory."""
    if sparse.issparse(X) or is_stream(X) or found_rows(X) is not None:
        return False
    if not input_arrays(X).is_numpy:
        return False
    if hasattr(X, "columns") and hasattr(X, "__getitem__"):
        columns = [X[name] for name in X.columns]
        types = [str(column.dtype).lower() for column in columns]
        return any(t.startswith(TYPES_OF_LABELS) for t in types) or any(
            _has_labels(np.asarray(column)) for column in columns
        )
    X = np.asarray(X, None if hasattr(X, "dtype") else object)
    return X.ndim == 2 and _has_labels(X.ravel())


def _has_labels(values):
    """Return whether values are text or dates: digits as text are not numbers."""
    if values.dtype.kind != "O":
        return values.dtype.kind in "USmM"
    present = values[~_is_missing(values)].tolist()
    return not all(isinstance(value, (Number, np.bool_)) for value in present)


class Column:
    """A column of a table, and its units.

    Parameters
    ----------
    name : str
        Its name.
    """

    kind: str
    width = 1

    def __init__(self, name):
        self.name = name

    def labels(self):
        """Return names of the units."""
        return [str(self.name)]


class GaussianColumn(Column):
    """A column of numbers."""

    kind = "gaussian"

    def __init__(self, name, values):
        super().__init__(name)

    def encode(self, values):
        """Return the numbers, NaN where a value is missing."""
        missing = _is_missing(values)
        try:
            numbers = np.where(missing, np.nan, values).astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"column {self.name!r} is to hold numbers: {error}. Its kind in "
                "visible may be 'categorical'"
            ) from None
        if np.isinf(numbers).any():
            raise ValueError(f"column {self.name!r} contains infinity")
        return numbers[:, None]

    def decode(self, units):
        """Return the numbers."""
        return units[:, 0]


class LabelColumn(Column):
    """A column of labels, which are known."""

    def __init__(self, name, values):
        super().__init__(name)
        self.known = _distinct(values)

    def places(self, values):
        """Return the indices of values among the known ones, NaN where missing."""
        missing = _is_missing(values)
        places = {value: k for k, value in enumerate(self.known)}
        out = np.full(len(values), np.nan)
        for k in np.flatnonzero(~missing):
            value = values[k]
            value = value.item() if isinstance(value, np.generic) else value
            if value not in places:
                raise ValueError(
                    f"column {self.name!r} has the value {value!r}, which was not "
                    f"there in fit: its {len(self.known)} values there were taken for "
                    "labels. Say by visible which columns hold real numbers "
                    "('gaussian'), or fit to rows with all values."
                )
            out[k] = places[value]
        return out

    def at(self, places):
        """Return known values by their places."""
        values = np.empty(len(self.known), object)
        values[:] = self.known
        plain = np.array(self.known)
        return (plain if plain.dtype.kind in "biuf" else values)[places]


class CategoricalColumn(LabelColumn):
    """A column of categories, one unit for each."""

    kind = "categorical"

    def __init__(self, name, values):
        super().__init__(name, values)
        self.width = len(self.known)

    def encode(self, values):
        """Return units of values, NaN where a value is missing."""
        places = self.places(values)
        return np.where(
            np.isnan(places)[:, None], np.nan, places[:, None] == np.arange(self.width)
        )

    def decode(self, units):
        """Return the values of units, or the most probable ones for means."""
        return self.at(units.argmax(axis=1))

    def labels(self):
        """Return names of the units."""
        return [f"{self.name}={value}" for value in self.known]


class BinaryColumn(LabelColumn):
    """A column of two values; the second one is 1."""

    kind = "binary"

    def __init__(self, name, values):
        super().__init__(name, values)
        known = self.known
        if len(known) > 2:
            raise ValueError(
                f"column {name!r} has {len(known)} values, and a binary one has two"
            )
        if len(known) == 1:
            # The other of two numbers or truth values.
            other = [v for v in (False, True) if v != known[0]]
            self.known = [*other[:1], known[0]] if known[0] else [known[0], *other[-1:]]

    def encode(self, values):
        """Return units of values, NaN where a value is missing."""
        return self.places(values)[:, None]

    def decode(self, units):
        """Return the values of units, or the most probable ones for means."""
        return self.at((units[:, 0] > 0.5).astype(int))


#: In the order of their units.
COLUMN_KINDS: dict[str, Any] = {
    column.kind: column for column in (GaussianColumn, CategoricalColumn, BinaryColumn)
}


@dataclass
class Table:
    """The columns of a table, and where their units are.

    Units of numbers come first, then groups of categories, then binary ones.

    Attributes
    ----------
    columns : list
        Columns in the order of the table.
    frame : str
        Package of the frame, "" for an array.
    dtypes : list
        Types of the columns of a frame.
    """

    columns: list
    frame: str
    dtypes: list

    @classmethod
    def of(cls, X, visible):
        """Return the table of X, with given or inferred kinds of columns."""
        names, values, dtypes = _columns_of(X)
        if isinstance(visible, str):
            kinds = [visible] * len(names)
        else:
            kinds = list(visible)
        if len(kinds) != len(names):
            raise ValueError(
                f"visible has {len(kinds)} kinds, and X has {len(names)} columns"
            )
        columns = []
        for name, array, dtype, kind in zip(names, values, dtypes, kinds, strict=True):
            if kind == "auto":
                kind = _kind_of(name, array, dtype)
            if _is_missing(array).all():
                raise ValueError(f"column {name!r} has no value: leave it out")
            columns.append(COLUMN_KINDS[kind](name, array))
        return cls(columns, _frame_of(X), dtypes)

    @property
    def _order(self):
        """Places of the columns in the order of their units."""
        kinds = [list(COLUMN_KINDS).index(column.kind) for column in self.columns]
        return np.argsort(kinds, kind="stable").tolist()

    @property
    def groups(self) -> tuple:
        """Numbers of categories."""
        return tuple(c.width for c in self.columns if c.kind == "categorical")

    @property
    def n_normal(self) -> int:
        """Number of columns of numbers."""
        return sum(column.kind == "gaussian" for column in self.columns)

    @property
    def first_binary(self) -> int:
        """Index of the first binary unit."""
        return self.n_normal + sum(self.groups)

    def labels(self) -> list:
        """Return the names of the units."""
        return [label for k in self._order for label in self.columns[k].labels()]

    def encode(self, X):
        """Return the units of rows, float64; NaN where a value is missing."""
        _, values, _ = _columns_of(X)
        if len(values) != len(self.columns):
            raise ValueError(
                f"X has {len(values)} columns, and {len(self.columns)} were fitted"
            )
        return np.hstack([self.columns[k].encode(values[k]) for k in self._order])

    def filled(self, X, imputed):
        """Return rows with missing values replaced by the imputed ones."""
        values = []
        for old, new in zip(_columns_of(X)[1], _columns_of(imputed)[1], strict=True):
            values.append(np.where(_is_missing(old), new, old))
        rows = self._built(values)
        if self.frame == _frame_of(X) == "pandas":
            rows.index = X.index
        return rows

    def decode(self, units):
        """Return rows of the kind that were fitted from units or means of them."""
        decoded, begin = {}, 0
        for k in self._order:
            end = begin + self.columns[k].width
            decoded[k], begin = self.columns[k].decode(units[:, begin:end]), end
        return self._built([decoded[k] for k in range(len(self.columns))])

    def _built(self, values):
        """Return rows from values of columns."""
        values = [
            value.astype(np.float64) if column.kind == "gaussian" else value
            for value, column in zip(values, self.columns, strict=True)
        ]
        if not self.frame:
            numbers = all(dtype.kind in "biuf" for dtype in self.dtypes)
            as_one = np.float64 if numbers else object
            return np.column_stack([value.astype(as_one) for value in values])
        names = [column.name for column in self.columns]
        lists = [value.tolist() for value in values]
        package = importlib.import_module(self.frame)
        frame = package.DataFrame(dict(zip(names, lists, strict=True)))
        labels = {
            column.name: dtype
            for column, dtype in zip(self.columns, self.dtypes, strict=True)
            if column.kind != "gaussian"
        }
        return (frame.cast if self.frame == "polars" else frame.astype)(labels)


def _frame_of(X):
    """Return the package of a frame, "" for arrays and lists."""
    package = type(X).__module__.partition(".")[0]
    return package if package in ("pandas", "polars") else ""


def _columns_of(X):
    """Return names, values and types of columns."""
    if _frame_of(X):
        if not hasattr(X, "shape"):
            raise TypeError("a lazy frame has no rows in memory: collect it first")
        names = list(X.columns)
        columns = [X[name] for name in names]
        dtypes = [column.dtype for column in columns]
        return names, [_values_of(column) for column in columns], dtypes
    X = np.asarray(X, None if hasattr(X, "dtype") else object)
    if X.ndim != 2 or not X.shape[0]:
        raise ValueError(f"Expected 2D array with rows, got shape {X.shape}")
    names = [f"x{k}" for k in range(X.shape[1])]
    return names, list(X.T), [X.dtype] * X.shape[1]


def _values_of(column):
    """Return the values of a column of a frame as a NumPy array."""
    if type(column).__module__.startswith("polars"):
        return np.array(column.to_list(), dtype=object)
    return column.to_numpy(dtype=object)


def _is_missing(values):
    """Return where values are missing: None, NaN or another mark."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind != "O":
        return np.zeros(len(values), bool)
    # NaN is not equal to itself, and pandas.NA refuses to say.
    marks = [v is None or type(v).__name__ == "NAType" or v != v for v in values]
    return np.array(marks, bool)


def _distinct(values):
    """Return the distinct values, sorted if they can be."""
    present = values[~_is_missing(values)].tolist()
    distinct = set(present)
    try:
        return sorted(distinct)
    except TypeError:
        return sorted(distinct, key=str)


def _kind_of(name, values, dtype):
    """Return the kind of a column from its type and its values."""
    if str(dtype).lower().startswith(("category", "categorical", "enum")):
        return "categorical"
    if str(dtype).lower().startswith(("date", "time", "duration")):
        raise ValueError(
            f"column {name!r} has type {dtype}: make numbers of it, or give its kind "
            "in visible"
        )
    present = values[~_is_missing(values)].tolist()
    if not all(isinstance(v, (bool, int, float, np.number, np.bool_)) for v in present):
        return "categorical"
    return "binary" if present and set(present) <= {0, 1} else "gaussian"
