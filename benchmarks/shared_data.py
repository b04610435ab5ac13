"""Where the benchmarks find the shared real data."""

from __future__ import annotations

import os
from pathlib import Path


def locate(name):
    """Return the path of a file of the shared data."""
    default = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
    folder = Path(os.environ.get("SKTEM_SHARED_DATA") or default)
    path = folder / name
    if not path.exists():
        raise SystemExit(f"no {name} in the shared data, see SKTEM_SHARED_DATA")
    return path
