"""Sums over the states of hidden units, all of them or of each unit alone."""

from __future__ import annotations

import numpy as np

from sktem import budget

__all__ = ["blocks", "hidden_sums", "log_sums", "state_slopes", "state_sums"]

#: Factors up to 2 whose product is finite.
MOST_FACTORS = 512


def blocks(n, width):
    """Yield slices of rows, for temporaries of `width` numbers a row."""
    size = max(1, budget.MEMORY.cached // max(width, 1))
    for begin in range(0, n, size):
        yield slice(begin, begin + size)


def hidden_sums(fields):
    """Return sums of ``log(1 + exp(fields))`` over the last axis, and expit of all."""
    small = np.exp(-np.abs(fields))
    totals = 1.0 + small
    begins = np.arange(0, fields.shape[-1], MOST_FACTORS)
    sums = np.log(np.multiply.reduceat(totals, begins, axis=-1)).sum(axis=-1)
    sums += np.maximum(fields, 0.0).sum(axis=-1)
    return sums, np.where(fields > 0, 1.0, small) / totals


def log_sums(exponents):
    """Return the logarithms of sums of exponentials of rows, and the shares in them."""
    largest = exponents.max(axis=1, keepdims=True)
    shares = np.exp(exponents - largest)
    totals = shares.sum(axis=1, keepdims=True)
    shares /= totals
    return (largest + np.log(totals))[:, 0], shares


def state_sums(fields, states, extra):
    """Yield slices of rows, log-sums over all states, and the shares of these.

    The logarithm of the weight of a state is ``fields @ state + extra``.
    """
    for rows in blocks(len(fields), len(states)):
        yield rows, *log_sums(fields[rows] @ states.T + extra)


def state_slopes(fields, states, extra, shares):
    """Return log-sums of rows, and slopes of their mean along fields and `extra`."""
    totals, along = np.empty(len(fields)), np.empty_like(fields)
    mass = np.zeros(len(states))
    for rows, sums, weights in state_sums(fields, states, extra):
        weights *= shares[rows, None]
        totals[rows], along[rows] = sums, weights @ states
        mass += weights.sum(axis=0)
    return totals, along, mass
