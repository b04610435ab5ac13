"""The pages list every public name and every example; estimators link to their page."""

import importlib
import importlib.util
import inspect
import re
import runpy
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import sktem
from sktem.links import DOCUMENTATION_URL, page_template

REPOSITORY = Path(__file__).resolve().parent.parent
API = (REPOSITORY / "doc" / "api.rst").read_text(encoding="utf-8")
MODULES = ["sktem"] + [
    f"sktem.{name}"
    for name in (
        "callbacks",
        "evaluation",
        "exceptions",
        "graphs",
        "persistence",
        "plotting",
        "rows",
    )
]


def listed_names():
    """Return the full names that the tables of the API reference hold."""
    names, module = set(), ""
    for line in API.splitlines():
        if match := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = match[1]
        elif match := re.fullmatch(r" {3}([\w.]+)", line):
            names.add(f"{module}.{match[1]}")
    return names


def test_table_of_defaults_is_that_of_the_code():
    script = runpy.run_path(str(REPOSITORY / "benchmarks" / "shared_parameters.py"))
    file = REPOSITORY / "doc" / "tables" / "shared_parameters.csv"
    assert file.read_text(encoding="utf-8") == script["table"]()


@pytest.mark.parametrize("module", MODULES)
def test_public_names_have_a_page(module):
    found = importlib.import_module(module)
    public = {
        f"{module}.{name}"
        for name in found.__all__
        if inspect.isclass(getattr(found, name))
        or inspect.isfunction(getattr(found, name))
    }
    assert public - listed_names() == set()


def test_names_with_a_page_exist():
    for name in listed_names():
        parts = name.split(".")
        for length in range(len(parts) - 1, 0, -1):
            if importlib.util.find_spec(".".join(parts[:length])):
                break
        obj = importlib.import_module(".".join(parts[:length]))
        for part in parts[length:]:
            obj = getattr(obj, part)


def test_the_floors_are_those_of_the_package():
    path = REPOSITORY / "doc" / "draw_floors.py"
    spec = importlib.util.spec_from_file_location("draw_floors", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    drawn = REPOSITORY / "doc" / "images" / "floors.svg"
    assert drawn.read_text(encoding="utf-8") == script.drawing()
    for rooms in script.FLOORS:
        for name, _ in rooms:
            assert (REPOSITORY / "sktem" / name).is_dir()


def test_examples_are_in_a_group():
    index = (REPOSITORY / "examples" / "index.rst").read_text(encoding="utf-8")
    examples = sorted(path.stem for path in (REPOSITORY / "examples").glob("plot_*.py"))
    shown = re.findall(r"^ +\.\./examples/(plot_\w+)\.py$", index, re.MULTILINE)
    in_toctree = re.findall(r"^ +(plot_\w+)$", index, re.MULTILINE)
    assert sorted(shown) == examples
    assert in_toctree == shown


def estimators():
    classes = [getattr(sktem, name) for name in sktem.__all__]
    return [c for c in classes if inspect.isclass(c) and issubclass(c, BaseEstimator)]


@pytest.mark.parametrize("estimator", estimators(), ids=lambda c: c.__name__)
def test_link_of_the_representation(estimator, monkeypatch):
    instance = estimator.__new__(estimator)
    name = estimator.__name__
    expected = page_template(DOCUMENTATION_URL).format(estimator_name=name)
    assert instance._get_doc_link() == expected
    template = page_template("https://docs.invalid")
    monkeypatch.setattr(estimator, "_doc_link_template", template)
    assert instance._get_doc_link() == f"https://docs.invalid/api/sktem.{name}.html"


def test_no_link_without_an_address():
    assert page_template("").format(estimator_name="Any") == ""


def test_a_user_class_has_no_link():
    class Mine(sktem.StochasticEMGaussianMixture):
        """A class that has no page."""

    Mine.__module__ = "mine"
    assert Mine()._get_doc_link() == ""
