"""Expectations under the posterior of a Boltzmann machine: exact, Gibbs, mean field.

Each takes a batch and returns its mean statistics. Those that keep Markov chains, one
or more for each row, take the chains of the rows and return them moved.
"""

from __future__ import annotations

from dataclasses import dataclass

from sktem.boltzmann.machines.layer_operations import operations_of
from sktem.boltzmann.machines.model import draw_seed

__all__ = [
    "ExactPosterior",
    "GibbsPosterior",
    "HybridPosterior",
    "MeanFieldPosterior",
    "posterior_start",
]


def posterior_start(model, params, X, observed, rng):
    """Return one chain for each row, drawn from the first mean-field iteration."""
    means = model.posterior_mean_field(params, X, observed, 1).means
    return operations_of(means).drawn(means, rng)


@dataclass(frozen=True)
class ExactPosterior:
    """Exact expectations; the hidden units are summed out.

    Attributes
    ----------
    keeps_chains : bool
        Whether rows have Markov chains.
    unbiased_from : float
        Share of a run after which expectations are those of its end.
    """

    keeps_chains, unbiased_from = False, 0.0

    def expect(self, model, params, X, observed, chains, rng, run_fraction):
        """Return the mean statistics of a batch."""
        return model.posterior_exact(params, X)


@dataclass(frozen=True)
class MeanFieldPosterior:
    """Expectations under independent hidden units that match best."""

    keeps_chains, unbiased_from = False, 0.0

    n_iterations: int = 30

    def expect(self, model, params, X, observed, chains, rng, run_fraction):
        """Return the mean statistics of a batch, see `ExactPosterior.expect`."""
        return model.posterior_mean_field(params, X, observed, self.n_iterations)


@dataclass(frozen=True)
class GibbsPosterior:
    """Persistent Gibbs chains with the visible units clamped, E.1 of Jang et al."""

    keeps_chains, unbiased_from = True, 0.0

    n_sweeps: int = 10
    rao_blackwell: bool = True

    def expect(self, model, params, X, observed, chains, rng, run_fraction):
        """Return the mean statistics of a batch, see `ExactPosterior.expect`."""
        return model.gibbs(
            params, chains, self.n_sweeps, draw_seed(rng), X, observed,
            self.rao_blackwell,
        )  # fmt: skip


@dataclass(frozen=True)
class HybridPosterior:
    """Mean field in the first half of a run, then a mixture that goes over to Gibbs.

    The weight of the Gibbs expectations is 0 up to half of the run and then grows
    linearly up to 1 at its end (H-APCD, section 4.2 of Jang et al.).
    """

    keeps_chains, unbiased_from = True, 1.0

    mean_field: MeanFieldPosterior
    gibbs: GibbsPosterior

    def expect(self, model, params, X, observed, chains, rng, run_fraction):
        """Return the mean statistics of a batch, see `ExactPosterior.expect`.

        `run_fraction` is how much of the run is over, from 0 to 1.
        """
        weight = max(0.0, 2.0 * run_fraction - 1.0)
        batch = (model, params, X, observed, chains, rng, run_fraction)
        if weight == 0.0:
            return self.mean_field.expect(*batch)  # the chains have not moved
        moments = self.gibbs.expect(*batch)
        if weight < 1.0:
            other = self.mean_field.expect(*batch).values
            moments.values += (1.0 - weight) * (other - moments.values)
        return moments
