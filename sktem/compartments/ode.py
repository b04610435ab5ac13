"""Models of amounts by differential equations of the user's."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping
from functools import cached_property
from numbers import Integral, Real
from types import FunctionType

import numpy as np

from sktem.choices import check_choice, check_number
from sktem.compartments.functions import (
    RightHandSide,
    address_of,
    check_values,
    compilable,
    compiled_rhs,
    outside_of,
)
from sktem.compartments.integration import integrated
from sktem.compartments.linear_forms import linear_equations
from sktem.compartments.models import SolvedModel
from sktem.compartments.scipy_amounts import SciPySolver

__all__ = ["ODE"]

#: Methods of scipy.integrate for functions that are not compiled.
SCIPY_METHODS = {"non-stiff": "DOP853", "stiff": "LSODA"}


def _record(names) -> type:
    """Return the class of named tuples of parameters."""
    return namedtuple("Parameters", names)


class ODE(SolvedModel):
    """A model whose amounts follow differential equations.

    The integrator restarts at each dose, end of an infusion and record. Linear
    equations whose coefficients depend only on parameters are solved exactly instead,
    by matrix exponentials, which is three times as fast. They are recognised by calling
    ``rhs`` with objects that allow only linear operations. For this, ``rhs`` must not
    have branches or ``try``, or fill arrays: ``return -p.K * A[0], p.K * A[0]``.

    Parameters
    ----------
    rhs : callable
        ``rhs(t, A, p)`` returns the derivatives of the amounts A at time t, a tuple or
        array with one number per compartment; p has the parameters as ``p.CL`` and by
        position. Doses are added by the model. The function may be compiled by
        ``numba.njit`` or plain Python. Plain Python is compiled as well if numba
        accepts it, it raises nothing, and modules and compiled functions are all that
        it uses from outside; otherwise it is slower by orders of magnitude. Predictions
        are NaN where a compiled function raises.
    parameters : sequence of str
        Names of the parameters.
    n_states : int
        Number of compartments; doses refer to them by numbers from 1.
    output : callable, dict or None, default=None
        ``output(A, p)`` returns what is observed: ``A[0]`` are the amounts in the first
        compartment at all records, and ``p.CL`` are the parameters of all records. A
        dict has one such function for each kind of observation, by CMT. None means the
        amount in the compartment given by CMT.
    initial : callable or None, default=None
        ``initial(p)`` returns the amounts at the beginning and after resets, one for
        each compartment; ``p.CL`` is an array here. None means zeros.
    method : {"non-stiff", "stiff"}, default="non-stiff"
        "non-stiff" is the method of order 8 by Dormand and Prince (DOP853). "stiff" is
        a Rosenbrock method of order 5 (Rodas5P), for equations with rates that differ
        by orders of magnitude, such as fast binding or exchange: its step length is
        determined by the slow processes. Its Jacobian comes from finite differences,
        with two calls of ``rhs`` per state. Both are compiled with ``rhs``; if that is
        not compiled, they are "DOP853" and "LSODA" of ``scipy.integrate``. Linear
        equations need neither.
    rtol : float, default=1e-8
        Relative tolerance of a step.
    atol : float, default=1e-10
        Absolute tolerance of a step, as a share of the subject's largest amount so far.
    max_steps : int, default=10000
        Maximum number of steps between two records; predictions beyond that are NaN.

    Attributes
    ----------
    parameters : tuple of str
        Names of the parameters.

    References
    ----------
    E. Hairer, S. P. Norsett and G. Wanner, Solving Ordinary Differential Equations I,
    Springer, 1993.

    G. Steinebach, Construction of Rosenbrock-Wanner method Rodas5P and numerical
    benchmarks within the Julia Differential Equations package, BIT Numerical
    Mathematics 63, 27, 2023.

    Examples
    --------
    >>> from sktem.compartments import ODE
    >>> def oral(t, A, p):
    ...     absorbed = p.KA * A[0]
    ...     return -absorbed, absorbed - p.CL / p.V * A[1]
    >>> model = ODE(
    ...     oral,
    ...     parameters=["CL", "V", "KA"],
    ...     n_states=2,
    ...     output=lambda A, p: A[1] / p.V,
    ... )
    >>> records = {"ID": [1, 1, 1], "TIME": [0, 1, 2], "AMT": [100, 0, 0]}
    >>> model.predict(records, {"CL": 1.1, "V": 20, "KA": 1.5}).round(3)
    array([0.   , 3.754, 4.391])
    """

    def __init__(
        self,
        rhs,
        *,
        parameters,
        n_states,
        output=None,
        initial=None,
        method="non-stiff",
        rtol=1e-8,
        atol=1e-10,
        max_steps=10_000,
    ):
        if not callable(rhs):
            raise TypeError(f"rhs must be callable, got {rhs!r}")
        check_number("n_states", n_states, Integral, 1)
        check_choice("method", method, SCIPY_METHODS)
        check_number("rtol", rtol, Real, 0, strict=True)
        check_number("atol", atol, Real, 0, strict=True)
        check_number("max_steps", max_steps, Integral, 1)
        for name, value in (("output", output), ("initial", initial)):
            if name == "output" and isinstance(value, Mapping):
                continue
            if value is not None and not callable(value):
                raise TypeError(f"{name} must be callable or None, got {value!r}")
        self.rhs = rhs
        self.parameters = tuple(parameters)
        self.n_states = int(n_states)
        self.output = output
        self.initial = initial
        self.method = method
        self.rtol = rtol
        self.atol = atol
        self.max_steps = max_steps
        self._record = _record(self.parameters)
        self._compiled = None

    def __repr__(self):
        """Return a representation with the functions' and parameters' names."""
        name = getattr(self.rhs, "__name__", "rhs")
        return f"ODE({name}, parameters={list(self.parameters)})"

    def __getstate__(self):
        """Return the state without compiled code, which belongs to a process."""
        return {**self.__dict__, "_compiled": None, "_record": None}

    def __setstate__(self, state):
        """Restore the state and the class of parameters."""
        self.__dict__.update(state)
        self._record = _record(self.parameters)

    @property
    def _n_numbered(self) -> int:
        """Number of compartments that doses may name: all of them."""
        return self.n_states

    @property
    def kinds(self) -> tuple[int, ...]:
        """Kinds of observations: those of the outputs, or the compartments."""
        if isinstance(self.output, Mapping):
            return tuple(self.output)
        return tuple(range(1, self.n_states + 1))

    @property
    def tolerance(self) -> float:
        """Relative error of jumps of predictions, 0 for linear equations."""
        return 0.0 if self._is_linear else super().tolerance

    @property
    def hindrance(self) -> str:
        """Reason why the equations are not compiled; empty if there is none."""
        if self._compiled is not False:
            return ""
        names = outside_of(self.rhs) if isinstance(self.rhs, FunctionType) else []
        reason = f"uses {names} from outside" if names else "is none that numba takes"
        return (
            f"rhs is not compiled, since it {reason}, so that fits are slower by "
            "orders of magnitude: have constants as parameters that fixed holds, and "
            "functions of numba.njit."
        )

    def _named(self, psi, at_records=False):
        """Return the parameters of all rows, or of all records, by name."""
        return self._record(*(
            psi.at_records(name) if at_records else psi.values[name]
            for name in self.parameters
        ))  # fmt: skip

    def _events(self, records):
        """Check the compartments of doses."""
        self._check_doses(records)

    def _initial(self, psi, rows):
        """Return the amounts at the beginning, one row for each of the parameters."""
        amounts = np.zeros((rows, self.n_states))
        if self.initial is not None:
            values = self.initial(self._named(psi))
            count = len(values) if hasattr(values, "__len__") else "a number"
            if count != self.n_states:
                raise ValueError(
                    f"initial must return a tuple of {self.n_states} amounts, got "
                    f"{count}"
                )
            for j, value in enumerate(values):
                amounts[:, j] = value
        return amounts

    def _amounts(self, records, steps, psi):
        """Return amounts by integration, of linear equations by exponentials."""
        from sktem.compartments.kernels import matrix_exponential, stepping

        values = np.column_stack([psi.values[name] for name in self.parameters])
        values = np.ascontiguousarray(values)
        initial = self._initial(psi, len(values))
        equations = self._equations(values) if self._is_linear else None
        if equations is None:
            compiled = self._compiled_rhs(values[0])
            if not compiled:
                method = SCIPY_METHODS[self.method]
                solver = SciPySolver(self, method, self.tolerance)
                return solver.amounts(steps, values, initial, psi)
        else:
            compiled = address_of(matrix_exponential.unused)
            values = equations.reshape(len(values), -1)
        control = stepping.Control(
            float(self.rtol), float(self.atol), int(self.max_steps), 0, 0, -1,
            self.n_states, int(equations is not None), in_step=self.n_in_step,
        )  # fmt: skip
        if equations is None and self.method == "stiff":
            control = control.for_stiff()
        n = records.n_subjects
        return integrated(compiled, control, steps, values, psi, initial, n)

    def _equations(self, values):
        """Return linear equations, None if they are not known to be linear."""
        return linear_equations(self.rhs, self._record, values, self.n_states)

    @cached_property
    def _is_linear(self) -> bool:
        """Whether the equations are linear, whatever the parameters."""
        return self._equations(np.ones((1, len(self.parameters)))) is not None

    def _compiled_rhs(self, values):
        """Return the right-hand side for compiled code, False for SciPy's integrators.

        Plain Python that numba does not take stays as it is.
        """
        from numba.core.errors import NumbaError

        if self._compiled is not None:
            return self._compiled
        check_values(self.rhs, self._record(*values.tolist()), self.n_states)
        function = compilable(self.rhs)
        compiled: RightHandSide | bool = False
        if function is not None:
            try:
                compiled = compiled_rhs(function, self._record, self.n_states)
            except NumbaError:
                if function is self.rhs:
                    raise
        self._compiled = compiled
        return compiled

    def _observed(self, records, amounts, psi):
        """Return the outputs of the user's functions for the amounts."""
        kind = np.maximum(records["CMT"].astype(np.int64), 1)
        if not callable(self.output):
            self.check_kinds(records)
        if self.output is None:
            return amounts[np.arange(len(kind)), np.minimum(kind, self.n_states) - 1]
        p, columns = self._named(psi, at_records=True), tuple(amounts.T)
        if not isinstance(self.output, Mapping):
            return self._called(self.output, columns, p, len(kind))
        predictions = np.full(len(kind), np.nan)
        for key, function in self.output.items():
            values = self._called(function, columns, p, len(kind))
            predictions = np.where(kind == key, values, predictions)
        return predictions

    @staticmethod
    def _called(function: Callable, columns, p, n):
        """Return the checked output of a function, one value for each record."""
        values = np.asarray(function(columns, p), dtype=float)
        if values.shape not in {(), (n,)}:
            raise ValueError(
                f"output must return one value for each of {n} records, got the shape "
                f"{values.shape}"
            )
        return np.broadcast_to(values, (n,))
