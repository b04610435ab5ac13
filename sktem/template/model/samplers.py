"""Markov samplers of deformations, whose transitions the model has compiled."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import numpy as np

from sktem.choices import is_auto
from sktem.e_step.row_random import row_keys
from sktem.samplers.base import Sampler, SamplerInfo
from sktem.samplers.markov import check_counts

__all__ = [
    "DEFORMATION_SAMPLERS",
    "DeformationMALA",
    "DeformationSampler",
    "DeformationULA",
]


class DeformationSampler(Sampler):
    """Base of the samplers that let the model move its chains.

    Every image has its own chain for each template, with its own step. Steps
    are adapted to an acceptance rate by gains ``k ** -0.6`` with k the transitions of
    the chain, which vanish, so that the chains keep their limits.

    Parameters
    ----------
    step : float or "auto", default="auto"
        Langevin step eta in preconditioned coordinates; "auto" adapts it from a first
        value, or keeps that.
    n_steps : int, default=5
        Number of transitions per draw.
    n_chains : int, default=1
        Parallel chains per image; the statistics are averaged over them.
    """

    requires: tuple[str, ...] = ("start_chains", "move_chains")
    markov = True
    accepts = False  # every chain sees to its own rate

    #: Acceptance rate aimed at, zero without an accept test, and the first step.
    goal: ClassVar[float] = 0.0
    first: ClassVar[float] = 1.0

    def __init__(self, step="auto", n_steps=5, n_chains=1):
        self.step = step
        self.n_steps = n_steps
        self.n_chains = n_chains

    def start(self, model, X, params, rng):
        """Return the model's initial chain states, once per chain."""
        check_counts(self)
        return np.repeat(
            model.start_chains(X, params, rng)[:, None], self.n_chains, axis=1
        )

    def draw(self, model, X, Z, params, generators, iteration=1):
        """Move every chain by ``n_steps`` transitions."""
        automatic = is_auto(self.step)
        if not automatic and (isinstance(self.step, str) or not self.step > 0):
            raise ValueError(f'step must be "auto" or > 0, got {self.step!r}')
        Z_new = np.empty_like(Z)
        rates: list[float] = []
        events: Counter = Counter()
        for m in range(Z.shape[1]):
            seed, numbers = row_keys(generators.sampling, len(X))
            Z_new[:, m], rate, restored = model.move_chains(
                X, Z[:, m], params, seed, self.n_steps,
                first=self.first if automatic else float(self.step),
                adjusted=self.goal > 0, adapt=self.goal if automatic else 0.0,
                numbers=numbers,
            )  # fmt: skip
            rates.append(rate)
            if restored:
                events["ula_restored"] += restored
        return Z_new, SamplerInfo(float(np.mean(rates)), events)


class DeformationMALA(DeformationSampler):
    """Metropolis-adjusted Langevin, preconditioned by the population's curvature.

    The preconditioner is the inverse of the Gauss-Newton matrix of the log-density,
    averaged over deformations drawn from the model: one matrix for all images.

    Parameters
    ----------
    step : float or "auto", default="auto"
        Langevin step eta in preconditioned coordinates. "auto" adapts it for each image
        to an acceptance rate of 0.574; a number is not adapted.
    n_steps : int, default=5
        Number of transitions per draw.
    n_chains : int, default=1
        Number of parallel chains per image.

    Examples
    --------
    >>> from sktem.samplers import DeformationMALA
    >>> DeformationMALA(n_steps=10)
    DeformationMALA(n_steps=10)
    """

    goal = 0.574
    first = 0.2


class DeformationULA(DeformationSampler):
    """Unadjusted Langevin with the preconditioner of :class:`DeformationMALA`.

    Its stationary distribution is biased by an amount that shrinks with the step. If a
    proposal is not finite, the chain stays where it was and its step is halved; this is
    counted as ``"ula_restored"``.

    Parameters
    ----------
    step : float or "auto", default="auto"
        Langevin step eta in preconditioned coordinates; "auto" is 0.05.
    n_steps : int, default=5
        Number of transitions per draw.
    n_chains : int, default=1
        Number of parallel chains per image.

    References
    ----------
    S. Gruffaz, K. Kim, A. Durmus and J. Gardner, Stochastic Approximation with Biased
    MCMC for Expectation Maximization, AISTATS 2024, equation (11).

    Examples
    --------
    >>> from sktem.samplers import DeformationULA
    >>> DeformationULA(step=0.02)
    DeformationULA(step=0.02)
    """

    first = 0.05


#: Samplers of deformations by name. A sampler is added by one line.
DEFORMATION_SAMPLERS = {"mala": DeformationMALA, "ula": DeformationULA}
