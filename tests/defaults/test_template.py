"""Deformable templates with default settings: the cases that run in seconds."""

import pytest

from tests.defaults.harness import check_case
from tests.defaults.template_cases import CASES

FAST = [case for case in CASES if not case.slow]


@pytest.mark.parametrize("case", FAST, ids=lambda case: case.name)
def test_default_settings(case):
    check_case(case, seed=0)
