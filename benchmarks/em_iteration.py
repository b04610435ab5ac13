"""One iteration of EM for Gaussian mixtures: sktem and scikit-learn.

An iteration is the E-step and the M-step, or for sktem the statistics from which
the M-step starts (what remains of it takes microseconds). Times are CPU seconds of
the process with one thread, so that other load on the machine disturbs them little;
runs of the two alternate. The floor is the time that the floating-point operations of
the kernel would take at the speed measured here for a product of matrices. Peak
memory is the high-water mark of the resident set of a fresh process, minus what it
was before the call.

Usage: ``python benchmarks/em_iteration.py [--repeats 5] [--quick]``
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings

import joblib
import numba
import numpy as np
import sklearn
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from sktem.mixture.kernels.e_step import GaussianKernelParams, expected_statistics

CASES = [
    (100_000, 1, 2, "full"),
    (1_000_000, 2, 10, "diag"),
    (1_000_000, 2, 10, "full"),
    (200_000, 16, 32, "diag"),
    (200_000, 16, 32, "full"),
    (200_000, 16, 32, "tied"),
    (200_000, 16, 32, "spherical"),
]
# An exponential of the kernel counts as this many operations.
EXPONENTIAL_OPERATIONS = 32
MINI_BATCHES = (1, 64, 1024)


def make_case(n_samples, n_features, n_components, covariance_type):
    """Return rows of a mixture, scikit-learn's model of it and our parameters."""
    rng = np.random.default_rng(0)
    means = 3.0 * rng.normal(size=(n_components, n_features))
    X = means[rng.integers(n_components, size=n_samples)]
    X += rng.normal(size=X.shape)
    peer = GaussianMixture(
        n_components,
        covariance_type=covariance_type,
        init_params="random_from_data",
        max_iter=1,
        random_state=0,
    )
    with warnings.catch_warnings():
        # One iteration is not meant to converge.
        warnings.simplefilter("ignore", ConvergenceWarning)
        peer.fit(X[: 1000 + 20 * n_components * n_features])
    centre = X.mean(axis=0)
    params = GaussianKernelParams(
        centre,
        np.log(peer.weights_),
        peer.means_ - centre,
        peer.precisions_cholesky_,
        covariance_type,
    )
    return X, peer, params


def cpu_time(function, *arguments, n_calls=1):
    """Return the CPU seconds of one call, the mean of several."""
    start = time.process_time()
    for _ in range(n_calls):
        function(*arguments)
    return (time.process_time() - start) / n_calls


def wall_time(function, *arguments, **options):
    """Return the wall-clock seconds of one call."""
    start = time.perf_counter()
    function(*arguments, **options)
    return time.perf_counter() - start


def iterate_peer(peer, X):
    """Do one E-step and one M-step of scikit-learn."""
    _, log_responsibilities = peer._e_step(X)
    peer._m_step(X, log_responsibilities)


def count_operations(n_samples, n_features, n_components, covariance_type):
    """Return the floating-point operations of a fused iteration."""
    triangle = n_features * (n_features + 1) // 2
    quadratic = {"full": triangle + n_features}.get(covariance_type, 2 * n_features)
    products = {"full": triangle, "diag": n_features, "spherical": 1}
    sums = 1 + n_features + products.get(covariance_type, 0)
    per_pair = 2 * (quadratic + sums) + EXPONENTIAL_OPERATIONS
    per_row = 4 * triangle if covariance_type == "tied" else 0
    return n_samples * (n_components * per_pair + per_row)


def measure_speed():
    """Return operations per second of a product of matrices on one thread."""
    A = np.random.default_rng(0).normal(size=(768, 768))
    return 2.0 * 768**3 / min(cpu_time(np.matmul, A, A) for _ in range(15))


def spread(values):
    """Return the median and the range as text."""
    low, high = min(values), max(values)
    return f"{statistics.median(values):8.2f} [{low:.2f}, {high:.2f}]"


def peak_memory(case):
    """Return the growth in MB of the high-water mark of a process during a call."""
    command = [sys.executable, __file__, "--memory", *map(str, case)]
    return float(subprocess.check_output(command, text=True))


def print_growth(case):
    """Print the growth of this process, after a first call has loaded all code."""
    import resource

    n_samples, n_features, n_components = map(int, case[:3])
    X, _, params = make_case(n_samples, n_features, n_components, case[3])
    expected_statistics(X[:10], params)
    # Linux counts in kilobytes, macOS in bytes.
    unit = 2**20 if sys.platform == "darwin" else 2**10
    if os.path.exists("/proc/self/clear_refs"):
        # Making the data peaked higher than it left: start the mark anew.
        with open("/proc/self/clear_refs", "w") as mark:
            mark.write("5")
    before = resident_peak(resource, unit)
    expected_statistics(X, params)
    print(resident_peak(resource, unit) - before)


def resident_peak(resource, unit):
    """Return the high-water mark of the resident set in MB."""
    if os.path.exists("/proc/self/status"):
        with open("/proc/self/status") as status:
            lines = dict(line.split(":", 1) for line in status)
        return int(lines["VmHWM"].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def processor():
    """Return the name of the processor."""
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def print_iterations(cases, repeats):
    """Print the table of whole iterations."""
    print(
        "case                       scikit-learn, CPU ms     sktem, CPU ms"
        "            ratio                 floor ms  peak MB  wall 1/2 threads"
    )
    for case in cases:
        X, peer, params = make_case(*case)
        expected_statistics(X[:10], params)
        floor = count_operations(*case) / measure_speed() * 1e3
        theirs, ours, ratios, scaling = [], [], [], []
        for _ in range(repeats):
            theirs.append(cpu_time(iterate_peer, peer, X) * 1e3)
            ours.append(cpu_time(expected_statistics, X, params, n_calls=3) * 1e3)
            ratios.append(theirs[-1] / ours[-1])
            scaling.append(
                wall_time(expected_statistics, X, params)
                / wall_time(expected_statistics, X, params, n_jobs=2)
            )
        name = "{},{},{} {}".format(*case)
        print(
            f"{name:22} {spread(theirs):24} {spread(ours):23} {spread(ratios):24}"
            f"{floor:7.2f} {peak_memory(case):8.1f}  {statistics.median(scaling):.2f}",
            flush=True,
        )


def print_mini_batches(cases, repeats):
    """Print the table of mini-batches."""
    print("\nmini-batches, CPU microseconds of one call")
    print("d, K, covariance       " + "".join(f"{b:>8} rows" for b in MINI_BATCHES))
    for _, n_features, n_components, covariance_type in cases:
        case = (20_000, n_features, n_components, covariance_type)
        X, _, params = make_case(*case)
        times = []
        for batch in MINI_BATCHES:
            rows = X[:batch]
            samples = [
                cpu_time(expected_statistics, rows, params, n_calls=200)
                for _ in range(3 * repeats)
            ]
            times.append(statistics.median(samples) * 1e6)
        name = "{},{} {}".format(*case[1:])
        print(f"{name:22} " + "".join(f"{value:13.1f}" for value in times))


def main():
    """Run the cases and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--memory", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        print_growth(options.memory)
        return
    cases = CASES
    if options.quick:
        cases = [(case[0] // 10, *case[1:]) for case in CASES]
    versions = (np, sklearn, numba, joblib)
    print(f"{processor()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    print(", ".join(f"{module.__name__} {module.__version__}" for module in versions))
    with threadpool_limits(1):
        print(f"product of matrices, one thread: {measure_speed() / 1e9:.1f} GF/s\n")
        print_iterations(cases, options.repeats)
        print_mini_batches(cases, options.repeats)


if __name__ == "__main__":
    main()
