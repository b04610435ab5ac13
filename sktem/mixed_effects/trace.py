"""The path of the estimates, and what it says of their Monte Carlo error."""

from __future__ import annotations

import numpy as np

from sktem.loop.state import Phase
from sktem.mixed_effects.m_step import Moments
from sktem.mixed_effects.vector import ParameterVector

__all__ = ["Trace", "complete_data_errors"]

#: Epochs whose noise is taken together, so that that of the chains averages out.
BATCH = 5
#: Least epochs in the average, and the slowest contraction that is assumed.
LEAST_EPOCHS, SLOWEST = 60, 0.1
#: A drift of so many standard errors is one.
LARGEST_DRIFT = 4.0
#: Epochs between looks at the drift, and between the burn-in and the average.
PAUSE = 10
#: Least epochs on which a drift is judged, and the longest jump along it, in units of
#: the way of the last third of them.
SHORTEST, LONGEST_JUMP = 20, 4.0
#: Jumps along a drift before Newton steps are tried.
MOST_JUMPS = 2


class Trace:
    """Estimates after each epoch, and the end of the burn-in.

    Parameters
    ----------
    model : NonlinearMixedEffectsModel
        The model.
    rows : GroupedRows
        Subjects.
    n_burn_in : int
        Epochs of the burn-in, at least.
    settled_from : float
        Epochs at the start in which variances are held up, so that they drift.
    longest : int
        Epochs of the burn-in, at most.

    Attributes
    ----------
    end : int or None
        Iterations at the end of the burn-in, None while it lasts.
    start : int
        Epoch from which the present stretch of the burn-in is judged.
    first : int
        Epochs before those that are averaged.
    n_jumps, n_climbs : int
        How often the estimates have jumped along a drift, and to where Newton steps on
        the likelihood led; after the latter they jump no more.
    doubt : str
        Why the estimates may not be at a maximum of the likelihood.
    """

    def __init__(self, model, rows, n_burn_in, settled_from, longest):
        self.model = model
        self.vector = ParameterVector(model)
        self.rows = rows
        self.n_burn_in = n_burn_in
        self.longest = longest
        self.start = int(np.ceil(settled_from))
        self.end: int | None = 0 if n_burn_in == 0 else None
        self.first = PAUSE
        self.next_look = 4 * n_burn_in
        self.n_jumps = self.n_climbs = 0
        self.doubt = ""
        self.vectors: list[np.ndarray] = []
        self.gains: list[float] = []

    @property
    def phase(self) -> Phase:
        """Phase of the run."""
        return Phase() if self.end is None else Phase(self.end, self.first)

    def add(self, params, gain) -> None:
        """Add the estimates after an epoch.

        Parameters
        ----------
        params : MixedEffectsParams
            Estimates.
        gain : float
            Sum of the steps of the epoch.
        """
        self.vectors.append(self.vector.of(params))
        self.gains.append(min(gain, 1.0))

    def check_burn_in(self, state, climb) -> None:
        """End the burn-in when the estimates have ceased to drift.

        While they drift, they jump ahead: EM is slow where the observations tell little
        of a variance, and the sum of a geometric series is where it would end. If two
        jumps do not settle them, Newton steps on the likelihood do.

        Parameters
        ----------
        state : RunState
            The run, between two epochs.
        climb : callable
            ``climb(state, params)`` does these from given parameters, sets those of
            the state, and returns whether the likelihood has gained.
        """
        n = len(self.vectors)
        length = n - self.start
        if self.end is not None or n < self.n_burn_in or n % PAUSE:
            return
        if n < self.longest:
            if length < SHORTEST:
                return
            drifting = self.drift(self.start)
            if drifting.any() and not self.n_climbs:
                if self.n_jumps >= MOST_JUMPS and climb(state, state.params):
                    self.start = n
                elif state.solver.memory is None:
                    state.params = self._ahead(state.params, drifting)
                    self.start = n + PAUSE // 2
                    self.n_jumps += 1
                return
        self.end, self.first = state.solver.iteration, n + PAUSE
        state.enter(self.phase)

    def reheat(self, state) -> None:
        """Begin another burn-in, because the average has drifted.

        Parameters
        ----------
        state : RunState
            The run, between two epochs.
        """
        self.end, self.start = None, len(self.vectors)
        state.enter(self.phase)

    def _scaled(self, path):
        """Return the path with variances and residual errors on a log scale."""
        logs = np.log(np.maximum(path, 1e-300))
        return np.where(self.vector.positive, logs, path)

    def drift(self, start) -> np.ndarray:
        """Return which estimates drift.

        Parameters
        ----------
        start : int
            Epoch from which the path is judged.

        Returns
        -------
        ndarray of bool
            Whether the slope is more than its noise, that of an autoregression.
        """
        path = self._scaled(np.array(self.vectors[start:]))
        n = len(path)
        time = np.arange(n) - (n - 1) / 2
        slope = time @ path / (time @ time)
        rest = path - path.mean(axis=0) - time[:, None] * slope
        variance = np.maximum((rest**2).mean(axis=0), 1e-300)
        correlation = (rest[1:] * rest[:-1]).mean(axis=0) / variance
        correlation = np.clip(correlation, 0.0, 0.95)
        inflation = (1 + correlation) / (1 - correlation)
        error = np.sqrt(variance * inflation / (time @ time))
        return np.abs(slope) > LARGEST_DRIFT * error

    def _ahead(self, params, drifting):
        """Return the parameters that a geometric approach would end at."""
        path = self._scaled(np.array(self.vectors[self.start :]))
        third = len(path) // 3
        path = path[len(path) - 3 * third :].reshape(3, third, -1).mean(axis=1)
        before, last = np.diff(path, axis=0)
        ratio = np.divide(last, before, out=np.ones_like(last), where=before != 0)
        ratio = np.clip(ratio, 0.0, LONGEST_JUMP / (1 + LONGEST_JUMP))
        jump = np.where(drifting, last * ratio / (1 - ratio), 0.0)
        values, positive = self.vector.of(params), self.vector.positive
        found = np.where(positive, values * np.exp(jump * positive), values + jump)
        new = self.vector.params(found, params)
        # Correlations stay as they are.
        scale = np.sqrt(np.diag(new.omega) / np.diag(params.omega))
        return new._replace(omega=params.omega * scale[:, None] * scale)

    def monte_carlo_errors(self):
        """Return standard errors of the averages.

        An estimate moves by ``gain * (noise - rate * deviation)``. The regression of
        its moves on its deviations gives the rate at which it is drawn back, and the
        noise that remains; the error of the average is the mean noise divided by the
        rate (Polyak and Juditsky 1992). On short runs this is up to twice the error.

        Returns
        -------
        ndarray or None
            One per parameter; None while there are too few epochs.
        """
        path = np.array(self.vectors[self.first :])
        n = (len(path) - 1) // BATCH
        if len(path) < LEAST_EPOCHS:
            return None
        gains = np.array(self.gains[self.first + 1 :])[:, None]
        moves = np.diff(path, axis=0) / gains
        deviations = path[:-1] - path.mean(axis=0)
        weights = gains**2 * deviations
        squares = (weights * deviations).sum(axis=0)
        # One rate for all: that of a single estimate is too uncertain on a short run.
        found = -(weights * moves).sum(axis=0)[squares > 0] / squares[squares > 0]
        rate = float(np.clip(np.median(found), SLOWEST, 1.0)) if len(found) else 1.0
        noise = (moves + rate * deviations)[: n * BATCH]
        means = noise.reshape(n, BATCH, -1).mean(axis=1)
        return means.std(axis=0, ddof=1) / np.sqrt(n) / rate


def complete_data_errors(vector, params, s, n_subjects):
    """Return what standard errors would be if the latents were seen.

    They are cheap lower bounds of the standard errors.

    Parameters
    ----------
    vector : ParameterVector
        Order of the parameters.
    params : MixedEffectsParams
        Estimates.
    s : ndarray
        Averaged statistics.
    n_subjects : int
        Subjects.

    Returns
    -------
    ndarray
        One per parameter.
    """
    design, omega = vector.design, params.omega
    moments = Moments.of(s, *vector.model.sizes())
    squares = np.empty(len(vector))
    positions, columns = design.positions[design.free], design.columns[design.free]
    if len(positions):
        precision = np.linalg.inv(omega)[positions[:, None], positions]
        normal = precision * moments.covariates[columns[:, None], columns]
        scale = np.sqrt(np.maximum(np.diag(normal), 1e-300))
        inverse = np.linalg.pinv(normal / scale[:, None] / scale)
        squares[vector.coefficients] = np.diag(inverse) / scale**2
    if len(design.numeric):
        curvature = np.maximum(np.diag(moments.curvature), 1e-300)
        residual = vector.is_residual[vector.numeric]
        scale = np.where(residual, np.exp(2 * params.numeric * residual), 1.0)
        squares[vector.numeric] = scale / curvature
    j, k = vector.lower.T
    squares[vector.omega] = omega[j, j] * omega[k, k] + omega[j, k] ** 2
    variance = params.sigma[vector.closed] ** 2
    squares[vector.residual] = variance / (2 * max(moments.residual[1], 1e-9))
    return np.sqrt(squares / n_subjects)
