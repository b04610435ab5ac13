"""A restricted machine of 500 units on MNIST, trained for its likelihood.

Persistent chains with centred updates, weight decay, steps b / sqrt(1 + t / 10) at
epoch t, and a last part in which they fall to zero; judged are the parameters and an
average of them over the later epochs, by annealed importance sampling on the test rows.
Each chunk of epochs ends with a checkpoint, from which the same command goes on:

    python benchmarks/boltzmann_record.py FOLDER --epochs 160 --last 40 --seed 0

A last part may begin at any checkpoint, so that the length of a run need not be known
when it begins.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import joblib
import numpy as np
from boltzmann_data import mnist

from sktem import LatentBoltzmannMachine
from sktem.evaluation import annealed_importance_sampling, bracket_log_partition

#: Epochs in which the step falls by a factor of the root of two.
LONG = 10
#: Power of the weights of the average: that of epoch t goes with t ** POWER.
POWER = 8
UPDATES = 600


@dataclass
class Run:
    """A machine on its way, with the average of its parameters."""

    machine: LatentBoltzmannMachine
    epoch: int = 0
    cpu: float = 0.0
    average: np.ndarray | None = None
    log: list = field(default_factory=list)

    def train(self, X, n_epochs, step):
        """Learn for some epochs, and average what they end with."""
        self.machine.set_params(step_size_m=step, max_iter=1)
        for _ in range(n_epochs):
            begun = time.process_time()
            self.machine.fit(X)
            self.cpu += time.process_time() - begun
            self.epoch += 1
            now = self.machine.params_.astype(np.float64)
            share = (POWER + 1) / (self.epoch + POWER)
            if self.average is None or share >= 1:
                self.average = now
            else:
                self.average += share * (now - self.average)

    def likelihoods(self, train, test, n_temperatures):
        """Print log-likelihoods of the parameters and of their average."""
        model = self.machine.fitted_.model
        for name, params in (
            ("last", self.machine.params_),
            ("average", self.average.astype(np.float32)),
        ):
            begun = time.process_time()
            rng = np.random.default_rng(1)
            found = annealed_importance_sampling(
                model, params, rng, 100, n_temperatures
            )
            value = [
                mean_log_sum(model, params, X) - found.value for X in (test, train)
            ]
            spent = time.process_time() - begun
            line = (
                f"epoch {self.epoch:4d}  {self.cpu:7.0f} s  {name:8s}"
                f"test {value[0]:8.2f}  train {value[1]:8.2f}  "
                f"log Z {found.value:.2f} +- {found.standard_error:.2f}, "
                f"{found.effective_sample_size:.0f} of 100 runs, {spent:.0f} s"
            )
            print(line, flush=True)
            self.log.append(line)


def step_size(k, start, begin, length):
    """Return the step of update k; after epoch `begin` it falls to zero."""
    epoch = (k - 1) / UPDATES
    step = start / np.sqrt(1 + epoch / LONG)
    if length and epoch >= begin:
        step *= max(1 - (epoch - begin) / length, 0.0)
    return float(step)


def mean_log_sum(model, params, X):
    """Return the mean of the log-likelihood plus log Z."""
    parts = [
        np.asarray(model.log_unnormalised(params, X[i : i + 1000].astype(np.float64)))
        for i in range(0, len(X), 1000)
    ]
    return float(np.concatenate(parts).mean())


def bracket(run, test, n_temperatures):
    """Print lower and upper ends of the mean log-likelihood of the test rows."""
    model, params = run.machine.fitted_.model, run.average.astype(np.float32)
    rng, begun = np.random.default_rng(2), time.process_time()
    chains = model.moved(params, run.machine.chains_.copy(), 5000, np.uint64(1))
    found = bracket_log_partition(model, params, chains, rng, 100, n_temperatures)
    high, low = (
        mean_log_sum(model, params, test) - end.value
        for end in (found.forward, found.reverse)
    )
    spent = time.process_time() - begun
    print(f"bracket {low:.2f} to {high:.2f}, {spent:.0f} s", found, flush=True)


def main():
    """Train, from the last checkpoint if there is one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where checkpoints are kept")
    parser.add_argument("--epochs", type=int, default=160, help="all of them")
    parser.add_argument("--last", type=int, default=0, help="with falling steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--step", type=float, default=0.1)
    parser.add_argument("--decay", type=float, default=2e-4)
    parser.add_argument("--gibbs", type=int, default=5)
    parser.add_argument("--chains", type=int, default=100)
    parser.add_argument("--chunk", type=int, default=5, help="epochs of a checkpoint")
    parser.add_argument("--judge", type=int, default=20, help="epochs of a judgement")
    parser.add_argument("--temperatures", type=int, default=3000)
    parser.add_argument("--bracket", type=int, default=0, help="temperatures")
    options = parser.parse_args()
    train, test = mnist()
    options.folder.mkdir(exist_ok=True, parents=True)
    stem = f"seed{options.seed}"
    begin = options.epochs - options.last
    name = partial("{}_{:04d}.joblib".format, stem)
    last_name = partial("{}_last{:04d}_{:04d}.joblib".format, stem, begin)
    run = None
    for epoch in range(options.epochs, 0, -1):
        path = options.folder / (name if epoch <= begin else last_name)(epoch)
        if path.exists():
            run = joblib.load(path)
            break
    if run is None:
        machine = LatentBoltzmannMachine(
            hidden_layer_sizes=500, solver="pcd", n_gibbs_m=options.gibbs,
            n_chains=options.chains, weight_decay=options.decay, tol=None,
            warm_start=True, random_state=options.seed, n_jobs=1,
        )  # fmt: skip
        run = Run(machine)
    step = partial(step_size, start=options.step, begin=begin, length=options.last)
    while run.epoch < options.epochs:
        end = options.epochs if run.epoch >= begin else begin
        run.train(train, min(options.chunk, end - run.epoch), step)
        if run.epoch % options.judge == 0 or run.epoch == options.epochs:
            run.likelihoods(train[:10000], test, options.temperatures)
        write = name if run.epoch <= begin else last_name
        joblib.dump(run, options.folder / write(run.epoch))
    if options.bracket:
        bracket(run, test, options.bracket)


if __name__ == "__main__":
    main()
