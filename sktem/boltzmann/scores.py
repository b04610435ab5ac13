"""What a fitted Boltzmann machine says about rows: features and likelihoods."""

from __future__ import annotations

import sys
import warnings
from numbers import Integral

import numpy as np
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sktem.boltzmann.ais import (
    AISResult,
    annealed_importance_sampling,
    posterior_log_sums,
    reliable_log_partition,
)
from sktem.boltzmann.arrays import NUMPY, arrays_of
from sktem.boltzmann.partition import ExactPartition
from sktem.boltzmann.setup import one_blas_thread
from sktem.choices import check_choice
from sktem.e_step.random import seed_sequence
from sktem.exceptions import FitWarning

__all__ = ["BoltzmannScores"]

#: What an exact log Z may cost without being asked for: about a second.
OPERATIONS = 3e8
#: Annealed importance sampling of `score`: runs, temperatures at first and at most, and
#: the effective sample size, as a share of the runs, below which it warns.
RUNS = 100
TEMPERATURES = (1000, 4000)
TRUSTED_SHARE = 0.25

#: Rows that are densified and evaluated at a time.
ROWS = 2048


class BoltzmannScores(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Posterior marginals, free energies and log-likelihoods."""

    log_partition_: AISResult

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
            that takes no more than about a second.
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
        check_choice("method", method, ("ais", "auto", "exact"))
        for name, value in (("n_runs", n_runs), ("n_temperatures", n_temperatures)):
            if not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name} must be an integer >= 1, got {value!r}")
        model = self._model
        model.n_jobs = self.n_jobs
        if method != "ais":
            exact = self._exact(method)
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

    def _exact(self, method):
        """Return the exact log Z, None where it would cost too much."""
        model = self._model
        plans = self.__dict__.setdefault("_partitions", {})
        if method not in plans or plans[method].model is not model:
            limit = np.inf if method == "exact" else OPERATIONS
            plans[method] = ExactPartition(model, limit)
        return plans[method].value(self.params_)

    def _known_log_partition(self) -> AISResult:
        """Return log Z of the parameters, found once and kept as `log_partition_`."""
        params, known = self.params_, getattr(self, "_log_partition_of", None)
        if known is not None and bool(arrays_of(params).xp.all(known == params)):
            return self.log_partition_
        model = self._model
        model.n_jobs = self.n_jobs
        exact = self._exact("auto")
        if exact is not None:
            found = AISResult(exact, 0.0, np.inf, 0, 0)
        else:
            rng = np.random.default_rng(seed_sequence(self.random_state))
            found = reliable_log_partition(model, params, rng, RUNS, *TEMPERATURES)
            self._warn_of_few(found)
        self.log_partition_ = found
        self._log_partition_of = arrays_of(params).copy(params)
        return found

    def _warn_of_few(self, found):
        """Warn if few runs carry an estimate of log Z."""
        if found.effective_sample_size >= TRUSTED_SHARE * found.n_runs:
            return
        warnings.warn(
            f"The estimate of log Z, {found.value:.6g}, rests on "
            f"{found.effective_sample_size:.1f} of {found.n_runs} runs of annealed "
            f"importance sampling with {found.n_temperatures} temperatures, so that "
            f"its standard error of {found.standard_error:.2g} is likely to be too "
            "small and log-likelihoods too high. Pass the value of a longer run of "
            "log_partition as log_partition.",
            FitWarning,
            stacklevel=_users_frame(),
        )

    @one_blas_thread
    def score_samples(self, X, *, log_partition=None, n_runs=10, n_temperatures=200):
        """Return the log-likelihood of each row.

        Exact where the hidden units and log Z can be summed, see :meth:`log_partition`.
        Otherwise one or both are estimated by annealed importance sampling. log Z is
        kept in ``log_partition_``, with its standard error and effective sample size,
        until the parameters change. Its 100 runs have 1,000 temperatures; where their
        effective sample size is below 50 they are repeated with 4,000, and where it is
        below 25 even then, a :class:`~sktem.exceptions.FitWarning` says so.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, without NaN.
        log_partition : float or None, default=None
            log Z, such as the value of a longer run of :meth:`log_partition`; None
            means that it is found here.
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
            log_partition = self._known_log_partition().value
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


def _users_frame():
    """Return the `stacklevel`, for who calls this, of the first frame outside sktem."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals["__name__"].split(".")[0] == "sktem":
        frame, level = frame.f_back, level + 1
    return level


def _arrays(X):
    """Return the arrays for the results of X."""
    return NUMPY if sparse.issparse(X) else arrays_of(X)


def _parts(X):
    """Yield slices of rows and these rows as dense arrays."""
    for begin in range(0, X.shape[0], ROWS):
        rows = slice(begin, min(begin + ROWS, X.shape[0]))
        part = X[rows, :]
        yield rows, part.toarray() if sparse.issparse(part) else part
