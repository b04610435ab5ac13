"""What a fitted Boltzmann machine says about rows: features and likelihoods."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from sktem.arrays import NUMPY, arrays_of
from sktem.estimators.boltzmann_setup import one_blas_thread
from sktem.evaluation.ais import (
    AISResult,
    annealed_importance_sampling,
    posterior_log_sums,
)
from sktem.models.elimination import plan_elimination
from sktem.random import seed_sequence

__all__ = ["BoltzmannScores"]

#: Separators of at most this many units are summed over without being asked to, and of
#: at most that many when asked.
AUTOMATIC_WIDTH = 14
LARGEST_WIDTH = 22

#: Rows that are densified and evaluated at a time.
ROWS = 2048


class BoltzmannScores:
    """Posterior marginals, free energies and log-likelihoods."""

    def _prepared(self, X, method, *, allow_nan=False):
        """Return the model and what it sees of X, densely, with NaN as it is."""
        check_is_fitted(self)
        X = self._validate(X, reset=False, method=method, allow_nan=allow_nan)
        self._model.n_jobs = self.n_jobs
        return self._model, self._units.inputs(X, X.dtype)

    @one_blas_thread
    def transform(self, X):
        """Return the probabilities of the hidden units given rows.

        Exact where the E-step can be (in a restricted machine, on graphs whose hidden
        parts have a small treewidth), otherwise mean field. Where a value is NaN, mean
        field over it and the hidden units.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_hidden)
            Probabilities; on a graph in the order of the units, otherwise layer by
            layer.
        """
        model, X = self._prepared(X, "transform", allow_nan=True)
        arrays = _arrays(X)
        xp = arrays.xp
        out = arrays.empty((X.shape[0], model.n_hidden), X.dtype)
        for rows, part in _parts(X):
            # The sum is NaN if a value is, and costs less than to look at each.
            observed = None if xp.isfinite(xp.sum(part)) else ~xp.isnan(part)
            if observed is None or xp.all(observed):
                means = model.hidden_means(self.params_, part, self.n_mean_field)
            else:
                filled = xp.where(observed, part, xp.full_like(part, 0.5))
                means = model.hidden_means_given(
                    self.params_, filled, observed, self.n_mean_field
                )
            out[rows, ...] = means
        return out

    @one_blas_thread
    def free_energy(self, X):
        """Return minus the log of the sum of ``exp <theta, phi(v, h)>`` over h.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Free energies; where the hidden units cannot be summed out, the upper bound
            of mean field.
        """
        model, X = self._prepared(X, "free_energy")
        return -self._log_unnormalised(model, X)

    def _log_unnormalised(self, model, X):
        arrays = _arrays(X)
        out = arrays.empty(X.shape[0], arrays.xp.float64)
        for rows, part in _parts(X):
            part = arrays.astype(part, arrays.xp.float64)
            if model.has_exact_posterior:
                out[rows] = model.log_unnormalised(self.params_, part)
            else:
                out[rows] = model.variational_bound(
                    self.params_, part, self.n_mean_field
                )
        return out

    @one_blas_thread
    def log_partition(
        self, method="auto", *, n_runs=100, n_temperatures=1000, schedule="adaptive"
    ):
        """Return log Z, the normalisation of the likelihood.

        Parameters
        ----------
        method : {"auto", "exact", "ais"}, default="auto"
            "exact" sums over all states by elimination, which needs a small treewidth
            (a grid of at most 22 rows, a restricted machine of at most 22 hidden or
            visible units); "ais" is annealed importance sampling; "auto" is exact where
            that takes about a second.
        n_runs : int, default=100
            Independent runs of AIS.
        n_temperatures : int, default=1000
            Steps of each run.
        schedule : {"adaptive", "linear"} or array-like, default="adaptive"
            How the inverse temperatures lie. "adaptive" places them by a pilot run.

        Returns
        -------
        AISResult
            Value, standard error and effective sample size (out of `n_runs`; if it is
            small, the error is underestimated). An exact value has error 0 and
            effective sample size inf.
        """
        check_is_fitted(self)
        if method not in ("auto", "exact", "ais"):
            raise ValueError(
                f"method must be one of ['auto', 'exact', 'ais'], got {method!r}"
            )
        for name, value in (("n_runs", n_runs), ("n_temperatures", n_temperatures)):
            if not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name} must be an integer >= 1, got {value!r}")
        model = self._model
        model.n_jobs = self.n_jobs
        if method != "ais":
            exact = self._exact(LARGEST_WIDTH if method == "exact" else AUTOMATIC_WIDTH)
            if exact is not None:
                return AISResult(exact, 0.0, np.inf, 0, 0)
            if method == "exact":
                raise ValueError(
                    "the treewidth of the machine is too large for method='exact': use "
                    "'ais'"
                    if arrays_of(self.params_).is_numpy
                    else "method='exact' needs a machine fitted to NumPy arrays: use "
                    "'ais'"
                )
        rng = np.random.default_rng(seed_sequence(self.random_state))
        return annealed_importance_sampling(
            model, self.params_, rng, n_runs, n_temperatures, schedule
        )

    def _exact(self, max_width):
        """Return the exact log Z, None where it would cost too much."""
        possible = arrays_of(self.params_).is_numpy and not self._too_wide(max_width)
        if self._exact_log_partition is None and possible:
            graph, biases, weights, constant = self._model.as_graph(self.params_)
            plan = plan_elimination(graph, max_width)
            if plan is not None:
                total = plan.log_sum(biases, weights)
                self._exact_log_partition = (plan.width, total + constant)
        if self._exact_log_partition is None:
            return None
        width, value = self._exact_log_partition
        return value if width <= max_width else None

    def _too_wide(self, max_width):
        """Return whether layers are too wide, without looking for a plan."""
        sizes = getattr(self._model, "sizes", None)
        if sizes is None:
            return False
        if self._model.gaussian:
            # Integrated out, the visible units join all units of the first layer.
            return sizes[1] - 1 > max_width
        return any(
            min(pair) > max_width for pair in zip(sizes, sizes[1:], strict=False)
        )

    @one_blas_thread
    def score_samples(self, X, *, log_partition=None, n_runs=10, n_temperatures=200):
        """Return the log-likelihood of each row.

        Exact where the hidden units and log Z can be summed, see :meth:`log_partition`.
        Otherwise one or both are estimated by annealed importance sampling; an estimate
        of log Z is remembered until the next fit.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, without NaN.
        log_partition : float or None, default=None
            log Z, such as the value of a longer run of :meth:`log_partition`; None
            means its default.
        n_runs, n_temperatures : int
            Size of the estimate of each row where the hidden units cannot be summed
            out.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log-likelihoods in nats; of Gaussian units, log-densities of the columns of
            X.
        """
        model, X = self._prepared(X, "score_samples")
        if log_partition is None:
            if getattr(self, "_log_partition_of", None) is not self.params_:
                self._log_partition = self.log_partition().value
                self._log_partition_of = self.params_
            log_partition = self._log_partition
        if model.has_exact_posterior:
            values = self._log_unnormalised(model, X)
        else:
            rng = np.random.default_rng(seed_sequence(self.random_state))
            arrays = _arrays(X)
            values = arrays.empty(X.shape[0], arrays.xp.float64)
            for rows, part in _parts(X):
                values[rows], _ = posterior_log_sums(
                    model, self.params_, part, rng, n_runs, n_temperatures
                )
        return values - log_partition - self._units.log_scale

    def score(self, X, y=None):
        """Return the mean log-likelihood per row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.

        Returns
        -------
        float
            Mean of :meth:`score_samples`.
        """
        values = self.score_samples(X)
        return float(arrays_of(values).xp.mean(values))

    @one_blas_thread
    def pseudo_log_likelihood(self, X):
        """Return the sum over units of their log-probability given all other ones.

        Without randomness, and without log Z. Where the hidden units cannot be summed
        out, the mean-field bound stands for the free energy.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows of binary units. The cost is that of ``2 * n_features`` free energies.

        Returns
        -------
        ndarray of shape (n_samples,)
            Pseudo-log-likelihoods in nats.
        """
        if self.visible != "binary":
            raise ValueError("pseudo_log_likelihood needs visible='binary'")
        model, X = self._prepared(X, "pseudo_log_likelihood")
        arrays = _arrays(X)
        out = arrays.full(X.shape[0], 0.0, arrays.xp.float64)
        for rows, part in _parts(X):
            part = arrays.copy(arrays.astype(part, arrays.xp.float64))
            for unit in range(part.shape[1]):
                values = []
                kept = arrays.copy(part[:, unit])
                for state in (0.0, 1.0):
                    part[:, unit] = state
                    values.append(self._log_unnormalised(model, part))
                part[:, unit] = kept
                off, on = values
                total = arrays.xp.logaddexp(off, on)
                out[rows] += kept * on + (1.0 - kept) * off - total
        return out


def _arrays(X):
    """Return the arrays for the results of X."""
    return NUMPY if sparse.issparse(X) else arrays_of(X)


def _parts(X):
    """Yield slices of rows and these rows as dense arrays."""
    for begin in range(0, X.shape[0], ROWS):
        rows = slice(begin, min(begin + ROWS, X.shape[0]))
        part = X[rows, :]
        yield rows, part.toarray() if sparse.issparse(part) else part
