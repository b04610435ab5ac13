"""Exact log Z of a machine, where it costs little enough."""

from __future__ import annotations

from sktem.boltzmann.arrays import arrays_of
from sktem.boltzmann.elimination import plan_elimination

__all__ = ["ExactPartition"]

#: The largest separator whose table is still moderate in memory.
LARGEST_WIDTH = 22
#: A table entry takes at least so many operations.
PER_ENTRY = 4.0


class ExactPartition:
    """Sums over all states of a machine by elimination, if they are cheap.

    The order of elimination is looked for once; it depends on the graph alone.

    Parameters
    ----------
    model : BoltzmannModel
        The machine.
    n_operations : float, default=inf
        Operations on table entries that a sum may cost, about 3 ns each.
    """

    def __init__(self, model, n_operations=float("inf")):
        self.model = model
        self.n_operations = n_operations
        self.plan = None
        self.looked = False

    def value(self, params):
        """Return log Z, None where it would cost too much.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.

        Returns
        -------
        float or None
            The sum.
        """
        if not arrays_of(params).is_numpy or self._too_wide():
            return None
        graph, biases, weights, constant = self.model.as_graph(params)
        if not self.looked:
            self.plan = self._find(graph)
            self.looked = True
        if self.plan is None:
            return None
        return self.plan.log_sum(biases, weights) + constant

    def _find(self, graph):
        limit = self.n_operations
        plan = plan_elimination(graph, LARGEST_WIDTH, limit / PER_ENTRY)
        return None if plan is None or plan.n_operations > limit else plan

    def _too_wide(self):
        """Return whether layers are too wide, without looking for a plan."""
        sizes = getattr(self.model, "sizes", None)
        if sizes is None:
            return False
        if self.model.gaussian:
            # Integrated out, the visible units join all units of the first layer.
            width, steps = sizes[1] - 1, 1.0
        else:
            pairs = zip(sizes, sizes[1:], strict=False)
            width, steps = max((min(pair), float(max(pair))) for pair in pairs)
        entries = steps * 2.0 ** min(width, 2 * LARGEST_WIDTH)
        return width > LARGEST_WIDTH or PER_ENTRY * entries > self.n_operations
