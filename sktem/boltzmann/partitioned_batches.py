"""The E-step of an update on the rows of a Dask collection.

The rows of a part of a batch are brought to one task, with the chains that are
remembered of them, and the moved chains go back to their partitions. A part thus finds
what it finds in an array, to the bit, however the rows are cut into partitions. What
crosses the network are the rows of the batch, mostly fewer numbers than the statistics
of each partition would be.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from sktem.boltzmann import positive_phase
from sktem.boltzmann.positive_phase import (
    Positive,
    added,
    expected,
    parts_of,
    share_of,
)
from sktem.e_step.batches import SharedRows
from sktem.e_step.snapshots import Snapshots, save
from sktem.e_step.visits import RemoteLatents, Visits
from sktem.rows.partitions import BRANCHES, reduced
from sktem.rows.tasks import Graph

__all__ = ["PartitionedBatches"]


class PartFound(NamedTuple):
    """What the task of a part has found, or what was joined of several.

    Attributes
    ----------
    positive : Positive
        Its share of the expectations, with starts as bits.
    moved : bool
        Whether chains of rows have moved.
    drawn : mapping
        State of the generator of the first part afterwards.
    packed : ndarray of uint8 of shape (n_rows, n_chains_e, n_bytes) or None
        Bits of the chains of the rows, of one part where they have moved.
    """

    positive: Positive
    moved: bool
    drawn: Any
    packed: Any = None


class PartitionedBatches:
    """Batches of the rows of a Dask collection.

    Parameters
    ----------
    X : PartitionedRows of shape (n_rows, n_visible)
        Visible values.
    """

    def __init__(self, X):
        self.X, self.missing = X, X.has_nan
        self.visits: PartVisits | None = None
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
            # Schedules may be functions of the user, and tasks have one thread.
            model = settings.model.with_n_jobs(1)
            sent = replace(settings, model=model, step_size_e=None, step_size_m=None)
            self.visits = PartVisits(self.X, (sent,))
        rng, parts = state.generators.sampling, self._parts(rows, state)
        report = self.visits.run(
            (state.params, state.progress, self.missing),
            parts, self._continues(rows), settings.posterior.keeps_chains,
        )  # fmt: skip
        if len(parts) == 1 and parts[0].bit_generator is rng.bit_generator:
            rng.bit_generator.state = report.drawn
        if report.moved:
            self._have_started(rows)
        found, starts = report.positive, None
        if found.starts is not None:
            starts = settings.model.unpack(np.concatenate(found.starts))
        return Positive(found.values.astype(state.params.dtype), None, starts)

    def new_events(self) -> Counter:
        """Return changes of the cluster since the last call."""
        return self.X.workers.new_events()

    def finish(self, state) -> None:
        """Forget the chains of the rows."""
        state.posterior_chains = None

    def _parts(self, rows, state):
        """Return the parts of a batch."""
        X, rng = self.X, state.generators.sampling
        if isinstance(rows, SharedRows):
            # Such a batch depends on how the rows are cut, and so may its parts.
            start, stop = rows.edges(X.starts, X.lengths)
            seed = int(rng.integers(2**63))
            return [
                Part(
                    np.random.default_rng((seed, int(i))).bit_generator,
                    (stop[i] - start[i]) / len(rows),
                    {int(i): Piece(rows, None)},
                )
                for i in np.flatnonzero(stop - start)
            ]
        several = len(rows) > positive_phase.ROWS_PER_PART
        listed = parts_of(rows, rng) if several else [(rows, rng)]
        return [
            Part(
                own.bit_generator,
                len(part) / len(rows),
                {
                    i: Piece(part[places] - X.starts[i], places)
                    for i, places in X.split(part).items()
                },
            )
            for part, own in listed
        ]

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


class Piece(NamedTuple):
    """Rows of a part that are in one partition.

    Attributes
    ----------
    rows : ndarray of int or SharedRows
        Positions in the partition.
    places : ndarray of int or None
        Where in the part they are, None for all of it.
    """

    rows: Any
    places: np.ndarray | None

    def positions(self, first, length):
        """Return positions in the partition, of its first row index and length."""
        if isinstance(self.rows, SharedRows):
            return self.rows.of(first, length)
        return self.rows

    def of(self, packed):
        """Return the chains of the rows, of those of the part."""
        return packed if self.places is None else packed[self.places]


class Part(NamedTuple):
    """Rows of a batch that are worked on together.

    Attributes
    ----------
    bit_generator : numpy.random.BitGenerator
        Source of randomness.
    share : float
        Share of the rows of the batch.
    pieces : dict of int to Piece
        The rows, by partition.
    """

    bit_generator: Any
    share: float
    pieces: dict


class PartVisits(Visits):
    """Visits of the parts of a batch, and of the partitions that remember chains."""

    def run(self, arguments, parts, continues, keep) -> PartFound:
        """Return what the parts of a batch have found, joined.

        Parameters
        ----------
        arguments : tuple
            Parameters, progress and whether values are missing.
        parts : list of Part
            The parts.
        continues : bool
            Whether the chains of the rows go on.
        keep : bool
            Whether chains are remembered.

        Returns
        -------
        PartFound
            What was joined.
        """
        constants, graph = self.sent_constants(), Graph()
        common = graph.common(None, arguments)
        tasks = []
        moved: defaultdict[int, list] = defaultdict(list)
        for part in parts:
            task = self._task(graph, part, constants, common, continues)
            tasks.append(task)
            for i, piece in part.pieces.items():
                moved[i].extend((piece, task))
        if not keep:
            return reduced(graph, tasks, _joined)[0]
        return self._run_and_keep(graph, tasks, moved)

    def _task(self, graph, part, constants, common, continues):
        """Return the task of a part: where its rows are, or where they are brought."""
        each = {
            i: (
                piece,
                int(self.rows.lengths[i]),
                self.kept.get(i) if continues else None,
            )
            for i, piece in part.pieces.items()
        }
        places = [piece.places for piece in part.pieces.values()]
        order = None if places[0] is None else np.argsort(np.concatenate(places))
        work = constants, common, part.bit_generator, part.share, order
        if len(each) == 1:
            ((i, own),) = each.items()
            tasks = self.rows.chosen_tasks(graph, _found_there, each={i: (*own, *work)})
            return tasks[i]
        chosen = self.rows.chosen_tasks(graph, _chosen, each=each)
        return graph.add(_found, *work, *chosen.values())

    def _run_and_keep(self, graph, tasks, moved):
        """Return the joined reports, and let partitions remember moved chains."""
        self.snapshots = snapshots = self.snapshots or Snapshots(None)
        X = self.rows
        paths = {i: snapshots.path(i) for i in map(int, X.used)}
        # All are written at the same time: chains of a partition have come from tasks
        # on others, and would be made again from the files that those began from.
        writes = any(path is not None for path in paths.values())
        kept = {
            i: graph.add(
                _written if writes else _remembered, paths[i], self.kept.get(i),
                int(X.starts[i]), int(X.lengths[i]), *moved.get(i, ()),
            )
            for i in sorted({*moved, *self.kept} if writes else moved)
        }  # fmt: skip
        # Files are there before others are removed.
        before = kept.values() if writes else ()
        cuts = range(0, len(tasks), BRANCHES)
        joined = [
            graph.add(_joined, *tasks[cut : cut + BRANCHES], *before) for cut in cuts
        ]
        report, held = reduced(graph, joined, _joined, () if writes else kept.values())
        if writes:
            held = [snapshots.written(i, str(paths[i])) for i in kept]
        self.kept.update(zip(kept, held, strict=True))
        return report


# Tasks ------------------------------------------------------------------------------


def _chosen(load, first, piece, length, kept):
    """Return rows of a partition, and their chains where these go on."""
    positions = piece.positions(first, length)
    values = np.asarray(load(positions), np.float32)
    return values, None if kept is None else kept[positions]


def _found(constants, common, bit_generator, share, order, *pieces):
    """Return what a part finds, whose rows have come from several partitions."""
    (settings,), (params, progress, missing) = constants, common.opened().arguments
    batch, packed = pieces[0]
    if len(pieces) > 1:
        batch = np.concatenate([values for values, _ in pieces])
        if packed is not None:
            packed = np.concatenate([chains for _, chains in pieces])
    if order is not None:
        batch, packed = batch[order], None if packed is None else packed[order]
    rng = np.random.Generator(deepcopy(bit_generator))
    found = expected(settings, params, progress, batch, packed, missing, rng)
    if found.starts is not None:
        found = found._replace(starts=settings.model.pack(found.starts))
    moved, drawn = found.packed is not None, rng.bit_generator.state
    return PartFound(share_of(found, share), moved, drawn, found.packed)


def _found_there(load, first, piece, length, kept, *work):
    """Return what a part finds, all of whose rows are in one partition."""
    return _found(*work, _chosen(load, first, piece, length, kept))


def _joined(*found):
    """Join what parts that follow each other have found; files leave None."""
    first, *others = (one for one in found if one is not None)
    positive = added(first.positive, *(one.positive for one in others))
    return first._replace(positive=positive, packed=None)


def _remembered(path, kept, first, length, *moved):
    """Return the chains of a partition, of pieces and what was found of each."""
    pieces, found = moved[::2], [one.packed for one in moved[1::2]]
    if pieces and found[0] is not None:
        shape = (length, *found[0].shape[1:])
        kept = np.zeros(shape, np.uint8) if kept is None else kept.copy()
        for piece, packed in zip(pieces, found, strict=True):
            kept[piece.positions(first, length)] = piece.of(packed)
    return kept


def _written(path, *arguments):
    """Write what `_remembered` returns."""
    save(_remembered(path, *arguments), path)
