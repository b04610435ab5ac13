"""The docstrings of all public names follow numpydoc and agree with the code."""

import inspect
import types

import pytest
from numpydoc.validate import validate

import sktem

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


def public_objects(module, seen):
    """Yield (dotted name, object) of the classes and functions of `__all__`."""
    for name in module.__all__:
        obj = getattr(module, name)
        if isinstance(obj, types.ModuleType):
            if hasattr(obj, "__all__"):
                yield from public_objects(obj, seen)
        elif (inspect.isclass(obj) or inspect.isroutine(obj)) and id(obj) not in seen:
            seen.add(id(obj))
            yield f"{module.__name__}.{name}", obj


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


def all_names():
    names = {}
    for name, obj in public_objects(sktem, set()):
        names[name] = inspect.isclass(obj)
        if names[name]:
            names.update({f"{name}.{method}": False for method in public_methods(obj)})
    return names


def faults(name, codes):
    return [
        f"{code}: {message}"
        for code, message in validate(name)["errors"]
        if code in codes
    ]


@pytest.mark.parametrize("name, is_class", all_names().items())
def test_docstring(name, is_class):
    codes = CHECKED | CHECKED_IN_CLASSES if is_class else CHECKED
    found = faults(name, codes)
    assert not found, "\n".join([name, *found])


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


@pytest.mark.parametrize(
    "name, codes",
    [("Documented", {"SS03", "PR01", "PR02", "EX01"}), ("Documented.method", {"GL08"})],
)
def test_faults_are_found(name, codes):
    found = faults(f"{__name__}.{name}", CHECKED | CHECKED_IN_CLASSES)
    assert {fault.split(":")[0] for fault in found} == codes
