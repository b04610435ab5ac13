"""Machines of images, trained for their likelihood: restricted, of 500 units, and deep.

The pixels of training digits are drawn anew from their grey levels at each visit, as
Salakhutdinov and Hinton (2009) do; those of the test are drawn once. Letters are black
and white. Persistent chains with centred updates, weight decay, steps
b / sqrt(1 + t / 10) at epoch t, and a last part in which they fall to zero and rough
filters are penalised: the weights of a hidden unit are an image, and what changes from
each pixel to the next in it is mostly noise. Judged are the parameters and an average
of them over the later epochs (later in the last part, once this has begun), by annealed
importance sampling from both ends. ``--validation`` training rows are not learned from;
what is better on them, the last parameters or the average, is printed as chosen, beside
its value on the test rows, and so steps, decays and lengths should be compared. Each
chunk of epochs ends with a checkpoint, from
which the same command goes on:

    python benchmarks/boltzmann_record.py FOLDER --epochs 110 --last 30 --seed 0

A last part may begin at any checkpoint, so that the length of a run need not be known
when it begins. A deep machine begins with the average of a restricted one, and small
weights to the layer on top:

    python benchmarks/boltzmann_record.py OTHER --below FOLDER/....joblib --top 1000 \\
        --epochs 170 --last 50 --step 0.06 --temperatures 10000
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import joblib
import numpy as np
from boltzmann_data import mnist, mnist_intensities, ocr_letters
from scipy.fft import dctn, idctn

from sktem import LatentBoltzmannMachine
from sktem.boltzmann.normalisation.ais import posterior_log_sums
from sktem.evaluation import bracket_log_partition

#: Epochs in which the step falls by a factor of the root of two.
LONG = 10
#: Powers of the weights of the averages of the first and of the last part: the t-th of
#: what is averaged goes with t ** power.
POWER, LAST_POWER = 8, 2
#: Pieces of an epoch of the last part of a restricted machine, after each of which
#: parameters are averaged.
PIECES = 10
#: Rows of an update, and training rows of which the likelihood is printed.
BATCH, JUDGED = 100, 10_000
#: Transitions of the chains before log Z is estimated from their end.
BURN_IN = 2000
#: Mean-field sweeps of a deep machine for the means of its filters' units.
SWEEPS = 10
#: Runs for each row and temperatures where the hidden units cannot be summed out: they
#: have an error of 0.12 for a row, and 100 temperatures change the mean by 0.01.
RUNS, TEMPERATURES = 4, 30


@dataclass
class Run:
    """A machine on its way, with the average of its parameters."""

    machine: LatentBoltzmannMachine
    epoch: int = 0
    cpu: float = 0.0
    shape: tuple[int, int] = (28, 28)
    average: np.ndarray | None = None
    log: list = field(default_factory=list)
    n_averaged: int = 0

    def train(self, X, n_epochs, step):
        """Learn for some epochs, and average what they end with."""
        self.machine.set_params(step_size_m=step, max_iter=1)
        for _ in range(n_epochs):
            begun = time.process_time()
            self.machine.fit(X)
            self.cpu += time.process_time() - begun
            self.epoch += 1
            self._average(self.epoch, POWER)

    def train_last(self, X, n_epochs, step, roughness):
        """Learn with a penalty on rough filters, and average all the time."""
        self.machine.set_params(step_size_m=step, max_iter=1)
        for _ in range(n_epochs):
            begun = time.process_time()
            pieces = self._pieces(len(X))
            for piece in pieces:
                rows = X[piece]
                self.machine.fit(rows)
                n_updates = len(X) // BATCH
                way = step(n_updates * self.epoch + 1) * n_updates / len(pieces)
                smooth_filters(self.machine, self.shape, way * roughness, rows[:500])
                self.n_averaged += 1
                self._average(self.n_averaged, LAST_POWER)
            self.cpu += time.process_time() - begun
            self.epoch += 1

    def _pieces(self, n_rows):
        """Return the rows of each piece: of a deep machine all, which have chains."""
        if not self.machine.fitted_.model.has_exact_posterior:
            return [slice(None)]
        order = np.random.default_rng(self.epoch).permutation(n_rows)
        return np.array_split(order, PIECES)

    def _average(self, number, power):
        """Add the parameters to the average, which the first ones begin."""
        now = self.machine.params_.astype(np.float64)
        share = (power + 1) / (number + power)
        if self.average is None or share >= 1:
            self.average = now
        else:
            self.average += share * (now - self.average)

    def judge(self, train, validation, test, n_temperatures):
        """Print log-likelihoods of the parameters and of their average, and choose."""
        model, judged = self.machine.fitted_.model, {}
        for name, params in (
            ("last", self.machine.params_),
            ("average", self.average.astype(np.float32)),
        ):
            begun, rng = time.process_time(), np.random.default_rng(1)
            chains = self.machine.chains_.copy()
            chains = model.moved(params, chains, BURN_IN, np.uint64(1))
            found = bracket_log_partition(
                model, params, chains, rng, 100, n_temperatures
            )
            value = [
                mean_log_sum(model, params, X) - found.value if len(X) else np.nan
                for X in (test, train, validation)
            ]
            judged[name] = value
            ends = ", ".join(
                f"{end.value:.2f} +- {end.standard_error:.2f} "
                f"({end.effective_sample_size:.0f})"
                for end in (found.forward, found.reverse)
            )
            spent = time.process_time() - begun
            line = (
                f"epoch {self.epoch:4d}  {self.cpu:7.0f} s  {name:8s}"
                f"test {value[0]:8.2f}  train {value[1]:8.2f}  "
                f"validation {value[2]:8.2f}  "
                f"log Z {found.value:.2f} +- {found.standard_error:.2f}, "
                f"from both ends {ends}, bracket {found.upper - found.lower:.2f} wide, "
                f"{spent:.0f} s"
            )
            print(line, flush=True)
            self.log.append(line)
        if len(validation):
            chosen = max(judged, key=lambda name: judged[name][2])
            test, _, on_validation = judged[chosen]
            line = (
                f"chosen by {len(validation)} validation rows: {chosen}, "
                f"validation {on_validation:.2f}, test {test:.2f}"
            )
            print(line, flush=True)
            self.log.append(line)


def step_size(k, n_updates, start, begin, length):
    """Return the step of update k; after epoch `begin` it falls to zero."""
    epoch = (k - 1) / n_updates
    step = start / np.sqrt(1 + epoch / LONG)
    if length and epoch >= begin:
        step *= max(1 - (epoch - begin) / length, 0.0)
    return float(step)


def smooth_filters(machine, shape, amount, rows):
    """Do an implicit step down the penalty of the squared Laplacian of the filters.

    In the cosine basis it divides each coefficient by one plus the amount times the
    square of the Laplacian's eigenvalue, which is 64 for a chessboard. Biases follow,
    so that mean inputs stay.
    """
    waves = [4 * np.sin(np.pi * np.arange(n) / (2 * n)) ** 2 for n in shape]
    shrinkage = 1 / (1 + amount * np.add.outer(*waves) ** 2)
    layout, params = machine.fitted_.model.layout, machine.params_.copy()
    weights = layout.weights_between(params, 0)
    filters = weights.T.reshape(-1, *shape)
    smooth = idctn(
        shrinkage * dctn(filters, axes=(1, 2), norm="ortho"), axes=(1, 2), norm="ortho"
    )
    change = smooth.reshape(len(filters), -1).T - weights
    weights += change
    _, hidden = machine.fitted_.model.mean_field(params, rows, None, SWEEPS)
    layout.layer_biases(params, 0)[:] -= change @ hidden.mean(axis=0)
    layout.layer_biases(params, 1)[:] -= change.T @ rows.mean(axis=0)
    machine.params_ = params


def mean_log_sum(model, params, X):
    """Return the mean of the log-likelihood plus log Z, of a deep machine by AIS."""
    if not model.has_exact_posterior:
        X, rng = X.astype(np.float64), np.random.default_rng(2)
        sums, _ = posterior_log_sums(model, params, X, rng, RUNS, TEMPERATURES)
        return float(sums.mean())
    parts = [
        np.asarray(model.log_unnormalised(params, X[i : i + 1000].astype(np.float64)))
        for i in range(0, len(X), 1000)
    ]
    return float(np.concatenate(parts).mean())


def new_machine(options, X):
    """Return a machine to train: a restricted one, or one with a layer on top of it."""
    sizes = (500, options.top) if options.below else 500
    machine = LatentBoltzmannMachine(
        hidden_layer_sizes=sizes, solver="pcd", n_gibbs_m=options.gibbs,
        n_gibbs_e=options.gibbs_e, n_chains=options.chains, binarize="sample",
        weight_decay=options.decay, tol=None, warm_start=True,
        random_state=options.seed, n_jobs=1,
    )  # fmt: skip
    if not options.below:
        return machine
    machine.set_params(max_iter=0).fit(X)
    below = joblib.load(options.below)
    old, layout = below.machine.fitted_.model, machine.fitted_.model.layout
    given = below.average.astype(np.float32)
    params, means = machine.params_.copy(), old.mean_field(given, X[:5000], None, 1)[1]
    layout.weights_between(params, 0)[:] = old.layout.weights_between(given, 0)
    layout.layer_biases(params, 0)[:] = old.layout.layer_biases(given, 0)
    # Units on top are on half of the time, and change no mean of those below them.
    weights = layout.weights_between(params, 1)
    filters = old.layout.layer_biases(given, 1)
    layout.layer_biases(params, 1)[:] = filters - weights.sum(axis=1) / 2
    layout.layer_biases(params, 2)[:] = -means.mean(axis=0) @ weights
    machine.params_, machine.chains_ = params, below.machine.chains_
    return machine


def main():
    """Train, from the last checkpoint if there is one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where checkpoints are kept")
    parser.add_argument("--letters", action="store_true", help="in place of digits")
    parser.add_argument(
        "--validation", type=int, default=5000,
        help="training rows that are left out, by which one chooses",
    )  # fmt: skip
    parser.add_argument("--epochs", type=int, default=110, help="all of them")
    parser.add_argument("--last", type=int, default=30, help="with falling steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--step", type=float, default=0.1)
    parser.add_argument("--decay", type=float, default=2e-4)
    parser.add_argument("--roughness", type=float, default=5e-5, help="its penalty")
    parser.add_argument("--gibbs", type=int, default=5)
    parser.add_argument("--gibbs-e", type=int, default=2, help="of each row, if deep")
    parser.add_argument("--below", type=Path, help="checkpoint to put a layer on")
    parser.add_argument("--top", type=int, default=1000, help="its units")
    parser.add_argument("--chains", type=int, default=100)
    parser.add_argument("--chunk", type=int, default=5, help="epochs of a checkpoint")
    parser.add_argument("--judge", type=int, default=40, help="epochs of a judgement")
    parser.add_argument("--temperatures", type=int, default=3000)
    parser.add_argument("--again", action="store_true", help="judge a finished run")
    options = parser.parse_args()
    if options.letters:
        train, test = ocr_letters()
        seen, shape = train, (16, 8)
    else:
        train, test = mnist()
        seen, shape = mnist_intensities()[0], (28, 28)
    n_seen = len(train) - options.validation
    train, validation, seen = train[:n_seen], train[n_seen:], seen[:n_seen]
    options.folder.mkdir(exist_ok=True, parents=True)
    stem = f"seed{options.seed}"
    begin = options.epochs - options.last
    name = partial("{}_{:04d}.joblib".format, stem)
    last = f"{stem}_last{begin:04d}to{options.epochs:04d}"
    last_name = partial("{}_{:04d}.joblib".format, last)
    run = None
    for epoch in range(options.epochs, 0, -1):
        path = options.folder / (name if epoch <= begin else last_name)(epoch)
        if path.exists():
            run = joblib.load(path)
            break
    if run is None:
        run = Run(new_machine(options, seen), shape=shape)
    step = partial(
        step_size, n_updates=len(seen) // BATCH, start=options.step, begin=begin,
        length=options.last,
    )  # fmt: skip
    while run.epoch < options.epochs:
        end = options.epochs if run.epoch >= begin else begin
        n_epochs = min(options.chunk, end - run.epoch)
        if run.epoch < begin:
            run.train(seen, n_epochs, step)
        else:
            run.train_last(seen, n_epochs, step, options.roughness)
        path = options.folder / (name if run.epoch <= begin else last_name)(run.epoch)
        joblib.dump(run, path)
        if run.epoch % options.judge == 0 or run.epoch == options.epochs:
            run.judge(train[:JUDGED], validation, test, options.temperatures)
            joblib.dump(run, path)
    if options.again:
        run.judge(train[:JUDGED], validation, test, options.temperatures)


if __name__ == "__main__":
    main()
