"""The path of the estimates, and what it says of their Monte Carlo error."""

from __future__ import annotations

import numpy as np

from sktem.evaluation.observed_information import to_vector
from sktem.models.mixed_m_step import Moments

__all__ = ["Trace", "complete_data_errors"]

#: Epochs whose noise is taken together, so that that of the chains averages out.
BATCH = 5
#: Least epochs in the average, and the slowest contraction that is assumed.
LEAST_EPOCHS, SLOWEST = 60, 0.1


class Trace:
    """Estimates after each epoch.

    Parameters
    ----------
    model : NonlinearMixedEffectsModel
        The model.
    first : int
        Epochs before those that are averaged.
    """

    def __init__(self, model, first):
        self.model = model
        self.first = first
        self.vectors: list[np.ndarray] = []
        self.gains: list[float] = []

    def add(self, params, gain) -> None:
        """Add the estimates after an epoch.

        Parameters
        ----------
        params : MixedEffectsParams
            Estimates.
        gain : float
            Sum of the steps of the epoch.
        """
        self.vectors.append(to_vector(self.model, params))
        self.gains.append(min(gain, 1.0))

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


def complete_data_errors(model, params, s, n_subjects):
    """Return what standard errors would be if the latents were seen.

    They are lower bounds of the standard errors, at hand at any time.

    Parameters
    ----------
    model : NonlinearMixedEffectsModel
        The model.
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
    design, omega = model.design, params.omega
    moments = Moments.of(s, *model.sizes())
    parts = []
    positions, columns = design.positions[design.free], design.columns[design.free]
    if len(positions):
        precision = np.linalg.inv(omega)[positions[:, None], positions]
        normal = precision * moments.covariates[columns[:, None], columns]
        parts.append(np.diag(np.linalg.pinv(normal)))
    if len(design.numeric):
        curvature = np.maximum(np.diag(moments.curvature), 1e-300)
        scale = [
            np.exp(2 * value) if entry.kind == "residual" else 1.0
            for entry, value in zip(design.numeric, params.numeric, strict=True)
        ]
        parts.append(np.array(scale) / curvature)
    lower = np.argwhere(np.tril(design.pattern))
    j, k = lower[:, 0], lower[:, 1]
    parts.append(omega[j, j] * omega[k, k] + omega[j, k] ** 2)
    closed = {0: 0, 1: 1, 3: 0}.get(model.error)
    if closed is not None:
        parts.append([params.sigma[closed] ** 2 / (2 * max(moments.residual[1], 1e-9))])
    return np.sqrt(np.concatenate([np.ravel(part) for part in parts]) / n_subjects)
