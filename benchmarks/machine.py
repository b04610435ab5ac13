"""The machine that benchmarks ran on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path


def describe():
    """Return one line that names the machine and the versions."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    names = ("numpy", "scipy", "scikit-learn", "numba", "sktem")
    versions = []
    for name in names:
        try:
            versions.append(f"{name} {version(name)}")
        except ImportError:  # run from a checkout that is not installed
            versions.append(f"{name} (checkout)")
    cores = os.cpu_count()
    return f"{model}, {cores} cores, Python {platform.python_version()}, " + ", ".join(
        versions
    )
