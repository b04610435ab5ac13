"""States of Markov chains, and the tuning of their sampler."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from sktem.e_step.memory import LatentMemory

__all__ = ["ChainState", "ChainTable", "averaged", "positions"]


class ChainState(NamedTuple):
    """States of the chains of some rows, several for each row.

    Attributes
    ----------
    position : ndarray of shape (n, n_chains, ...)
        Latents.
    tuning : mapping of str to ndarray of shape (n, n_chains)
        What the sampler has learned for each chain, by name.
    shared : object
        What it has learned for all chains together, as its own record; None if nothing.
    """

    position: np.ndarray
    tuning: Mapping[str, np.ndarray] = MappingProxyType({})
    shared: Any = None

    @classmethod
    def of(cls, chains: ChainState | np.ndarray) -> ChainState:
        """Return chain states; an array has positions alone."""
        return chains if isinstance(chains, ChainState) else cls(chains)

    def learned(self, kind: type) -> Any:
        """Return the shared record if it is of this kind, else a new one."""
        return self.shared if isinstance(self.shared, kind) else kind()

    def chain(self, m: int) -> ChainState:
        """Return chain m of every row, without the axis of chains."""
        tuning = {name: values[:, m] for name, values in self.tuning.items()}
        return self._replace(position=self.position[:, m], tuning=tuning)

    def reshaped(self, n: int, n_chains: int) -> ChainState:
        """Return the same chains as those of n rows, in the same order."""
        position = self.position.reshape(n, n_chains, *self.position.shape[2:])
        tuning = {k: values.reshape(n, n_chains) for k, values in self.tuning.items()}
        return self._replace(position=position, tuning=tuning)

    @property
    def plain(self) -> ChainState | np.ndarray:
        """The positions alone, without learned settings."""
        return self if self.tuning or self.shared is not None else self.position


def positions(chains: ChainState | np.ndarray) -> np.ndarray:
    """Return the latents of chain states.

    Parameters
    ----------
    chains : ChainState or ndarray
        Chain states.

    Returns
    -------
    ndarray
        Latents.
    """
    return ChainState.of(chains).position


def averaged(first: Any, second: Any, n_first: int, n_second: int) -> Any:
    """Average the tuning by different rows, from the same record on.

    A record may say by a method ``averaged(other, share)`` how; else its numbers are
    averaged, but for counts.

    Parameters
    ----------
    first, second : NamedTuple or None
        Records.
    n_first, n_second : int
        Numbers of rows.

    Returns
    -------
    NamedTuple or None
        The average.
    """
    if first is None or second is None or type(first) is not type(second):
        return first if second is None else second
    share = n_second / max(n_first + n_second, 1)
    if hasattr(first, "averaged"):
        return first.averaged(second, share)
    return first._make(
        b if a is None else a if b is None else _average(a, b, share)
        for a, b in zip(first, second, strict=True)
    )


def _average(a, b, share):
    if isinstance(a, (int, np.integer)):
        return max(a, b)
    return a + share * (b - a)


class ChainTable:
    """Chain states of all rows of the data.

    Parameters
    ----------
    n_rows : int
        Number of rows of the data.
    shared : object, default=None
        What the sampler has learned of all chains together.
    folder : str or None, default=None
        Where the table is kept on disk; None keeps it in memory.
    """

    def __init__(self, n_rows: int, shared: Any = None, folder: str | None = None):
        self.n_rows = n_rows
        self.shared = shared
        self.position = LatentMemory(n_rows, folder=folder)
        self.tuning: dict[str, LatentMemory] = {}

    @property
    def values(self) -> np.ndarray | None:
        """Positions of all rows, None before the first."""
        return self.position.values

    def put(self, rows, chains: ChainState | np.ndarray) -> None:
        """Keep the chain states of ``rows``.

        Parameters
        ----------
        rows : slice or ndarray of int
            Which rows.
        chains : ChainState or ndarray
            Their states.
        """
        position, tuning, self.shared = ChainState.of(chains)
        self.position.put(rows, position)
        for name, values in tuning.items():
            if name not in self.tuning:
                folder = self.position.folder
                self.tuning[name] = LatentMemory(self.n_rows, folder=folder)
            self.tuning[name].put(rows, values)

    def get(self, rows) -> ChainState | np.ndarray:
        """Return the chain states of ``rows``.

        Parameters
        ----------
        rows : slice or ndarray of int
            Which rows.

        Returns
        -------
        ChainState or ndarray
            Their states; an array of positions where the sampler has learned nothing.
        """
        tuning = {name: values.get(rows) for name, values in self.tuning.items()}
        return ChainState(self.position.get(rows), tuning, self.shared).plain
