"""Exact sums over the states of binary units on a graph of small treewidth.

The units are eliminated in an order that keeps the tables small. Where the graph falls
into components, the tables do as well.
"""

from __future__ import annotations

from functools import cached_property
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from sktem.boltzmann.kernels.elimination import draw_exactly, eliminate, marginalise
from sktem.graphs import Graph
from sktem.kernels.blocks import iterate_blocks

__all__ = ["EliminationPlan", "SumLimits", "plan_elimination", "posterior_plan"]


class SumLimits(NamedTuple):
    """Limits to the cost of exact sums over states.

    Attributes
    ----------
    posterior_width, entries_per_unit : int
        Largest separator of the sums over the hidden units given the visible ones, and
        table entries per hidden unit: about what 100 sweeps of Gibbs sampling cost.
    gradient_width, gradient_parameters : int
        Largest separator of the sums over all units of a graph for exact gradients, and
        most parameters of a machine for which they are looked for.
    gradient_units : int
        Most units of one side of layers whose states are enumerated for them.
    odd_units : int
        Most units of the odd layers whose states are enumerated.
    per_parameter, per_unit : float
        Operations of such a state for each parameter, and for each unit.
    products : int
        Products of rows and such states at a time.
    width : int
        Largest separator of log Z, whose table is still moderate in memory.
    per_entry : float
        The least operations of a table entry.
    drawn_entries, given_entries : float
        Table entries from which exact draws are made, at most: about a second; and of
        draws and means of rows given a part of them, those of all rows.
    """

    posterior_width: int = 12
    entries_per_unit: int = 100
    gradient_width: int = 17
    gradient_parameters: int = 2000
    gradient_units: int = 16
    odd_units: int = 20
    per_parameter: float = 0.3
    per_unit: float = 5.0
    products: int = 1 << 22
    width: int = 22
    per_entry: float = 4.0
    drawn_entries: float = 2.0**22
    given_entries: float = 2.0**25


class EliminationPlan:
    """An order of elimination and the tables that it leads to.

    Parameters
    ----------
    graph : Graph
        The graph of the units that are summed out.
    order : ndarray of int of shape (n_units,)
        Units, first eliminated first.
    separators : list of list of int
        For each step the units (not steps) that remain joined to the eliminated one.

    Attributes
    ----------
    width : int
        Units of the largest separator: the treewidth of the order.
    n_entries : int
        Table entries in all.
    rows_at_once, entries_at_once : int
        Rows whose tables are worked on at a time, and table entries of all of them.
    """

    rows_at_once = 64
    entries_at_once = 2**22

    def __init__(self, graph: Graph, order, separators):
        n = len(order)
        step_of = np.empty(n, np.int64)
        step_of[order] = np.arange(n)
        members = [sorted(step_of[unit] for unit in units) for units in separators]
        sizes = np.array([len(m) for m in members], np.int64)
        self.graph = graph
        self.order = np.asarray(order, np.int64)
        self.width = int(sizes.max(initial=0))
        self.n_entries = int((2.0**sizes).sum())
        self.members = members
        self.starts = np.concatenate([[0], np.cumsum(sizes)])
        self.parents = np.array([m[0] if m else -1 for m in members], np.int64)
        self._edges(step_of)

    def _edges(self, step_of):
        """Find, for the edges, the step that takes them up and their place there."""
        a, b = step_of[self.graph.first], step_of[self.graph.second]
        step, other = np.minimum(a, b), np.maximum(a, b)
        by_step = np.argsort(step, kind="stable")
        self.edge_numbers = by_step
        self.edge_starts = np.searchsorted(
            step[by_step], np.arange(len(self.order) + 1)
        )
        self.edge_places = np.array(
            [1 + self.members[step[e]].index(other[e]) for e in by_step], np.int64
        )

    @property
    def n_operations(self) -> float:
        """Operations of `log_sum` on table entries, about 3 ns each."""
        sizes = 2.0 ** np.diff(self.starts)
        edges = np.diff(self.edge_starts)
        children = np.bincount(self.parents[self.parents >= 0], minlength=len(sizes))
        return float(sizes @ (4.0 + 0.5 * edges + 2.0 * children))

    @cached_property
    def _tables(self):
        """Return the arrays of the kernels that grow with the tables."""
        sizes = np.diff(self.starts)
        offsets = np.concatenate([[0], np.cumsum(2**sizes)])
        places = np.zeros(self.starts[-1], np.int64)
        for step, members in enumerate(self.members):
            if members:
                parent = members[0]
                place = {parent: 0}
                place.update({m: 1 + j for j, m in enumerate(self.members[parent])})
                begin = self.starts[step]
                places[begin : begin + len(members)] = [place[m] for m in members]
        inner = np.flatnonzero(self.parents >= 0)
        children = inner[np.argsort(self.parents[inner], kind="stable")]
        child_starts = np.searchsorted(
            self.parents[children], np.arange(len(self.order) + 1)
        )
        return offsets, places, children, child_starts

    def _run(self, fields, weights, n_jobs, use=None):
        """Eliminate all rows, and hand the conditional probabilities on to `use`."""
        offsets, places, children, child_starts = self._tables
        fields = np.ascontiguousarray(fields, dtype=np.float64)
        edge_weights = np.asarray(weights, np.float64)[self.edge_numbers]
        log_sum = np.zeros(fields.shape[1])

        def block(start, stop):
            log_sum[start:stop], on = eliminate(
                fields, self.order, self.starts, places, offsets, children,
                child_starts, self.edge_starts, self.edge_places, edge_weights,
                start, stop,
            )  # fmt: skip
            if use is None:
                return None
            return use(on, offsets, places, children, child_starts, start)

        # As many rows at a time as have tables of a moderate size.
        n_rows = self.entries_at_once // max(self.n_entries, 1)
        size = int(np.clip(n_rows, 1, self.rows_at_once))
        results = list(iterate_blocks(block, fields.shape[1], size, n_jobs))
        return log_sum, results

    def log_sums(self, fields, weights, n_jobs=None):
        """Return the logarithm of the sum over all states, for each row.

        Parameters
        ----------
        fields : ndarray of shape (n_units, n_rows)
            The bias of each unit in each row.
        weights : ndarray of shape (n_edges,)
            Weights of the edges of the graph.
        n_jobs : int or None, default=None
            Threads.

        Returns
        -------
        ndarray of shape (n_rows,)
            The sums.
        """
        return self._run(fields, weights, n_jobs)[0]

    def marginals(self, fields, weights, n_jobs=None):
        """Return means of units and of products.

        Parameters
        ----------
        fields : ndarray of shape (n_units, n_rows)
            The bias of each unit in each row.
        weights : ndarray of shape (n_edges,)
            Weights of the edges of the graph.
        n_jobs : int or None, default=None
            Threads.

        Returns
        -------
        log_sums : ndarray of shape (n_rows,)
            As `log_sums` returns.
        means : ndarray of shape (n_units, n_rows)
            The probability of 1 of each unit in each row.
        pairs : ndarray of shape (n_edges,)
            The probability that both ends of an edge are 1, summed over rows.
        """
        means = np.empty(np.shape(fields))

        def use(on, offsets, places, children, child_starts, start):
            pairs = np.zeros(self.graph.n_edges)
            marginalise(
                on, self.order, self.starts, places, offsets, children, child_starts,
                self.edge_starts, self.edge_places, self.edge_numbers, means, pairs,
                start,
            )  # fmt: skip
            return pairs

        log_sums, pairs = self._run(fields, weights, n_jobs, use)
        return log_sums, means, np.sum(pairs, axis=0)

    def draw(self, fields, weights, rng, n_draws=None):
        """Return exact and independent draws.

        Parameters
        ----------
        fields : ndarray of shape (n_units, n_rows)
            The bias of each unit in each row.
        weights : ndarray of shape (n_edges,)
            Weights of the edges of the graph.
        rng : numpy.random.Generator
            Source of randomness.
        n_draws : int or None, default=None
            Draws of the only row of `fields`; None means one draw of each row.

        Returns
        -------
        ndarray of float32 of shape (n_units, n_draws or n_rows)
            Zeros and ones.
        """
        n = np.shape(fields)[1] if n_draws is None else n_draws
        states = np.zeros((len(self.order), n), np.float32)
        uniforms = rng.random(states.shape)
        separators = np.array([m for step in self.members for m in step], np.int64)

        def use(on, offsets, places, children, child_starts, start):
            stop = start + on.shape[1] if n_draws is None else n
            draw_exactly(
                on, self.order, self.starts, separators, offsets, uniforms, states,
                start, stop,
            )  # fmt: skip

        self._run(fields, weights, None, use)
        return states

    def log_sum(self, field, weights):
        """Return the logarithm of the sum over all states, for large tables.

        The same as `log_sums` for one row, by whole-array operations.

        Parameters
        ----------
        field : ndarray of shape (n_units,)
            The bias of each unit.
        weights : ndarray of shape (n_edges,)
            Weights of the edges of the graph.

        Returns
        -------
        float
            The sum.
        """
        waiting: dict[int, list] = {}
        total = 0.0
        for step, members in enumerate(self.members):
            up = np.full((2,) * len(members), float(field[self.order[step]]))
            for e in range(self.edge_starts[step], self.edge_starts[step + 1]):
                chosen = [slice(None)] * len(members)
                chosen[self.edge_places[e] - 1] = slice(1, 2)
                up[tuple(chosen)] += weights[self.edge_numbers[e]]
            passed = 0.0
            for child_members, table in waiting.pop(step, []):
                inside = set(child_members[1:])
                shape = [2 if m in inside else 1 for m in members]
                off, on = table[0].reshape(shape), table[1].reshape(shape)
                passed = passed + off
                up += on - off
            message = np.logaddexp(0.0, up)
            message += passed
            if members:
                waiting.setdefault(members[0], []).append((members, message))
            else:
                total += float(message)
        return total


def plan_elimination(
    graph: Graph, max_width: int = 24, max_entries: float = np.inf
) -> EliminationPlan | None:
    """Return a plan with small tables, None where none was found.

    Of the orders by least fill-in and by number, the one with fewer table entries.

    Parameters
    ----------
    graph : Graph
        The graph of the units that are to be summed out.
    max_width : int, default=24
        The largest separator allowed.
    max_entries : float, default=inf
        Table entries allowed in all.

    Returns
    -------
    EliminationPlan or None
        The plan.
    """
    plans = []
    for rule in (_least_fill, _by_number):
        order = _order(graph, max_width, max_entries, rule)
        if order is not None:
            plans.append(EliminationPlan(graph, *order))
    return min(plans, key=lambda plan: plan.n_entries) if plans else None


def posterior_plan(graph, limits) -> EliminationPlan | None:
    """Return a plan for the hidden units given the visible ones, None if it is costly.

    Parameters
    ----------
    graph : Graph
        The graph between the hidden units.
    limits : SumLimits
        What the sums may cost.

    Returns
    -------
    EliminationPlan or None
        The plan.
    """
    plan = plan_elimination(graph, limits.posterior_width)
    if plan is None or plan.n_entries > limits.entries_per_unit * graph.n_units:
        return None
    return plan


def _order(graph, max_width, max_entries, rule):
    """Return an order and its separators, None if they are too large."""
    joined: list[set[int]] = [set() for _ in range(graph.n_units)]
    for a, b in zip(graph.first.tolist(), graph.second.tolist(), strict=True):
        joined[a].add(b)
        joined[b].add(a)
    choose = rule(joined, max_width)
    order, separators = [], []
    n_entries = 0.0
    for _ in range(graph.n_units):
        unit = choose()
        around = joined[unit]
        n_entries += 2.0 ** len(around)
        if len(around) > max_width or n_entries > max_entries:
            return None
        for other in around:
            joined[other] |= around
            joined[other] -= {other, unit}
        order.append(unit)
        separators.append(list(around))
    return np.array(order, np.int64), separators


def _by_number(joined, max_width):
    units = iter(range(len(joined)))
    return lambda: next(units)


def _least_fill(joined, max_width):
    """Choose the unit whose elimination adds fewest edges, then of least degree."""
    scores: dict[int, tuple[int, int, int]] = {}
    # Entries that are no longer the score of their unit are passed over.
    heap: list[tuple[int, int, int]] = []
    stale = set(range(len(joined)))

    def score(unit):
        around = joined[unit]
        if len(around) > max_width:
            # Too wide now: only their number matters, counting pairs would be slow.
            return (len(joined) ** 2, len(around), unit)
        # Each missing pair is seen from both of its ends.
        missing = sum(len(around) - 1 - len(joined[v] & around) for v in around)
        return (missing, len(around), unit)

    def choose():
        for unit in stale:
            scores[unit] = score(unit)
            heappush(heap, scores[unit])
        stale.clear()
        entry = heappop(heap)
        while scores.get(entry[2]) != entry:
            entry = heappop(heap)
        unit = entry[2]
        del scores[unit]
        # What the elimination may change: neighbours and their neighbours.
        stale.update(joined[unit])
        if len(joined[unit]) <= max_width:
            stale.update(*(joined[near] for near in joined[unit]))
        stale.discard(unit)
        return unit

    return choose
