"""Curves of single subjects with their observations."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from sktem.mixed_effects.checks.curves import individual_curves
from sktem.mixed_effects.checks.rows import check_rows, time_name
from sktem.plotting.panels import load_pyplot, make_panels

__all__ = ["IndividualFitDisplay"]

COLUMNS, SIZE = 4, (2.5, 1.9)


class IndividualFitDisplay:
    """A panel for each subject: observations, its curve, and that of the population.

    Create it with :meth:`from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    curves : list of IndividualCurve
        Curves and observations, see :func:`sktem.evaluation.individual_curves`.
    xlabel : str, default="time"
        Label of the horizontal axes.

    Attributes
    ----------
    axes_ : ndarray of Axes
        One panel for each subject.
    figure_ : Figure
        The figure that contains the panels.
    scatters_ : list of PathCollection
        Observations.
    individual_lines_, population_lines_ : list of Line2D
        Curves.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import NonlinearMixedEffectsRegressor
    >>> from sktem.plotting import IndividualFitDisplay
    >>> rng = np.random.default_rng(0)
    >>> groups, X = np.repeat(np.arange(30), 5), np.tile(np.arange(5.0), 30)[:, None]
    >>> y = X[:, 0] + rng.normal(size=30)[groups] + 0.3 * rng.normal(size=150)
    >>> line = NonlinearMixedEffectsRegressor(
    ...     "linear", parameters={"intercept": 0.5, "slope": 0.5}, transforms="normal",
    ...     omega=["intercept"], random_state=0
    ... ).fit(X, y, groups=groups)
    >>> display = IndividualFitDisplay.from_estimator(line, X, y, groups, n_subjects=6)
    >>> [panel.get_title() for panel in display.axes_]
    ['0', '1', '2', '3', '4', '5']
    """

    def __init__(self, curves, *, xlabel="time"):
        self.curves = curves
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
        time=None,
        subjects=None,
        n_subjects=12,
        n_points=100,
        ax=None,
        scatter_kwargs=None,
        line_kwargs=None,
    ):
        """Predict the curves and draw.

        Parameters
        ----------
        estimator : NonlinearMixedEffectsRegressor
            A fitted estimator with a model function.
        X : array-like of shape (n_rows, n_features) or Records
            Inputs and covariates, or records with their observations.
        y : array-like of shape (n_rows,) or None, default=None
            Observations; rows where it is NaN are left out. None with records.
        groups : array-like of shape (n_rows,) or None, default=None
            Subjects; those shown must have been seen in ``fit``. None with records.
        events : Doses, data frame, dict or None, default=None
            Doses of the subjects, as in ``fit``.
        time : str, int or None, default=None
            Column along which curves are drawn; None means the last input of a model of
            the library, or the only column.
        subjects : array-like or None, default=None
            Labels of the subjects to show; None means the first ``n_subjects``.
        n_subjects : int, default=12
            Number of subjects to show if ``subjects`` is None.
        n_points : int, default=100
            Number of times of each curve.
        ax : Axes, array-like of Axes or None, default=None
            Where to draw, see :meth:`plot`.
        scatter_kwargs, line_kwargs : dict or None, default=None
            Keyword arguments for ``Axes.scatter``, and for ``Axes.plot`` of the
            individual curves.

        Returns
        -------
        IndividualFitDisplay
            The display, drawn.
        """
        if subjects is None:
            if not isinstance(n_subjects, Integral) or n_subjects < 1:
                raise ValueError(f"n_subjects must be at least 1, got {n_subjects!r}")
            labels = check_rows(estimator, X, y, groups, events).labels
            subjects = None if labels is None else labels[:n_subjects]
        curves = individual_curves(
            estimator, X, y, groups, events=events, time=time, subjects=subjects,
            n_points=n_points,
        )  # fmt: skip
        label = time_name(estimator.fitted_, time)
        return cls(curves, xlabel=label).plot(
            ax=ax, scatter_kwargs=scatter_kwargs, line_kwargs=line_kwargs
        )

    def plot(self, *, ax=None, scatter_kwargs=None, line_kwargs=None):
        """Draw a panel for each subject, with the same limits for all of a kind.

        Parameters
        ----------
        ax : Axes, array-like of Axes or None, default=None
            None creates a figure. A single Axes is replaced by the panels. An array
            must hold one Axes per subject.
        scatter_kwargs, line_kwargs : dict or None, default=None
            Keyword arguments for ``Axes.scatter``, and for ``Axes.plot`` of the
            individual curves.

        Returns
        -------
        IndividualFitDisplay
            The display.
        """
        pyplot = load_pyplot("IndividualFitDisplay.plot")
        n = len(self.curves)
        n_columns = min(n, COLUMNS)
        axes = make_panels(pyplot, ax, (-(-n // n_columns), n_columns), SIZE, n)
        points = {"s": 12, "color": "black", "zorder": 3} | (scatter_kwargs or {})
        style = {"color": "tab:blue"} | (line_kwargs or {})
        xlim = _with_margin(np.concatenate([curve.grid for curve in self.curves]))
        ylim = {
            kind: _with_margin(np.concatenate([
                part for curve in self.curves if curve.kind == kind
                for part in (curve.observed, curve.individual, curve.population)
            ]))
            for kind in {curve.kind for curve in self.curves}
        }  # fmt: skip
        self.scatters_, self.individual_lines_, self.population_lines_ = [], [], []
        for panel, curve in zip(axes, self.curves, strict=True):
            typical = panel.plot(
                curve.grid, curve.population, color="0.65", label="population"
            )
            individual = panel.plot(
                curve.grid, curve.individual, **{"label": "individual"} | style
            )
            self.population_lines_ += typical
            self.individual_lines_ += individual
            self.scatters_.append(
                panel.scatter(curve.time, curve.observed, label="observed", **points)
            )
            kind = "" if curve.kind is None else f", CMT {curve.kind}"
            panel.set_title(f"{curve.label}{kind}", fontsize="small")
            panel.set(xlim=xlim, ylim=ylim[curve.kind])
        if not hasattr(ax, "__len__"):
            for number, panel in enumerate(axes):
                panel.tick_params(labelleft=len(ylim) > 1 or number % n_columns == 0)
                panel.tick_params(labelbottom=number + n_columns >= n)
        for panel in axes[n_columns * ((n - 1) // n_columns) :]:
            panel.set_xlabel(self.xlabel)
        # Beside the panels, since curves may be anywhere in them.
        axes[n_columns - 1].legend(
            loc="upper left", bbox_to_anchor=(1, 1), fontsize="small"
        )
        self.axes_, self.figure_ = axes, axes[0].figure
        return self


def _with_margin(values):
    finite = values[np.isfinite(values)]
    margin = 0.05 * np.ptp(finite) or 1.0
    return finite.min() - margin, finite.max() + margin
