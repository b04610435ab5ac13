"""The path of the estimates of a mixed-effects fit."""

from __future__ import annotations

import numpy as np

from sktem.choices import check_names
from sktem.mixed_effects.checks.rows import fitted_of
from sktem.mixed_effects.run import ANNEALED, AVERAGED, FALLING
from sktem.mixed_effects.summary import estimates_by_name
from sktem.plotting.panels import load_pyplot, make_panels

__all__ = ["ParameterTraceDisplay"]

COLUMNS, SIZE = 4, (2.7, 2.1)

#: A path that spans more than this factor is drawn on a logarithmic scale.
LARGEST_RATIO = 8.0

#: How the marks of a phase look.
MARKS = {ANNEALED: ":", FALLING: "--", AVERAGED: "-"}


class ParameterTraceDisplay:
    """Estimates after each epoch, with the phases of the fit.

    Create it with :meth:`from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    traces : dict of ndarray
        Path of each parameter.
    estimates : dict of float or None, default=None
        Where the fit ended; None draws no line there.
    phases : list of (str, int) or None, default=None
        The events ("annealing ends", "steps fall", "average begins"), and the epochs
        after which they happen.
    name : str or None, default=None
        Name of the run in the legend.

    Attributes
    ----------
    axes_ : ndarray of Axes
        One panel for each parameter.
    figure_ : Figure
        The figure that contains the panels.
    lines_ : list of Line2D
        The paths.

    See Also
    --------
    HistoryDisplay : Steps and acceptance rates of the run.

    Notes
    -----
    Population values are on the natural scale. In the burn-in, where steps are 1,
    estimates fluctuate around the solution because of the noise of the draws. When
    steps have fallen they should settle, and those after the last mark are averaged. A
    path that still has a slope there has not converged.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import NonlinearMixedEffectsRegressor
    >>> from sktem.plotting import ParameterTraceDisplay
    >>> rng = np.random.default_rng(0)
    >>> groups, X = np.repeat(np.arange(30), 5), np.tile(np.arange(5.0), 30)[:, None]
    >>> y = X[:, 0] + rng.normal(size=30)[groups] + 0.3 * rng.normal(size=150)
    >>> line = NonlinearMixedEffectsRegressor(
    ...     "linear", parameters={"intercept": 0.5, "slope": 0.5}, transforms="normal",
    ...     omega=["intercept"], random_state=0
    ... ).fit(X, y, groups=groups)
    >>> display = ParameterTraceDisplay.from_estimator(line)
    >>> list(display.traces)
    ['intercept', 'slope', 'omega2_intercept', 'a']
    """

    def __init__(self, traces, *, estimates=None, phases=None, name=None):
        self.traces = traces
        self.estimates = estimates
        self.phases = phases
        self.name = name

    @classmethod
    def from_estimator(
        cls, estimator, *, parameters=None, name=None, ax=None, **kwargs
    ):
        """Draw the path of a fitted estimator.

        Parameters
        ----------
        estimator : NonlinearMixedEffectsRegressor
            An estimator after ``fit`` (``partial_fit`` keeps no path).
        parameters : list of str or None, default=None
            Names in ``trace_``; None means all.
        name : str or None, default=None
            Name of the run in the legend.
        ax : Axes, array-like of Axes or None, default=None
            Where to draw, see :meth:`plot`.
        **kwargs : dict
            Keyword arguments for ``Axes.plot``.

        Returns
        -------
        ParameterTraceDisplay
            The display, drawn.
        """
        fitted = fitted_of(estimator, "trace_")
        estimates = estimates_by_name(fitted)
        traces = {
            key: fitted.natural_scale(key)(path)
            for key, path in estimator.trace_.items()
        }
        # With steps of the user's only these are known.
        is_given = not isinstance(estimator.step_size, str)
        phases = [
            phase for phase in estimator.phases_ if not is_given or phase[0] == ANNEALED
        ]
        display = cls(traces, estimates=estimates, phases=phases, name=name)
        return display.plot(parameters, ax=ax, **kwargs)

    def plot(self, parameters=None, *, ax=None, **kwargs):
        """Draw one panel per parameter.

        Parameters
        ----------
        parameters : list of str or None, default=None
            Parameters to draw; None means all.
        ax : Axes, array-like of Axes or None, default=None
            None creates a figure. A single Axes is replaced by the panels. An array
            must hold one Axes per parameter; ``axes_`` of another display puts several
            runs into the same panels.
        **kwargs : dict
            Keyword arguments for ``Axes.plot``.

        Returns
        -------
        ParameterTraceDisplay
            The display.
        """
        pyplot = load_pyplot("ParameterTraceDisplay.plot")
        names = list(self.traces) if parameters is None else list(parameters)
        if not names:
            raise ValueError(f"parameters must be among {list(self.traces)}, got []")
        check_names("parameters", names, self.traces, "parameters")
        n_columns = min(len(names), COLUMNS)
        shape = -(-len(names) // n_columns), n_columns
        axes = make_panels(pyplot, ax, shape, SIZE, len(names))
        self.lines_ = []
        for panel, name in zip(axes, names, strict=True):
            path = self.traces[name]
            style = {"label": self.name, "linewidth": 1.2} | kwargs
            (line,) = panel.plot(np.arange(1, len(path) + 1), path, **style)
            colour = line.get_color()
            if self.estimates is not None and name in self.estimates:
                panel.axhline(
                    self.estimates[name], color=colour, linewidth=0.8, alpha=0.5
                )
            for what, epoch in self.phases or ():
                panel.axvline(
                    epoch, color=colour, linewidth=0.8, alpha=0.5, linestyle=MARKS[what]
                )
            panel.set_title(name, fontsize="medium")
            low, high = path.min(initial=np.inf), path.max(initial=0)
            # Variances fall from far above; on a linear scale the rest would be flat.
            if low > 0 and high > LARGEST_RATIO * low:
                panel.set_yscale("log")
            elif low <= 0:  # another run may have set it
                panel.set_yscale("linear")
            self.lines_.append(line)
        for panel in axes[n_columns * (shape[0] - 1) :]:
            panel.set_xlabel("epoch")
        self._legend(axes[0], axes[n_columns - 1])
        self.axes_, self.figure_ = axes, axes[0].figure
        return self

    def _legend(self, first, right):
        """Name the runs in the first panel, and marks next to the one on the right."""
        from matplotlib.lines import Line2D

        present = {what for what, _ in self.phases or ()}
        marks = [
            Line2D([], [], color="0.5", ls=style, label=what)
            for what, style in MARKS.items()
            if what in present
        ]
        if marks:
            # Not in the panel, since paths may be anywhere in it.
            right.legend(
                handles=marks, loc="upper left", bbox_to_anchor=(1, 1), fontsize="small"
            )
        if self.name is not None:
            if marks and first is right:
                first.add_artist(first.get_legend())
            first.legend(fontsize="small")
