"""Tuning of Markov transitions in a run; samplers themselves hold settings only."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Adaptation"]


class Adaptation:
    """Tuning of a Markov kernel in one run, such as scales and halved steps.

    It travels with the generators of the run, so that a checkpoint holds it and a
    sampler that is used again starts afresh.

    Parameters
    ----------
    n_rows : int, default=0
        Rows of the data; 0 outside of a run.
    rows : slice, ndarray of int or None, default=None
        The rows that are being drawn.

    Attributes
    ----------
    values : dict
        Values common to all rows, by name.
    row_values : dict
        Arrays with one entry per row of the data, by name.
    """

    def __init__(self, n_rows: int = 0, rows=None):
        self.n_rows = n_rows
        self.rows = rows
        self.values: dict[str, Any] = {}
        self.row_values: dict[str, np.ndarray] = {}

    def of_rows(self, name: str, n_rows: int) -> np.ndarray:
        """Return the values of the rows that are being drawn, ones at first.

        Parameters
        ----------
        name : str
            Name of the values.
        n_rows : int
            How many rows are being drawn, with the chains of a row following each
            other.

        Returns
        -------
        ndarray of shape (n_rows,)
            A copy.
        """
        table = self.row_values.get(name)
        if table is None:
            return np.ones(n_rows)
        if self.rows is None:
            return table.copy() if len(table) == n_rows else np.ones(n_rows)
        values = table[self.rows]
        return np.repeat(values, n_rows // max(len(values), 1))

    def put_rows(self, name: str, values: np.ndarray) -> None:
        """Keep the values of the rows that are being drawn.

        Parameters
        ----------
        name : str
            Name of the values.
        values : ndarray of shape (n_rows,)
            One per row being drawn; of several chains the least counts.
        """
        if self.rows is None:
            self.row_values[name] = values.copy()
            return
        if name not in self.row_values:
            self.row_values[name] = np.ones(self.n_rows)
        table = self.row_values[name]
        n_chains = len(values) // max(len(table[self.rows]), 1)
        table[self.rows] = values.reshape(-1, max(n_chains, 1)).min(axis=1)

    def snapshot(self, rows) -> Adaptation:
        """Return a copy for draws that must leave the run as it is."""
        copied = Adaptation(self.n_rows, rows)
        copied.values = dict(self.values)
        copied.row_values = {name: v.copy() for name, v in self.row_values.items()}
        return copied
