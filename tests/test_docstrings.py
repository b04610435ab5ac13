"""The docstrings of all public names follow numpydoc and agree with the code."""

import importlib
import inspect
import re
from typing import NamedTuple

import pytest
from numpydoc.docscrape import ClassDoc
from numpydoc.validate import validate

from tests.conftest import REPOSITORY

# What numpydoc finds, see numpydoc.validate.ERROR_MSGS. Left out is what is a
# matter of taste (GL01, SS05, RT02: the layout of the first line and of Returns)
# or cannot be asked of every name (ES01, SA01: extended summary, See Also).
CHECKED = {
    "GL02": "closing quotes on their own line",
    "GL03": "no double blank lines",
    "GL05": "no tabs",
    "GL06": "no unknown section",
    "GL07": "sections in numpydoc's order",
    "GL08": "there is a docstring",
    "SS01": "there is a summary",
    "SS02": "the summary starts with a capital letter",
    "SS03": "the summary ends with a period",
    "SS04": "the summary has no leading spaces",
    "SS06": "the summary fits in one line",
    "PR01": "every parameter is documented",
    "PR02": "no unknown parameter is documented",
    "PR03": "parameters are in the order of the signature",
    "PR04": "every parameter has a type",
    "PR05": "a type does not end with a period",
    "PR07": "every parameter is described",
    "PR10": "a space stands before the colon of a parameter",
    "RT01": "what is returned is documented",
    "RT03": "what is returned is described",
    "YD01": "what is yielded is documented",
}
CHECKED_IN_CLASSES = {"EX01": "there is an example"}
#: Not asked of the methods of parts: a protocol describes once what they take.
BY_PROTOCOL = {"PR01", "RT01", "RT03", "YD01"}
PARTS = {
    "callbacks",
    "emissions",
    "expectation",
    "models",
    "random",
    "samplers",
    "schedules",
    "solvers",
}
#: Not asked of records of results, which document their fields as attributes, and
#: of classes that no caller makes: protocols, and what estimators and runs build.
OF_CALLERS = {"PR01", "EX01"}
BUILT_BY_OTHERS = {
    "sktem.expectation.Expectation",
    "sktem.models.DeformableTemplateModel",
    "sktem.models.ImageGrid",
    "sktem.models.NonlinearMixedEffectsModel",
}
#: All modules of the API page, and those from which it names single classes.
MODULES = sorted(
    set(re.findall(r"currentmodule:: (\S+)", (REPOSITORY / "doc/api.rst").read_text()))
    | {"sktem.expectation", "sktem.random"}
)


def public_methods(cls):
    """Yield the names of public methods and properties that sktem itself defines."""
    for name in dir(cls):
        if name.startswith("_"):
            continue
        owner = next((base for base in cls.__mro__ if name in vars(base)), object)
        # Methods that scikit-learn makes for metadata routing lie in our class.
        made_by = getattr(getattr(cls, name), "__module__", owner.__module__)
        if not (owner.__module__ + ".").startswith("sktem."):
            continue
        if made_by is not None and made_by.startswith("sklearn."):
            continue
        if callable(getattr(cls, name)) or isinstance(vars(owner)[name], property):
            yield name


def is_record(found):
    """Return whether a class is of results, whose fields are attributes."""
    has_fields = hasattr(found, "_fields") or hasattr(found, "__dataclass_fields__")
    return has_fields and not ClassDoc(found)["Parameters"]


def codes_of(name, cls):
    """Return what is asked of the docstring of a class."""
    if is_record(cls):
        return CHECKED.keys() - OF_CALLERS
    if inspect.isabstract(cls) or name in BUILT_BY_OTHERS:
        return CHECKED.keys()
    return CHECKED.keys() | CHECKED_IN_CLASSES.keys()


def all_names():
    """Yield the dotted name of what is public, itself, and what is asked of it."""
    seen = set()
    for module in MODULES:
        public = importlib.import_module(module)
        of_methods = CHECKED.keys()
        if module.split(".")[-1] in PARTS:
            of_methods = of_methods - BY_PROTOCOL
        for name in public.__all__:
            found, full = getattr(public, name), f"{module}.{name}"
            if id(found) in seen:
                continue
            seen.add(id(found))
            if inspect.isclass(found):
                yield full, found, codes_of(full, found)
                for method in public_methods(found):
                    yield f"{full}.{method}", None, of_methods
            elif inspect.isroutine(found):
                yield full, found, CHECKED.keys()


def faults(name, found, codes):
    """Return what is wrong in a docstring, and which fields of a record it lacks."""
    wrong = [
        f"{code}: {message}"
        for code, message in validate(name)["errors"]
        if code in codes
    ]
    if inspect.isclass(found) and is_record(found):
        described = {
            field
            for attribute in ClassDoc(found)["Attributes"]
            for field in attribute.name.split(", ")
        }
        fields = set(inspect.signature(found).parameters)
        wrong += [f"PR01: {field}" for field in sorted(fields - described)]
    return wrong


@pytest.mark.parametrize("name, found, codes", list(all_names()))
def test_docstring(name, found, codes):
    assert not (wrong := faults(name, found, codes)), "\n".join([name, *wrong])


class Documented:
    """Do a thing

    Parameters
    ----------
    b : int
        The first.
    c : int
        Not there.
    """

    def __init__(self, a, b):
        self.a = a
        self.b = b

    def method(self):
        return self.a


class Result(NamedTuple):
    """A result.

    Attributes
    ----------
    a, b : int
        Two of three.
    """

    a: int
    b: int
    c: int


@pytest.mark.parametrize(
    "name, codes",
    [
        ("Documented", {"SS03", "PR01", "PR02", "EX01"}),
        ("Documented.method", {"GL08"}),
        ("Result", {"PR01"}),
    ],
)
def test_faults_are_found(name, codes):
    found = globals().get(name)
    asked = codes_of(name, found) if found else CHECKED
    wrong = faults(f"{__name__}.{name}", found, asked)
    assert {fault.split(":")[0] for fault in wrong} == codes
