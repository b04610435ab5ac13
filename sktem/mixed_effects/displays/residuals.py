"""Residuals of a mixed-effects fit against time, predictions and normal quantiles."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

from sktem.choices import check_names
from sktem.mixed_effects.checks.predictive import bin_times
from sktem.mixed_effects.checks.residuals import compared_residuals, weighted_residuals
from sktem.mixed_effects.checks.rows import check_rows, time_column, time_name
from sktem.plotting.panels import load_pyplot, make_panels

__all__ = ["ResidualDisplay", "Residuals"]

SIZE = (3.0, 2.4)
NAMES = {"iwres": "IWRES", "pwres": "PWRES", "npde": "NPDE"}
#: Standard normal variables are between these with probability 95 %, as are order
#: statistics in the band of the quantile plot.
LIMITS = stats.norm.ppf([0.025, 0.975])


class Residuals(NamedTuple):
    """Residuals of one kind.

    Attributes
    ----------
    name : str
        Their names.
    values : ndarray of shape (n_rows,)
        Residuals.
    prediction : ndarray of shape (n_rows,)
        The horizontal coordinates.
    prediction_name : str
        Label of the horizontal axes.
    """

    name: str
    values: np.ndarray
    prediction: np.ndarray
    prediction_name: str


class ResidualDisplay:
    """Residuals against time and prediction, and their quantiles.

    Create it with :meth:`from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    time : ndarray of shape (n_rows,)
        Times.
    residuals : list of Residuals
        Residuals of one or several kinds.
    xlabel : str, default="time"
        Label of the times.

    Attributes
    ----------
    axes_ : ndarray of Axes of shape (n_kinds, 3)
        A row for each kind: against time, against the prediction, against quantiles of
        the standard normal distribution.
    figure_ : Figure
        The figure that contains the panels.
    scatters_ : list of PathCollection
        The points, row by row.
    lines_ : list of Line2D
        Medians of the points in bins, two for each row.

    See Also
    --------
    sktem.evaluation.individual_residuals : IWRES.
    sktem.evaluation.population_residuals : PWRES and NPDE.

    Notes
    -----
    Under the model, residuals have mean 0 and variance 1 everywhere: medians stay close
    to the solid line, and 95 % of the points are between the dashed lines. The band of
    the quantile plot contains each of as many independent normal variables with
    probability 95 %. IWRES are smaller than this if a subject has few observations,
    which its curve follows (shrinkage); NPDE are not.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import NonlinearMixedEffectsRegressor
    >>> from sktem.plotting import ResidualDisplay
    >>> rng = np.random.default_rng(0)
    >>> groups, X = np.repeat(np.arange(30), 5), np.tile(np.arange(5.0), 30)[:, None]
    >>> y = X[:, 0] + rng.normal(size=30)[groups] + 0.3 * rng.normal(size=150)
    >>> line = NonlinearMixedEffectsRegressor(
    ...     "linear", parameters={"intercept": 0.5, "slope": 0.5}, transforms="normal",
    ...     omega=["intercept"], random_state=0
    ... ).fit(X, y, groups=groups)
    >>> display = ResidualDisplay.from_estimator(line, X, y, groups, random_state=0)
    >>> display.axes_.shape
    (2, 3)
    """

    def __init__(self, time, residuals, *, xlabel="time"):
        self.time = time
        self.residuals = residuals
        self.xlabel = xlabel

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y=None,
        groups=None,
        *,
        events=None,
        kinds=("iwres", "npde"),
        kind=None,
        time=None,
        n_simulations=1000,
        random_state=None,
        ax=None,
        **kwargs,
    ):
        """Compute residuals and draw.

        Parameters
        ----------
        estimator : NonlinearMixedEffectsRegressor
            A fitted estimator with a residual error.
        X : array-like of shape (n_rows, n_features) or Records
            Inputs and covariates, or records with their observations.
        y : array-like of shape (n_rows,) or None, default=None
            Observations; rows where it is NaN are left out. None with records.
        groups : array-like of shape (n_rows,) or None, default=None
            Subjects, for "iwres" only those seen in ``fit``; None only for a model
            without random effects.
        events : Doses, data frame, dict or None, default=None
            Doses of the subjects, as in ``fit``.
        kinds : list of {"iwres", "pwres", "npde"}, default=("iwres", "npde")
            Individual weighted residuals, population weighted residuals, normalised
            prediction distribution errors.
        kind : int, list of int or None, default=None
            CMT of the observations to show; a list for several that are measured on the
            same scale. None means all, if there is only one besides events.
        time : str, int or None, default=None
            Column of the times; None means the last input of a model of the library,
            or the only column.
        n_simulations : int, default=1000
            Number of simulated copies of each subject, for "pwres" and "npde".
        random_state : int, RandomState, Generator or None, default=None
            Seed of the simulations.
        ax : Axes, array-like of Axes or None, default=None
            Where to draw, see :meth:`plot`.
        **kwargs : dict
            Keyword arguments for ``Axes.scatter``.

        Returns
        -------
        ResidualDisplay
            The display, drawn.
        """
        kinds = [kinds] if isinstance(kinds, str) else list(kinds)
        if not kinds:
            raise ValueError(f"kinds must be among {list(NAMES)}, got {kinds!r}")
        check_names("kinds", kinds, NAMES, "residuals")
        rows = check_rows(estimator, X, y, groups, events, known="iwres" in kinds)
        rows, column = rows.values_of_kind(kind), time_column(rows.fitted, time)
        residuals, population = [], None
        for name in kinds:
            if name == "iwres":
                values, at = weighted_residuals(rows)
                of_what = "individual prediction"
            else:
                if population is None:
                    population = compared_residuals(rows, n_simulations, random_state)
                values = population.npde if name == "npde" else population.weighted
                at, of_what = population.mean, "population mean"
            residuals.append(Residuals(NAMES[name], values, at, of_what))
        label = time_name(rows.fitted, time)
        display = cls(rows.X[:, column], residuals, xlabel=label)
        return display.plot(ax=ax, **kwargs)

    def plot(self, *, ax=None, **kwargs):
        """Draw three panels for each kind of residuals.

        Parameters
        ----------
        ax : Axes, array-like of Axes or None, default=None
            None creates a figure. A single Axes is replaced by the panels. An array
            must hold three for each kind.
        **kwargs : dict
            Keyword arguments for ``Axes.scatter``.

        Returns
        -------
        ResidualDisplay
            The display.
        """
        pyplot = load_pyplot("ResidualDisplay.plot")
        axes = make_panels(pyplot, ax, (len(self.residuals), 3), SIZE)
        points = {"s": 10, "alpha": 0.6} | kwargs
        self.scatters_, self.lines_ = [], []
        for row, residuals in zip(axes, self.residuals, strict=True):
            known = ~np.isnan(residuals.values)  # unlike those of bounds
            values = residuals.values[known]
            for panel, x in zip(row, (self.time, residuals.prediction), strict=False):
                x = x[known]
                self.scatters_.append(panel.scatter(x, values, **points))
                panel.axhline(0, color="0.4", linewidth=1)
                for limit in LIMITS:
                    panel.axhline(limit, color="0.4", linewidth=1, linestyle="--")
                self.lines_.append(_draw_medians(panel, x, values))
            self.scatters_.append(_draw_quantiles(row[2], values, points))
            row[0].set(xlabel=self.xlabel, ylabel=residuals.name)
            row[1].set(xlabel=residuals.prediction_name)
            row[2].set(xlabel="normal quantile")
        self.axes_, self.figure_ = axes, axes[0, 0].figure
        return self


def _draw_medians(panel, x, values):
    bin_indices = bin_times(x)[1]
    bins = range(bin_indices.max() + 1)
    (line,) = panel.plot(
        [np.mean(x[bin_indices == b]) for b in bins],
        [np.median(values[bin_indices == b]) for b in bins],
        color="tab:red",
        linewidth=1.5,
    )
    return line


def _draw_quantiles(panel, values, points):
    """Draw ordered values against normal quantiles, with a band for each of them."""
    n = len(values)
    ranks = np.arange(1, n + 1)
    at = stats.norm.ppf((ranks - 0.5) / n)
    low, high = (
        stats.norm.ppf(stats.beta.ppf(share, ranks, n + 1 - ranks))
        for share in stats.norm.cdf(LIMITS)
    )
    panel.fill_between(at, low, high, color="0.85", linewidth=0)
    panel.axline((0, 0), slope=1, color="0.4", linewidth=1)
    return panel.scatter(at, np.sort(values), **points)
