"""The (stochastic) E-step of one run: draws latents, averages statistics, counts."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any, ClassVar, NamedTuple

import numpy as np

from sktem import budget
from sktem.e_step.chains import ChainState, ChainTable, averaged, positions
from sktem.e_step.memory import LatentMemory
from sktem.e_step.row_random import BATCH, PASS, START, WARM_UP
from sktem.models.base import average_statistics
from sktem.models.contract import (
    check_each_row,
    check_latents,
    checked_mean_statistics,
)
from sktem.rows.held import carrier_of, count_rows

__all__ = ["Batch", "Expectation", "FullPass", "check_memory_of_rows"]

#: Rows whose statistics are looked at before the first iteration.
ROWS_TO_CHECK = 64


def check_memory_of_rows(X, sampler, solver) -> None:
    """Raise an error if a fit has to remember latents of rows that cannot do so."""
    memory = "the chains" if sampler.markov else "latents"
    if carrier_of(X).can_remember or not (
        sampler.markov or solver.keeps_latents(sampler)
    ):
        return
    raise TypeError(
        f"{type(solver).__name__} with {type(sampler).__name__} keeps {memory} of each "
        "row from one visit to the next, which the partitions of a Dask collection do "
        "not. Exact expectations are possible with the solvers 'em', 'online' and "
        "'vrttem', exact draws with 'mcem', 'saem' and 'online'. Or write the rows to "
        ".npy or Parquet files, or to a memory map, and fit these on one machine"
    )


class Batch(NamedTuple):
    """Rows to visit, and the coefficient of each in the mean over all rows.

    Attributes
    ----------
    rows : ndarray of int
        Distinct row indices.
    coefficients : ndarray
        ``sum_i coefficients[i] * S_i`` is an unbiased estimate of the mean of S over
        all rows (weighted, if there are weights).
    values : array-like or None
        The rows, if they have been read; None means that they are taken from the
        carrier.
    """

    rows: np.ndarray
    coefficients: np.ndarray
    values: Any = None

    def part(self, members: np.ndarray) -> Batch:
        """Return some of the rows, by their positions in the batch."""
        values = None if self.values is None else self.values[members]
        return Batch(self.rows[members], self.coefficients[members], values)


class FullPass(NamedTuple):
    """Results of a pass over all rows with exact expectations.

    Attributes
    ----------
    mean : ndarray of shape (n_statistics,)
        Mean statistics.
    log_likelihood : float
        Mean log-likelihood.
    params : object
        Parameters at which both hold.
    s : ndarray or None
        Averaged statistics that belong to the parameters, where there are some.
    """

    mean: np.ndarray
    log_likelihood: float
    params: Any
    s: np.ndarray | None = None


class Expectation:
    """E-step over chosen rows.

    Parameters
    ----------
    model : LatentModel
        The model.
    sampler : Sampler
        How latents are drawn.
    X : array-like or Carrier
        The data.
    sample_weight : ndarray of shape (n,) or None
        Positive weights of the rows.
    generators : Generators
        Random generators.
    first_row : int, default=0
        Rows before those of the data, on a stream.

    Attributes
    ----------
    n_rows : int
        Number of rows of the data.
    rows_visited : int
        Row visits so far: the cost of the run.
    chains : ChainTable or None
        Chain states of all rows, for Markov samplers.
    full_pass_done : FullPass or None
        Results of the last full pass, if its expectations were exact; None once they
        have been used.
    folder : str or None
        Where tables of latents are kept on disk; None keeps them in memory.
    checked : bool
        Whether the shapes returned by the model have been checked.
    batch_likelihood : float or None
        Mean log-likelihood of the last batch, which comes with exact expectations.
    """

    #: Whether draws of all rows can be looked at without a visit.
    can_measure_all: ClassVar[bool] = True

    def __init__(self, model, sampler, X, sample_weight, generators, first_row=0):
        self.model = model
        self.sampler = sampler
        self.X = carrier_of(X)
        self.generators = generators
        self.first_row = first_row
        self.n_rows = len(self.X)
        #: Rows of which shares are taken: more where these are one part of them.
        self.n_all_rows = self.n_rows
        self.weights = (
            None if sample_weight is None else sample_weight / sample_weight.sum()
        )
        self.fused = sampler.deterministic and hasattr(model, "expected_statistics")
        self.chains: ChainTable | None = None
        self.rows_visited = 0
        self.full_pass_done: FullPass | None = None
        self.folder: str | None = None
        self.checked = False
        self.batch_likelihood: float | None = None
        self._taken: tuple[Any, Any] = (None, None)
        # All rows as passes read them, from the first pass on.
        self._prepared: Any = None
        # An iteration, and how many batches of it have been drawn.
        self._batches = (0, 0)
        # Sums over rows of acceptance and bias, and rows.
        self.acceptance = [0.0, 0.0, 0]
        self.events: Counter = Counter()

    def start_chains(self, params: Any) -> None:
        """Set up the chain states of all rows.

        Parameters
        ----------
        params : object
            Starting parameters.
        """
        if not self.sampler.markov:
            return  # Files would be read in vain.
        for rows in self.chunks():
            self.start_chains_of(rows, params)

    def start_chains_of(self, rows, params: Any) -> None:
        """Set up the chain states of some rows.

        Parameters
        ----------
        rows : slice or ndarray of int
            Which rows.
        params : object
            Parameters at which the chains start.
        """
        if not self.sampler.markov:
            return
        if self.chains is None:
            self.chains = ChainTable(self.n_rows, folder=self.folder)
        X = self.take(rows)
        rng = self.generators_of(START, 0, rows).initialisation
        chains = self.sampler.start(self.model, X, params, rng)
        check_latents(self.model, "initial_latents", positions(chains), count_rows(X))
        if self.chains.shared is not None:  # learned of other rows
            chains = ChainState.of(chains)._replace(shared=self.chains.shared)
        for k in itertools.count():
            if self.sampler.is_warm(chains, k):
                break
            generators = self.generators_of(WARM_UP, k, rows)
            chains, _ = self.sampler.draw(self.model, X, chains, params, generators, 1)
        self.chains.put(rows, chains)

    def generators_of(self, purpose: int, iteration: int, rows):
        """Return the generators of draws of the latents of rows.

        Parameters
        ----------
        purpose : int
            One of those of :mod:`sktem.e_step.row_random`.
        iteration : int
            Iteration index.
        rows : slice or ndarray of int
            Which rows.

        Returns
        -------
        Generators
            Those of the rows; those of the run for deterministic samplers.
        """
        if self.sampler.deterministic:
            return self.generators
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(self.n_rows))
        return self.generators.of_rows(purpose, iteration, self.first_row + rows)

    def _purpose(self, iteration):
        """Return the purpose of the next batch of an iteration."""
        last, count = self._batches
        self._batches = (iteration, count + 1 if last == iteration else 1)
        return BATCH + self._batches[1] - 1

    def chunks(self):
        """Yield consecutive rows, as many as are handled at once in a pass."""
        size = budget.block_rows(self.X.row_size)
        for start, block in self.X.blocks(size):
            rows = slice(start, start + count_rows(block))
            self._taken = (rows, block)
            yield rows

    def take(self, rows):
        """Return rows of the data.

        Parameters
        ----------
        rows : slice or ndarray of int
            Which rows.

        Returns
        -------
        array-like
            The rows.
        """
        if rows is not self._taken[0]:
            self._taken = (rows, self.X.take(rows))
        return self._taken[1]

    def take_batch(self, batch: Batch):
        """Return the rows of a batch."""
        if batch.values is not None:
            self._taken = (batch.rows, batch.values)
        return self.take(batch.rows)

    def draw(self, rows, params: Any, iteration: int) -> np.ndarray:
        """Draw the latents of rows and advance their chains.

        Parameters
        ----------
        rows : slice or ndarray of int
            Which rows.
        params : object
            Current parameters.
        iteration : int
            Iteration index, 0 before the first.

        Returns
        -------
        ndarray
            Latents.
        """
        return self._draw(rows, params, iteration, self._purpose(iteration))

    def _draw(self, rows, params, iteration, purpose):
        X = self.take(rows)
        chains = None if self.chains is None else self.chains.get(rows)
        generators = self.generators_of(purpose, iteration, rows)
        iteration = max(iteration, 1)
        chains, info = self.sampler.draw(
            self.model, X, chains, params, generators, iteration
        )
        Z = positions(chains)
        self.rows_visited += len(Z)
        if not self.checked:
            self._check(X, Z, params, iteration)
        if self.chains is not None:
            self.chains.put(rows, chains)
            self.acceptance[0] += info.acceptance_rate * len(Z)
            self.acceptance[1] += info.bias * len(Z)
            self.acceptance[2] += len(Z)
            self.events.update(info.events)
        return self.model.annotate(Z, params)

    def _check(self, X, Z, params, iteration) -> None:
        """Check the first latents and their statistics."""
        model, sampler, n_rows = self.model, self.sampler, count_rows(X)
        self.checked = True
        name = sampler.requires[0] if sampler.requires else "the sampler"
        draws_at = getattr(sampler, "draws_at", None)
        n_draws = None if draws_at is None else draws_at(iteration)
        if not sampler.markov:
            check_latents(model, name, Z, n_rows, n_draws)
        annotated = model.annotate(Z, params)
        if not model.averages_draws:
            annotated = annotated[:, 0]
        if model.completes_rows:
            return
        few = np.arange(min(n_rows, ROWS_TO_CHECK))
        checked_mean_statistics(model, X[few], annotated[few], name, Z.shape)

    def of(self, batch: Batch, Z: np.ndarray, params: Any = None) -> np.ndarray:
        """Return ``sum_i c_i S(x_i, z_i)`` for given latents.

        Parameters
        ----------
        batch : Batch
            Rows and coefficients c.
        Z : ndarray
            Latents of the rows.
        params : object or None, default=None
            Parameters of their visit.

        Returns
        -------
        ndarray of shape (n_statistics,)
            The sum.
        """
        mean = average_statistics(
            self.model, self.take_batch(batch), Z, batch.coefficients, params
        )
        return mean * batch.coefficients.sum()

    def remembered(self, batch: Batch, memory: LatentMemory) -> np.ndarray:
        """Return ``sum_i c_i S(x_i, z_i)`` for remembered latents.

        Parameters
        ----------
        batch : Batch
            Rows and coefficients c.
        memory : LatentMemory
            Table of latents.

        Returns
        -------
        ndarray of shape (n_statistics,)
            The sum.
        """
        total: Any = 0.0
        for members, Z, params in memory.groups(batch.rows):
            total = total + self.of(batch.part(members), Z, params)
        return total

    def statistics(self, batch: Batch, params: Any, iteration: int) -> np.ndarray:
        """Visit the rows of a batch and return ``sum_i c_i S_i``.

        Parameters
        ----------
        batch : Batch
            Rows and coefficients c.
        params : object
            Parameters.
        iteration : int
            Iteration index.

        Returns
        -------
        ndarray of shape (n_statistics,)
            The sum.
        """
        X = self.take_batch(batch)
        if self.fused:
            mean, self.batch_likelihood = self.model.expected_statistics(
                X, params, batch.coefficients
            )
            self.rows_visited += len(batch.rows)
            return mean * batch.coefficients.sum()
        return self.of(batch, self.draw(batch.rows, params, iteration), params)

    def change(
        self, batch: Batch, memory: LatentMemory, params: Any, iteration: int
    ) -> np.ndarray:
        """Visit the rows of a batch; return ``sum_i c_i`` times the change of ``S_i``.

        Parameters
        ----------
        batch : Batch
            Rows and coefficients c.
        memory : LatentMemory
            Table of latents, from whose statistics the change is taken.
        params : object
            Parameters.
        iteration : int
            Iteration index.

        Returns
        -------
        ndarray of shape (n_statistics,)
            The sum.
        """
        now = self.statistics(batch, params, iteration)
        return now - self.remembered(batch, memory)

    def replace(
        self, batch: Batch, memory: LatentMemory, params: Any, iteration: int
    ) -> np.ndarray:
        """Do as :meth:`change` with drawn latents, and remember these instead.

        Parameters
        ----------
        batch : Batch
            Rows and coefficients c.
        memory : LatentMemory
            Table of latents.
        params : object
            Parameters.
        iteration : int
            Iteration index.

        Returns
        -------
        ndarray of shape (n_statistics,)
            The sum.
        """
        before = self.remembered(batch, memory)
        return self.renew(batch, memory, params, iteration) - before

    def renew(
        self, batch: Batch, memory: LatentMemory, params: Any, iteration: int
    ) -> np.ndarray:
        """Do as :meth:`statistics` with drawn latents, and remember these.

        Parameters
        ----------
        batch : Batch
            Rows and coefficients c.
        memory : LatentMemory
            Table of latents.
        params : object
            Parameters.
        iteration : int
            Iteration index.

        Returns
        -------
        ndarray of shape (n_statistics,)
            The sum.
        """
        self.take_batch(batch)
        Z = self.draw(batch.rows, params, iteration)
        memory.put(batch.rows, Z, self._remembered_params(params))
        return self.of(batch, Z, params)

    def _remembered_params(self, params):
        """Return the parameters where they have to be remembered with the latents."""
        return params if self.model.completes_rows else None

    def full_pass(
        self, params: Any, iteration: int, memory: LatentMemory | None = None
    ) -> np.ndarray:
        """Visit every row and return the mean statistics.

        Parameters
        ----------
        params : object
            Parameters.
        iteration : int
            Iteration index.
        memory : LatentMemory or None, default=None
            Where to remember the latents.

        Returns
        -------
        ndarray of shape (n_statistics,)
            The mean over all rows, the full-batch average (6) of Karimi and Li.
        """
        if self.fused and memory is None:
            mean, log_likelihood = self._expected_statistics(params)
            self.rows_visited += self.n_rows
            self.full_pass_done = FullPass(mean, log_likelihood, params)
            return mean
        self.full_pass_done = None
        total: Any = 0.0
        for _, part in self.parts_of_pass(params, iteration, memory):
            total = total + part
        return total

    def parts_of_pass(self, params, iteration, memory):
        """Draw all latents; yield rows and their part of the mean statistics."""
        before = learned = None if self.chains is None else self.chains.shared
        count = 0
        for rows in self.chunks():
            Z = self._draw(rows, params, iteration, PASS)
            if self.chains is not None and hasattr(self.chains.shared, "averaged"):
                # Learned from all rows of a pass at once, however these are cut.
                now, self.chains.shared = self.chains.shared, before
                learned = averaged(learned, now, count, len(Z)) if count else now
                count += len(Z)
            if memory is not None:
                memory.put(rows, Z, self._remembered_params(params))
            weights = None if self.weights is None else self.weights[rows]
            share = self._share(rows, weights)
            mean = average_statistics(self.model, self.take(rows), Z, weights, params)
            yield rows, share * mean
        if self.chains is not None and count:
            self.chains.shared = learned

    def log_likelihood(self, params: Any) -> float:
        """Return the mean log-likelihood of all rows, NaN if the model has none.

        Parameters
        ----------
        params : object
            Parameters.

        Returns
        -------
        float
            The mean.
        """
        if self.fused:
            return self._expected_statistics(params)[1]
        log_likelihood = getattr(self.model, "log_likelihood", None)
        if log_likelihood is None or not self.can_measure_all:
            return float("nan")
        total = 0.0
        for rows in self.chunks():
            values, shares = log_likelihood(self.take(rows), params), self.shares(rows)
            check_each_row(self.model, "log_likelihood", values, len(shares))
            total += float(values @ shares)
        return total

    def new_events(self) -> Counter:
        """Return numerical problems, and the like, since the last call."""
        events, self.events = self.events, Counter()
        return events

    def _expected_statistics(self, params):
        """Return mean statistics and mean log-likelihood of all rows."""
        model = self.model
        if self.X.in_memory:
            if self._prepared is None:
                self._prepared = model.prepared(self.X.model_view(), params)
            return model.expected_statistics(self._prepared, params, self.weights)
        if model.reads_blocks:
            view = self.X.model_view()
            return model.expected_statistics(view, params, self.weights)
        mean: Any = 0.0
        log_likelihood = 0.0
        for rows in self.chunks():
            weights = None if self.weights is None else self.weights[rows]
            share = self._share(rows, weights)
            block_values = model.expected_statistics(self.take(rows), params, weights)
            mean = mean + share * block_values[0]
            log_likelihood += share * block_values[1]
        return mean, log_likelihood

    def _share(self, rows, weights):
        """Return the share of consecutive rows in the mean over all rows."""
        if weights is None:
            return (rows.stop - rows.start) / self.n_all_rows
        return weights.sum()

    def shares(self, rows: np.ndarray) -> np.ndarray:
        """Return the share of each row in the mean over all rows.

        Parameters
        ----------
        rows : slice or ndarray of int
            Which rows.

        Returns
        -------
        ndarray
            ``1 / n``, or the normalised weights.
        """
        if self.weights is None:
            if isinstance(rows, slice):
                rows = range(*rows.indices(self.n_rows))
            return np.full(len(rows), 1.0 / self.n_all_rows)
        return self.weights[rows]

    def new_memory(self) -> LatentMemory:
        """Return an empty table of latents for all rows."""
        ragged = not self.model.averages_draws
        return LatentMemory(self.n_rows, ragged, self.folder)
