"""Hidden halves of images restored: mean squared error and log-loss per pixel.

The right halves of 300 held-out letters and digits are taken away, and replaced by the
mean of the column, by the mean of nearest neighbours on the left half, or by the
expectation under the APCD machine of ``boltzmann_images.py``. All learn from the same
rows. The expectation is the mean over chains and the second half of their transitions.
Probabilities are held to [0.01, 0.99] for the log-loss, so that the neighbours, which
may all agree, are not punished without bound.

``KNNImputer`` makes a search for each column, which takes long on so many rows. Where
all rows lack the same columns and the training rows are complete, it is a mean over
nearest neighbours; the script asserts that on random rows, and takes those.
Run: ``OMP_NUM_THREADS=1 python benchmarks/boltzmann_impute.py``, after
``boltzmann_images.py --keep FOLDER`` with the same folder, whose machines it takes, or
alone. ``--small`` is for the machines of ``--small`` there.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from boltzmann_images import SCALED, SMALL, one_solver, pretrained, standard_error
from machine import describe
from sklearn.impute import KNNImputer
from sklearn.neighbors import NearestNeighbors

NEIGHBOURS = (1, 5, 10, 20, 50)


def neighbours(train, seen, hidden, count):
    """Return the hidden columns as `KNNImputer` restores them, for each count."""
    search = NearestNeighbors(n_neighbors=max(count), algorithm="brute")
    nearest = search.fit(train[:, ~hidden]).kneighbors(seen[:, ~hidden])[1]
    return [train[nearest[:, :k]][:, :, hidden].mean(axis=1) for k in count]


def check_neighbours(hidden):
    """Assert that the means over neighbours are those of scikit-learn's imputer."""
    rng = np.random.default_rng(0)
    few, rows = rng.random((300, len(hidden))), rng.random((20, len(hidden)))
    holed = np.where(hidden, np.nan, rows)
    expected = KNNImputer(n_neighbors=5).fit(few).transform(holed)[:, hidden]
    found = neighbours(few, rows, hidden, (5,))[0]
    np.testing.assert_allclose(expected, found)


def losses(found, truth):
    """Return squared error and log-loss of each row."""
    p = np.clip(found, 0.01, 0.99)
    logs = -(truth * np.log(p) + (1 - truth) * np.log1p(-p))
    return np.square(found - truth).mean(axis=1), logs.mean(axis=1)


def restore(plan, machine, train, test, n_chains, n_steps):
    """Print the errors of each method, and the CPU time of restoring."""
    hidden = np.arange(train.shape[1]) % plan.width >= plan.width // 2
    truth = test[:, hidden].astype(float)
    check_neighbours(hidden)
    found, seconds = {}, {}
    start = time.process_time()
    found["mean"] = np.tile(train[:, hidden].mean(axis=0), (len(test), 1))
    seconds["mean"] = time.process_time() - start
    start = time.process_time()
    restored = neighbours(train, test, hidden, NEIGHBOURS)
    for k, values in zip(NEIGHBOURS, restored, strict=True):
        found[f"{k} neighbours"] = values
        seconds[f"{k} neighbours"] = time.process_time() - start
    rows = np.repeat(np.where(hidden, np.nan, test), n_chains, axis=0)
    start = time.process_time()
    values = machine.impute(rows, n_steps=n_steps)[:, hidden]
    values = values.reshape(len(test), n_chains, -1)
    seconds["machine, one chain"] = time.process_time() - start
    found["machine, one chain"] = values[:, 0]
    name = f"machine, {n_chains} chains"
    found[name], seconds[name] = values.mean(axis=1), seconds.pop("machine, one chain")
    seconds["machine, one chain"] = seconds[name] / n_chains
    shape = "-".join(str(size) for size in (train.shape[1], *plan.sizes))
    print(
        f"\n{plan.name}, {len(train):,} rows; {shape}, {plan.pretrain} + {plan.epochs} "
        f"epochs of APCD, {n_steps} transitions"
    )
    print(
        "  method                 squared error        log-loss      restoring, CPU s"
    )
    errors = {name: losses(values, truth) for name, values in found.items()}
    for method, (squares, logs) in errors.items():
        print(
            f"  {method:20s} {squares.mean():.4f} +- {standard_error(squares):.4f}   "
            f"{logs.mean():.4f} +- {standard_error(logs):.4f}   "
            f"{seconds[method]:8.1f}",
            flush=True,
        )
    for loss, label in enumerate(("squared error", "log-loss")):
        best = min(
            (f"{k} neighbours" for k in NEIGHBOURS),
            key=lambda name, loss=loss: errors[name][loss].mean(),
        )
        rows = errors[name][loss] - errors[best][loss]
        print(
            f"  {label}: machine less {best} {rows.mean():+.4f} +- "
            f"{standard_error(rows):.4f}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", help="folder of machines that are not redone")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", choices=list(SCALED))
    parser.add_argument("--chains", type=int, default=8)
    parser.add_argument("--steps", type=int, default=150)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(describe())
    for key, plan in (SMALL if arguments.small else SCALED).items():
        if arguments.only not in (None, key):
            continue
        train, test = plan.load()
        train = train[: plan.n_rows]
        layers = pretrained(key, plan, train, arguments)
        found = one_solver(key, plan, "APCD", layers, train, arguments)
        machine = found["machine"]
        restore(plan, machine, train, test[:300], arguments.chains, arguments.steps)


if __name__ == "__main__":
    main()
