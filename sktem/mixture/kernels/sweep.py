"""Many iterations with small batches, for Gaussian mixtures.

One iteration of the general loop for a mixture of a few components costs
far less than calling it: here the iterations between two M-steps of the model run in
one compiled function, that of this module for batches of one row and covariances that
are unit, spherical or diagonal. The sweep of batches does the same; whole fits are 2.1
times faster for this one, by ``benchmarks/row_sweeps.py``.
"""

import numpy as np
from numba import njit

from sktem.kernels.blocks import plain
from sktem.mixture.kernels.batch_sweep import iterate_batches
from sktem.mixture.kernels.batch_tiles import TileParams
from sktem.mixture.kernels.e_step import describe, width_of
from sktem.mixture.kernels.moments import Moments
from sktem.mixture.kernels.rows import LARGEST_VALUE
from sktem.mixture.kernels.sums import product_tables
from sktem.mixture.kernels.sweep_steps import (
    DIAGONAL,
    FULL,
    SPHERICAL,
    TIED,
    UNIT,
    SweepParams,
    SweepPrior,
    SweepRecipe,
    SweepStatistics,
    add_statistics,
    draw_shares,
    is_feasible,
    maximize,
)
from sktem.mixture.kernels.tiles import OUTER

_KINDS = {"unit": UNIT, "spherical": SPHERICAL, "diag": DIAGONAL, "tied": TIED}
# What a run does not need.
_NO_COUNTS, _NO_SHARES = np.empty((0, 0), np.uint8), np.empty((0, 0))
_NO_SWEEP_PARAMS = SweepParams(np.empty(0), np.empty((0, 0)), np.empty((0, 0)))


@njit(**OUTER, error_model="numpy")
def iterate_rows(
    visits,
    gammas,
    recipe,
    prior,
    centre,
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

    - if `incremental` ``proxy = mean = mean + c S(z, r - q); table[row] = r``,
      otherwise ``proxy = mean + S(z, r - q)`` for the first row and, if there is a
      second one, ``mean += c S(z, r - q); table[row] = r`` for it, c being the
      share of the row,
    - ``reduced += rho * (proxy - reduced)``,
    - ``averaged += gamma * (reduced - averaged)``,
    - ``params = model.maximize(averaged); total += averaged``.

    The last iteration, and one whose statistics or M-step need more than a formula,
    ends with the proxy: the loop does the other steps.
    """
    K, n_features = params.means.shape
    rows, values, _, all_uniforms, edges, _, row_shares = visits
    rho, incremental, convex, kind, _ = recipe
    n_sets, n_iterations = edges.shape[0], edges.shape[1] - 1
    n_draws = all_uniforms.shape[1]
    s, S_tts, memory_mean, proxy, total = statistics
    shares, old, cumulated = np.empty(K), np.zeros(K), np.empty(K)
    n_statistics = s.shape[0]
    new_s, new_S_tts = np.empty(n_statistics), np.empty(n_statistics)
    remembers = table.shape[0] > 0
    z = np.empty(n_features)
    for t in range(n_iterations):
        for f in range(n_statistics):
            proxy[f] = memory_mean[f]
        for side in range(n_sets):
            visit = edges[side, t]
            row, uniforms = rows[visit], all_uniforms[visit]
            for j in range(n_features):
                value = values[visit, j] - centre[j]
                z[j] = min(max(value, -LARGEST_VALUE), LARGEST_VALUE)
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
            factor = row_shares[visit] if refreshes else 1.0
            target = memory_mean if refreshes else proxy
            add_statistics(z, shares, factor, kind, target)
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


def _sweep_params(params, structure):
    """Return parameters in the form of the compiled E-step."""
    factors = params.precisions_cholesky
    with np.errstate(divide="ignore"):
        constants = np.log(params.weights) - structure.log_determinants(factors) / 2
    precisions = structure.precisions(factors).reshape(len(constants), -1)
    half_precisions = np.empty(params.means.shape)
    half_precisions[:] = precisions / 2
    return SweepParams(constants, np.array(params.means, order="C"), half_precisions)


def _prior(model, structure, d):
    """Return the settings of the M-step."""
    tau = 0.0 if structure.known else float(model.covariance_prior_strength)
    scale = np.asarray(structure.matrix(model.covariance_prior) if tau else 0.0)
    return SweepPrior(
        float(model.mean_penalty),
        float(model.weight_concentration),
        tau,
        float(model.reg_covar),
        plain(model.prior_mean(d)),
        plain(scale if scale.ndim == 2 else np.eye(d) * scale),
    )


def _moments(kind, K, d):
    """Allocate the outputs of the M-step."""
    shape = {FULL: (K, d, d), TIED: (1, d, d), DIAGONAL: (K, d, 1)}.get(kind, (K, 1, 1))
    return Moments(np.empty(K), np.empty((K, d)), np.ones(shape), np.ones(shape))


def _tile_params(model, params, anchor):
    """Return parameters in the form of the tiles."""
    described = []
    for tile_params in (params,) if anchor is None else (anchor, params):
        _, bound, constants, transform, scales, offsets, is_full = describe(
            model.kernel_params(tile_params)
        )
        matrices = scales if is_full else transform
        described.append((constants, matrices, scales, offsets, bound))
    return TileParams(*map(np.stack, zip(*described, strict=True)))


def sweep(settings, params, recursion, visits, gammas, rho):
    """Do iterations of the loop, until one needs care.

    Parameters
    ----------
    settings : RunSettings
        Its model is a Gaussian mixture.
    params : GaussianMixtureParams
        Current parameters.
    recursion : SolverState
        State of the recursion, which advances.
    visits : SweepVisits
        Visits of the iterations, with the rows as they are in the data.
    gammas : ndarray of shape (n_iterations,)
        Steps of the SA-step (7).
    rho : float
        Step of the Inc-step (8).

    Returns
    -------
    n_iterations : int
        How many were done; of the last one only the proxy.
    proxy : ndarray of shape (n_statistics,)
        Proxy of the last one.
    total : ndarray of shape (n_statistics,)
        Sum of the iterates, the last one not included.
    """
    model, own, solver = settings.model, recursion.own, settings.solver
    K, d = params.means.shape
    structure = model.structure(d)
    # Covariances of one feature are variances.
    kind = DIAGONAL if d == 1 else FULL
    kind = _KINDS.get(model.covariance_type, kind)
    anchor = None if own is None or own.latents is not None else own.params
    table = None if own is None or own.latents is None else own.latents.values
    zeros = np.zeros_like(recursion.s)
    statistics = SweepStatistics(
        recursion.s.copy(),
        recursion.S_tts.copy(),
        zeros.copy() if own is None else own.mean.copy(),
        np.empty_like(zeros),
        zeros,
    )
    recipe = SweepRecipe(
        float(rho), solver.sweep_name == "isaem", solver.convex, kind, own is None
    )
    settled = _prior(model, structure, d), plain(model.kernel_params(params).centre)
    if settings.batch_size == 1 and kind <= DIAGONAL:
        if table is None:
            drawn = visits.uniforms.shape[1] > 0
            table = _NO_COUNTS if drawn else _NO_SHARES
        at = _NO_SWEEP_PARAMS if anchor is None else _sweep_params(anchor, structure)
        done = iterate_rows(
            visits,
            gammas,
            recipe,
            *settled,
            _sweep_params(params, structure),
            at,
            table,
            statistics,
        )
    else:
        counts, shares = _NO_COUNTS, _NO_SHARES
        if table is not None and table.dtype == np.float64:
            shares = table
        elif table is not None:
            counts = table
        done = iterate_batches(
            visits,
            gammas,
            recipe,
            *settled,
            _moments(kind, K, d),
            _tile_params(model, params, anchor),
            (counts, shares),
            product_tables(model.covariance_type, K, d, width_of(d)),
            statistics,
        )
    recursion.s, recursion.S_tts = statistics.averaged, statistics.reduced
    if own is not None:
        own.mean = statistics.memory_mean
    recursion.iteration += done
    return done, statistics.proxy, statistics.total
