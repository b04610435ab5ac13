"""Comparison of imputed values with means of columns, by cells left out."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from sktem.exceptions import FitWarning, warn_user

__all__ = ["CELLS", "judged_cells", "warn_of_cells"]


class CellRule(NamedTuple):
    """Comparison of imputed values with means of columns.

    Attributes
    ----------
    n_rows : int
        Rows that are looked at, at most.
    fewest : int
        Rows, at least.
    per_column : int
        Rows for each column below which chance makes slopes.
    heavy : float
        Distance of a value from the median, in standard deviations as the quartiles
        have them, from which on it makes slopes. Elsewhere nothing is judged: fits to
        parts of the rows take as long as that to all of them, or longer.
    n_parts : int
        Parts of the rows, of which one is left out of a fit and judged, and of the
        cells of a row, of which one is imputed from the others.
    n_cells, n_judged : int
        Cells and rows that are judged, about, if there are so many.
    worse, one_worse, better : float
        Squared errors over those of means, from which on they are in doubt: of all
        columns, and of one; and below which no more rows are judged, unless another
        mixture gains.
    gain, no_gain : float
        Squared errors over those of the first mixture, below which another one is
        chosen, and above which it does not gain: where they differ little, more
        components have better densities.
    most_equal : float
        Share of a column with one value, at most, for it to be judged alone.
    far : float
        Standard deviations by which an imputed value is worse than the mean, or better,
        to be counted, as the quartiles have them: of heavy tails, single cells decide
        the sum of squares.
    errors : float
        Standard errors by which more of these are worse than better.
    """

    n_rows: int = 5000
    fewest: int = 8
    per_column: int = 10
    heavy: float = 8.0
    n_parts: int = 5
    n_cells: int = 2000
    n_judged: int = 100
    worse: float = 1.15
    one_worse: float = 1.3
    better: float = 0.6
    gain: float = 0.9
    no_gain: float = 0.95
    most_equal: float = 0.95
    far: float = 0.5
    errors: float = 2.5

    def n_folds(self, n_rows, n_columns):
        """Return how many parts of the rows are judged, at most."""
        wanted = max(self.n_cells / n_columns, self.n_judged)
        return min(int(np.ceil(self.n_parts * wanted / n_rows)), self.n_parts)

    def doubts(self, values) -> bool:
        """Return whether columns have few rows or heavy tails."""
        n, d = values.shape
        if n < self.per_column * d:
            return True
        lower, centre, upper = np.nanquantile(values, [0.25, 0.5, 0.75], axis=0)
        spread = (upper - lower) / 1.349
        return bool(
            (np.abs(values - centre) > self.heavy * spread)[:, spread > 0].any()
        )


CELLS = CellRule()


class CellErrors:
    """Errors of imputed values and of means, by cells that are left out.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        Rows of the columns that are judged; NaN is missing.
    rule : CellRule
        What counts as worse.
    """

    def __init__(self, rows, rule):
        self.values, self.rule = rows, rule
        self.imputed, self.means = np.full((2, *rows.shape), np.nan)
        scale = np.nanstd(rows, axis=0)
        self.scale = np.where(scale > 0, scale, 1.0)
        lower, upper = np.nanquantile(rows, [0.25, 0.75], axis=0)
        spread = np.minimum((upper - lower) / 1.349, self.scale)
        self.far = rule.far * np.where(spread > 0, spread / self.scale, 1.0)
        counts = [np.unique(v[~np.isnan(v)], return_counts=True)[1] for v in rows.T]
        self.varies = [c.max() <= rule.most_equal * c.sum() for c in counts]

    def of(self, columns):
        """Return errors of imputed values and of means, in standard deviations."""
        values, scale = self.values[:, columns], self.scale[columns]
        errors = np.abs(self.imputed[:, columns] - values) / scale
        return errors, np.abs(self.means[:, columns] - values) / scale

    def are_worse(self, columns, least):
        """Return whether errors are larger than those of means, by more than chance."""
        errors, means = self.of(columns)
        losses, far = errors - means, self.far[columns]
        worse, better = (losses > far).sum(), (-losses > far).sum()
        if np.nansum(errors**2) <= least * np.nansum(means**2):
            return False
        return worse - better > self.rule.errors * np.sqrt(worse + better)

    @property
    def totals(self):
        """Sums of the squared errors of imputed values and of means."""
        return [np.nansum(errors**2) for errors in self.of(slice(None))]

    def behind(self):
        """Return columns whose errors are larger than those of means."""
        every, rule = np.arange(self.values.shape[1]), self.rule
        single = [k for k in every[self.varies] if self.are_worse([k], rule.one_worse)]
        if not single and self.are_worse(every, rule.worse):
            return every
        return np.array(single, dtype=np.intp)


def _judged(rows, weights, columns, learn, n_mixtures, rule):
    """Return the choice and its errors; no more parts where the first is clearly good.

    Where another mixture gains, heavy tails or few rows make the parts differ.
    """
    rng = np.random.default_rng(0)
    judged = [CellErrors(rows[:, columns], rule) for _ in range(n_mixtures)]
    values = judged[0].values
    n, d = values.shape
    n_parts = min(rule.n_parts, d)
    folds = rng.permutation(n) % rule.n_parts
    parts = rng.permuted(np.tile(np.arange(d) % n_parts, (n, 1)), axis=1)
    for fold in range(rule.n_folds(n, d)):
        out, taken = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        known = ~np.isnan(values[taken])
        totals = weights[taken] @ np.where(known, values[taken], 0.0)
        means = totals / np.maximum(weights[taken] @ known, 1e-300)
        for errors, fitted in zip(judged, learn(taken), strict=True):
            errors.means[out] = means
            for part in range(n_parts):
                left_out = parts[out] == part
                holes = rows[out].copy()
                holes[:, columns] = np.where(left_out, np.nan, holes[:, columns])
                filled = fitted.completed(holes, "mean", None)[:, columns]
                errors.imputed[out] = np.where(left_out, filled, errors.imputed[out])
        totals, of_means = np.transpose([errors.totals for errors in judged])
        gain = totals.min() / max(totals[0], 1e-300)
        if totals[0] < rule.better * of_means[0] and gain > rule.no_gain:
            break
    choice = int(totals.argmin()) if gain < rule.gain else 0
    return choice, judged[choice]


def judged_cells(rows, weights, columns, learn, n_mixtures, rule: CellRule = CELLS):
    """Return which mixture imputes cells left out best, and the errors of its cells.

    It is the first one where no other is clearly better.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        Rows; NaN is missing.
    weights : ndarray of shape (n,)
        Their weights.
    columns : ndarray of int
        Columns of numbers that are judged.
    learn : callable
        Returns the fitted mixtures of some rows, by their indices.
    n_mixtures : int
        Number of these mixtures.
    rule : CellRule
        When cells are judged, and how many.

    Returns
    -------
    choice, errors : int and CellErrors
        The first of the mixtures, and None, where nothing is in doubt.
    """
    few = len(rows) < rule.fewest or len(columns) < 2
    if few or not rule.doubts(rows[:, columns]):
        return 0, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _judged(rows, weights, columns, learn, n_mixtures, rule)


def warn_of_cells(errors, columns, names, others):
    """Warn of columns whose imputed values are behind their means.

    Parameters
    ----------
    errors : CellErrors
        Errors of cells that were left out.
    columns : ndarray of int
        Columns of numbers that were judged.
    names : sequence
        Names of all columns.
    others : str
        What else may impute them.
    """
    behind = errors.behind()
    if not len(behind):
        return
    own, simple = (np.sqrt(np.nanmean(part**2)) for part in errors.of(behind))
    first = ", ".join(str(names[column]) for column in columns[behind[:3]])
    warn_user(
        f"Imputed values of column(s) {first}{', ...' if len(behind) > 3 else ''} are "
        f"behind their means: of cells left out the error is {own:.2g} standard "
        f"deviations, and {simple:.2g} by the means. Heavy tails, or few rows, make "
        "slopes of one column in others that are not there. Transform the columns "
        'first, by QuantileTransformer(output_distribution="normal") or logarithms, or '
        f"take {others}.",
        FitWarning,
    )
