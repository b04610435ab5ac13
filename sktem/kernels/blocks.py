"""Threads over fixed blocks of rows, with sums that do not depend on their number."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from joblib import effective_n_jobs

# A block is large enough to hide the cost of starting it and small enough that
# what it converts or returns is a few megabytes.
_ROWS_PER_BLOCK = 16384
_VALUES_PER_BLOCK = 2**20


def plain(values):
    """Return a C-contiguous array of float64 that can be written to, itself if it is.

    Others have types of their own, for which the loops would be compiled anew.
    """
    if values.dtype == np.float64 and values.flags.carray:
        return values
    return np.array(values, dtype=np.float64, order="C")


def rows_per_block(values_per_row):
    """Return the number of rows of a block, a multiple of 128."""
    fitting = _VALUES_PER_BLOCK // max(values_per_row, 1) // 128 * 128
    return max(min(_ROWS_PER_BLOCK, fitting), 128)


def iterate_blocks(function, n_rows, block_size, n_jobs=None):
    """Yield ``function(start, stop)`` for consecutive blocks of rows, in order.

    Parameters
    ----------
    function : callable
        Called with the first row and the row past the last. It should spend its
        time without the interpreter lock and must not call a threaded BLAS.
    n_rows : int
    block_size : int
        Rows per block; it fixes the rounding of sums over blocks, so it must not
        depend on `n_jobs`.
    n_jobs : int or None, default=None
        Number of threads, with the meaning that joblib gives to it.

    Yields
    ------
    result : object
        The result of the function for a block.
    """
    starts = range(0, n_rows, block_size)
    stops = [min(start + block_size, n_rows) for start in starts]
    # joblib is not asked when the answer cannot matter: it takes microseconds.
    n_threads = 1
    if len(starts) > 1 and n_jobs != 1:
        n_threads = min(effective_n_jobs(n_jobs), len(starts))
    if n_threads == 1:
        yield from map(function, starts, stops)
        return
    # joblib.Parallel would take 10 ms to start and collect, a whole pass over many
    # a data set; this pool takes a fraction of one.
    pool = ThreadPoolExecutor(n_threads)
    try:
        yield from pool.map(function, starts, stops)
    finally:
        pool.shutdown(cancel_futures=True)


def reduce_blocks(function, n_rows, block_size, n_jobs=None, sums=None):
    """Add up ``function(start, stop)`` over consecutive blocks of rows.

    The sum runs in the order of the blocks, so that it has the same bits for
    every `n_jobs`.

    Parameters
    ----------
    function : callable
        Returns a tuple of arrays or numbers for a block of rows. Arrays must be
        new ones: the first of them holds the sum.
    n_rows : int
    block_size : int
    n_jobs : int or None, default=None
    sums : tuple or None, default=None
        Sums over the blocks before, to which these are added.

    Returns
    -------
    sums : tuple
    """
    if n_rows <= block_size and sums is None:
        return function(0, n_rows)
    results = iterate_blocks(function, n_rows, block_size, n_jobs)
    sums = list(next(results) if sums is None else sums)
    for result in results:
        for position, term in enumerate(result):
            sums[position] += term
    return tuple(sums)
