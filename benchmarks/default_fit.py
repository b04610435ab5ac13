"""What a default fit of a Gaussian mixture costs, start included, by number of rows.

Beside it scikit-learn's ``GaussianMixture`` in the same run: by its default, which
stops at a change of 1e-3 per row, and with ``tol=1e-6`` and as many passes at most as
sktem, which ends at the same optimum. Rows are of eight overlapping clusters in five
columns. Seconds of CPU of one thread, least of several fits with the same start; the
share of the start is that of a fit without passes, the fixed overhead is that of a fit
of 50 rows with one component and one pass. Of a million rows scikit-learn makes its
default fit only; more are in a memory map that only sktem reads.

Run: ``python benchmarks/default_fit.py [--most 10000000]``; with a million rows or
more, table and picture are kept.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from image_data import Report, picture
from machine import describe
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from sktem import StochasticEMGaussianMixture

#: Columns and components.
COLUMNS, COMPONENTS = 5, 8

#: Rows of the last line of the table of the documentation.
KEPT = 1_000_000


def rows(n, seed=0):
    """Return rows of overlapping clusters, the same for all seeds."""
    rng = np.random.default_rng(0)
    means = 3 * rng.normal(size=(COMPONENTS, COLUMNS))
    rng = rng if seed == 0 else np.random.default_rng(seed)
    return means[rng.integers(COMPONENTS, size=n)] + rng.normal(size=(n, COLUMNS))


def seconds(fits, repeats):
    """Return the least CPU seconds of each of several fits, done by turns, and them."""
    least, fitted = np.full(len(fits), np.inf), [None] * len(fits)
    for _ in range(repeats):
        for place, fit in enumerate(fits):
            began = time.process_time()
            fitted[place] = fit()
            least[place] = min(least[place], time.process_time() - began)
    return least, fitted


def compared(n, folder):
    """Return a line of the table."""
    X = rows(n) if n <= KEPT else mapped(n, folder)
    options = {"n_components": COMPONENTS, "random_state": 0}
    fits = [
        lambda: StochasticEMGaussianMixture(**options).fit(X),
        lambda: StochasticEMGaussianMixture(max_iter=0, **options).fit(X),
        lambda: GaussianMixture(**options).fit(X),
        lambda: GaussianMixture(tol=1e-6, max_iter=1000, **options).fit(X),
    ]
    if n >= KEPT:
        fits = fits[: 3 if n == KEPT else 2]
    repeats = 7 if n < 10_000 else 3 if n < 100_000 else 1
    times, fitted = seconds(fits, repeats)
    del fitted[1]
    times = np.append(times, np.full(4 - len(times), np.nan))
    return n, times, [one.n_iter_ for one in fitted], [one.score(X) for one in fitted]


def mapped(n, folder):
    """Return rows in a memory map."""
    path = Path(folder) / "rows.npy"
    X = np.lib.format.open_memmap(path, "w+", np.float64, (n, COLUMNS))
    for place in range(0, n, KEPT):
        X[place : place + KEPT] = rows(min(KEPT, n - place), seed=place)
    X.flush()
    return np.load(path, mmap_mode="r")


def overhead():
    """Return the milliseconds of a fit that does nothing, of both."""
    X = rows(50)
    fits = [
        lambda: StochasticEMGaussianMixture(max_iter=1).fit(X),
        lambda: GaussianMixture(max_iter=1).fit(X),
    ]
    return 1e3 * seconds(fits, 50)[0]


def drawn(lines, path):
    """Draw the times."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.2, 3.4), layout="constrained")
    sizes = [line[0] for line in lines]
    names = ["sktem", "its start", "scikit-learn, default", "scikit-learn, tol=1e-6"]
    for place, name in enumerate(names):
        style = ":" if place == 1 else "-"
        axes.loglog(sizes, [line[1][place] for line in lines], style, label=name)
    axes.set(xlabel="rows", ylabel="CPU seconds of a fit")
    axes.legend(frameon=False)
    figure.savefig(path)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--most", type=int, default=10 * KEPT)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    report = Report("default_fit" if arguments.most >= KEPT else None)
    report(describe())
    head = (
        f"{'rows':>9} {'sktem':>9} {'start':>6} {'sklearn':>9} {'ratio':>6} "
        f"{'tol 1e-6':>9} {'ratio':>6} {'passes':>15} {'below sklearn':>15}"
    )
    report(head)
    lines = []
    with threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
        compared(200, folder)  # compiles
        sizes = list(
            10 ** np.arange(2, np.log10(min(arguments.most, KEPT)) + 0.01, 0.5)
        )
        for size in sizes + [arguments.most] * (arguments.most > KEPT):
            line = compared(int(round(size)), folder)
            lines.append(line)
            n, (own, start, default, exact), passes, scores = line
            text = f"{n:9d} {own:9.4f} {100 * start / own:5.0f}% "
            below = "/".join(f"{score - scores[0]:+7.1e}" for score in scores[1:])
            text += (
                f"{default:9.4f} {default / own:6.2f} {exact:9.4f} "
                f"{exact / own:6.2f} {'/'.join(map(str, passes)):>15} {below}"
            )
            report(text.replace("nan", "  -").rstrip())
        ours, theirs = overhead()
    report(f"fixed overhead: sktem {ours:.2f} ms, scikit-learn {theirs:.2f} ms")
    if arguments.most >= KEPT:
        drawn(lines, picture("default_fit"))


if __name__ == "__main__":
    main()
