"""The log-likelihood that fits of machines watch, against exact sums, on clusters.

Default fits of 31 tables in clusters (patterns with bits turned over, one-hot columns
of latent classes, mixtures of Bernoulli columns), with 18 hidden units, so that log Z
is exactly known. For each table: the temperatures that the chains ended with, the last
exact log-likelihood of the rows and that under the distribution that they were drawn
from, the largest error of a watched value in nats and in its standard errors, and the
share of the CPU time of the fit that measuring took. ``--replicas 1`` is the same
without tempering.

Run: ``OMP_NUM_THREADS=1 python benchmarks/boltzmann_watch.py`` (about 2 CPU minutes;
``--tables 0 14`` is a piece of it, ``--seeds 3`` three times as many tables).
"""

import argparse
import time
import warnings

import numpy as np
from machine import describe
from scipy.special import logsumexp

from sktem import LatentBoltzmannMachine
from sktem.boltzmann.learning.objective import Objective
from sktem.boltzmann.learning.rounds import Rounds
from sktem.boltzmann.normalisation.partition import ExactPartition

N_ROWS, N_HIDDEN = 500, 18


def from_classes(rng, shares, probabilities):
    """Return rows of a mixture of Bernoulli columns, and their log-likelihood."""
    p = np.clip(probabilities, 1e-12, 1 - 1e-12)
    X = (
        rng.random((N_ROWS, p.shape[1])) < p[rng.choice(len(p), N_ROWS, p=shares)]
    ) * 1.0
    logs = X @ np.log(p).T + (1 - X) @ np.log1p(-p).T + np.log(shares)
    return X, logsumexp(logs, axis=1).mean()


def patterns(rng, n_columns, n_patterns, flip):
    """Rows near a few patterns."""
    kinds = rng.random((n_patterns, n_columns)) < 0.5
    p = np.where(kinds, 1 - flip, flip)
    return from_classes(rng, np.full(n_patterns, 1 / n_patterns), p)


def one_hot(rng, n_columns, n_levels, n_classes):
    """Rows of latent classes whose columns are coded one-hot."""
    p = rng.dirichlet(np.full(n_levels, 0.2), (n_classes, n_columns))
    classes = rng.integers(n_classes, size=N_ROWS)
    levels = (rng.random((N_ROWS, n_columns, 1)) > p[classes].cumsum(axis=2)).sum(
        axis=2
    )
    X = np.eye(n_levels)[np.minimum(levels, n_levels - 1)]
    logs = np.einsum("ncl,kcl->nk", X, np.log(np.maximum(p, 1e-300)))
    return X.reshape(N_ROWS, -1), (logsumexp(logs, axis=1) - np.log(n_classes)).mean()


def mixture(rng, n_columns, n_classes):
    """Rows of classes of unequal size and overlapping columns."""
    p = rng.beta(0.3, 0.3, (n_classes, n_columns))
    return from_classes(rng, rng.dirichlet(np.ones(n_classes)), p)


KINDS = [
    *[(patterns, sizes) for sizes in (
        (40, 6, 0.03), (60, 10, 0.05), (30, 4, 0.02), (100, 10, 0.05), (16, 3, 0.05),
        (20, 2, 0.01), (24, 8, 0.02), (36, 12, 0.03), (50, 5, 0.1), (80, 4, 0.01),
        (25, 20, 0.02),
    )],
    *[(one_hot, sizes) for sizes in (
        (8, 5, 6), (12, 4, 5), (6, 8, 8), (15, 6, 4), (4, 10, 6), (5, 4, 3), (7, 6, 2),
        (10, 3, 8), (20, 3, 5), (3, 12, 10),
    )],
    *[(mixture, sizes) for sizes in (
        (20, 8), (40, 5), (60, 12), (30, 20), (12, 3), (16, 6), (25, 4), (35, 15),
        (50, 10), (80, 6),
    )],
]  # fmt: skip


def watched(X, **options):
    """Return a default fit, its measures with their parameters, and CPU seconds."""
    found, spent = [], [0.0]
    keep, estimate = Rounds.measure, Objective.measure

    def kept(rounds, state, watch, value=None):
        keep(rounds, state, watch, value)
        found.append((rounds.measures[-1], state.params.copy(), watch))

    def timed(self, *arguments):
        begun = time.process_time()
        try:
            return estimate(self, *arguments)
        finally:
            spent[0] += time.process_time() - begun

    Rounds.measure, Objective.measure = kept, timed
    try:
        begun = time.process_time()
        machine = LatentBoltzmannMachine(
            hidden_layer_sizes=N_HIDDEN, random_state=0, **options
        ).fit(X)
        return machine, found, spent[0], time.process_time() - begun
    finally:
        Rounds.measure, Objective.measure = keep, estimate


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicas", type=int, default=None)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--tables", type=int, nargs=2, default=(0, len(KINDS)))
    arguments = parser.parse_args()
    options = {} if arguments.replicas is None else {"n_replicas": arguments.replicas}
    print(describe(), flush=True)
    print("table                     T  exact   truth  error  in se  measuring  warned")
    errors, scores, shares = [], [], []
    kinds = KINDS[slice(*arguments.tables)]
    for seed in range(arguments.seeds):
        for make, sizes in kinds:
            X, truth = make(
                np.random.default_rng([seed, *map(ord, make.__name__)]), *sizes
            )
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                machine, found, spent, total = watched(X, **options)
            exact = ExactPartition(machine.fitted_.model)
            off = []
            for measure, params, watch in found[1:]:
                value = watch.model.log_unnormalised(params, watch.X).mean()
                value -= exact.value(params)
                if watch.left_out is None:
                    value -= watch.prior.value(watch.model, params)
                off.append((abs(measure.value - value), measure.error + 1e-9))
            last = machine.score(X, method="exact")
            largest = max(error for error, _ in off)
            worst = max(error / se for error, se in off)
            errors.append(largest)
            scores.append(worst)
            shares.append(spent / total)
            name = f"{make.__name__} {sizes}"
            print(
                f"{name:24s} {machine.n_replicas_:2d} {last:7.2f} {truth:7.2f} "
                f"{largest:6.2f} {worst:6.1f} {spent / total:10.2f}  "
                f"{'yes' if caught else 'no'} ({total:.1f} s)",
                flush=True,
            )
    print(
        f"{len(errors)} tables: largest error {max(errors):.2f} nats, its median "
        f"{np.median(errors):.2f}, more than four standard errors in "
        f"{np.sum(np.array(scores) > 4)}; measuring took {np.mean(shares):.0%} of the "
        f"time on average, {max(shares):.0%} at most"
    )


if __name__ == "__main__":
    main()
