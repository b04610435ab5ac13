"""Importing sktem is cheap, and its modules import in one direction only."""

import ast
import importlib
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import sktem

PACKAGE = Path(sktem.__file__).parent
HEAVY = ["dask", "matplotlib", "numba", "pandas", "polars", "rich", "torch"]


def run_python(code):
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=PACKAGE.parent,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_import_loads_nothing_heavy():
    code = "import sys, sktem; print(*(name.split('.')[0] for name in sys.modules))"
    loaded = set(run_python(code).split())
    assert "sktem" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_import_is_fast():
    # Processor time, because other processes may keep the machine busy; that they
    # also spoil the caches is why a slow round gets another chance.
    code = (
        "import sklearn, time; start = time.process_time(); import sktem; "
        "print(time.process_time() - start)"
    )
    medians = []
    for _ in range(3):
        medians.append(statistics.median(float(run_python(code)) for _ in range(5)))
        if medians[-1] < 0.2:
            return
    pytest.fail(f"import sktem adds {min(medians):.2f} s to import sklearn")


def test_all_is_sorted_and_importable():
    assert list(sktem.__all__) == sorted(set(sktem.__all__))
    for name in sktem.__all__:
        assert getattr(sktem, name, None) is not None, name
    assert set(sktem.__all__) <= set(dir(sktem))


def test_unknown_name():
    with pytest.raises(AttributeError, match="no_such_name"):
        sktem.no_such_name  # noqa: B018


def module_name(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def without_typing_blocks(tree):
    """Yield the nodes that run, thus not those under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for alternative in node.orelse:
                yield alternative
                yield from without_typing_blocks(alternative)
            continue
        yield node
        yield from without_typing_blocks(node)


def imports_of(source, module, is_package, modules):
    """Return the modules of sktem that a source imports, also inside functions."""
    found = set()
    for node in without_typing_blocks(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                parts = parts[: len(parts) - node.level + is_package]
                base = ".".join([*parts, base] if base else parts)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                found.add(full if full in modules else base)
    return {name for name in found if name == "sktem" or name.startswith("sktem.")}


def layer(module):
    """Return the first part of a name below sktem: models.base is in models."""
    return (module.split(".") + [""])[1]


TOP = {"estimators", "evaluation", "plotting"}
FORBIDDEN = {
    "samplers": {"models", "solvers", "loop"},
    "models": {"solvers", "samplers", "loop"},
    "solvers": {"loop"},
    "schedules": {"models", "solvers", "samplers", "loop"},
    "evaluation": {"plotting"},
    "estimators": {"plotting"},
}


def wrong_imports(module, imported):
    """Return which of the imported modules this module must not import."""
    own = layer(module)
    wrong = set()
    for target in imported:
        to = layer(target)
        if not to:
            # `from sktem import name` would hide which module is meant.
            wrong.add(target)
        elif own == "kernels":
            if to != "kernels":
                wrong.add(target)
        elif to in FORBIDDEN.get(own, ()) or (own not in TOP and to in TOP):
            wrong.add(target)
    return wrong


def test_imports_go_one_way():
    files = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
    # The lazy face of the package names all modules, that is its purpose.
    faces = {"sktem"}
    wrong = {}
    for module, path in files.items():
        source = path.read_text(encoding="utf-8")
        is_package = path.name == "__init__.py"
        imported = imports_of(source, module, is_package, files)
        if module not in faces and (found := wrong_imports(module, imported)):
            wrong[module] = sorted(found)
    assert not wrong


@pytest.mark.parametrize(
    "module, source, wrong",
    [
        ("sktem.samplers.gibbs", "from ..models.base import A", {"sktem.models.base"}),
        ("sktem.samplers.gibbs", "from .. import models", {"sktem.models"}),
        ("sktem.samplers.gibbs", "from .base import Sampler", set()),
        ("sktem.models.a", "def f():\n import sktem.loop", {"sktem.loop"}),
        ("sktem.models.a", "if TYPE_CHECKING:\n import sktem.loop", set()),
        ("sktem.models.a", "from ..kernels.a import b", set()),
        ("sktem.kernels.a", "from ..random import b", {"sktem.random"}),
        ("sktem.loop", "from sktem.plotting import b", {"sktem.plotting"}),
        ("sktem.loop", "from sktem import b", {"sktem"}),
        ("sktem.evaluation.a", "from ..estimators.b import c", set()),
    ],
)
def test_wrong_imports_are_found(module, source, wrong):
    known = {"sktem", "sktem.models", "sktem.loop"}
    assert wrong_imports(module, imports_of(source, module, False, known)) == wrong


@pytest.mark.parametrize("name", HEAVY)
def test_heavy_names_are_module_names(name):
    # A misspelt name in HEAVY would make the first test of this file pass for ever.
    try:
        assert importlib.import_module(name).__name__ == name
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        pytest.skip(f"{name} is not installed")
