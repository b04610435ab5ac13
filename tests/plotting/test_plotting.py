"""The package of displays: lazy, documented, and without matplotlib until it draws."""

import subprocess
import sys
from pathlib import Path

import pytest

import sktem
import sktem.plotting
from tests.test_docstrings import CHECKED, CHECKED_IN_CLASSES, faults, public_methods

NAMES = sktem.plotting.__all__


def test_all():
    assert list(NAMES) == sorted(NAMES)
    assert set(NAMES) <= set(dir(sktem.plotting))
    with pytest.raises(AttributeError, match="no_such_name"):
        sktem.plotting.no_such_name  # noqa: B018


def test_matplotlib_is_not_imported():
    code = (
        "import sys, sktem.plotting as p; [getattr(p, name) for name in p.__all__]; "
        "print([name for name in ('matplotlib', 'numba') if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(sktem.__file__).parent.parent,
    )
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("name", NAMES)
def test_docstrings(name):
    found = faults(f"sktem.plotting.{name}", CHECKED | CHECKED_IN_CLASSES)
    for method in public_methods(getattr(sktem.plotting, name)):
        found += faults(f"sktem.plotting.{name}.{method}", CHECKED)
    assert found == []
