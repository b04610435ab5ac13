"""Matrix products that skip zeros, for states of which few are on.

Most pixels of an image are zero, and so are most visible units of a machine that has
learned them. BLAS multiplies zeros as well; a sum of the listed rows does not, and is
faster while fewer than about a fifth of the entries are not zero.
"""

import numpy as np
from numba import njit

_ZERO = np.float32(0.0)


@njit(cache=True, nogil=True)
def list_by_row(a, limit, starts, places, values):
    """List nonzero entries, row by row, if there are at most `limit` of them.

    Equal ``places[:count] = np.nonzero(a)[1]``, ``values[:count] = a[np.nonzero(a)]``
    and ``starts = np.concatenate([[0], np.cumsum((a != 0).sum(axis=1))])``. Returns
    whether the limit was kept; `places` and `values` hold one row more than it.
    """
    count = 0
    starts[0] = 0
    for i in range(a.shape[0]):
        row = a[i]
        for j in range(row.shape[0]):
            # Written in any case and kept if not zero: there is no branch to miss.
            places[count] = j
            values[count] = row[j]
            count += 1 if row[j] != _ZERO else 0
        if count > limit:
            return False
        starts[i + 1] = count
    return True


@njit(cache=True, nogil=True)
def list_by_column(a, limit, starts, places, values):
    """Equal `list_by_row` of ``a.T``."""
    n, m = a.shape
    for j in range(m + 1):
        starts[j] = 0
    for i in range(n):
        row = a[i]
        for j in range(m):
            starts[j + 1] += 1 if row[j] != _ZERO else 0
    for j in range(m):
        starts[j + 1] += starts[j]
    if starts[m] > limit:
        return False
    following = starts[:m].copy()
    for i in range(n):
        row = a[i]
        for j in range(m):
            if row[j] != _ZERO:
                position = following[j]
                places[position] = i
                values[position] = row[j]
                following[j] = position + 1
    return True


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def listed_product(starts, places, values, b, out):
    """Equal ``out[:] = a @ b`` for the matrix a that was listed by row."""
    m = b.shape[1]
    for i in range(out.shape[0]):
        row, stop = out[i], starts[i + 1]
        for j in range(m):
            row[j] = _ZERO
        k = starts[i]
        while k + 4 <= stop:
            v0, v1, v2, v3 = values[k], values[k + 1], values[k + 2], values[k + 3]
            b0, b1 = b[places[k]], b[places[k + 1]]
            b2, b3 = b[places[k + 2]], b[places[k + 3]]
            for j in range(m):
                row[j] += (v0 * b0[j] + v1 * b1[j]) + (v2 * b2[j] + v3 * b3[j])
            k += 4
        while k < stop:
            v0, b0 = values[k], b[places[k]]
            for j in range(m):
                row[j] += v0 * b0[j]
            k += 1
