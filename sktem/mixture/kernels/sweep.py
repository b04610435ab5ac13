"""Many iterations with a batch of one row, for Gaussian mixtures.

One iteration of the general loop for a mixture of a few components costs
far less than calling it: here the iterations between two M-steps of the model run in
one compiled function.
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
        Mean over all rows of remembered statistics, zeros for online EM.
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


def sweep(settings, params, recursion, visits, gammas, rho):
    """Do iterations of the loop with a batch of one, until one needs care.

    Parameters
    ----------
    settings : RunSettings
        Its model is a Gaussian mixture with unit, spherical or diagonal covariances.
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
    model, own = settings.model, recursion.own
    centre = model.kernel_params(params).centre
    structure = model.structure(len(centre))
    # A plain array, also from one that is mapped into memory.
    values = np.asarray(visits.values, dtype=np.float64) - centre
    values = values.clip(-LARGEST_VALUE, LARGEST_VALUE)
    latents = None if own is None else own.latents
    if latents is not None:
        table = latents.values
    else:
        drawn = visits.uniforms.shape[2] > 0
        table = np.empty((0, 0), dtype=np.uint8 if drawn else np.float64)
    anchor = SweepParams(np.empty(0), np.empty((0, 0)), np.empty((0, 0)))
    if own is not None and latents is None:
        anchor = _sweep_params(own.params, structure)
    zeros = np.zeros_like(recursion.s)
    statistics = SweepStatistics(
        recursion.s.copy(),
        recursion.S_tts.copy(),
        zeros.copy() if own is None else own.mean.copy(),
        np.empty_like(zeros),
        zeros,
    )
    done = iterate_rows(
        visits._replace(values=values),
        gammas,
        rho,
        settings.solver.sweep_name == "isaem",
        settings.solver.convex,
        _KINDS[model.covariance_type],
        _prior(model, structure, centre),
        _sweep_params(params, structure),
        anchor,
        table,
        statistics,
    )
    recursion.s, recursion.S_tts = statistics.averaged, statistics.reduced
    if own is not None:
        own.mean = statistics.memory_mean
    recursion.iteration += done
    return done, statistics.proxy, statistics.total
