"""Adiabatic persistent contrastive divergence and its relatives: the loop.

Algorithm 1 of Jang et al. (2016), on batches. E: posterior expectations of the batch
and their average over iterations (E.1 to E.3; the mean over samples obeys the recursion
of each, so that what is remembered of a sample is its chain, as bits, and no mean
parameter). M: chains of the model and a step along the difference (M.1, M.2).
"""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
from scipy import sparse

from sktem.arrays import arrays_of
from sktem.models.boltzmann import LARGEST_PARAMETER
from sktem.samplers.gibbs import draw_seed, posterior_start
from sktem.solvers.selection import batch_edges

__all__ = ["has_missing", "run_epochs", "update"]

#: Share of a batch in the moving average of the units' means.
CENTRE_RATE = 0.01


def run_epochs(settings, X, state, on_epoch=None) -> None:
    """Run until the last epoch, or until `on_epoch` says to stop.

    Ctrl-C ends the run with the parameters of the last finished epoch.

    Parameters
    ----------
    settings : ContrastiveSettings
        What does not change.
    X : ndarray or sparse matrix of shape (n_rows, n_visible)
        Visible values; NaN means not observed.
    state : ContrastiveState
        Where to begin; it is changed.
    on_epoch : callable or None, default=None
        Called with the state after each epoch; True stops.
    """
    n = X.shape[0]
    edges = batch_edges(n, settings.batch_size)
    missing = has_missing(X)
    if settings.posterior.keeps_chains and state.started is None:
        state.started = np.zeros(n, bool)
    begun = time.process_time() - state.cpu_time
    copy = arrays_of(state.params).copy
    state.finished = copy(state.params)
    try:
        while state.epoch < settings.n_epochs:
            order = state.streams.indices.permutation(n)
            for begin, end in pairwise(edges):
                rows = order[begin:end]
                batch = X[rows] if sparse.issparse(X) else arrays_of(X).take(X, rows)
                update(settings, state, batch, missing=missing, rows=rows)
            state.epoch += 1
            state.cpu_time = time.process_time() - begun
            _record(settings, state)
            state.finished = copy(state.params)
            if on_epoch is not None and on_epoch(state):
                break
    except KeyboardInterrupt:
        state.params = state.finished
        state.interrupted = True


def update(settings, state, batch, *, missing=False, rows=None, progress=None) -> None:
    """Do one E-step and one M-step.

    Parameters
    ----------
    settings : ContrastiveSettings
        What does not change.
    state : ContrastiveState
        It is changed.
    batch : ndarray or sparse matrix of shape (n, n_visible)
        Visible values.
    missing : bool, default=False
        Whether there may be NaN.
    rows : ndarray of int or None, default=None
        Numbers of the rows, whose chains are remembered; None on a stream.
    progress : float or None, default=None
        How much of the run is over; None means that it follows from the epoch.
    """
    model, rng = settings.model, state.streams.sampling
    X, observed = _visible(model, batch, missing, settings.binarize, rng)
    state.n_updates += 1
    if progress is None:
        progress = (state.epoch + 1) / settings.n_epochs
    moments = _expect(settings, state, X, observed, rows, progress)
    if settings.centering:
        _move_centre(model, state, moments)
    if settings.solver.averages and state.mean is not None:
        a = settings.step_size_e(state.n_updates, state.epoch)
        state.mean += a * (moments.values - state.mean)
    else:
        state.mean = moments.values
    chains = _negative_start(settings, state, X, observed, moments)
    seed = draw_seed(rng)
    negative = model.free_gibbs(
        state.params, chains, settings.n_gibbs_m, seed, settings.rao_blackwell
    )
    if settings.solver.persistent:
        state.chains = negative.chains
    _step(settings, state, negative.values)


def has_missing(X) -> bool:
    """Return whether a value is not observed.

    Parameters
    ----------
    X : array or sparse matrix
        Values.

    Returns
    -------
    bool
        Whether one is NaN; never in a sparse matrix.
    """
    if sparse.issparse(X):
        return False
    xp = arrays_of(X).xp
    return bool(xp.any(xp.isnan(X)))


def _visible(model, batch, missing, binarize, rng):
    """Return the values of a batch as float32, and what is observed."""
    if sparse.issparse(batch):
        batch = batch.toarray()
    arrays = arrays_of(batch)
    xp = arrays.xp
    X = arrays.contiguous(arrays.astype(batch, xp.float32))
    observed = None
    if missing:
        observed = ~xp.isnan(X)
        if xp.all(observed):
            observed = None
        else:
            X = xp.where(observed, X, xp.full_like(X, 0.5))
    if binarize:
        X = model.drawn(X, rng)
    return X, observed


def _expect(settings, state, X, observed, rows, progress):
    """Return the mean statistics of a batch; its chains move."""
    model, posterior, rng = settings.model, settings.posterior, state.streams.sampling
    if not posterior.keeps_chains:
        return posterior.expect(model, state.params, X, observed, None, rng, progress)
    copies = settings.n_chains_e
    if copies > 1:
        repeat = arrays_of(X).xp.repeat
        X = repeat(X, copies, axis=0)
        observed = None if observed is None else repeat(observed, copies, axis=0)
    if rows is None or not state.started[rows].all():
        chains = posterior_start(model, state.params, X, observed, rng)
    else:
        arrays = arrays_of(state.posterior_chains)
        packed = arrays.take(state.posterior_chains, rows)
        chains = model.unpack(arrays.xp.reshape(packed, (X.shape[0], -1)))
    moments = posterior.expect(model, state.params, X, observed, chains, rng, progress)
    if rows is not None and moments.chains is not None:
        packed = model.pack(moments.chains)
        arrays, width = arrays_of(packed), packed.shape[1]
        if state.posterior_chains is None:
            shape = (len(state.started), copies, width)
            state.posterior_chains = arrays.full(shape, 0, arrays.xp.uint8)
        packed = arrays.xp.reshape(packed, (len(rows), copies, width))
        arrays.put(state.posterior_chains, rows, packed)
        state.started[rows] = True
    return moments


def _move_centre(model, state, moments):
    """Average the posterior means of the units, over all updates and later the last."""
    means = moments.values[: model.weights_from]
    if state.centre is None:
        state.centre = arrays_of(means).copy(means)
    else:
        state.centre += max(1 / state.n_updates, CENTRE_RATE) * (means - state.centre)


def _negative_start(settings, state, X, observed, moments):
    """Return the chains that the M-step moves."""
    model, rng = settings.model, state.streams.sampling
    if settings.solver.persistent:
        if state.chains is None:
            state.chains = model.new_chains(settings.n_chains, rng, state.params)
        return state.chains
    if moments.chains is not None:
        return moments.chains
    start = posterior_start(model, state.params, X, observed, rng)
    seed = draw_seed(rng)
    sweeps = settings.n_gibbs_e
    return model.posterior_gibbs(
        state.params, X, observed, start, sweeps, seed, False
    ).chains


def _step(settings, state, negative):
    """Move the parameters along the difference of the statistics, (8)."""
    model, params = settings.model, state.params
    arrays = arrays_of(params)
    b = settings.step_size_m(state.n_updates, state.epoch)
    with np.errstate(over="ignore", invalid="ignore"):
        step = arrays.difference(state.mean, negative)
        if settings.weight_decay:
            weights = slice(model.weights_from, None)
            step[weights] -= settings.weight_decay * params[weights]
        length = state.gap = float(step @ step)
        if settings.centering:
            model.centred(step, state.centre)
            length = float(step @ step)
        step *= b
        size = b * np.sqrt(length)
        if settings.momentum:
            if state.velocity is None:
                state.velocity = arrays.xp.zeros_like(step)
            state.velocity *= settings.momentum
            state.velocity += step
            step = state.velocity
            size = np.sqrt(float(step @ step))
        params += step
        state.reach += float(size)
    # No parameter can be beyond the sum of the steps, so that few updates need a look.
    if model.gaussian or not state.reach < LARGEST_PARAMETER:
        if model.project(params):
            state.history.events["diverged"] += 1
            if state.velocity is not None:
                state.velocity[:] = 0.0
        state.reach = float(arrays.xp.max(arrays.xp.abs(params)))


def _record(settings, state):
    """Write an epoch into the history."""
    state.history.append(
        passes=float(state.epoch),
        monitor_passes=0.0,
        n_iterations=state.n_updates,
        step_size=settings.step_size_m(state.n_updates, state.epoch - 1),
        objective=float("nan"),
        mean_field=state.gap,
        acceptance_rate=float("nan"),
        bias=float("nan"),
        cpu_time=state.cpu_time,
    )
