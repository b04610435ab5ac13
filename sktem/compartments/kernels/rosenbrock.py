"""Steps of stiff equations, of order 5 by a Rosenbrock method (Rodas5P).

``step`` is compiled as an overload of that of ``stepping.py``.

References
----------
G. Steinebach, Construction of Rosenbrock-Wanner method Rodas5P and numerical benchmarks
within the Julia Differential Equations package, BIT Numerical Mathematics 63, 27, 2023.
"""

import math

import numpy as np
from numba import njit

from sktem.compartments.kernels.elimination import factorise, substitute
from sktem.compartments.kernels.slopes import slopes
from sktem.kernels.borrowed import offset
from sktem.kernels.options import INNER

#: Coefficients of the method: the diagonal, and for each stage the weights of those
#: before in its amounts and, by the length of a step, in its slope; where it is in a
#: step; and the weight of the derivative by time. The last stage is the error of the
#: step, which ends where the amounts of that stage and it add up to.
DIAGONAL = 0.21193756319429014
WEIGHTS = np.zeros((8, 8))
WEIGHTS[1, :1] = 3.0
WEIGHTS[2, :2] = 2.849394379747939, 0.45842242204463923
WEIGHTS[3, :3] = -6.954028509809101, 2.489845061869568, -10.358996098473584
WEIGHTS[4, :4] = (
    2.8029986275628964, 0.5072464736228206, -0.3988312541770524, -0.04721187230404641,
)  # fmt: skip
WEIGHTS[5:, :5] = (
    -7.502846399306121, 2.561846144803919, -11.627539656261098, -0.18268767659942256,
    0.030198172008377946,
)  # fmt: skip
WEIGHTS[6:, 5] = WEIGHTS[7, 6] = 1.0
SLOPE_WEIGHTS = np.zeros((8, 8))
SLOPE_WEIGHTS[1, :1] = -14.155112264123755
SLOPE_WEIGHTS[2, :2] = -17.97296035885952, -2.859693295451294
SLOPE_WEIGHTS[3, :3] = 147.12150275711716, -1.41221402718213, 71.68940251302358
SLOPE_WEIGHTS[4, :4] = (
    165.43517024871676, -0.4592823456491126, 42.90938336958603, -5.961986721573306,
)  # fmt: skip
SLOPE_WEIGHTS[5, :5] = (
    24.854864614690072, -3.0009227002832186, 47.4931110020768, 5.5814197821558125,
    -0.6610691825249471,
)  # fmt: skip
SLOPE_WEIGHTS[6, :6] = (
    30.91273214028599, -3.1208243349937974, 77.79954646070892, 34.28646028294783,
    -19.097331116725623, -28.087943162872662,
)  # fmt: skip
SLOPE_WEIGHTS[7, :7] = (
    37.80277123390563, -3.2571969029072276, 112.26918849496327, 66.9347231244047,
    -40.06618937091002, -54.66780262877968, -9.48861652309627,
)  # fmt: skip
NODES = np.array([
    0, 0.6358126895828704, 0.4095798393397535, 0.9769306725060716, 0.4288403609558664,
    1, 1, 1,
])  # fmt: skip
TIME_WEIGHTS = np.array([
    0.21193756319429014, -0.42387512638858027, -0.3384627126235924, 1.8046452872882734,
    2.325825639765069, 0, 0, 0,
])  # fmt: skip
#: Places behind these stages: slopes at the beginning of a step, their derivative by
#: time, and slopes next to it.
HERE, BY_TIME, NEAR, FAR = 8, 9, 10, 11
#: Shifts of differences, as shares of a step in time, and of amounts in which slopes
#: change; the smallest such amount, as a share of the largest of the subject.
TIME_SHIFT, SHIFT, SMALLEST = 1e-3, 6e-6, 1e-6


@njit(**INNER, error_model="numpy")
def _derive(rhs, control, lane, amounts, psi, rates, doses, work):
    """Write slopes of a lane at the beginning of a step and their derivative by time.

    The matrix of the step is factorised; returned is whether it has factors.
    """
    n, lanes, h = control.n_states, (lane, lane + 1), work.length[lane]
    first, count = n * lane, n * work.lanes
    own = offset(work.slopes, first)
    here, by_time = offset(own, HERE * count), offset(own, BY_TIME * count)
    near, far = offset(own, NEAR * count), offset(own, FAR * count)
    slopes(rhs, control, HERE, 0.0, lanes, amounts, psi, rates, doses, work)
    # Forward, as slopes may have been others before an event.
    for stage, node in ((NEAR, TIME_SHIFT), (FAR, 2.0 * TIME_SHIFT)):
        slopes(rhs, control, stage, node, lanes, amounts, psi, rates, doses, work)
    t = work.start[lane] + work.done[lane]
    gap = (t + TIME_SHIFT * h) - t
    for i in range(n):
        change = 4.0 * near[i] - far[i] - 3.0 * here[i]
        by_time[i] = change / (2.0 * gap) if gap > 0.0 else 0.0
    matrix, trial = work.matrices, work.trial
    for j in range(n):
        value = amounts[first + j]
        moved = min(h * abs(here[j]), work.largest[lane])
        gap = SHIFT * max(abs(value), moved, SMALLEST * work.largest[lane])
        # No amount becomes negative by a shift: a power of it may not be a number.
        is_central = value >= gap or value < 0.0
        for stage, node in ((NEAR, 1.0), (FAR, -1.0 if is_central else 2.0)):
            for i in range(first, first + n):
                trial[i] = amounts[i]
            trial[first + j] = value + node * gap
            slopes(rhs, control, stage, 0.0, lanes, trial, psi, rates, doses, work)
        for i in range(n):
            change = near[i] - far[i]
            if not is_central:
                change = 4.0 * near[i] - far[i] - 3.0 * here[i]
            matrix[i * n + j] = -change / (2.0 * gap)
        matrix[j * n + j] += 1.0 / (DIAGONAL * h)
    return factorise(n, matrix, offset(matrix, n * n))


@njit(**INNER, error_model="numpy")
def _step_of(rhs, control, lane, amounts, psi, rates, doses, work):
    """Write the amounts after a step of a lane, and its errors."""
    n, h, trial = control.n_states, work.length[lane], work.trial
    first, count = n * lane, n * work.lanes
    known = _derive(rhs, control, lane, amounts, psi, rates, doses, work)
    by_time = offset(work.slopes, BY_TIME * count + first)
    last = by_time
    for s in range(8):
        for i in range(first, first + n):
            trial[i] = amounts[i]
        for k in range(s):
            weight, before = WEIGHTS[s, k], offset(work.slopes, k * count)
            for i in range(first, first + n):
                trial[i] += weight * before[i]
        lanes = lane, lane + 1
        slopes(rhs, control, s, NODES[s], lanes, trial, psi, rates, doses, work)
        last = offset(work.slopes, s * count + first)
        for i in range(n):
            last[i] += h * TIME_WEIGHTS[s] * by_time[i]
        for k in range(s):
            weight = SLOPE_WEIGHTS[s, k] / h
            before = offset(work.slopes, k * count + first)
            for i in range(n):
                last[i] += weight * before[i]
        substitute(n, work.matrices, offset(work.matrices, n * n), last)
    for i in range(n):
        trial[first + i] += last[i]
        # One error by the length of the step, and no second.
        work.errors[first + i] = last[i] / h if known else math.nan
        work.errors[count + first + i] = 0.0


def step(rhs, control, amounts, psi, rates, doses, work):
    """Write the amounts after a step of all lanes, and its errors."""
    for lane in range(work.lanes):
        if work.length[lane] > 0.0:
            _step_of(rhs, control, lane, amounts, psi, rates, doses, work)
