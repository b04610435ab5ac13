"""Default settings on data that nobody tuned to: right, or a warning says they are not.

A case fits an estimator with its default settings on one data set and measures how
far the result is from an exact or a strong reference. The same cases run in the tests
(the fast ones, one seed) and in ``benchmarks/defaults.py`` (all of them, several
seeds), which prints the table of the documentation.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sktem.exceptions import FitWarning

#: The folder of the real data, wherever the tests are started.
SHARED_DATA = Path(
    os.environ.get("SKTEM_SHARED_DATA")
    or Path(__file__).resolve().parents[2].parent / "shared" / "data"
)
RIGHT, WARNED, SILENT = "right", "warned", "SILENTLY WRONG"
#: Modules of cases, ``tests/defaults/<family>_cases.py``.
FAMILIES = (
    "mixture", "hidden_markov", "mixed_effects", "pharmacometric", "template",
    "boltzmann", "regression", "own_models", "run", "word",
)  # fmt: skip


def shared_path(name):
    """Return the path of a file of the shared real data, or skip the test."""
    path = SHARED_DATA / name
    if not path.exists():
        pytest.skip(f"no {name} in the shared data, see SKTEM_SHARED_DATA")
    return path


@dataclass(frozen=True)
class Case:
    """One estimator with its defaults on one data set.

    ``distance(seed)`` draws or loads the data, fits, and returns how far the result is
    from the reference, in the stated ``unit``; larger is worse and NaN is wrong.
    """

    name: str
    estimator: str
    reference: str  # what the distance is to: "lme4", "enumeration", "the truth" ...
    unit: str  # of the distance: "nats", "share of the gain", "-2 log-likelihood" ...
    limit: float
    distance: Callable[[int], float]
    may_warn: bool = False  # wrong with a warning is accepted too
    slow: bool = False  # left to the benchmark


@dataclass(frozen=True)
class Outcome:
    """What came of a case with one seed."""

    case: Case
    seed: int
    distance: float
    messages: list[str] = field(default_factory=list)

    @property
    def verdict(self):
        if self.distance <= self.case.limit:  # False for NaN
            return RIGHT
        return WARNED if self.messages else SILENT

    @property
    def accepted(self):
        allowed = {RIGHT, WARNED} if self.case.may_warn else {RIGHT}
        return self.verdict in allowed


def cases_of(family, fast):
    """Return the cases of a family, the fast ones or all."""
    cases = importlib.import_module(f"tests.defaults.{family}_cases").CASES
    return [case for case in cases if not (fast and case.slow)]


def run_case(case, seed):
    """Run a case and keep the warnings that a user of the estimator would see."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        distance = float(case.distance(seed))
    kinds = (ConvergenceWarning, FitWarning)
    messages = [str(w.message) for w in caught if issubclass(w.category, kinds)]
    return Outcome(case, seed, distance, messages)


def check_case(case, seed):
    """Fail unless the result is right, or may be wrong and a warning said so."""
    outcome = run_case(case, seed)
    assert outcome.accepted, (
        f"{case.estimator} on {case.name}, seed {seed}: {outcome.verdict}, "
        f"{outcome.distance:.4g} {case.unit} from {case.reference} "
        f"(limit {case.limit:g}); warnings: {outcome.messages}"
    )


def root_mean_square(x):
    """Return the root mean square of all entries."""
    return float(np.sqrt(np.mean(np.square(x))))
