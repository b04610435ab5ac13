"""Threads of BLAS."""

from __future__ import annotations

import functools

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]


@functools.cache
def _controller():
    return ThreadpoolController()


def one_blas_thread(method):
    """Hold BLAS to one thread in a method: on shared cores more of them collide."""

    @functools.wraps(method)
    def wrapped(*args, **kwargs):
        with _controller().limit(limits=1, user_api="blas"):
            return method(*args, **kwargs)

    return wrapped
