"""Decoded states over a series, the graph of transitions, and durations."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sktem.choices import check_choice
from sktem.hidden_markov.covariates import without_covariates
from sktem.plotting.panels import load_pyplot, make_panels
from sktem.sequences.given import given_rows

__all__ = ["HiddenStatesDisplay"]

PANELS = ("series", "transitions", "durations")
#: Transitions that are a smaller share of those from a state have no arrow; durations
#: that are exceeded with a smaller probability are left out.
LEAST_ARROW, LEAST_LEFT = 0.05, 0.02
#: Rows at most over which durations are drawn.
LONGEST = 500


class HiddenStatesDisplay:
    """States of a hidden Markov model: over a series, as a graph, and their durations.

    Create it with :meth:`from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    series : ndarray of shape (n_rows,)
        A column of one sequence; NaN leaves a gap.
    states : ndarray of int of shape (n_rows,)
        Decoded states.
    transitions : ndarray of shape (n_states, n_states)
        Transition probabilities.
    durations : StateDurations
        Durations of the states.
    names : list of str
        Names of the states.

    Attributes
    ----------
    axes_ : ndarray of Axes
        The panels.
    figure_ : Figure
        The figure that contains the panels.

    See Also
    --------
    sktem.HiddenMarkovModel : The model.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import HiddenMarkovModel
    >>> from sktem.plotting import HiddenStatesDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 1)) + 6.0 * np.repeat([0, 1, 0, 1], 50)[:, None]
    >>> hmm = HiddenMarkovModel(2, random_state=0).fit(X)
    >>> display = HiddenStatesDisplay.from_estimator(hmm, X)
    >>> len(display.axes_), display.names
    (3, ['0', '1'])
    """

    def __init__(self, series, states, transitions, durations, names):
        self.series = series
        self.states = states
        self.transitions = transitions
        self.durations = durations
        self.names = names

    @classmethod
    def from_estimator(
        cls, estimator, X, *, groups=None, lengths=None, covariates=None, sequence=0,
        column=0, names=None, panels=PANELS, ax=None,
    ):  # fmt: skip
        """Decode a sequence and draw it.

        Parameters
        ----------
        estimator : HiddenMarkovModel
            A fitted model.
        X : array-like of shape (n_samples, n_features), or list of such
            Rows.
        groups : array-like of shape (n_samples,), str or int, default=None
            Labels of the sequences, as in ``predict``.
        lengths : array-like of int or None, default=None
            Number of rows of each sequence.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in ``predict``. The graph and the durations
            are for covariates at their means.
        sequence : int, default=0
            Index of the sequence to draw.
        column : int, default=0
            Index of its column to draw.
        names : list of str or None, default=None
            Names of the states; None takes their indices.
        panels : sequence of {"series", "transitions", "durations"}, default=all
            Which panels to draw.
        ax : Axes, array-like of Axes or None, default=None
            Where to draw: see :meth:`plot`.

        Returns
        -------
        HiddenStatesDisplay
            The display, drawn.
        """
        check_is_fitted(estimator, "emission_params_")
        X, covariates = without_covariates(X, covariates)
        data = given_rows(X, groups, lengths)
        rows = np.asarray(data.X, dtype=np.float64)
        offsets = data.offsets_of(len(rows))
        place = slice(offsets[sequence], offsets[sequence + 1])
        chosen = rows[place]
        if covariates is not None:
            covariates = np.asarray(covariates)[place]
        n_states = len(estimator.start_)
        names = [str(k) for k in range(n_states)] if names is None else list(names)
        if len(names) != n_states:
            raise ValueError(f"names must be of {n_states} states, got {len(names)}")
        display = cls(
            chosen[:, column],
            estimator.predict(chosen, covariates=covariates),
            estimator.transitions_,
            estimator.state_durations(LONGEST),
            names,
        )
        return display.plot(panels, ax=ax)

    def plot(self, panels=PANELS, *, ax=None):
        """Draw the panels.

        Parameters
        ----------
        panels : sequence of {"series", "transitions", "durations"}, default=all
            Which panels to draw.
        ax : Axes, array-like of Axes or None, default=None
            None creates a figure. A single Axes is replaced by the panels; an array
            must hold one Axes per panel.

        Returns
        -------
        HiddenStatesDisplay
            The display.
        """
        pyplot = load_pyplot("HiddenStatesDisplay.plot")
        panels = [panels] if isinstance(panels, str) else list(panels)
        for panel in panels:
            check_choice("panels", panel, PANELS)
        axes = make_panels(pyplot, ax, (1, len(panels)), (4.2, 3.2), len(panels))
        colours = pyplot.get_cmap("tab10" if len(self.names) <= 10 else "tab20")
        colours = [colours(k % colours.N) for k in range(len(self.names))]
        for panel, panel_axes in zip(panels, axes, strict=True):
            getattr(self, f"_draw_{panel}")(panel_axes, colours)
        self.axes_, self.figure_ = axes, axes[0].figure
        return self

    def _draw_series(self, axes, colours):
        """Draw the series before bands in the colours of its states."""
        ends = np.flatnonzero(np.diff(self.states)) + 1
        edges = np.concatenate([[0], ends, [len(self.states)]])
        labelled = set()
        for first, stop in zip(edges[:-1], edges[1:], strict=True):
            k = self.states[first]
            label = None if k in labelled else self.names[k]
            labelled.add(k)
            band = {"color": colours[k], "alpha": 0.3, "lw": 0, "label": label}
            axes.axvspan(first - 0.5, stop - 0.5, **band)
        axes.plot(self.series, color="0.2", lw=0.8)
        axes.set(xlabel="row", title="decoded states", xlim=(-0.5, len(self.series)))
        axes.legend(fontsize="small")

    def _draw_transitions(self, axes, colours):
        """Draw states on a circle, with an arrow for each other state that follows."""
        K = len(self.names)
        angles = np.pi / 2 - 2 * np.pi * np.arange(K) / K
        places = np.column_stack([np.cos(angles), np.sin(angles)]) * (K > 1)
        for i in range(K):
            leaving = np.delete(self.transitions[i], i).sum()
            for j in range(K):
                p = self.transitions[i, j]
                if i == j or p <= LEAST_ARROW * leaving:
                    continue
                style = {
                    "arrowstyle": "-|>", "connectionstyle": "arc3,rad=0.2",
                    "lw": 0.8 + 2.5 * p / leaving, "color": colours[i], "shrinkA": 16,
                    "shrinkB": 16,
                }  # fmt: skip
                axes.annotate("", places[j], places[i], arrowprops=style)
                middle = 0.5 * (places[i] + places[j])
                step = places[j] - places[i]
                at = middle + 0.15 * np.array([step[1], -step[0]])
                axes.text(*at, f"{p:.2g}", ha="center", va="center", fontsize="small")
        axes.scatter(*places.T, s=700, c=colours[:K], zorder=3)
        for k, place in enumerate(places):
            # States with explicit durations do not follow themselves.
            p = self.transitions[k, k]
            stay = f"{p:.2g}" if p > 0 else ""
            axes.text(*place, stay, ha="center", va="center", fontsize=8, zorder=4)
            axes.text(*(1.42 * place + (0, 0.4 * (K == 1))), self.names[k], ha="center")
        axes.set(xlim=(-1.8, 1.8), ylim=(-1.8, 1.8), aspect="equal")
        axes.set_title("transitions")
        axes.axis("off")

    def _draw_durations(self, axes, colours):
        """Draw probabilities that a state lasts for longer than some rows."""
        lasts = 1.0 - np.cumsum(self.durations.probabilities, axis=1)
        lasts = np.concatenate([np.ones((len(lasts), 1)), lasts], axis=1)
        shown = int((lasts > LEAST_LEFT).sum(axis=1).max())
        for k, values in enumerate(lasts):
            mean = self.durations.mean[k]
            label = f"{self.names[k]}: mean {mean:.3g}"
            axes.step(
                np.arange(shown), values[:shown], where="post", color=colours[k],
                label=label,
            )  # fmt: skip
        axes.set(xlabel="rows", title="lasts longer", ylim=(0, 1.02))
        axes.legend(fontsize="small")
