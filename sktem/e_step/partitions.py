"""The E-step on the partitions of a Dask collection, where latents stay, too.

A visit of rows is a task for each partition that has some of them. What is remembered
of rows (latents, chain states) is the result of a task, and an argument of the next one
on its partition. What a lost worker had is computed again, from the last snapshot on.
Draws belong to rows and iterations, so that they are the same again.
"""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sktem.e_step.batches import SharedRows
from sktem.e_step.chains import ChainState, ChainTable, averaged, positions
from sktem.e_step.expectation import ROWS_PER_CHUNK, Batch, Expectation
from sktem.e_step.memory import LatentMemory
from sktem.e_step.random import Generators
from sktem.e_step.row_random import PASS, START
from sktem.e_step.visits import PartitionVisits, RemoteLatents
from sktem.rows.partitions import (
    PartSum,
    aligned_slices,
    joined_sums,
    total_of,
)
from sktem.rows.tasks import Graph

__all__ = ["PartitionedExpectation"]

#: Rows whose latents are brought here, at most, where a fit is judged by them.
MOST_JUDGED = 1 << 17


class Kept(NamedTuple):
    """What is remembered of the rows of a partition.

    Attributes
    ----------
    chains : ChainTable or None
        Chain states.
    latents : LatentMemory or None
        Latents of a solver with a memory.
    """

    chains: ChainTable | None = None
    latents: LatentMemory | None = None


class Visit(NamedTuple):
    """What the tasks of a visit have in common.

    Attributes
    ----------
    method : str
        Method of :class:`LocalExpectation`.
    params : object
        What is computed with.
    n_rows, row_seed : int
        Rows of all partitions, and the seed of their draws.
    iteration, purpose : int
        What the draws are for.
    shared : object
        What the sampler has learned of all chains together.
    checked : bool
        Whether the shapes returned by the model have been checked.
    keep : bool
        Whether what is remembered changes.
    """

    method: str
    params: Any
    n_rows: int
    row_seed: int
    iteration: int
    purpose: int
    shared: Any
    checked: bool
    keep: bool


class Report(NamedTuple):
    """What a visit has found.

    Attributes
    ----------
    sums : list of PartSum
        Sums over all rows of partitions.
    total : ndarray or float
        Sum over the rows of a batch.
    n_rows : int
        Rows that were visited.
    acceptance : list
        Sums of acceptance and bias, and rows.
    events : Counter
        Numerical problems.
    shared : object
        What the sampler has learned of all chains together.
    """

    sums: list[PartSum]
    total: Any
    n_rows: int
    acceptance: list
    events: Counter
    shared: Any


class RemoteChains:
    """Stands for the chain states of all rows, which are with the partitions.

    Parameters
    ----------
    X : PartitionedRows
        The rows.
    visits : PartitionVisits
        What stands for the chains.

    Attributes
    ----------
    shared : object
        What the sampler has learned of all chains together.
    brought : tuple or None
        Row indices and a table of their states, until the next visit.
    """

    def __init__(self, X, visits):
        self.X, self.visits = X, visits
        self.shared: Any = None
        self.brought: tuple[np.ndarray, ChainTable] | None = None

    def __reduce__(self):
        raise TypeError("chains that are with the workers of Dask cannot be saved")

    @property
    def values(self) -> np.ndarray | None:
        """Latents of the first rows, as many as are judged at the end of a fit."""
        count = min(len(self.X), MOST_JUDGED)
        return positions(self.get(np.arange(count)))

    def get(self, rows) -> ChainState | np.ndarray:
        """Bring the states of some chains here, or those of all rows held here."""
        held = self.X.held_with(np.asarray(rows))
        if held is None:
            return self._table(rows).get(np.arange(len(rows)))
        numbers, _, places = held
        if self.brought is None or self.brought[0] is not numbers:
            self.brought = numbers, self._table(numbers)
        return self.brought[1].get(places)

    def _table(self, rows):
        X, graph, kept = self.X, Graph(), self.visits.kept
        parts = X.split(rows)
        each = {i: (kept[i], rows[part] - X.starts[i]) for i, part in parts.items()}
        tasks = X.tasks(graph, _chain_states, each=each)
        found, _ = graph.run([*tasks.values()])
        table = ChainTable(len(rows))
        for index, states in zip(tasks, found, strict=True):
            table.put(parts[index], states)
        table.shared = self.shared
        return table


class PartitionedExpectation(Expectation):
    """E-step over chosen rows of partitions.

    The parameters are those of the base class, with X a
    :class:`sktem.rows.partitions.PartitionedRows`.

    Attributes
    ----------
    visits : PartitionVisits
        What stands for what is remembered of partitions.
    """

    def __init__(self, model, sampler, X, sample_weight, generators, first_row=0):
        super().__init__(model, sampler, X, sample_weight, generators, first_row)
        self.visits = PartitionVisits(X, (model, sampler))

    def start_chains(self, params):
        """Set up the chain states of all rows."""
        if self.sampler.markov:
            self.chains: Any = RemoteChains(self.X, self.visits)
            self._visit("started", params, 0, START, self._all())

    def statistics(self, batch, params, iteration):
        """Visit the rows of a batch and return ``sum_i c_i S_i``."""
        return self._of_batch("statistics", batch, params, iteration)

    def change(self, batch, memory, params, iteration):
        """Visit the rows of a batch; return ``sum_i c_i`` times the change of S."""
        return self._of_batch("change", batch, params, iteration)

    def replace(self, batch, memory, params, iteration):
        """Do as :meth:`change` with drawn latents, and remember these instead."""
        return self._of_batch("replace", batch, params, iteration, keep=True)

    def renew(self, batch, memory, params, iteration):
        """Do as :meth:`statistics` with drawn latents, and remember these."""
        return self._of_batch("renew", batch, params, iteration, keep=True)

    def full_pass(self, params, iteration, memory=None):
        """Visit every row and return the mean statistics."""
        if self.fused and memory is None:
            return super().full_pass(params, iteration)
        self.full_pass_done = None
        method = "passed" if memory is None else "remembered"
        keep = memory is not None
        report = self._visit(method, params, iteration, PASS, self._all(), keep=keep)
        return total_of(report.sums, ROWS_PER_CHUNK, self.n_rows)[0]

    def new_memory(self) -> Any:
        """Return what stands for the latents of all rows."""
        return RemoteLatents()

    def new_events(self):
        """Return numerical problems since the last call, and changes of the cluster."""
        return super().new_events() + self.X.workers.new_events()

    def _expected_statistics(self, params):
        model = self.model
        if model.reads_blocks:
            return model.expected_statistics(self.X, params, self.weights)
        n_rows = None if self.weights is not None else self.n_rows
        function = partial(_expected_share, model=model, params=params, n_rows=n_rows)
        return self.X.summed(function, ROWS_PER_CHUNK, self.weights)

    def _all(self):
        """Return the weights of all rows, or nothing, by partition."""
        if self.weights is None:
            return {int(index): () for index in self.X.used}
        return self.X.weights_of(self.weights)

    def shares(self, rows):
        """Return the share of each row in the mean over all rows."""
        if isinstance(rows, SharedRows):
            return np.broadcast_to(1.0 / self.n_rows, len(rows))
        return super().shares(rows)

    def _parts_of(self, batch) -> dict[int, tuple]:
        """Return the part of a batch in each partition that has one."""
        X, rows, coefficients = self.X, batch.rows, batch.coefficients
        if not isinstance(rows, SharedRows):
            return {
                index: (rows[part] - X.starts[index], coefficients[part])
                for index, part in X.split(rows).items()
            }
        start, stop = rows.edges(X.starts, X.lengths)
        share = float(coefficients[0])
        return {int(i): (rows, share) for i in np.flatnonzero(stop > start)}

    def _of_batch(self, method, batch, params, iteration, keep=False):
        """Return the sum over the rows of a batch."""
        exact = self.fused and not keep
        purpose = PASS if exact else self._purpose(iteration)
        each = self._parts_of(batch)
        return self._visit(method, params, iteration, purpose, each, keep=keep).total

    def _visit(self, method, params, iteration, purpose, each, *, keep=False) -> Report:
        """Call a method on partitions, and keep what it leaves to be remembered."""
        chains = self.chains
        keep = keep or chains is not None
        visit = Visit(
            method,
            params,
            self.n_rows,
            self.generators.row_seed,
            iteration,
            purpose,
            None if chains is None else chains.shared,
            self.checked,
            keep,
        )
        join, folder = partial(_joined, ROWS_PER_CHUNK), self.folder
        report = self.visits.run(
            _visited, (visit,), each, join, keep=keep, folder=folder
        )
        self.checked = True
        self.rows_visited += report.n_rows if method != "started" else 0
        before = self.acceptance
        self.acceptance = [
            a + b for a, b in zip(before, report.acceptance, strict=True)
        ]
        self.events.update(report.events)
        if chains is not None:
            chains.shared, chains.brought = report.shared, None
        return report


class LocalExpectation(Expectation):
    """E-step over the rows of one partition.

    Parameters
    ----------
    block : ndarray of shape (n, n_features)
        The rows.
    first : int
        Row index of the first.
    parts : tuple of LatentModel and Sampler
        What is computed with.
    visit : Visit
        What the tasks of the visit have in common.
    kept : Kept
        What is remembered of the rows.
    """

    def __init__(self, block, first, parts, visit, kept):
        # Draws whose first axis is not that of the rows have their own numbers, too.
        key = (visit.row_seed, visit.iteration, visit.purpose, first)
        rng = np.random.default_rng(np.random.SeedSequence(key))
        generators = Generators(*(rng,) * 6, visit.row_seed)
        model, sampler = parts
        super().__init__(model, sampler, block, None, generators, first)
        self.visit = visit
        self.n_all_rows = visit.n_rows
        self.checked = visit.checked
        self.chains = kept.chains
        self.latents = kept.latents
        if self.chains is not None:
            self.chains.shared = visit.shared

    def _chunks(self):
        return aligned_slices(self.first_row, self.n_rows, ROWS_PER_CHUNK)

    def _purpose(self, iteration):
        return self.visit.purpose

    def report(self, *own) -> Report:
        """Do what the visit is for."""
        visit, n_rows = self.visit, self.n_rows
        sums: list[PartSum] = []
        total: Any = 0.0
        if visit.method == "started":
            self.start_chains(visit.params)
        elif visit.method in ("passed", "remembered"):
            self.weights = own[0] if own else None
            sums = self._passed(visit)
        else:
            rows, coefficients = own
            if isinstance(rows, SharedRows):
                rows = rows.of(self.first_row, self.n_rows)
                coefficients = np.full(len(rows), coefficients)
            batch = Batch(rows, coefficients)
            settings = (visit.params, visit.iteration)
            if visit.method == "statistics":
                total = self.statistics(batch, *settings)
            else:
                method = getattr(self, visit.method)
                total = method(batch, self.latents, *settings)
            n_rows = self.rows_visited
        shared = None if self.chains is None else self.chains.shared
        return Report(sums, total, n_rows, self.acceptance, self.events, shared)

    def _passed(self, visit):
        memory = None
        if visit.method == "remembered":
            self.latents = memory = self.new_memory()
        return [
            PartSum(self.first_row + rows.start, self.first_row + rows.stop, (value,))
            for rows, value in self.parts_of_pass(visit.params, visit.iteration, memory)
        ]


# Tasks ------------------------------------------------------------------------------


def _visited(block, first, kept, *arguments):
    """Visit rows of a partition; return the report and what is to be remembered."""
    *own, visit, model, sampler = arguments
    # Arguments of tasks are not changed.
    kept = (deepcopy(kept) if visit.keep else kept) or Kept()
    local = LocalExpectation(block, first, (model, sampler), visit, kept)
    return local.report(*own), Kept(local.chains, local.latents)


def _joined(size, *reports):
    """Join the reports of partitions that follow each other."""
    accepted = zip(*(report.acceptance for report in reports), strict=True)
    events: Counter = Counter()
    total, shared, count = 0.0, None, 0
    for report in reports:
        events.update(report.events)
        total = total + report.total
        shared = averaged(shared, report.shared, count, report.n_rows)
        count += report.n_rows
    sums = joined_sums(size, *(report.sums for report in reports))
    return Report(sums, total, count, [*map(sum, accepted)], events, shared)


def _chain_states(block, first, visited, rows):
    return visited.kept.chains.get(rows)


def _expected_share(X, *, weights, model, params, n_rows):
    """Return statistics and log-likelihood of a block, times its share of the rows."""
    share = len(X) / n_rows if weights is None else weights.sum()
    mean, log_likelihood = model.expected_statistics(X, params, weights)
    return share * mean, share * log_likelihood
