"""Geometric paths from independent units to a Boltzmann machine.

A path knows its own states: ``start(n, rng)`` draws n of them from the first point and
returns the log of its normalisation, ``change(beta, new)`` says how the log-density of
each changes from one point to another, ``move(beta, rng)`` is one transition. With X
given, the visible units are clamped and the path is one over the hidden units.
"""

from __future__ import annotations

import numpy as np

from sktem.kernels.layers import draw_normals, draw_units, softplus_differences
from sktem.samplers.gibbs import draw_seed

__all__ = ["GraphPath", "LayerPath", "new_path"]

#: Sweeps of the chains from whose means the independent units take theirs.
SWEEPS = 50
#: Mean-field iterations for the start of a posterior.
MEAN_FIELD = 30


def new_path(model, params, rng, X=None):
    """Return the path of a machine.

    Parameters
    ----------
    model : BoltzmannModel
        The machine.
    params : ndarray of shape (n_parameters,)
        Its parameters.
    rng : numpy.random.Generator
        Source of randomness.
    X : ndarray of shape (n, n_visible) or None, default=None
        Clamped visible values, one row per run.

    Returns
    -------
    GraphPath or LayerPath
        The path.
    """
    kind = LayerPath if hasattr(model, "n_odd") else GraphPath
    return kind(model, params, rng, X)


def _logits(means, n):
    """Return logits of means over n chains, finite."""
    means = (np.asarray(means, np.float64) * n + 0.5) / (n + 1)
    return np.log(means) - np.log1p(-means)


class GraphPath:
    """Path of a machine on a graph.

    Parameters
    ----------
    model : GraphMachine
        The machine.
    params : ndarray of shape (n_parameters,)
        Its parameters.
    rng : numpy.random.Generator
        Source of randomness.
    X : ndarray of shape (n, n_visible) or None, default=None
        Clamped visible values.
    """

    def __init__(self, model, params, rng, X=None):
        self.model, self.params, self.X = model, params, X
        if X is None:
            chains = model.new_chains(100, rng)
            found = model.free_gibbs(params, chains, SWEEPS, draw_seed(rng))
            self.free = model.order
            logits = _logits(found.values[: model.n_units], 100)
            self.logits = logits.astype(np.float32)[:, None]
        else:
            means = model.posterior_mean_field(params, X, None, MEAN_FIELD).chains
            self.free = model.hidden_order
            self.logits = np.zeros(means.shape, np.float32)
            self.logits[model.hidden] = _logits(means[model.hidden], 1000)

    def start(self, n, rng):
        """Draw n states and return the log-normalisation of the first point."""
        model, free = self.model, self.free
        states = np.zeros((model.n_units, n), np.float32)
        if self.X is not None:
            states[model.visible] = self.X.T
        self.offsets = np.ascontiguousarray(
            np.broadcast_to(self.logits, (model.n_units, n))
        )
        logits = self.offsets[free].astype(np.float64)
        states[free] = rng.random(logits.shape) < 1 / (1 + np.exp(-logits))
        self.states = states
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
        self.model.sweep(
            self.params, self.states, 1, draw_seed(rng), self.free,
            offsets=self.offsets, scales=(beta, 1.0 - beta),
        )  # fmt: skip
        self._evaluate()


class LayerPath:
    """Path of a layered machine; the odd layers are summed out at each point.

    Parameters
    ----------
    model : LayeredMachine
        The machine.
    params : ndarray of shape (n_parameters,)
        Its parameters.
    rng : numpy.random.Generator
        Source of randomness.
    X : ndarray of shape (n, n_visible) or None, default=None
        Clamped visible values.
    """

    def __init__(self, model, params, rng, X=None):
        self.model, self.params = model, params.astype(np.float32)
        self.X = X
        self.biases = model.even_biases(self.params)
        if X is None:
            self.first = 0
            chains = model.new_chains(100, rng)
            found = model.free_gibbs(self.params, chains, SWEEPS, draw_seed(rng)).values
            even = _logits_of_even(model, found)
            odd = _logits(model.odd_biases(found), 100)
            self.even, self.odd = even[None], odd[None]
        else:
            self.first = model.n_visible
            X = X.astype(np.float32)
            even, odd = model.mean_field(self.params, X, None, MEAN_FIELD)
            self.even = _logits(even[:, self.first :], 1000)
            self.odd = _logits(odd, 1000)
        # Gaussian units start as standard normal ones.
        self.n_normal = model.n_visible if model.gaussian and X is None else 0

    def start(self, n, rng):
        """Draw n states and return the log-normalisation of the first point."""
        model, m = self.model, self.n_normal
        width = model.n_even - self.first
        logits = np.broadcast_to(self.even, (n, width))
        self.others = np.ascontiguousarray(
            np.broadcast_to(self.odd, (n, model.n_odd)), np.float32
        )
        self.states = np.empty((n, model.n_even), np.float32)
        free = self.states[:, self.first :]
        free[:] = rng.random(logits.shape) < 1 / (1 + np.exp(-logits))
        free[:, :m] = rng.standard_normal((n, m))
        constant = np.logaddexp(0, logits[:, m:]).sum(axis=1)
        constant += np.logaddexp(0, self.others).sum(axis=1, dtype=np.float64)
        constant += 0.5 * m * np.log(2 * np.pi)
        if self.X is not None:
            self.states[:, : self.first] = self.X
            constant += model.visible_part(self.params, self.X.astype(np.float64))
        self._evaluate()
        return constant

    def _evaluate(self):
        """Fields of the odd units, and the slope of what the even units add."""
        model, m = self.model, self.n_normal
        self.fields = model.odd_fields(self.params, self.states)
        self.fields += model.odd_biases(self.params)
        free = self.states[:, self.first :]
        shift = self.biases[self.first :] - self.even
        if len(shift) == 1:
            self.slope = free @ shift[0]
        else:
            self.slope = np.einsum("ij,ij->i", free, shift, dtype=np.float64)
        if m:
            excess = model.precisions(self.params) - 1.0
            self.slope -= 0.5 * np.square(free[:, :m], dtype=np.float64) @ excess

    def change(self, beta, new):
        """Return the change of the log-density of each state."""
        old = np.array([beta, 1.0 - beta], np.float32)
        to = np.array([new, 1.0 - new], np.float32)
        change = softplus_differences(self.fields, self.others, old, to)
        return change + (new - beta) * self.slope

    def move(self, beta, rng):
        """Do one transition at a point of the path."""
        model, m = self.model, self.n_normal
        seed, zero = draw_seed(rng), np.uint64(0)
        self.fields *= np.float32(beta)
        if beta < 1.0:
            self.fields += np.float32(1.0 - beta) * self.others
        nothing = np.zeros(model.n_odd, np.float32)
        draw_units(self.fields, 0, nothing, seed, zero, zero)
        free = model.even_fields(self.params, self.fields, self.first)
        free *= np.float32(beta)
        biases = beta * self.biases[self.first :] + (1.0 - beta) * self.even
        biases = biases.astype(np.float32)
        if len(biases) == 1:
            biases = biases[0]
        else:
            free += biases
            biases = np.zeros(free.shape[1], np.float32)
        one = np.uint64(1)
        if m:
            precisions = beta * model.precisions(self.params) + (1.0 - beta)
            precisions = precisions.astype(np.float32)
            draw_normals(free, biases[:m], precisions, seed, one, zero)
        draw_units(free, m, biases[m:], seed, one, zero)
        if self.first:
            self.states[:, self.first :] = free
        else:
            self.states = free
        self._evaluate()


def _logits_of_even(model, statistics):
    """Return logits of the even units, zero for Gaussian ones."""
    means = np.array(model.even_biases(statistics), np.float64)
    if model.gaussian:
        means[: model.n_visible] = 0.5
    return _logits(means, 100)
