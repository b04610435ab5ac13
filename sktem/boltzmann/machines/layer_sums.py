"""Exact sums over the states of a layered machine, of one side of it at a time.

Given all odd layers the even units are independent, whatever their kind, so that log Z,
exact draws, and expectations given a part of the visible units are sums over the states
of the odd units.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp, softmax

from sktem.boltzmann.machines.enumeration import enumerate_states
from sktem.boltzmann.machines.layer_dynamics import LayerDynamics
from sktem.boltzmann.machines.model import draw_seed
from sktem.boltzmann.sums import hidden_sums

__all__ = ["OddEnumeration", "free_sums", "row_sums"]


def free_sums(layers: LayerDynamics, params) -> tuple[float, np.ndarray]:
    """Return log Z and the mean of phi under the model.

    The units of the smaller side are enumerated, the others are summed out.
    """
    layout = layers.layout
    constant = 0.0
    if layout.n_even < layout.n_odd and not layout.visible_blocks:
        states = enumerate_states(layout.n_even)
        fields = layers.odd_fields(params, states) + layout.odd_biases(params)
        sums, means = hidden_sums(fields)
        energies = states @ layout.even_biases(params) + sums
        sides = states, means
    else:
        states, fields, energies = _odd_states(layers, params)
        sums, constant = _sum_even_units(layers, params, fields)
        energies, sides = energies + sums, (fields, states)
    log_sum = float(logsumexp(energies))
    shares = np.exp(energies - log_sum)
    squares = None
    if layout.gaussian:
        squares = sides[0][:, : layout.n_normal] ** 2 + 1 / layout.precisions(params)
    values = layers.mean_statistics(*sides, squares, shares=shares)
    return log_sum + constant, values


def row_sums(layers: LayerDynamics, params, X, shares=None) -> tuple[float, np.ndarray]:
    """Return means over rows of a restricted machine, its hidden units summed out."""
    shares = np.full(len(X), 1 / len(X)) if shares is None else shares
    fields = layers.odd_fields(params, X)
    sums, means = hidden_sums(fields + layers.layout.odd_biases(params))
    values = layers.mean_statistics(X, means, shares=shares)
    return float(shares @ (sums + layers.visible_part(params, X))), values


class OddEnumeration:
    """Sums over the states of the odd layers, see `ExactPartition` for the methods.

    Parameters
    ----------
    model : LayeredMachine
        The machine.
    n_operations : float, default=inf
        Operations that a sum may cost, about 3 ns each.
    """

    def __init__(self, model, n_operations=float("inf")):
        self.model = model
        layout, limits = model.layout, model.limits
        per_state = limits.per_parameter * model.n_parameters
        per_state += limits.per_unit * layout.n_units
        self.cost = per_state * 2.0**layout.n_odd
        self.fits = layout.n_odd <= limits.odd_units and self.cost <= n_operations

    def value(self, params):
        """Return log Z, None where it would cost too much."""
        if not self.fits:
            return None
        _, energies, constant = self._odd_energies(params)
        return float(logsumexp(energies)) + constant

    def draw(self, params, n, rng):
        """Return exact draws of chains, None where they are too costly."""
        if not self.fits:
            return None
        states, energies, _ = self._odd_energies(params)
        chosen = rng.choice(len(states), n, p=softmax(energies))
        return states[chosen].astype(np.float32)

    def moments(self, params):
        """Return the mean statistics under the model, None where too costly."""
        return free_sums(self.model.dynamics, params)[1] if self.fits else None

    def _odd_energies(self, params):
        """Return odd states, logarithms of the sums over even units, a constant."""
        layers, params = self.model.dynamics, params.astype(np.float64)
        states, fields, energies = _odd_states(layers, params)
        sums, constant = _sum_even_units(layers, params, fields)
        return states, energies + sums, constant

    def conditional(self, params, X, observed, rng=None):
        """Return exact draws of the visible units given the observed ones, or means."""
        limits = self.model.limits
        most = limits.per_unit * limits.products * 2**6
        if not self.fits or self.cost * len(X) > most:
            return None
        layers, layout, m = self.model.dynamics, self.model.layout, self.model.n_visible
        params = params.astype(np.float64)
        states, fields, energies = _odd_states(layers, params)
        energies = energies + hidden_sums(fields[:, m:])[0]
        # Of the visible units by unit: a group has its sum at its first one.
        sums = np.logaddexp(0, fields[:, :m])
        for block in layout.visible_blocks:
            sums[:, block.columns] = block.log_sums_by_unit(params, fields)
        means = fields.copy()
        _sum_even_units(layers, params, means)
        out = np.empty(X.shape)
        step = max(limits.products // len(states), 1)
        for begin in range(0, len(X), step):
            rows = slice(begin, begin + step)
            filled = np.where(observed[rows], X[rows], 0.0)
            logs = filled @ fields[:, :m].T + (~observed[rows]) @ sums.T + energies
            shares = softmax(logs, axis=1)
            if rng is None:
                out[rows] = shares @ means[:, :m]
                continue
            uniforms = rng.random((len(shares), 1))
            chosen = (shares.cumsum(axis=1) < uniforms).sum(axis=1)
            odd = states[np.minimum(chosen, len(states) - 1)].astype(np.float32)
            narrow, seed = params.astype(np.float32), draw_seed(rng)
            out[rows] = self.model.visible_draws(narrow, None, None, odd, seed)
        return out


def _odd_states(layers, params):
    """Return the states of the odd units, even fields, and products with biases."""
    layout = layers.layout
    states = enumerate_states(layout.n_odd)
    fields = layers.even_fields(params, states) + layout.even_biases(params)
    return states, fields, states @ layout.odd_biases(params)


def _sum_even_units(layers, params, fields):
    """Return logarithms of sums over even units; turn fields into means, in place.

    The second value is a constant that is to be added to the logarithms.
    """
    blocks, n = layers.layout.visible_blocks, layers.layout.first_binary
    sums, fields[:, n:] = hidden_sums(fields[:, n:])
    for block in blocks:
        sums = sums + block.sums_to_means(params, fields)
    return sums, sum(block.constant(params) for block in blocks)
