"""Callbacks for scikit-learn's callback API (scikit-learn 1.9 and later).

Set them with ``estimator.set_callbacks(...)`` before ``fit``. scikit-learn's own
callbacks, such as ``sklearn.callback.ProgressBar``, work as well.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import tempfile
from numbers import Integral
from pathlib import Path

import joblib
import numpy as np

from sktem.exceptions import FitWarning, warn_user

__all__ = ["Checkpoint", "LogLikelihoodMonitor"]

#: How the name of a file ends while it is written.
UNFINISHED = ".unfinished"


class _FitCallback:
    """The hooks that a callback need not define."""

    def setup(self, estimator, context):
        """Do nothing before a fit."""

    def teardown(self, estimator, context):
        """Do nothing after a fit."""

    def on_fit_task_begin(self, estimator, context):
        """Do nothing before a task."""


class Checkpoint(_FitCallback):
    """Save the state of a fit after epochs, and resume a fit that was killed.

    The file is replaced atomically, so that a kill at any moment leaves the last
    complete state. When ``fit`` is called again with the same parameters and data, it
    continues from the file and ends with the same bits as an uninterrupted fit. A file
    from another fit is ignored, with a warning, and then overwritten. ``partial_fit``
    saves nothing: between two chunks, an estimator can be pickled as it is.

    Parameters
    ----------
    path : str or path-like
        The file.
    every : int, default=1
        Number of epochs between saves.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from sktem import StochasticEMGaussianMixture
    >>> from sktem.callbacks import Checkpoint
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> path = os.path.join(tempfile.mkdtemp(), "fit.pickle")
    >>> mixture = StochasticEMGaussianMixture(2, random_state=0, tol=1e-3)
    >>> mixture = mixture.set_callbacks(Checkpoint(path)).fit(X)
    >>> os.path.exists(path)
    True
    """

    def __init__(self, path, every=1):
        if not isinstance(every, Integral) or every < 1:
            raise ValueError(f"every must be a positive integer, got {every!r}")
        self.path = path
        self.every = every
        self._signature = None
        self._progress = None
        self._epochs = 0

    def restore(self, estimator, X, sample_weight, progress):
        """Return the saved progress of the same fit, or else that of a new one.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is about to fit.
        X : ndarray
            Its data.
        sample_weight : ndarray or None
            Its weights.
        progress : FitProgress
            The progress if nothing was saved.

        Returns
        -------
        FitProgress
            The state of the fit, saved until its end.
        """
        # Settings of printing and threads do not change the result.
        params = {
            name: _fingerprint(value)
            for name, value in estimator.get_params(deep=False).items()
            if name not in ("verbose", "verbose_interval", "n_jobs")
        }
        rows = X.digest() if hasattr(X, "digest") else X
        content = (type(estimator).__name__, params, rows, sample_weight)
        self._signature = joblib.hash(content)
        self._epochs = 0
        _remove_leftovers(Path(self.path))
        self._progress = self._saved() or progress
        return self._progress

    def _saved(self):
        """Return the progress in the file, None if it is not of this fit."""
        if not os.path.exists(self.path):
            return None
        with open(self.path, "rb") as file:
            signature, progress = pickle.load(file)
        if signature != self._signature:
            warn_user(
                f"{self.path} belongs to a fit with other parameters or data: it is "
                "not used, and will be overwritten",
                FitWarning,
            )
            return None
        return progress

    def teardown(self, estimator, context):
        """Forget the fit.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that has fitted.
        context : CallbackContext
            The fit.
        """
        self._progress = None

    def on_fit_task_end(self, estimator, context):
        """Save after an epoch.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is fitting.
        context : CallbackContext
            The task that ended.

        Returns
        -------
        bool
            False: the fit continues.
        """
        if context.task_name != "epoch" or self._progress is None:
            return False
        self._epochs += 1
        if self._epochs % self.every:
            return False
        path = Path(self.path)
        handle, temporary = tempfile.mkstemp(
            dir=path.parent, prefix=f"{path.name}.", suffix=UNFINISHED
        )
        try:
            with os.fdopen(handle, "wb") as file:
                pickle.dump((self._signature, self._progress), file)
                file.flush()
                os.fsync(file.fileno())
            # Gone, if another fit with this path has begun: the next epoch is saved.
            with contextlib.suppress(FileNotFoundError):
                os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        return False


def _remove_leftovers(path):
    """Remove temporary files of a fit that was killed while it saved."""
    name = re.compile(re.escape(path.name) + r"\.[a-z0-9_]{8}" + re.escape(UNFINISHED))
    if not path.parent.is_dir():
        return
    for other in path.parent.iterdir():
        if name.fullmatch(other.name):
            with contextlib.suppress(OSError):
                other.unlink()


def _fingerprint(value):
    """Return a short text that is the same for equal values, in every process."""
    try:
        return joblib.hash(value)
    except (AttributeError, TypeError, pickle.PicklingError):
        return repr(value)  # such as a lambda: it never equals another


class LogLikelihoodMonitor(_FitCallback):
    """Record the score on held-out data after each epoch, and stop early.

    On a stream it appends the score after each call of ``partial_fit`` to those of
    previous calls.

    (scikit-learn's ``ScoringMonitor`` scores supervised estimators only.)

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Held-out rows.
    patience : int or None, default=None
        Stop ``fit`` when the score has not risen for this many epochs; None never
        stops.
    min_delta : float, default=0.0
        Smallest rise that counts.
    sample_weight : array-like of shape (n_samples,) or None, default=None
        Weights of the held-out rows, for estimators whose ``score`` takes them.

    Attributes
    ----------
    scores_ : list of float
        Mean log-likelihood per row after each epoch of the last fit, or after each
        chunk.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import StochasticEMGaussianMixture
    >>> from sktem.callbacks import LogLikelihoodMonitor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> monitor = LogLikelihoodMonitor(X[:50], patience=2)
    >>> mixture = StochasticEMGaussianMixture(2, random_state=0)
    >>> mixture = mixture.set_callbacks(monitor).fit(X[50:])
    >>> len(monitor.scores_) > 0
    True
    """

    def __init__(self, X, patience=None, min_delta=0.0, *, sample_weight=None):
        self.X = X
        self.sample_weight = sample_weight
        self.patience = patience
        self.min_delta = min_delta
        self.scores_: list[float] = []

    def setup(self, estimator, context):
        """Forget the scores of an earlier fit.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is about to fit.
        context : CallbackContext
            The fit.
        """
        if context.task_name != "partial_fit":
            self.scores_ = []

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        """Score after an epoch.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is fitting.
        context : CallbackContext
            The task that ended.
        fitted_estimator : estimator instance or None, default=None
            The estimator as if it had stopped here.

        Returns
        -------
        bool
            Whether to stop.
        """
        if context.task_name not in ("epoch", "partial_fit"):
            return False
        weights = self.sample_weight
        arguments = {} if weights is None else {"sample_weight": weights}
        self.scores_.append(float(fitted_estimator.score(self.X, **arguments)))
        if self.patience is None or len(self.scores_) <= self.patience:
            return False
        best_before = np.max(self.scores_[: -self.patience])
        rise = np.max(self.scores_[-self.patience :]) - best_before
        return bool(rise <= 0 or rise < self.min_delta)
