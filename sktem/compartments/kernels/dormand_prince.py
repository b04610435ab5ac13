"""Steps of order 8 by Dormand and Prince (DOP853), of all lanes side by side.

``step`` is compiled as an overload of that of ``stepping.py``.
"""

import numpy as np
from numba import njit
from scipy.integrate import DOP853

from sktem.compartments.kernels.slopes import slopes
from sktem.kernels.borrowed import offset
from sktem.kernels.options import INNER

#: Coefficients of Dormand and Prince's method of order 8, a row for the amounts at each
#: of its stages, and after them those of a step and of its two errors.
WEIGHTS = np.vstack([DOP853.A[:12], DOP853.B, DOP853.E5[:12], DOP853.E3[:12]])
NODES = DOP853.C[:12].copy()
#: The first column, but for column 0, of each row that is not zero.
FIRST = (1, 1, 1, 1, 2, 3, 3, 3, 3, 3, 3, 3, 5, 5, 5)


@njit(**INNER, error_model="numpy")
def _combine(row, last, count, slopes, out):
    """Write sums of the slopes of the stages before the last, with weights of a row."""
    weight = WEIGHTS[row, 0]
    for i in range(count):
        out[i] = weight * slopes[i]
    for k in range(FIRST[row], last):
        weight, slope = WEIGHTS[row, k], offset(slopes, k * count)
        for i in range(count):
            out[i] += weight * slope[i]


def step(rhs, control, amounts, psi, rates, doses, work):
    """Write the amounts after a step of all lanes, and its errors."""
    n, trial, lengths = control.n_states, work.trial, work.lengths
    count = n * work.lanes
    for i in range(count):
        lengths[i], trial[i] = work.length[i // n], amounts[i]
    for s in range(12):
        if s > 0:
            _combine(s, s, count, work.slopes, trial)
            for i in range(count):
                trial[i] = amounts[i] + lengths[i] * trial[i]
        slopes(
            rhs, control, s, NODES[s], (0, work.lanes), trial, psi, rates, doses, work
        )
    _combine(12, 12, count, work.slopes, trial)
    for i in range(count):
        trial[i] = amounts[i] + lengths[i] * trial[i]
    _combine(13, 12, count, work.slopes, work.errors)
    _combine(14, 12, count, work.slopes, offset(work.errors, count))
