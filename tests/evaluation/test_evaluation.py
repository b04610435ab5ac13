"""The package of measures: lazy, and complete."""

import subprocess
import sys
from pathlib import Path

import pytest

import sktem
import sktem.evaluation


def test_all():
    names = sktem.evaluation.__all__
    assert list(names) == sorted(names)
    assert set(names) <= set(dir(sktem.evaluation))
    for name in names:
        assert getattr(sktem.evaluation, name).__name__ == name
    with pytest.raises(AttributeError, match="no_such_name"):
        sktem.evaluation.no_such_name  # noqa: B018


def test_nothing_compiled_is_loaded_for_checks_of_curves():
    code = (
        "import sys, sktem.evaluation as e; e.individual_curves, e.bin_times, "
        "e.population_residuals; print('numba' in sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(sktem.__file__).parent.parent,
    )
    assert found.stdout.strip() == "False"
