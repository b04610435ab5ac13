"""Mixtures and own models with default settings: right, or a warning says so."""

import pytest

from tests.defaults.harness import check_case
from tests.defaults.mixture_cases import CASES

FAST = [case for case in CASES if not case.slow]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("case", FAST, ids=lambda case: f"{case.estimator}-{case.name}")
def test_right_by_default(case):
    check_case(case, seed=0)
