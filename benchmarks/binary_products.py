"""Products of zeros and ones by tables of sums, against BLAS on the same arrays.

The sizes are those of layered machines; the time of the product contains the coding of
the states. Run: ``OMP_NUM_THREADS=1 python benchmarks/binary_products.py``.
"""

from __future__ import annotations

import time

import numpy as np
from machine import describe

from sktem.boltzmann.machines.layer_operations import _coded_product

ROUNDS, CALLS = 15, 10
SHAPES = [
    (16, 784, 500), (48, 784, 500), (100, 784, 500), (256, 784, 500),
    (2000, 784, 500), (100, 1784, 500), (100, 500, 1784), (256, 1784, 500),
    (100, 200, 200), (100, 256, 64), (1784, 100, 500),
]  # fmt: skip


def seconds(functions):
    """Return CPU seconds of a call of each, in turns so that all see the same load."""
    found = [[] for _ in functions]
    for _ in range(ROUNDS):
        for function, values in zip(functions, found, strict=True):
            start = time.process_time()
            for _ in range(CALLS):
                function()
            values.append((time.process_time() - start) / CALLS)
    return np.array(found)


def main():
    print(describe())
    rng = np.random.default_rng(0)
    print("\nrows, inner, columns    order    BLAS, ms     coded, ms    ratio (range)")
    for n, k, m in SHAPES:
        for order in "CF":
            a = (rng.random((n, k)) < 0.5).astype(np.float32)
            b = np.asarray(rng.normal(size=(k, m)), np.float32, order=order)
            out = np.empty((n, m), np.float32)
            blas, coded = seconds(
                [lambda: np.matmul(a, b, out=out), lambda: _coded_product(a, b, out)]  # noqa: B023
            )
            ratio, times = blas / coded, 1e3 * np.median([blas, coded], axis=1)
            print(
                f"{n:5d} {k:5d} {m:5d}            {order}   {times[0]:9.3f}    "
                f"{times[1]:9.3f}      {np.median(ratio):5.2f} ({ratio.min():.2f} to "
                f"{ratio.max():.2f})"
            )


if __name__ == "__main__":
    main()
