"""Calibration of the bootstrap likelihood-ratio test of the number of components.

One component is tested against two, of normal columns with one variance, with 19
samples a test, on sets of 60 rows that are drawn from one normal distribution (the
null, of which p-values have to be uniform on 0.05, 0.10, ..., 1), and from two of them,
three standard deviations apart (the alternative). Printed are the shares of p-values up
to 0.05, 0.1, 0.25 and 0.5, their standard errors under the null, and the p-value of a
chi-squared test of the twenty values in five groups.

Run: ``OMP_NUM_THREADS=1 python benchmarks/likelihood_ratio.py [--small]``; the table is
written to ``doc/tables/likelihood_ratio.txt`` without ``--small``. It takes some
minutes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from machine import describe
from scipy.stats import chisquare

from sktem import StochasticEMGaussianMixture

ROWS, SAMPLES, LEVELS = 60, 19, (0.05, 0.1, 0.25, 0.5)


def p_values(n_sets, distance):
    """Return the p-values of sets of two groups at a distance."""
    found = []
    for seed in range(n_sets):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(ROWS, 1))
        X[: ROWS // 2] += distance
        mixture = StochasticEMGaussianMixture(
            2, covariance_type="tied", max_iter=300, tol=1e-5, random_state=seed
        ).fit(X)
        test = mixture.likelihood_ratio_test(X, n_bootstrap=SAMPLES)
        found.append(test.p_value)
    return np.array(found)


def main(n_sets):
    """Return the lines of the table."""
    lines = [describe(), ""]
    head = f"{'rows from':26}{'sets':>5}"
    head += "".join(f"{f'p <= {level:g}':>12}" for level in LEVELS)
    lines.append(head + f"{'uniform':>10}{'CPU':>9}")
    for name, count, distance in [
        ("one normal distribution", n_sets, 0.0),
        ("two, three sd apart", n_sets // 4, 3.0),
    ]:
        begun = time.process_time()
        p = p_values(count, distance)
        seconds = time.process_time() - begun
        groups = np.histogram(p, np.linspace(0.025, 1.025, 6))[0]
        shares = "".join(f"{(p <= level + 1e-9).mean():12.1%}" for level in LEVELS)
        uniform = chisquare(groups).pvalue
        lines.append(f"{name:26}{count:5}{shares}{uniform:10.2g}{seconds:7.0f} s")
        print(lines[-1], flush=True)
    errors = [np.sqrt(level * (1 - level) / n_sets) for level in LEVELS]
    line = f"{'standard error of the null':31}"
    lines.append(line + "".join(f"{error:12.1%}" for error in errors))
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    warnings.simplefilter("ignore")
    table = main(8 if small else 120)
    print("\n".join(table))
    if not small:
        path = Path(__file__).parents[1] / "doc" / "tables" / "likelihood_ratio.txt"
        path.write_text("\n".join(table) + "\n", encoding="utf-8")
