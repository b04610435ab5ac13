"""The same machine in spins: s = 2 x - 1 in the place of x in {0, 1}.

With fields h and couplings J, ``sum h_i s_i + sum J_ij s_i s_j`` is ``<theta, phi(x)>``
plus a constant for ``theta_ij = 4 J_ij``, ``theta_i = 2 h_i - 2 sum_j J_ij`` and the
constant ``sum J_ij - sum h_i``.
"""

from __future__ import annotations

from sktem.arrays import arrays_of

__all__ = ["spin_constant", "spin_moments", "spin_parameters"]


def spin_parameters(model, params):
    """Return fields and couplings, laid out as the parameters of the machine."""
    out = model.independent(params)
    out *= 0.5
    edges = slice(model.weights_from, None)
    out[edges] = 0.25 * params[edges]
    return out


def spin_constant(model, params) -> float:
    """Return the offset of the exponent of spins from that of zeros and ones."""
    arrays = arrays_of(params)
    wide = arrays.astype(params, arrays.xp.float64)
    in_spins = spin_parameters(model, wide)
    edges = in_spins[model.weights_from :]
    return float(arrays.xp.sum(edges) - arrays.xp.sum(in_spins[: model.weights_from]))


def spin_moments(model, values):
    """Return means of spins and of their products from mean statistics."""
    arrays = arrays_of(values)
    out, m = arrays.copy(values), model.weights_from
    # <(x_i - 1/2)(x_j - 1/2)>, but for a quarter.
    model.centre_weights(out, arrays.full(m, 0.5, out.dtype))
    out[:m] = 2.0 * out[:m] - 1.0
    out[m:] = 4.0 * out[m:] + 1.0
    return out
