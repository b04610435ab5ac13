"""Roles of the columns of X."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from sktem.sequences.labels import column_of

__all__ = ["InputSettings", "is_constant", "listed", "named"]


def listed(columns):
    """Return the covariates of a parameter, which may be one name or index."""
    return (columns,) if isinstance(columns, (str, Integral)) else tuple(columns)


def named(keys, names):
    """Return columns by name where they have one."""
    return [names[k] if isinstance(k, Integral) and k < len(names) else k for k in keys]


def is_constant(values, groups):
    """Return whether a column has one value in each group."""
    first = np.full(groups.max() + 1, np.nan)
    first[groups[::-1]] = values[::-1]
    return bool((values == first[groups]).all())


class InputSettings(NamedTuple):
    """Parameters of the roles of the columns of X.

    Attributes
    ----------
    model : str, CompartmentModel, callable or None
        The model.
    inputs : list of str or int, or None
        Columns that a model of the library takes, if they were given.
    covariates : dict or None
        Columns by the parameter that they shift.
    occasions : dict or None
        Parameters that vary between occasions, by the column of these.
    """

    model: Any
    inputs: Any
    covariates: Any
    occasions: Any

    @property
    def shifting(self) -> list:
        """Columns of all covariates, by name or index."""
        columns = (self.covariates or {}).values()
        return [key for keys in columns for key in listed(keys)]

    def input_columns(self, structure, data):
        """Return the columns of the inputs of a library model."""
        wanted, names, keys = structure.inputs, data.names, self.inputs
        if keys is None:
            keys = range(len(wanted)) if names is None else self._by_name(wanted, names)
        columns = [column_of(key, names, data.n_columns, "inputs") for key in keys]
        if len(columns) != len(wanted):
            raise ValueError(
                f"model {self.model!r} has the inputs {list(wanted)}, got "
                f"inputs={self.inputs!r}"
            )
        return columns

    def _by_name(self, wanted, names):
        """Return the columns named after the inputs, or the only one there is."""
        if set(wanted) <= set(names):
            return list(wanted)
        folded = [str(name).casefold() for name in names]
        if all(folded.count(name) == 1 for name in wanted):
            return [folded.index(name) for name in wanted]
        others = set(named(self.shifting, names))
        left = [j for j, name in enumerate(names) if name not in others]
        if len(wanted) == len(left) == 1:
            return left
        raise ValueError(
            f"model {self.model!r} has the inputs {list(wanted)}, and X has the "
            f"columns {list(names)}: pass inputs, a list of {len(wanted)} of them in "
            "that order"
        )

    def unread(self, data, inputs, others):
        """Return the columns of an array that a model of the library does not take."""
        if inputs is None or data.names is not None or self.inputs is not None:
            return ()
        return tuple(sorted(set(range(data.n_columns)) - {*inputs, *others}))

    def blanked(self, X):
        """Return a data frame with zeros in the columns that are not read.

        A column of labels may stay in X then.
        """
        of_library = isinstance(self.model, str) and self.inputs is not None
        if not (of_library and hasattr(X, "columns") and hasattr(X, "assign")):
            return X
        keys = [*self.inputs, *self.shifting, *(self.occasions or ())]
        used = set(named(keys, list(X.columns)))
        others = [name for name in X.columns if name not in used]
        if others:
            X = X.copy(deep=False)
            X[others] = 0.0
        return X
