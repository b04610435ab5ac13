"""Exact sums of machines with visible units of several kinds.

All states of the odd layers are enumerated. Given them the even units are independent,
whatever their kind, so that log Z, exact draws, and expectations given a part of the
visible units are sums over these states.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp, softmax

from sktem.arrays import arrays_of
from sktem.boltzmann.machines.layer_sums import free_sums, softplus
from sktem.boltzmann.normalisation.enumeration import enumerate_states

__all__ = ["OddEnumeration"]

#: Most odd units.
MOST_ODD = 20
#: Operations of a state for each parameter, and for each unit.
PER_PARAMETER, PER_UNIT = 0.3, 5.0
#: Products of rows and states at a time.
ENTRIES = 1 << 22


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
        layout = model.layout
        per_state = PER_PARAMETER * model.n_parameters + PER_UNIT * layout.n_units
        self.cost = per_state * 2.0**layout.n_odd
        self.fits = layout.n_odd <= MOST_ODD and self.cost <= n_operations

    def value(self, params):
        """Return log Z, None where it would cost too much."""
        return float(logsumexp(self._sums(params)[2])) if self.fits else None

    def draw(self, params, n, rng):
        """Return exact draws of chains, None where they are too costly."""
        if not self.fits:
            return None
        states, _, energies, _ = self._sums(params)
        chosen = rng.choice(len(states), n, p=softmax(energies))
        return states[chosen].astype(np.float32)

    def moments(self, params):
        """Return the mean statistics under the model, None where too costly."""
        return free_sums(self.model.states, params)[1] if self.fits else None

    def draw_given(self, params, X, observed, rng):
        """Return exact draws of the visible units given those that are observed."""
        return self._given(params, X, observed, rng)

    def means_given(self, params, X, observed):
        """Return exact means of the visible units given those that are observed."""
        return self._given(params, X, observed, None)

    def _given(self, params, X, observed, rng):
        """Return draws, or means without a generator, in float64."""
        if not self.fits or self.cost * len(X) > PER_UNIT * ENTRIES * 2**6:
            return None
        model, m = self.model, self.model.n_visible
        params = params.astype(np.float64)
        states, fields, energies, sums = self._sums(params, apart=True)
        means = fields.copy()
        for block in model.layout.visible_blocks:
            block.sums_to_means(params, means)
        n = model.layout.first_binary
        means[:, n:] = softplus(fields[:, n:])[1]
        out = np.empty(X.shape)
        step = max(ENTRIES // len(states), 1)
        for begin in range(0, len(X), step):
            rows = slice(begin, begin + step)
            seen = np.where(observed[rows], X[rows], 0.0)
            logs = seen @ fields[:, :m].T + (~observed[rows]) @ sums.T + energies
            shares = softmax(logs, axis=1)
            if rng is None:
                out[rows] = shares @ means[:, :m]
                continue
            uniforms = rng.random((len(shares), 1))
            chosen = (shares.cumsum(axis=1) < uniforms).sum(axis=1)
            odd = states[np.minimum(chosen, len(states) - 1)].astype(np.float32)
            seed = np.uint64(rng.integers(2**63))
            narrow = params.astype(np.float32)
            out[rows] = model.visible_draws(narrow, None, None, odd, seed)
        return out

    def _sums(self, params, apart=False):
        """Return odd states, even fields, and logarithms of the sums over even units.

        With `apart`, those of the visible units come by unit instead: a group has the
        sum at its first unit.
        """
        layers, layout = self.model.states, self.model.layout
        params = arrays_of(params).astype(params, np.float64)
        states = enumerate_states(layout.n_odd)
        fields = layers.even_fields(params, states) + layout.even_biases(params)
        energies = states @ layout.odd_biases(params)
        m, n, sums = self.model.n_visible, layout.first_binary, None
        if apart:
            sums = np.zeros((len(states), m))
            sums[:, n:] = np.logaddexp(0, fields[:, n:m])
            for block in layout.visible_blocks:
                sums[:, block.columns] = block.log_sums_by_unit(params, fields)
            n = m
        else:
            for block in layout.visible_blocks:
                energies += block.log_sums(params, fields) + block.constant(params)
        return states, fields, energies + softplus(fields[:, n:])[0], sums
