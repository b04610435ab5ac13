"""Installed versions, for reports of problems."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

__all__ = ["show_versions"]

#: Distributions that matter to a fit, or that displays and streams make use of.
DISTRIBUTIONS = (
    "sktem",
    "numpy",
    "scipy",
    "scikit-learn",
    "numba",
    "llvmlite",
    "joblib",
    "threadpoolctl",
    "matplotlib",
    "rich",
    "pandas",
    "polars",
    "torch",
    "array-api-compat",
)


def installed_versions() -> dict[str, str | None]:
    """Return the version of each distribution, None for those not installed."""
    versions: dict[str, str | None] = {}
    for name in DISTRIBUTIONS:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return versions


def show_versions() -> None:
    """Print the versions of Python, sktem, its dependencies and the BLAS in use.

    Please include the output when you report a problem.

    Examples
    --------
    >>> import sktem
    >>> sktem.show_versions()
    System:
        python: ...
    """
    # Imported here, since `import sktem` has to stay cheap.
    import numpy  # noqa: F401
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    print("System:")
    print(f"    python: {sys.version.replace(chr(10), ' ')}")
    print(f"executable: {sys.executable}")
    print(f"   machine: {platform.platform()}")
    print("\nPackages:")
    width = max(map(len, DISTRIBUTIONS))
    for name, number in installed_versions().items():
        print(f"{name:>{width}}: {number or 'not installed'}")
    print("\nThread pools:")
    for pool in threadpool_info():
        library = f"{pool['internal_api']} {pool.get('version') or '(no version)'}"
        print(f"    {pool['user_api']}: {library}, {pool['num_threads']} threads")
