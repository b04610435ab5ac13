"""Blocks of columns with an emission each."""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils._indexing import _get_column_indices

from sktem.choices import check_names
from sktem.emissions.base import Emission
from sktem.emissions.names import emission_named
from sktem.emissions.wording import AboutColumns, ColumnError

__all__ = ["Columns", "ColumnsParams", "column_indices"]


class ColumnsParams(NamedTuple):
    """Parameters of blocks of columns.

    Attributes
    ----------
    blocks : tuple
        Parameters of each block, in the order of the emissions.
    columns : tuple of ndarray of int
        Columns of each block.
    lengths : tuple of int
        Length of the statistics of each block.
    n_columns : int
        Number of columns of a row.
    """

    blocks: tuple
    columns: tuple
    lengths: tuple
    n_columns: int


class Columns(Emission):
    """Blocks of columns with their own emissions, independent given the state.

    Parameters
    ----------
    emissions : list of (str, str or Emission, columns)
        Name, emission (an instance or a name) and columns of each block. Columns are
        specified as in :class:`sklearn.compose.ColumnTransformer`: by an index or name,
        a list, a slice, a mask or a callable that gets X. Names are those of a data
        frame. A column belongs to at most one block; columns in no block are ignored.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.emissions import Columns, Gaussian, Poisson
    >>> emission = Columns([("size", Gaussian(), [0, 1]), ("count", Poisson(), [2])])
    >>> X = np.array([[1.0, 2.0, 4], [0.0, 1.0, 6], [2.0, 1.5, np.nan]])
    >>> params = emission.start(X, np.ones((3, 1)))
    >>> params.blocks[1].rates
    array([[5.]])
    """

    def __init__(self, emissions):
        self.emissions = emissions

    def get_params(self, deep=True):
        """Return the settings, including those of the emissions by name.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include those of the emissions.

        Returns
        -------
        dict
            Settings by name.
        """
        params = {"emissions": self.emissions}
        if deep:
            for name, emission, _ in self.emissions:
                params[name] = emission
                if isinstance(emission, str):
                    continue
                for key, value in emission.get_params(deep=True).items():
                    params[f"{name}__{key}"] = value
        return params

    def set_params(self, **params):
        """Change settings, including those of the emissions by name.

        Parameters
        ----------
        **params : dict
            Settings.

        Returns
        -------
        Columns
            The emission itself.
        """
        known = self.get_params(deep=True)
        check_names("Columns", params, known, "parameters")
        if "emissions" in params:
            self.emissions = params.pop("emissions")
        for key, value in params.items():
            name, _, rest = key.partition("__")
            if rest:
                dict((n, e) for n, e, _ in self.emissions)[name].set_params(
                    **{rest: value}
                )
            else:
                self.emissions = [
                    (n, value if n == name else e, c) for n, e, c in self.emissions
                ]
        return self

    def resolved(self, X, names=None):
        """Return the same blocks with columns given by index, and check them.

        Parameters
        ----------
        X : ndarray or data frame of shape (n, d)
            Rows.
        names : sequence of str or None, default=None
            Names of the columns of an array.

        Returns
        -------
        Columns
            With a list of integers for each block.

        Raises
        ------
        ValueError
            If a column is in two blocks, or a name occurs twice.
        TypeError
            If an entry is not (name, emission, columns).
        """
        blocks: list[tuple[str, Emission, list[int]]] = []
        taken: dict[int, str] = {}
        if not self.emissions:
            raise ValueError("Columns needs at least one (name, emission, columns)")
        for entry in self.emissions:
            if not (isinstance(entry, (tuple, list)) and len(entry) == 3):
                raise TypeError(
                    f"Columns takes a list of (name, emission, columns), got {entry!r}"
                )
            name, emission, columns = entry
            if isinstance(emission, str):
                emission = emission_named(emission)
            if not isinstance(emission, Emission) or isinstance(emission, Columns):
                raise TypeError(f"{name!r} must be an emission, got {emission!r}")
            if emission.order:
                raise ValueError(f"the block {name!r} cannot depend on rows before")
            if name in {known for known, _, _ in blocks}:
                raise ValueError(f"there are two blocks with the name {name!r}")
            indices = column_indices(X, columns, names)
            if not indices:
                raise ValueError(f"the block {name!r} has no columns")
            for column in indices:
                if column in taken:
                    text = f"is in the blocks {taken[column]!r} and {name!r}"
                    about = AboutColumns(f"column {{columns}} {text}", [column])
                    raise ValueError(about.worded(getattr(X, "columns", names)))
                taken[column] = name
            blocks.append((name, emission, indices))
        return Columns(blocks)

    def parts(self, params):
        """Yield emission, columns and parameters of each block.

        Parameters
        ----------
        params : ColumnsParams
            Parameters.

        Yields
        ------
        emission : Emission
            That of the block.
        columns : ndarray of int
            Its columns.
        block : NamedTuple
            Its parameters.
        """
        for entry, columns, block in zip(
            self.emissions, params.columns, params.blocks, strict=True
        ):
            yield entry[1], columns, block

    def _split(self, s, params):
        """Return the statistics of each block."""
        return np.split(s, np.cumsum(params.lengths)[:-1])

    def check(self, X):
        """Raise ValueError for values that a block cannot produce."""
        for name, emission, columns in self.resolved(X).emissions:
            try:
                emission.check(columns_of(X, columns))
            except ColumnError as error:
                text, places = error.args
                text = f"{text} (in the block {name!r})"
                raise ColumnError(text, [columns[j] for j in places]) from None
            except ValueError as error:
                raise ValueError(f"{error} (in the block {name!r})") from error

    def features(self, X):
        """Return the features of the blocks."""
        parts = self.resolved(X).emissions
        return np.concatenate(
            [
                emission.features(columns_of(X, columns))
                for _, emission, columns in parts
            ],
            axis=1,
        )

    def points(self, X, sample_weight=None):
        """Return the points of the blocks, each on its own scales."""
        parts = self.resolved(X).emissions
        return np.concatenate(
            [
                emission.points(columns_of(X, columns), sample_weight)
                for _, emission, columns in parts
            ],
            axis=1,
        )

    def start(self, X, R):
        """Return the parameters to begin with of each block."""
        blocks, indices, lengths = [], [], []
        for _, emission, columns in self.resolved(X).emissions:
            block = emission.start(columns_of(X, columns), R)
            empty = np.empty((0, len(columns)))
            lengths.append(len(emission.statistics(empty, R[:0], block)))
            blocks.append(block)
            indices.append(np.array(columns))
        return ColumnsParams(tuple(blocks), tuple(indices), tuple(lengths), X.shape[1])

    def log_density(self, X, params):
        """Return the log-density of each row in each state."""
        parts = [
            emission.log_density(columns_of(X, columns), block)
            for emission, columns, block in self.parts(params)
        ]
        return reduce(np.add, parts)

    def statistics(self, X, R, params):
        """Return the statistics of all blocks."""
        return np.concatenate(
            [
                emission.statistics(columns_of(X, columns), R, block)
                for emission, columns, block in self.parts(params)
            ]
        )

    def maximize(self, s, params):
        """Do the M-step of each block."""
        parts = zip(self.parts(params), self._split(s, params), strict=True)
        blocks = [
            emission.maximize(part, block) for (emission, _, block), part in parts
        ]
        return params._replace(blocks=tuple(blocks))

    def project(self, s, params=None):
        """Project the statistics of each block."""
        if params is None:
            raise ValueError("statistics of Columns are projected given params")
        parts = zip(self.parts(params), self._split(s, params), strict=True)
        pairs = [emission.project(part, block) for (emission, _, block), part in parts]
        if not any(left for _, left in pairs):
            return s, False
        return np.concatenate([part for part, _ in pairs]), True

    def degeneracies(self, params):
        """Return how many states of blocks were floored or kept."""
        return sum(e.degeneracies(block) for e, _, block in self.parts(params))

    def collapses_on(self, params):
        """Return the rows on which a block collapses, the most of all."""
        return max(e.collapses_on(block) for e, _, block in self.parts(params))

    def spreads(self, params):
        """Return the covariances of the blocks."""
        return [
            spread._replace(columns=np.asarray(columns)[spread.columns])
            for emission, columns, block in self.parts(params)
            for spread in emission.spreads(block)
        ]

    def label_shares(self, params):
        """Return the probabilities of labels of the blocks."""
        return [
            shares._replace(columns=np.asarray(columns)[shares.columns])
            for emission, columns, block in self.parts(params)
            for shares in emission.label_shares(block)
        ]

    def shares(self, params):
        """Return the probabilities of the blocks."""
        return [
            table for e, _, block in self.parts(params) for table in e.shares(block)
        ]

    def with_shares(self, params, shares):
        """Return other probabilities of the blocks."""
        tables, blocks = iter(shares), []
        for emission, _, block in self.parts(params):
            some = [next(tables) for _ in emission.shares(block)]
            blocks.append(emission.with_shares(block, some))
        return params._replace(blocks=tuple(blocks))

    def penalty(self, params):
        """Return the sum of the penalties of the blocks."""
        return float(sum(e.penalty(block) for e, _, block in self.parts(params)))

    def _filled(self, X, params, fill):
        """Return rows whose blocks a function has completed."""
        filled = np.array(X, dtype=np.float64)
        for emission, columns, block in self.parts(params):
            filled[:, columns] = fill(emission, X[:, columns], block)
        return filled

    def expected(self, X, R, params):
        """Return rows with missing values replaced by conditional means."""
        return self._filled(X, params, lambda e, x, block: e.expected(x, R, block))

    def mode(self, X, R, params):
        """Return rows with missing values replaced by most probable values."""
        return self._filled(X, params, lambda e, x, block: e.mode(x, R, block))

    def draw(self, X, states, params, rng):
        """Return rows with missing values replaced by draws."""
        return self._filled(
            X, params, lambda e, x, block: e.draw(x, states, block, rng)
        )

    def sample(self, params, states, rng):
        """Draw a row for each state; columns of no block are NaN."""
        X = np.full((len(states), params.n_columns), np.nan)
        for emission, columns, block in self.parts(params):
            X[:, columns] = emission.sample(block, states, rng)
        return X

    def free_directions(self, params, following, X):
        """Yield the directions of each block."""
        parts = zip(self.parts(params), following.blocks, strict=True)
        for b, ((emission, columns, block), then) in enumerate(parts):
            part = columns_of(X, columns)
            for direction in emission.free_directions(block, then, part):
                slot = (b, direction.slot)
                yield direction._replace(slot=slot, block=b)

    def moved(self, params, moves):
        """Return parameters with those of each block moved along its directions."""
        blocks = []
        for b, (emission, _, block) in enumerate(self.parts(params)):
            of_block = [move for move in moves if move[0].block == b]
            blocks.append(emission.moved(block, of_block) if of_block else block)
        return params._replace(blocks=tuple(blocks))

    def n_parameters(self, K, d, params=None):
        """Return the sum over the blocks; with names of columns it needs params."""
        if params is not None:
            return sum(
                emission.n_parameters(K, len(columns), block)
                for emission, columns, block in self.parts(params)
            )
        blocks = self.resolved(np.empty((0, d))).emissions
        return sum(e.n_parameters(K, len(columns)) for _, e, columns in blocks)

    def marginal(self, params, columns):
        """Return the parameters of some columns; blocks may have none left."""
        parts = []
        for emission, block_columns, block in self.parts(params):
            within, indices = _places(block_columns, columns)
            parts.append((emission, emission.marginal(block, within), indices))
        return _joined(parts, len(columns))

    def condition(self, params, columns, values, others):
        """Return the distribution of some columns, without blocks that have none."""
        entries, parts = [], []
        for entry, block_columns, block in zip(
            self.emissions, params.columns, params.blocks, strict=True
        ):
            known, at = _places(block_columns, columns)
            wanted, indices = _places(block_columns, others)
            if len(wanted):
                emission, block = entry[1].condition(block, known, values[at], wanted)
                entries.append((entry[0], emission, indices.tolist()))
                parts.append((emission, block, indices))
        if not parts:
            raise ValueError("none of the columns has an emission")
        return Columns(entries), _joined(parts, len(others))


def columns_of(X, columns):
    """Return some columns of rows, in the order of memory that loops take."""
    if len(columns) and (np.diff(columns) == 1).all():
        return np.ascontiguousarray(X[:, columns[0] : columns[-1] + 1])
    # By `take`, as X[:, columns] is in an order that every loop would change again.
    return np.take(X, columns, axis=1)


def _places(block_columns, columns):
    """Return the columns of a block that are among others, and where they are."""
    places = {int(column): place for place, column in enumerate(columns)}
    within = [j for j, column in enumerate(block_columns) if int(column) in places]
    at = [places[int(block_columns[j])] for j in within]
    return np.array(within, dtype=np.intp), np.array(at, dtype=np.intp)


def _joined(parts, n_columns):
    """Return parameters of blocks from emissions, parameters and columns of each."""
    lengths = []
    for emission, block, columns in parts:
        K = len(next(x for x in block if isinstance(x, np.ndarray)))
        empty = np.empty((0, len(columns)))
        lengths.append(len(emission.statistics(empty, np.empty((0, K)), block)))
    blocks = tuple(block for _, block, _ in parts)
    return ColumnsParams(
        blocks, tuple(at for _, _, at in parts), tuple(lengths), n_columns
    )


def column_indices(X: Any, columns: Any, names: Any = None) -> list[int]:
    """Return the indices of columns that are given as ColumnTransformer takes them.

    ``names`` are those of the columns of an array.
    """
    if callable(columns):
        columns = columns(X)
    elif names is not None:
        asked = np.ravel(np.asarray(columns, dtype=object)).tolist()
        if asked and all(isinstance(name, str) for name in asked):
            known = {str(name): index for index, name in enumerate(names)}
            check_names("the table", asked, known, "columns")
            columns = [known[name] for name in asked]
    return [int(index) for index in np.atleast_1d(_get_column_indices(X, columns))]
