"""Sums over blocks of rows."""

import contextlib
import threading

import joblib
import numpy as np
import pytest

from sktem.kernels.blocks import iterate_blocks, reduce_blocks, rows_per_block


def test_blocks_are_summed_in_order():
    spans = []

    def function(start, stop):
        spans.append((start, stop))
        return np.array([float(start)]), 1

    sums, count = reduce_blocks(function, 1000, 384)
    assert spans == [(0, 384), (384, 768), (768, 1000)]
    assert (sums[0], count) == (384 + 768, 3)
    threaded = reduce_blocks(function, 1000, 384, n_jobs=2)
    assert (threaded[0][0], threaded[1]) == (384 + 768, 3)
    assert list(iterate_blocks(lambda *span: span, 0, 128)) == []


def test_threads_are_those_that_joblib_grants():
    def names(n_jobs=None):
        barrier = threading.Barrier(2, timeout=0.2)

        def function(start, stop):
            with contextlib.suppress(threading.BrokenBarrierError):
                barrier.wait()
            return threading.current_thread().name

        return set(iterate_blocks(function, 256, 128, n_jobs))

    main = {threading.current_thread().name}
    assert names() == names(1) == main
    assert len(names(2)) == 2
    with joblib.parallel_config("threading", n_jobs=2):
        assert len(names()) == 2
        assert names(1) == main
    with pytest.raises(ValueError, match="n_jobs == 0"):
        names(0)


def test_a_fault_stops_the_remaining_blocks():
    started = []

    def function(start, stop):
        started.append(start)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        reduce_blocks(function, 5000, 1, n_jobs=2)
    assert len(started) < 5000


@pytest.mark.parametrize("values_per_row", [1, 16, 100, 10**4, 10**9])
def test_blocks_are_whole_tiles_of_few_values(values_per_row):
    n_rows = rows_per_block(values_per_row)
    assert n_rows % 128 == 0
    assert 128 <= n_rows <= 16384
    assert n_rows == 128 or n_rows * values_per_row <= 2**20
