"""Updates about the units' means: log-likelihoods with centering and without.

Each machine is learned from the same rows with both, by the steps named and from the
same seeds; the log-likelihood of test rows is estimated by AIS. In inverted images
0 and 1 are exchanged, which changes nothing for centred updates but their noise.
Restricted machines are learned by PCD, deep ones by the solver named.
Run: ``OMP_NUM_THREADS=1 python benchmarks/boltzmann_centering.py`` (a quarter of an
hour).
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from boltzmann_data import mnist, ocr_letters
from boltzmann_images import log_likelihoods
from machine import describe

from sktem import LatentBoltzmannMachine

#: Data, inverted or not, hidden layers, solver, epochs of pretraining and of learning.
CASES = (
    ("OCR letters", False, (200,), "pcd", 0, 10),
    ("MNIST", False, (200,), "pcd", 0, 10),
    ("MNIST", True, (200,), "pcd", 0, 10),
    ("OCR letters", False, (500, 500), "apcd", 5, 10),
    ("OCR letters", False, (500, 500), "mfpcd", 5, 10),
)
DATA = {"OCR letters": ocr_letters, "MNIST": mnist}
STEPS = (0.05, 0.2)


def learned(X, case, step, centering, seed):
    """Return a machine and the CPU seconds it took."""
    _, _, layers, solver, pretrain, epochs = case
    machine = LatentBoltzmannMachine(
        hidden_layer_sizes=layers, solver=solver, n_mean_field=10,
        step_size_m=(step, step / 100), pretrain=pretrain, max_iter=epochs,
        centering=centering, random_state=seed, n_jobs=1,
    )  # fmt: skip
    start = time.process_time()
    machine.fit(X)
    return machine, time.process_time() - start


def compare(case, n_rows, seeds):
    """Print the log-likelihoods of a machine, by step."""
    name, inverted, layers, solver, pretrain, epochs = case
    train, test = DATA[name]()
    train, test = train[:n_rows], test[:200]
    if inverted:
        train, test = 1 - train, 1 - test
    shape = "-".join(str(size) for size in (train.shape[1], *layers))
    print(
        f"\n{name}{', inverted' if inverted else ''}: {shape}, {solver}, "
        f"{len(train):,} rows, {pretrain} + {epochs} epochs, {len(test)} test rows, "
        f"{len(seeds)} seeds"
    )
    print("  step           plain (range)              centred (range)   CPU, ratio")
    for step in STEPS:
        values, times = {False: [], True: []}, {False: [], True: []}
        for seed in seeds:
            for centering in (False, True):
                machine, seconds = learned(train, case, step, centering, seed)
                found = log_likelihoods(machine, test, seed, 1000)[0].mean()
                values[centering].append(found)
                times[centering].append(seconds)
        plain, centred = (
            f"{np.mean(found):.2f} ({min(found):.2f} to {max(found):.2f})"
            for found in values.values()
        )
        ratio = np.median(np.divide(times[True], times[False]))
        print(f"  {step:4g} {plain:>28s} {centred:>28s} {ratio:8.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(describe())
    for case in CASES:
        compare(case, arguments.rows, range(arguments.seeds))


if __name__ == "__main__":
    main()
