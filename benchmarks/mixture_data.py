"""Data sets of the mixture benchmarks.

Real data are read from ``../shared/data/mixture`` next to the repository (or from the
folder named by the environment variable SKTEM_SHARED_DATA); a set that is absent is
left out.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

SHARED = Path(
    os.environ.get(
        "SKTEM_SHARED_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"
    )
)


def _load(name):
    return np.load(SHARED / "mixture" / f"{name}.npz")


def hipparcos():
    """Colour and absolute magnitude of stars: (110,000, 2), 8 components."""
    with _load("hipparcos") as file:
        columns = [str(name) for name in file["columns"]]
        X = file["X"].astype(np.float64)
    column = {name: X[:, i] for i, name in enumerate(columns)}
    known = (column["plx"] > 0) & (column["b_v"] != 0)
    absolute = column["hpmag"][known] + 5 * np.log10(column["plx"][known] / 100)
    return np.column_stack([column["b_v"][known], absolute]), 8


def ecoli_flow():
    """Flow cytometry of E. coli on the logarithmic scale: (383,415, 5), 10 components.

    Channels are whole numbers; a uniform jitter of their width makes them continuous.
    """
    with _load("ecoli_flow") as file:
        X = file["X"].astype(np.float64)
    return X + np.random.default_rng(0).random(X.shape), 10


def kddcup99(shuffle=True, n_columns=10):
    """Network connections, 10 principal components: (494,021, 10), 10 components.

    Counts are taken as log(1 + x), columns that do not vary are dropped, the others are
    scaled to unit variance; a normal jitter of 0.05 keeps exact duplicates apart.
    """
    with _load("kddcup99_10pct") as file:
        X = np.log1p(np.abs(file["X"].astype(np.float64)))
    X = X[:, X.std(axis=0) > 1e-3]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    _, vectors = np.linalg.eigh(X.T @ X / len(X))
    X = X @ vectors[:, ::-1][:, :n_columns]
    rng = np.random.default_rng(0)
    X += 0.05 * rng.standard_normal(X.shape)
    return (X[rng.permutation(len(X))] if shuffle else X), 10


def skin():
    """Colours of skin and other pixels: (245,057, 3), 10 components."""
    with _load("skin") as file:
        X = file["X"].astype(np.float64)
    return X + np.random.default_rng(0).random(X.shape), 10


def shuttle():
    """Space shuttle sensors: (58,000, 9), 7 components, scaled to unit variance."""
    with _load("shuttle") as file:
        X = file["X"].astype(np.float64)
    X = X + np.random.default_rng(0).random(X.shape)
    return (X - X.mean(axis=0)) / X.std(axis=0), 7


def simulated(n=1_000_000, d=16, n_components=32, seed=0):
    """A mixture of Gaussians with overlapping components: (n, d), 32 components."""
    rng = np.random.default_rng(seed)
    means = 1.5 * rng.standard_normal((n_components, d))
    scales = np.exp(0.3 * rng.standard_normal((n_components, d)))
    labels = rng.choice(n_components, n, p=rng.dirichlet(np.full(n_components, 5.0)))
    X = rng.standard_normal((n, d))
    X *= scales[labels]
    X += means[labels]
    return X, n_components


DATA_SETS = {
    "hipparcos": hipparcos,
    "ecoli_flow": ecoli_flow,
    "kddcup99": kddcup99,
    "skin": skin,
    "shuttle": shuttle,
}


def available():
    """Return the data sets whose file is there, by name."""
    names = {"kddcup99": "kddcup99_10pct"}
    return {
        name: load
        for name, load in DATA_SETS.items()
        if (SHARED / "mixture" / f"{names.get(name, name)}.npz").exists()
    }


def split(X, seed=0):
    """Return four fifths for training and a fifth held out, at random."""
    order = np.random.default_rng(seed).permutation(len(X))
    held_out = len(X) // 5
    return X[order[held_out:]], X[order[:held_out]]
