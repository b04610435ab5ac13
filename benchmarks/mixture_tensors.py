"""One iteration of EM for Gaussian mixtures on tensors, beside scikit-learn's.

Both get the same tensor of torch under ``array_api_dispatch``; scikit-learn's iteration
is its E-step and M-step, ours the statistics that the M-step is made from. The floor is
the time of the two products that an iteration consists of (responsibilities and their
sums) at the speed measured here for a product of matrices of the same type. Runs of the
two alternate; on the processor times are CPU seconds of one thread, on a GPU seconds on
the clock between two synchronisations. "compiled" is the loop for NumPy arrays, on the
processor only.

Usage: ``python benchmarks/mixture_tensors.py [--device cuda] [--repeats 7] [--quick]``
"""

from __future__ import annotations

import os

os.environ["SCIPY_ARRAY_API"] = "1"

import argparse
import statistics
import time
import warnings

import numpy as np
import torch
from machine import describe
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from sktem.arrays import TensorRows
from sktem.mixture import tensors
from sktem.mixture.kernels import e_step as kernels

CASES = [(10**6, 64, 64, "diag"), (10**6, 16, 32, "full"), (10**7, 16, 32, "diag")]


def make_case(n, d, K, kind, dtype, device):
    """Return a tensor, scikit-learn's model of it, and our parameters."""
    rng = np.random.default_rng(0)
    means = 3.0 * rng.normal(size=(K, d)).astype(dtype)
    X = means[rng.integers(K, size=n)] + rng.standard_normal((n, d), dtype)
    few = torch.asarray(X[: 1000 + 20 * K * d], device=device)
    peer = GaussianMixture(
        K, covariance_type=kind, init_params="random_from_data", max_iter=1,
        random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        peer.fit(few)
    host = {
        name: getattr(peer, name).cpu().numpy().astype(float)
        for name in ("weights_", "means_", "precisions_cholesky_")
    }
    centre = X[:4096].mean(axis=0, dtype=float)
    params = kernels.GaussianKernelParams(
        centre, np.log(host["weights_"]), host["means_"] - centre,
        host["precisions_cholesky_"], kind,
    )  # fmt: skip
    return X, torch.asarray(X, device=device), peer, params


def iterate_peer(peer, X):
    """Do one E-step and one M-step of scikit-learn."""
    _, log_responsibilities = peer._e_step(X)
    peer._m_step(X, log_responsibilities)


def seconds(device, function, *arguments):
    """Return the seconds of a call, and what it returns."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    if device != "cpu":
        torch.cuda.synchronize()
    start = clock()
    found = function(*arguments)
    if device != "cpu":
        torch.cuda.synchronize()
    return clock() - start, found


def peak(device, dtype):
    """Return operations per second of a product of matrices."""
    size = 1024 if device == "cpu" else 8192
    a = torch.randn((size, size), dtype=getattr(torch, dtype), device=device)
    best = min(seconds(device, torch.matmul, a, a)[0] for _ in range(9))
    return 2.0 * size**3 / best


def spread(values):
    """Return the median and the range as text."""
    return f"{statistics.median(values):8.4g} [{min(values):.3g}, {max(values):.3g}]"


def begun(description, repeats):
    """Return the arguments of a script on tensors; print where it runs."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    on_gpu = arguments.device != "cpu"
    where = torch.cuda.get_device_name() if on_gpu else "one thread"
    print(f"{describe()}\ntorch {torch.__version__}, {where}\n")
    return arguments


def main():
    arguments = begun(__doc__, repeats=7)
    device = arguments.device
    print(
        f"{'rows, d, K, covariance':26} {'type':8} {'scikit-learn, ms':28}"
        f"{'sktem, ms':28}{'ratio':24}{'floor, ms':>10}  compiled, ms"
    )
    for n, d, K, kind in CASES:
        n = n // 10 if arguments.quick else n
        for dtype in ("float32", "float64"):
            with config_context(array_api_dispatch=True):
                line(n, d, K, kind, dtype, device, arguments.repeats)


def line(n, d, K, kind, dtype, device, repeats):
    """Measure one case and print it."""
    host, X, peer, params = make_case(n, d, K, kind, dtype, device)
    rows = TensorRows(X)
    calls = {
        "theirs": (iterate_peer, peer, X),
        "ours": (tensors.expected_statistics, rows, params),
    }
    if device == "cpu":
        calls["compiled"] = (kernels.expected_statistics, host, params)
    times = {name: [] for name in calls}
    for _ in range(repeats + 1):
        for name, call in calls.items():
            times[name].append(1e3 * seconds(device, *call)[0])
    times = {name: values[1:] for name, values in times.items()}  # without warming up
    ratios = [a / b for a, b in zip(times["theirs"], times["ours"], strict=True)]
    second = d * (d + 1) // 2 if kind == "full" else d
    floor = 1e3 * 4 * n * K * (second + d) / peak(device, dtype)
    compiled = spread(times["compiled"]) if "compiled" in times else "-"
    print(
        f"{f'{n:,}, {d}, {K}, {kind}':26} {dtype:8} {spread(times['theirs']):28}"
        f"{spread(times['ours']):28}{spread(ratios):24}{floor:10.3g}  {compiled}",
        flush=True,
    )


if __name__ == "__main__":
    main()
