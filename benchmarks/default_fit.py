"""What a default fit of a Gaussian mixture costs, start included, by number of rows.

Beside it scikit-learn's ``GaussianMixture`` in the same run: by its default, which
stops at a change of 1e-3 per row, and with ``tol=1e-6`` and as many passes at most as
sktem, which ends at the same optimum. Rows are of eight overlapping clusters in five
columns. Seconds of CPU of one thread, least of several fits with the same start; the
share of the start is that of k-means, the fixed overhead is that of a fit of 50 rows
with one component and one pass.

Run: ``python benchmarks/default_fit.py [--most 1000000]``; with that many rows or more,
table and picture are kept.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from image_data import Report, picture
from machine import describe
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from sktem import StochasticEMGaussianMixture

#: Columns and components.
COLUMNS, COMPONENTS = 5, 8

#: Rows of the last line of the table of the documentation.
KEPT = 1_000_000


def rows(n, seed=0):
    """Return rows of overlapping clusters."""
    rng = np.random.default_rng(seed)
    means = 3 * rng.normal(size=(COMPONENTS, COLUMNS))
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


def compared(n):
    """Return a line of the table."""
    X = rows(n)
    options = {"n_components": COMPONENTS, "random_state": 0}
    fits = [
        lambda: StochasticEMGaussianMixture(**options).fit(X),
        lambda: GaussianMixture(**options).fit(X),
        lambda: GaussianMixture(tol=1e-6, max_iter=1000, **options).fit(X),
        lambda: KMeans(COMPONENTS, n_init=1, random_state=0).fit(X),
    ]
    repeats = 7 if n < 10_000 else 3 if n < 100_000 else 1
    times, (own, default, exact, _) = seconds(fits, repeats)
    scores = [one.score(X) for one in (own, default, exact)]
    return n, times, own.n_iter_, [own.n_iter_, default.n_iter_, exact.n_iter_], scores


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
    for place, name in enumerate(
        ["sktem", "scikit-learn, default", "scikit-learn, tol=1e-6", "k-means alone"]
    ):
        style = ":" if place == 3 else "-"
        axes.loglog(sizes, [line[1][place] for line in lines], style, label=name)
    axes.set(xlabel="rows", ylabel="CPU seconds of a fit")
    axes.legend(frameon=False)
    figure.savefig(path)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--most", type=int, default=KEPT)
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
    with threadpool_limits(1):
        compared(200)  # compiles
        for exponent in np.arange(2, np.log10(arguments.most) + 0.01, 0.5):
            line = compared(int(round(10**exponent)))
            lines.append(line)
            n, (own, default, exact, start), _, passes, scores = line
            report(
                f"{n:9d} {own:9.4f} {100 * start / own:5.0f}% {default:9.4f} "
                f"{default / own:6.2f} {exact:9.4f} {exact / own:6.2f} "
                f"{'/'.join(map(str, passes)):>15} "
                f"{scores[1] - scores[0]:+7.1e}/{scores[2] - scores[0]:+7.1e}"
            )
        ours, theirs = overhead()
    report(f"fixed overhead: sktem {ours:.2f} ms, scikit-learn {theirs:.2f} ms")
    if arguments.most >= KEPT:
        drawn(lines, picture("default_fit"))


if __name__ == "__main__":
    main()
