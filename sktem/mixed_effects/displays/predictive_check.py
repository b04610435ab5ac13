"""Visual predictive check as a picture."""

from __future__ import annotations

import numpy as np

from sktem.mixed_effects.checks.predictive import visual_predictive_check
from sktem.mixed_effects.checks.rows import time_name
from sktem.plotting.panels import load_pyplot, make_panels

__all__ = ["VisualPredictiveCheckDisplay"]

SIZE = (4.8, 3.4)


class VisualPredictiveCheckDisplay:
    """Percentiles of the observations, with bands from simulated data.

    Create it with :meth:`from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    check : VisualPredictiveCheck
        Percentiles and bands, see :func:`sktem.evaluation.visual_predictive_check`.
    xlabel : str, default="time"
        Label of the horizontal axis.

    Attributes
    ----------
    axes_ : ndarray of Axes of shape (1,)
        The panel.
    figure_ : Figure
        The figure that contains the panel.
    bands_ : list of PolyCollection
        A band for each percentile.
    lines_ : list of Line2D
        A line of the observations for each percentile.
    scatter_ : PathCollection or None
        The observations.

    Notes
    -----
    Under the model, each line is in its band with probability ``check.level`` in each
    bin. A line that leaves its band over several bins shows where the model is wrong:
    the middle line is about the curve, the others are about the variation of subjects
    and observations.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import NonlinearMixedEffectsRegressor
    >>> from sktem.plotting import VisualPredictiveCheckDisplay
    >>> rng = np.random.default_rng(0)
    >>> groups, X = np.repeat(np.arange(30), 5), np.tile(np.arange(5.0), 30)[:, None]
    >>> y = X[:, 0] + rng.normal(size=30)[groups] + 0.3 * rng.normal(size=150)
    >>> line = NonlinearMixedEffectsRegressor(
    ...     "linear", parameters={"intercept": 0.5, "slope": 0.5}, transforms="normal",
    ...     omega=["intercept"], random_state=0
    ... ).fit(X, y, groups=groups)
    >>> display = VisualPredictiveCheckDisplay.from_estimator(
    ...     line, X, y, groups, random_state=0
    ... )
    >>> display.check.centres
    array([0., 1., 2., 3., 4.])
    """

    def __init__(self, check, *, xlabel="time"):
        self.check = check
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
        kind=None,
        time=None,
        bins="auto",
        quantiles=(0.05, 0.5, 0.95),
        level=0.9,
        n_simulations=500,
        prediction_corrected=False,
        lower_bound=0.0,
        random_state=None,
        scatter=True,
        ax=None,
    ):
        """Simulate and draw.

        Parameters
        ----------
        estimator : NonlinearMixedEffectsRegressor
            A fitted estimator with a residual error.
        X : array-like of shape (n_rows, n_features) or Records
            Inputs and covariates, or records with their observations.
        y : array-like of shape (n_rows,) or None, default=None
            Observations; rows where it is NaN are left out.
        groups : array-like of shape (n_rows,) or None, default=None
            Subjects, which may be new ones; None only for a model without random
            effects.
        events : Doses, data frame, dict or None, default=None
            Doses of the subjects, as in ``fit``.
        kind : int, list of int or None, default=None
            CMT of the observations to compare, as in
            :func:`sktem.evaluation.visual_predictive_check`.
        time : str, int or None, default=None
            Column to bin; None means the last input of a model of the library, or the
            only column.
        bins : int, array-like or "auto", default="auto"
            As in :func:`sktem.evaluation.bin_times`.
        quantiles : array-like of float, default=(0.05, 0.5, 0.95)
            Which percentiles, as shares.
        level : float, default=0.9
            Probability of each band.
        n_simulations : int, default=500
            Number of simulated data sets.
        prediction_corrected : bool, default=False
            Whether to scale observations and simulations to the typical prediction of
            their bin.
        lower_bound : float, default=0.0
            Smallest value that an observation can have, for this correction.
        random_state : int, RandomState, Generator or None, default=None
            Seed.
        scatter : bool, default=True
            Whether to draw the observations.
        ax : Axes or None, default=None
            None creates a figure.

        Returns
        -------
        VisualPredictiveCheckDisplay
            The display, drawn.
        """
        check = visual_predictive_check(
            estimator,
            X,
            y,
            groups,
            events=events,
            kind=kind,
            time=time,
            bins=bins,
            quantiles=quantiles,
            level=level,
            n_simulations=n_simulations,
            prediction_corrected=prediction_corrected,
            lower_bound=lower_bound,
            random_state=random_state,
        )
        label = time_name(estimator.fitted_, time)
        return cls(check, xlabel=label).plot(scatter=scatter, ax=ax)

    def plot(self, *, scatter=True, ax=None):
        """Draw.

        Parameters
        ----------
        scatter : bool, default=True
            Whether to draw the observations.
        ax : Axes or None, default=None
            None creates a figure.

        Returns
        -------
        VisualPredictiveCheckDisplay
            The display.
        """
        pyplot = load_pyplot("VisualPredictiveCheckDisplay.plot")
        check = self.check
        axes = make_panels(pyplot, ax, (1, 1), SIZE, 1)
        (panel,) = axes
        x = check.centres
        spread: slice | list[int] = slice(None)
        if len(x) == 1:  # one bin: from its beginning to its end
            x, spread = check.edges, [0, 0]
        self.scatter_ = None
        if scatter:
            self.scatter_ = panel.scatter(
                check.time, check.values, s=8, color="0.6", alpha=0.6, linewidths=0
            )
        self.bands_, self.lines_ = [], []
        for row, share in enumerate(check.quantiles):
            colour = "tab:blue" if abs(share - 0.5) > 1e-9 else "tab:orange"
            lower, upper = check.lower[row, spread], check.upper[row, spread]
            name = None if row else f"{100 * check.level:g} % of simulated"
            self.bands_.append(
                panel.fill_between(
                    x, lower, upper, color=colour, alpha=0.3, lw=0, label=name
                )
            )
            style = "-" if abs(share - 0.5) < 1e-9 else "--"
            (line,) = panel.plot(
                x,
                check.observed[row, spread],
                color="black",
                linestyle=style,
                linewidth=1.3,
                label=f"observed {100 * share:g} %",
            )
            self.lines_.append(line)
        corrected = "corrected observation" if check.prediction_corrected else None
        panel.set(xlabel=self.xlabel, ylabel=corrected or "observation")
        panel.legend(fontsize="small")
        self.axes_, self.figure_ = np.array(axes), panel.figure
        return self
