"""Default fits of mixtures beside fits that begin at the truth.

Rows of 20 seeds an emission are drawn from mixtures of 2 to 6 components in 3 or 6
columns, without holes and with 30 % of the values missing. Printed are how many default
fits end .01 nats a row or more below the fit that begins with the true components, and
the mean of what is lost: with the starts as they are, with k-means alone in place of
short runs, and, of rows with holes, by k-means with the means in them too. Times are
processor seconds of all fits of a line, in turns.
Run: ``OMP_NUM_THREADS=1 python benchmarks/mixture_starts.py``; the table is written to
``doc/tables/mixture_starts.txt``. Takes about four minutes.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import numpy as np
from machine import describe
from sklearn.cluster import KMeans

from sktem import StochasticEMMixture
from sktem.emissions import (
    Bernoulli,
    Columns,
    FactorAnalyser,
    Gamma,
    Gaussian,
    Poisson,
    StudentT,
)
from sktem.mixture import short_runs

N_ROWS, SEEDS, LEAST_LOSS = 800, range(20), 0.01


def drawn(kind, seed, holes):
    """Return rows, their components and the emission."""
    rng = np.random.default_rng(seed)
    K, d = (2, 4, 6)[seed % 3], (3, 6)[seed % 2]
    labels = rng.choice(K, size=N_ROWS, p=rng.dirichlet(np.full(K, 5.0)))
    centres = rng.normal(size=(K, d))
    X, noise = 3 * centres[labels], rng.normal(size=(N_ROWS, d))
    flags = rng.random((N_ROWS, d)) < 1 / (1 + np.exp(-2 * centres[labels]))
    match kind:
        case "flags":
            X, emission = flags.astype(float), Bernoulli()
        case "counts":
            X = rng.poisson(np.exp(1 + centres[labels])).astype(float)
            emission = Poisson()
        case "flags, numbers, counts":
            half = d // 2
            counts = rng.poisson(np.exp(1 + centres[labels][:, :1]))
            numbers = 2 * centres[labels][:, half:] + noise[:, half:]
            X = np.hstack([flags[:, :half], numbers, counts])
            emission = Columns(
                [
                    ("flags", Bernoulli(), slice(0, half)),
                    ("numbers", Gaussian(), slice(half, d)),
                    ("counts", Poisson(), [d]),
                ]
            )
        case "gamma":
            X, emission = rng.gamma(3, np.exp(centres[labels])), Gamma()
        case "Student-t":
            X = X + rng.standard_t(3, size=(N_ROWS, d))
            emission = StudentT("diag")
        case "factor analysers":
            loadings = rng.normal(size=(K, d, 2))
            factors = rng.normal(size=(N_ROWS, 2))
            X = X + np.einsum("ndk,nk->nd", loadings[labels], factors) + noise / 2
            emission = FactorAnalyser(2)
        case _:
            X, emission = X + noise, Gaussian("diag")
    X[rng.random(X.shape) < holes] = np.nan
    seen = ~np.isnan(X).all(axis=1)
    return X[seen], labels[seen], emission


def means_in_holes(X, n_components, random_state):
    """Return clusters of standardised rows with means in place of what is missing."""
    values = X - np.nanmean(X, axis=0)
    values = np.nan_to_num(values)
    values /= np.maximum(values.std(axis=0), 1e-12)
    return KMeans(n_components, random_state=random_state).fit_predict(values)


def main():
    """Return the lines of the table."""
    names = ("as they are", "k-means", "means in holes")
    lines = [describe(), ""]
    lines.append(f"{'emission':24}{'holes':>6}" + "".join(f"{n:>24}" for n in names))
    lines.append(" " * 30 + f"{'fits, nats, s':>24}" * 3)
    for kind in ("flags", "counts", "flags, numbers, counts", "gamma", "Student-t",
                 "factor analysers", "Gaussian, diagonal"):  # fmt: skip
        for holes in (0.0, 0.3):
            losses = {name: [] for name in names}
            times = dict.fromkeys(names, 0.0)
            for seed in SEEDS:
                X, labels, emission = drawn(kind, seed, holes)
                mixture = StochasticEMMixture(
                    labels.max() + 1, emission=emission, random_state=seed
                )
                truth = mixture.set_params(init_params=lambda *_, z=labels: z)
                best = truth.fit(X).score(X)
                for name in names:
                    rule = short_runs.SHORT_RUNS
                    if name != "as they are":
                        short_runs.SHORT_RUNS = rule._replace(random=0)
                    start = means_in_holes if name == "means in holes" else "kmeans"
                    begun = time.process_time()
                    found = mixture.set_params(init_params=start).fit(X).score(X)
                    times[name] += time.process_time() - begun
                    losses[name].append(best - found)
                    short_runs.SHORT_RUNS = rule
            line = f"{kind:24}{holes:6.0%}"
            for name in names:
                lost = np.array(losses[name])
                below, mean = (lost > LEAST_LOSS).sum(), np.maximum(lost, 0.0).mean()
                line += f"{below:12d}{mean:7.4f}{times[name]:5.1f}"
            lines.append(line)
            print(line, flush=True)
    return lines


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    table = main()
    path = Path(__file__).parents[1] / "doc" / "tables" / "mixture_starts.txt"
    path.write_text("\n".join(table) + "\n", encoding="utf-8")
