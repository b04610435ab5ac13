"""Log-densities that are quadratic in latents and numeric parameters together."""

from __future__ import annotations

from functools import partial

import numpy as np

from sktem.sequences.rows import each_block

__all__ = ["is_quadratic"]

#: Third differences that are rounding, as a share of second ones.
ROUNDED = 1e-8


def is_quadratic(model, rows, params) -> bool:
    """Return whether log-densities are quadratic in latents and numeric parameters.

    Those of a line with a constant error are. Second differences are then exact for
    any step, and long steps keep the digits that short ones lose to rounding where
    inputs are far from zero.
    """
    design = model.design
    kinds = {
        "" if entry.kind == "residual" else design.transforms[entry.parameter]
        for entry in design.numeric
    }
    if kinds != {"normal"}:
        return False
    return all(each_block(rows, partial(_is_quadratic, model, params), lambda _: ()))


def _is_quadratic(model, params, rows):
    """Return whether third differences of a block of subjects are rounding."""
    means, widths = model.prior_moments(rows, params)[0], np.sqrt(np.diag(params.omega))
    units = model.units_of_numeric()
    direction = units / np.arange(1.0, len(units) + 1)
    values = [
        model.log_conditional(
            rows,
            means + steps * widths,
            params._replace(numeric=params.numeric + steps * direction),
        )
        for steps in (-1, 0, 1, 2)
    ]
    with np.errstate(invalid="ignore"):  # there may be no density
        second, third = (np.abs(np.diff(values, n, axis=0)).max() for n in (2, 3))
    return bool(third <= ROUNDED * second)
