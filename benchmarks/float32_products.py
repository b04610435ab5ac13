"""What float32 arithmetic would do to the E-step of many features.

Rows of float32 about their mean, and full covariances whose eigenvalues spread over a
range, as those of images and spectra do. The E-step is computed by matrix products in
float64 and in float32, with sums over blocks of 512 rows in float64 in both. Printed
are the error of the mean log-likelihood (the default ``tol`` is 1e-6), the largest of a
row, the largest of a responsibility, and the largest relative error of a variance in
any direction after the M-step, all of float32 against float64; and how many times
faster it is, in turns.

Run: ``python benchmarks/float32_products.py`` (half a minute of one core).
"""

import argparse
import time
from pathlib import Path

import numpy as np
from machine import describe
from scipy.linalg import eigh
from scipy.linalg.blas import dsyrk, dtrmm, ssyrk, strmm
from threadpoolctl import threadpool_limits

TABLE = Path(__file__).parent.parent / "doc" / "tables" / "float32_products.txt"
N, K, BLOCK, REPEATS = 4096, 3, 512, 3
SPREADS = (1, 1e2, 1e4, 1e6)


def mixture(d, spread):
    """Return rows of float32, means, covariances, and factors of the precisions."""
    rng = np.random.default_rng(0)
    rows, means, covariances = [], [], []
    for _ in range(K):
        axes = np.linalg.qr(rng.normal(size=(d, d)))[0]
        sizes = np.geomspace(spread, 1, d) / spread
        mean = axes @ (np.sqrt(sizes) * rng.normal(size=d)) * 1.5 / np.sqrt(d)
        z = rng.normal(size=(N // K, d)) * np.sqrt(sizes)
        rows.append(mean + z @ axes.T)
        means.append(mean)
        covariances.append((axes * sizes) @ axes.T)
    X = rng.permutation(np.concatenate(rows)).astype(np.float32)
    precisions = [np.linalg.inv(np.linalg.cholesky(c)).T for c in covariances]
    return X, np.array(means), np.array(covariances), np.array(precisions)


def e_step(X, means, precisions, dtype):
    """Return log-likelihoods of rows, responsibilities and second moments."""
    triangular, squares = (dtrmm, dsyrk) if dtype == np.float64 else (strmm, ssyrk)
    d, centre = X.shape[1], X.mean(axis=0, dtype=np.float64)
    factors = precisions.astype(dtype)
    offsets = np.einsum("kd,kde->ke", means - centre, precisions).astype(dtype)
    constants = np.log(np.einsum("kdd->kd", precisions)).sum(axis=1) - np.log(K)
    constants -= d * np.log(2 * np.pi) / 2
    second, found, shares = np.zeros((K, d, d)), [], []
    for start in range(0, len(X), BLOCK):
        z = (X[start : start + BLOCK] - centre).astype(dtype)
        joint = np.empty((len(z), K))
        for k in range(K):
            y = triangular(1.0, factors[k].T, z.T, lower=1).T
            y -= offsets[k]
            joint[:, k] = constants[k] - np.einsum("ij,ij->i", y, y) / 2
        largest = joint.max(axis=1)
        r = np.exp(joint - largest[:, None])
        total = r.sum(axis=1)
        found.append(largest + np.log(total))
        shares.append(r / total[:, None])
        for k in range(K):
            scaled = z * np.sqrt(shares[-1][:, k, None]).astype(dtype)
            second[k] += squares(1.0, scaled.T)
    return np.concatenate(found), np.concatenate(shares), second


def errors(X, means, covariances, precisions):
    """Return what the docstring lists, but for the time."""
    exact = e_step(X, means, precisions, np.float64)
    rough = e_step(X, means, precisions, np.float32)
    difference = rough[0] - exact[0]
    variance = 0.0
    for k in range(K):
        change = (rough[2][k] - exact[2][k]) / exact[1][:, k].sum()
        change = np.triu(change) + np.triu(change, 1).T
        relative = eigh(change, covariances[k], eigvals_only=True)
        variance = max(variance, np.abs(relative).max())
    shares = np.abs(rough[1] - exact[1]).max()
    return abs(difference.mean()), np.abs(difference).max(), shares, variance


def times(case):
    """Return how many times faster float32 is."""
    seconds = {np.float64: [], np.float32: []}
    for _ in range(REPEATS):
        for dtype, taken in seconds.items():
            start = time.process_time()
            e_step(*case, dtype)
            taken.append(time.process_time() - start)
    return np.median(seconds[np.float64]) / np.median(seconds[np.float32])


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=TABLE)
    options = parser.parse_args()
    lines = [
        describe(),
        f"{N} rows of float32, {K} components, full covariances; errors of float32",
        "",
        f"{'features':>8} {'spread of':>12} {'mean log-':>12} {'log-likeli-':>12} "
        f"{'responsi-':>12} {'variance,':>12} {'times':>7}",
        f"{'':>8} {'eigenvalues':>12} {'likelihood':>12} {'hood of row':>12} "
        f"{'bility':>12} {'relative':>12} {'faster':>7}",
    ]
    with threadpool_limits(1):
        for d in (200, 400):
            for spread in SPREADS:
                X, means, covariances, precisions = mixture(d, spread)
                found = errors(X, means, covariances, precisions)
                faster = times((X, means, precisions))
                cells = "".join(f" {value:12.1e}" for value in found)
                lines.append(f"{d:8d} {spread:12.0e}{cells} {faster:7.1f}")
    text = "\n".join(lines) + "\n"
    print(text)
    options.out.write_text(text)


if __name__ == "__main__":
    main()
