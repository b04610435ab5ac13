"""Hidden units as features: the machine in the place of BernoulliRBM on digits.

A pipeline with logistic regression on the 8 x 8 digits moved by one pixel in four
directions, as in scikit-learn's own example of its RBM. Both get the same CPU time: the
epochs of BernoulliRBM are raised until its fit takes at least as long. Its step is that
of scikit-learn's example and a smaller one; ours was chosen on two other splits,
without centering. Five splits.
Run: ``OMP_NUM_THREADS=1 python benchmarks/boltzmann_features.py``.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from machine import describe
from scipy.ndimage import convolve
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import BernoulliRBM

from sktem import LatentBoltzmannMachine

OURS = "LatentBoltzmann"


def moved_digits():
    """Return digits in [0, 1], also moved by one pixel in four directions."""
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    parts = [X]
    for place in ((0, 1), (1, 0), (1, 2), (2, 1)):
        kernel = np.zeros((3, 3))
        kernel[place] = 1
        moved = [convolve(row.reshape(8, 8), kernel, mode="constant") for row in X]
        parts.append(np.reshape(moved, (-1, 64)))
    return np.concatenate(parts), np.tile(y, 5), np.tile(np.arange(len(y)), 5)


def main():
    warnings.simplefilter("ignore")
    print(describe())
    X, y, number = moved_digits()
    print("seed  features                 epochs  fit, CPU s   accuracy")
    scores = {}
    for seed in range(5):
        # All five copies of a digit are on one side.
        train, test = train_test_split(
            np.unique(number), test_size=0.2, random_state=seed
        )
        inside, outside = np.isin(number, train), np.isin(number, test)

        def show(name, transformer, epochs, seconds, seed, inside, outside):
            model = LogisticRegression(C=100, max_iter=300)
            model.fit(transformer.transform(X[inside]), y[inside])
            score = model.score(transformer.transform(X[outside]), y[outside])
            scores.setdefault(name, []).append(score)
            print(f"{seed:4d}  {name:24s} {epochs:6d}  {seconds:9.2f}    {score:.4f}")

        times = {}
        # The peer gets the time of the first, which is what a pipeline takes.
        for name, centering in ((OURS, False), (f"{OURS}, centred", True)):
            machine = LatentBoltzmannMachine(
                hidden_layer_sizes=100, solver="pcd", n_gibbs_m=1, max_iter=12,
                step_size_m=(0.1, 0.005), batch_size=10, n_chains=10,
                centering=centering, weight_decay=0.0, tol=None, random_state=seed,
            )  # fmt: skip
            start = time.process_time()
            machine.fit(X[inside])
            times[name] = time.process_time() - start
            show(name, machine, 12, times[name], seed, inside, outside)
        ours = times[OURS]
        for rate in (0.06, 0.01):
            epochs, seconds = 10, 0.0
            while seconds < ours:
                peer = BernoulliRBM(
                    100, learning_rate=rate, n_iter=epochs, random_state=seed
                )
                start = time.process_time()
                peer.fit(X[inside])
                seconds = time.process_time() - start
                if seconds < ours:
                    epochs = int(np.ceil(epochs * max(1.1, ours / seconds)))
            name = f"BernoulliRBM {rate}"
            show(name, peer, epochs, seconds, seed, inside, outside)
    for name, values in scores.items():
        print(f"{name:24s} mean {np.mean(values):.4f}, sd {np.std(values):.4f}")


if __name__ == "__main__":
    main()
