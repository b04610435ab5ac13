"""Checks of the parameters of a Boltzmann machine."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np

from sktem.boltzmann.learning.solvers import as_solver
from sktem.boltzmann.tables import COLUMN_KINDS
from sktem.choices import check_choice, check_number, is_auto

__all__ = ["check_parameters"]

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
        if not is_auto(value):
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
