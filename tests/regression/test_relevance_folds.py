"""Warnings where few rows leave the relevance of features open, and only there."""

import numpy as np
import pytest
from scipy.special import expit

from sktem.regression.relevance_folds import RELEVANCE_FOLDS, unstable_relevance
from sktem.regression.relevance_start import find_start


def message(seed, n, p, n_relevant, rule=RELEVANCE_FOLDS):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    signs = 1.5 * rng.choice([-1, 1], n_relevant)
    y = (rng.random(n) < expit(X[:, :n_relevant] @ signs)).astype(float)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return unstable_relevance(X, y, find_start(X, y)[0], rule)


@pytest.mark.parametrize("n, p, n_relevant", [(40, 60, 3), (60, 60, 10)])
def test_few_rows_are_told(n, p, n_relevant, global_random_seed):
    seeds = range(20 * global_random_seed, 20 * global_random_seed + 8)
    told = [message(seed, n, p, n_relevant) for seed in seeds]
    assert np.mean([text is not None for text in told]) >= 0.5
    assert all(f"{n} rows are too few to show" in text for text in told if text)


@pytest.mark.parametrize("n, p, n_relevant", [(400, 10, 3), (450, 40, 5)])
def test_enough_rows_are_not(n, p, n_relevant, global_random_seed):
    seeds = range(20 * global_random_seed, 20 * global_random_seed + 5)
    told = [message(seed, n, p, n_relevant) for seed in seeds]
    assert np.mean([text is not None for text in told]) <= 0.2


def test_nothing_is_checked_beyond_the_rows_of_the_rule():
    few = message(3, 60, 60, 10, RELEVANCE_FOLDS._replace(least_overlap=1.1))
    assert few is not None
    rule = RELEVANCE_FOLDS._replace(least_overlap=1.1, most_rows=59)
    assert message(3, 60, 60, 10, rule) is None


def test_a_class_with_one_row_cannot_be_cut_into_folds():
    X = np.random.default_rng(0).normal(size=(20, 2))
    y = np.zeros(20)
    y[3] = 1.0
    assert unstable_relevance(X, y, np.ones(2)) is None
