"""Calls of users: threads of BLAS, and the lines that warnings point to."""

from __future__ import annotations

import functools

from threadpoolctl import ThreadpoolController

from sktem.estimators.fit_warnings import users_frame
from sktem.estimators.progress import compile_notice

__all__ = ["one_blas_thread", "query", "users_frame"]


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


def query(method):
    """Do as `one_blas_thread`, and say if loops are compiled for a verbose estimator.

    Parameters
    ----------
    method : callable
        A method of an estimator, which does not run a fit.

    Returns
    -------
    callable
        The method, wrapped.
    """

    @functools.wraps(method)
    def wrapped(self, *args, **kwargs):
        with compile_notice(self.verbose):
            return method(self, *args, **kwargs)

    return one_blas_thread(wrapped)
