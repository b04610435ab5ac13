"""One page of a fit: predictions, residuals and their distribution."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from sktem.mixed_effects.checks.rows import with_means
from sktem.mixed_effects.reports.tables import output_table
from sktem.plotting.panels import load_pyplot, make_panels

__all__ = ["GoodnessOfFitDisplay"]

SIZE = (3.4, 3.0)


class GoodnessOfFitDisplay:
    """Observations against predictions, and weighted residuals, on one page.

    Create it with :meth:`from_estimator`. The parameter is stored as an attribute.

    Parameters
    ----------
    table : DataFrame
        The table returned by :func:`sktem.evaluation.output_table`.

    Attributes
    ----------
    axes_ : ndarray of Axes of shape (4,)
        Observations against population and individual predictions, individual weighted
        residuals against time (or the individual prediction) and against normal
        quantiles.
    figure_ : Figure
        The figure that contains the panels.

    See Also
    --------
    VisualPredictiveCheckDisplay : Percentiles of simulated observations.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import NonlinearMixedEffectsRegressor
    >>> from sktem.plotting import GoodnessOfFitDisplay
    >>> rng = np.random.default_rng(0)
    >>> groups, X = np.repeat(np.arange(30), 5), np.tile(np.arange(5.0), 30)[:, None]
    >>> y = X[:, 0] + rng.normal(size=30)[groups] + 0.3 * rng.normal(size=150)
    >>> line = NonlinearMixedEffectsRegressor(
    ...     "linear", parameters={"intercept": 0.5, "slope": 0.5}, transforms="normal",
    ...     omega=["intercept"], random_state=0
    ... ).fit(X, y, groups=groups)
    >>> GoodnessOfFitDisplay.from_estimator(line).axes_.shape
    (4,)
    """

    def __init__(self, table):
        self.table = table

    @classmethod
    def from_estimator(cls, estimator, *, kind=None, ax=None, scatter_kwargs=None):
        """Tabulate the observations of a fit and draw them.

        Parameters
        ----------
        estimator : NonlinearMixedEffectsRegressor
            A fitted estimator with a residual error.
        kind : int, list of int or None, default=None
            CMT of the observations to show; a list for several that are measured on the
            same scale. None means all, if there is only one besides events and ordinal
            scores, whose predictions are not means.
        ax : Axes, array-like of Axes or None, default=None
            Where to draw, see :meth:`plot`.
        scatter_kwargs : dict or None, default=None
            Keyword arguments for ``Axes.scatter``.

        Returns
        -------
        GoodnessOfFitDisplay
            The display, drawn.
        """
        table = output_table(estimator)
        kinds, has_mean = estimator.fitted_.rows.kinds, table["RES"].notna().to_numpy()
        shown = table[with_means(kinds, has_mean, kind)]
        return cls(shown).plot(ax=ax, scatter_kwargs=scatter_kwargs)

    def plot(self, *, ax=None, scatter_kwargs=None):
        """Draw four panels.

        Parameters
        ----------
        ax : Axes, array-like of Axes or None, default=None
            None creates a figure. A single Axes is replaced by the panels. An array
            must hold four.
        scatter_kwargs : dict or None, default=None
            Keyword arguments for ``Axes.scatter``.

        Returns
        -------
        GoodnessOfFitDisplay
            The display.
        """
        pyplot = load_pyplot("GoodnessOfFitDisplay.plot")
        axes = make_panels(pyplot, ax, (2, 2), SIZE, 4)
        points = {"s": 10, "alpha": 0.6} | (scatter_kwargs or {})
        table, line = self.table, {"color": "0.4", "linewidth": 1}
        for panel, name, label in zip(
            axes[:2], ("PRED", "IPRED"), ("population", "individual"), strict=True
        ):
            panel.scatter(table[name], table["DV"], **points)
            panel.axline((0, 0), slope=1, **line)
            both = np.concatenate([table[name], table["DV"]])
            margin = 0.04 * np.ptp(both) or 1.0
            limits = both.min() - margin, both.max() + margin
            panel.set(xlabel=f"{label} prediction", ylabel="observation", xlim=limits,
                      ylim=limits)  # fmt: skip
        column = "TIME" if "TIME" in table else "IPRED"
        axes[2].scatter(table[column], table["IWRES"], **points)
        axes[2].axhline(0, **line)
        label = "time" if column == "TIME" else "individual prediction"
        axes[2].set(xlabel=label, ylabel="individual weighted residual")
        residuals = np.sort(table["IWRES"].dropna())
        shares = (np.arange(len(residuals)) + 0.5) / len(residuals)
        axes[3].scatter(ndtri(shares), residuals, **points)
        axes[3].axline((0, 0), slope=1, **line)
        axes[3].set(xlabel="normal quantile", ylabel="individual weighted residual")
        self.axes_, self.figure_ = axes, axes[0].figure
        return self
