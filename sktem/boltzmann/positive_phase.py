"""The E-step of an update: posterior expectations of a batch, wherever its rows are.

Rows of an array are taken here. Rows of a Dask collection stay in their partitions, and
so do the chains that are remembered of them: a task returns sums over the rows of the
batch that its partition has. The draws of a row are those that it has in the batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from sktem.arrays import arrays_of
from sktem.boltzmann.batch_draws import BatchPart, places_of, repeated
from sktem.boltzmann.e_steps import draw_seed, posterior_start
from sktem.e_step.batches import SharedRows
from sktem.e_step.visits import PartitionVisits, RemoteLatents
from sktem.rows.checked import CheckedRows

__all__ = ["Batches", "PartitionedBatches", "has_missing", "taken"]


class Positive(NamedTuple):
    """What an E-step has found.

    Attributes
    ----------
    values : array of shape (n_parameters,)
        Mean statistics.
    packed : array of uint8 of shape (n_rows, n_chains_e, n_bytes) or None
        Bits of the chains of the rows, where they have moved.
    starts : array or None
        Chains from which those of the model start, where these do not persist.
    """

    values: Any
    packed: Any = None
    starts: Any = None


class Batches:
    """Batches of an array, or of rows that are read by blocks.

    Parameters
    ----------
    X : array, sparse matrix or CheckedRows of shape (n_rows, n_visible)
        Visible values.
    """

    def __init__(self, X):
        self.X, self.missing = X, has_missing(X)

    def start(self, state) -> None:
        """Prepare to remember chains of the rows."""
        if state.started is None:
            state.started = np.zeros(self.X.shape[0], bool)

    def expect(self, settings, state, rows=None) -> Positive:
        """Return expectations of some rows; of all rows, without memory, for None."""
        batch = self.X if rows is None else taken(self.X, rows)
        remembers = settings.posterior.keeps_chains and rows is not None
        chains, packed, rng = state.posterior_chains, None, state.generators.sampling
        if remembers and state.started[rows].all():
            packed = arrays_of(chains).take(chains, rows)
        found = expected(
            settings, state.params, state.progress, batch, packed, self.missing, rng
        )
        if remembers and found.packed is not None:
            arrays = arrays_of(found.packed)
            if chains is None:
                shape = (len(state.started), *found.packed.shape[1:])
                state.posterior_chains = arrays.full(shape, 0, arrays.xp.uint8)
            arrays.put(state.posterior_chains, rows, found.packed)
            state.started[rows] = True
        return found

    def new_events(self) -> Counter:
        """Return nothing."""
        return Counter()

    def finish(self, state) -> None:
        """Nothing is left to do."""


class PartitionReport(NamedTuple):
    """What the tasks of an E-step have found.

    Attributes
    ----------
    total : ndarray of float64 of shape (n_parameters,)
        Sum of statistics, over the number of rows of the batch.
    moved : bool
        Whether chains of rows have moved.
    starts : list of (ndarray, ndarray)
        Places in the batch, and bits of the chains from which those of the model start.
    drawn : mapping
        State of the generator of the batch, which is the same after all parts.
    """

    total: Any
    moved: bool
    starts: list
    drawn: Mapping


class PartitionedBatches:
    """Batches of the rows of a Dask collection.

    Parameters
    ----------
    X : PartitionedRows of shape (n_rows, n_visible)
        Visible values.
    """

    def __init__(self, X):
        self.X, self.missing = X, X.has_nan
        self.visits: PartitionVisits | None = None
        #: Which rows have chains; where rows are not listed, how many visits began one.
        self.started: np.ndarray | None = None
        self.n_started = 0

    def start(self, state) -> None:
        """Prepare to remember chains of the rows, which start anew."""
        self.started, self.n_started = None, 0
        state.started, state.posterior_chains = None, RemoteLatents()

    def expect(self, settings, state, rows) -> Positive:
        """Return expectations of some rows."""
        if self.visits is None:
            self.visits = self._new_visits(settings)
        keep = settings.posterior.keeps_chains
        rng, n_rows = state.generators.sampling, len(rows)
        visit = (
            state.params, state.progress, self.missing, self._continues(rows), n_rows,
            rng.bit_generator,
        )  # fmt: skip
        report = self.visits.run(
            _expected_part, visit, self._parts_of(rows), _joined, keep=keep
        )
        rng.bit_generator.state = report.drawn
        if report.moved:
            self._have_started(rows)
        starts = None
        if report.starts:
            places, packed = map(np.concatenate, zip(*report.starts, strict=True))
            starts = settings.model.unpack(packed[np.argsort(places)])
        return Positive(report.total.astype(state.params.dtype), None, starts)

    def new_events(self) -> Counter:
        """Return changes of the cluster since the last call."""
        return self.X.workers.new_events()

    def finish(self, state) -> None:
        """Forget the chains of the rows."""
        state.posterior_chains = None

    def _new_visits(self, settings):
        # Schedules may be functions of the user, and tasks have one thread.
        model = settings.model.with_n_jobs(1)
        sent = replace(settings, model=model, step_size_e=None, step_size_m=None)
        return PartitionVisits(self.X, (sent,), chosen=True)

    def _continues(self, rows):
        """Return whether all rows of a batch have chains."""
        if isinstance(rows, SharedRows):
            return self.n_started >= len(self.X)
        return self.started is not None and bool(self.started[rows].all())

    def _have_started(self, rows):
        if isinstance(rows, SharedRows):
            self.n_started += len(rows)
            return
        if self.started is None:
            self.started = np.zeros(len(self.X), bool)
        self.started[rows] = True

    def _parts_of(self, rows) -> dict[int, tuple]:
        """Return rows and their places in the batch, for each partition with some."""
        X = self.X
        if not isinstance(rows, SharedRows):
            return {
                index: (rows[part] - X.starts[index], part, int(X.lengths[index]))
                for index, part in X.split(rows).items()
            }
        start, stop = rows.edges(X.starts, X.lengths)
        counts = stop - start
        before = np.cumsum(counts) - counts
        return {
            int(i): (rows, before[i] + np.arange(counts[i]), int(X.lengths[i]))
            for i in np.flatnonzero(counts)
        }


def has_missing(X) -> bool:
    """Return whether a value is not observed."""
    if sparse.issparse(X):
        return False
    if isinstance(X, CheckedRows):
        return X.has_nan
    xp = arrays_of(X).xp
    return bool(xp.any(xp.isnan(X)))


def taken(X, rows):
    """Return rows of the visible values."""
    if isinstance(X, CheckedRows):
        return X.take(rows)
    return X[rows] if sparse.issparse(X) else arrays_of(X).take(X, rows)


def expected(settings, params, progress, batch, packed, missing, rng) -> Positive:
    """Return expectations of rows, whose chains move on, or start where packed is None.

    Parameters
    ----------
    settings : ContrastiveSettings
        Settings of the run.
    params : array of shape (n_parameters,)
        Parameters.
    progress : float
        How much of a round is over.
    batch : array or sparse matrix of shape (n_rows, n_visible)
        Visible values.
    packed : array of uint8 of shape (n_rows, n_chains_e, n_bytes) or None
        Bits of the chains of the rows.
    missing : bool
        Whether some of all rows have values that are not observed.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    Positive
        The expectations.
    """
    model, posterior = settings.model, settings.posterior
    X, observed = _visible(model, batch, missing, settings.binarize, rng)
    chains, moved, starts = None, None, None
    n_rows, copies = X.shape[0], settings.n_chains_e
    if posterior.keeps_chains:
        if copies > 1:
            repeat = arrays_of(X).xp.repeat
            X = repeat(X, copies, axis=0)
            observed = None if observed is None else repeat(observed, copies, axis=0)
            rng = repeated(rng, copies)
        if packed is None:
            chains = posterior_start(model, params, X, observed, rng)
        else:
            reshape = arrays_of(packed).xp.reshape
            chains = model.unpack(reshape(packed, (X.shape[0], -1)))
    moments = posterior.expect(model, params, X, observed, chains, rng, progress)
    if posterior.keeps_chains and moments.chains is not None:
        moved = model.pack(moments.chains)
        moved = arrays_of(moved).xp.reshape(moved, (n_rows, copies, moved.shape[1]))
    if not settings.solver.persistent:
        starts = moments.chains
        if starts is None:
            starts = _negative_start(settings, params, X, observed, rng)
    return Positive(moments.values, moved, starts)


def _visible(model, batch, missing, binarize, rng):
    """Return the values of a batch as float32, and which are observed."""
    if sparse.issparse(batch):
        batch = batch.toarray()
    arrays = arrays_of(batch)
    xp = arrays.xp
    X = arrays.contiguous(arrays.astype(batch, xp.float32))
    observed = None
    if missing:
        observed = ~xp.isnan(X)
        X = xp.where(observed, X, xp.full_like(X, 0.5))
    if binarize:
        X = model.drawn(X, rng)
    return X, observed


def _negative_start(settings, params, X, observed, rng):
    """Return chains of the posterior, from which those of the model start."""
    model = settings.model
    start = posterior_start(model, params, X, observed, rng)
    sweeps, seed = settings.n_gibbs_e, draw_seed(rng)
    return model.posterior_gibbs(
        params, X, observed, start, sweeps, seed, False, places_of(rng)
    ).chains


# Tasks ------------------------------------------------------------------------------


def _expected_part(
    load, first, kept, rows, places, length, params, progress, missing, continues,
    n_rows, bit_generator, settings,
):  # fmt: skip
    """Return the report about the rows of a batch in a partition, and their chains."""
    if isinstance(rows, SharedRows):
        rows = rows.of(first, length)
    rng = BatchPart(deepcopy(bit_generator), places, n_rows)
    packed = kept[rows] if continues else None
    found = expected(settings, params, progress, load(rows), packed, missing, rng)
    total = found.values * np.float64(len(rows) / n_rows)
    starts = []
    if found.starts is not None:
        bits = settings.model.pack(found.starts)
        copies = len(bits) // len(rows)
        starts.append(((copies * places[:, None] + np.arange(copies)).ravel(), bits))
    moved = found.packed is not None
    if moved:
        shape = (length, *found.packed.shape[1:])
        kept = np.zeros(shape, np.uint8) if kept is None else kept.copy()
        kept[rows] = found.packed
    return PartitionReport(total, moved, starts, rng.bit_generator.state), kept


def _joined(*reports):
    """Join the reports of partitions that follow each other."""
    first, *others = reports
    for report in others:
        first = first._replace(
            total=first.total + report.total, starts=first.starts + report.starts
        )
    return first
