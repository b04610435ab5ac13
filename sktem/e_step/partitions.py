"""The E-step on the partitions of a Dask collection: parameters go there, sums return.

Expectations are exact or of fresh draws. Draws belong to rows and iterations, so that
they are the same again where a lost worker's part is computed anew.
"""

from __future__ import annotations

from functools import partial, reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from sktem import budget
from sktem.e_step.expectation import Batch, Expectation
from sktem.e_step.random import Generators
from sktem.e_step.row_random import PASS
from sktem.rows.held import carrier_of
from sktem.rows.partitions import PartSum, aligned_slices, joined_sums, total_of
from sktem.rows.tasks import reduced

__all__ = ["PartitionedExpectation", "expectation_of"]


def expectation_of(model, sampler, X, sample_weight, generators, first_row=0):
    """Return the E-step of rows, where they are; for parameters see `Expectation`."""
    kind = PartitionedExpectation if carrier_of(X).is_remote else Expectation
    return kind(model, sampler, X, sample_weight, generators, first_row)


class PartitionedExpectation(Expectation):
    """E-step over chosen rows of partitions.

    The parameters are those of the base class, with X a
    :class:`sktem.rows.partitions.PartitionedRows`.
    """

    can_measure_all = False
    X: Any

    def statistics(self, batch, params, iteration):
        """Visit the rows of a batch and return ``sum_i c_i S_i``."""
        X, rows, coefficients = self.X, batch.rows, batch.coefficients
        visit = self._visit(params, iteration, self._purpose(iteration))
        each = {
            index: (rows[part] - X.starts[index], rows[part], coefficients[part])
            for index, part in X.split(rows).items()
        }
        tasks = X.tasks(partial(_batch_sum, visit), each=each, chosen=True)
        self.rows_visited += len(rows)
        self.checked = True
        return reduced(tasks.values(), _total)

    def full_pass(self, params, iteration, memory=None):
        """Visit every row and return the mean statistics."""
        if self.fused:
            return super().full_pass(params, iteration)
        self.full_pass_done = None
        visit = self._visit(params, iteration, PASS)
        each = self.X.weights_of(self.weights)
        tasks = self.X.tasks(partial(_pass_sums, visit), each=each)
        sums = reduced(tasks.values(), partial(joined_sums, budget.MEMORY.rows))
        self.rows_visited += self.n_rows
        self.checked = True
        return total_of(sums, budget.MEMORY.rows, self.n_rows)[0]

    def new_events(self):
        """Return numerical problems since the last call, and changes of the cluster."""
        return super().new_events() + self.X.workers.new_events()

    def _expected_statistics(self, params):
        model = self.model
        if model.reads_blocks:
            return model.expected_statistics(self.X.model_view(), params, self.weights)
        function = partial(
            _expected_share, model=model, params=params, n_rows=self.n_rows
        )
        return self.X.summed(function, self.weights, size=budget.MEMORY.rows)

    def _visit(self, params, iteration, purpose) -> Visit:
        return Visit(
            self.model,
            self.sampler,
            params,
            self.n_rows,
            self.generators.row_seed,
            iteration,
            purpose,
            self.checked,
        )


class Visit(NamedTuple):
    """A visit of rows, as the partitions get it.

    Attributes
    ----------
    model : LatentModel
        The model.
    sampler : Sampler
        How latents are drawn.
    params : object
        Parameters.
    n_rows, row_seed : int
        Rows of all partitions, and the seed of their draws.
    iteration, purpose : int
        What the draws are for.
    checked : bool
        Whether the shapes returned by the model have been checked.
    """

    model: Any
    sampler: Any
    params: Any
    n_rows: int
    row_seed: int
    iteration: int
    purpose: int
    checked: bool


class LocalExpectation(Expectation):
    """E-step over rows of one partition.

    Parameters
    ----------
    visit : Visit
        What is asked for.
    block : ndarray of shape (n, n_features)
        The rows.
    indices : ndarray of int of shape (n,)
        Their row indices.
    weights : ndarray of shape (n,) or None
        Normalised weights of the rows.
    """

    def __init__(self, visit, block, indices, weights=None):
        # Draws whose first axis is not that of the rows have their own numbers, too.
        key = (visit.row_seed, visit.iteration, visit.purpose, int(indices[0]))
        rng = np.random.default_rng(np.random.SeedSequence(key))
        generators = Generators(*(rng,) * 6, visit.row_seed)
        super().__init__(visit.model, visit.sampler, block, None, generators)
        self.visit, self.indices = visit, indices
        self.weights = weights
        self.n_all_rows = visit.n_rows
        self.checked = visit.checked

    def generators_of(self, purpose, iteration, rows):
        """Return the generators of draws of the latents of rows."""
        if self.sampler.deterministic:
            return self.generators
        return self.generators.of_rows(purpose, iteration, self.indices[rows])

    def chunks(self):
        return aligned_slices(int(self.indices[0]), self.n_rows, budget.MEMORY.rows)

    def _purpose(self, iteration):
        return self.visit.purpose


# Tasks ------------------------------------------------------------------------------


def _batch_sum(visit, block, first, indices, coefficients):
    """Return the sum over chosen rows of a partition."""
    batch = Batch(np.arange(len(block)), coefficients)
    local = LocalExpectation(visit, block, indices)
    return local.statistics(batch, visit.params, visit.iteration)


def _pass_sums(visit, block, first, weights=None):
    """Return the sums over the chunks of a partition."""
    indices = first + np.arange(len(block))
    local = LocalExpectation(visit, block, indices, weights)
    return [
        PartSum(first + rows.start, first + rows.stop, (mean,))
        for rows, mean in local.parts_of_pass(visit.params, visit.iteration, None)
    ]


def _total(*sums):
    """Add up sums over partitions that follow each other."""
    return reduce(add, sums)


def _expected_share(X, *, weights, model, params, n_rows):
    """Return statistics and log-likelihood of a block, times its share of the rows."""
    share = len(X) / n_rows if weights is None else weights.sum()
    mean, log_likelihood = model.expected_statistics(X, params, weights)
    return share * mean, share * log_likelihood
