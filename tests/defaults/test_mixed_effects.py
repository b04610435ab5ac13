"""Mixed-effects fits with default settings are right, or say that they are not."""

import pytest

from tests.defaults.harness import check_case
from tests.defaults.mixed_effects_cases import CASES

FAST = [case for case in CASES if not case.slow]


@pytest.mark.parametrize("case", FAST, ids=lambda case: f"{case.unit[:8]} {case.name}")
def test_default_settings(case):
    check_case(case, seed=0)
