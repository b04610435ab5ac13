"""A fitted Boltzmann machine: likelihoods, expectations and draws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from sktem.arrays import arrays_of
from sktem.boltzmann.learning.e_steps import posterior_start
from sktem.boltzmann.learning.tempering import Replicas, free_moments
from sktem.boltzmann.machines.model import BoltzmannModel, draw_seed
from sktem.boltzmann.machines.spins import spin_constant, spin_moments, spin_parameters
from sktem.boltzmann.normalisation.ais import posterior_log_sums
from sktem.boltzmann.normalisation.brackets import shifted
from sktem.boltzmann.normalisation.partition import LogPartition
from sktem.boltzmann.units import VisibleUnits, half_filled
from sktem.progress import counted

__all__ = ["FittedMachine"]


class ChainBudget(NamedTuple):
    """Default lengths and numbers of Markov chains.

    Attributes
    ----------
    steps, steps_given : int
        Transitions of chains of the model that are not exact draws, and of chains of
        the unobserved units of a row.
    marginal_chains : int
        Chains whose conditional means are averaged, where sums are out of reach.
    """

    steps: int = 1000
    steps_given: int = 200
    marginal_chains: int = 1000


@dataclass(frozen=True)
class FittedMachine:
    """A machine with its parameters; rows are checked values of the columns of X.

    Attributes
    ----------
    model : BoltzmannModel
        The machine.
    units : VisibleUnits
        What it sees of the columns of X.
    params : ndarray of shape (n_parameters,)
        Parameters.
    chains : ndarray or None
        Chains of the model, to start sampling from.
    partition : LogPartition
        Finds log Z, and remembers it.
    n_mean_field : int
        Mean-field iterations, where the posterior is not exact.
    n_replicas : int
        Temperatures of chains of the model.
    budget : ChainBudget
        How long chains are.
    """

    model: BoltzmannModel
    units: VisibleUnits
    params: Any
    chains: Any
    partition: LogPartition
    n_mean_field: int = 30
    n_replicas: int = 1
    budget: ChainBudget = ChainBudget()

    @classmethod
    def of(cls, model, units, state) -> FittedMachine:
        """Return the machine of the state of a run."""
        copy = arrays_of(state.params).copy
        chains = None if state.chains is None else copy(state.chains)
        return cls(
            model, units, copy(state.estimate), chains, LogPartition(model),
            n_replicas=state.rounds.n_replicas,
        )  # fmt: skip

    def attributes(self) -> dict:
        """Return the fitted attributes of an estimator by their names."""
        model: Any = self.model
        units, params = self.units, self.params
        attributes = {
            "fitted_": self,
            "params_": params,
            "chains_": self.chains,
            "biases_": model.biases_by_unit(params),
            "weights_": model.weights_by_unit(params),
            "n_features_in_": units.n_columns,
            "n_replicas_": self.n_replicas,
            "visible_": units.kinds,
        }
        if model.gaussian:
            squares = units.scale[: model.layout.n_normal] ** 2
            attributes["variances_"] = squares / model.layout.precisions(params)
        if units.table is not None:
            attributes["unit_names_"] = units.table.labels()
        if self.has_spins:
            in_spins = spin_parameters(model, params)
            attributes["fields_"] = model.biases_by_unit(in_spins)
            attributes["couplings_"] = model.weights_by_unit(in_spins)
        return attributes

    def __sklearn_array_api_convert__(self, converter):
        """Return the machine with arrays that a converter has moved."""
        model = self.model
        if hasattr(model, "__sklearn_array_api_convert__"):
            model = model.__sklearn_array_api_convert__(converter)
        return replace(
            self,
            model=model,
            units=self.units.__sklearn_array_api_convert__(converter),
            params=converter(self.params),
            chains=None if self.chains is None else converter(self.chains),
            partition=LogPartition(model),
        )

    # Rows.

    def hidden_means(self, X):
        """Return the probabilities of the hidden units; NaN means not observed."""
        model, X = self.model, self.units.inputs(X, X.dtype)
        arrays = arrays_of(X)
        xp = arrays.xp
        out = arrays.empty((X.shape[0], model.n_hidden), X.dtype)
        for rows, block in _blocks(X):
            # The sum is NaN if a value is, and costs less than to look at each.
            observed = None
            if not xp.isfinite(xp.sum(block)):
                block, observed = half_filled(block)
                observed = None if xp.all(observed) else observed
            out[rows, ...] = model.hidden_means(
                self.params, block, self.n_mean_field, observed
            )
        return 2.0 * out - 1.0 if self.has_spins else out

    @property
    def has_spins(self) -> bool:
        """Whether all units are in {-1, 1}."""
        return self.units.kind == "spin"

    @property
    def constant(self) -> float:
        """Offset of log Z in the spin convention."""
        return spin_constant(self.model, self.params) if self.has_spins else 0.0

    def log_unnormalised(self, X):
        """Return log-likelihoods plus log Z, or the bound of mean field."""
        values = self._log_unnormalised(self.units.inputs(X, X.dtype))
        return values + self.constant

    def estimated_partition(self, *options):
        """Return log Z, see `LogPartition.estimate`."""
        return shifted(self.partition.estimate(self, *options), self.constant)

    def remembered_partition(self, *options):
        """Return log Z, see `LogPartition.find`."""
        return shifted(self.partition.find(self, *options), self.constant)

    def _log_unnormalised(self, X):
        arrays, model = arrays_of(X), self.model
        out = arrays.empty(X.shape[0], arrays.xp.float64)
        for rows, block in _blocks(X):
            block = arrays.astype(block, arrays.xp.float64)
            if model.has_exact_posterior:
                out[rows] = model.log_unnormalised(self.params, block)
            else:
                out[rows] = model.variational_bound(
                    self.params, block, self.n_mean_field
                )
        return out

    def log_likelihoods(self, X, log_partition, rng, n_runs, n_temperatures):
        """Return the log-likelihood of each row, given log Z.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Rows.
        log_partition : float
            Log Z.
        rng : callable
            Returns the source of randomness where the hidden units cannot be summed.
        n_runs, n_temperatures : int
            Size of the estimate of each row then.

        Returns
        -------
        array of shape (n_samples,)
            Log-likelihoods.
        """
        X = self.units.inputs(X, X.dtype)
        if self.model.has_exact_posterior:
            values = self._log_unnormalised(X)
        else:
            generator, arrays = rng(), arrays_of(X)
            values = arrays.empty(X.shape[0], arrays.xp.float64)
            for rows, block in _blocks(X):
                values[rows], _ = posterior_log_sums(
                    self.model, self.params, block, generator, n_runs, n_temperatures
                )
        return values + self.constant - log_partition - self.units.log_scale

    def pseudo_log_likelihoods(self, X):
        """Return the sum over units of their log-probability given all other ones."""
        X = self.units.inputs(X, X.dtype)
        arrays = arrays_of(X)
        out = arrays.full(X.shape[0], 0.0, arrays.xp.float64)
        for rows, block in _blocks(X):
            block = arrays.copy(arrays.astype(block, arrays.xp.float64))
            for unit in range(block.shape[1]):
                values = []
                original = arrays.copy(block[:, unit])
                for state in (0.0, 1.0):
                    block[:, unit] = state
                    values.append(self._log_unnormalised(block))
                block[:, unit] = original
                off, on = values
                total = arrays.xp.logaddexp(off, on)
                out[rows] += original * on + (1.0 - original) * off - total
        return out

    def marginals(self, n_steps, rng):
        """Return means of units and of products of joined units, as biases and weights.

        Exact where that is cheap and no number of steps is given.
        """
        model, values = self.model, None
        if n_steps is None:
            values = self.partition.plans["auto"].moments(self.params)
        if values is None:
            chains = self.new_chains(self.budget.marginal_chains, n_steps, rng)
            values = model.gibbs(self.params, chains, 1, draw_seed(rng)).values
        if self.has_spins:
            values = spin_moments(model, values)
        return model.biases_by_unit(values), model.weights_by_unit(values)

    # Draws.

    def new_chains(self, n, n_steps, rng):
        """Return chains of the model: exact draws, or moved from `chains`.

        With a given number of steps they are always moved.
        """
        if n_steps is None:
            exact = self.partition.plans["auto"].draw(self.params, n, rng)
            if exact is not None:
                return exact
            n_steps = self.budget.steps
        model = self.model
        chains = model.new_chains(n, rng, self.params)
        if self.chains is not None:
            packed = model.pack(self.chains)
            rows = rng.integers(packed.shape[0], size=n)
            chains = model.unpack(arrays_of(packed).take(packed, rows))
        return free_moments(
            model, self.params, chains, self._replicas(n, rng), n_steps, rng, False
        ).chains

    def _replicas(self, n, rng, X=None, observed=None):
        """Return the warmer replicas of n chains, None if there are none."""
        if self.n_replicas == 1:
            return None
        return Replicas.of(
            self.model, self.params, self.n_replicas, n, rng, X, observed
        )

    def sample(self, n_samples, n_steps, rng):
        """Return rows, see `new_chains`."""
        chains = self.new_chains(n_samples, n_steps, rng)
        seed = draw_seed(rng)
        drawn = self.model.visible_draws(self.params, None, None, chains, seed)
        return self._as_data(drawn)

    def transition(self, X, n_sweeps, rng):
        """Return rows after hidden units, and visible units given those, are drawn."""
        model, (X, _) = self.model, self._seen(X)
        chains = self._conditional_chains(X, None, n_sweeps, rng)
        nothing = arrays_of(X).xp.isnan(X)  # nowhere, as NaN was refused
        chains = model.visible_sweep(self.params, chains, draw_seed(rng))
        drawn = model.visible_draws(self.params, X, nothing, chains, draw_seed(rng))
        return self._as_data(drawn)

    def draw_missing(self, X, n_steps, rng):
        """Return rows with NaN replaced by draws given the observed units.

        The draws are exact where these are cheap and no number of steps is given.
        """
        X, observed = self._seen(X)
        if n_steps is None:
            exact = self.partition.plans["auto"]
            drawn = exact.conditional(self.params, X, observed, rng)
            if drawn is not None:
                return self._as_data(arrays_of(X).xp.where(observed, X, drawn))
            n_steps = self.budget.steps_given
        chains = self._conditional_chains(X, observed, n_steps, rng)
        seed = draw_seed(rng)
        drawn = self.model.visible_draws(self.params, X, observed, chains, seed)
        return self._as_data(drawn)

    def expect_missing(self, X, n_steps, n_chains, rng):
        """Return rows with NaN replaced by means given the observed units.

        They are exact where that is cheap and no number of steps is given.
        """
        X, observed = self._seen(X)
        arrays = arrays_of(X)
        if n_steps is None:
            exact = self.partition.plans["auto"]
            means = exact.conditional(self.params, X, observed)
            if means is not None:
                return self.units.outputs(np.where(observed, X, means))
            n_steps = self.budget.steps_given
        wide = arrays.xp.float64
        total = arrays.full(X.shape, 0.0, wide)
        # One after the other: memory does not grow with their number.
        for _ in range(n_chains):
            total += self._chain_means(X, observed, n_steps, rng)
        total /= n_chains
        filled = arrays.xp.where(observed, arrays.astype(X, wide), total)
        return self.units.outputs(filled)

    def _seen(self, X):
        """Return float32 values, 0.5 where missing, and the mask of observed ones."""
        X = X.toarray() if sparse.issparse(X) else X
        return half_filled(self.units.inputs(X, arrays_of(X).xp.float32))

    def _conditional_chains(self, X, observed, n_sweeps, rng):
        """Return chains of the unobserved units after sweeps from mean field."""
        chains = posterior_start(self.model, self.params, X, observed, rng)
        replicas = self._replicas(X.shape[0], rng, X, observed)
        return self._moved(chains, replicas, X, observed, n_sweeps, rng)

    def _moved(self, chains, replicas, X, observed, n_sweeps, rng):
        """Return chains of the unobserved units after sweeps."""
        model, params = self.model, self.params
        if replicas is not None:
            return replicas.move(model, params, chains, n_sweeps, rng)
        seed = draw_seed(rng)
        return model.moved(params, chains, n_sweeps, seed, X, observed)

    def _chain_means(self, X, observed, n_steps, rng):
        """Return the mean over the second half of a chain of each row, in float64."""
        chains = posterior_start(self.model, self.params, X, observed, rng)
        replicas = self._replicas(X.shape[0], rng, X, observed)
        burn_in = n_steps // 2
        if burn_in:
            chains = self._moved(chains, replicas, X, observed, burn_in, rng)
        arrays = arrays_of(X)
        total = arrays.full(X.shape, 0.0, arrays.xp.float64)
        for _ in counted(range(n_steps - burn_in), "Sweeps of unobserved units"):
            chains = self._moved(chains, replicas, X, observed, 1, rng)
            total += self.model.visible_means(self.params, X, observed, chains)
        return total / (n_steps - burn_in)

    def _as_data(self, drawn):
        """Return drawn visible units as rows of X."""
        return self.units.outputs(arrays_of(drawn).copy(drawn))


def _blocks(X, n_rows=2048):
    """Yield slices of rows and these rows as dense arrays."""
    for begin in range(0, X.shape[0], n_rows):
        rows = slice(begin, min(begin + n_rows, X.shape[0]))
        block = X[rows, :]
        yield rows, block.toarray() if sparse.issparse(block) else block
