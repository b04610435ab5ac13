"""The harness itself tells right from wrong and from wrong with a warning."""

import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning

from tests.defaults.harness import RIGHT, SILENT, WARNED, Case, check_case, run_case


def case_of(distance, category=None, may_warn=False):
    def measure(seed):
        if category is not None:
            warnings.warn("not converged", category, stacklevel=1)
        return distance

    return Case("a case", "Estimator", "the truth", "nats", 1.0, measure, may_warn)


def test_verdicts():
    assert run_case(case_of(0.5), 0).verdict == RIGHT
    assert run_case(case_of(2.0), 0).verdict == SILENT
    assert run_case(case_of(float("nan")), 0).verdict == SILENT
    assert run_case(case_of(2.0, ConvergenceWarning), 0).verdict == WARNED
    # Other warnings say nothing of the result.
    assert run_case(case_of(2.0, DeprecationWarning), 0).verdict == SILENT


def test_wrong_results_fail():
    check_case(case_of(0.5), 0)
    check_case(case_of(2.0, ConvergenceWarning, may_warn=True), 0)
    for wrong in (
        case_of(2.0),
        case_of(2.0, may_warn=True),
        case_of(2.0, ConvergenceWarning),
    ):
        with pytest.raises(AssertionError, match="a case"):
            check_case(wrong, 0)
