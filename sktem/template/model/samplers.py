"""Markov samplers of deformations, whose transitions the model has compiled."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import numpy as np

from sktem.e_step.row_random import row_keys
from sktem.samplers.base import Sampler, SamplerInfo
from sktem.samplers.markov import check_counts

__all__ = [
    "DEFORMATION_SAMPLERS",
    "DeformationGibbs",
    "DeformationMALA",
    "DeformationRandomWalk",
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
    n_steps : int, default=5
        Transitions per draw.
    n_chains : int, default=1
        Parallel chains per image; the statistics are averaged over them.
    """

    requires: tuple[str, ...] = ("start_chains", "move_chains")
    markov = True
    accepts = False  # every chain sees to its own rate

    #: What the model calls the transitions, and the acceptance rate aimed at.
    kind: ClassVar[str] = ""
    goal: ClassVar[float] = 0.0

    def __init__(self, n_steps=5, n_chains=1):
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
        Z_new = np.empty_like(Z)
        rates: list[float] = []
        events: Counter = Counter()
        for m in range(Z.shape[1]):
            seed, numbers = row_keys(generators.sampling, len(X))
            Z_new[:, m], rate, restored = model.move_chains(
                X, Z[:, m], params, seed, self.kind, self.n_steps,
                adapt=self._adapted_to(), start=self._first_step(), numbers=numbers,
            )  # fmt: skip
            rates.append(rate)
            if restored:
                events["ula_restored"] += restored
        return Z_new, SamplerInfo(float(np.mean(rates)), events)

    def _adapted_to(self):
        return self.goal

    def _first_step(self):
        return None


class _Stepping(DeformationSampler):
    """Base of those with a step: adapted from a first value, or a constant."""

    #: First step, in units of the kernel's own scale.
    first: ClassVar[float] = 1.0

    def __init__(self, step="auto", n_steps=5, n_chains=1):
        super().__init__(n_steps=n_steps, n_chains=n_chains)
        self.step = step

    def _automatic(self):
        if isinstance(self.step, str):
            if self.step != "auto":
                raise ValueError(f'step must be "auto" or > 0, got {self.step!r}')
            return True
        if not self.step > 0:
            raise ValueError(f'step must be "auto" or > 0, got {self.step!r}')
        return False

    def _adapted_to(self):
        return self.goal if self._automatic() else 0.0

    def _first_step(self):
        return self.first if self._automatic() else float(self.step)


class DeformationMALA(_Stepping):
    """Metropolis-adjusted Langevin, preconditioned by the population's curvature.

    The preconditioner is the inverse of the Gauss-Newton matrix of the log-density,
    averaged over deformations drawn from the model: one matrix for all images.

    Parameters
    ----------
    step : float or "auto", default="auto"
        Langevin step eta in preconditioned coordinates. "auto" adapts it for every
        image to an acceptance rate of 0.574; a number is kept.
    n_steps : int, default=5
        Transitions per draw.
    n_chains : int, default=1
        Parallel chains per image.

    Examples
    --------
    >>> from sktem.samplers import DeformationMALA
    >>> DeformationMALA(n_steps=10)
    DeformationMALA(n_steps=10)
    """

    kind = "mala"
    goal = 0.574
    first = 0.2


class DeformationULA(_Stepping):
    """Unadjusted Langevin with the preconditioner of :class:`DeformationMALA`.

    Its stationary distribution is biased by an amount that shrinks with the step. A
    proposal that is not finite leaves the chain where it was and halves its step; it is
    counted as ``"ula_restored"``.

    Parameters
    ----------
    step : float or "auto", default="auto"
        Langevin step eta in preconditioned coordinates; "auto" is 0.05.
    n_steps : int, default=5
        Transitions per draw.
    n_chains : int, default=1
        Parallel chains per image.

    References
    ----------
    S. Gruffaz, K. Kim, A. Durmus and J. Gardner, Stochastic Approximation with Biased
    MCMC for Expectation Maximization, AISTATS 2024, equation (11).
    """

    kind = "ula"
    first = 0.05


class DeformationRandomWalk(_Stepping):
    """Random walk of one landmark after the other, along all axes.

    A sweep over the landmarks is one transition.

    Parameters
    ----------
    step : float or "auto", default="auto"
        Standard deviation of the proposal, relative to that of the landmark given all
        others under the prior. "auto" adapts it to an acceptance rate of 0.4.
    n_steps : int, default=5
        Transitions per draw.
    n_chains : int, default=1
        Parallel chains per image.
    """

    kind = "rwm"
    goal = 0.4
    first = 0.5


class DeformationGibbs(DeformationSampler):
    """Gibbs sampler that proposes each coordinate from its prior given the others.

    Proposals are accepted by the ratio of likelihoods: the hybrid Gibbs sampler of
    Allassonniere, Kuhn and Trouve (2010).

    Parameters
    ----------
    n_steps : int, default=1
        Sweeps over all coordinates per draw.
    n_chains : int, default=1
        Parallel chains per image.
    """

    kind = "gibbs"

    def __init__(self, n_steps=1, n_chains=1):
        super().__init__(n_steps=n_steps, n_chains=n_chains)


#: Samplers of deformations by name. A sampler is added by one line.
DEFORMATION_SAMPLERS = {
    "mala": DeformationMALA,
    "ula": DeformationULA,
    "rwm": DeformationRandomWalk,
    "gibbs": DeformationGibbs,
}
