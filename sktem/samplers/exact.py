"""Samplers for models whose posterior is known."""

from __future__ import annotations

from numbers import Integral

from sktem.samplers.base import Sampler, SamplerInfo

__all__ = ["ExactExpectation", "ExactDraws", "GrowingDraws"]


class ExactExpectation(Sampler):
    """Exact conditional expectations of the latents, without sampling.

    With it, SAEM becomes EM or its stochastic-approximation form, iSAEM incremental EM,
    vrTTEM sEM-VR, and fitTEM FIEM.

    Examples
    --------
    >>> from sktem.samplers import ExactExpectation
    >>> ExactExpectation().requires
    ('posterior',)
    """

    requires = ("posterior",)
    deterministic = True
    #: Name under which compiled sweeps are registered.
    sweep_name = "exact"

    def draw(self, model, X, chains, params, generators, iteration=1):
        """Return the posterior of the rows."""
        return model.posterior(X, params), SamplerInfo()


class GrowingDraws:
    """A number of draws that grows with the iteration.

    ``M_k = ceil(initial * k ** power)``, at most ``maximum``. With a growing number of
    draws, Monte Carlo EM converges without a decreasing step.

    Parameters
    ----------
    initial : int, default=10
        Number of draws at the first iteration.
    power : float, default=0.5
        Growth exponent.
    maximum : int, default=10_000
        Upper bound.

    Examples
    --------
    >>> from sktem.samplers import GrowingDraws
    >>> draws = GrowingDraws(initial=10, power=0.5)
    >>> draws(1), draws(4), draws(100)
    (10, 20, 100)
    """

    def __init__(self, initial=10, power=0.5, maximum=10_000):
        self.initial = initial
        self.power = power
        self.maximum = maximum

    def __call__(self, iteration):
        """Return the number of draws of an iteration."""
        growing = self.initial * iteration**self.power
        return int(min(-(-growing // 1), self.maximum))

    def __repr__(self):
        return (
            f"GrowingDraws(initial={self.initial}, power={self.power}, "
            f"maximum={self.maximum})"
        )

    def __eq__(self, other):
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self):
        return hash((self.initial, self.power, self.maximum))


class ExactDraws(Sampler):
    """Independent draws from the exact posterior (the paper's ``M`` draws).

    Parameters
    ----------
    n_draws : int or callable, default=10
        Number of draws per visit, or a function of the iteration index that returns it
        (such as :class:`GrowingDraws`). The Monte Carlo variance is divided by it.

    Examples
    --------
    >>> from sktem.samplers import ExactDraws
    >>> ExactDraws(n_draws=5).draws_at(1)
    5
    """

    requires = ("draw_posterior",)

    def __init__(self, n_draws=10):
        self.n_draws = n_draws

    @property
    def sweep_name(self):
        """Name under which compiled sweeps are registered, None if the draws grow."""
        return None if callable(self.n_draws) else "mc"

    def draws_at(self, iteration):
        """Return the number of draws of an iteration.

        Parameters
        ----------
        iteration : int
            Iteration index, from 1.

        Returns
        -------
        int
            Number of draws.

        Raises
        ------
        ValueError
            If it is not a positive integer.
        """
        n_draws = self.n_draws(iteration) if callable(self.n_draws) else self.n_draws
        if not isinstance(n_draws, Integral) or n_draws < 1:
            raise ValueError(f"n_draws must be a positive integer, got {n_draws!r}")
        return int(n_draws)

    def draw(self, model, X, chains, params, generators, iteration=1):
        """Draw from the posterior of the rows."""
        n_draws = self.draws_at(iteration)
        return (
            model.draw_posterior(X, params, n_draws, generators.sampling),
            SamplerInfo(),
        )
