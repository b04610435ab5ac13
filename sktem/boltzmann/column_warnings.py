"""Warnings of the columns that a Boltzmann machine has learned from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import qr
from scipy.special import betaln

from sktem.estimators.fit_warnings import warn_user
from sktem.estimators.power_transforms import PowerTransform
from sktem.exceptions import FitWarning

__all__ = [
    "warn_of_codes",
    "warn_of_constants",
    "warn_of_dependent",
    "warn_of_one_hot",
    "warn_of_tails",
]


class ColumnLimits(NamedTuple):
    """Thresholds of the warnings about columns.

    Attributes
    ----------
    gap : float
        Nats that rows may be less likely than by their own shares where it does not
        matter that columns are copies.
    sure, rounding : float
        Minus the logarithm of the probability that any two binary columns are equal by
        chance, where they are called copies, and the share of a column's variance that
        others leave where it is called a function of them.
    fewest_rows, enough_rows : int
        Rows from which on most of the columns, and a few of them, exclude each other
        hardly by chance.
    skewed : float
        Nats that a power transform of a column gains where it is skewed.
    skew_rows : int
        About how many rows of it are looked at.
    astray : float
        Standard deviations that no value lies away after a power transform.
    n_codes, rows_of_code : int
        Distinct whole numbers of a column that may be codes of labels, and rows of
        each.
    """

    gap: float = 0.1
    sure: float = 7.0
    rounding: float = 1e-12
    fewest_rows: int = 20
    enough_rows: int = 100
    skewed: float = 0.1
    skew_rows: int = 1000
    astray: float = 10.0
    n_codes: int = 10
    rows_of_code: int = 5


LIMITS = ColumnLimits()


def warn_of_tails(base, best, X, units) -> None:
    """Warn of values far out, or of columns that are better alone when transformed.

    ``base`` and ``best`` are log-likelihoods of independent units and of the fit.
    """
    gains, astray = {}, {}
    for name, column in _real_columns(X, units):
        values = column[:: max(-(-len(column) // LIMITS.skew_rows), 1)]
        transform = PowerTransform.of(values, LIMITS.n_codes + 1)
        if transform is None:
            continue
        gains[name] = transform.gain
        with np.errstate(over="ignore", invalid="ignore"):
            column = transform.transformed(column)
            farthest = np.abs(column - column.mean()).max() / column.std()
        if farthest > LIMITS.astray:
            astray[name] = farthest
    if astray:
        farthest = max(astray.values())
        warn_user(
            f"{_named([*astray])} have values up to {farthest:.0f} standard deviations "
            "away, also after PowerTransformer(), as no normal unit has: a few such "
            "rows decide the likelihood of new ones, whatever else was learned. "
            "Transform the columns first, by "
            'QuantileTransformer(output_distribution="normal"), or leave these rows '
            "out.",
            FitWarning,
        )
        return
    alone = base + sum(gains.values())
    skewed = [name for name, gain in gains.items() if gain > LIMITS.skewed]
    if skewed and alone > best:
        warn_user(
            f"{_named(skewed)} are skewed: after PowerTransformer(), columns that do "
            f"not depend on each other are more likely ({alone:.4g} per row, densities "
            f"of the columns as they are) than under the fit ({best:.4g}). Transform "
            "them first, by it or by their logarithms.",
            FitWarning,
        )


def warn_of_constants(X, units) -> None:
    """Warn of real-valued columns of one value, whose density has no bound."""
    constant = [
        name
        for name, values in _real_columns(X, units)
        if len(values) > 1 and values.min() == values.max()
    ]
    if constant:
        warn_user(
            f"{_named(constant)} hold one value alone, whose density has no bound: "
            "variance_floor decides how likely rows are, and fits take long to get "
            "there. Leave such columns out, in a pipeline by VarianceThreshold().",
            FitWarning,
        )


def warn_of_dependent(gap, X, units) -> None:
    """Warn of columns that follow from others: linear functions, or binary copies.

    ``gap`` is what rows are less likely after the fit than by their own shares.
    """
    if not isinstance(X, np.ndarray):
        return
    if units.kind in ("binary", "spin"):
        # Copies in rows of few patterns are learned with these.
        if gap > LIMITS.gap and (copies := _binary_copies(X)):
            warn_user(
                f"{_named(copies)} are copies of others, or the opposite of them. A "
                "machine has to learn that from the rows, for which its prior leaves "
                "less of everything else. Leave them out: new rows are mostly more "
                "likely.",
                FitWarning,
            )
        return
    functions = _linear_functions(dict(_real_columns(X, units)))
    if functions:
        warn_user(
            f"{_named(functions)} are linear functions of others, so that the density "
            "of the rows has no bound: variance_floor decides how likely they are. "
            "Leave these columns out.",
            FitWarning,
        )


def _binary_copies(X):
    """Return names of binary columns that are equal to others not by chance."""
    n, d = X.shape
    known, copies = set(), []
    for k, column in enumerate(X.T):
        values = np.unique(column)
        if len(values) != 2 or np.diff(values) not in (1, 2):
            continue  # of one value, with NaN, or with shares
        n_equal = np.count_nonzero(column == column[0])
        # Minus the logarithm of the probability that another one is the same.
        unlikely = -np.log(n + 1) - betaln(n_equal + 1, n - n_equal + 1)
        key = (column == column[0]).tobytes()
        if key in known and unlikely > LIMITS.sure + 2 * np.log(d):
            copies.append(f"{k}")
        known.add(key)
    # Without copies there should be something left to learn.
    return copies if len(known) > 1 else []


def _linear_functions(columns):
    """Return names of columns that are linear functions of others."""
    columns = {
        name: values - values.mean()
        for name, values in columns.items()
        if len(values) and values.min() < values.max()
    }
    sizes = {len(values) for values in columns.values()}
    if len(columns) < 2 or len(sizes) > 1 or sizes.pop() <= len(columns) + 1:
        return []  # missing values, or as few rows as columns
    Y = np.array(list(columns.values()))
    size = np.abs(Y).max(axis=1, keepdims=True)
    Y /= size
    Y /= np.linalg.norm(Y, axis=1, keepdims=True)
    triangle, order = qr(Y @ Y.T, mode="r", pivoting=True)
    dependent = order[np.abs(np.diag(triangle)) < LIMITS.rounding]
    return [name for k, name in enumerate(columns) if k in dependent]


def warn_of_one_hot(X) -> None:
    """Warn of neighbouring binary columns of which one is 1 in each row."""
    if not isinstance(X, np.ndarray) or len(X) < LIMITS.fewest_rows:
        return
    groups, begin, total = [], 0, np.zeros(len(X))
    for column, values in enumerate(X.T):
        if not np.isin(values, (0, 1)).all():
            return
        total = total + values
        if total.max() > 1:
            begin, total = column, values
        elif total.min() == 1:
            groups.append((begin, column))
            begin, total = column + 1, np.zeros(len(X))
    groups = [
        (begin, end)
        for begin, end in groups
        if end - begin >= 2 and X[:, begin : end + 1].min(axis=0).max() == 0
    ]
    n_coded = sum(end - begin + 1 for begin, end in groups)
    if groups and (len(X) >= LIMITS.enough_rows or n_coded > X.shape[1] // 2):
        first = ", ".join(f"{begin} to {end}" for begin, end in groups[:3])
        more = ", ..." if len(groups) > 3 else ""
        warn_user(
            f"In each row one of the columns {first}{more} is 1, as in one-hot codes. "
            "A machine has to learn that from the rows; with visible='categorical' and "
            "the columns before they were coded it is built in, and rows are mostly "
            "much more likely.",
            FitWarning,
        )


def warn_of_codes(X, units) -> None:
    """Warn of columns of few whole numbers that were taken for real numbers."""
    suspects = []
    for name, values in _real_columns(X, units):
        if (values == np.floor(values)).all():
            n_distinct = len(np.unique(values))
            if (
                2 <= n_distinct <= LIMITS.n_codes
                and n_distinct * LIMITS.rows_of_code <= len(values)
            ):
                suspects.append(name)
    if suspects:
        warn_user(
            f"{_named(suspects)} hold few distinct whole numbers, "
            "and visible='auto' has taken them for real numbers. If they are codes of "
            "categories, say so by a list with the kind of each column, such as "
            "visible=['categorical', 'gaussian']; if not, by visible='gaussian'.",
            FitWarning,
        )


def _real_columns(X, units):
    """Yield names and values of columns that are taken for real numbers."""
    table = units.table
    if not isinstance(X, np.ndarray) or units.kind not in ("gaussian", "table"):
        return
    n = X.shape[1] if table is None else table.n_normal
    names = [f"{k}" for k in range(n)] if table is None else table.labels()[:n]
    for name, column in zip(names, X.T, strict=False):
        yield name, column[~np.isnan(column)]


def _named(names):
    """Return the names of columns, of many the first ones."""
    more = ", ..." if len(names) > 3 else ""
    return f"Columns {', '.join(names[:3])}{more}"
