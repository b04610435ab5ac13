"""The samplers of ``langevin_stability.py``: those of the package and two others."""

from __future__ import annotations

from collections import Counter

import numpy as np

from sktem.samplers import MALA, ULA
from sktem.samplers.base import SamplerInfo

__all__ = ["SAMPLERS"]


class Settled:
    """Mixed into a sampler: ``n_first`` draws before the first one."""

    n_first = 0

    def draw(self, model, X, Z, params, generators, iteration=1):
        """Move the chains."""
        fresh = generators.adaptation.of_rows("fresh", len(X))
        if not fresh.any():
            return super().draw(model, X, Z, params, generators, iteration)
        generators.adaptation.put_rows("fresh", np.zeros(len(X)))
        events: Counter = Counter()
        for _ in range(self.n_first + 1):
            Z, info = super().draw(model, X, Z, params, generators, iteration)
            events.update(info.events)
        return Z, SamplerInfo(info.acceptance_rate, events)


class SettledULA(Settled, ULA):
    """ULA with the guard of the package."""


class BareULA(Settled, ULA):
    """ULA without a guard, which may end anywhere."""

    def _transition(self, model, X, state, params, generators, move):
        Z, gradient = state
        root, square, _ = self._scaled(model, X, params)
        noise = generators.sampling.standard_normal(Z.shape)
        with np.errstate(all="ignore"):
            drift = self.step * square(gradient)
            Z = Z + drift + np.sqrt(2 * self.step) * root(noise)
            return (Z, model.grad_log_joint(X, Z, params)), np.ones(len(Z), bool), {}


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
