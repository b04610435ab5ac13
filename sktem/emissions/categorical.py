"""Independent columns of categories."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import numpy as np

from sktem.emissions.base import Emission, check_values, left_alive, start_from
from sktem.emissions.clusters import centred
from sktem.emissions.directions import share_directions
from sktem.emissions.poisson import is_no_count
from sktem.emissions.scarcity import LabelShares
from sktem.kernels.blocks import plain

__all__ = ["Categorical", "CategoricalParams", "code_tables", "counted_codes"]


class CategoricalParams(NamedTuple):
    """Parameters of columns of categories.

    Attributes
    ----------
    probabilities : ndarray of shape (K, d, L)
        Probabilities of the codes 0 to L - 1; 0 for codes that a column does not have,
        and for those that a state cannot have, which stay 0.
    n_categories : ndarray of int of shape (d,)
        Number of categories of each column; L is the largest.
    degenerate : int
        Number of states that had no data in some column in the last M-step.
    prior_mass : ndarray of shape (d,) or float
        Weight of the prior in each column, on the scale of the statistics.
    """

    probabilities: np.ndarray
    n_categories: np.ndarray
    degenerate: int = 0
    prior_mass: np.ndarray | float = 0.0


class Categorical(Emission):
    """Columns of categories that are independent given the state.

    Rows hold the codes 0, 1, 2, ... of the categories. Estimators convert labels, text
    or numbers, to these codes: the categories are the labels that occur in ``fit``, in
    their order, so that the labels 1, 2 and 5 are three categories. If ``n_categories``
    is given, integer labels below it are taken as codes, and any of these may occur
    later.

    Parameters
    ----------
    n_categories : int, array-like of shape (d,) or "auto", default="auto"
        Number of categories of each column; "auto" is the number of labels in ``fit``
        (without an estimator, one more than the largest code in the rows of the start).
    smoothing : float, default=0.0
        Strength of a prior towards equal probabilities, as a share of the data: the
        probability of a category is ``(s_l + smoothing * total / L) / (s + smoothing *
        total)``, with sums ``s`` over the rows. Without smoothing, probabilities are
        maximum likelihood estimates, at least 1e-10.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.emissions import Categorical
    >>> X = np.array([[0.0], [1.0], [2.0], [2.0], [np.nan]])
    >>> Categorical().start(X, np.ones((5, 1))).probabilities.round(2)
    array([[[0.25, 0.25, 0.5 ]]])
    """

    distributions = ("probabilities",)

    def __init__(self, n_categories="auto", smoothing=0.0):
        self.n_categories = n_categories
        self.smoothing = smoothing

    def check(self, X):
        """Raise ValueError for values that are not codes."""
        known = not isinstance(self.n_categories, str)
        beyond = np.asarray(self.n_categories) if known else np.inf
        check_values(
            self, X, lambda x: is_no_count(x) | (x >= beyond),
            "codes 0, 1, 2, ... of its categories",
        )  # fmt: skip

    def features(self, X):
        """Return an indicator of each code of each column."""
        columns = [np.empty((len(X), 0))]
        for column in X.T:
            observed = ~np.isnan(column)
            flags = (column[:, None] == np.unique(column[observed])).astype(np.float64)
            flags[~observed] = np.nan
            columns.append(flags)
        return np.concatenate(columns, axis=1)

    def points(self, X, sample_weight=None):
        """Return indicators about their means.

        Two codes that differ count as two standardised numbers that differ by as much.
        """
        return centred(self.features(X), sample_weight)

    def start(self, X, R):
        """Return the shares of the categories in each state."""
        K, d = R.shape[1], X.shape[1]
        if isinstance(self.n_categories, str):
            codes = np.where(np.isnan(X), 0, X)
            counts = codes.max(axis=0, initial=0).astype(np.intp) + 1
        else:
            counts = np.broadcast_to(np.asarray(self.n_categories, dtype=np.intp), d)
        known = np.arange(counts.max()) < counts[:, None]
        equal = np.repeat((known / counts[:, None])[None], K, axis=0)
        return start_from(self, X, R, CategoricalParams(equal, counts))

    def log_density(self, X, params):
        """Return the log-probability of each row in each state."""
        X, (widths, table) = plain(X), code_tables(params)
        out = np.empty((len(table), len(X)))
        if not _kernels().log_probabilities(X, widths, table, out):
            raise _unknown_code(X, params)
        return out.T

    def statistics(self, X, R, params):
        """Return the mass of each category by state and column."""
        K, d, L = params.probabilities.shape
        X, sums = plain(X), np.zeros((d, L + 1, K))
        widths = np.asarray(params.n_categories, dtype=np.int64) + 1
        if not _kernels().weighted_counts(X, widths, plain(R), sums):
            raise _unknown_code(X, params)
        return counted_codes(sums, params)

    def label_shares(self, params):
        """Return the probabilities of the categories."""
        columns = np.arange(params.probabilities.shape[1])
        return [LabelShares(columns, params.probabilities)]

    def shares(self, params):
        """Return the probabilities of the categories."""
        return [params.probabilities]

    def with_shares(self, params, shares):
        """Return other probabilities of the categories."""
        return params._replace(probabilities=shares[0])

    def maximize(self, s, params):
        """Return the shares of the categories."""
        counts = s.reshape(params.probabilities.shape)
        mass = counts.sum(axis=2)
        alive, degenerate = left_alive(mass)
        prior = self.smoothing * mass.sum(axis=0)
        possible = params.probabilities > 0
        raised = counts + possible * (prior / possible.sum(axis=2))[:, :, None]
        divisor = np.where(alive, mass + prior, 1.0)
        shares = raised / divisor[:, :, None]
        shares = np.where(alive[:, :, None], shares, params.probabilities)
        shares = np.where(possible, np.maximum(shares, self._least_probability), 0.0)
        return CategoricalParams(shares, params.n_categories, degenerate, prior)

    def penalty(self, params):
        """Return minus the log prior of the probabilities."""
        if not self.smoothing:
            return 0.0
        p = params.probabilities
        logs = np.log(np.where(p > 0, p, 1.0)).sum(axis=2)
        return float(-(params.prior_mass / (p > 0).sum(axis=2) * logs).sum())

    def expected(self, X, R, params):
        """Return the most probable categories: codes have no mean."""
        return self.mode(X, R, params)

    def mode(self, X, R, params):
        """Return rows with missing values replaced by the most probable category."""
        K, d, L = params.probabilities.shape
        shares = (R @ params.probabilities.reshape(K, -1)).reshape(-1, d, L)
        return np.where(np.isnan(X), shares.argmax(axis=2), X)

    def sample(self, params, states, rng):
        """Draw a row for each of the given states."""
        limits = params.probabilities.cumsum(axis=2)
        limits = limits / limits[:, :, -1:]
        uniform = rng.random((len(states), limits.shape[1]))
        return (uniform[:, :, None] > limits[states]).sum(axis=2).astype(np.float64)

    def free_directions(self, params, following, X):
        """Yield the directions of the probabilities of each column."""
        for k, column in np.ndindex(params.probabilities.shape[:2]):
            p, then = (fit.probabilities[k, column] for fit in (params, following))
            place = [(k, column)]
            yield from share_directions("probabilities", p, then, place, (column,), k)

    def n_parameters(self, K, d, params=None):
        """Return the number of free probabilities.

        Without smoothing, categories that no row has are not counted, given params.
        """
        counts = self.n_categories
        if params is not None:
            p = params.probabilities
            occurs = (p > self._least_probability).any(axis=0)
            possible = ((p > 0) & occurs).sum(axis=2)
            return int(np.maximum(possible - 1, 0).sum())
        if isinstance(counts, str):
            raise ValueError(
                "the number of categories is not known before the start: pass params"
            )
        return int(K * (np.broadcast_to(np.asarray(counts), d) - 1).sum())

    def marginal(self, params, columns):
        """Return the probabilities of some columns."""
        counts = params.n_categories[columns]
        table = params.probabilities[:, columns, : counts.max(initial=1)]
        return CategoricalParams(table, counts)

    def condition(self, params, columns, values, others):
        """Return the marginal: columns are independent given the state."""
        emission, conditional = super().condition(params, columns, values, others)
        if np.ndim(self.n_categories):
            emission.n_categories = conditional.n_categories.tolist()
        return emission, conditional


def _kernels():
    """Return the compiled loops, imported on first use: numba is slow to import."""
    return import_module("sktem.emissions.kernels.categories")


def _known(params):
    """Return which codes are categories of the columns, (d, L)."""
    codes = np.arange(params.probabilities.shape[2])
    return codes < np.asarray(params.n_categories)[:, None]


def code_tables(params):
    """Return numbers of codes by column, with that of NaN, and logs (K, d, codes)."""
    p = params.probabilities
    K, d, L = p.shape
    table = np.zeros((K, d, L + 1))
    with np.errstate(divide="ignore"):
        table[:, :, :L] = np.where(_known(params), np.log(p), 0.0)
    return np.asarray(params.n_categories, dtype=np.int64) + 1, table


def counted_codes(sums, params):
    """Return statistics from weighted counts of codes, (d, codes, K)."""
    counts = np.moveaxis(sums[:, :-1], 2, 0)
    return np.where(_known(params), counts, 0.0).ravel()


def _unknown_code(X, params):
    """Return the error for a value that is no code of its column."""
    with np.errstate(invalid="ignore"):
        wrong = is_no_count(X) & ~np.isnan(X) | (X >= params.n_categories)
    row, column = np.argwhere(wrong)[0]
    return ValueError(
        f"column {column} has the code {X[row, column]:g}, and its categories have "
        f"the codes 0 to {params.n_categories[column] - 1}"
    )
