"""Updates about the units' means: log-likelihoods with centering and without.

Each machine is learned from the same rows with both, by the steps named and from the
same seeds; the log-likelihood of test rows is estimated by AIS. In inverted images
0 and 1 are exchanged, which changes nothing for centred updates but their noise.
The grids are those of ``paper_grid.py``, with an exact E-step.
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
from layerwise import pretrained
from machine import describe
from paper_grid import PARTS, simulate

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


def compare(title, steps, seeds, learn):
    """Print log-likelihoods by step; `learn` returns one and the CPU seconds."""
    print(f"\n{title}, {len(seeds)} seeds")
    print("  step           plain (range)              centred (range)   CPU, ratio")
    for step in steps:
        values, times = {False: [], True: []}, {False: [], True: []}
        for seed in seeds:
            for centering in (False, True):
                found, seconds = learn(step, centering, seed)
                values[centering].append(found)
                times[centering].append(seconds)
        plain, centred = (
            f"{np.mean(found):.2f} ({min(found):.2f} to {max(found):.2f})"
            for found in values.values()
        )
        ratio = np.median(np.divide(times[True], times[False]))
        print(f"  {step:4g} {plain:>28s} {centred:>28s} {ratio:8.2f}", flush=True)


def images(case, n_rows, seeds):
    """Compare machines of images."""
    name, inverted, layers, solver, pretrain, epochs = case
    train, test = DATA[name]()
    train, test = train[:n_rows], test[:200]
    if inverted:
        train, test = 1 - train, 1 - test

    def learn(step, centering, seed):
        machine = LatentBoltzmannMachine(
            hidden_layer_sizes=layers, solver=solver, n_mean_field=10,
            step_size_m=(step, step / 100), max_iter=epochs, centering=centering,
            weight_decay=0.0, tol=None, random_state=seed, n_jobs=1,
        )  # fmt: skip
        start = time.process_time()
        if pretrain:
            machine = pretrained(machine, train, pretrain)
            machine.set_params(warm_start=True, max_iter=epochs)
        machine.fit(train)
        seconds = time.process_time() - start
        return log_likelihoods(machine, test, seed, 1000)[0].mean(), seconds

    shape = "-".join(str(size) for size in (train.shape[1], *layers))
    title = (
        f"{name}{', inverted' if inverted else ''}: {shape}, {solver}, "
        f"{len(train):,} rows, {pretrain} + {epochs} epochs, {len(test)} test rows"
    )
    compare(title, STEPS, seeds, learn)


def grids(key, epochs, seeds):
    """Compare machines on the paper's grid, each seed with a data set of its own."""
    part = PARTS[key]
    data = {seed: simulate(30, 0.5, seed, part) for seed in seeds}

    def learn(step, centering, seed):
        graph, _, hidden, X = data[seed]
        machine = LatentBoltzmannMachine(
            graph, hidden, solver="pcd", e_step="exact", n_gibbs_m=10,
            step_size_m=(step, step / 100), max_iter=epochs, centering=centering,
            weight_decay=0.0, tol=None, random_state=seed, n_jobs=1,
        )  # fmt: skip
        start = time.process_time()
        machine.fit(X[:2000])
        seconds = time.process_time() - start
        log_partition = machine.log_partition("ais", n_temperatures=1000)
        found = machine.score_samples(X[2000:], log_partition=log_partition.value)
        return found.mean(), seconds

    first = part.steps[0]
    title = f"Grid 30 x 30, {part.title}, half hidden: exact E-step, {epochs} epochs"
    compare(title, (0.3 * first, first, 3 * first), seeds, learn)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5000)
    parts = ("images", "grids")
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(describe())
    seeds = range(arguments.seeds)
    for case in CASES if "images" in arguments.parts else ():
        images(case, arguments.rows, seeds)
    for key in ("bits", "spins", "weak") if "grids" in arguments.parts else ():
        grids(key, 20, seeds)


if __name__ == "__main__":
    main()
