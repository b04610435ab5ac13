"""Hidden halves of images restored: mean squared error per pixel.

The right halves of 300 held-out letters and digits are taken away, and replaced by the
mean of the column, by the mean of 5 or 20 nearest neighbours, or by the expectation
under a small deep machine. All learn from the same rows.
Run: ``OMP_NUM_THREADS=1 python benchmarks/boltzmann_impute.py``.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from boltzmann_data import mnist, ocr_letters
from machine import describe
from sklearn.impute import KNNImputer, SimpleImputer

from sktem import LatentBoltzmannMachine


def restore(name, train, test, width, sizes, epochs):
    """Print the error and the CPU time, of learning and restoring, of each method."""
    hidden = np.arange(train.shape[1]) % width >= width // 2
    missing = test[:300].copy()
    missing[:, hidden] = np.nan
    machine = LatentBoltzmannMachine(
        hidden_layer_sizes=sizes, solver="hapcd", n_mean_field=10, pretrain=10,
        max_iter=epochs, random_state=0, n_jobs=1,
    )  # fmt: skip
    shape = "-".join(str(size) for size in (train.shape[1], *sizes))
    print(f"\n{name}, {len(train):,} rows; {shape}, 10 + {epochs} epochs of H-APCD")
    rows = {
        "mean": lambda: SimpleImputer().fit(train).transform(missing),
        "5 neighbours": lambda: KNNImputer(n_neighbors=5).fit(train).transform(missing),
        "20 neighbours": lambda: (
            KNNImputer(n_neighbors=20).fit(train).transform(missing)
        ),
        "LatentBoltzmannMachine": lambda: machine.fit(train).impute(missing),
    }
    for method, function in rows.items():
        start = time.process_time()
        errors = np.square(function() - test[:300])[:, hidden].mean(axis=1)
        seconds = time.process_time() - start
        spread = errors.std() / np.sqrt(len(errors))
        print(f"  {method:24s} {errors.mean():.4f} +- {spread:.4f}   {seconds:6.1f} s")


def main():
    warnings.simplefilter("ignore")
    print(describe())
    train, test = ocr_letters()
    restore("OCR letters", train[:8000], test, 8, (100, 100), 20)
    train, test = mnist()
    restore("MNIST", train[:6000], test, 28, (200, 200), 10)


if __name__ == "__main__":
    main()
