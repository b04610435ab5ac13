"""Importing sktem is cheap, and its modules import in one direction only."""

import ast
import importlib
import re
import statistics
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import sktem
from sktem.lazy import names_of_stub

PACKAGE = Path(sktem.__file__).parent
HEAVY = [
    "dask",
    "duckdb",
    "h5py",
    "matplotlib",
    "numba",
    "pandas",
    "polars",
    "pyarrow",
    "rich",
    "torch",
    "zarr",
]


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


@pytest.mark.parametrize(
    "module, names, absent",
    [
        ("sktem", "()", HEAVY),
        ("sktem.plotting", "module.__all__", ["matplotlib", "numba"]),
        (
            "sktem.evaluation",
            "['individual_curves', 'bin_times', 'population_residuals']",
            ["numba"],
        ),
    ],
)
def test_what_is_not_loaded(module, names, absent):
    code = (
        f"import sys, {module} as module; [getattr(module, name) for name in {names}]; "
        "print(*(name.split('.')[0] for name in sys.modules))"
    )
    loaded = set(run_python(code).split())
    assert "sktem" in loaded
    assert loaded.isdisjoint(absent)


def test_import_is_fast():
    # Processor time, because other processes may keep the machine busy; that they
    # also spoil the caches is why a slow round gets another chance.
    code = (
        "import sklearn, time; start = time.process_time(); import sktem; "
        "print(time.process_time() - start)"
    )
    medians = []
    for _ in range(3):
        medians.append(statistics.median(float(run_python(code)) for _ in range(3)))
        if medians[-1] < 0.2:
            return
    pytest.fail(f"import sktem adds {min(medians):.2f} s to import sklearn")


@pytest.mark.parametrize("name", ["sktem", "sktem.evaluation", "sktem.plotting"])
def test_all_is_sorted_and_importable(name):
    module = importlib.import_module(name)
    assert list(module.__all__) == sorted(set(module.__all__))
    for public in module.__all__:
        assert getattr(module, public, None) is not None, public
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match="no_such_name"):
        module.no_such_name  # noqa: B018


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


def imports_of(source, module, is_package, modules, lazy):
    """Return the modules of sktem that a source imports, also inside functions.

    A lazy name of a table counts as an import of the module in which it lies.
    """
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
                here = lazy.get(base, {}).get(alias.name, base)
                found.add(full if full in modules else here)
    return {name for name in found if name == "sktem" or name.startswith("sktem.")}


FAMILIES = {
    "boltzmann",
    "deformed_copies",
    "hidden_markov",
    "mixed_effects",
    "mixture",
    "regression",
    "template",
}
# The floors of the core, from the ground up: imports go down, never across.
FLOORS = [
    {"budget"},
    {
        "arrays",
        "choices",
        "exceptions",
        "kernels",
        "lazy",
        "links",
        "persistence",
        "progress",
        "validation",
        "versions",
    },
    {"callbacks", "graphs", "history", "rows", "schedules"},
    {"emissions", "models", "sequences"},
    {"e_step"},
    {"samplers", "solvers"},
    {"loop"},
    {"estimators"},
    {"compartments", "images", "plotting"},
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
# Public paths only: an import from them would hide which module is meant.
FACES = {"", "evaluation", "expectation", "random"}
# Stubs of modules whose names are imported on first use. In the core they and the table
# of sweeps alone name a family.
STUBS = {
    "sktem",
    "sktem.evaluation",
    "sktem.models",
    "sktem.plotting",
    "sktem.samplers",
}
#: All modules with such names.
LAZY = STUBS | {"sktem.compartments", "sktem.emissions"}


def room(module):
    """Return the first part of a name below sktem: models.base is in models."""
    return (module.split(".") + [""])[1]


def lazy_names(module):
    """Return the modules in which the lazy names of a table lie."""
    return names_of_stub(importlib.import_module(module).__file__)


def is_kernel(module):
    return "kernels" in module.split(".")[1:3]


def is_display(module):
    return any(part.startswith("display") for part in module.split("."))


def may_import(module, target):
    """Return whether a module may import another one."""
    own, to = room(module), room(target)
    if to in FACES:
        return own == to
    if own in FACES:  # they find their names by a table
        return to == "lazy"
    if is_kernel(module):
        # Those of a family also take kernels of the core, as amounts in compartments.
        below = to not in FAMILIES if own in FAMILIES else to == "kernels"
        return is_kernel(target) and (to == own or below)
    if is_display(target) or to == "plotting":
        return is_display(module) and to in {"plotting", own} or own == to == "plotting"
    if to in FAMILIES or own == to:
        return own == to
    return own in FAMILIES or FLOOR[to] < FLOOR[own]


def wrong_imports(module, imported):
    """Return which of the imported modules this module must not import."""
    return {target for target in imported if not may_import(module, target)}


def families_named(source):
    """Return the modules of families that the strings of a source name."""
    return {
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"sktem(\.\w+)+", node.value)
        and room(node.value) in FAMILIES
    }


@pytest.fixture(scope="module")
def files():
    return {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@pytest.fixture(scope="module")
def arrows(files):
    """Return what each module imports."""
    lazy = {table: lazy_names(table) for table in LAZY}
    return {
        module: imports_of(
            path.read_text(encoding="utf-8"),
            module,
            path.name == "__init__.py",
            files,
            lazy,
        )
        for module, path in files.items()
    }


def test_imports_go_one_way(arrows):
    # The module that is the public path of another one has to import it.
    faces = {"sktem.expectation", "sktem.random"}
    wrong = {
        module: sorted(found)
        for module, imported in arrows.items()
        if module not in faces and (found := wrong_imports(module, imported))
    }
    assert not wrong


def test_imports_have_no_circle(arrows):
    TopologicalSorter(arrows).prepare()


def test_only_stubs_and_the_table_of_sweeps_name_families(files):
    naming = {
        module
        for module, path in files.items()
        if room(module) not in FAMILIES
        and families_named(path.read_text(encoding="utf-8"))
    }
    assert naming == {"sktem.loop.sweeps"}
    rooms = {table: set(map(room, lazy_names(table).values())) for table in LAZY}
    assert STUBS == {table for table in LAZY if rooms[table] & FAMILIES}
    assert LAZY == {module_name(path) for path in PACKAGE.rglob("*.pyi")}


def test_named_families_are_found():
    assert families_named("import_module('sktem.mixture.model')")
    assert not families_named("'See sktem.mixture.model.'\n'sktem.models.base'")


@pytest.mark.parametrize("table", sorted(LAZY))
def test_lazy_names_exist(table):
    module = importlib.import_module(table)
    names = lazy_names(table)
    assert names and set(names) <= set(module.__all__)
    for name in names:
        assert getattr(module, name, None) is not None, name


#: A module, what it imports, and what of that it must not; names without "sktem.".
IMPORTS = r"""
# The core goes down.
samplers.a | from .base import Sampler |
samplers.a | from ..models.base import A |
models.a | from .. import samplers | samplers
models.a | def f():\n import sktem.loop | loop
models.a | if TYPE_CHECKING:\n import sktem.loop |
models.a | from ..kernels.a import b |
solvers.a | from ..samplers.a import b | samplers.a
e_step.a | from sktem.solvers.a import b | solvers.a
kernels.a | from ..e_step.a import b | e_step.a
loop.a | from sktem.plotting.a import b | plotting.a
loop.a | from sktem import b | sktem
loop.a | from sktem.random import b | random
# No family in the core, nor in another family.
loop.a | import sktem.mixture.model | mixture.model
samplers | from sktem.template.a import b | template.a
mixture.a | from ..template.b import c | template.b
mixture.a | from ..estimators.base import c |
mixture.a | from .kernels.b import c |
loop.a | from ..mixture.kernels.b import c | mixture.kernels.b
loop.a | from ..samplers import Deformed | template.model.samplers
# Kernels import kernels, displays are imported by displays.
mixture.kernels.a | from ..model import b | mixture.model
mixture.kernels.a | from ...kernels.b import c |
mixture.kernels.a | from ...compartments.kernels.b import c |
compartments.kernels.a | from ...emissions.kernels.b import c | emissions.kernels.b
mixture.displays.a | from sktem.plotting.panels import b |
mixture.displays.a | from ..checks.b import c |
mixture.a | from sktem.plotting.b import c | plotting.b
mixture.a | from .displays.b import c | mixture.displays.b
mixture.displays.a | from sktem.evaluation import b | evaluation
"""
LINES = [line for line in IMPORTS.split("\n") if line and not line.startswith("#")]


@pytest.mark.parametrize("line", LINES)
def test_wrong_imports_are_found(line):
    module, source, wrong = (part.strip() for part in line.split("|"))
    source, module = source.replace(r"\n", "\n"), f"sktem.{module}"
    known = {"sktem", "sktem.samplers", "sktem.loop"}
    lazy = {"sktem.samplers": {"Deformed": "sktem.template.model.samplers"}}
    found = imports_of(source, module, module == "sktem.samplers", known, lazy)
    assert wrong_imports(module, found) == {
        name if name == "sktem" else f"sktem.{name}" for name in wrong.split()
    }


@pytest.mark.parametrize("name", HEAVY)
def test_heavy_names_are_module_names(name):
    # A misspelt name in HEAVY would make the first test of this file pass for ever.
    try:
        assert importlib.import_module(name).__name__ == name
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        pytest.skip(f"{name} is not installed")


#: Classes of rows, of which nobody outside of the room of rows asks.
CARRIERS = {
    "CheckedRows",
    "DaskRows",
    "HeldRows",
    "PartitionedRows",
    "Rows",
    "SequenceBlocks",
    "SequencePartitions",
    "Sequences",
    "TensorRows",
}
#: Attributes by which other kinds of objects are told: data frames, namespaces, paths.
NOT_OF_CARRIERS = {
    "__array_namespace__",
    "__dlpack__",
    "__fspath__",
    "__getitem__",
    "assign",
    "columns",
    "iloc",
    "to_numpy",
}
#: Names of rows in functions.
NAMES_OF_ROWS = {"X", "rows", "source", "block", "chunk", "images", "answers"}
#: Files that ask for a reason of their own: the digest of a checkpoint, whose floor is
#: that of the rows, and tables of several kinds, which are no carriers.
MAY_ASK = {
    "sktem.boltzmann.tables",
    "sktem.callbacks",
    "sktem.emissions.tables",
    "sktem.mixture.emission_mixture",
}


def questions(source):
    """Return the calls of a source that ask of which kind rows are."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and len(node.args) == 2):
            continue
        name, (asked, about) = ast.unparse(node.func), node.args
        if name == "isinstance":
            words = set(re.findall(r"\w+", ast.unparse(about)))
            if words & CARRIERS:
                found.append(ast.unparse(node))
        elif name == "hasattr" and isinstance(about, ast.Constant):
            owner = ast.unparse(asked).split(".")[-1]
            if owner in NAMES_OF_ROWS and about.value not in NOT_OF_CARRIERS:
                found.append(ast.unparse(node))
    return found


def test_nobody_asks_of_which_kind_rows_are(files):
    """Rows of a fit are a protocol, `sktem.rows.base.Carrier`."""
    asking = {
        module: found
        for module, path in files.items()
        if room(module) != "rows"
        and module not in MAY_ASK
        and (found := questions(path.read_text(encoding="utf-8")))
    }
    assert not asking


def test_questions_are_found():
    assert questions("if isinstance(X, (np.ndarray, CheckedRows)): pass")
    assert questions("n = X.shape[0] if hasattr(X, 'shape') else len(X)")
    assert questions("hasattr(self.X, '__next__')")
    assert not questions("isinstance(X, np.ndarray) or hasattr(model, 'posterior')")
