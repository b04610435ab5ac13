"""Boltzmann machine in layers: restricted and deep, as matrix products."""

from __future__ import annotations

import copy

import numpy as np

from sktem.arrays import arrays_of
from sktem.boltzmann.machines.elimination import EliminationPlan, posterior_plan
from sktem.boltzmann.machines.layer_dynamics import LayerDynamics
from sktem.boltzmann.machines.layer_layout import LayerLayout
from sktem.boltzmann.machines.layer_operations import operations_of, softplus_sums
from sktem.boltzmann.machines.layer_sums import free_sums, row_sums
from sktem.boltzmann.machines.model import BoltzmannModel, Moments, draw_seed, entropy
from sktem.graphs import Graph, layered_graph
from sktem.kernels.blocks import iterate_blocks, reduce_blocks

__all__ = ["LayeredMachine"]


class LayeredMachine(BoltzmannModel):
    """Layers of units, each fully joined to the next; the first one is visible.

    Parameters
    ----------
    sizes : sequence of int
        Units per layer, the visible one first.
    gaussian : bool or int, default=False
        Whether the visible units are real-valued, or how many of them, the first ones.
    n_jobs : int or None, default=None
        Threads.
    variance_floor : float, default=0.01
        Least variance of a Gaussian unit given the hidden ones.
    eliminates : bool, default=True
        Whether the hidden units of a narrow deep machine may be summed out, by compiled
        loops that work on NumPy arrays only.
    groups : sequence of int, default=()
        Sizes of groups of visible units of which one is 1, see `LayerLayout`.

    Attributes
    ----------
    layout : LayerLayout
        Where units and parameters are.
    dynamics : LayerDynamics
        Fields, draws and means.
    least_precision : float
        Least precision of a Gaussian unit, in units of what it started from.
    """

    dtype = np.dtype(np.float32)
    least_precision = 0.25

    def __init__(
        self,
        sizes,
        gaussian=False,
        n_jobs=None,
        variance_floor=0.01,
        eliminates=True,
        groups=(),
    ):
        self.layout = layout = LayerLayout(sizes, gaussian, groups)
        self.dynamics = LayerDynamics(layout)
        self.n_jobs = n_jobs
        self.variance_floor = variance_floor
        self.sizes, self.gaussian = layout.sizes, layout.gaussian
        self.n_visible, self.n_hidden = layout.n_visible, layout.n_hidden
        self.visible = np.arange(self.n_visible)
        self.is_pairwise = not layout.groups and layout.n_normal in (0, self.n_visible)
        self.n_parameters, self.weights_from = layout.n_parameters, layout.weights_from
        self.largest_degree = layout.largest_degree
        self.weighs_rows = len(self.sizes) == 2
        self.plan = self._find_plan() if eliminates else None

    def _find_plan(self) -> EliminationPlan | None:
        # Two layers that are fully joined have the treewidth of the smaller one.
        widths = [
            min(pair) for pair in zip(self.sizes[1:], self.sizes[2:], strict=False)
        ]
        if not widths or max(widths) > self.limits.posterior_width:
            return None
        return posterior_plan(Graph(layered_graph(self.sizes[1:])), self.limits)

    def __sklearn_array_api_convert__(self, converter):
        """Return the machine for arrays that a converter has moved."""
        moved = copy.copy(self)
        numpy = arrays_of(converter(np.zeros(1))).is_numpy
        moved.plan = self._find_plan() if numpy else None
        return moved

    @property
    def has_exact_posterior(self) -> bool:
        """Whether the hidden units can be summed out at little cost."""
        return len(self.sizes) == 2 or self.plan is not None

    def initial_params(self, logits, rng, size=0.5) -> np.ndarray:
        """Return visible biases at the base rates and small weights."""
        start = np.zeros(self.n_parameters, self.dtype)
        for lower in range(len(self.sizes) - 1):
            a, b = self.sizes[lower], self.sizes[lower + 1]
            scale = size / np.sqrt(max(a, b))
            draws = scale * rng.standard_normal((a, b))
            self.layout.weights_between(start, lower)[:] = draws
        if self.gaussian:
            self.layout.precisions(start)[:] = 1.0
        arrays = arrays_of(logits)
        xp, params = arrays.xp, arrays.asarray(start)
        weights = self.layout.weights_between(params, 0)
        biases = arrays.astype(logits, xp.float32) - 0.5 * xp.sum(weights, axis=1)
        self.layout.even_biases(params)[: self.n_visible] = biases
        return params

    def biases_by_unit(self, params):
        """Return the biases of each layer."""
        copy, layers = arrays_of(params).copy, range(len(self.sizes))
        return [copy(self.layout.layer_biases(params, k)) for k in layers]

    def weights_by_unit(self, params):
        """Return the weights between each layer and the next, (lower, upper)."""
        copy, layers = arrays_of(params).copy, range(len(self.sizes) - 1)
        return [copy(self.layout.weights_between(params, k)) for k in layers]

    def project(self, params) -> int:
        """Bring parameters back into bounds, in place.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.

        Returns
        -------
        int
            How many were out of bounds or not finite; precisions do not count.
        """
        repaired = super().project(params)
        if self.gaussian:
            precisions, xp = self.layout.precisions(params), arrays_of(params).xp
            precisions[:] = xp.clip(
                precisions, self.least_precision, 1 / self.variance_floor
            )
        return repaired

    def bound_precisions(self, low, high) -> None:
        """Bring bounds of parameters within those of the precisions."""
        if self.gaussian:
            self.layout.precisions(low)[:] = self.least_precision
            self.layout.precisions(high)[:] = 1 / self.variance_floor

    # Chains.

    def new_chains(self, n, rng, like=None):
        """Return chains of fair coins, (n, n_odd)."""
        coins = (rng.random((n, self.layout.n_odd)) < 0.5).astype(np.float32)
        return coins if like is None else arrays_of(like).asarray(coins)

    def statistics_of(self, units, pairs):
        """Return mean statistics from means of units and of products along edges."""
        return self.layout.values_of(units, pairs)

    def chains_of(self, units):
        """Return chains from states of the binary units, layer by layer."""
        first = self.layout.n_normal
        padded = np.concatenate([np.zeros((first, units.shape[1]), units.dtype), units])
        _, odd = self.layout.to_even_odd(
            padded[: self.n_visible].T, padded[self.n_visible :].T
        )
        return np.ascontiguousarray(odd)

    def pack(self, chains):
        """Return chains as bits, one row of bytes per chain."""
        return operations_of(chains).pack(chains)

    def unpack(self, packed):
        """Return the chains that `pack` has packed."""
        return operations_of(packed).unpack(packed, self.layout.n_odd)

    # Expectations under the posterior and under the model.

    def gibbs(
        self, params, chains, n_sweeps, seed, X=None, observed=None, rao_blackwell=True
    ) -> Moments:
        """Move chains and return the mean of phi, by blocks of rows."""
        operations, n = operations_of(params), chains.shape[0]
        new = operations.empty((n, self.layout.n_odd), operations.xp.float32)

        def block(start, stop):
            part = slice(start, stop)
            draws = operations.draws(seed, start)
            of_chains, *data = (_taken(x, part) for x in (chains, X, observed))
            even, means = self.dynamics.transitions(
                params, of_chains, n_sweeps, draws, *data
            )
            new[part, ...] = draws.from_means(means)
            if rao_blackwell is None:
                return (0.0,)
            odd = means if rao_blackwell else new[part, ...]
            return (self.dynamics.mean_statistics(even, odd, n=n),)

        size = operations.rows_per_block
        (total,) = reduce_blocks(block, n, size, self._threads(operations))
        return Moments(total, new)

    def _threads(self, arrays):
        # Other namespaces have their own threads, or a device.
        return self.n_jobs if arrays.is_numpy else 1

    def mean_field(self, params, X, observed, n_iterations):
        """Return means of all units under mean field, or exactly for two layers.

        Parameters
        ----------
        params : array of shape (n_parameters,)
            Parameters.
        X : array of shape (n, n_visible)
            Visible values.
        observed : array of bool of shape (n, n_visible) or None
            What is observed.
        n_iterations : int
            Sweeps over the layers.

        Returns
        -------
        even, odd : array
            Means.
        """
        operations, n = operations_of(params), X.shape[0]
        params = operations.astype(params, X.dtype)
        if n <= operations.rows_per_block:
            return self.dynamics.mean_field(params, X, observed, n_iterations)

        def block(start, stop):
            rows, is_observed = (_taken(x, slice(start, stop)) for x in (X, observed))
            return self.dynamics.mean_field(params, rows, is_observed, n_iterations)

        size, threads = operations.rows_per_block, self._threads(operations)
        results = iterate_blocks(block, n, size, threads)
        return tuple(map(operations.concat, zip(*results, strict=True)))

    def posterior_mean_field(self, params, X, observed, n_iterations) -> Moments:
        """Return the mean of phi under mean field."""
        even, odd = self.mean_field(params, X, observed, n_iterations)
        squares, n = None, self.layout.n_normal
        if self.gaussian and observed is not None:
            arrays, squares = arrays_of(params), even[:, :n] ** 2
            precisions = arrays.astype(self.layout.precisions(params), squares.dtype)
            squares += arrays.astype(~observed[:, :n], squares.dtype) / precisions
        return Moments(self.dynamics.mean_statistics(even, odd, squares), means=odd)

    def posterior_exact(self, params, X) -> Moments:
        """Return the exact mean of phi given X."""
        if len(self.sizes) == 2:
            even, odd = self.mean_field(params, X, None, 1)
            return Moments(self.dynamics.mean_statistics(even, odd), means=odd)
        fields, weights = self._hidden_problem(params, X)
        _, means, pairs = self.plan.marginals(fields, weights, self.n_jobs)
        even, odd = self.layout.to_even_odd(X, means.T)
        values = self.dynamics.mean_statistics(even, odd)
        begin = 0
        for lower in range(1, len(self.sizes) - 1):
            a, b = self.sizes[lower], self.sizes[lower + 1]
            block = pairs[begin : begin + a * b].reshape(a, b)
            self.layout.weights_between(values, lower)[:] = block / len(X)
            begin += a * b
        return Moments(values, means=odd)

    def free_exact(self, params) -> tuple[float, np.ndarray]:
        """Return log Z and the exact mean of phi, over the states of one side."""
        return free_sums(self.dynamics, params)

    def rows_exact(self, params, X, shares=None) -> tuple[float, np.ndarray]:
        """Return means over rows of `log_unnormalised` and of phi given them."""
        if not self.weighs_rows:
            return super().rows_exact(params, X)
        return row_sums(self.dynamics, params, X, shares)

    def exact_cost(self, n_rows) -> float:
        """Return the approximate cost of the exact likelihood and gradient in ns."""
        width = self.layout.n_odd
        if not self.layout.visible_blocks:
            width = min(width, self.layout.n_even)
        if width > self.limits.gradient_units:
            return np.inf
        states = n_rows + 2.0**width
        per_row = 0 if self.plan is None else 60 * self.plan.n_entries
        return (
            states * (self.n_parameters + 20 * self.layout.n_units) + n_rows * per_row
        )

    @property
    def elimination_bounds(self) -> tuple[int, float]:
        """Width of the narrowest plan of all units, and its steps."""
        if self.gaussian:
            # Integrated out, the visible units join all units of the first layer.
            return self.sizes[1] - 1, 1.0
        pairs = zip(self.sizes, self.sizes[1:], strict=False)
        return max((min(pair), float(max(pair))) for pair in pairs)

    def _hidden_problem(self, params, X):
        """Return fields of the hidden units given X, and the weights between them."""
        layout = self.layout
        first = X @ layout.weights_between(params, 0) + layout.layer_biases(params, 1)
        others = [layout.layer_biases(params, k) for k in range(2, len(self.sizes))]
        upper = np.concatenate(others).astype(np.float64)
        below = np.broadcast_to(upper, (len(X), len(upper)))
        fields = np.concatenate([first, below], axis=1).T
        return fields, layout.edge_weights(params, 1)

    def independent(self, params):
        """Return biases with neighbours on half the time, and no weights."""
        return self.dynamics.independent(params)

    def fields(self, params):
        """Return logits of binary units where neighbours are at their centres."""
        fields, centre = super().fields(params)
        fields[self.layout.n_units :] = 0.0
        for block in self.layout.visible_blocks:
            fields[block.columns] = 0.0
            centre[block.columns] = arrays_of(params).asarray(block.start, params.dtype)
        return fields, centre

    def log_densities(self, params, chains, X=None, observed=None):
        """Return the log of the unnormalised probability of each chain."""
        return self.dynamics.log_densities(params, chains, X, observed)

    def centre_weights(self, gradient, centre) -> None:
        """Turn a gradient into that along the parameters of centred units."""
        self.dynamics.centre_weights(gradient, centre)

    def centre_biases(self, step, centre) -> None:
        """Turn a step of the parameters of centred units into one of theta."""
        self.dynamics.centre_biases(step, centre)

    def hidden_means(self, params, X, n_iterations, observed=None) -> np.ndarray:
        """Return posterior marginals, exact where possible, else mean field."""
        if self.plan is not None and observed is None:
            fields, weights = self._hidden_problem(params, X)
            return self.plan.marginals(fields, weights, self.n_jobs)[1].T
        exact = len(self.sizes) == 2 and observed is None
        steps = 1 if exact else n_iterations
        return self.layout.hidden_of(*self.mean_field(params, X, observed, steps))

    def visible_sweep(self, params, chains, seed):
        """Return the chains: visible units are drawn from them, see `visible_draws`."""
        return chains

    def visible_draws(self, params, X, observed, chains, seed):
        """Return draws of the visible units given chains, with X where observed."""
        operations = operations_of(params)
        even = self.dynamics.draw_even(params, chains, operations.draws(seed))
        drawn = even[:, : self.n_visible]
        return drawn if X is None else operations.xp.where(observed, X, drawn)

    def visible_means(self, params, X, observed, chains):
        """Return means of the visible units given chains, with X where observed."""
        fields = self.dynamics.even_fields(params, chains)
        means = self.dynamics.even_means(params, fields)[:, : self.n_visible]
        return arrays_of(params).xp.where(observed, X, means)

    def fill(self, params, X, observed, means, rng):
        """Draw values that are not observed from mean field."""
        arrays = arrays_of(params)
        means = arrays.astype(means, arrays.xp.float32)
        drawn = self.visible_draws(params, None, None, means, draw_seed(rng))
        drawn = arrays.xp.where(observed, X, arrays.astype(drawn, X.dtype))
        # Hidden units at their means, of which those of the other side are summed out.
        given = self.log_densities(params, means, drawn, ~observed)
        return drawn, given - self.log_densities(params, means)

    def log_unnormalised(self, params, X) -> np.ndarray:
        """Return the log of the sum of ``exp <theta, phi(v, h)>`` over h."""
        out = self.dynamics.visible_part(params, X)
        if self.plan is not None:
            fields, weights = self._hidden_problem(params, X)
            return out + self.plan.log_sums(fields, weights, self.n_jobs)
        params = arrays_of(params).astype(params, X.dtype)
        fields = X @ self.layout.weights_between(params, 0)
        return out + softplus_sums(fields + self.layout.odd_biases(params))

    def variational_bound(self, params, X, n_iterations, observed=None) -> np.ndarray:
        """Return the mean-field lower bound of `log_unnormalised`."""
        layout, n = self.layout, self.n_visible
        even, odd = self.mean_field(params, X, observed, n_iterations)
        arrays = arrays_of(params)
        wide = arrays.xp.float64
        even, odd, params = (arrays.astype(x, wide) for x in (even, odd, params))
        visible, hidden = even[:, :n], even[:, n:]
        potential = self.dynamics.odd_fields(params, even) + layout.odd_biases(params)
        out = arrays.row_dots(potential, odd) + self.dynamics.visible_part(
            params, visible
        )
        out += hidden @ layout.even_biases(params)[n:]
        out += entropy(arrays.concat([hidden, odd], axis=1).T)
        if observed is None:
            return out
        # What is observed has no entropy.
        unseen = arrays.astype(~observed, wide)
        for block in layout.visible_blocks:
            out += block.entropies(params, visible, unseen)
        first = layout.first_binary
        return out + entropy((unseen[:, first:] * visible[:, first:]).T)

    def as_graph(self, params):
        """Return graph, biases, weights and a constant whose sum over states is Z."""
        return self.layout.as_graph(params)


def _taken(values, rows):
    """Return some rows of an array, or None."""
    return None if values is None else values[rows, ...]
