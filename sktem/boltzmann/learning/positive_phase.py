"""The E-step of an update: posterior expectations of a batch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from sktem.arrays import arrays_of
from sktem.boltzmann.learning.e_steps import posterior_start
from sktem.boltzmann.machines.layer_operations import operations_of
from sktem.boltzmann.machines.model import draw_seed
from sktem.boltzmann.units import half_filled
from sktem.rows.held import carrier_of

__all__ = ["Batches", "Positive", "expected"]


class Positive(NamedTuple):
    """Result of an E-step.

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
    X : array, sparse matrix or Carrier of shape (n_rows, n_visible)
        Visible values.

    Attributes
    ----------
    buffer : BufferedSelector or None
        What has read the rows of the batches, where they are read in order.
    """

    def __init__(self, X):
        self.X = X
        self.rows = carrier_of(X)
        self.missing = self.rows.has_nan
        self.buffer: Any = None

    def start(self, state) -> None:
        """Prepare to remember chains of the rows."""
        if state.row_chains.started is None:
            state.row_chains.started = np.zeros(self.X.shape[0], bool)

    def expect(self, settings, state, rows=None) -> Positive:
        """Return expectations of some rows; of all rows, without memory, for None."""
        batch, packed, chains = self.X, None, state.row_chains
        remembers = settings.posterior.keeps_chains and rows is not None
        if rows is not None:
            read = self.rows.take if self.buffer is None else self.buffer.taken
            batch = read(rows)
        if remembers and chains.started[rows].all():
            packed = arrays_of(chains.packed).take(chains.packed, rows)
        rng = state.generators.sampling
        positive = expected(settings, state, batch, packed, self.missing, rng)
        if remembers and positive.packed is not None:
            arrays = arrays_of(positive.packed)
            if chains.packed is None:
                shape = (len(chains.started), *positive.packed.shape[1:])
                chains.packed = arrays.full(shape, 0, arrays.xp.uint8)
            arrays.put(chains.packed, rows, positive.packed)
            chains.started[rows] = True
        return positive


def expected(settings, state, batch, packed, missing, rng) -> Positive:
    """Return expectations of rows, whose chains move on, or start where packed is None.

    Parameters
    ----------
    settings : ContrastiveSettings
        Settings of the run.
    state : ContrastiveState
        State of the run: its parameters, and how much of it is over.
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
    model, posterior, params = settings.model, settings.posterior, state.params
    X, observed = _visible(batch, missing, settings.binarize, rng)
    chains, moved, starts = None, None, None
    n_rows, copies = X.shape[0], settings.n_chains_e
    if posterior.keeps_chains:
        if copies > 1:
            repeat = arrays_of(X).xp.repeat
            X = repeat(X, copies, axis=0)
            observed = None if observed is None else repeat(observed, copies, axis=0)
        if packed is None:
            chains = posterior_start(model, params, X, observed, rng)
        else:
            reshape = arrays_of(packed).xp.reshape
            chains = model.unpack(reshape(packed, (X.shape[0], -1)))
    run_fraction = state.rounds.run_fraction
    moments = posterior.expect(model, params, X, observed, chains, rng, run_fraction)
    if posterior.keeps_chains and moments.chains is not None:
        moved = model.pack(moments.chains)
        moved = arrays_of(moved).xp.reshape(moved, (n_rows, copies, moved.shape[1]))
    if not settings.solver.persistent:
        starts = moments.chains
        if starts is None:
            starts = _negative_start(settings, params, X, observed, rng)
    return Positive(moments.values, moved, starts)


def _visible(batch, missing, binarize, rng):
    """Return the values of a batch as float32, and which are observed."""
    if sparse.issparse(batch):
        batch = batch.toarray()
    arrays = arrays_of(batch)
    X = arrays.contiguous(arrays.astype(batch, arrays.xp.float32))
    X, observed = half_filled(X) if missing else (X, None)
    if binarize:
        X = operations_of(X).drawn(X, rng)
    return X, observed


def _negative_start(settings, params, X, observed, rng):
    """Return chains of the posterior, from which those of the model start."""
    model = settings.model
    start = posterior_start(model, params, X, observed, rng)
    sweeps, seed = settings.n_gibbs_e, draw_seed(rng)
    return model.moved(params, start, sweeps, seed, X, observed)
