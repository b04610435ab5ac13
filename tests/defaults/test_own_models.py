"""Own models with default settings are right, or say that they are not."""

import pytest

from tests.defaults.harness import check_case
from tests.defaults.own_models_cases import CASES

FAST = [case for case in CASES if not case.slow]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("case", FAST, ids=lambda case: case.name)
def test_defaults(case):
    check_case(case, seed=0)
