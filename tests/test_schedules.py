"""Step sizes, against the formulas written out."""

import numpy as np
import pytest

from sktem.schedules import (
    BurnInThenDecay,
    Constant,
    Linear,
    LogHarmonic,
    Polynomial,
    check_schedule,
    steps_from,
)

# Each list is k = 1, 2, ... written out by hand.
WRITTEN_OUT = [
    (Constant(0.3), [0.3, 0.3, 0.3]),
    (Polynomial(alpha=0.5), [1, 2**-0.5, 3**-0.5, 0.5]),
    (Polynomial(alpha=1.0, offset=2.0), [1 / 3, 1 / 4, 1 / 5]),
    (Polynomial(alpha=1.0, scale=3.0), [1, 1, 1, 3 / 4, 3 / 5]),
    (Polynomial(alpha=0.0, scale=0.2), [0.2, 0.2]),
    (BurnInThenDecay(n_burn_in=3, alpha=1.0), [1, 1, 1, 1, 1 / 2, 1 / 3]),
    (BurnInThenDecay(n_burn_in=0, alpha=0.5), [1, 2**-0.5, 3**-0.5]),
    (Linear(start=1.0, stop=0.2, n_iterations=5), [1, 0.8, 0.6, 0.4, 0.2, 0.2, 0.2]),
    (Linear(start=0.5, stop=0.5, n_iterations=1), [0.5, 0.5]),
    (LogHarmonic(), [1, 1 / (1 + 2 * np.log(2)), 1 / (1 + 3 * np.log(3))]),
    (LogHarmonic(scale=4.0), [1, 1, 4 / (1 + 3 * np.log(3))]),
]


@pytest.mark.parametrize("schedule, expected", WRITTEN_OUT)
def test_values(schedule, expected):
    k = np.arange(1, len(expected) + 1)
    one_by_one = [schedule(int(i)) for i in k]
    assert all(type(step) is float for step in one_by_one)
    np.testing.assert_allclose(one_by_one, expected, rtol=1e-14)
    np.testing.assert_allclose(schedule(k), expected, rtol=1e-14)
    np.testing.assert_allclose(schedule(k.astype(float)), expected, rtol=1e-14)


@pytest.mark.parametrize(
    "schedule",
    [
        Constant(0.0),
        Constant(1.5),
        Polynomial(alpha=-1),
        Polynomial(offset=-1),
        Polynomial(scale=0),
        BurnInThenDecay(n_burn_in=-1),
        BurnInThenDecay(alpha=-0.1),
        Linear(start=0),
        Linear(stop=1.1),
        Linear(n_iterations=0),
        LogHarmonic(scale=0),
    ],
)
def test_wrong_parameters(schedule):
    with pytest.raises(ValueError, match="must be"):
        schedule(1)


def test_check_schedule():
    assert check_schedule(0.25)(9) == 0.25
    assert check_schedule(1)(9) == 1.0
    polynomial = Polynomial()
    assert check_schedule(polynomial) is polynomial
    assert check_schedule(lambda k: 1 / k)(4) == 0.25


@pytest.mark.parametrize("wrong", [0, -0.5, 1.01, float("nan"), lambda k: 2.0])
def test_step_out_of_range(wrong):
    with pytest.raises(ValueError, match=r"\(0, 1\]"):
        check_schedule(wrong)


@pytest.mark.parametrize("wrong", ["fast", None, True, [0.5]])
def test_not_a_schedule(wrong):
    with pytest.raises(TypeError, match="gamma must be a number"):
        check_schedule(wrong, name="gamma")


@pytest.mark.parametrize(
    "step_size",
    [
        Polynomial(alpha=0.6, offset=2.0),
        Constant(0.3),
        BurnInThenDecay(n_burn_in=4, alpha=1.0),
        Linear(start=0.9, stop=0.1, n_iterations=6),
        lambda k: 0.5 if k < 5 else 1 / k,  # takes numbers only
    ],
)
def test_steps_from(step_size):
    steps = steps_from(step_size, 3, 7)
    assert steps.dtype == np.float64
    np.testing.assert_allclose(steps, [step_size(k) for k in range(3, 10)], rtol=1e-14)
    assert steps_from(step_size, 3, 0).shape == (0,)
