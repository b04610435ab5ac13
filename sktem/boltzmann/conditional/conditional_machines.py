"""Restricted machines of labels and hidden units given inputs.

``p(y, h | x)`` is proportional to ``exp(sum_k d_k(y_k) + sum_j h_j (c_j + (x W)_j +
sum_k U_kj(y_k)))`` over the outputs k. They differ in what is summed: all labels, all
states of the hidden units, or the labels of one output at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scipy.special import expit, log_softmax, logsumexp, softmax

from sktem.boltzmann.normalisation.enumeration import enumerate_states

__all__ = ["ConditionalMachine", "conditional_machine"]

#: Most labels of all outputs together, times hidden units, and most hidden units, whose
#: states are summed.
MOST_TERMS = 2048
MOST_HIDDEN = 12
#: Least base rate of a class at the start.
LEAST_RATE = 1e-3
#: Numbers of a temporary.
BLOCK = 2**21
#: Sweeps of the chains of labels where neither can be summed.
SWEEPS = 300


def conditional_machine(labels, n_inputs, n_hidden, weight_decay):
    """Return the machine with the cheapest exact sums, or that of pseudo-likelihood."""
    terms, by_hidden = labels.n_states * n_hidden, n_hidden <= MOST_HIDDEN
    kind: type[ConditionalMachine] = HiddenSums if by_hidden else PseudoLikelihood
    most = min(MOST_TERMS, 2**n_hidden) if by_hidden else MOST_TERMS
    if len(labels.classes) == 1 or terms <= most:
        kind = LabelSums
    return kind(labels, n_inputs, n_hidden, weight_decay)


class ConditionalMachine(ABC):
    """The penalised mean log-loss of labels, its gradient, and probabilities.

    Parameters
    ----------
    labels : Labels
        The classes of the outputs.
    n_inputs, n_hidden : int
        Inputs and hidden units.
    weight_decay : float
        Strength of the L2 penalty on W and U.
    """

    is_exact = True

    def __init__(self, labels, n_inputs, n_hidden, weight_decay):
        self.labels, self.weight_decay = labels, weight_decay
        self.shapes = [
            (n_inputs, n_hidden), (labels.n_columns, n_hidden), (n_hidden,),
            (labels.n_columns,),
        ]  # fmt: skip

    def parts(self, params):
        """Return W, U, c and d as views."""
        ends = np.cumsum([np.prod(shape) for shape in self.shapes])
        pieces = np.split(params, ends[:-1])
        return [p.reshape(s) for p, s in zip(pieces, self.shapes, strict=True)]

    def start(self, codes, shares, rng, size=0.5):
        """Return weights that give fields of a size, and biases at the base rates."""
        params = np.zeros(sum(int(np.prod(shape)) for shape in self.shapes))
        W, U, _, d = self.parts(params)
        for weights, n_inputs in ((W, len(W)), (U, 2)):
            scale = size / np.sqrt(n_inputs)
            weights[:] = scale * rng.standard_normal(weights.shape)
        rates = shares @ self.labels.indicators(codes)
        d[:] = np.log(np.maximum(rates, LEAST_RATE))
        return params

    def loss(self, params, X, codes, shares):
        """Return the loss of rows, whose shares add up to 1, and its gradient."""
        W, U, c, _ = self.parts(params)
        gradient = np.zeros_like(params)
        to_W, to_U, to_c, _ = self.parts(gradient)
        fields = X @ W + c
        value, along = self.slopes(params, fields, codes, shares, gradient)
        value += 0.5 * self.weight_decay * float(np.sum(W**2) + np.sum(U**2))
        to_W[:] = X.T @ along + self.weight_decay * W
        to_U += self.weight_decay * U
        to_c[:] = along.sum(axis=0)
        return value, gradient

    @abstractmethod
    def slopes(self, params, fields, codes, shares, gradient):
        """Return the loss and its slopes along fields; add those of U and d."""

    @abstractmethod
    def probabilities(self, params, fields, rng):
        """Return the probability of each class of each output, by column."""

    def log_columns(self, params, fields, rng):
        """Return the logarithms of `probabilities`."""
        with np.errstate(divide="ignore"):
            return np.log(self.probabilities(params, fields, rng))

    @abstractmethod
    def draws(self, params, fields, rng):
        """Return codes of labels drawn given fields."""

    def log_likelihoods(self, params, fields, codes):
        """Return the log-probability of the labels of each row."""
        raise ValueError(
            "the probability of labels together is out of reach: it needs "
            f"n_hidden <= {MOST_HIDDEN} or fewer outputs"
        )


class LabelSums(ConditionalMachine):
    """Sums over all labels; the hidden units are summed one by one."""

    def __init__(self, *options):
        super().__init__(*options)
        self.states = self.labels.indicators(self.labels.all_codes())

    def log_probabilities(self, params, fields):
        """Return the log-probability of all labels, (n, n_states)."""
        _, U, _, d = self.parts(params)
        energies = free_energies(fields, self.states @ U)
        return log_softmax(energies + self.states @ d, axis=1)

    def log_likelihoods(self, params, fields, codes):
        """Return the log-probability of the labels of each row."""
        logs = self.log_probabilities(params, fields)
        return logs[np.arange(len(logs)), self.labels.state_numbers(codes)]

    def slopes(self, params, fields, codes, shares, gradient):
        """Return the loss and its slopes along fields; add those of U and d."""
        U = self.states @ self.parts(params)[1]
        logs = self.log_probabilities(params, fields)
        seen = np.arange(len(logs)), self.labels.state_numbers(codes)
        value = -float(shares @ logs[seen])
        slopes = np.exp(logs)
        slopes[seen] -= 1.0
        slopes *= shares[:, None]
        along, to_states = np.zeros_like(fields), np.empty_like(U)
        for k, of_labels in enumerate(U):
            means = expit(fields + of_labels)
            means *= slopes[:, [k]]
            along += means
            to_states[k] = means.sum(axis=0)
        _, to_U, _, to_d = self.parts(gradient)
        to_U += self.states.T @ to_states
        to_d += slopes.sum(axis=0) @ self.states
        return value, along

    def probabilities(self, params, fields, rng):
        """Return the probability of each class of each output, by column."""
        return np.exp(self.log_probabilities(params, fields)) @ self.states

    def log_columns(self, params, fields, rng):
        """Return the logarithms of `probabilities`."""
        if len(self.labels.classes) > 1:
            return super().log_columns(params, fields, rng)
        return self.log_probabilities(params, fields)

    def draws(self, params, fields, rng):
        """Return codes of labels drawn given fields."""
        drawn = draw_rows(np.exp(self.log_probabilities(params, fields)), rng)
        return self.labels.all_codes()[drawn]


class HiddenSums(ConditionalMachine):
    """Sums over all states of the hidden units, given which outputs are independent."""

    def __init__(self, *options):
        super().__init__(*options)
        self.states = enumerate_states(self.shapes[2][0])

    def given_states(self, params):
        """Return log-sums over the outputs and probabilities of the classes."""
        _, U, _, d = self.parts(params)
        return label_sums(self.labels, self.states @ U.T + d)

    def blocks(self, n):
        """Yield slices of rows."""
        size = max(1, BLOCK // len(self.states))
        for begin in range(0, n, size):
            yield slice(begin, begin + size)

    def log_likelihoods(self, params, fields, codes):
        """Return the log-probability of the labels of each row."""
        _, U, _, d = self.parts(params)
        sums, _ = self.given_states(params)
        of_labels = self.labels.indicators(codes)
        out = np.logaddexp(0, fields + of_labels @ U).sum(axis=1) + of_labels @ d
        for rows in self.blocks(len(fields)):
            out[rows] -= logsumexp(fields[rows] @ self.states.T + sums, axis=1)
        return out

    def slopes(self, params, fields, codes, shares, gradient):
        """Return the loss and its slopes along fields; add those of U and d."""
        _, U, _, d = self.parts(params)
        _, to_U, _, to_d = self.parts(gradient)
        sums, given = self.given_states(params)
        of_labels = self.labels.indicators(codes)
        inside = fields + of_labels @ U
        values = np.logaddexp(0, inside).sum(axis=1) + of_labels @ d
        along = -expit(inside) * shares[:, None]
        to_U += of_labels.T @ along
        to_d -= shares @ of_labels
        mass = np.zeros(len(self.states))
        for rows in self.blocks(len(fields)):
            exponents = fields[rows] @ self.states.T
            exponents += sums
            largest = exponents.max(axis=1, keepdims=True)
            weights = np.exp(exponents - largest)
            totals = weights.sum(axis=1)
            values[rows] -= largest[:, 0] + np.log(totals)
            weights *= (shares[rows] / totals)[:, None]
            along[rows] += weights @ self.states
            mass += weights.sum(axis=0)
        to_U += (given * mass[:, None]).T @ self.states
        to_d += mass @ given
        return -float(shares @ values), along

    def probabilities(self, params, fields, rng):
        """Return the probability of each class of each output, by column."""
        sums, given = self.given_states(params)
        out = np.empty((len(fields), self.labels.n_columns))
        for rows in self.blocks(len(fields)):
            out[rows] = softmax(fields[rows] @ self.states.T + sums, axis=1) @ given
        return out

    def draws(self, params, fields, rng):
        """Return codes of labels drawn given fields."""
        sums, given = self.given_states(params)
        states = np.empty(len(fields), np.int64)
        for rows in self.blocks(len(fields)):
            weights = softmax(fields[rows] @ self.states.T + sums, axis=1)
            states[rows] = draw_rows(weights, rng)
        return draw_labels(self.labels, given[states], rng)


class PseudoLikelihood(ConditionalMachine):
    """Learns each output given the others, and answers by Gibbs chains."""

    is_exact = False

    def slopes(self, params, fields, codes, shares, gradient):
        """Return the loss and its slopes along fields; add those of U and d."""
        _, U, _, d = self.parts(params)
        _, to_U, _, to_d = self.parts(gradient)
        everything = fields + self.labels.indicators(codes) @ U
        value, total = 0.0, np.zeros_like(fields)
        rows = np.arange(len(fields))
        for k, columns in enumerate(self.labels.columns):
            own = codes[:, k]
            others = everything - U[own]
            logs = log_softmax(free_energies(others, U[columns]) + d[columns], axis=1)
            place = rows, own - columns.start
            value -= float(shares @ logs[place])
            slopes = np.exp(logs)
            slopes[place] -= 1.0
            slopes *= shares[:, None]
            to_d[columns] += slopes.sum(axis=0)
            along = np.zeros_like(fields)
            for column in range(columns.start, columns.stop):
                means = expit(others + U[column])
                means *= slopes[:, [column - columns.start]]
                along += means
                to_U[column] += means.sum(axis=0)
            # The others do not hold the class of the output itself.
            np.subtract.at(to_U, own, along)
            total += along
        to_U += self.labels.indicators(codes).T @ total
        return value, total

    def probabilities(self, params, fields, rng):
        """Return the probability of each class, by column: a mean over chains."""
        total = np.zeros((len(fields), self.labels.n_columns))
        for sweep, (given, _) in enumerate(self._sweeps(params, fields, rng)):
            if sweep >= SWEEPS // 2:
                total += given
        return total / (SWEEPS - SWEEPS // 2)

    def draws(self, params, fields, rng):
        """Return codes of labels at the ends of chains."""
        for _, drawn in self._sweeps(params, fields, rng):
            codes = drawn
        return codes

    def _sweeps(self, params, fields, rng):
        """Yield probabilities of labels given hidden units, and draws from them."""
        _, U, _, d = self.parts(params)
        means = expit(fields + softmax(d) @ U)
        for _ in range(SWEEPS):
            hidden = (rng.random(means.shape) < means).astype(np.float64)
            _, given = label_sums(self.labels, hidden @ U.T + d)
            drawn = draw_labels(self.labels, given, rng)
            yield given, drawn
            means = expit(fields + self.labels.indicators(drawn) @ U)


def free_energies(fields, U):
    """Return the logarithm of the sum over hidden units for each row and label."""
    out = np.empty((len(fields), len(U)))
    for k, of_label in enumerate(U):
        out[:, k] = np.logaddexp(0, fields + of_label).sum(axis=1)
    return out


def label_sums(labels, logits):
    """Return log-sums of the classes, added over outputs, and their probabilities."""
    starts = [columns.start for columns in labels.columns]
    largest = np.maximum.reduceat(logits, starts, axis=1)
    given = np.exp(logits - np.repeat(largest, labels.sizes, axis=1))
    totals = np.add.reduceat(given, starts, axis=1)
    given /= np.repeat(totals, labels.sizes, axis=1)
    return (largest + np.log(totals)).sum(axis=1), given


def draw_labels(labels, given, rng):
    """Return codes of labels drawn from their probabilities, by column."""
    starts, sizes = [columns.start for columns in labels.columns], labels.sizes
    # The probabilities of output k take cumulated sums from k to k + 1.
    heights = np.arange(len(sizes)) + rng.random((len(given), len(sizes)))
    below = np.cumsum(given, axis=1) <= np.repeat(heights, sizes, axis=1)
    passed = np.add.reduceat(below.astype(np.int64), starts, axis=1)
    return starts + np.minimum(passed, np.array(sizes) - 1)


def draw_rows(weights, rng):
    """Return a column for each row, with the probabilities in it."""
    sums = np.cumsum(weights, axis=1)
    found = (rng.random((len(sums), 1)) * sums[:, -1:] >= sums).sum(axis=1)
    return np.minimum(found, weights.shape[1] - 1)
