"""Kaplan-Meier check as a picture."""

from __future__ import annotations

import numpy as np

from sktem.mixed_effects.checks.survival import kaplan_meier_check
from sktem.plotting.panels import load_pyplot, make_panels

__all__ = ["KaplanMeierDisplay"]

SIZE = (4.8, 3.4)


class KaplanMeierDisplay:
    """Kaplan-Meier estimate of the data, with a band from simulated data.

    Create it with :meth:`from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    check : KaplanMeierCheck
        Estimates and the band, see :func:`sktem.evaluation.kaplan_meier_check`.
    xlabel : str, default="time"
        Label of the horizontal axis.

    Attributes
    ----------
    axes_ : ndarray of Axes of shape (1,)
        The panel.
    figure_ : Figure
        The figure that contains the panel.
    band_ : PolyCollection
        The band.
    line_, median_ : Line2D
        The estimate of the data, and the median of those of simulated data.
    marks_ : Line2D
        Ends of observation without an event.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import NonlinearMixedEffectsRegressor
    >>> from sktem.compartments import Responses, read_nonmem
    >>> from sktem.plotting import KaplanMeierDisplay
    >>> time = np.random.default_rng(0).exponential(10.0, 80)
    >>> records = read_nonmem({
    ...     "ID": np.arange(80), "TIME": time.clip(max=20), "DV": time < 20
    ... })
    >>> hazard = Responses(
    ...     None, hazards={1: lambda p, records, c: p.H + 0 * c}, parameters=["H"]
    ... )
    >>> fit = NonlinearMixedEffectsRegressor(
    ...     hazard, parameters={"H": 0.2}, omega=[], residual_error="event"
    ... ).fit(records)
    >>> KaplanMeierDisplay.from_estimator(fit, records, random_state=0).axes_.shape
    (1,)
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
        n_times=50,
        level=0.9,
        n_simulations=200,
        random_state=None,
        ax=None,
    ):
        """Simulate and draw.

        Parameters
        ----------
        estimator : NonlinearMixedEffectsRegressor
            A fitted estimator with events.
        X, y, groups, events : object
            Data, as in :func:`sktem.evaluation.kaplan_meier_check`.
        kind : int or None, default=None
            CMT of the events; None means the only one there is.
        n_times : int, default=50
            Number of times of the band.
        level : float, default=0.9
            Probability of the band.
        n_simulations : int, default=200
            Number of simulated data sets.
        random_state : int, RandomState, Generator or None, default=None
            Seed.
        ax : Axes or None, default=None
            None creates a figure.

        Returns
        -------
        KaplanMeierDisplay
            The display, drawn.
        """
        check = kaplan_meier_check(
            estimator, X, y, groups, events=events, kind=kind, n_times=n_times,
            level=level, n_simulations=n_simulations, random_state=random_state,
        )  # fmt: skip
        return cls(check).plot(ax=ax)

    def plot(self, *, ax=None):
        """Draw.

        Parameters
        ----------
        ax : Axes or None, default=None
            None creates a figure.

        Returns
        -------
        KaplanMeierDisplay
            The display.
        """
        pyplot = load_pyplot("KaplanMeierDisplay.plot")
        check = self.check
        axes = make_panels(pyplot, ax, (1, 1), SIZE, 1)
        (panel,) = axes
        self.band_ = panel.fill_between(
            check.times, check.lower, check.upper, color="tab:blue", alpha=0.3, lw=0,
            label=f"{100 * check.level:g} % of simulated",
        )  # fmt: skip
        (self.median_,) = panel.plot(
            check.times, check.median, color="tab:blue", label="median of simulated"
        )
        steps, shares = check.steps
        (self.line_,) = panel.step(
            steps, shares, color="black", where="post", label="observed"
        )
        ended = np.sort(check.ends[~check.happened])
        at = shares[np.searchsorted(steps, ended, side="right") - 1]
        (self.marks_,) = panel.plot(
            ended, at, "|", color="black", label="end of observation"
        )
        panel.set(xlabel=self.xlabel, ylabel="share without an event", ylim=(0, 1.02))
        panel.legend(fontsize="small")
        self.axes_, self.figure_ = np.array(axes), panel.figure
        return self
