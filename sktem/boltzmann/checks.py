"""Checks of the parameters and of the rows of a Boltzmann machine."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from scipy import sparse

from sktem.arrays import arrays_of, input_arrays
from sktem.boltzmann.kinds import is_auto, kind_of
from sktem.boltzmann.learning.solvers import as_solver
from sktem.boltzmann.tables import COLUMN_KINDS, Table, is_tabular
from sktem.choices import check_choice, check_number
from sktem.validation import validate_data

__all__ = [
    "ValueRule",
    "check_arrays",
    "check_parameters",
    "check_rows",
    "refuse_missing",
    "table_of_fit",
    "visible_values",
]

E_STEPS = ("auto", "exact", "gibbs", "mean_field")
VISIBLE = ("binary", "spin", "gaussian", "categorical", "auto")
#: Parameters that may be "auto", and otherwise of what type and how large at least.
AUTO = (
    ("max_iter", Integral, 0), ("n_replicas", Integral, 1), ("weight_decay", Real, 0)
)  # fmt: skip
#: Parameters that are positive integers.
COUNTS = ("n_chains", "n_chains_e", "n_gibbs_e", "n_gibbs_m", "n_mean_field",
          "batch_size", "verbose_interval")  # fmt: skip


def check_parameters(machine) -> None:
    """Raise if a parameter of an estimator is out of range."""
    for name in COUNTS:
        check_number(name, getattr(machine, name), Integral, 1)
    for name, kind, least in AUTO:
        value = getattr(machine, name)
        if not (isinstance(value, str) and value == "auto"):
            check_number(name, value, kind, least)
    if machine.tol is not None:
        check_number("tol", machine.tol, Real, 0)
    check_number("variance_floor", machine.variance_floor, Real, 0, strict=True)
    if machine.variance_floor > 1:
        raise ValueError(
            f"variance_floor must be in (0, 1], got {machine.variance_floor!r}"
        )
    if machine.binarize is not None and machine.binarize != "sample":
        threshold = isinstance(machine.binarize, Real)
        if not threshold or isinstance(machine.binarize, (bool, np.bool_)):
            raise ValueError(
                "binarize must be None, 'sample' or a threshold, got "
                f"{machine.binarize!r}"
            )
    _check_visible(machine)
    as_solver(machine.solver)
    check_choice("e_step", machine.e_step, E_STEPS)
    if not isinstance(machine.centering, (bool, np.bool_)):
        raise ValueError(f"centering must be a bool, got {machine.centering!r}")
    if machine.graph is not None and machine.hidden_layer_sizes is not None:
        raise ValueError("give either graph or hidden_layer_sizes, not both")
    if machine.graph is None and machine.hidden is not None:
        number = isinstance(machine.hidden, (Integral, tuple))
        meant = f"did you mean hidden_layer_sizes={machine.hidden!r}?"
        raise ValueError(
            "hidden says which units of graph are hidden: "
            + (meant if number else "give graph")
        )


def _check_visible(machine):
    """Raise if the kinds of the columns are unknown, or do not suit the machine."""
    visible = machine.visible
    if isinstance(visible, str):
        check_choice("visible", visible, VISIBLE)
        if visible in ("auto", "binary", "spin"):
            return
    else:
        if isinstance(visible, dict):
            raise ValueError(
                "visible must be a kind or a list with one for each column of X, got "
                "a dict"
            )
        for kind in visible:
            check_choice("visible", kind, ("auto", *COLUMN_KINDS))
    if machine.graph is not None:
        raise ValueError(f"visible={visible!r} needs layers, not a graph")
    if machine.binarize is not None:
        raise ValueError("binarize needs visible='binary' or 'spin'")


def table_of_fit(machine, X):
    """Return the columns of X and its encoded rows."""
    validate_data(machine, X, skip_check_array=True)
    table = Table.of(X, machine.visible)
    return table, table.encode(X)


def refuse_missing(X, method):
    """Raise if values are missing where they have to be known."""
    values = X.data if sparse.issparse(X) else X
    if bool(arrays_of(values).xp.any(arrays_of(values).xp.isnan(values))):
        raise ValueError(
            f"Input X contains NaN: {method} needs rows without missing values, see "
            "impute and sample_conditional"
        )


def check_rows(machine, X, *, reset):
    """Return X, checked but for its range; float32 and float64 stay."""
    kind = machine.visible if reset else kind_of(machine)
    if is_tabular(kind):
        validate_data(machine, X, reset=False, skip_check_array=True)
        return machine.fitted_.units.table.encode(X)
    arrays = input_arrays(X)
    if not arrays.is_numpy and machine.graph is not None:
        raise ValueError(
            "machines on a graph work on NumPy arrays only, got X as an array of "
            f"{arrays.xp.__name__}: give hidden_layer_sizes in place of graph, or "
            "X as a NumPy array"
        )
    return validate_data(
        machine,
        X,
        reset=reset,
        accept_sparse="csr" if kind in ("auto", "binary") else False,
        dtype=[arrays.xp.float64, arrays.xp.float32],
        order="C" if arrays.is_numpy else None,
        ensure_all_finite="allow-nan",
    )


class ValueRule(NamedTuple):
    """What values of the visible units may be.

    Attributes
    ----------
    kind : str or list of str
        Kind of the visible units; "auto" where rows are to say it.
    binarize : float, "sample" or None
        As of the machine.
    was_found : bool
        Whether the rows of the fit have said the kind.
    """

    kind: str | list
    binarize: float | str | None
    was_found: bool

    @classmethod
    def of(cls, machine, reset=False) -> ValueRule:
        """Return the rule of a machine, whose fit may be about to begin."""
        kind = machine.visible if reset else kind_of(machine)
        return cls(kind, machine.binarize, is_auto(machine.visible) and not reset)


def visible_values(rule, X):
    """Return the values of the visible units, checked to be in their range."""
    if is_tabular(rule.kind) or rule.kind in ("auto", "gaussian"):
        return X
    binary = rule.kind == "binary"
    if isinstance(rule.binarize, Real):
        above = _above(X, float(rule.binarize))
        return above if binary else 2.0 * above - 1.0
    if binary:
        return _in_range(X, rule.was_found)
    return _are_spins(X, rule.binarize is not None)


def _are_spins(X, between):
    """Return values of spins, checked to be -1 or 1, or between them."""
    xp = arrays_of(X).xp
    size = xp.where(xp.isnan(X), xp.ones_like(X), xp.abs(X))
    if between and xp.all(size <= 1) or xp.all(size == 1):
        return X
    raise ValueError(
        "X must be in [-1, 1] for visible='spin' and binarize='sample'"
        if between
        else "X must be -1 or 1 for visible='spin'; use visible='binary' for values in "
        "[0, 1], or set a threshold by binarize"
    )


def _above(X, threshold):
    """Return 1 where values are above a threshold and 0 elsewhere, NaN as it is."""
    if not sparse.issparse(X):
        xp = arrays_of(X).xp
        above = arrays_of(X).astype(X > threshold, X.dtype)
        return xp.where(xp.isnan(X), X, above)
    if threshold < 0:
        raise ValueError("binarize must be >= 0 for a sparse X")
    X = X.copy()
    X.data = (X.data > threshold).astype(X.dtype)
    X.eliminate_zeros()
    return X


def check_arrays(machine, X, method):
    """Raise if X is not of the namespace and on the device of the fit."""
    fitted = arrays_of(machine.params_)
    inputs = fitted if sparse.issparse(X) else arrays_of(X)
    same = (fitted.xp, fitted.device) == (inputs.xp, inputs.device)
    if not same or (sparse.issparse(X) and not fitted.is_numpy):
        raise ValueError(
            f"Inputs passed to {type(machine).__name__}.{method}() must use the same "
            "namespace and the same device as those passed to fit(), which were "
            f"{fitted.xp.__name__} and {fitted.device}; got {type(X).__name__} of "
            f"{inputs.xp.__name__} and {inputs.device}. Arrays other than NumPy's "
            "need sklearn.config_context(array_api_dispatch=True)."
        )


def _in_range(X, was_found):
    """Return values of binary units, checked to be in [0, 1]."""
    values = X.data if sparse.issparse(X) else X
    if sparse.issparse(X) and np.isnan(values).any():
        raise ValueError("a sparse X must not contain NaN")
    if 0 not in values.shape:
        xp = arrays_of(values).xp
        low, high = float(xp.min(values)), float(xp.max(values))
        if math.isnan(low):
            # Where a value is not observed, one that is in range.
            observed = xp.where(xp.isnan(values), xp.full_like(values, 0.5), values)
            low, high = float(xp.min(observed)), float(xp.max(observed))
        if (low < 0 or high > 1) and was_found:
            raise ValueError(
                f"X has values from {low:g} to {high:g}, and visible='auto' has taken "
                "its columns for binary units, as all values were in [0, 1] where the "
                "fit began. Say visible='gaussian' before it, if they are real "
                "numbers, or scale X, or set a threshold by binarize."
            )
        if low < 0 or high > 1:
            raise ValueError(
                "X must be in [0, 1] for visible='binary', got values from "
                f"{low:g} to {high:g}. {_advice(values, low, high)}"
            )
    return X


def _advice(values, low, high):
    """Return the advice on values that are out of range."""
    xp = arrays_of(values).xp
    if low == -1 and high == 1 and bool(xp.all(xp.abs(values) == 1)):
        return "For units in {-1, 1}, use visible='spin'."
    return (
        "Scale it, in a pipeline by MinMaxScaler(clip=True), which also bounds "
        "values that are outside of the training data; or set a threshold by "
        "binarize; or use visible='gaussian'."
    )
