"""The contract of Boltzmann machines on graphs and in layers.

``p(x)`` is proportional to ``exp(sum theta_i x_i + sum theta_ij x_i x_j)``, x in
{0, 1}, an exponential family: theta is one flat array, the statistics phi(x) are
another of the same length, and the gradient of the mean log-likelihood is the mean of
phi under the posterior of the hidden units less its mean under the model (Jang et al.
2016, eq. 4).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from sktem.arrays import arrays_of
from sktem.boltzmann.machines.elimination import SumLimits
from sktem.graphs import Graph

__all__ = ["BoltzmannModel", "Moments", "draw_seed", "entropy"]


@dataclass
class Moments:
    """Mean statistics, and the chains or means of units that they came from.

    Attributes
    ----------
    values : ndarray of shape (n_parameters,)
        Mean of phi over the rows or chains.
    chains : ndarray or None
        State of the chains; None where there are none or they have not moved.
    means : ndarray or None
        Means of the units, laid out as chains; None where draws were made.
    """

    values: Any
    chains: Any = None
    means: Any = None


class BoltzmannModel(ABC):
    """Base of Boltzmann machines.

    Subclasses draw, take expectations and evaluate; they are independent of step sizes,
    batches and epochs. A batch is ``X`` of shape (n, n_visible) with ``observed``, a
    boolean array of its shape or None where all is observed; what is not observed is
    treated as hidden. Chains are an array that only the model understands.

    Attributes
    ----------
    n_visible, n_hidden : int
        Units of each kind.
    n_parameters : int
        Length of theta.
    weights_from : int
        Where the weights of edges begin in theta; they are what decays.
    largest_degree : int
        Most neighbours that a unit has.
    dtype : numpy dtype
        That of theta.
    gaussian : bool
        Whether the visible units are real-valued.
    weighs_rows : bool
        Whether `rows_exact` takes weights of rows.
    visible : ndarray of int
        Where the visible units are among those of `as_graph`, if they are binary.
    is_pairwise : bool
        Whether it is a pairwise model of binary units, Gaussian ones integrated out.
    elimination_bounds : tuple of (int, float) or None
        Least width and steps of a plan of all units, None where it has to be found.
    limits : SumLimits
        What exact sums may cost.
    row_axis : int
        That of the rows or chains in arrays of chains.
    largest_parameter : float
        Parameters are held within these bounds: a probability beyond is 0 or 1.
    """

    n_visible: int
    n_hidden: int
    n_parameters: int
    weights_from: int
    largest_degree: int
    dtype: np.dtype
    visible: np.ndarray

    limits = SumLimits()
    is_pairwise = True
    elimination_bounds: Any = None
    gaussian = False
    weighs_rows = False
    row_axis = 0
    largest_parameter = 1000.0

    n_jobs: int | None
    plan: Any

    def with_n_jobs(self, n_jobs) -> BoltzmannModel:
        """Return the model with this number of threads.

        Parameters
        ----------
        n_jobs : int or None
            Threads.

        Returns
        -------
        BoltzmannModel
            The model itself, or a shallow copy.
        """
        if n_jobs == self.n_jobs:
            return self
        other = copy.copy(self)
        other.n_jobs = n_jobs
        return other

    @property
    def has_exact_posterior(self) -> bool:
        """Whether the hidden units can be summed out at little cost."""
        return self.plan is not None

    @abstractmethod
    def initial_params(self, logits, rng, size=0.5) -> np.ndarray:
        """Return visible biases at the base rates and small random weights.

        Parameters
        ----------
        logits : ndarray of shape (n_visible,)
            Logits of the means of binary visible units; of Gaussian ones, the means.
        rng : numpy.random.Generator
            Source of randomness.
        size : float, default=0.5
            Standard deviation of the weights times the root of the larger of the two
            numbers of neighbours.

        Returns
        -------
        ndarray of shape (n_parameters,)
            Parameters.
        """

    @abstractmethod
    def new_chains(self, n, rng, like=None) -> Any:
        """Return n chains of fair coins.

        Parameters
        ----------
        n : int
            Number of chains.
        rng : numpy.random.Generator
            Source of randomness.
        like : array or None, default=None
            An array of the namespace and device for the chains, None for NumPy.

        Returns
        -------
        array
            Chains.
        """

    @abstractmethod
    def biases_by_unit(self, params) -> Any:
        """Return the biases, or other values of units, as users see them."""

    @abstractmethod
    def weights_by_unit(self, params) -> Any:
        """Return the weights, or other values of edges, as users see them."""

    @abstractmethod
    def statistics_of(self, units, pairs) -> np.ndarray:
        """Return mean statistics from means of units and of products along edges.

        Parameters
        ----------
        units : ndarray of shape (n_units,)
            As the binary units of `as_graph`.
        pairs : ndarray of shape (n_edges,)
            As its edges.

        Returns
        -------
        ndarray of shape (n_parameters,)
            Mean statistics.
        """

    @abstractmethod
    def chains_of(self, units) -> np.ndarray:
        """Return chains from states of the units of `as_graph`.

        Parameters
        ----------
        units : ndarray of float32 of shape (n_units, n)
            Zeros and ones.

        Returns
        -------
        ndarray
            n chains.
        """

    @abstractmethod
    def as_graph(self, params) -> tuple[Graph, np.ndarray, np.ndarray, float]:
        """Return graph, biases, weights and a constant whose sum over states is Z.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.

        Returns
        -------
        graph : Graph
            The graph of the binary units.
        biases, weights : ndarray
            Of its units and edges.
        constant : float
            What is to be added to the logarithm of the sum.
        """

    @abstractmethod
    def pack(self, chains) -> np.ndarray:
        """Return chains as bits.

        Parameters
        ----------
        chains : ndarray
            n chains.

        Returns
        -------
        ndarray of uint8 of shape (n, n_bytes)
            Bits, which ``unpack`` turns into chains again.
        """

    @abstractmethod
    def unpack(self, packed) -> np.ndarray:
        """Return the chains that `pack` has packed.

        Parameters
        ----------
        packed : ndarray of uint8 of shape (n, n_bytes)
            Bits.

        Returns
        -------
        ndarray
            Chains.
        """

    @abstractmethod
    def posterior_exact(self, params, X) -> Moments:
        """Return the exact mean of phi given X, where the posterior is exact.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.
        X : ndarray of shape (n, n_visible)
            Visible values.

        Returns
        -------
        Moments
            Mean statistics and means of the units.
        """

    @abstractmethod
    def free_exact(self, params) -> tuple[float, np.ndarray]:
        """Return log Z and the exact mean of phi under the model.

        Parameters
        ----------
        params : ndarray of float64 of shape (n_parameters,)
            Parameters.

        Returns
        -------
        log_partition : float
            Log Z.
        values : ndarray of shape (n_parameters,)
            Mean statistics.
        """

    def rows_exact(self, params, X, shares=None) -> tuple[float, np.ndarray]:
        """Return means over rows of `log_unnormalised` and of phi given them.

        Parameters
        ----------
        params : ndarray of float64 of shape (n_parameters,)
            Parameters.
        X : ndarray of float64 of shape (n, n_visible)
            Visible values.
        shares : ndarray of shape (n,) or None, default=None
            Weights of the rows, if `weighs_rows`; their sum is 1.

        Returns
        -------
        mean : float
            Mean of `log_unnormalised`.
        values : ndarray of shape (n_parameters,)
            Mean statistics.
        """
        values = self.posterior_exact(params, X).values
        return float(np.mean(self.log_unnormalised(params, X))), values

    @abstractmethod
    def exact_cost(self, n_rows) -> float:
        """Return the approximate cost of the exact likelihood and its gradient in ns.

        Parameters
        ----------
        n_rows : int
            Rows of the data.

        Returns
        -------
        float
            Nanoseconds; inf where the sums are out of reach.
        """

    @abstractmethod
    def gibbs(
        self, params, chains, n_sweeps, seed, X=None, observed=None, rao_blackwell=True
    ) -> Moments:
        """Move chains, possibly in place, and return the mean of phi.

        Parameters
        ----------
        params : array of shape (n_parameters,)
            Parameters.
        chains : array
            Chains of the model or, with X, one for each of its rows.
        n_sweeps : int
            Transitions.
        seed : numpy.uint64
            Seed of the draws.
        X, observed : array of shape (n, n_visible) or None, default=None
            Values that clamp the visible units, and which of them do; None for all.
        rao_blackwell : bool or None, default=True
            Conditional means in place of last draws. None returns chains alone.

        Returns
        -------
        Moments
            Mean statistics and the chains.
        """

    @abstractmethod
    def posterior_mean_field(self, params, X, observed, n_iterations) -> Moments:
        """Return the mean of phi under the mean-field approximation of the posterior.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.
        X, observed : ndarray of shape (n, n_visible)
            Visible values, and which are observed.
        n_iterations : int
            Sweeps of coordinate ascent.

        Returns
        -------
        Moments
            Mean statistics and means of the units.
        """

    def moved(self, params, chains, n_sweeps, seed, X=None, observed=None) -> Any:
        """Return chains after transitions, of the model or with some units clamped.

        As `gibbs`, without means.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.
        chains : ndarray
            Chains; they may be changed.
        n_sweeps : int
            Transitions.
        seed : numpy.uint64
            Seed of the draws.
        X, observed : ndarray of shape (n, n_visible) or None, default=None
            Visible values, and which are observed.

        Returns
        -------
        ndarray
            Chains.
        """
        return self.gibbs(params, chains, n_sweeps, seed, X, observed, None).chains

    @abstractmethod
    def independent(self, params) -> Any:
        """Return parameters without weights, whose units have about the same means.

        Parameters
        ----------
        params : array of shape (n_parameters,)
            Parameters.

        Returns
        -------
        array of shape (n_parameters,)
            Parameters of independent units.
        """

    @abstractmethod
    def log_densities(self, params, chains, X=None, observed=None) -> Any:
        """Return the log of the unnormalised probability of each chain.

        Parameters
        ----------
        params : array of shape (n_parameters,)
            Parameters.
        chains : array
            n chains, of the model or with the units clamped that are observed.
        X, observed : array of shape (n, n_visible) or None, default=None
            Visible values, and which are observed.

        Returns
        -------
        array of shape (n,)
            Log-probabilities plus log Z.
        """

    @abstractmethod
    def hidden_means(self, params, X, n_iterations, observed=None) -> np.ndarray:
        """Return posterior marginals, exact where possible, else mean field.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.
        X : ndarray of shape (n, n_visible)
            Visible values.
        n_iterations : int
            Mean-field sweeps.
        observed : ndarray of bool of shape (n, n_visible) or None, default=None
            What is observed; None for all of X. Mean field where it is not all.

        Returns
        -------
        ndarray of shape (n, n_hidden)
            Marginals.
        """

    @abstractmethod
    def visible_sweep(self, params, chains, seed) -> Any:
        """Return chains whose visible units were drawn given the rest.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.
        chains : ndarray
            n chains; they may be changed.
        seed : numpy.uint64
            Seed of the draws.

        Returns
        -------
        ndarray
            Chains.
        """

    @abstractmethod
    def visible_draws(self, params, X, observed, chains, seed) -> np.ndarray:
        """Return draws of the visible units given chains, with X where observed.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.
        X, observed : ndarray of shape (n, n_visible) or None
            Visible values, and which are observed; None for no values.
        chains : ndarray
            n chains.
        seed : numpy.uint64
            Seed of the draws.

        Returns
        -------
        ndarray of shape (n, n_visible)
            Visible units.
        """

    @abstractmethod
    def visible_means(self, params, X, observed, chains) -> np.ndarray:
        """Return means of the visible units given chains, with X where observed.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.
        X, observed : ndarray of shape (n, n_visible)
            Visible values, and which are observed.
        chains : ndarray
            n chains.

        Returns
        -------
        ndarray of shape (n, n_visible)
            Means.
        """

    @abstractmethod
    def fill(self, params, X, observed, means, rng) -> tuple[Any, Any]:
        """Draw values that are not observed from mean field.

        Parameters
        ----------
        params : array of shape (n_parameters,)
            Parameters.
        X, observed : array of shape (n, n_visible)
            Visible values, and which are observed.
        means : array
            Means of the units by `posterior_mean_field`.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        drawn : array of shape (n, n_visible)
            Rows with draws where nothing is observed.
        log_densities : array of shape (n,)
            Log-densities of these draws.
        """

    @abstractmethod
    def log_unnormalised(self, params, X) -> np.ndarray:
        """Return the log of the sum of ``exp <theta, phi(v, h)>`` over h, exactly.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.
        X : ndarray of shape (n, n_visible)
            Visible values.

        Returns
        -------
        ndarray of shape (n,)
            Log-likelihoods plus log Z.
        """

    @abstractmethod
    def variational_bound(self, params, X, n_iterations, observed=None) -> np.ndarray:
        """Return the mean-field lower bound of `log_unnormalised`.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.
        X : ndarray of shape (n, n_visible)
            Visible values.
        n_iterations : int
            Mean-field sweeps.
        observed : ndarray of bool of shape (n, n_visible) or None, default=None
            What is observed; the bound is that of its likelihood.

        Returns
        -------
        ndarray of shape (n,)
            Lower bounds.
        """

    def centred(self, step, centre) -> None:
        """Turn a step along the gradient into one about a centre, in place.

        The step of a gradient depends on what is called 0 and what 1. With each unit
        counted from a centre c, the weights move along the differences of the
        covariances about it,
        ``step_ij - c_i step_j - c_j step_i``, and the biases such that a unit whose
        neighbours are at their centres gets the step of its own bias (Montavon and
        Mueller 2012; Melchior, Fischer and Wiskott 2016). That is the gradient times a
        positive definite matrix: its zeros are the same.

        Parameters
        ----------
        step : ndarray of shape (n_parameters,)
            Difference of the statistics; it is changed.
        centre : ndarray of shape (weights_from,)
            The centre of each unit, as the biases are laid out.
        """
        self.centre_weights(step, centre)
        self.centre_biases(step, centre)

    def fields(self, params) -> tuple[Any, Any]:
        """Return logits of binary units where neighbours are at their centres.

        Parameters
        ----------
        params : array of shape (n_parameters,)
            Parameters.

        Returns
        -------
        fields, centre : array of shape (weights_from,)
            Logits, zero for units that are not binary, and the centres: one half for
            binary units.
        """
        fields = self.independent(params)[: self.weights_from]
        return fields, arrays_of(params).full(fields.shape[0], 0.5, params.dtype)

    @abstractmethod
    def centre_weights(self, gradient, centre) -> None:
        """Turn a gradient into that along the parameters of centred units, in place.

        Parameters
        ----------
        gradient : ndarray of shape (n_parameters,)
            Difference of the statistics; its weights are changed.
        centre : ndarray of shape (weights_from,)
            The centre of each unit, as the biases are laid out.
        """

    @abstractmethod
    def centre_biases(self, step, centre) -> None:
        """Turn a step of the parameters of centred units into one of theta, in place.

        Parameters
        ----------
        step : ndarray of shape (n_parameters,)
            The step; its biases are changed.
        centre : ndarray of shape (weights_from,)
            The centre of each unit, as the biases are laid out.
        """

    def bound_precisions(self, low, high) -> None:  # noqa: B027
        """Bring bounds of parameters within those of precisions, if there are any.

        Parameters
        ----------
        low, high : ndarray of shape (n_parameters,)
            Bounds; they are changed.
        """

    def project(self, params) -> int:
        """Bring parameters back into bounds, in place.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.

        Returns
        -------
        int
            How many were out of bounds or not finite.
        """
        xp = arrays_of(params).xp
        # An extreme is NaN if an entry is, and costs less than to look at each.
        largest = max(float(xp.max(params)), -float(xp.min(params)))
        if largest <= self.largest_parameter:
            return 0
        wrong = ~(xp.abs(params) <= self.largest_parameter)
        clipped = xp.clip(params, -self.largest_parameter, self.largest_parameter)
        params[...] = xp.where(xp.isnan(params), xp.zeros_like(params), clipped)
        return int(xp.count_nonzero(wrong))


def draw_seed(rng) -> np.uint64:
    """Return a seed for draws inside compiled loops."""
    return np.uint64(rng.integers(2**63))


def entropy(means):
    """Return the entropy of independent binary units.

    Parameters
    ----------
    means : ndarray of shape (n_units, n)
        Probabilities of 1.

    Returns
    -------
    ndarray of shape (n,)
        Entropies in nats.
    """
    xp = arrays_of(means).xp
    p = xp.clip(means, 1e-12, 1 - 1e-12)
    return -xp.sum(p * xp.log(p) + (1 - p) * xp.log1p(-p), axis=0)
