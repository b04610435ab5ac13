import os
import subprocess
import sys
from pathlib import Path

import pytest

import sktem.kernels


def test_nothing_is_changed_where_a_folder_is_writable(monkeypatch, tmp_path):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert sktem.kernels._cache_folder() is None


def test_the_user_decides(monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", "somewhere")
    monkeypatch.setattr(sktem.kernels, "_writable", lambda folder: False)
    assert sktem.kernels._cache_folder() is None


@pytest.mark.parametrize("numba_first", [False, True])
def test_compiles_where_nothing_is_writable(numba_first, tmp_path):
    # root may write anywhere, so the answer of os.access is replaced, for numba too.
    code = f"""
import os, sys
os.environ.pop("NUMBA_CACHE_DIR", None)
os.environ["TMPDIR"] = {str(tmp_path)!r}
allowed = os.access
os.access = lambda path, mode, **keywords: (
    False if mode & os.W_OK else allowed(path, mode, **keywords)
)
if {numba_first}:
    import numba
import sktem.mixture.kernels  # as every kernel of a family does
folder = os.environ["NUMBA_CACHE_DIR"]
assert folder.startswith({str(tmp_path)!r}), folder
import numpy as np
from sktem.kernels.linear_algebra import inverse_cholesky
assert inverse_cholesky(np.full((1, 1, 1), 4.0))[0, 0, 0] == 0.5
assert any(name.endswith(".nbc") for _, _, names in os.walk(folder) for name in names)
"""
    root = str(Path(sktem.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_families_ask_where_compiled_code_is_kept():
    folders = sorted(Path(sktem.__file__).parent.glob("*/kernels/__init__.py"))
    assert folders
    for path in folders:
        assert "\nimport sktem.kernels" in path.read_text(encoding="utf-8"), path
