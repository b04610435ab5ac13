"""Geometric paths from independent units to a Boltzmann machine.

A path knows its own states: ``start(n, rng)`` draws n of them from the first point and
returns the log of its normalisation, ``change(beta, new)`` says how the log-density of
each changes from one point to another, ``move(beta, rng)`` is one transition.
``start_at_end(chains, rng)`` takes the states of chains of the machine instead, to go
back by ``move_back``, the transition that is `move` in the reverse order. With X
given, the visible units are clamped and the path is one over the hidden units.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.arrays import arrays_of
from sktem.boltzmann.machines.graph_machine import GraphMachine
from sktem.boltzmann.machines.layer_operations import operations_of, softplus_sums
from sktem.boltzmann.machines.model import draw_seed

__all__ = ["GraphPath", "LayerPath", "new_path"]


class PathStart(NamedTuple):
    """Estimates of the means of the independent units from which a path starts.

    Attributes
    ----------
    n_chains, n_sweeps : int
        Chains of the machine from whose means they are taken, and their sweeps.
    n_mean_field : int
        Mean-field iterations for the start of a posterior.
    n_means : int
        Draws that means of mean field count as.
    """

    n_chains: int = 100
    n_sweeps: int = 50
    n_mean_field: int = 30
    n_means: int = 1000


START = PathStart()


def new_path(model, params, rng, X=None):
    """Return the path of a machine."""
    kind = GraphPath if isinstance(model, GraphMachine) else LayerPath
    return kind(model, params, rng, X)


def _logits(means, n):
    """Return logits of means over n chains, finite."""
    arrays = arrays_of(means)
    means = (arrays.astype(means, arrays.xp.float64) * n + 0.5) / (n + 1)
    return arrays.xp.log(means) - arrays.xp.log1p(-means)


class GraphPath:
    """Path of a machine on a graph."""

    def __init__(self, model, params, rng, X=None):
        self.model, self.params, self.X = model, params, X
        if X is None:
            chains = model.new_chains(START.n_chains, rng)
            moments = model.gibbs(params, chains, START.n_sweeps, draw_seed(rng))
            self.free = model.order
            logits = _logits(moments.values[: model.n_units], START.n_chains)
            self.logits = logits.astype(np.float32)[:, None]
        else:
            steps = START.n_mean_field
            means = model.posterior_mean_field(params, X, None, steps).means
            self.free = model.hidden_order
            self.logits = np.zeros(means.shape, np.float32)
            self.logits[model.hidden] = _logits(means[model.hidden], START.n_means)

    def start(self, n, rng):
        """Draw n states and return the log-normalisation of the first point."""
        model, free = self.model, self.free
        states = np.zeros((model.n_units, n), np.float32)
        if self.X is not None:
            states[model.visible] = self.X.T
        logits = self._logits_of(n)
        states[free] = rng.random(logits.shape) < 1 / (1 + np.exp(-logits))
        self.states = states
        self._evaluate()
        return np.logaddexp(0, logits).sum(axis=0)

    def _logits_of(self, n):
        """Return the logits of the free units in n runs, after having laid them out."""
        self.offsets = np.ascontiguousarray(
            np.broadcast_to(self.logits, (self.model.n_units, n))
        )
        return self.offsets[self.free].astype(np.float64)

    def start_at_end(self, chains, rng):
        """Take states of the machine and return log Z of the first point."""
        self.states = chains.copy()
        logits = self._logits_of(chains.shape[1])
        self._evaluate()
        return np.logaddexp(0, logits).sum(axis=0)

    def _evaluate(self):
        free = self.free
        base = np.einsum(
            "uc,uc->c", self.offsets[free], self.states[free], dtype=np.float64
        )
        self.slope = self.model.log_potentials(self.params, self.states) - base

    def change(self, beta, new):
        """Return the change of the log-density of each state."""
        return (new - beta) * self.slope

    def move(self, beta, rng):
        """Do one transition at a point of the path."""
        self._sweep(beta, rng, self.free)

    def move_back(self, beta, rng):
        """Do one transition that visits the units in the opposite order."""
        self._sweep(beta, rng, self.free[::-1].copy())

    def _sweep(self, beta, rng, order):
        self.model.sweep(
            self.params, self.states, 1, draw_seed(rng), order,
            offsets=self.offsets, scales=(beta, 1.0 - beta),
        )  # fmt: skip
        self._evaluate()


class LayerPath:
    """Path of a layered machine; the odd layers are summed out at each point."""

    def __init__(self, model, params, rng, X=None):
        self.operations = operations_of(params)
        narrow = self.operations.xp.float32
        params = self.operations.astype(params, narrow)
        self.model, self.params, self.X = model, params, X
        self.biases = model.layout.even_biases(params)
        if X is None:
            self.first = 0
            chains = model.new_chains(START.n_chains, rng, params)
            moments = model.gibbs(params, chains, START.n_sweeps, draw_seed(rng)).values
            even = self._logits_of_even(moments)
            odd = _logits(model.layout.odd_biases(moments), START.n_chains)
            self.even, self.odd = even[None, :], odd[None, :]
        else:
            self.first = model.n_visible
            X = self.operations.astype(X, narrow)
            even, odd = model.mean_field(params, X, None, START.n_mean_field)
            self.even = _logits(even[:, self.first :], START.n_means)
            self.odd = _logits(odd, START.n_means)
        # Gaussian units start as standard normal ones.
        layout = model.layout
        self.n_normal = layout.n_normal if X is None else 0
        self.first_binary = layout.first_binary if X is None else 0
        self.groups = None
        if X is None and layout.groups:
            self.groups = layout.visible_blocks[-1]

    def _logits_of_even(self, statistics):
        """Return logits of the even units, zero for Gaussian ones, logs for groups."""
        layout = self.model.layout
        means = self.operations.copy(layout.even_biases(statistics))
        means[: layout.n_normal] = 0.5
        logits = _logits(means, START.n_chains)
        if layout.groups:
            grouped, n = layout.visible_blocks[-1].columns, float(START.n_chains)
            logits[grouped] = np.log((means[grouped] * n + 0.5) / (n + 1.0))
        return logits

    def start(self, n, rng):
        """Draw n states and return the log-normalisation of the first point."""
        model, operations, m = self.model, self.operations, self.n_normal
        width = model.layout.n_even - self.first
        narrow = operations.xp.float32
        logits, constant = self._prepare(n)
        self.states = operations.empty((n, model.layout.n_even), narrow)
        draws = operations.draws(draw_seed(rng))
        free = operations.full((n, width), 0.0, narrow)
        if m:
            # Normal of mean 0 and variance 1.
            zeros = operations.full(m, 0.0, narrow)
            free = draws.normals(free, zeros, zeros + 1.0)
        biases = operations.full(width, 0.0, narrow)
        free[:, m:] = operations.contiguous(operations.astype(logits[:, m:], narrow))
        free = self._draw_rest(free, biases, draws)
        self.states[:, self.first :] = free
        if self.X is not None:
            self.states[:, : self.first] = operations.astype(self.X, narrow)
            constant += model.dynamics.visible_part(self.params, self.X)
        self._evaluate()
        return operations.astype(constant, operations.xp.float64)

    def _prepare(self, n):
        """Lay n runs out; return their logits and the normalisation of these."""
        layout, operations, m = self.model.layout, self.operations, self.n_normal
        xp, width = operations.xp, layout.n_even - self.first
        logits = operations.copy(xp.broadcast_to(self.even, (n, width)))
        others = xp.broadcast_to(self.odd, (n, layout.n_odd))
        self.others = operations.copy(operations.astype(others, xp.float32))
        binary = logits[:, self.first_binary :]
        constant = softplus_sums(binary) + softplus_sums(self.others)
        if self.groups is not None:
            constant += self.groups.log_sums(self.params, logits)
        return logits, constant + 0.5 * m * float(np.log(2 * np.pi))

    def start_at_end(self, chains, rng):
        """Take states of the machine and return log Z of the first point."""
        _, constant = self._prepare(chains.shape[0])
        draws = self.operations.draws(draw_seed(rng))
        self.states = self.model.dynamics.draw_even(self.params, chains, draws)
        self._evaluate()
        return self.operations.astype(constant, self.operations.xp.float64)

    def _evaluate(self):
        """Fields of the odd units, and the slope of the part of the even units."""
        model, operations, m = self.model, self.operations, self.n_normal
        self.fields = model.dynamics.odd_fields(self.params, self.states)
        self.fields += model.layout.odd_biases(self.params)
        wide = operations.xp.float64
        free = operations.astype(self.states[:, self.first :], wide)
        shift = operations.astype(self.biases[self.first :], wide) - self.even
        if shift.shape[0] == 1:
            self.slope = free @ shift[0, :]
        else:
            self.slope = operations.row_dots(free, shift)
        if m:
            excess = operations.astype(model.layout.precisions(self.params), wide) - 1.0
            self.slope -= 0.5 * (free[:, :m] ** 2 @ excess)

    def change(self, beta, new):
        """Return the change of the log-density of each state."""
        change = self.operations.softplus_change(
            self.fields, self.others, (beta, 1.0 - beta), (new, 1.0 - new)
        )
        return change + (new - beta) * self.slope

    def move(self, beta, rng):
        """Do one transition at a point of the path."""
        model, operations, m = self.model, self.operations, self.n_normal
        xp, beta = operations.xp, float(beta)
        draws = operations.draws(draw_seed(rng))
        fields = self.fields
        fields *= beta
        if beta < 1.0:
            fields += (1.0 - beta) * self.others
        nothing = operations.full(model.layout.n_odd, 0.0, xp.float32)
        odd = draws.units(fields, 0, nothing)
        free = model.dynamics.even_fields(self.params, odd, self.first)
        free *= beta
        biases = beta * self.biases[self.first :] + (1.0 - beta) * self.even
        biases = operations.astype(biases, xp.float32)
        if biases.shape[0] == 1:
            biases = biases[0, :]
        else:
            free += biases
            biases = operations.full(free.shape[1], 0.0, xp.float32)
        if m:
            precisions = beta * model.layout.precisions(self.params) + (1.0 - beta)
            free = draws.normals(free, biases[:m], precisions)
        free = self._draw_rest(free, biases, draws)
        if self.first:
            self.states[:, self.first :] = free
        else:
            self.states = free
        self._evaluate()

    def _draw_rest(self, fields, biases, draws):
        """Return fields with draws of groups and of binary units."""
        if self.groups is not None:
            fields = self.groups.draw(self.params, fields, biases, draws)
        return draws.units(fields, self.first_binary, biases[self.first_binary :])

    #: Odd units and then even ones: on the even ones, its own reverse.
    move_back = move
