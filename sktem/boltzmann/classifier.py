"""Restricted machine of labels given inputs, with scikit-learn's face."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from scipy import optimize
from scipy.special import expit, log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from sktem.boltzmann.calls import one_blas_thread
from sktem.boltzmann.row_weights import shares_of, weighted_rows
from sktem.choices import KnownParametersMixin, check_number
from sktem.e_step.random import seed_sequence
from sktem.estimators.fit_warnings import warn_user
from sktem.links import DocumentationLinkMixin
from sktem.validation import validate_data

__all__ = ["BoltzmannMachineClassifier"]

#: Pairs that L-BFGS remembers.
MEMORY = 20


class BoltzmannMachineClassifier(
    ClassifierMixin, KnownParametersMixin, DocumentationLinkMixin, BaseEstimator
):
    """Restricted Boltzmann machine of a label and hidden units, given inputs.

    ``p(y, h | x)`` is proportional to ``exp(d_y + sum_j h_j (c_j + sum_i W_ij x_i +
    U_yj))`` with binary hidden units h. Inputs are given and not modelled, so that they
    may be any numbers. The hidden units are summed out:
    ``p(y | x)`` is proportional to ``exp(d_y + sum_j log(1 + exp(c_j + (x W)_j +
    U_yj)))``, exactly, and the machine is learned by its log-likelihood (Larochelle and
    Bengio 2008), with L-BFGS and without any sampling.

    Parameters
    ----------
    n_hidden : int, default=32
        Hidden units.
    weight_decay : float, default=0.0003
        Strength of the L2 penalty on W and U, beside the mean log-likelihood of a row.
        Columns are centred and scaled inside.
    max_iter : int, default=1000
        Most iterations.
    tol : float, default=1e-4
        Largest entry of the gradient at which the fit has converged.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the first weights.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    weights_ : ndarray of shape (n_features, n_hidden)
        W, for inputs as they are given.
    label_weights_ : ndarray of shape (n_classes, n_hidden)
        U.
    hidden_biases_ : ndarray of shape (n_hidden,)
        c, for inputs as they are given.
    class_biases_ : ndarray of shape (n_classes,)
        d.
    objective_ : float
        Mean log-likelihood of a label, less the penalty.
    n_iter_ : int
        Iterations.
    converged_ : bool
        Whether the gradient is as small as `tol`.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns, if X is a data frame.

    See Also
    --------
    LatentBoltzmannMachine : Models all columns together.

    References
    ----------
    H. Larochelle and Y. Bengio, Classification using Discriminative Restricted
    Boltzmann Machines, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import BoltzmannMachineClassifier
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> machine = BoltzmannMachineClassifier(n_hidden=4, random_state=0)
    >>> machine.fit(X, ["same", "other", "other", "same"]).predict(X).tolist()
    ['same', 'other', 'other', 'same']
    """

    def __init__(
        self,
        n_hidden=32,
        *,
        weight_decay=0.0003,
        max_iter=1000,
        tol=1e-4,
        random_state=None,
    ):
        self.n_hidden = n_hidden
        self.weight_decay = weight_decay
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @one_blas_thread
    def fit(self, X, y, sample_weight=None):
        """Learn the machine.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the rows: 2 counts as two equal rows.

        Returns
        -------
        BoltzmannMachineClassifier
            The fitted estimator.
        """
        self._check_parameters()
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        places, weights = weighted_rows(np.arange(len(X)), sample_weight)
        X = X[places]
        self.classes_, labels = np.unique(y[places], return_inverse=True)
        shares = np.full(len(X), 1 / len(X)) if weights is None else shares_of(weights)
        centre, scale = _scaling(X, shares)
        problem = _Problem(
            (X - centre) / scale, labels, shares, len(self.classes_), self.n_hidden,
            self.weight_decay,
        )  # fmt: skip
        rng = np.random.default_rng(seed_sequence(self.random_state))
        found = optimize.minimize(
            problem.loss, problem.start(rng), jac=True, method="L-BFGS-B",
            options={
                "maxiter": self.max_iter, "maxfun": 20 * self.max_iter,
                "maxcor": MEMORY, "gtol": self.tol, "ftol": 1e-14,
            },
        )  # fmt: skip
        W, U, c, d = problem.parts(found.x)
        self.weights_ = W / scale[:, None]
        self.hidden_biases_ = c - centre @ self.weights_
        self.label_weights_, self.class_biases_ = U.copy(), d.copy()
        self.objective_, self.n_iter_ = -float(found.fun), int(found.nit)
        self.converged_ = bool(np.abs(found.jac).max() <= self.tol)
        if not self.converged_:
            warn_user(
                f"The fit has not converged after {self.n_iter_} iterations: the "
                f"largest entry of the gradient is {np.abs(found.jac).max():.2g}. "
                "Increase max_iter, or tol to accept it.",
                ConvergenceWarning,
            )
        return self

    def _check_parameters(self):
        check_number("n_hidden", self.n_hidden, Integral, 1)
        check_number("weight_decay", self.weight_decay, Real, 0)
        check_number("max_iter", self.max_iter, Integral, 1)
        check_number("tol", self.tol, Real, 0, strict=True)

    def predict_log_proba(self, X):
        """Return the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Log-probabilities, exact.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        fields = X @ self.weights_ + self.hidden_biases_
        return log_softmax(
            _free_energies(fields, self.label_weights_, self.class_biases_), axis=1
        )

    def predict_proba(self, X):
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities, exact.
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X):
        """Return the most probable class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        best = self.predict_log_proba(X).argmax(axis=1)
        return self.classes_[best]


class _Problem:
    """The penalised mean log-loss of labels and its gradient."""

    def __init__(self, X, labels, shares, n_classes, n_hidden, weight_decay):
        self.X, self.shares, self.weight_decay = X, shares, weight_decay
        self.targets = np.zeros((len(X), n_classes))
        self.targets[np.arange(len(X)), labels] = 1.0
        self.shapes = [
            (X.shape[1], n_hidden), (n_classes, n_hidden), (n_hidden,), (n_classes,),
        ]  # fmt: skip

    def parts(self, params):
        """Return W, U, c and d as views."""
        ends = np.cumsum([np.prod(shape) for shape in self.shapes])
        pieces = np.split(params, ends[:-1])
        return [p.reshape(s) for p, s in zip(pieces, self.shapes, strict=True)]

    def start(self, rng):
        """Return small weights, and class biases at the base rates."""
        params = np.zeros(sum(int(np.prod(shape)) for shape in self.shapes))
        W, U, _, d = self.parts(params)
        for weights in (W, U):
            scale = 0.5 / np.sqrt(max(weights.shape))
            weights[:] = scale * rng.standard_normal(weights.shape)
        d[:] = np.log(self.shares @ self.targets)
        return params

    def loss(self, params):
        """Return the loss and its gradient."""
        W, U, c, d = self.parts(params)
        fields = self.X @ W + c
        logs = log_softmax(_free_energies(fields, U, d), axis=1)
        value = -float(self.shares @ np.sum(self.targets * logs, axis=1))
        value += 0.5 * self.weight_decay * float(np.sum(W**2) + np.sum(U**2))
        slopes = (np.exp(logs) - self.targets) * self.shares[:, None]
        gradient = np.empty_like(params)
        to_W, to_U, to_c, to_d = self.parts(gradient)
        along = np.zeros_like(fields)
        for k, of_label in enumerate(U):
            means = expit(fields + of_label)
            means *= slopes[:, [k]]
            along += means
            to_U[k] = means.sum(axis=0)
        to_W[:] = self.X.T @ along + self.weight_decay * W
        to_U += self.weight_decay * U
        to_c[:], to_d[:] = along.sum(axis=0), slopes.sum(axis=0)
        return value, gradient


def _free_energies(fields, U, d):
    """Return the logarithm of the sum over hidden units for each row and label."""
    out = np.empty((len(fields), len(d)))
    for k, of_label in enumerate(U):
        out[:, k] = np.logaddexp(0, fields + of_label).sum(axis=1)
    return out + d


def _scaling(X, shares):
    """Return means and standard deviations of columns, 1 for constant ones."""
    centre = shares @ X
    scale = np.sqrt(shares @ (X - centre) ** 2)
    rounding = 10 * np.finfo(float).eps * np.abs(centre)
    return centre, np.where(scale > rounding, scale, 1.0)
