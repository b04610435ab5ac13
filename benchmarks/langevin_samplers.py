"""The samplers of ``langevin_stability.py``: those of the package and two others."""

from __future__ import annotations

import numpy as np

from sktem.samplers import MALA, ULA

__all__ = ["SAMPLERS"]


class Settled:
    """Mixed into a sampler: ``warm_up`` draws before the first one."""

    warm_up = 0


class SettledULA(Settled, ULA):
    """ULA with the guard of the package."""


class BareULA(Settled, ULA):
    """ULA without a guard, which may end anywhere."""

    def _transition(self, model, X, state, params, generators, move):
        Z, gradient, *rest = state
        root, square, _ = self._scaled(model, X, params)
        noise = generators.sampling.standard_normal(Z.shape)
        with np.errstate(all="ignore"):
            drift = self.step * square(gradient)
            Z = Z + drift + np.sqrt(2 * self.step) * root(noise)
            gradient = model.grad_log_joint(X, Z, params)
            return (Z, gradient, *rest), np.ones(len(Z), bool), {}

    def _bias(self, model, X, params, state, move):
        return float("nan")


class SettledMALA(Settled, MALA):
    """MALA with an accept test per row."""


class JointMALA(Settled, MALA):
    """MALA with one accept test for the latents of all rows, as the authors have it."""

    def _transition(self, model, X, state, params, generators, move):
        Z, log_joint, gradient = state
        root, square, inverse = self._scaled(model, X, params)
        step = np.asarray(self.step, dtype=float)
        noise = generators.sampling.standard_normal(Z.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            proposed = Z + step * square(gradient) + np.sqrt(2 * step) * root(noise)
            log_proposed = model.log_joint(X, proposed, params)
            gradient_proposed = model.grad_log_joint(X, proposed, params)
            back = inverse(Z - proposed - step * square(gradient_proposed))
            log_ratio = (log_proposed - log_joint).sum()
            log_ratio += (noise**2 / 2 - back**2 / (4 * step)).sum()
        accepted = (
            np.log1p(-generators.acceptance.random()) < log_ratio
        )  # False for NaN
        moved = (proposed, log_proposed, gradient_proposed)
        return (moved if accepted else state), np.full(len(Z), accepted), {}


SAMPLERS = {
    "ULA": SettledULA,
    "bare ULA": BareULA,
    "MALA": SettledMALA,
    "joint MALA": JointMALA,
}
