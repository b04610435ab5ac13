"""Log-likelihoods of new rows after fits to few: what weight decay is worth.

A restricted machine of 100 hidden units, all other parameters at their defaults, with
three weight decays: none, the default of one over the rows, and ten times that. Beside
it independent columns and the tree of Chow and Liu (1968), both with a row of each
value added, as half a row of each pair of values. Three draws of the rows; a star is
put where not all of three fits had converged.
Run: ``OMP_NUM_THREADS=1 python benchmarks/boltzmann_few_rows.py``.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from machine import describe
from scipy.sparse.csgraph import minimum_spanning_tree
from sklearn.datasets import load_breast_cancer, load_digits

from sktem import LatentBoltzmannMachine

SIZES = (20, 50, 200, 1000)
NEW = 1000
SEEDS = range(3)


def independent(n, rng):
    """Return rows of ten independent columns."""
    return rng.random((n, 10)) < np.linspace(0.2, 0.8, 10)


def chain(n, rng):
    """Return rows of twenty columns, each mostly as the one before."""
    changes = rng.random((n, 20)) < 0.15
    changes[:, 0] = rng.random(n) < 0.5
    return changes.cumsum(axis=1) % 2


def patterns(n, rng):
    """Return rows about four patterns of twenty bits."""
    means = np.random.default_rng(9).random((4, 20)) < 0.5
    return means[rng.integers(4, size=n)] ^ (rng.random((n, 20)) < 0.1)


def taken(X, n, rng):
    """Return rows of X in random order."""
    return X[rng.permutation(len(X))[:n]]


def data_sets():
    """Return functions of the number of rows and a source of randomness."""
    digits = load_digits().data > 7
    cancer = load_breast_cancer().data
    cancer = cancer > np.median(cancer, axis=0)
    return {
        "independent": independent,
        "chain": chain,
        "four patterns": patterns,
        "digits": lambda n, rng: taken(digits, n, rng),
        "breast cancer": lambda n, rng: taken(cancer, n, rng),
    }


def of_columns(train, new):
    """Return the score of new rows under independent columns."""
    share = (train.sum(axis=0) + 1) / (len(train) + 2)
    return (new * np.log(share) + (1 - new) * np.log1p(-share)).sum(axis=1).mean()


def of_tree(train, new):
    """Return the score of new rows under the tree of Chow and Liu."""
    n, d = train.shape

    def pairs(X):
        sides = (1 - X, X)
        return np.array([[a.T @ b for b in sides] for a in sides])

    joint = (pairs(train) + 0.5) / (n + 2)  # (2, 2, d, d)
    single = np.array([joint[k].sum(axis=0) for k in (0, 1)])
    expected = single[:, None] * joint.sum(axis=0)[None]
    information = (joint * np.log(joint / expected)).sum(axis=(0, 1))
    np.fill_diagonal(information, 0.0)
    tree = minimum_spanning_tree(-np.maximum(np.triu(information, 1), 1e-12)).tocoo()
    seen = pairs(new) / len(new)
    gains = sum(
        (seen[..., i, j] * np.log(joint[..., i, j] / expected[..., i, j])).sum()
        for i, j in zip(tree.row, tree.col, strict=True)
    )
    assert tree.nnz == d - 1
    return of_columns(train, new) + gains


def of_machine(train, new, times, seed):
    """Return the score of new rows, whether the fit converged, and CPU seconds."""
    decay = "auto" if times == 1 else times / len(train)
    begun = time.process_time()
    machine = LatentBoltzmannMachine(weight_decay=decay, random_state=seed).fit(train)
    return machine.score(new), machine.converged_, time.process_time() - begun


def main():
    warnings.simplefilter("ignore")
    print(describe())
    print("Nats of a new row, mean and sd of three draws; CPU s of fit and score")
    print(
        "data            rows  columns          tree            no decay"
        "                default                  ten times"
    )
    for name, draw in data_sets().items():
        for n in SIZES:
            found = []
            for seed in SEEDS:
                X = draw(n + NEW, np.random.default_rng([seed, n])).astype(float)
                train, new = X[:n], X[n:]
                if len(new) < 100:
                    break
                fits = [of_machine(train, new, times, seed) for times in (0, 1, 10)]
                found.append((of_columns(train, new), of_tree(train, new), fits))
            if not found:
                continue
            cells = [
                f"{np.mean(values):7.2f} ({np.std(values, ddof=1):.2f})"
                for values in ([row[k] for row in found] for k in (0, 1))
            ]
            for k in range(3):
                scores, ended, seconds = zip(*(row[2][k] for row in found), strict=True)
                star = " " if all(ended) else "*"
                cells.append(
                    f"{np.mean(scores):7.2f} ({np.std(scores, ddof=1):.2f})"
                    f"{star} {np.mean(seconds):5.1f}"
                )
            print(f"{name:14s} {n:5d}  " + "  ".join(cells), flush=True)


if __name__ == "__main__":
    main()
