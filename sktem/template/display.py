"""Deformable templates as pictures: templates, deformations, samples, residuals."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sktem.choices import check_choice
from sktem.plotting.panels import load_pyplot, make_panels

__all__ = ["TemplateDisplay"]

KINDS = ("templates", "modes", "samples", "residuals")

#: Panels in a row, width of an image and size of the panel of a curve in inches.
COLUMNS, IMAGE, CURVE = 10, 1.3, (3.2, 2.2)

#: Lines of the deformed lattice along the longest side, and how they look.
LATTICE_LINES = 8
LATTICE = {"colors": "tab:orange", "linewidths": 0.7, "linestyles": "solid"}


class Canvas(NamedTuple):
    """Axes and style of a drawing.

    Attributes
    ----------
    pyplot : module
        ``matplotlib.pyplot``.
    ax : Axes, array-like of Axes or None
        Where to draw.
    cmap : str or Colormap
        Colours of images.
    """

    pyplot: Any
    ax: Any
    cmap: Any


@dataclass(kw_only=True, eq=False, repr=False)
class TemplateDisplay:
    """Pictures of fitted deformable templates.

    Create it with :meth:`from_estimator`. All parameters are stored as attributes, and
    :meth:`plot` can draw them in another way without recomputing anything. Images with
    one axis are drawn as curves; for images with three axes, the middle slice across
    the first axis is shown. Colours range from the smallest to the largest value of the
    templates (and of given images).

    Parameters
    ----------
    templates : ndarray of shape (n_templates, ...)
        Templates.
    names : list of str
        Their names.
    deviations : ndarray of shape (n_deviations,)
        Standard deviations at which principal deformations are shown.
    mode_images : ndarray of shape (n_templates, n_modes, n_deviations, ...)
        Templates deformed along their principal deformations.
    mode_fields : ndarray of shape (n_templates, n_modes, n_axes, ...)
        Displacements of one standard deviation, in pixels.
    mode_shares : ndarray of shape (n_templates, n_modes)
        Shares of the variance of the displacements.
    samples : ndarray of shape (n_samples, ...)
        Images drawn from the model.
    sample_labels : ndarray of shape (n_samples,)
        Indices of their templates.
    images : ndarray of shape (n_images, ...) or None, default=None
        Given images.
    fits : ndarray of shape (n_images, ...) or None, default=None
        Deformed templates that explain them.
    fields : ndarray of shape (n_images, n_axes, ...) or None, default=None
        Their displacements, in pixels.
    labels : ndarray of shape (n_images,) or None, default=None
        Indices of their templates.

    Attributes
    ----------
    axes_ : ndarray of Axes
        The panels of the last drawing.
    figure_ : Figure
        The figure that contains the panels.

    See Also
    --------
    sktem.DeformableTemplateEstimator : The estimator that is shown.

    Notes
    -----
    The orange lattice is square on the template and is warped along with it: on each of
    its lines, one of the coordinates of ``x - Phi(x)`` is constant. Where it crosses
    itself, the deformation folds.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sktem import DeformableTemplateEstimator
    >>> from sktem.plotting import TemplateDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> estimator = DeformableTemplateEstimator(
    ...     (8, 8), deformation_landmarks=4, max_iter=5, random_state=0
    ... ).fit(X[y == 3][:30])
    >>> display = TemplateDisplay.from_estimator(estimator, kind="modes", n_modes=2)
    >>> display.axes_.shape
    (2, 3)
    >>> display.plot("samples").axes_.shape
    (10,)
    """

    templates: Any
    names: list
    deviations: Any
    mode_images: Any
    mode_fields: Any
    mode_shares: Any
    samples: Any
    sample_labels: Any
    images: Any = None
    fits: Any = None
    fields: Any = None
    labels: Any = None

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X=None,
        *,
        kind=None,
        n_modes=3,
        deviations=(-2, 0, 2),
        n_samples=10,
        noise=False,
        component=0,
        cmap="gray",
        ax=None,
    ):
        """Compute and draw the learned parts of a fitted estimator.

        Parameters
        ----------
        estimator : DeformableTemplateEstimator or DeformableTemplateClassifier
            A fitted estimator; for a classifier, the templates of all classes are
            shown.
        X : array-like of shape (n_images, n_pixels) or (n_images, ...), \
                default=None
            A few images, to show their residuals. An image is explained by its most
            probable template; for a classifier, by that of the predicted class.
        kind : {"templates", "modes", "samples", "residuals"} or None, default=None
            The first drawing: see :meth:`plot`. None means "residuals" if images are
            given, else "templates".
        n_modes : int, default=3
            Number of principal deformations.
        deviations : array-like of float, default=(-2, 0, 2)
            Positions along them, in standard deviations.
        n_samples : int, default=10
            Number of samples (for a classifier, of each class).
        noise : bool, default=False
            Whether samples have noise.
        component : int, default=0
            Index of the template whose deformations "modes" shows.
        cmap : str or Colormap, default="gray"
            Colours of images.
        ax : Axes, array-like of Axes or None, default=None
            Where to draw: see :meth:`plot`.

        Returns
        -------
        TemplateDisplay
            The display, drawn.
        """
        check_is_fitted(estimator)
        load_pyplot("TemplateDisplay.from_estimator")
        deviations = np.asarray(deviations, float)
        data = _parts_of(estimator, X, n_modes, deviations, n_samples, noise)
        if kind is None:
            kind = "templates" if X is None else "residuals"
        return cls(**data).plot(kind, component=component, cmap=cmap, ax=ax)

    def plot(self, kind="templates", *, component=0, cmap="gray", ax=None):
        """Draw.

        Parameters
        ----------
        kind : {"templates", "modes", "samples", "residuals"}, default="templates"
            "templates" is one panel for each template. "modes" has a row for each
            principal deformation, with the deformed template and lattice at each of
            the ``deviations``; for curves a column with the deformed templates above
            the displacement. "samples" is a panel for each sample; for curves, one for
            each template with its samples. "residuals" has a column for each image:
            the image, the deformed template with its lattice, and the difference; for
            curves the first two share a panel.
        component : int, default=0
            Index of the template whose deformations "modes" shows.
        cmap : str or Colormap, default="gray"
            Colours of images; differences are shown in blue and red.
        ax : Axes, array-like of Axes or None, default=None
            None creates a figure. A single Axes is replaced by the panels. An array
            must hold one Axes per panel.

        Returns
        -------
        TemplateDisplay
            The display.
        """
        pyplot = load_pyplot("TemplateDisplay.plot")
        check_choice("kind", kind, KINDS)
        if not 0 <= component < len(self.templates):
            raise ValueError(
                f"component must be in 0, ..., {len(self.templates) - 1}, got "
                f"{component!r}"
            )
        if kind == "residuals" and self.images is None:
            raise ValueError('kind="residuals" needs images: give X to from_estimator')
        canvas = Canvas(pyplot, ax, cmap)
        curves = self.templates.ndim == 2
        draw = getattr(self, f"_{kind}_of_{'curves' if curves else 'images'}")
        self.axes_ = draw(canvas, component) if kind == "modes" else draw(canvas)
        self.figure_ = self.axes_.flat[0].figure
        return self

    # ------------------------------------------------------------------------ images

    def _panels(self, canvas, n_rows, n_columns, size=None, n_used=None):
        if size is None:
            height, width = self.templates.shape[-2:]
            size = IMAGE, IMAGE * min(height / width, 4.0) + 0.05
        return make_panels(canvas.pyplot, canvas.ax, (n_rows, n_columns), size, n_used)

    def _row_of_images(self, canvas, images, titles):
        """Draw images row by row, all with the colours of the templates."""
        n_columns = min(len(images), COLUMNS)
        n_rows = -(-len(images) // n_columns)
        axes = self._panels(canvas, n_rows, n_columns, n_used=len(images))
        limits = _limits(self.templates)
        for panel, image, title in zip(axes, images, titles, strict=True):
            _show(panel, image, canvas.cmap, limits)
            panel.set_title(title, fontsize="small")
        return axes

    def _templates_of_images(self, canvas):
        return self._row_of_images(canvas, self.templates, self.names)

    def _samples_of_images(self, canvas):
        several = len(self.templates) > 1
        titles = [self.names[t] if several else "" for t in self.sample_labels]
        return self._row_of_images(canvas, self.samples, titles)

    def _modes_of_images(self, canvas, t):
        fields, images = self.mode_fields[t], self.mode_images[t]
        axes = self._panels(canvas, len(fields), len(self.deviations))
        limits = _limits(self.templates)
        for row, column in np.ndindex(axes.shape):
            panel, deviation = axes[row, column], self.deviations[column]
            _show(panel, images[row, column], canvas.cmap, limits)
            _draw_lattice(panel, deviation * fields[row])
            if row == 0:
                panel.set_title(f"{deviation:+g} sd" if deviation else "template")
            if column == 0:
                panel.set_ylabel(_mode_name(row, self.mode_shares[t, row]))
        return axes

    def _residuals_of_images(self, canvas):
        n = len(self.images)
        axes = self._panels(canvas, 3, n)
        residuals = self.images - self.fits
        limits = _limits(np.concatenate([self.images, self.fits]))
        most = np.nanmax(np.abs(residuals), initial=1e-12)
        for i in range(n):
            _show(axes[0, i], self.images[i], canvas.cmap, limits)
            _show(axes[1, i], self.fits[i], canvas.cmap, limits)
            _draw_lattice(axes[1, i], self.fields[i])
            shown = _show(axes[2, i], residuals[i], "RdBu_r", (-most, most))
            if len(self.templates) > 1:
                axes[0, i].set_title(self.names[self.labels[i]], fontsize="small")
        for panel, name in zip(axes[:, 0], ("image", "fit", "residual"), strict=True):
            panel.set_ylabel(name)
        axes[0, 0].figure.colorbar(shown, ax=list(axes[2]), shrink=0.9)
        return axes

    # ------------------------------------------------------------------------ curves

    def _templates_of_curves(self, canvas):
        T = len(self.templates)
        n_columns = min(T, 4)
        axes = self._panels(canvas, -(-T // n_columns), n_columns, CURVE, T)
        for panel, curve, name in zip(axes, self.templates, self.names, strict=True):
            panel.plot(curve)
            panel.set(title=name, xlabel="position")
        return axes

    def _samples_of_curves(self, canvas):
        axes = self._templates_of_curves(canvas)
        for t, panel in enumerate(axes):
            panel.lines[0].set(color="black", linewidth=2, zorder=3)
            if (self.sample_labels == t).any():
                panel.plot(self.samples[self.sample_labels == t].T, linewidth=0.8)
        return axes

    def _modes_of_curves(self, canvas, t):
        fields, images = self.mode_fields[t], self.mode_images[t]
        axes = self._panels(canvas, 2, len(fields), CURVE)
        ends = max(np.abs(self.deviations).max(), 1e-12)
        colours = canvas.pyplot.get_cmap("coolwarm")
        for row, deviation in enumerate(self.deviations):
            label = f"{deviation:+g} sd" if deviation else "template"
            colour = colours(0.5 + 0.5 * deviation / ends) if deviation else "black"
            for mode in range(len(fields)):
                style = {"color": colour, "label": label}
                axes[0, mode].plot(images[mode, row], **style)
                axes[1, mode].plot(deviation * fields[mode, 0], **style)
        for mode in range(len(fields)):
            axes[0, mode].set_title(_mode_name(mode, self.mode_shares[t, mode]))
            axes[1, mode].set_xlabel("position")
        # Beside the panels, since curves may be anywhere in them.
        axes[0, -1].legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
        axes[0, 0].set_ylabel("deformed template")
        axes[1, 0].set_ylabel("displacement")
        return axes

    def _residuals_of_curves(self, canvas):
        n = len(self.images)
        axes = self._panels(canvas, 2, n, CURVE)
        most = 1.05 * np.nanmax(np.abs(self.images - self.fits), initial=1e-12)
        for i in range(n):
            axes[0, i].plot(self.images[i], color="0.6", label="signal")
            axes[0, i].plot(self.fits[i], color="tab:orange", label="fit")
            axes[1, i].plot(self.images[i] - self.fits[i], color="tab:red")
            axes[1, i].axhline(0, color="0.6", linewidth=0.8)
            axes[1, i].set(xlabel="position", ylim=(-most, most))
            if len(self.templates) > 1:
                axes[0, i].set_title(self.names[self.labels[i]])
        axes[0, -1].legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
        axes[1, 0].set_ylabel("residual")
        return axes


def _mode_name(mode, share):
    return f"mode {mode + 1} ({share:.0%})"


def _plane(image):
    """Return an image, or the middle slice of a volume."""
    return image if image.ndim == 2 else image[len(image) // 2]


def _limits(images):
    """Return the darkest and the brightest value that was observed."""
    observed = images[np.isfinite(images)]
    return (observed.min(), observed.max()) if observed.size else (0.0, 1.0)


def _show(panel, image, cmap, limits):
    panel.set(xticks=[], yticks=[])
    return panel.imshow(_plane(image), cmap=cmap, vmin=limits[0], vmax=limits[1])


def _draw_lattice(panel, field):
    """Draw the lines on which a coordinate of ``x - Phi(x)`` is constant."""
    if len(field) == 3:
        field = field[1:, field.shape[1] // 2]
    shape = field.shape[1:]
    if min(shape) < 2:
        return
    spacing = max(shape) / LATTICE_LINES
    limits = panel.get_xlim(), panel.get_ylim()
    for positions, displacement, side in zip(
        np.indices(shape), field, shape, strict=True
    ):
        places = positions - displacement
        numbers = np.arange(-2 * LATTICE_LINES, 2 * LATTICE_LINES + 1)
        levels = (side - 1) / 2 + spacing * numbers
        levels = levels[(places.min() < levels) & (levels < places.max())]
        if len(levels):
            panel.contour(places, levels=levels, **LATTICE)
    panel.set(xlim=limits[0], ylim=limits[1])


def _parts_of(estimator, X, n_modes, deviations, n_samples, noise):
    """Return the parameters of a display."""
    models, names = _models(estimator)
    if models[0].grid_.n_channels > 1:
        raise ValueError("displays of templates show one channel: draw templates_")
    shape = models[0].image_shape_
    n_modes = min(n_modes, models[0].grid_.n_latents)
    lists: dict[str, list] = defaultdict(list)
    first = 0
    for model in models:
        T = len(model.templates_)
        lists["templates"].extend(model.templates_)
        for t in range(T):
            Z, shares = model.principal_deformations(n_modes, t)
            deformed = model.mean_deformations_[t] + Z[:, None] * deviations[:, None]
            deformed = deformed.reshape(-1, Z.shape[1])
            images = model.inverse_transform(deformed, t)
            lists["mode_images"].append(images.reshape(len(Z), len(deviations), *shape))
            lists["mode_fields"].append(model.grid_.field(Z))
            lists["mode_shares"].append(shares)
        samples, labels = model.sample(n_samples, noise=noise)
        lists["samples"].extend(samples.reshape(-1, *shape))
        lists["sample_labels"].extend(labels + first)
        first += T
    data = {name: np.stack(values) for name, values in lists.items()}
    data |= {"names": names, "deviations": deviations}
    return data if X is None else data | _explained(estimator, models, X)


def _models(estimator):
    """Return the models of an estimator, and names of all their templates."""
    if hasattr(estimator, "templates_"):
        weights = estimator.weights_
        if len(weights) == 1:
            return [estimator], ["template"]
        return [estimator], [f"{t} ({share:.0%})" for t, share in enumerate(weights)]
    if not hasattr(estimator, "estimators_"):
        raise TypeError(
            "estimator must be a DeformableTemplateEstimator or a "
            f"DeformableTemplateClassifier, got {type(estimator).__name__}"
        )
    names = []
    for label, model in zip(estimator.classes_, estimator.estimators_, strict=True):
        T = len(model.weights_)
        names += [str(label) if T == 1 else f"{label}, {t}" for t in range(T)]
    return estimator.estimators_, names


def _explained(estimator, models, X):
    """Return images, and their reconstructions by the most probable templates."""
    shape = models[0].image_shape_
    images = np.asarray(X, dtype=float)
    images = images.reshape(len(images), *shape)
    which = np.zeros(len(images), dtype=int)
    if len(models) > 1 or hasattr(estimator, "estimators_"):
        which = np.searchsorted(estimator.classes_, estimator.predict(X))
    starts = np.cumsum([0, *(len(model.templates_) for model in models)])
    fits = np.empty_like(images)
    fields = np.empty((len(images), len(shape), *shape))
    labels = np.empty(len(images), dtype=int)
    for number in np.unique(which):
        rows, model = np.flatnonzero(which == number), models[number]
        fitted, class_images = model.fitted_, images[rows].reshape(len(rows), -1)
        explained, fields[rows], components = fitted.explained(class_images)
        fits[rows] = explained.reshape(-1, *shape)
        labels[rows] = starts[number] + components
    return {"images": images, "fits": fits, "fields": fields, "labels": labels}
