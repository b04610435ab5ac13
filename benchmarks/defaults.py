"""Default settings of every estimator on data that nobody tuned to.

Runs the cases of ``tests/defaults``, each with several seeds, and prints how far the
results are from their references and whether a warning was raised where they are too
far.

Usage: ``python benchmarks/defaults.py``; ``--only mixture template`` for some families,
``--fast`` without the slow cases, ``--seeds 3`` for fewer seeds.
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
from machine import describe
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.defaults.harness import FAMILIES, cases_of, run_case  # noqa: E402


def print_case(case, seeds):
    start = time.process_time()
    outcomes = [run_case(case, seed) for seed in seeds]
    seconds = (time.process_time() - start) / len(outcomes)
    distances = [outcome.distance for outcome in outcomes]
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    told = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    measure = f"{case.unit}, {case.reference}"
    print(
        f"{case.estimator:30} {case.name:44} {np.median(distances):9.3g} "
        f"{np.max(distances):9.3g} {case.limit:8g} {measure:44} {told} "
        f"({seconds:.1f} s)",
        flush=True,
    )
    return outcomes


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=FAMILIES, default=FAMILIES)
    parser.add_argument("--fast", action="store_true", help="leave out slow cases")
    arguments = parser.parse_args()
    print(describe())
    print(
        f"{'estimator':30} {'data':44} {'median':>9} {'worst':>9} {'limit':>8} "
        f"{'distance':44} {arguments.seeds} seeds"
    )
    outcomes = []
    for family in arguments.only:
        for case in cases_of(family, arguments.fast):
            outcomes += print_case(case, range(arguments.seeds))
    refused = [outcome for outcome in outcomes if not outcome.accepted]
    totals = Counter(outcome.verdict for outcome in outcomes)
    print("in all: " + ", ".join(f"{n} {verdict}" for verdict, n in totals.items()))
    for outcome in refused:
        print(f"not accepted: {outcome.case.name}, seed {outcome.seed}")


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
