"""How long the first fit on a machine takes, before which nothing has been compiled.

Each study is fitted in a process of its own with an empty folder for compiled code, and
in a second one that finds there what the first has compiled. The study: warfarin (32
subjects, oral doses as records). CPU seconds of the fit, without the import of
libraries.

Usage: ``python benchmarks/pk_first_fit.py [--only NAME]``
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings

from machine import describe
from pk_pace import warfarin

from sktem import NonlinearMixedEffectsRegressor

CASES = {"warfarin": warfarin}


def fitted(name):
    """Print CPU seconds of a fit in this process."""
    warnings.simplefilter("ignore")
    data, settings = CASES[name]()
    before = time.process_time()
    NonlinearMixedEffectsRegressor(**settings, random_state=0).fit(*data)
    print(time.process_time() - before)


def in_a_process(name, folder):
    """Return CPU seconds of a fit in a new process."""
    command = [sys.executable, __file__, "--fit", name]
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--fit", default=None)
    chosen = parser.parse_args()
    if chosen.fit is not None:
        fitted(chosen.fit)
        return
    print(describe())
    print()
    print("CPU seconds of a fit")
    print()
    print(f"{'study':22s}{'first':>8s}{'second process':>16s}")
    for name in CASES:
        if chosen.only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            first, second = in_a_process(name, folder), in_a_process(name, folder)
        print(f"{name:22s}{first:8.2f}{second:16.2f}", flush=True)


if __name__ == "__main__":
    main()
