"""Observations against the predictions of a mixed-effects fit."""

from __future__ import annotations

import numpy as np

from sktem.mixed_effects.checks.rows import check_rows
from sktem.plotting.panels import load_pyplot, make_panels

__all__ = ["PredictionDisplay"]

SIZE = (3.2, 3.2)


class PredictionDisplay:
    """Observations against population and individual predictions.

    Create it with :meth:`from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    observed : ndarray of shape (n_rows,)
        Observations.
    population : ndarray of shape (n_rows,)
        Predictions with random effects of zero.
    individual : ndarray of shape (n_rows,) or None, default=None
        Predictions with the modes of the random effects; None omits the panel.

    Attributes
    ----------
    axes_ : ndarray of Axes
        One panel for each kind of prediction.
    figure_ : Figure
        The figure that contains the panels.
    scatters_ : list of PathCollection
        The points.
    lines_ : list of Line2D
        Lines of equality.

    See Also
    --------
    ResidualDisplay : Differences in units of their standard deviation.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import NonlinearMixedEffectsRegressor
    >>> from sktem.plotting import PredictionDisplay
    >>> rng = np.random.default_rng(0)
    >>> groups, X = np.repeat(np.arange(30), 5), np.tile(np.arange(5.0), 30)[:, None]
    >>> y = X[:, 0] + rng.normal(size=30)[groups] + 0.3 * rng.normal(size=150)
    >>> line = NonlinearMixedEffectsRegressor(
    ...     "linear", parameters={"intercept": 0.5, "slope": 0.5}, transforms="normal",
    ...     omega=["intercept"], random_state=0
    ... ).fit(X, y, groups=groups)
    >>> PredictionDisplay.from_estimator(line, X, y, groups).axes_.shape
    (2,)
    """

    def __init__(self, observed, population, individual=None):
        self.observed = observed
        self.population = population
        self.individual = individual

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y=None,
        groups=None,
        *,
        events=None,
        kind=None,
        ax=None,
        scatter_kwargs=None,
        line_kwargs=None,
    ):
        """Predict and draw.

        Parameters
        ----------
        estimator : NonlinearMixedEffectsRegressor
            A fitted estimator with a model function.
        X : array-like of shape (n_rows, n_features) or Records
            Inputs and covariates, or records with their observations.
        y : array-like of shape (n_rows,) or None, default=None
            Observations; rows where it is NaN are left out. None with records.
        groups : array-like of shape (n_rows,) or None, default=None
            Subjects, all of them seen in ``fit``; None only for a model without random
            effects.
        events : Doses, data frame, dict or None, default=None
            Doses of the subjects, as in ``fit``.
        kind : int, list of int or None, default=None
            CMT of the observations to show; a list for several that are measured on the
            same scale. None means all, if there is only one besides events and ordinal
            scores, whose predictions are not means.
        ax : Axes, array-like of Axes or None, default=None
            Where to draw, see :meth:`plot`.
        scatter_kwargs, line_kwargs : dict or None, default=None
            Keyword arguments for ``Axes.scatter`` and ``Axes.axline``.

        Returns
        -------
        PredictionDisplay
            The display, drawn.
        """
        rows = check_rows(estimator, X, y, groups, events, known=True)
        rows = rows.means_of_kind(kind)
        individual = None
        if estimator.random_effects_:
            individual = rows.predicted(individual=True)
        display = cls(rows.y, rows.predicted(), individual)
        return display.plot(
            ax=ax, scatter_kwargs=scatter_kwargs, line_kwargs=line_kwargs
        )

    def plot(self, *, ax=None, scatter_kwargs=None, line_kwargs=None):
        """Draw a panel for each kind of prediction.

        Parameters
        ----------
        ax : Axes, array-like of Axes or None, default=None
            None creates a figure. A single Axes is replaced by the panels. An array
            must hold one Axes per panel.
        scatter_kwargs, line_kwargs : dict or None, default=None
            Keyword arguments for ``Axes.scatter`` and ``Axes.axline``.

        Returns
        -------
        PredictionDisplay
            The display.
        """
        pyplot = load_pyplot("PredictionDisplay.plot")
        shown = {"population prediction": self.population}
        if self.individual is not None:
            shown["individual prediction"] = self.individual
        axes = make_panels(pyplot, ax, (1, len(shown)), SIZE, len(shown))
        everything = np.concatenate([self.observed, *shown.values()])
        low, high = everything.min(), everything.max()
        margin = 0.04 * (high - low) or 1.0
        limits = low - margin, high + margin
        points = {"s": 12, "alpha": 0.6} | (scatter_kwargs or {})
        equal = {"color": "0.4", "linewidth": 1} | (line_kwargs or {})
        self.scatters_, self.lines_ = [], []
        for panel, (name, values) in zip(axes, shown.items(), strict=True):
            self.scatters_.append(panel.scatter(values, self.observed, **points))
            self.lines_.append(panel.axline((low, low), slope=1, **equal))
            panel.set(xlabel=name, xlim=limits, ylim=limits)
        axes[0].set_ylabel("observation")
        self.axes_, self.figure_ = axes, axes[0].figure
        return self
