"""Restricted machines of labels and hidden units given inputs.

``p(y, h | x)`` is proportional to ``exp(sum_k d_k(y_k) + sum_j h_j (c_j + (x W)_j +
sum_k U_kj(y_k)))`` over the outputs k. They differ in what is summed: all labels, all
states of the hidden units, or the labels of one output at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple
from zlib import crc32

import numpy as np
from scipy.special import expit, softmax

from sktem.boltzmann.lbfgs import Parts
from sktem.boltzmann.machines.enumeration import enumerate_states
from sktem.boltzmann.sums import blocks, hidden_sums, log_sums, state_slopes, state_sums
from sktem.kernels.counter import mixed

__all__ = ["LIMITS", "ConditionalMachine", "conditional_machine"]


class ConditionalLimits(NamedTuple):
    """Limits to exact sums over labels and hidden units, and sweeps beyond them.

    Attributes
    ----------
    most_terms, most_hidden : int
        Most labels of all outputs together, times hidden units, and most hidden units,
        whose states are summed.
    least_rate : float
        Least base rate of a class at the start.
    sweeps : int
        Sweeps of the chains of labels where neither can be summed.
    """

    most_terms: int = 2048
    most_hidden: int = 12
    least_rate: float = 1e-3
    sweeps: int = 300


LIMITS = ConditionalLimits()


def conditional_machine(labels, n_inputs, n_hidden, weight_decay):
    """Return the machine with the cheapest exact sums, or that of pseudo-likelihood."""
    terms, by_hidden = labels.n_states * n_hidden, n_hidden <= LIMITS.most_hidden
    kind: type[ConditionalMachine] = HiddenSums if by_hidden else PseudoLikelihood
    most = min(LIMITS.most_terms, 2**n_hidden) if by_hidden else LIMITS.most_terms
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
        self.n_hidden = n_hidden
        #: Views of W, U, c and d in a vector of all of them.
        self.parts = Parts(
            (n_inputs, n_hidden), (labels.n_columns, n_hidden), (n_hidden,),
            (labels.n_columns,),
        )  # fmt: skip

    def start(self, codes, shares, rng, size=0.5):
        """Return weights that give fields of a size, and biases at the base rates."""
        params = np.zeros(self.parts.n_parameters)
        W, U, _, d = self.parts(params)
        for weights, n_inputs in ((W, len(W)), (U, 2)):
            scale = size / np.sqrt(n_inputs)
            weights[:] = scale * rng.standard_normal(weights.shape)
        rates = shares @ self.labels.indicators(codes)
        d[:] = np.log(np.maximum(rates, LIMITS.least_rate))
        return params

    def fields(self, params, X):
        """Return the fields of the hidden units given inputs."""
        W, _, c, _ = self.parts(params)
        return X @ W + c

    def loss(self, params, X, codes, shares):
        """Return the loss of rows, whose shares add up to 1, and its gradient."""
        W, U, *_ = self.parts(params)
        gradient = np.zeros_like(params)
        to_W, to_U, to_c, _ = self.parts(gradient)
        fields = self.fields(params, X)
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
    def probabilities(self, params, X, seed):
        """Return the probability of each class of each output, by column."""

    def log_columns(self, params, X, seed):
        """Return the logarithms of `probabilities`."""
        with np.errstate(divide="ignore"):
            return np.log(self.probabilities(params, X, seed))

    @abstractmethod
    def draws(self, params, X, rng):
        """Return codes of labels drawn given inputs."""

    def log_likelihoods(self, params, X, codes):
        """Return the log-probability of the labels of each row."""
        raise ValueError(
            "the probability of labels together is out of reach: it needs "
            f"n_hidden <= {LIMITS.most_hidden} or fewer outputs"
        )


class LabelSums(ConditionalMachine):
    """Sums over all labels; the hidden units are summed one by one."""

    def __init__(self, *options):
        super().__init__(*options)
        self.states = self.labels.indicators(self.labels.all_codes())

    def log_probabilities(self, params, X):
        """Return the log-probability of all labels, (n, n_states)."""
        _, U, _, d = self.parts(params)
        U, d = self.states @ U, self.states @ d
        fields = self.fields(params, X)
        out = np.empty((len(fields), len(U)))
        for rows in blocks(len(fields), U.size):
            out[rows] = given_fields(fields[rows], U, d)[0]
        return out

    def log_likelihoods(self, params, X, codes):
        """Return the log-probability of the labels of each row."""
        logs = self.log_probabilities(params, X)
        return logs[np.arange(len(logs)), self.labels.state_numbers(codes)]

    def slopes(self, params, fields, codes, shares, gradient):
        """Return the loss and its slopes along fields; add those of U and d."""
        _, U, _, d = self.parts(params)
        _, to_U, _, to_d = self.parts(gradient)
        observed = self.labels.state_numbers(codes)
        value, along, to_states, to_logits = label_slopes(
            fields, self.states @ U, self.states @ d, observed, shares
        )
        to_U += self.states.T @ to_states
        to_d += to_logits @ self.states
        return value, along

    def probabilities(self, params, X, seed):
        """Return the probability of each class of each output, by column."""
        return np.exp(self.log_probabilities(params, X)) @ self.states

    def log_columns(self, params, X, seed):
        """Return the logarithms of `probabilities`."""
        if len(self.labels.classes) > 1:
            return super().log_columns(params, X, seed)
        return self.log_probabilities(params, X)

    def draws(self, params, X, rng):
        """Return codes of labels drawn given inputs."""
        drawn = draw_rows(np.exp(self.log_probabilities(params, X)), rng)
        return self.labels.all_codes()[drawn]


class HiddenSums(ConditionalMachine):
    """Sums over all states of the hidden units, given which outputs are independent."""

    def __init__(self, *options):
        super().__init__(*options)
        self.states = enumerate_states(self.n_hidden)

    def given_states(self, params):
        """Return log-sums over the outputs and probabilities of the classes."""
        _, U, _, d = self.parts(params)
        return label_sums(self.labels, self.states @ U.T + d)

    def log_likelihoods(self, params, X, codes):
        """Return the log-probability of the labels of each row."""
        _, U, _, d = self.parts(params)
        sums, _ = self.given_states(params)
        of_labels = self.labels.indicators(codes)
        fields = self.fields(params, X)
        out = hidden_sums(fields + of_labels @ U)[0] + of_labels @ d
        for rows, totals, _ in state_sums(fields, self.states, sums):
            out[rows] -= totals
        return out

    def slopes(self, params, fields, codes, shares, gradient):
        """Return the loss and its slopes along fields; add those of U and d."""
        _, U, _, d = self.parts(params)
        _, to_U, _, to_d = self.parts(gradient)
        sums, probabilities = self.given_states(params)
        of_labels = self.labels.indicators(codes)
        values, means = hidden_sums(fields + of_labels @ U)
        values += of_labels @ d
        means *= shares[:, None]
        totals, along, mass = state_slopes(fields, self.states, sums, shares)
        to_U += (probabilities * mass[:, None]).T @ self.states - of_labels.T @ means
        to_d += mass @ probabilities - shares @ of_labels
        return float(shares @ (totals - values)), along - means

    def probabilities(self, params, X, seed):
        """Return the probability of each class of each output, by column."""
        sums, probabilities = self.given_states(params)
        out = np.empty((len(X), self.labels.n_columns))
        for rows, _, weights in state_sums(self.fields(params, X), self.states, sums):
            out[rows] = weights @ probabilities
        return out

    def draws(self, params, X, rng):
        """Return codes of labels drawn given inputs."""
        sums, probabilities = self.given_states(params)
        states = np.empty(len(X), np.int64)
        for rows, _, weights in state_sums(self.fields(params, X), self.states, sums):
            states[rows] = draw_rows(weights, rng)
        uniforms = rng.random((len(X), len(self.labels.classes)))
        return draw_labels(self.labels, probabilities[states], uniforms)


class PseudoLikelihood(ConditionalMachine):
    """Learns each output given the others, and answers by Gibbs chains."""

    is_exact = False

    def slopes(self, params, fields, codes, shares, gradient):
        """Return the loss and its slopes along fields; add those of U and d."""
        _, U, _, d = self.parts(params)
        _, to_U, _, to_d = self.parts(gradient)
        everything = fields + self.labels.indicators(codes) @ U
        value, total = 0.0, np.zeros_like(fields)
        for k, columns in enumerate(self.labels.columns):
            y = codes[:, k]
            loss, along, to_classes, to_rates = label_slopes(
                everything - U[y], U[columns], d[columns], y - columns.start, shares
            )
            value += loss
            to_U[columns] += to_classes
            to_d[columns] += to_rates
            # The others do not hold the class of the output itself.
            np.subtract.at(to_U, y, along)
            total += along
        to_U += self.labels.indicators(codes).T @ total
        return value, total

    def probabilities(self, params, X, seed):
        """Return the probability of each class, by column: a mean over chains.

        The chain of a row depends on the row and the seed alone.
        """
        total = np.zeros((len(X), self.labels.n_columns))
        keys = np.array([crc32(row.tobytes()) for row in X], np.uint64)
        keys += np.uint64(seed << 32)
        for sweep, (probabilities, _) in enumerate(self._sweeps(params, X, keys)):
            if sweep >= LIMITS.sweeps // 2:
                total += probabilities
        return total / (LIMITS.sweeps - LIMITS.sweeps // 2)

    def draws(self, params, X, rng):
        """Return codes of labels at the ends of chains."""
        keys = rng.integers(2**63, size=len(X), dtype=np.uint64)
        for _, drawn in self._sweeps(params, X, keys):
            codes = drawn
        return codes

    def _sweeps(self, params, X, keys):
        """Yield probabilities of labels given hidden units, and draws from them."""
        _, U, _, d = self.parts(params)
        n_hidden, n_drawn = len(U.T), len(U.T) + len(self.labels.classes)
        fields = self.fields(params, X)
        means = expit(fields + softmax(d) @ U)
        for sweep in range(LIMITS.sweeps):
            uniforms = uniforms_by_key(keys, sweep, n_drawn)
            hidden = (uniforms[:, :n_hidden] < means).astype(np.float64)
            _, probabilities = label_sums(self.labels, hidden @ U.T + d)
            drawn = draw_labels(self.labels, probabilities, uniforms[:, n_hidden:])
            yield probabilities, drawn
            means = expit(fields + self.labels.indicators(drawn) @ U)


def given_fields(fields, U, d):
    """Return log-probabilities of labels, these, and means of hidden units."""
    sums, means = hidden_sums(fields[:, None, :] + U)
    sums += d
    totals, probabilities = log_sums(sums)
    return sums - totals[:, None], probabilities, means


def label_slopes(fields, U, d, observed, shares):
    """Return the log-loss of labels, and its slopes along fields, U and d."""
    value, along = 0.0, np.empty_like(fields)
    to_U, to_d = np.zeros_like(U), np.zeros_like(d)
    for rows in blocks(len(fields), U.size):
        logs, slopes, means = given_fields(fields[rows], U, d)
        place = np.arange(len(logs)), observed[rows]
        value -= float(shares[rows] @ logs[place])
        slopes[place] -= 1.0
        slopes *= shares[rows, None]
        means *= slopes[:, :, None]
        along[rows] = means.sum(axis=1)
        to_U += means.sum(axis=0)
        to_d += slopes.sum(axis=0)
    return value, along, to_U, to_d


def label_sums(labels, logits):
    """Return log-sums of the classes, added over outputs, and their probabilities."""
    starts = [columns.start for columns in labels.columns]
    largest = np.maximum.reduceat(logits, starts, axis=1)
    probabilities = np.exp(logits - np.repeat(largest, labels.sizes, axis=1))
    totals = np.add.reduceat(probabilities, starts, axis=1)
    probabilities /= np.repeat(totals, labels.sizes, axis=1)
    return (largest + np.log(totals)).sum(axis=1), probabilities


def uniforms_by_key(keys, step, n):
    """Return n uniform draws for each key, which depend on it and the step alone."""
    lanes = np.arange(n, dtype=np.uint64)
    bits = mixed.py_func(keys[:, None], np.array([step], np.uint64), lanes)
    return (bits >> np.uint64(11)) * 2.0**-53


def draw_labels(labels, probabilities, uniforms):
    """Return codes of labels drawn from their probabilities, by column."""
    starts, sizes = [columns.start for columns in labels.columns], labels.sizes
    # The probabilities of output k take cumulated sums from k to k + 1.
    heights = np.arange(len(sizes)) + uniforms
    below = np.cumsum(probabilities, axis=1) <= np.repeat(heights, sizes, axis=1)
    passed = np.add.reduceat(below.astype(np.int64), starts, axis=1)
    return starts + np.minimum(passed, np.array(sizes) - 1)


def draw_rows(weights, rng):
    """Return a column for each row, with the probabilities in it."""
    sums = np.cumsum(weights, axis=1)
    columns = (rng.random((len(sums), 1)) * sums[:, -1:] >= sums).sum(axis=1)
    return np.minimum(columns, weights.shape[1] - 1)
