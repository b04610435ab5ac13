"""Many iterations with a batch of one row, for Gaussian mixtures.

What one iteration of the general loop does for a mixture of a few components costs
far less than calling it: here the iterations between two M-steps of the model run in
one compiled function. Random numbers are drawn in blocks, which gives the same ones
as drawing them iteration by iteration.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from sktem.mixture.kernels.sweep_steps import (
    DIAGONAL,
    LARGEST_VALUE,
    SPHERICAL,
    UNIT,
    SweepParams,
    SweepPrior,
    add_statistics,
    draw_shares,
    is_feasible,
    maximize,
)

_KINDS = {"unit": UNIT, "spherical": SPHERICAL, "diag": DIAGONAL}

# Iterations and numbers whose random draws and rows are held at once.
_ITERATIONS_PER_BLOCK = 2**14
_VALUES_PER_BLOCK = 2**20


class SweepRows(NamedTuple):
    """What the iterations of a block visit; the second axis is the index set.

    Attributes
    ----------
    rows : ndarray of int of shape (n_iterations, n_index_sets)
        Row numbers.
    values : ndarray of shape (n_iterations, n_index_sets, n_features)
        The rows, centred.
    uniforms : ndarray of shape (n_iterations, n_index_sets, n_draws)
        Uniforms of the draws; none for exact expectations.
    """

    rows: np.ndarray
    values: np.ndarray
    uniforms: np.ndarray


class SweepStatistics(NamedTuple):
    """Statistics that the iterations change in place.

    Of the last iteration the averaged and reduced ones are still to be updated.

    Attributes
    ----------
    averaged : ndarray of shape (n_statistics,)
        s-hat of (7).
    reduced : ndarray of shape (n_statistics,)
        The variance-reduced statistics of (8).
    memory_mean : ndarray of shape (n_statistics,)
        Mean over all rows of what is remembered, zeros for online EM.
    proxy : ndarray of shape (n_statistics,)
        The proxy of the last iteration.
    total : ndarray of shape (n_statistics,)
        Sum of the iterates, the last one not included.
    """

    averaged: np.ndarray
    reduced: np.ndarray
    memory_mean: np.ndarray
    proxy: np.ndarray
    total: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def iterate_rows(
    visits,
    gammas,
    rho,
    incremental,
    convex,
    kind,
    prior,
    params,
    anchor,
    table,
    statistics,
):
    """Iterate until the end or until a step needs care, and return how often.

    With S(z, r) the statistics of a row at the shares r of the components, equal for
    every iteration ``r = sampler.draw(model, z, params)`` for the row of each index
    set, ``q = table[row] / table[row].sum()``, or the posterior at the anchor, or 0,
    and then

    - if `incremental` ``proxy = mean = mean + S(z, r - q) / n; table[row] = r``,
      otherwise ``proxy = mean + S(z, r - q)`` for the first row and, if there is a
      second one, ``mean += S(z, r - q) / n; table[row] = r`` for it,
    - ``reduced += rho * (proxy - reduced)``,
    - ``averaged += gamma * (reduced - averaged)``,
    - ``params = model.maximize(averaged); total += averaged``.

    The last iteration, and one whose statistics or M-step need more than a formula,
    ends with the proxy: the loop does the other steps.
    """
    K, n_features = params.means.shape
    n_iterations, n_sets, n_draws = visits.uniforms.shape
    s, S_tts, memory_mean, proxy, total = statistics
    shares, old, cumulated = np.empty(K), np.zeros(K), np.empty(K)
    n_statistics = s.shape[0]
    new_s, new_S_tts = np.empty(n_statistics), np.empty(n_statistics)
    remembers = table.shape[0] > 0
    for t in range(n_iterations):
        for f in range(n_statistics):
            proxy[f] = memory_mean[f]
        for side in range(n_sets):
            row = visits.rows[t, side]
            z = visits.values[t, side]
            uniforms = visits.uniforms[t, side]
            draw_shares(z, params, uniforms, cumulated, shares)
            if remembers:
                mass = 0.0
                for k in range(K):
                    mass += table[row, k]
                scale = 1.0 / mass if mass > 0.0 else 0.0
                for k in range(K):
                    old[k] = table[row, k] * scale
            elif anchor.constants.shape[0] > 0:
                draw_shares(z, anchor, uniforms[:0], cumulated, old)
            refreshes = incremental or side == 1
            for k in range(K):
                share = shares[k]
                shares[k] = share - old[k]
                if refreshes:
                    table[row, k] = share * n_draws + 0.5 if n_draws > 0 else share
            if refreshes:
                add_statistics(z, shares, 1.0 / table.shape[0], kind, memory_mean)
            else:
                add_statistics(z, shares, 1.0, kind, proxy)
        if incremental:
            for f in range(n_statistics):
                proxy[f] = memory_mean[f]
        if t == n_iterations - 1:
            return n_iterations
        gamma = gammas[t]
        for f in range(n_statistics):
            # A step of 1 takes the target itself, without a rounding.
            step = rho * (proxy[f] - S_tts[f])
            new_S_tts[f] = proxy[f] if rho == 1.0 else S_tts[f] + step
            step = gamma * (new_S_tts[f] - s[f])
            new_s[f] = new_S_tts[f] if gamma == 1.0 else s[f] + step
        if not convex and not is_feasible(new_S_tts, K, n_features, kind):
            return t + 1
        if not maximize(new_s, kind, prior, params):
            return t + 1
        for f in range(n_statistics):
            S_tts[f] = new_S_tts[f]
            s[f] = new_s[f]
            total[f] += s[f]
    return 0


def _prior(model, structure, centre):
    """Return the settings of the M-step."""
    tau = 0.0 if structure.known else float(model.covariance_prior_strength)
    variances = structure.matrix(model.covariance_prior) if tau else 0.0
    mean = np.zeros(len(centre)) if model.mean_prior is None else model.mean_prior
    return SweepPrior(
        float(model.mean_penalty),
        float(model.weight_concentration),
        tau,
        float(model.reg_covar),
        np.asarray(mean, dtype=np.float64) - centre,
        np.full(len(centre), variances, dtype=np.float64),
    )


def _sweep_params(params, structure):
    """Return parameters in the form of the compiled E-step."""
    factors = params.precisions_cholesky
    with np.errstate(divide="ignore"):
        constants = np.log(params.weights) - structure.log_determinants(factors) / 2
    precisions = structure.precisions(factors).reshape(len(constants), -1)
    half_precisions = np.empty(params.means.shape)
    half_precisions[:] = precisions / 2
    return SweepParams(constants, np.array(params.means, order="C"), half_precisions)


def _draw_block(loop, centre, n_iterations, n_draws):
    """Draw what so many iterations of the loop would draw, in their order."""
    streams = loop.state.streams
    n_sets = loop.settings.solver.n_index_sets
    rows = streams.indices.integers(loop.n, size=(n_iterations, n_sets))
    uniforms = streams.sampling.random((n_iterations, n_sets, n_draws))
    taken = np.take(loop.expectation.X, rows, axis=0)
    # A plain array, also from one that is mapped into memory.
    values = np.asarray(taken, dtype=np.float64) - centre
    return rows, values.clip(-LARGEST_VALUE, LARGEST_VALUE), uniforms


def sweep(loop, gammas, averaging):
    """Do ``len(gammas)`` iterations of the loop with a batch of one.

    Equal ``for gamma in gammas: loop.iterate(gamma)``, and where `averaging`
    ``loop.state.iterates.add(loop.state.solver.s)`` after each.

    Parameters
    ----------
    loop : object
        The running loop. Its model is a Gaussian mixture with unit, spherical or
        diagonal covariances.
    gammas : ndarray of shape (n_iterations,)
        Steps of the SA-step (7).
    averaging : bool
        Whether the iterates enter the average.
    """
    settings, recursion = loop.settings, loop.state.solver
    iterates = loop.state.iterates
    if recursion.s is None and len(gammas):
        # The first proxy of online EM is its start.
        loop.iterate(gammas[0])
        if averaging:
            iterates.add(recursion.s)
        gammas = gammas[1:]
    sampler, model = settings.sampler, settings.model
    n_draws = 0 if sampler.deterministic else sampler.draws_at(recursion.iteration + 1)
    centre = model.kernel_params(loop.state.params).centre
    n_features = len(centre)
    structure = model.structure(n_features)
    parts = (
        settings.solver.kernel == "isaem",
        settings.solver.convex,
        _KINDS[model.covariance_type],
        _prior(model, structure, centre),
    )
    if recursion.memory is not None:
        table = recursion.memory.values
    else:
        table = np.empty((0, 0), dtype=np.uint8 if n_draws else np.float64)
    width = (n_features + n_draws) * settings.solver.n_index_sets
    block_size = max(1, min(_ITERATIONS_PER_BLOCK, _VALUES_PER_BLOCK // width))
    params = _sweep_params(loop.state.params, structure)
    anchor = SweepParams(np.empty(0), np.empty((0, 0)), np.empty((0, 0)))
    if recursion.memory is None and recursion.anchor_params is not None:
        anchor = _sweep_params(recursion.anchor_params, structure)
    for start in range(0, len(gammas), block_size):
        steps = gammas[start : start + block_size]
        block = _draw_block(loop, centre, len(steps), n_draws)
        while len(steps):
            mean = recursion.memory_mean
            zeros = np.zeros_like(recursion.s)
            statistics = SweepStatistics(
                recursion.s.copy(),
                recursion.S_tts.copy(),
                zeros.copy() if mean is None else mean.copy(),
                np.empty_like(zeros),
                zeros,
            )
            visits = SweepRows(*block)
            done = iterate_rows(
                visits, steps, loop.rho, *parts, params, anchor, table, statistics
            )
            recursion.s, recursion.S_tts = statistics.averaged, statistics.reduced
            if mean is not None:
                recursion.memory_mean = statistics.memory_mean
            recursion.iteration += done
            loop.expectation.rows_visited += done * loop.cost
            if averaging and done > 1:
                iterates.add(statistics.total, done - 1)
            loop.update(statistics.proxy, steps[done - 1])
            if averaging:
                iterates.add(recursion.s)
            params = _sweep_params(loop.state.params, structure)
            steps = steps[done:]
            block = tuple(part[done:] for part in block)
