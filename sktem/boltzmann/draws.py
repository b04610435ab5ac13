"""Draws from a fitted Boltzmann machine: samples, conditional samples, imputation."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from sktem.boltzmann.arrays import arrays_of
from sktem.boltzmann.e_steps import draw_seed, posterior_start
from sktem.boltzmann.setup import one_blas_thread
from sktem.e_step.random import seed_sequence

__all__ = ["BoltzmannDraws"]


class BoltzmannDraws:
    """Gibbs sampling from the machine, with any of the visible units given."""

    def _generator(self):
        return np.random.default_rng(seed_sequence(self.random_state))

    @one_blas_thread
    def sample(self, n_samples=1, n_steps=1000):
        """Draw rows from the machine.

        Each comes from a chain of its own, which starts at one of `chains_` (for "cd",
        at fair coins).

        Parameters
        ----------
        n_samples : int, default=1
            Rows.
        n_steps : int, default=1000
            Gibbs transitions of each chain.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Visible units.
        """
        check_is_fitted(self)
        _check_count("n_samples", n_samples)
        _check_count("n_steps", n_steps)
        model, rng = self._model, self._generator()
        model.n_jobs = self.n_jobs
        chains = model.new_chains(n_samples, rng, self.params_)
        if self.chains_ is not None:
            packed = model.pack(self.chains_)
            rows = rng.integers(packed.shape[0], size=n_samples)
            chains = model.unpack(arrays_of(packed).take(packed, rows))
        chains = model.free_gibbs(
            self.params_, chains, n_steps, draw_seed(rng), False
        ).chains
        drawn = model.visible_draws(self.params_, None, None, chains, draw_seed(rng))
        return self._as_data(drawn)

    def _as_data(self, drawn):
        """Return drawn visible units as rows of X."""
        return self._units.outputs(arrays_of(drawn).copy(drawn))

    @one_blas_thread
    def gibbs(self, X):
        """Draw hidden units given rows, then visible units given those.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Visible units after one transition. Where the hidden units cannot be drawn
            at once, they have moved by ``n_gibbs_e`` sweeps from a mean-field start.
        """
        model, X, _ = self._given(X, "gibbs", allow_nan=False)
        rng = self._generator()
        chains = posterior_start(model, self.params_, X, None, rng)
        chains = model.posterior_gibbs(
            self.params_, X, None, chains, self.n_gibbs_e, draw_seed(rng), False
        ).chains
        nothing = arrays_of(X).xp.isnan(X)  # nowhere, as NaN was refused
        chains = model.visible_sweep(self.params_, chains, draw_seed(rng))
        drawn = model.visible_draws(self.params_, X, nothing, chains, draw_seed(rng))
        return self._as_data(drawn)

    def _given(self, X, method, allow_nan=True):
        """Return model, values with 0.5 where not observed, and what is observed."""
        check_is_fitted(self)
        X = self._validate(X, reset=False, method=method, allow_nan=allow_nan)
        if sparse.issparse(X):
            X = X.toarray()
        self._model.n_jobs = self.n_jobs
        xp = arrays_of(X).xp
        X = self._units.inputs(X, xp.float32)
        observed = ~xp.isnan(X)
        return self._model, xp.where(observed, X, xp.full_like(X, 0.5)), observed

    @one_blas_thread
    def sample_conditional(self, X, n_steps=200):
        """Draw the units that are NaN given those that are not.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; NaN means to be drawn.
        n_steps : int, default=200
            Gibbs transitions from a mean-field start.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Rows with draws in place of NaN.
        """
        _check_count("n_steps", n_steps)
        model, X, observed = self._given(X, "sample_conditional")
        rng = self._generator()
        chains = posterior_start(model, self.params_, X, observed, rng)
        chains = model.posterior_gibbs(
            self.params_, X, observed, chains, n_steps, draw_seed(rng), False
        ).chains
        drawn = model.visible_draws(self.params_, X, observed, chains, draw_seed(rng))
        return self._as_data(drawn)

    @one_blas_thread
    def impute(self, X, n_steps=200, n_chains=1):
        """Replace NaN by the expectation given what is observed.

        The conditional means of the second half of Gibbs chains are averaged.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; NaN means not observed.
        n_steps : int, default=200
            Gibbs transitions of a chain from a mean-field start.
        n_chains : int, default=1
            Independent chains of each row. A chain moves slowly between states that
            fit what is observed but are far apart; several find more of them than one
            of as many transitions, and they cost as much as it does.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Rows with probabilities (of Gaussian units, means) in place of NaN.
        """
        _check_count("n_steps", n_steps)
        _check_count("n_chains", n_chains)
        model, X, observed = self._given(X, "impute")
        rng = self._generator()
        arrays = arrays_of(X)
        wide = arrays.xp.float64
        total = arrays.full(X.shape, 0.0, wide)
        # One after the other: memory does not grow with their number.
        for _ in range(n_chains):
            total += self._chain_means(model, X, observed, n_steps, rng)
        total /= n_chains
        filled = arrays.xp.where(observed, arrays.astype(X, wide), total)
        return self._units.outputs(filled)

    def _chain_means(self, model, X, observed, n_steps, rng):
        """Return the mean over the second half of a chain of each row, in float64."""
        chains = posterior_start(model, self.params_, X, observed, rng)
        burn_in = n_steps // 2
        if burn_in:
            chains = model.posterior_gibbs(
                self.params_, X, observed, chains, burn_in, draw_seed(rng), False
            ).chains
        arrays = arrays_of(X)
        total = arrays.full(X.shape, 0.0, arrays.xp.float64)
        for _ in range(n_steps - burn_in):
            chains = model.posterior_gibbs(
                self.params_, X, observed, chains, 1, draw_seed(rng), False
            ).chains
            total += model.visible_means(self.params_, X, observed, chains)
        return total / (n_steps - burn_in)


def _check_count(name, value):
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be an integer >= 1, got {value!r}")
