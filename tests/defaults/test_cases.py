"""Default settings of every family are right, or a warning says that they are not."""

import pytest

from tests.defaults.harness import FAMILIES, cases_of, check_case

CASES = [
    pytest.param(case, id=f"{family}-{case.estimator}-{case.name}-{case.unit[:8]}")
    for family in FAMILIES
    for case in cases_of(family, fast=True)
]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("case", CASES)
def test_defaults(case):
    check_case(case, seed=0)
