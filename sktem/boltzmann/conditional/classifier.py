"""Restricted machine of labels given inputs, with scikit-learn's face."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from sktem.boltzmann.conditional.conditional_machines import (
    ConditionalMachine,
    conditional_machine,
)
from sktem.boltzmann.conditional.decays import DecaySearch
from sktem.boltzmann.conditional.face import ConditionalEstimator
from sktem.boltzmann.conditional.labels import Labels
from sktem.boltzmann.lbfgs import minimised
from sktem.boltzmann.learning.row_weights import column_scaling, shared_rows, shares_of
from sktem.boltzmann.learning.state import StepMemory
from sktem.boltzmann.learning.steps import AdaptedSteps
from sktem.e_step.blas_threads import one_blas_thread
from sktem.e_step.random import seed_sequence
from sktem.estimators.fit_warnings import warn_user
from sktem.estimators.parameters import Auto, Seed
from sktem.estimators.peers import PEERS, bayes_losses, is_better
from sktem.estimators.runs import unchanged_by_errors, undone_if_refused
from sktem.exceptions import FitWarning
from sktem.loop.batch_means import BatchMeans, OrderRule
from sktem.validation import validate_data

__all__ = ["BoltzmannMachineClassifier"]


@dataclass(frozen=True)
class StreamSteps:
    """Updates of a stream, with steps adapted to each parameter.

    Attributes
    ----------
    batch_size : int
        Rows of an update.
    step : float
        Step of each parameter times the root of the number of inputs.
    steps : AdaptedSteps
        How the step of each parameter is adapted.
    past : float
        Share of the past in the average of the gradient.
    weight_decay : float
        Weight decay, since the number of rows is not known.
    order : OrderRule
        When labels come in an order.
    """

    batch_size: int = 50
    step: float = 0.15
    steps: AdaptedSteps = AdaptedSteps(root=1e-8)
    past: float = 0.9
    weight_decay: float = 0.0003
    order: OrderRule = OrderRule(apart=3.0)


class BoltzmannMachineClassifier(ClassifierMixin, ConditionalEstimator):
    """Restricted Boltzmann machine of labels and hidden units, given inputs.

    ``p(y, h | x)`` is proportional to ``exp(d_y + sum_j h_j (c_j + sum_i W_ij x_i +
    U_yj))`` with binary hidden units h. Inputs are not modelled, so they may be any
    numbers. The hidden units are summed out exactly: ``p(y | x)`` is proportional to
    ``exp(d_y + sum_j log(1 + exp(c_j + (x W)_j + U_yj)))``. The log-likelihood
    (Larochelle and Bengio 2008) is maximised by L-BFGS, without any sampling, from four
    random starts, of which the best is kept.

    With several outputs, y of shape (n_samples, n_outputs), such as several labels of
    an image, the terms in d and U are sums over the outputs, and the hidden units make
    the outputs depend on each other given x. Everything remains exact with up to 12
    hidden units, or if there are few outputs (the number of joint labels of all
    outputs, times the hidden units, is up to about 2,000). Otherwise each output is
    learned given the others (pseudo-likelihood), and probabilities are averages along
    Gibbs chains.

    Parameters
    ----------
    n_hidden : int, default=32
        Number of hidden units.
    weight_decay : float or "auto", default="auto"
        Strength of the L2 penalty on W and U, relative to the mean log-likelihood of a
        row. Columns are centred and scaled internally. "auto" chooses among 30, 10, 3,
        1, 0.3 and 0.1, divided by the number of rows, by the likelihood of held-out
        labels in five folds of up to about 1,000 rows in total; this takes several
        times as long as the fit. The largest value is kept unless another gains more
        than a standard error; with it, probabilities are mostly the base rates. Where
        likelihoods are not exact, "auto" is 1 over the number of rows, and in
        ``partial_fit``, which does not know that number, 0.0003.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-4
        The fit has converged when no entry of the gradient is larger than this.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the starting weights.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,) or list of ndarray
        Labels; with several outputs, a list with those of each.
    weights_ : ndarray of shape (n_features, n_hidden)
        W, for inputs on their original scale.
    label_weights_ : ndarray of shape (n_classes, n_hidden) or list of ndarray
        U.
    hidden_biases_ : ndarray of shape (n_hidden,)
        c, for inputs on their original scale.
    class_biases_ : ndarray of shape (n_classes,) or list of ndarray
        d.
    n_outputs_ : int
        Outputs.
    weight_decay_ : float
        The strength of the penalty.
    is_exact_ : bool
        Whether likelihoods and probabilities are exact.
    objective_ : float
        Mean log-likelihood of the labels of a row, less the penalty (``fit`` only).
        This is what fits compare; the likelihood of the same rows alone is larger with
        a weaker penalty. Where it is not exact, it is the sum of those of each output
        given the others.
    n_iter_ : int
        Number of iterations from the best start (``fit`` only).
    converged_ : bool
        Whether no entry of the gradient is larger than `tol` (``fit`` only).
    n_samples_seen_ : int
        Number of rows seen by ``partial_fit``.
    fitted_ : FittedConditional
        The fitted machine, which the methods use.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns, if X is a data frame.

    See Also
    --------
    LatentBoltzmannMachine : Models all columns together.
    BoltzmannMachineRegressor : Outputs are real numbers.

    References
    ----------
    H. Larochelle and Y. Bengio, Classification using Discriminative Restricted
    Boltzmann Machines, 2008.

    V. Mnih, H. Larochelle and G. E. Hinton, Conditional Restricted Boltzmann Machines
    for Structured Output Prediction, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import BoltzmannMachineClassifier
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> machine = BoltzmannMachineClassifier(4, weight_decay=0.001, random_state=0)
    >>> machine.fit(X, ["same", "other", "other", "same"]).predict(X).tolist()
    ['same', 'other', 'other', 'same']
    """

    #: Sizes of the fields of hidden units at the starts of a fit. Small ones are near a
    #: saddle at which labels depend linearly on inputs, and many ascents end there.
    #: While a penalty is chosen the first is the only one.
    start_sizes = (2.0, 2.0, 1.0, 0.125)
    #: How rows left out choose a penalty.
    decay_search = DecaySearch((30.0, 10.0, 3.0, 1.0, 0.3, 0.1), tol=1e-4)
    _stream_steps = StreamSteps()

    def __init__(
        self,
        n_hidden: int = 32,
        *,
        weight_decay: float | Auto = "auto",
        max_iter: int = 1000,
        tol: float = 1e-4,
        random_state: Seed = None,
    ):
        self.n_hidden = n_hidden
        self.weight_decay = weight_decay
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: y may have several outputs."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    @unchanged_by_errors
    @one_blas_thread
    def fit(self, X, y, sample_weight=None):
        """Learn the machine.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Labels.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the rows: 2 counts as two equal rows.

        Returns
        -------
        BoltzmannMachineClassifier
            The fitted estimator.
        """
        self._check_parameters(1)
        X, y, shares, n_rows = self._checked(X, y, sample_weight, reset=True)
        self._warn_of_small_weights(len(X), n_rows)
        if sample_weight is None:
            n_rows /= self._warned_copies(X, y)
        labels, (centre, scale) = Labels.of(y), column_scaling(X, shares)
        self._warn_of_tails(X, scale)
        rows = ((X - centre) / scale, labels.codes(y), shares)
        seed = seed_sequence(self.random_state)
        decay = self.weight_decay
        if decay == "auto":
            decay = self._learned_decay(labels, X, rows, n_rows, seed)
        machine, rng = self._new_machine(labels, decay), np.random.default_rng(seed)
        starts = [machine.start(*rows[1:], rng, size) for size in self.start_sizes]
        optimum = _best_end(machine, starts, rows, self.max_iter, self.tol)
        self._learned(machine, optimum.x, centre, scale, int(rng.integers(2**31)))
        self._conclude(-optimum.fun, optimum.nit, optimum.jac)
        self._moments = None
        self.__dict__.pop("n_samples_seen_", None)
        return self

    @undone_if_refused
    @one_blas_thread
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Learn from more rows, with one adapted step for every fifty of them.

        The first rows also determine how columns are centred and scaled, unless ``fit``
        has done so. Rows must arrive in random order; a ``FitWarning`` says if labels
        do not.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Labels.
        classes : array-like of shape (n_classes,) or list of array-like, default=None
            All labels that can occur; with several outputs, a list with those of each.
            Required in the first call.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the rows.

        Returns
        -------
        BoltzmannMachineClassifier
            The fitted estimator.
        """
        self._check_parameters(1)
        first = not hasattr(self, "fitted_")
        X, y, shares, _ = self._checked(X, y, sample_weight, reset=first)
        decay, auto = self.weight_decay, self.weight_decay == "auto"
        rule = self._stream_steps
        if first:
            decay = rule.weight_decay if auto else decay
            machine = self._new_machine(_given_classes(classes, y), decay)
            codes = machine.labels.codes(y)
            centre, scale = column_scaling(X, shares)
            self._warn_of_tails(X, scale)
            rng = np.random.default_rng(seed_sequence(self.random_state))
            params = machine.start(codes, shares, rng)
            seed = int(rng.integers(2**31))
        else:
            known = self.fitted_
            if self.n_hidden != known.machine.n_hidden:
                raise ValueError("n_hidden cannot change on a stream: use fit")
            decay = known.machine.weight_decay if auto else decay
            machine = self._new_machine(known.machine.labels, decay)
            params, centre = known.params.copy(), known.centre
            scale, seed = known.scale, known.seed
            codes = machine.labels.codes(y)
        moments = getattr(self, "_moments", None)
        if moments is None:
            moments = StepMemory()
            self._moments, self.n_samples_seen_ = moments, 0
            self._label_means = BatchMeans(rule.batch_size, rule.order)
        self._warn_of_order(machine.labels.indicators(codes))
        rows = (X - centre) / scale
        for begin in range(0, len(rows), rule.batch_size):
            part = slice(begin, begin + rule.batch_size)
            batch = rows[part], codes[part], shares_of(shares[part])
            gradient = machine.loss(params, *batch)[1]
            way, share = rule.steps.direction(moments, gradient, rule.past)
            params -= rule.step / X.shape[1] ** 0.5 / share * way
        self._learned(machine, params, centre, scale, seed)
        for name in ("objective_", "n_iter_", "converged_"):
            self.__dict__.pop(name, None)
        self.n_samples_seen_ += len(rows)
        return self

    def _warn_of_order(self, indicators):
        """Warn once if labels of a stream come in an order."""
        means = self._label_means
        told = means.is_ordered
        means.add(indicators)
        if means.is_ordered and not told:
            warn_user(
                "Labels of the stream come in an order, as sorted ones do: the last "
                "ones replace what was learned of those before. Shuffle the rows.",
                FitWarning,
            )

    def _checked(self, X, y, sample_weight, reset):
        """Return rows of positive weight, their labels, shares and all weights' sum."""
        X, y = validate_data(
            self, X, y, reset=reset, dtype=np.float64, multi_output=True
        )
        y = y.toarray() if sparse.issparse(y) else y
        check_classification_targets(y)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        return shared_rows(X, y, sample_weight)

    def _new_machine(self, labels, decay):
        """Return the machine of labels for as many inputs as there are."""
        return conditional_machine(
            labels, self.n_features_in_, int(self.n_hidden), float(decay)
        )

    def _learned_decay(self, labels, X, rows, n_rows, seed):
        """Return the weight decay under which rows left out are most likely."""
        if not self._new_machine(labels, 0.0).is_exact:
            return 1 / n_rows
        search = self.decay_search

        def learn(decay, start, *train, sizes=self.start_sizes[:1]):
            machine, rng = self._new_machine(labels, decay), np.random.default_rng(seed)
            starts = [start]
            if start is None:
                starts = [machine.start(*train[1:], rng, size) for size in sizes]
            end = _best_end(machine, starts, train, search.max_iter, search.tol)
            return machine, end.x

        parts = search.folds_of(X, rows[1], n_rows)
        decay, logs = search.choose(learn, rows, parts, n_rows)
        is_judged = not labels.several and n_rows >= PEERS.fewest
        if is_judged and _doubt_of_labels(rows, -logs, parts):
            # By the best of as many starts as the fit has.
            again = replace(search, penalties=(decay * n_rows,))
            learn_best = partial(learn, sizes=self.start_sizes)
            _, logs = again.choose(learn_best, rows, parts, n_rows)
            if doubt := _doubt_of_labels(rows, -logs, parts):
                warn_user(doubt, FitWarning)
        return decay

    def _learned(self, machine, params, centre, scale, seed):
        """Set the attributes that parameters mean."""
        labels, self.weight_decay_ = machine.labels, machine.weight_decay
        self.fitted_ = FittedConditional(machine, params, centre, scale, seed)
        W, U, c, d = machine.parts(params)
        self.weights_ = W / scale[:, None]
        self.hidden_biases_ = c - centre @ self.weights_
        self.label_weights_ = [U[columns].copy() for columns in labels.columns]
        self.class_biases_ = [d[columns].copy() for columns in labels.columns]
        self.classes_, self.n_outputs_ = list(labels.classes), len(labels.classes)
        if not labels.several:
            (self.classes_,) = self.classes_
            (self.label_weights_,) = self.label_weights_
            (self.class_biases_,) = self.class_biases_
        self.is_exact_ = machine.is_exact

    def predict_log_proba(self, X):
        """Return the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or list of ndarray
            Log-probabilities, see `predict_proba`.
        """
        X = self._inputs(X)
        return self.fitted_.machine.labels.split(self.fitted_.log_columns(X))

    def predict_proba(self, X):
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or list of ndarray
            Probabilities; with several outputs, a list with those of each output, the
            others summed out. Exact if `is_exact_`.
        """
        logs = self.predict_log_proba(X)
        return [np.exp(x) for x in logs] if isinstance(logs, list) else np.exp(logs)

    def predict(self, X):
        """Return the most probable class of each output.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Labels.
        """
        X = self._inputs(X)
        logs, labels = self.fitted_.log_columns(X), self.fitted_.machine.labels
        best = [c.start + logs[:, c].argmax(axis=1) for c in labels.columns]
        return labels.decoded(np.stack(best, axis=1))

    def score(self, X, y, sample_weight=None):
        """Return the share of rows whose labels are all predicted correctly.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Labels.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the rows.

        Returns
        -------
        float
            Accuracy.
        """
        predicted = self.predict(X)
        if predicted.ndim == 1:
            return super().score(X, y, sample_weight)
        right = (predicted == self._outputs(X, y)).all(axis=1)
        return float(np.average(right, weights=sample_weight))


@dataclass(frozen=True)
class FittedConditional:
    """A machine with its parameters, for inputs on their original scale.

    Attributes
    ----------
    machine : ConditionalMachine
        The machine, of centred and scaled inputs.
    params : ndarray
        Its parameters.
    centre, scale : ndarray of shape (n_features,)
        Of the inputs.
    seed : int
        Seed of chains, so that probabilities are always the same.
    """

    machine: ConditionalMachine
    params: Any
    centre: Any
    scale: Any
    seed: int

    def _scaled(self, X):
        return (X - self.centre) / self.scale

    def log_columns(self, X):
        """Return log-probabilities of all classes, by column of the labels."""
        return self.machine.log_columns(self.params, self._scaled(X), self.seed)

    def log_likelihoods(self, X, y):
        """Return the log-probability of the labels of each row."""
        codes = self.machine.labels.codes(y)
        return self.machine.log_likelihoods(self.params, self._scaled(X), codes)

    def draws(self, X, rng):
        """Return labels drawn given inputs."""
        drawn = self.machine.draws(self.params, self._scaled(X), rng)
        return self.machine.labels.decoded(drawn)


def _best_end(machine, starts, rows, max_iter, tol):
    """Return the end of the smallest loss of ascents from several starts."""
    ends = [minimised(machine.loss, start, rows, max_iter, tol) for start in starts]
    return min(ends, key=lambda end: end.fun)


def _doubt_of_labels(rows, losses, parts) -> str | None:
    """Return why naive Bayes predicts labels of rows left out better, or None."""
    X, codes, shares = rows
    peer = bayes_losses(X, codes[:, 0], shares, parts)
    judged = np.isfinite(losses) & np.isfinite(peer)
    if judged.sum() < PEERS.fewest:
        return None
    shares, losses, peer = shares_of(shares[judged]), losses[judged], peer[judged]
    if not is_better(losses - peer, shares, PEERS.nats, PEERS.errors):
        return None
    return (
        f"On rows left out the log-loss is {shares @ losses:.2g}, and that of Gaussian "
        f"naive Bayes {shares @ peer:.2g}: classes differ by variances or in many "
        "columns, and the rows are too few to learn that here. Pass more rows, squares "
        "of the columns beside them, or take GaussianNB."
    )


def _given_classes(classes, y):
    """Return the labels that the first call of `partial_fit` names."""
    if classes is None:
        raise ValueError("classes must be given at the first call of partial_fit")
    if y.ndim == 1:
        return Labels((np.unique(classes),), False)
    return Labels(tuple(np.unique(part) for part in classes), True)
