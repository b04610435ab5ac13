"""Orders of rows, from the bits of a generator and as NumPy makes them."""

import numpy as np
from numba import njit

from sktem.kernels import options

__all__ = ["permute_rows"]

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@njit(**options.OUTER)
def permute_rows(order, last, words, start):
    """Go on with a shuffle by 32-bit words, two in each number, from the low half on.

    Equal, until the words are at an end, and with ``mask = 2 ** last.bit_length() - 1``
    at every step, ::

        while last > 0:
            j = next(words) & mask
            if j <= last:
                order[last], order[j] = order[j], order[last]
                last -= 1

    Returned are `last` and how many words have been used. There is no branch on what is
    drawn: nothing could predict it.
    """
    stop = 2 * words.shape[0]
    used = start
    while last > 0 and used < stop:
        mask = np.uint64(1)
        while mask < np.uint64(last):
            mask = (mask << np.uint64(1)) | np.uint64(1)
        least = np.int64(mask >> np.uint64(1))
        while last > least and used < stop:
            word = words[used >> 1] >> (_HALF * np.uint64(used & 1))
            used += 1
            j = np.int64(word & _LOW & mask)
            fits = j <= last
            j = j if fits else last
            here = order[last]
            order[last] = order[j]
            order[j] = here
            last -= fits
    return last, used
