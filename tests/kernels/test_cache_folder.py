import os
import pickle
import shutil
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


def test_compiled_code_is_that_of_the_sources(tmp_path):
    # Compiled code of `combined` holds that of `mixed`, which is in another file.
    root = Path(sktem.__file__).parent
    copy = tmp_path / "sktem"
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "from sktem.kernels.counter_random import combined as c; print(c(1, 2, 3, 4))"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    environment.pop("NUMBA_CACHE_DIR", None)

    def printed():
        run = [sys.executable, "-c", code]
        return subprocess.run(
            run, check=True, env=environment, cwd=tmp_path, capture_output=True
        ).stdout

    def compiled():
        return {path: path.stat().st_mtime_ns for path in copy.rglob("*.nbc")}

    first, files = printed(), compiled()
    assert files
    assert printed() == first
    assert compiled() == files  # nothing was compiled again
    source = copy / "kernels" / "counter.py"
    text = source.read_text(encoding="utf-8")
    factor = "0x9E3779B97F4A7C15"
    assert text.count(factor) == 1
    source.write_text(text.replace(factor, factor[:-1] + "7"), encoding="utf-8")
    other = printed()
    assert other != first
    shutil.rmtree(copy / "kernels" / "__pycache__")
    assert printed() == other


def test_an_index_of_another_version_is_no_error(tmp_path):
    # numba reads the classes of arguments before it looks whether the source is newer.
    root = Path(sktem.__file__).parent
    copy = tmp_path / "sktem"
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    environment.pop("NUMBA_CACHE_DIR", None)
    code = "from sktem.kernels.counter_random import combined; combined(1, 2, 3, 4)"
    run = [sys.executable, "-c", code]
    subprocess.run(run, check=True, env=environment, cwd=tmp_path)
    (index,) = copy.rglob("*combined*.nbi")
    with open(index, "r+b") as file:
        pickle.load(file)  # the version of numba
        file.write(b"csktem.kernels.counter\nMoved\n.")
        file.truncate()
    (index.parent / sktem.kernels._STAMP).write_text("older", encoding="ascii")
    subprocess.run(run, check=True, env=environment, cwd=tmp_path)
