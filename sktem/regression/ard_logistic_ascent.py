"""Distance of a relevance determination from its maximum, by draws of coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from sktem import budget
from sktem.e_step.chains import ChainState, positions
from sktem.loop.state import RunState
from sktem.regression.ard_logistic_model import (
    ARDLogisticModel,
    ARDLogisticParams,
    WholeData,
)
from sktem.regression.relevance_start import LEAST_VARIANCE, entry_price

__all__ = [
    "CHECKS",
    "Ascent",
    "RelevanceChecks",
    "RelevanceState",
    "RelevanceTrace",
    "ascent_from",
    "draw_coefficients",
    "entry_gains",
    "n_draws_of",
    "without_negligible",
]


class RelevanceChecks(NamedTuple):
    """Schedule and tolerances of the checks of convergence to the maximum.

    Attributes
    ----------
    epochs : tuple of int
        After which of them.
    last_steps : int
        Newton steps after the last epoch, at most.
    longest_step : float
        The longest of the logarithm of a variance.
    draws_per_variance, fewest_draws : int
        Draws of a check.
    settling : int
        Draws before these, while chains settle.
    negligible : float
        A feature that contributes fewer nats to the marginal log-likelihood is dropped.
    """

    epochs: tuple[int, ...] = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
    last_steps: int = 10
    longest_step: float = 1.0
    draws_per_variance: int = 20
    fewest_draws: int = 400
    settling: int = 10
    negligible: float = 0.01


CHECKS = RelevanceChecks()


@dataclass
class RelevanceTrace:
    """Record that the classifier keeps of a run.

    Attributes
    ----------
    columns : ndarray of int
        Which features the run learns about.
    data : WholeData
        These features, scaled.
    X : ndarray of shape (n_samples, n_features)
        All features.
    model : ARDLogisticModel
        The model.
    sampler : Sampler
        Draws the coefficients.
    draws : ndarray or None
        Draws of the coefficients at ``variances``.
    variances : ndarray or None
        Variances that were checked last.
    left : float
        Possible further gain in marginal log-likelihood, in nats.
    missed : float
        Gain of the best of the dropped features above its price.
    """

    columns: np.ndarray
    data: WholeData
    X: np.ndarray
    model: ARDLogisticModel
    sampler: Any
    draws: Any = None
    variances: Any = None
    left: float = np.inf
    missed: float = 0.0

    def draws_at(self, state, n_draws):
        """Return draws at the current variances, those of the last check if it can."""
        variances = state.params.variances
        if self.draws is None or not np.array_equal(self.variances, variances):
            self._draw(state, n_draws)
        chosen = np.linspace(0, len(self.draws) - 1, n_draws).round().astype(int)
        return self.draws[chosen]

    def _draw(self, state, n_draws):
        model, params = self.model, state.params
        if state.chains is None:
            start = state.generators.initialisation
            chains = self.sampler.start(model, self.data, params, start)
        else:
            chains = state.chains.get(slice(None))
        self.draws, chains = draw_coefficients(
            model, self.sampler, self.data, chains, params, state.generators, n_draws
        )
        if state.chains is not None:
            state.chains.put(slice(None), chains)
        self.variances = params.variances

    def climb(self, state, n_posterior_draws, tol):
        """Return whether the maximum is as near as ``tol``, else go there."""
        variances = state.params.variances
        self._draw(state, n_draws_of(n_posterior_draws, variances))
        new = without_negligible(self.draws, variances)
        if new is variances:
            ascent = ascent_from(self.draws, variances, self.model.largest_variance)
            self.left, new = ascent.gain, ascent.variances
            if self.left <= tol:
                gains = entry_gains(self.X, self.data, self.draws)
                gains[self.columns] = 0.0
                n_kept = np.count_nonzero(variances > 2 * LEAST_VARIANCE)
                price = entry_price(n_kept, self.X.shape[1])
                self.missed = max(float(gains.max(initial=0.0)) - price, 0.0)
                return bool(self.missed <= tol)
        ratio = np.sqrt(new / variances)
        state.params = ARDLogisticParams(new)
        state.solver.s = state.solver.S_tts = new
        if state.chains is not None:
            chains = ChainState.of(state.chains.get(slice(None)))
            Z = chains.position.copy()
            Z[:, :, 1:] *= np.minimum(ratio, 1.0)
            state.chains.put(slice(None), chains._replace(position=Z))
        return False


@dataclass(kw_only=True)
class RelevanceState(RunState):
    """State of a run with the checks between its epochs."""

    relevance: RelevanceTrace


@dataclass(frozen=True)
class Ascent:
    """A Newton step on the marginal log-likelihood, and its expected gain."""

    gain: float
    variances: np.ndarray


def n_draws_of(n_posterior_draws, variances):
    """Return the number of draws of a check."""
    wanted = CHECKS.draws_per_variance * len(variances)
    return max(n_posterior_draws, CHECKS.fewest_draws, wanted)


def draw_coefficients(model, sampler, data, chains, params, generators, n_draws):
    """Return draws at fixed variances, and where the chains ended."""
    draws = []
    n_rounds = -(-n_draws // positions(chains).shape[1])
    for k in range(n_rounds + CHECKS.settling):
        chains, _ = sampler.draw(model, data, chains, params, generators)
        if k >= CHECKS.settling:
            draws.append(positions(chains)[0])
    return np.concatenate(draws)[:n_draws], chains


def ascent_from(draws, variances, largest):
    """Return the Newton step in the logarithms of the variances (Louis' formula).

    The gradient is ``(E(beta^2) / v - 1) / 2``, and the Hessian the covariance of
    ``beta^2 / (2 v)`` less half of ``E(beta^2) / v`` on the diagonal.
    """
    at_bound = (variances >= largest) & ((draws[:, 1:] ** 2).mean(axis=0) > variances)
    moving = np.flatnonzero((variances > 2 * LEAST_VARIANCE) & ~at_bound)
    if not len(moving):
        return Ascent(0.0, variances)
    squares = draws[:, 1 + moving] ** 2 / variances[moving]
    ratio = squares.mean(axis=0)
    gradient = 0.5 * (ratio - 1)
    lost = np.atleast_2d(np.cov(squares.T)) / 4
    values, vectors = np.linalg.eigh(np.diag(0.5 * ratio) - lost)
    # Where the curvature is noise the step is that of EM.
    values = np.maximum(values, 0.02)
    step = vectors @ ((vectors.T @ gradient) / values)
    step = np.clip(step, -CHECKS.longest_step, CHECKS.longest_step)
    gain = gradient @ step - 0.5 * step @ (vectors @ (values * (vectors.T @ step)))
    new = variances.copy()
    new[moving] = np.clip(variances[moving] * np.exp(step), LEAST_VARIANCE, largest)
    return Ascent(float(gain), new)


def without_negligible(draws, variances):
    """Drop the feature that can contribute least, if that is negligible.

    A Gaussian posterior of mean m and variance S says that the likelihood of a
    coefficient has the slope ``q = m / S`` and the curvature ``s = 1 / S - 1 / v`` at
    zero; with the best variance it is then worth ``(q^2 / s - 1 - log(q^2 / s)) / 2``.
    """
    active = np.flatnonzero(variances > 2 * LEAST_VARIANCE)
    if not len(active):
        return variances
    active_draws = draws[:, 1 + active]
    mean, spread = active_draws.mean(axis=0), active_draws.var(axis=0) + 1e-300
    curvature = np.maximum(1 / spread - 1 / variances[active], 1e-3 / spread)
    ratio = np.maximum((mean / spread) ** 2 / curvature, 1.0)
    worth = 0.5 * (ratio - 1 - np.log(ratio))
    j = int(np.argmin(worth))
    if worth[j] > CHECKS.negligible:
        return variances
    variances = variances.copy()
    variances[active[j]] = LEAST_VARIANCE
    return variances


def entry_gains(X, data, draws):
    """Return the gain of each of the features X, dropped so far, in nats.

    The marginal likelihood as a function of one coefficient near zero has the
    logarithmic slope ``E(s)`` and curvature ``E(h) - Var(s)``, with the slope s and the
    curvature h of the log-likelihood at a draw.
    """
    slopes, weights = [], np.zeros(len(X))
    size = max(1, budget.MEMORY.kept // len(X))
    for start in range(0, len(draws), size):
        part = draws[start : start + size]
        p = expit(part[:, 1:] @ data.X.T + part[:, :1])
        slopes.append((data.y - p) @ X)
        weights += (p * (1 - p)).sum(axis=0) / len(draws)
    slope = np.concatenate(slopes)
    known = weights @ X**2
    curvature = known - slope.var(axis=0)
    known, curvature = np.maximum(known, 1e-12), np.maximum(curvature, 1e-12)
    ratio = np.maximum(slope.mean(axis=0) ** 2 / curvature, 1.0)
    gains = 0.5 * (ratio - 1 - np.log(ratio))
    return np.where(curvature > 0.5 * known, gains, 0.0)
