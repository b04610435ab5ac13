"""Fits to all rows at once, by L-BFGS."""

from __future__ import annotations

import math

from scipy import optimize

__all__ = ["Parts", "minimised"]


class Parts:
    """Arrays of some shapes as views of one vector.

    Parameters
    ----------
    *shapes : tuple of int
        Shape of each array.
    """

    def __init__(self, *shapes):
        self.n_parameters, self._places = 0, []
        for shape in shapes:
            begin, self.n_parameters = (
                self.n_parameters, self.n_parameters + math.prod(shape)
            )  # fmt: skip
            self._places.append((slice(begin, self.n_parameters), shape))

    def __call__(self, params):
        """Return the arrays."""
        return [params[place].reshape(shape) for place, shape in self._places]


def minimised(
    loss, start, rows, max_iter, tol, bounds=None, precision=1e-14, per_iteration=20
):
    """Return SciPy's result for a loss of parameters and rows, with its gradient.

    It ends at an entry of the gradient of `tol`, at a relative change of `precision`,
    or after this number of evaluations per iteration in all.
    """
    return optimize.minimize(
        loss, start, args=rows, jac=True, method="L-BFGS-B", bounds=bounds,
        options={
            "maxiter": max_iter, "maxfun": per_iteration * max_iter, "maxcor": 20,
            "gtol": tol, "ftol": precision,
        },
    )  # fmt: skip
