"""Linear equations are known as such, and nothing else is; exponentials of matrices."""

import math
from collections import namedtuple

import numpy as np
import pytest
from numba import njit
from scipy.linalg import expm
from scipy.stats import gamma

from sktem.compartments import ODE, read_nonmem
from sktem.compartments.linear_forms import linear_equations

Parameters = namedtuple("Parameters", ["k", "V", "q"])
VALUES = np.array([[0.3, 10.0, 2.0], [0.5, 20.0, 1.0], [0.1, 5.0, 7.0]])


def chain(t, A, p):
    first, second = A
    return -p.k * first, p.k * first - p.q / p.V * second


def baseline(t, A, p):
    made = p.q * p.V**0.75 + 2
    return [made - p[0] * A[0], np.exp(-p.k) * A[0] - (A[1] + A[1]) / 3]


def of_numpy(t, A, p):
    flow = np.array([[-1.0, 0.5], [1.0, -0.5]]) @ A
    return flow * p.k


def by_loops(t, A, p):
    rates = []
    for j in range(2):
        total = -p.k * A[j] + 0
        for i in range(2):
            total += 0.1 * np.multiply(A[i], p.q) - np.float64(0.5) * A[j]
        rates.append(total)
    return np.array(rates)


@pytest.mark.parametrize("rhs", [chain, njit(chain), baseline, by_loops])
def test_matrix_is_that_of_differences(rhs):
    found = linear_equations(rhs, Parameters, VALUES, 2)
    assert found.shape == (3, 2, 3)
    plain = getattr(rhs, "py_func", rhs)
    for row, values in zip(found, VALUES, strict=True):
        p = Parameters(*values)
        at_zero = np.array(plain(0.0, np.zeros(2), p), dtype=float)
        np.testing.assert_allclose(row[:, 2], at_zero, rtol=1e-14)
        for j, unit in enumerate(np.eye(2)):
            slope = np.array(plain(3.0, unit, p), dtype=float) - at_zero
            np.testing.assert_allclose(row[:, j], slope, rtol=1e-12, atol=1e-15)


def test_what_is_not_known_to_be_linear_is_integrated():
    # An array times a form could be one form for each row, or for each entry.
    assert linear_equations(of_numpy, Parameters, VALUES, 2) is None


def swallows(t, A, p):
    try:
        return -p.k * A[0] * A[0], A[1]
    except BaseException:
        return -p.k * A[0], A[1]


def branches(t, A, p):
    if A[0] > 1.0:
        return -p.k, 0.0
    return -p.k * A[0], 0.0


OTHERS = {
    "product": lambda t, A, p: (-p.k * A[0] * A[1], A[1]),
    "saturation": lambda t, A, p: (-p.k * A[0] / (p.V + A[0]), A[1]),
    "square": lambda t, A, p: (-p.k * A[0] ** 2, A[1]),
    "power": lambda t, A, p: (-(A[0] ** p.k), A[1]),
    "exponential": lambda t, A, p: (np.exp(-A[0]), A[1]),
    "mathematical": lambda t, A, p: (math.exp(-A[0]), A[1]),
    "maximum": lambda t, A, p: (-p.k * max(A[0], 1.0), A[1]),
    "numpy maximum": lambda t, A, p: (-p.k * np.maximum(A[0], 1.0), A[1]),
    "magnitude": lambda t, A, p: (-p.k * abs(A[0]), A[1]),
    "time": lambda t, A, p: (-p.k * A[0] * t, A[1]),
    "circadian": lambda t, A, p: (-p.k * A[0] * (1 + np.cos(t)), A[1]),
    "after a time": lambda t, A, p: (-p.k * A[0] if t > 3 else A[1], A[1]),
    "at a time": lambda t, A, p: (-p.k * A[0] if t == 0 else A[1], A[1]),
    "time alone": lambda t, A, p: (t, A[1]),
    "branch of parameters": lambda t, A, p: (-A[0] if p.k > 0.2 else A[0], A[1]),
    "comparison": lambda t, A, p: ((A[0] == 0) * p.k, A[1]),
    "truth": lambda t, A, p: (-p.k if A[0] else 0.0, A[1]),
    "whole number": lambda t, A, p: (-p.k * int(A[0]), A[1]),
    "missing value": lambda t, A, p: (-p.k * A[0], A[2]),
    "too few": lambda t, A, p: (-p.k * A[0],),
    "a number": lambda t, A, p: -p.k * A[0],
    "array": lambda t, A, p: np.array([1.0, 2.0, 3.0]) * A[0],
    "branches": branches,
    "swallows": swallows,
    "class": type("Rhs", (), {"__call__": lambda self, t, A, p: (A[0], A[1])})(),
}


@pytest.mark.parametrize("name", OTHERS)
def test_nothing_else_is_linear(name):
    for rows in (1, 2, 3):
        found = linear_equations(OTHERS[name], Parameters, VALUES[:rows], 2)
        assert found is None


def exponential(matrix):
    from sktem.compartments.kernels.matrix_exponential import expm_into

    result, m = np.array(matrix, dtype=float), len(matrix)
    expm_into(result, np.empty(5 * m * m))
    return result


MATRICES = {
    "zero": np.zeros((2, 2)),
    "one": np.array([[-3.0]]),
    "defective": np.array([[-1.0, 0, 0], [1.0, -1, 0], [0, 1.0, -1]]),
    "turning": np.array([[0.0, 5.0], [-5.0, 0.0]]),
    "growing": np.array([[2.0, 1.0], [0.5, 3.0]]),
    "mixed": np.random.default_rng(0).standard_normal((6, 6)) * 3,
    "stiff": np.array([[-1e4 - 1, 1e4], [1e4, -1e4]]),
}


@pytest.mark.parametrize("name", MATRICES)
def test_exponential_equals_scipy(name):
    expected = expm(MATRICES[name])
    found = exponential(MATRICES[name])
    np.testing.assert_allclose(found, expected, atol=1e-11 * np.abs(expected).max())


def test_small_entries_of_chains_have_all_digits():
    n = 12
    matrix = np.diag(np.full(n, -1.0)) + np.diag(np.ones(n - 1), -1)
    for time in (1e-3, 0.5, 20.0, 300.0):
        found = exponential(matrix * time)[:, 0]
        np.testing.assert_allclose(found, gamma.pdf(time, np.arange(1, n + 1)), 1e-11)


def test_exponential_of_what_is_not_finite():
    for wrong in (np.nan, np.inf, 1e300):
        assert np.isnan(exponential(np.array([[-wrong, 0.0], [1.0, -1.0]]))).any()


def test_a_turnover_with_a_baseline_and_infusions():
    def turnover(t, A, p):
        return p.KIN - p.KOUT * A[0] + 0.1 * A[1], -p.K * A[1]

    def of_time(t, A, p):
        return p.KIN - p.KOUT * A[0] + 0.1 * A[1], -p.K * A[1] + 0.0 * t

    table = {
        "ID": np.ones(9), "TIME": [0, 1, 2, 5, 9, 9, 12, 15, 30.0],
        "AMT": [0, 10, 0, 0, 0, 6, 0, 0, 0.0], "CMT": [0, 2, 1, 1, 1, 2, 1, 1, 1],
        "RATE": [0, 4, 0, 0, 0, 1, 0, 0, 0.0], "ADDL": [0, 1, 0, 0, 0, 0, 0, 0, 0],
        "II": [0, 3.0, 0, 0, 0, 4, 0, 0, 0], "SS": [0, 0, 0, 0, 0, 1, 0, 0, 0],
    }  # fmt: skip
    psi = {"KIN": 3.0, "KOUT": 0.4, "K": 0.7}
    settings = {
        "parameters": list(psi), "n_states": 2,
        "initial": lambda p: (p.KIN / p.KOUT, 0.0),
    }  # fmt: skip
    exact, integrated = ODE(turnover, **settings), ODE(of_time, **settings)
    found = exact.amounts(read_nonmem(table), psi)
    expected = integrated.amounts(read_nonmem(table), psi)
    assert exact._is_linear and not integrated._is_linear
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
    assert found[0, 0] == pytest.approx(3.0 / 0.4, rel=1e-14)
