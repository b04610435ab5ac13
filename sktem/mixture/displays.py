"""Displays of mixtures: components as ellipses, and profiles of their columns."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from sklearn.utils import _safe_indexing, check_array
from sklearn.utils.validation import check_is_fitted

from sktem.plotting.panels import load_pyplot, make_panels

__all__ = ["ClassProfileDisplay", "ComponentDisplay"]

#: Panels of a row, and the size of one in inches.
COLUMNS, SIZE = 3, (2.9, 2.6)

#: Rows that are drawn, at most.
MOST_POINTS = 3000


class ComponentDisplay:
    """Gaussian components as ellipses, one panel for each pair of columns.

    Create it with :meth:`from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    weights : ndarray of shape (n_components,)
        Weights of the components.
    means : ndarray of shape (n_components, n_columns)
        Means.
    covariances : ndarray of shape (n_components, n_columns, n_columns)
        Covariance matrices.
    names : list of str
        Names of the columns.
    rows : ndarray of shape (n_samples, n_columns) or None, default=None
        Rows to draw.
    labels : ndarray of int of shape (n_samples,) or None, default=None
        Their components.

    Attributes
    ----------
    axes_ : ndarray of Axes
        One panel for each pair of columns.
    figure_ : Figure
        The figure that contains the panels.
    ellipses_ : list of Ellipse
        The ellipses, by panel and component.

    See Also
    --------
    ClassProfileDisplay : Components of tables with labels.

    Notes
    -----
    An ellipse shows the points at ``n_std`` standard deviations of the marginal of two
    columns; for Student-t components, it is that of the scale matrix. The larger the
    weight of a component, the thicker its line.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import StochasticEMGaussianMixture
    >>> from sktem.plotting import ComponentDisplay
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> mixture = StochasticEMGaussianMixture(2, random_state=0, tol=1e-3).fit(X)
    >>> display = ComponentDisplay.from_estimator(mixture, X)
    >>> len(display.axes_), len(display.ellipses_)
    (3, 6)
    """

    def __init__(self, weights, means, covariances, names, *, rows=None, labels=None):
        self.weights = weights
        self.means = means
        self.covariances = covariances
        self.names = names
        self.rows = rows
        self.labels = labels

    @classmethod
    def from_estimator(cls, estimator, X=None, *, columns=None, ax=None, **kwargs):
        """Draw a fitted mixture.

        Parameters
        ----------
        estimator : StochasticEMGaussianMixture or StochasticEMMixture
            A fitted mixture of Gaussian or Student-t components.
        X : array-like of shape (n_samples, n_features) or None, default=None
            Rows to draw, or a sample of them if there are many; rows with holes in a
            pair of columns are left out of its panel.
        columns : list of int or str, or None, default=None
            Columns to draw; None means the first four.
        ax : Axes, array-like of Axes or None, default=None
            Where to draw, see :meth:`plot`.
        **kwargs : dict
            Keyword arguments for ``matplotlib.patches.Ellipse``.

        Returns
        -------
        ComponentDisplay
            The display, drawn.
        """
        check_is_fitted(estimator)
        d = estimator.n_features_in_
        names = getattr(estimator, "feature_names_in_", None)
        names = [f"x{j}" for j in range(d)] if names is None else list(names)
        chosen = list(range(min(d, 4))) if columns is None else list(columns)
        chosen = [names.index(key) if isinstance(key, str) else key for key in chosen]
        if len(chosen) < 2:
            raise ValueError("a pair of columns is needed to draw ellipses")
        twin = estimator.fitted_.of_emission
        model, params = twin.model, twin.params
        gaussian = params.emission
        if not hasattr(gaussian, "precisions_cholesky"):
            raise TypeError(
                f"components of {type(model.emission).__name__} are no ellipses: see "
                "ClassProfileDisplay"
            )
        (spread,) = model.emission.spreads(gaussian)
        covariances = spread.structure.full(gaussian.covariances)
        rows = labels = None
        if X is not None:
            rows = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan")
            few = np.arange(0, len(rows), max(1, len(rows) // MOST_POINTS))
            rows = rows[few][:, chosen]
            labels = np.asarray(estimator.predict(_safe_indexing(X, few)))
        display = cls(
            params.weights,
            gaussian.means[:, chosen],
            covariances[:, chosen][:, :, chosen],
            [str(names[j]) for j in chosen],
            rows=rows,
            labels=labels,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, *, n_std=2.0, ax=None, **kwargs):
        """Draw one panel for each pair of columns.

        Parameters
        ----------
        n_std : float, default=2.0
            Number of standard deviations from the means to the ellipses.
        ax : Axes, array-like of Axes or None, default=None
            None creates a figure. A single Axes is divided; each Axes of an array is a
            panel.
        **kwargs : dict
            Keyword arguments for ``matplotlib.patches.Ellipse``.

        Returns
        -------
        ComponentDisplay
            The display itself.
        """
        pyplot = load_pyplot("ComponentDisplay")
        from matplotlib.patches import Ellipse

        pairs = list(combinations(range(len(self.names)), 2))
        shape = -(-len(pairs) // COLUMNS), min(len(pairs), COLUMNS)
        self.axes_ = make_panels(pyplot, ax, shape, SIZE, n_used=len(pairs))
        self.figure_ = self.axes_[0].figure
        self.ellipses_ = []
        colours = pyplot.rcParams["axes.prop_cycle"].by_key()["color"]
        for axes, (a, b) in zip(self.axes_, pairs, strict=True):
            for k, weight in enumerate(self.weights):
                colour = colours[k % len(colours)]
                if self.rows is not None:
                    members = self.rows[self.labels == k]
                    axes.plot(
                        members[:, a], members[:, b], ".", ms=2, alpha=0.4, color=colour
                    )
                block = self.covariances[k][np.ix_([a, b], [a, b])]
                values, vectors = np.linalg.eigh(block)
                settings = {"fill": False, "color": colour, "lw": 1 + 2 * weight}
                ellipse = Ellipse(
                    self.means[k, [a, b]],
                    *(2 * n_std * np.sqrt(np.maximum(values, 0.0))),
                    angle=float(np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0]))),
                    **(settings | kwargs),
                )
                self.ellipses_.append(axes.add_patch(ellipse))
            axes.autoscale_view()
            axes.set(xlabel=self.names[a], ylabel=self.names[b])
        return self


class ClassProfileDisplay:
    """Weights, probabilities of labels and means of components, as a heat map.

    Create it with :meth:`from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    profiles : pandas.DataFrame
        Class profiles, as returned by :meth:`StochasticEMMixture.class_profiles`.

    Attributes
    ----------
    axes_ : ndarray of Axes
        One panel for probabilities and one for means, if there are any.
    figure_ : Figure
        The figure that contains the panels.
    images_ : list of AxesImage
        The heat maps.

    See Also
    --------
    ComponentDisplay : Gaussian components as ellipses.

    Notes
    -----
    Means are coloured by their distance from the mean of all components, in standard
    deviations between components; the numbers shown are the means themselves.

    Examples
    --------
    >>> import pandas as pd
    >>> from sktem import StochasticEMMixture
    >>> from sktem.plotting import ClassProfileDisplay
    >>> table = pd.DataFrame({"answer": ["yes", "no"] * 20, "age": [30, 60] * 20})
    >>> mixture = StochasticEMMixture(2, emission="poisson", random_state=0).fit(table)
    >>> len(ClassProfileDisplay.from_estimator(mixture).images_)
    2
    """

    def __init__(self, profiles):
        self.profiles = profiles

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, **kwargs):
        """Draw the components of a fitted mixture.

        Parameters
        ----------
        estimator : StochasticEMMixture
            A fitted mixture.
        ax : Axes, array-like of Axes or None, default=None
            Where to draw, see :meth:`plot`.
        **kwargs : dict
            Keyword arguments for ``Axes.imshow``.

        Returns
        -------
        ClassProfileDisplay
            The display, drawn.
        """
        return cls(estimator.class_profiles()).plot(ax=ax, **kwargs)

    def plot(self, *, ax=None, **kwargs):
        """Draw a panel of probabilities and one of means.

        Parameters
        ----------
        ax : Axes, array-like of Axes or None, default=None
            None creates a figure. A single Axes is divided; each Axes of an array is a
            panel.
        **kwargs : dict
            Keyword arguments for ``Axes.imshow``.

        Returns
        -------
        ClassProfileDisplay
            The display itself.
        """
        pyplot = load_pyplot("ClassProfileDisplay")
        table = self.profiles
        weights = table.iloc[0].to_numpy()
        values = [name for _, name in table.index]
        is_mean = np.array([value == "mean" for value in values])
        is_share = ~is_mean
        is_share[0] = False
        parts = [part for part in (is_share, is_mean) if part.any()]
        height = 0.3 * max(part.sum() for part in parts) + 1.2
        size = (2.0 + 0.6 * len(weights), height)
        self.axes_ = make_panels(pyplot, ax, (1, len(parts)), size, n_used=len(parts))
        self.figure_ = self.axes_[0].figure
        self.images_ = []
        for axes, part in zip(self.axes_, parts, strict=True):
            panel = table[part]
            numbers = shown = panel.to_numpy(dtype=float)
            settings = {"aspect": "auto", "cmap": "Blues", "vmin": 0.0, "vmax": 1.0}
            if part is is_mean:
                centre = numbers @ weights
                spread = np.sqrt((numbers - centre[:, None]) ** 2 @ weights)
                spread = np.where(spread > 0, spread, 1.0)
                shown = (numbers - centre[:, None]) / spread[:, None]
                settings |= {"cmap": "RdBu_r", "vmin": -2.0, "vmax": 2.0}
            self.images_.append(axes.imshow(shown, **(settings | kwargs)))
            dark = np.abs(shown) > 0.6 * self.images_[-1].get_clim()[1]
            for (i, k), value in np.ndenumerate(numbers):
                text = {"ha": "center", "va": "center", "fontsize": 8}
                text["color"] = "white" if dark[i, k] else "black"
                axes.text(k, i, f"{value:.2g}", **text)
            names = [
                str(name) if part is is_mean else f"{name} = {value}"
                for name, value in panel.index
            ]
            axes.set_yticks(range(len(names)), names, fontsize=8)
            heads = [f"{k}\n{100 * w:.0f} %" for k, w in enumerate(weights)]
            axes.set_xticks(range(len(weights)), heads, fontsize=8)
            axes.set_title("means" if part is is_mean else "probabilities", fontsize=9)
        return self
