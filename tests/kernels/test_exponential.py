"""The exponential and the logarithm of the kernels against NumPy."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from numba import njit

import sktem
from sktem.kernels.exponential import exponential, logarithm


@njit
def apply_exponential(x, out):
    """Equal ``out = exponential(x)``."""
    for i in range(x.shape[0]):
        out[i] = exponential(x[i])


@njit
def apply_logarithm(x, out):
    """Equal ``out = logarithm(x)``."""
    for i in range(x.shape[0]):
        out[i] = logarithm(x[i])


def test_exponential():
    rng = np.random.default_rng(8)
    x = np.concatenate(
        [
            np.linspace(-707.99, 709.0, 400001),
            rng.uniform(-1.0, 1.0, 200000),
            -np.geomspace(1e-300, 1.0, 1000),
        ]
    )
    value = np.empty_like(x)
    apply_exponential(x, value)
    exact = np.exp(x.astype(np.longdouble))
    assert (np.abs(value - exact) / np.spacing(np.exp(x))).max() < 1.1
    special = np.array([0.0, -0.0, -708.1, -1e5, -1e300, -np.inf, np.nan, 709.0, 1e5])
    value = np.empty_like(special)
    apply_exponential(special, value)
    np.testing.assert_array_equal(value[:7], [1, 1, 0, 0, 0, 0, 0])
    np.testing.assert_allclose(value[7:], np.exp(709.0), rtol=1e-15)


def test_logarithm():
    x = np.concatenate(
        [np.linspace(0.7072, 2.0, 200001), np.geomspace(2.0, 1e308, 10**5)]
    )
    value = np.empty_like(x)
    apply_logarithm(x, value)
    error = np.abs(value - np.log(x.astype(np.longdouble)))
    assert error[x < 2.0].max() < 1.2e-16
    assert (error / np.spacing(np.log(x)))[x >= 2.0].max() < 2.0
    x = np.concatenate(
        [np.linspace(0.5, 0.7072, 100001), np.geomspace(1e-307, 0.5, 10**5)]
    )
    value = np.empty_like(x)
    apply_logarithm(x, value)
    error = np.abs(value - np.log(x.astype(np.longdouble)))
    assert error[x >= 0.5].max() < 1.3e-16
    assert (error / np.spacing(-np.log(x)))[x < 0.5].max() < 2.0


def test_read_only_installation(tmp_path):
    """Numba then keeps its cache in the folder of the user, and nothing fails."""
    package = tmp_path / "site" / "sktem"
    source = Path(sktem.__file__).parent
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    # Files in the way of the cache folders: nobody can write there, nor can root.
    for folder in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").touch()
    code = (
        "import sktem.kernels.exponential as module;"
        "assert module.exponential(0.0) == 1.0; print(module.__file__)"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    for variable in ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        environment[variable] = str(tmp_path / "user")
    environment.pop("NUMBA_CACHE_DIR", None)
    (tmp_path / "user").mkdir()
    command = [sys.executable, "-c", code]
    output = subprocess.check_output(command, cwd=tmp_path, env=environment, text=True)
    assert Path(output.strip()).parent == package / "kernels"
    assert list((tmp_path / "user").rglob("*.nbi"))
