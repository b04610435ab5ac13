"""The contract between emissions and models with discrete states."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from sktem.emissions.clusters import standardised
from sktem.emissions.directions import Direction, moved_fields
from sktem.emissions.scarcity import LabelShares
from sktem.emissions.spread import Spread
from sktem.emissions.wording import ColumnError

__all__ = [
    "LEAST_SHARE",
    "Emission",
    "bisected",
    "check_positive",
    "column_masses",
    "draw_indices",
    "empty_rows",
    "left_alive",
    "start_from",
    "something_observed",
    "zero_filled",
]

#: A state with less than this share of the data has no moments to speak of.
LEAST_SHARE = 10 * np.finfo(np.float64).eps


class Emission(BaseEstimator, ABC):
    """Distribution of a row of data given one of K discrete states.

    Mixtures and hidden Markov models are built on an emission. A subclass implements
    the abstract methods; ``check_emission`` tests their consistency. An emission holds
    settings only: what is learned is in ``params``, a NamedTuple of arrays whose first
    axis is the state.

    A value that is NaN is missing. Densities are those of the observed values, with
    missing ones integrated out; rows without observed values have density 1 and
    contribute nothing to the statistics.

    Statistics are a single float64 vector, linear in the weights of the rows, so that
    solvers can average them over rows and iterations. ``maximize`` returns the same
    parameters for any multiple of them.

    See Also
    --------
    sktem.StochasticEMMixture : Mixtures of any emission.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.emissions import Poisson
    >>> X = np.array([[1.0], [3.0], [10.0], [np.nan]])
    >>> R = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> params = Poisson().start(X, R)
    >>> params.rates
    array([[ 2.],
           [10.]])
    """

    #: Rows before that a row depends on.
    order = 0
    #: Columns that are regressors, which have no distribution.
    exog: Sequence[int] = ()
    #: Fields of the parameters that are probabilities with sums of 1.
    distributions: tuple[str, ...] = ()
    # Probabilities that are learned are not below, so that no row is impossible.
    _least_probability = 1e-10
    #: Fields of the parameters that are not negative.
    non_negative: tuple[str, ...] = ()

    #: Fields of the parameters that can be held where the others are learned.
    separate: tuple[str, ...] = ()

    @property
    def memory(self) -> int:
        """Number of previous states a row depends on: densities are of histories."""
        return 0

    def n_columns(self, width: int) -> int:
        """Return the number of columns, for rows with lags of a given width."""
        return width

    @abstractmethod
    def start(self, X: np.ndarray, R: np.ndarray) -> Any:
        """Return the starting parameters.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows; NaN means missing.
        R : ndarray of shape (n, K)
            Weights of the rows for each state.

        Returns
        -------
        NamedTuple
            Parameters; if all values are observed, those of an M-step.
        """

    @abstractmethod
    def log_density(self, X: np.ndarray, params: Any) -> np.ndarray:
        """Return the log-density of each row in each state.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows; NaN means missing.
        params : NamedTuple
            Parameters.

        Returns
        -------
        ndarray of shape (n, K)
            Log-densities of the observed values.
        """

    @abstractmethod
    def statistics(self, X: np.ndarray, R: np.ndarray, params: Any) -> np.ndarray:
        """Return the sum over the rows of their expected statistics.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows; NaN means missing.
        R : ndarray of shape (n, K)
            Weights of the rows for each state.
        params : NamedTuple
            Parameters at which the expectation over missing values is taken.

        Returns
        -------
        ndarray of shape (n_statistics,)
            The sums.
        """

    @abstractmethod
    def maximize(self, s: np.ndarray, params: Any) -> Any:
        """Do the M-step.

        Parameters
        ----------
        s : ndarray of shape (n_statistics,)
            Statistics, sums or averages.
        params : NamedTuple
            The current parameters, kept for states without data.

        Returns
        -------
        NamedTuple
            New parameters.
        """

    def maximize_held(self, s: np.ndarray, params: Any, held: tuple[str, ...]) -> Any:
        """Do the M-step with some of the ``separate`` fields held fixed.

        The default is right where the maximum over the other fields does not depend on
        these.

        Parameters
        ----------
        s : ndarray of shape (n_statistics,)
            Statistics, sums or averages.
        params : NamedTuple
            The current parameters.
        held : tuple of str
            Fields that are not changed.

        Returns
        -------
        NamedTuple
            New parameters.
        """
        fields = {name: getattr(params, name) for name in held}
        return self.maximize(s, params)._replace(**fields)

    def n_held(self, K: int, d: int, params: Any, held: tuple[str, ...]) -> int:
        """Return the number of free parameters of some of the ``separate`` fields.

        Parameters
        ----------
        K : int
            Number of states.
        d : int
            Number of columns.
        params : NamedTuple
            Parameters.
        held : tuple of str
            The fields.

        Returns
        -------
        int
            The number; by default the number of entries.
        """
        return sum(np.size(getattr(params, name)) for name in held)

    @abstractmethod
    def sample(
        self, params: Any, states: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Draw a row for each of the given states.

        Parameters
        ----------
        params : NamedTuple
            Parameters.
        states : ndarray of int of shape (n,)
            States.
        rng : numpy.random.Generator
            Random numbers.

        Returns
        -------
        ndarray of shape (n, d)
            Rows.
        """

    @abstractmethod
    def n_parameters(self, K: int, d: int, params: Any = None) -> int:
        """Return the number of free parameters.

        Parameters
        ----------
        K : int
            Number of states.
        d : int
            Number of columns.
        params : NamedTuple or None, default=None
            Parameters, for emissions whose number of parameters depends on the data.

        Returns
        -------
        int
            The number.
        """

    @abstractmethod
    def marginal(self, params: Any, columns: np.ndarray) -> Any:
        """Return the parameters of the distribution of some of the columns.

        Parameters
        ----------
        params : NamedTuple
            Parameters.
        columns : ndarray of int
            Indices of the columns.

        Returns
        -------
        NamedTuple
            Parameters of the same emission for these columns alone.
        """

    def condition(
        self, params: Any, columns: np.ndarray, values: np.ndarray, others: np.ndarray
    ) -> tuple[Emission, Any]:
        """Return the distribution of some columns given the values of others.

        The default is right for columns that are independent given the state: it
        returns the marginal. Columns in neither set are integrated out.

        Parameters
        ----------
        params : NamedTuple
            Parameters.
        columns : ndarray of int
            Indices of the columns whose values are given; may be empty.
        values : ndarray of float
            Their values.
        others : ndarray of int
            Indices of the columns whose distribution is returned.

        Returns
        -------
        emission : Emission
            Emission of the other columns.
        params : NamedTuple
            Its parameters.
        """
        return clone(self), self.marginal(params, others)

    def project(self, s: np.ndarray, params: Any = None) -> tuple[np.ndarray, bool]:
        """Project statistics onto the feasible set; here they become non-negative.

        Parameters
        ----------
        s : ndarray of shape (n_statistics,)
            Statistics, which may be the result of a difference.
        params : NamedTuple or None, default=None
            Parameters of the same shape, for emissions that need it.

        Returns
        -------
        s : ndarray of shape (n_statistics,)
            Feasible statistics.
        left : bool
            Whether the given statistics were infeasible.
        """
        left = bool((s < 0).any())
        return (np.maximum(s, 0.0), True) if left else (s, False)

    def check(self, X: np.ndarray) -> None:
        """Raise ValueError for values that the emission cannot produce.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows; NaN means missing.
        """

    def features(self, X: np.ndarray) -> np.ndarray:
        """Return features whose distances separate the states; here the rows.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows; NaN means missing.

        Returns
        -------
        ndarray of shape (n, n_features)
            Features, whose clusters can be the start of a fit.
        """
        return X

    def points(self, X: np.ndarray, sample_weight: np.ndarray | None = None):
        """Return the features on comparable scales.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows; NaN means missing.
        sample_weight : ndarray of shape (n,) or None, default=None
            Weights.

        Returns
        -------
        ndarray of shape (n, n_features)
            Columns of mean 0, and of variance 1 unless features have their own scale,
            with NaN for missing values.
        """
        return standardised(self.features(X), sample_weight)

    def expected(self, X: np.ndarray, R: np.ndarray, params: Any) -> np.ndarray:
        """Return rows with missing values replaced by conditional means.

        The default is right for columns that are independent given the state: it
        averages :meth:`mean` over the states.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows; NaN means missing.
        R : ndarray of shape (n, K)
            Posterior probabilities of the states.
        params : NamedTuple
            Parameters.

        Returns
        -------
        ndarray of shape (n, d)
            Rows without NaN.
        """
        return np.where(np.isnan(X), R @ self.mean(params), X)

    def mode(self, X: np.ndarray, R: np.ndarray, params: Any) -> np.ndarray:
        """Return rows with missing values replaced by the most probable value.

        By default these are the conditional means of the most probable state.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows; NaN means missing.
        R : ndarray of shape (n, K)
            Posterior probabilities of the states.
        params : NamedTuple
            Parameters.

        Returns
        -------
        ndarray of shape (n, d)
            Rows without NaN.
        """
        hard = np.eye(R.shape[1])[R.argmax(axis=1)]
        return self.expected(X, hard, params)

    def draw(
        self, X: np.ndarray, states: np.ndarray, params: Any, rng: np.random.Generator
    ) -> np.ndarray:
        """Return rows with missing values replaced by draws.

        The default is right for columns that are independent given the state.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows; NaN means missing.
        states : ndarray of int of shape (n,)
            States.
        params : NamedTuple
            Parameters.
        rng : numpy.random.Generator
            Random numbers.

        Returns
        -------
        ndarray of shape (n, d)
            Rows without NaN.
        """
        return np.where(np.isnan(X), self.sample(params, states, rng), X)

    def mean(self, params: Any) -> np.ndarray:
        """Return the mean of each state, needed by the default of :meth:`expected`.

        Parameters
        ----------
        params : NamedTuple
            Parameters.

        Returns
        -------
        ndarray of shape (K, d)
            Means.
        """
        raise TypeError(
            f"{type(self).__name__} has no method mean, without which missing values "
            "cannot be replaced by their means"
        )

    def degeneracies(self, params: Any) -> int:
        """Return how many states were floored or kept unchanged in the last M-step.

        Parameters
        ----------
        params : NamedTuple
            Parameters from :meth:`maximize`.

        Returns
        -------
        int
            The count.
        """
        return int(getattr(params, "degenerate", 0))

    def collapses_on(self, params: Any) -> int:
        """Return on how many rows the density of a state has no bound; here on none.

        Parameters
        ----------
        params : NamedTuple
            Parameters.

        Returns
        -------
        int
            The number, 0 where densities have a bound.
        """
        return 0

    def spreads(self, params: Any) -> list[Spread]:
        """Return covariances that may be hardly more than ``reg_covar``; here none.

        Parameters
        ----------
        params : NamedTuple
            Parameters.

        Returns
        -------
        list of Spread
            Covariances by columns; a fit warns if they cannot be trusted.
        """
        return []

    def label_shares(self, params: Any) -> list[LabelShares]:
        """Return label probabilities that few rows may leave at zero; here none.

        Parameters
        ----------
        params : NamedTuple
            Parameters.

        Returns
        -------
        list of LabelShares
            Probabilities by columns; a fit warns if they cannot be trusted.
        """
        return []

    def shares(self, params: Any) -> list[np.ndarray]:
        """Return tables of probabilities that EM may leave near zero; here none.

        Parameters
        ----------
        params : NamedTuple
            Parameters.

        Returns
        -------
        list of ndarray of shape (..., n_categories)
            Probabilities, whose sums over the last axis are 1.
        """
        return []

    def with_shares(self, params: Any, shares: list[np.ndarray]) -> Any:
        """Return parameters with the probabilities of :meth:`shares` replaced.

        Parameters
        ----------
        params : NamedTuple
            Parameters.
        shares : list of ndarray
            Tables of the same shapes.

        Returns
        -------
        NamedTuple
            Parameters.
        """
        return params

    def free_directions(self, params: Any, following: Any, X) -> Iterator[Direction]:
        """Yield the directions in which the parameters can move, for standard errors.

        Parameters
        ----------
        params : NamedTuple
            Parameters.
        following : NamedTuple
            Parameters after a further M-step: those that move to a bound are not free.
        X : ndarray of shape (n, d)
            Rows.

        Yields
        ------
        Direction
            One for each free parameter; those at bounds are left out.

        Raises
        ------
        NotImplementedError
            If the emission does not provide them, as by default.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not say how its parameters move"
        )

    def moved(self, params: Any, moves: Sequence[tuple[Direction, float]]) -> Any:
        """Return parameters moved along directions, each by a number of its scales.

        Parameters
        ----------
        params : NamedTuple
            Parameters.
        moves : sequence of (Direction, float)
            Directions, and how far to move along them.

        Returns
        -------
        NamedTuple
            Parameters. Those that are derived from others, such as factors, are
            updated.
        """
        return moved_fields(params, moves)

    def penalty(self, params: Any) -> float:
        """Return minus the log prior that the M-step adds; here 0.

        It is on the scale of the statistics from which the parameters were computed:
        per row if these were averages over rows.

        Parameters
        ----------
        params : NamedTuple
            Parameters.

        Returns
        -------
        float
            The penalty.
        """
        return 0.0


def start_from(emission: Emission, X, R, blank):
    """Return parameters of all rows, then of each state, from those of any value."""
    K = R.shape[1]
    pooled = np.repeat(R.sum(axis=1, keepdims=True) / K, K, axis=1)
    params = emission.maximize(emission.statistics(X, pooled, blank), blank)
    return emission.maximize(emission.statistics(X, R, params), params)


def zero_filled(X):
    """Return rows with 0 for NaN, and where they are observed (None: everywhere)."""
    X = np.asarray(X, dtype=np.float64)
    missing = np.isnan(X)
    if not missing.any():
        return X, None
    return np.where(missing, 0.0, X), ~missing


def column_masses(R, observed, d):
    """Return the weight of each state in each column, (K, d)."""
    if observed is None:
        return np.repeat(R.sum(axis=0)[:, None], d, axis=1)
    return R.T @ observed.astype(np.float64)


def empty_rows(X):
    """Return the indices of the rows of which nothing has been observed."""
    # Few rows lack their first column, so that the others are seldom looked at.
    places = np.flatnonzero(np.isnan(X[:, :1]))
    return places[np.isnan(X[places]).all(axis=1)]


def something_observed(X, R):
    """Return the rows, and their weights, of which anything has been observed."""
    empty = empty_rows(X)
    if not len(empty):
        return X, R
    return np.delete(X, empty, axis=0), np.delete(R, empty, axis=0)


def left_alive(mass):
    """Return which entries have data, and how many states have an entry without."""
    alive = mass > LEAST_SHARE * max(float(mass.max(initial=0.0)), 0.0)
    return alive, int((~alive.reshape(len(alive), -1).all(axis=1)).sum())


def bisected(function, low, high, steps=60):
    """Return where decreasing functions are zero, or the nearer of their bounds."""
    for _ in range(steps):
        middle = (low + high) / 2
        positive = function(middle) > 0
        low = np.where(positive, middle, low)
        high = np.where(positive, high, middle)
    return (low + high) / 2


def check_values(emission, X, is_wrong, what, hint=""):
    """Raise ValueError for values that are wrong by a function; NaN is not observed."""
    with np.errstate(invalid="ignore"):
        wrong = is_wrong(X) & ~np.isnan(X)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        found = f"column {{columns}} has {X[row, column]:g}{hint}"
        taken = f"{type(emission).__name__} takes {what}"
        raise ColumnError(f"{taken}; {found}", [int(column)])


def check_positive(emission, X):
    """Raise ValueError for values that are not positive."""
    check_values(emission, X, lambda x: x <= 0, "positive values")


def draw_indices(weights, rng) -> np.ndarray:
    """Draw an index for each row of weights, which need not sum to one.

    Parameters
    ----------
    weights : ndarray of shape (n, K)
        Non-negative.
    rng : numpy.random.Generator
        One uniform number a row is taken from it.

    Returns
    -------
    ndarray of int of shape (n,)
        Indices with positive weights.
    """
    limits = weights.cumsum(axis=1)
    uniforms = rng.random((len(weights), 1)) * limits[:, -1:]
    # A product may round up to the last limit, beyond which there is nothing.
    return np.minimum((uniforms >= limits).sum(axis=1), weights.shape[1] - 1)
