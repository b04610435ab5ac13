"""Labels of columns and their codes, also of text in rows that are read by blocks."""

from __future__ import annotations

from contextlib import closing
from copy import copy
from numbers import Integral
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, xlogy

from sktem.rows.base import as_iterator

__all__ = [
    "LabelTable",
    "SeenIntegers",
    "SeenLabels",
    "TextCodes",
    "all_codes",
    "are_booleans",
    "codes_of",
    "is_missing_label",
    "label_places",
    "labels_of",
    "numbers_or_nan",
    "with_coded",
]


class SeenLabels:
    """Labels of a column that have been read.

    Parameters
    ----------
    is_text : bool or None, default=None
        Whether some are no numbers; None looks at the values.

    Attributes
    ----------
    labels : set
        The labels, of text.
    """

    def __init__(self, is_text=None):
        self.labels: set = set()
        self.is_text = is_text

    def __call__(self, values):
        """Return zeros in the place of labels, numbers as they are."""
        values = np.asarray(values)
        if values.dtype.kind in "mM":
            self.is_text = False
            return np.zeros(len(values))
        present = values[~is_missing_label(values)]
        if self.is_text is None and values.dtype.kind not in "bOSU":
            self.is_text = False
        elif not self.is_text and len(present):
            self.is_text = _is_text(present)
        if not self.is_text:
            return values
        try:
            self.labels.update(present.tolist())
        except TypeError:  # lists and the like
            return values
        return np.zeros(len(values))


class IntegersRule(NamedTuple):
    """Rules by which integers are codes or measurements, and no counts.

    Attributes
    ----------
    others : float
        Rows that counts with the same mean would have beside the two, by expectation
        and at least: rare counts, such as a few ones among zeros, have others later.
    rows : int
        Rows of each of any two integers that are codes by that, such as 0 and 1.
    far : float
        Mean over standard deviation beyond which they are measurements, such as years
        or heights: counts that far from zero are normal, and others vary less or more.
    few : int
        Distinct values of measurements are more: Gaussians can collapse on these.
    """

    others: float = 5.0
    rows: int = 30
    far: float = 4.0
    few: int = 10


INTEGERS = IntegersRule()


class SeenIntegers:
    """Signs of counts and of codes among the numbers of a column that have been read.

    Attributes
    ----------
    are_typed : bool
        Whether some have been integers, missing values that make floats of these, or
        zeros, which whole numbers on other scales than that of counts seldom are.
    are_whole : bool
        Whether all are integers that are not negative.
    are_booleans : bool
        Whether some have been booleans, which are codes however rare one of them is.
    frequencies : dict of float to int
        How often each of the first distinct values came, one more than a few.
    moments : ndarray of shape (3,)
        Number of values, their sum and that of their squares.
    """

    def __init__(self, are_typed=False, are_booleans=False):
        self.are_typed, self.are_whole = are_typed, True
        self.are_booleans = are_booleans
        self.frequencies: dict[float, int] = {}
        self.moments = np.zeros(3)

    @property
    def are_counts(self) -> bool:
        """Whether the column holds counts, and no measurements."""
        if not (self.are_typed and self.are_whole):
            return False
        n, first, second = self.moments
        with np.errstate(over="ignore", invalid="ignore"):
            is_far = n * second < (1 + INTEGERS.far**-2) * first**2
        return not is_far or len(self.frequencies) <= INTEGERS.few

    @property
    def are_codes(self) -> bool:
        """Whether they are two codes: counts of a Poisson law have other values too."""
        if self.are_booleans:
            return True
        if not self.are_counts or len(self.frequencies) != 2:
            return False
        values, rows = np.array(list(self.frequencies.items())).T
        mean = np.average(values, weights=rows)
        shares = np.exp(xlogy(values, mean) - mean - gammaln(values + 1.0))
        return bool(rows.sum() * (1.0 - shares.sum()) >= INTEGERS.others)

    def example(self):
        """Return a column that has the same signs."""
        if self.are_codes:
            codes = (0, 1) if self.are_booleans else [*self.frequencies]
            return np.tile(np.array(codes, np.int64), INTEGERS.rows)
        return np.zeros(1, np.int64) if self.are_counts else np.full(1, 0.5)

    def __call__(self, values):
        """Return the values as they are."""
        values = np.asarray(values)
        missing = is_missing_label(values)
        self.are_booleans |= values.dtype.kind == "b"
        of_type = values.dtype.kind in "iub" or any(
            isinstance(value, Integral)
            for value in (values if values.dtype.kind == "O" else ())
        )
        present = numbers_or_nan(values[~missing])
        self.are_typed |= of_type or bool(missing.any() or (present == 0).any())
        if present.dtype.kind not in "iuf":
            self.are_whole = False
        elif self.are_whole:
            self.are_whole = bool(
                ((present >= 0) & (present == np.floor(present))).all()
            )
        if self.are_whole:
            sizes = present.astype(np.float64)
            with np.errstate(over="ignore"):
                self.moments += len(sizes), sizes.sum(), (sizes**2).sum()
        if self.are_whole and len(self.frequencies) <= INTEGERS.few:
            distinct, rows = np.unique(present, return_counts=True)
            distinct = distinct[: INTEGERS.few + 1].tolist()
            for value, n in zip(distinct, rows.tolist(), strict=False):
                self.frequencies[value] = self.frequencies.get(value, 0) + n
        return values


class TextCodes(NamedTuple):
    """Codes of the labels of a column.

    Attributes
    ----------
    labels : ndarray
        The labels, in the order of their codes.
    name : str
        Name of the column.
    """

    labels: np.ndarray
    name: str

    def __call__(self, values):
        """Return the codes of some rows, NaN for missing labels."""
        return codes_of(np.asarray(values), self.labels, self.name)


class LabelTable:
    """Columns of labels and of numbers, as a table from which others learn.

    Parameters
    ----------
    columns : dict of str to ndarray
        Columns of any lengths.
    """

    def __init__(self, columns):
        self.values = columns
        self.columns = list(columns)
        self.shape = (max(map(len, columns.values())), len(columns))

    def __getitem__(self, name):
        """Return a column."""
        return self.values[name]


def _is_text(values):
    """Return whether some labels are neither numbers nor missing."""
    if values.dtype.kind == "b" or are_booleans(values):
        return True
    try:
        values.astype(np.float64)
    except (TypeError, ValueError):
        return True
    return False


def label_places(source, places) -> list[int]:
    """Return the places of columns of text or booleans, as their first values show.

    Parameters
    ----------
    source : Rows
        The rows.
    places : sequence of int
        Columns that are looked at.

    Returns
    -------
    list of int
        The columns.
    """
    if source.names is None or not any(source.is_text(j) for j in places):
        return []
    seen = {j: SeenLabels() for j in places}
    coded = with_coded(source, seen)
    for index in range(source.n_pieces):
        with closing(as_iterator(coded.piece(index))) as chunks:
            for _ in chunks:
                if all(column.is_text is not None for column in seen.values()):
                    return [j for j in places if seen[j].is_text]
    return [j for j in places if seen[j].is_text]


def with_coded(source, coded):
    """Return rows with functions that make numbers of their columns."""
    source = copy(source)
    source.coded = {**source.coded, **coded}
    return source


def numbers_or_nan(values):
    """Return a column of numbers, NaN for one of text."""
    values = np.asarray(values)
    if values.dtype.kind not in "bOSUmM":
        return values
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        return np.full(len(values), np.nan)


def are_booleans(column):
    """Return whether all observed values of a column of objects are booleans."""
    values = np.asarray(column)
    if values.dtype.kind != "O":
        return False
    values = values[~is_missing_label(values)]
    return len(values) > 0 and all(isinstance(v, (bool, np.bool_)) for v in values)


def is_missing_label(values):
    """Return which labels are missing: None and NaN."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    return np.array([v is None or str(v) == "<NA>" or v != v for v in values], bool)


def labels_of(column, name) -> np.ndarray:
    """Return the labels of a column in order: of its type, or sorted.

    Booleans are of a type that has two, whether both occur or not.

    Raise ValueError for lists and the like, which are no labels.
    """
    categories = getattr(getattr(column, "dtype", None), "categories", None)
    if hasattr(categories, "__len__"):  # those of polars need not be known
        return np.asarray(categories, dtype=object)
    values = np.asarray(column)
    if values.dtype.kind == "b" or are_booleans(values):
        return np.array([False, True], values.dtype)
    values = values[~is_missing_label(values)]
    try:
        labels = set(values) if values.dtype.kind == "O" else ()
    except TypeError as error:
        raise ValueError(f"column {name!r} does not hold labels: {error}") from None
    try:
        return np.unique(values)
    except TypeError:  # of several types
        return np.array(sorted(labels, key=lambda v: (str(type(v)), str(v))), object)


def all_codes(labels, count):
    """Return labels, or all codes if these are some of a given number of codes."""
    if isinstance(count, str) or labels.dtype.kind not in "fiu" or not len(labels):
        return labels
    codes = np.arange(int(count), dtype=labels.dtype)
    return codes if np.isin(labels, codes).all() else labels


def codes_of(column, labels, name):
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
        missing = is_missing_label(column)
        if ((labels[codes] == column) | missing).all():
            return np.where(missing, np.nan, codes)
    code_of = {label: code for code, label in enumerate(labels.tolist())}
    if hasattr(column, "factorize"):
        places, distinct = column.factorize()
    else:
        values = np.asarray(column)
        missing = is_missing_label(values)
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
