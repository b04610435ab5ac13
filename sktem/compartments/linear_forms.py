"""Equations that are linear in the amounts, found by calling them with linear forms."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from types import FunctionType
from typing import NoReturn

import numpy as np

__all__ = ["linear_equations"]


class NotLinear(BaseException):  # noqa: N818, no error: functions must not catch it
    """Signal of an operation whose result is not a linear form."""


def _refuse(self, *others) -> NoReturn:
    """Raise NotLinear."""
    raise NotLinear


class LinearForm:
    """A linear function of the amounts, for each row of parameters.

    Parameters
    ----------
    constant : float or ndarray of shape (n_rows,)
        Its value without amounts.
    slopes : dict of float or ndarray of shape (n_rows,)
        Slopes by the index of the amount.
    """

    __slots__ = ("constant", "slopes")

    def __init__(self, constant, slopes):
        self.constant = constant
        self.slopes = slopes

    @staticmethod
    def of(value) -> LinearForm:
        """Return a number as a form."""
        if isinstance(value, LinearForm):
            return value
        if not isinstance(value, Real):
            raise NotLinear
        return LinearForm(float(value), {})

    def __add__(self, other):
        """Return the sum."""
        other = self.of(other)
        slopes = dict(self.slopes)
        for j, slope in other.slopes.items():
            slopes[j] = slopes[j] + slope if j in slopes else slope
        return LinearForm(self.constant + other.constant, slopes)

    def __mul__(self, other):
        """Return the product of a linear form and a constant."""
        other = self.of(other)
        if other.slopes:
            self, other = other, self
        if other.slopes:
            raise NotLinear
        factor = other.constant
        slopes = {j: slope * factor for j, slope in self.slopes.items()}
        return LinearForm(self.constant * factor, slopes)

    def __truediv__(self, other):
        """Return the quotient by a constant."""
        other = self.of(other)
        if other.slopes:
            raise NotLinear
        slopes = {j: slope / other.constant for j, slope in self.slopes.items()}
        return LinearForm(np.divide(self.constant, other.constant), slopes)

    def __rtruediv__(self, other):
        """Return the quotient of two constants."""
        return self.of(other).__truediv__(self)

    def __pow__(self, other):
        """Return a power of constants."""
        return self.__array_ufunc__(np.power, "__call__", self, other)

    def __rpow__(self, other):
        """Return a power of constants."""
        return self.__array_ufunc__(np.power, "__call__", other, self)

    def __neg__(self):
        """Return the form with other signs."""
        return self * -1.0

    def __sub__(self, other):
        """Return the difference."""
        return self + self.of(other) * -1.0

    def __rsub__(self, other):
        """Return the difference."""
        return self.of(other) - self

    __radd__, __rmul__ = __add__, __mul__

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        """Return the value of a NumPy function, of constants unless it is linear."""
        if method != "__call__" or options:
            raise NotLinear
        forms = [self.of(value) for value in inputs]
        if ufunc in LINEAR:
            return LINEAR[ufunc](*forms)
        if any(form.slopes for form in forms):
            raise NotLinear
        values = ufunc(*(form.constant for form in forms))
        if np.asarray(values).dtype.kind != "f":
            raise NotLinear
        return LinearForm(values, {})

    # Branches, and what depends on the value otherwise.
    __bool__ = __float__ = __int__ = __index__ = __hash__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _refuse


#: Functions of NumPy that leave forms linear.
LINEAR: dict[Callable, Callable] = {
    np.add: LinearForm.__add__,
    np.subtract: LinearForm.__sub__,
    np.multiply: LinearForm.__mul__,
    np.true_divide: LinearForm.__truediv__,
    np.negative: LinearForm.__neg__,
}


class Time:
    """The time, of which linear equations do not ask."""

    __slots__ = ()
    __array_ufunc__ = _refuse
    __bool__ = __float__ = __int__ = __index__ = __hash__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _refuse


def linear_equations(rhs, record, values, n_states):
    """Return the matrix and the constants of linear equations, None for others.

    The function is called once, with the time and the amounts as objects that refuse
    all but linear operations: so that it is known, not probed, that the equations are
    linear with constants that depend on nothing but the parameters.

    Parameters
    ----------
    rhs : callable
        The right-hand side.
    record : type
        Class of named tuples of parameters.
    values : ndarray of shape (n_rows, n_parameters)
        Parameters.
    n_states : int
        Number of amounts.

    Returns
    -------
    ndarray of shape (n_rows, n_states, n_states + 1) or None
        The matrix of each row, with the constants as its last column.
    """
    function = getattr(rhs, "py_func", rhs)
    if not isinstance(function, FunctionType) or function.__code__.co_exceptiontable:
        return None  # of others it is not known what becomes of a refusal
    p = record(*(LinearForm(column, {}) for column in values.T))
    amounts = np.empty(n_states, dtype=object)
    for j in range(n_states):
        amounts[j] = LinearForm(0.0, {j: 1.0})
    try:
        with np.errstate(all="ignore"):
            forms = [LinearForm.of(one) for one in function(Time(), amounts, p)]
    except (Exception, NotLinear):
        return None
    if len(forms) != n_states:
        return None
    table = np.zeros((len(values), n_states, n_states + 1))
    for i, form in enumerate(forms):
        table[:, i, n_states] = form.constant
        for j, slope in form.slopes.items():
            table[:, i, j] = slope
    return table
