"""Restricted machine of real-valued outputs given inputs, with scikit-learn's face."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_array, check_consistent_length

from sktem.boltzmann.conditional.conditional_machines import LIMITS
from sktem.boltzmann.conditional.face import DOUBTS, ConditionalEstimator
from sktem.boltzmann.conditional.real_outputs import (
    ROOTS,
    RealOutputs,
    largest_roots,
    learned_decay,
)
from sktem.boltzmann.learning.row_weights import column_scaling, shared_rows
from sktem.e_step.blas_threads import one_blas_thread
from sktem.e_step.random import seed_sequence
from sktem.estimators.fit_warnings import warn_user
from sktem.estimators.parameters import Auto, Seed
from sktem.estimators.peers import judged_rows, warn_of_means
from sktem.estimators.runs import unchanged_by_errors
from sktem.exceptions import FitWarning
from sktem.validation import validate_data

__all__ = ["BoltzmannMachineRegressor"]


class BoltzmannMachineRegressor(RegressorMixin, ConditionalEstimator):
    """Restricted Boltzmann machine of real outputs and hidden units, given inputs.

    ``p(y, h | x)`` is proportional to ``exp(-(y - m)^2 / (2 s) + sum_j h_j (c_j + sum_i
    W_ij x_i + U_j (y - m) / s))`` with binary hidden units h and the line ``m = b +
    sum_i B_i x_i``; with several outputs, these terms are summed over them. Given h, y
    is normal with mean ``m + sum_j U_j h_j`` and variance s. Given x alone, y is a
    mixture of ``2**n_hidden`` normal distributions whose weights depend on x: it can
    bend, be wider for some x than for others, and have several modes. The hidden units
    make the outputs depend on each other given x. Inputs are not modelled. All states
    of the hidden units are summed, so that likelihoods, their gradient, means and draws
    are exact; the fit is an ascent by L-BFGS from the least squares line. Without
    hidden units it is linear regression.

    Parameters
    ----------
    n_hidden : int, default=8
        Number of hidden units, up to 12; each doubles the time of a fit.
    weight_decay : float or "auto", default="auto"
        Strength of the L2 penalty on W and U, relative to the mean log-likelihood of a
        row. The line is not penalised. Columns and outputs are centred and scaled
        internally. "auto" chooses among 30, 10, 3, 1, 0.3, 0.1 and 0.03, divided by the
        number of rows, by the likelihood of held-out rows in five folds of up to about
        1,000 rows in total; this takes several times as long as the fit. The largest
        value is kept unless another gains more than a standard error; with it, hidden
        units have hardly any effect.
    max_iter : int, default=5000
        Maximum number of iterations.
    tol : float, default=1e-4
        The fit has converged when no entry of the gradient is larger than this.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the starting weights, and of `sample`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_outputs, n_features)
        B.
    intercept_ : float or ndarray of shape (n_outputs,)
        b.
    noise_variance_ : float or ndarray of shape (n_outputs,)
        s. It is at least a millionth of the variance of the output. Where at least half
        of the outputs are equal to others and all lie on a grid, such as whole numbers,
        it is also at least the variance of rounding, a twelfth of the squared grid
        step.
    output_weights_ : ndarray of shape (n_hidden,) or (n_outputs, n_hidden)
        U: what a hidden unit adds to the mean of y.
    weights_ : ndarray of shape (n_features, n_hidden)
        W, for inputs on their original scale.
    hidden_biases_ : ndarray of shape (n_hidden,)
        c, for inputs on their original scale.
    weight_decay_ : float
        The strength of the penalty.
    objective_ : float
        Mean log-likelihood of the outputs of a row, less the penalty.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether no entry of the gradient is larger than `tol`.
    fitted_ : FittedOutputs
        The fitted machine, which the methods use.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns, if X is a data frame.

    See Also
    --------
    BoltzmannMachineClassifier : Outputs are labels.
    LatentBoltzmannMachine : Models all columns together.

    References
    ----------
    V. Mnih, H. Larochelle and G. E. Hinton, Conditional Restricted Boltzmann Machines
    for Structured Output Prediction, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import BoltzmannMachineRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (300, 1))
    >>> y = np.abs(X[:, 0]) + 0.05 * rng.normal(size=300)
    >>> machine = BoltzmannMachineRegressor(n_hidden=4, random_state=0).fit(X, y)
    >>> bool(machine.score(X, y) > 0.9)
    True
    """

    def __init__(
        self,
        n_hidden: int = 8,
        *,
        weight_decay: float | Auto = "auto",
        max_iter: int = 5000,
        tol: float = 1e-4,
        random_state: Seed = None,
    ):
        self.n_hidden = n_hidden
        self.weight_decay = weight_decay
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @unchanged_by_errors
    @one_blas_thread
    def fit(self, X, y, sample_weight=None):
        """Learn the machine.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Outputs.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the rows: 2 counts as two equal rows.

        Returns
        -------
        BoltzmannMachineRegressor
            The fitted estimator.
        """
        self._check_parameters(0)
        X, y = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True
        )
        X, y, shares, n_rows = shared_rows(X, y.astype(np.float64), sample_weight)
        self._warn_of_small_weights(len(X), n_rows)
        n_copies = 1.0 if sample_weight is not None else self._warned_copies(X, y)
        outputs = y.reshape(len(y), -1)
        inside, outside = column_scaling(X, shares), column_scaling(outputs, shares)
        self._warn_of_tails(X, inside[1])
        rows = (X - inside[0]) / inside[1], (outputs - outside[0]) / outside[1], shares
        sizes = X.shape[1], int(self.n_hidden), largest_roots(rows[1])
        seed = seed_sequence(self.random_state)
        decay = self.weight_decay
        if decay == "auto":
            decay = 0.0
            if self.n_hidden:
                n_distinct = n_rows / n_copies
                decay = learned_decay(sizes, rows, (X, outputs), n_distinct, seed)
        machine = RealOutputs(*sizes, float(decay))
        rng, most = np.random.default_rng(seed), int(self.max_iter)
        optimum = machine.learned_from_best(rng, rows, most, self.tol)
        self.weight_decay_ = machine.weight_decay
        self.fitted_ = FittedOutputs(machine, optimum.x, inside, outside, y.ndim > 1)
        self._learned(self.fitted_)
        objective = -float(optimum.fun) - float(np.log(outside[1]).sum())
        gradient = machine.slopes_within(optimum.x, optimum.jac)
        self._conclude(objective, optimum.nit, gradient)
        self._warn_of_noise(outputs)
        self._warn_of_errors(X, y, shares)
        n_equal = 1 / float(shares @ shares) / n_copies
        self._warn_of_few_rows(n_equal, 1 + X.shape[1])
        if self.n_hidden:
            self._warn_of_means(*rows)
        return self

    def _warn_of_noise(self, outputs):
        """Warn of outputs that vary, and have no more noise than must be."""
        fitted = self.fitted_
        *_, r = fitted.machine.parts(fitted.params)
        exact = np.flatnonzero((r > ROOTS.largest / 2) & (np.ptp(outputs, axis=0) > 0))
        if len(exact):
            warn_user(
                f"Output(s) {', '.join(map(str, exact))} have hardly any noise, less "
                "than two thousandths of their standard deviation. Unless they are "
                "functions of the inputs, there are too few rows for the columns, or "
                "few values of an output, and new rows can be very unlikely. Pass more "
                "rows or fewer columns; of few values take BoltzmannMachineClassifier.",
                FitWarning,
            )

    def _warn_of_errors(self, X, y, shares):
        """Warn of outputs with more errors far out than normal densities allow."""
        means, stds = self.fitted_.moments(X)
        kurtosis = (shares @ ((y - means) / stds) ** 4).max()
        if kurtosis > DOUBTS.kurtosis:
            warn_user(
                "The outputs have errors far out, more than normal densities allow "
                f"(a kurtosis of {kurtosis:.3g}, 3 where normal): a few rows decide "
                "the fit. Take TransformedTargetRegressor with QuantileTransformer("
                'output_distribution="normal") or logarithms as its transformer, or '
                "leave these rows out.",
                FitWarning,
            )

    def _warn_of_means(self, X, y, shares):
        """Warn of means that are behind those of a kernel ridge regression."""
        places = judged_rows(X, y)
        if places is None:
            return
        X, y = X[places], y[places]
        means, _ = self.fitted_.machine.moments(self.fitted_.params, X)
        advice = "Increase n_hidden or pass more rows"
        warn_of_means(X, y, means, shares[places], advice)

    def _warn_of_few_rows(self, n, n_coefficients):
        """Warn of rows that are few for the line, whose errors look smaller for it.

        Of least squares on normal columns, new squared errors are that many times the
        variance of the residuals.
        """
        left = n - n_coefficients - 1
        if left <= 0:
            return  # they have no noise, which is reported
        times = (1 + n_coefficients / left) * n / (left + 1)
        if times > 1 + 2 * DOUBTS.less_likely:
            warn_user(
                f"Lines of {n_coefficients} coefficients follow the noise of {n:.0f} "
                f"rows: squared errors of new rows are about {times:.2g} times those "
                f"of these, and new outputs about {0.5 * (times - 1):.2g} nats less "
                "likely than objective_ says. Pass more rows, or fewer columns.",
                FitWarning,
            )

    def _learned(self, fitted):
        """Set the attributes that parameters mean."""
        (centre, scale), (middle, spread) = fitted.inside, fitted.outside
        W, V, c, B, d, r = fitted.machine.parts(fitted.params)
        self.weights_ = W / scale[:, None]
        self.hidden_biases_ = c - centre @ self.weights_
        stds = spread / r
        coef, outputs = (B * stds / scale[:, None]).T, V * stds[:, None]
        intercept, variances = middle + stds * d - coef @ centre, stds**2
        if not fitted.several:
            (coef,), (outputs,) = coef, outputs
            intercept, variances = float(intercept[0]), float(variances[0])
        self.coef_, self.intercept_ = coef, intercept
        self.noise_variance_, self.output_weights_ = variances, outputs

    def _check_parameters(self, fewest_hidden):
        super()._check_parameters(fewest_hidden)
        if self.n_hidden > LIMITS.most_hidden:
            raise ValueError(
                f"n_hidden must be at most {LIMITS.most_hidden}, since all states of "
                f"the hidden units are summed; got {self.n_hidden}"
            )

    def _outputs(self, X, y):
        """Return outputs as a checked array."""
        y = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
        check_consistent_length(X, y)
        return y

    def predict(self, X, return_std=False):
        """Return the mean of the outputs given inputs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.
        return_std : bool, default=False
            Whether to return standard deviations as well.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Means, with the hidden units summed out.
        std : ndarray of the same shape
            Standard deviations of y given x, if `return_std`.
        """
        X = self._inputs(X)
        mean, std = self.fitted_.moments(X)
        return (mean, std) if return_std else mean


@dataclass(frozen=True)
class FittedOutputs:
    """A machine with its parameters, for inputs and outputs as they are given.

    Attributes
    ----------
    machine : RealOutputs
        The machine, of centred and scaled inputs and outputs.
    params : ndarray
        Its parameters.
    inside, outside : tuple of ndarray
        Centres and scales of the inputs, and of the outputs.
    several : bool
        Whether outputs come as a matrix, one column for each.
    """

    machine: RealOutputs
    params: Any
    inside: Any
    outside: Any
    several: bool

    def _scaled(self, X):
        centre, scale = self.inside
        return (X - centre) / scale

    def _given(self, values):
        """Return a matrix of outputs as they were given: one alone is a vector."""
        return values if self.several else values[:, 0]

    def moments(self, X):
        """Return means and standard deviations of outputs given inputs."""
        middle, spread = self.outside
        means, variances = self.machine.moments(self.params, self._scaled(X))
        stds = spread * np.sqrt(variances)
        return self._given(middle + spread * means), self._given(stds)

    def log_likelihoods(self, X, y):
        """Return the log-density of the outputs of each row."""
        middle, spread = self.outside
        y = y.reshape(len(y), -1)
        if y.shape[1] != len(middle):
            raise ValueError(f"y has {y.shape[1]} outputs, not {len(middle)}")
        scaled = (y - middle) / spread
        logs = self.machine.log_likelihoods(self.params, self._scaled(X), scaled)
        return logs - np.log(spread).sum()

    def draws(self, X, rng):
        """Return outputs drawn given inputs."""
        middle, spread = self.outside
        drawn = self.machine.draws(self.params, self._scaled(X), rng)
        return self._given(middle + spread * drawn)
