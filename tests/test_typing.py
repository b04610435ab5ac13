"""What a type checker tells users: names of parameters, classes to derive from."""

import ast
import importlib
import re
from pathlib import Path

import pytest

import sktem

ROOT = Path(sktem.__file__).parent.parent
#: Tables of lazy names.
TABLES = {
    "sktem": "_PUBLIC",
    "sktem.evaluation": "_PUBLIC",
    "sktem.models": "_PUBLIC",
    "sktem.plotting": "_PUBLIC",
    "sktem.samplers": "_OF_FAMILIES",
}

#: A user's module; comments are the errors that mypy has to find, and no others.
SCRIPT = """
# mypy: disallow-subclassing-any, disallow-untyped-defs, disallow-any-generics
from typing import NamedTuple

import numpy as np

from sktem import StochasticEM, StochasticEMGaussianMixture
from sktem.models import LatentModel
from sktem.samplers import MALA
from sktem.solvers import FITTEM


class Params(NamedTuple):
    mean: float


class Own(LatentModel):
    def __init__(self, width: float) -> None:
        self.width = width

    def initial_params(self, X: np.ndarray, rng: np.random.Generator) -> Params:
        return Params(float(X.mean()))


X = np.zeros((10, 2))
mixture = StochasticEMGaussianMixture(3, solver="isaem", random_state=0).fit(X)
mixture.predict(X)
StochasticEM(Own(1.0), solver="online").fit(X)
StochasticEMGaussianMixture(3, solvr="em")  # error: Unexpected keyword argument "solvr"
StochasticEM(solver=FITTEM(), sampler=MALA(step=0.1))  # error: Missing positional
MALA(stepp=0.1)  # error: Unexpected keyword argument "stepp"
from sktem import StochasticEMM  # error: Module "sktem" has no
"""


@pytest.mark.parametrize("module, table", TABLES.items())
def test_lazy_names_have_types(module, table):
    """The imports for type checkers are the table of lazy names."""
    path = Path(importlib.import_module(module).__file__)
    imported = {
        alias.asname: node.module
        for block in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        for alias in node.names
    }
    assert imported == getattr(importlib.import_module(module), table)


@pytest.mark.timeout(300)
def test_script_of_a_user(tmp_path, monkeypatch):
    """By the settings of the repository, whose cached results are used."""
    api = pytest.importorskip("mypy.api")
    monkeypatch.chdir(ROOT)
    path = tmp_path / "script_of_a_user.py"
    path.write_text(SCRIPT)
    found, problems, _ = api.run([str(path)])
    assert not problems
    errors = dict(re.findall(r"script_of_a_user\.py:(\d+): (error: .*)", found))
    lines = enumerate(SCRIPT.split("\n"), 1)
    expected = {str(n): line.split("# ")[1] for n, line in lines if "# error" in line}
    assert errors.keys() == expected.keys(), found
    for number, text in expected.items():
        assert text in errors[number]
