"""The usual numbers of latent class analysis."""

from __future__ import annotations

import numpy as np

from sktem.emissions.categorical import Categorical
from sktem.emissions.columns import Columns

__all__ = ["classification_table", "entropy_r2", "profiles_of"]


def entropy_r2(R, sample_weight=None) -> float:
    """Return one minus the mean entropy of posterior probabilities, relative."""
    n, K = R.shape
    if K == 1:
        return 1.0
    terms = np.where(R > 0, R * np.log(np.where(R > 0, R, 1.0)), 0.0).sum(axis=1)
    return float(1 + np.average(terms, weights=sample_weight) / np.log(K))


def classification_table(R, sample_weight=None) -> np.ndarray:
    """Return mean posterior probabilities by the most probable component."""
    weights = np.ones(len(R)) if sample_weight is None else np.asarray(sample_weight)
    hard = np.eye(R.shape[1])[R.argmax(axis=1)] * weights[:, None]
    mass = hard.sum(axis=0)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        return (hard.T @ R) / mass


def profiles_of(emission, params, categories, n_features, names=None):
    """Return weights, probabilities of labels and means as a data frame."""
    import pandas as pd

    K = len(params.weights)
    index: list[tuple[str, object]] = [("weight", "")]
    values = [params.weights]
    if isinstance(emission, Columns):
        parts = zip(
            [block_emission for _, block_emission, _ in emission.emissions],
            params.emission.columns,
            params.emission.blocks,
            strict=True,
        )
        blocks = sorted(parts, key=lambda part: int(part[1].min()))
    else:
        blocks = [(emission, np.arange(n_features), params.emission)]
    for block_emission, columns, block in blocks:
        means = None
        if not isinstance(block_emission, Categorical):
            hollow = np.full((K, len(columns)), np.nan)
            means = block_emission.expected(hollow, np.eye(K), block)
        for place, column in enumerate(columns):
            name = str(names[column]) if names is not None else f"x{column}"
            if means is not None:
                index.append((name, "mean"))
                values.append(means[:, place])
                continue
            labels = categories.get(int(column), np.arange(block.n_categories[place]))
            for code, label in enumerate(labels):
                index.append((name, label))
                values.append(block.probabilities[:, place, code])
    rows = pd.MultiIndex.from_tuples(index, names=["column", "value"])
    profiles = pd.DataFrame(np.array(values), index=rows)
    profiles.columns = pd.Index([f"component {k}" for k in range(K)])
    return profiles
