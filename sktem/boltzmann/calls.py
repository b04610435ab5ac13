"""Calls of users: threads of BLAS, and notices of compilation."""

from __future__ import annotations

import functools

from sktem.e_step.blas_threads import one_blas_thread
from sktem.estimators.progress import compile_notice

__all__ = ["one_blas_thread", "query"]


def query(method):
    """Wrap by `one_blas_thread`, and report compilation if the estimator is verbose.

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
