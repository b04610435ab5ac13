"""The record of a run, as curves."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sktem.choices import check_choice
from sktem.plotting.panels import load_pyplot, make_panels

__all__ = ["HistoryDisplay"]

#: Entries of a history that measure effort rather than progress.
EFFORT = {
    "passes": "passes over the data",
    "n_iterations": "iterations",
    "cpu_time": "processor time in seconds",
}
NOT_DRAWN = {*EFFORT, "monitor_passes", "of_sample", "solver", "sampler"}
#: Entries that are measured on a sample of the rows, or on all.
MEASURED = ("objective", "mean_field")

TITLES = {
    "objective": "objective per row",
    "mean_field": "squared mean field",
    "gradient_norm": "norm of the gradient",
    "step_size": r"step $\gamma$",
    "acceptance_rate": "acceptance rate",
}


class HistoryDisplay:
    """Curves from the record of a run.

    Create it with :meth:`from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    history : History
        Record of a run.
    name : str or None, default=None
        Name of the run in the legend.

    Attributes
    ----------
    axes_ : ndarray of Axes
        One panel for each trace.
    figure_ : Figure
        The figure that contains the panels.

    See Also
    --------
    sktem.history.History : The meaning of the entries.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import StochasticEMGaussianMixture
    >>> from sktem.plotting import HistoryDisplay
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> mixture = StochasticEMGaussianMixture(2, random_state=0).fit(X)
    >>> display = HistoryDisplay.from_estimator(mixture)
    >>> display.traces
    ['objective', 'mean_field', 'step_size']
    """

    def __init__(self, history, *, name=None):
        self.history = history
        self.name = name

    @classmethod
    def from_estimator(
        cls, estimator, *, traces=None, x="passes", name=None, ax=None, **kwargs
    ):
        """Draw the record of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            An estimator with a ``history_``.
        traces : list of str or None, default=None
            Entries of the history, for example ``"objective"``; None means all that
            hold numbers.
        x : {"passes", "n_iterations", "cpu_time"}, default="passes"
            The quantity on the horizontal axis.
        name : str or None, default=None
            Name of the run in the legend; None draws no legend.
        ax : Axes, array-like of Axes or None, default=None
            Where to draw: see :meth:`plot`.
        **kwargs : dict
            Keyword arguments for ``Axes.plot``.

        Returns
        -------
        HistoryDisplay
            The display, drawn.
        """
        check_is_fitted(estimator, "history_")
        display = cls(estimator.history_, name=name)
        return display.plot(traces, x=x, ax=ax, **kwargs)

    @property
    def traces(self) -> list[str]:
        """Names of the entries that hold numbers, the objective first."""
        names = [entry.name for entry in fields(self.history)]
        traces = []
        for name in dict.fromkeys([*TITLES, *names]):
            values = getattr(self.history, name)
            if name in NOT_DRAWN or not isinstance(values, list):
                continue
            if np.isfinite(values).any():
                traces.append(name)
        return traces

    def plot(self, traces=None, *, x="passes", ax=None, **kwargs):
        """Draw one panel per trace.

        Parameters
        ----------
        traces : list of str or None, default=None
            Entries of the history; None means all that hold numbers.
        x : {"passes", "n_iterations", "cpu_time"}, default="passes"
            The quantity on the horizontal axis.
        ax : Axes, array-like of Axes or None, default=None
            None creates a figure. A single Axes is replaced by the panels. An array
            must hold one Axes per trace; ``axes_`` of another display puts two runs
            into the same panels.
        **kwargs : dict
            Keyword arguments for ``Axes.plot``.

        Returns
        -------
        HistoryDisplay
            The display.
        """
        pyplot = load_pyplot("HistoryDisplay.plot")
        check_choice("x", x, EFFORT)
        available = self.traces
        traces = available if traces is None else list(traces)
        missing = [trace for trace in traces if trace not in available]
        if missing or not traces:
            raise ValueError(
                f"the history holds no numbers for {missing or 'any trace'}; it holds "
                f"{available}"
            )
        axes = make_panels(pyplot, ax, (1, len(traces)), (3.2, 2.6), len(traces))
        at = np.asarray(getattr(self.history, x), dtype=float)
        for panel, trace in zip(axes, traces, strict=True):
            values = np.asarray(getattr(self.history, trace), dtype=float)
            is_finite = np.isfinite(values)
            style = {"marker": "."} if is_finite.sum() == 1 else {}
            drawn = np.stack([at[is_finite], values[is_finite]])
            if trace in MEASURED and self.history.of_sample:
                # No line from what a sample has shown to what all rows show.
                changes = np.diff(np.array(self.history.of_sample)[is_finite])
                drawn = np.insert(drawn, np.flatnonzero(changes) + 1, np.nan, axis=1)
            panel.plot(*drawn, label=self.name, **style | kwargs)
            panel.set(
                title=TITLES.get(trace, trace.replace("_", " ")), xlabel=EFFORT[x]
            )
            if trace == "mean_field":
                # An unbiased estimate of a square can be negative near convergence.
                drawn = np.concatenate([line.get_ydata() for line in panel.lines])
                panel.set_yscale("linear" if (drawn <= 0).any() else "log")
        if self.name is not None:
            axes[0].legend()
        self.axes_, self.figure_ = axes, axes[0].figure
        return self
