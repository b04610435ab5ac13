"""Sums over the states of hidden units, all of them or of each unit alone."""

from __future__ import annotations

import numpy as np

__all__ = ["blocks", "hidden_sums", "log_sums"]

#: Numbers of a temporary, and factors up to 2 whose product is finite.
BLOCK, MOST_FACTORS = 2**18, 512


def blocks(n, width):
    """Yield slices of rows whose temporaries have so many numbers a row."""
    size = max(1, BLOCK // max(width, 1))
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
