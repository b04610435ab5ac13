"""Model and start from the parameters of templates."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.cluster import KMeans

from sktem.choices import check_choice, check_number
from sktem.e_step.random import seed_sequence
from sktem.images.patches import Patches
from sktem.images.shapes import Layout, rows_of
from sktem.images.units import units_of
from sktem.loop.state import RunSettings
from sktem.rows.held import carrier_of
from sktem.schedules import BurnInThenDecay
from sktem.template.geometry.grid import ImageGrid
from sktem.template.geometry.landmarks import GRIDS, geometry
from sktem.template.model.model import DeformableTemplateModel
from sktem.template.model.nuisances import Nuisances, checked_names
from sktem.template.model.statistics import observed_counts
from sktem.template.prior import DeformableTemplatePrior

__all__ = [
    "Frame",
    "TemplateFit",
    "TemplateSettings",
    "default_step",
    "seeds_of_runs",
    "starting_params",
]

#: Parameters of the geometry, which stay what they are when a fit is continued.
LANDMARKS = "template_landmarks", "deformation_landmarks"
WIDTHS = "template_scale", "deformation_width"


@dataclass(frozen=True)
class TemplateSettings:
    """Checked parameters of templates, and the layout of their images.

    Attributes
    ----------
    layout : Layout
        How images are laid out.
    n_components : int
        Number of templates.
    template_landmarks, deformation_landmarks : int, tuple of int or "auto"
        Landmarks.
    template_scale, deformation_width, deformation_scale : float or "auto"
        Widths of the kernels and expected displacements, in pixels.
    prior : DeformableTemplatePrior or None
        Prior.
    deformation : {"linear", "diffeomorphic"}
        Sums of displacements or flows of velocities.
    nuisances : tuple of str or None
        Nuisances of the images.
    initial_template : array-like or None
        Templates to start from, in the units of the images.
    covariance_type : {"full", "shared", "isotropic"}
        Covariance of the deformations.
    n_jobs : int or None
        Threads.
    displacement : float
        Displacements that are expected of images with sides up to 16, in pixels.
    """

    layout: Layout
    n_components: int
    template_landmarks: Any
    deformation_landmarks: Any
    template_scale: Any
    deformation_width: Any
    deformation_scale: Any
    prior: DeformableTemplatePrior | None
    deformation: str
    nuisances: Any
    initial_template: Any
    covariance_type: str
    n_jobs: int | None
    displacement: ClassVar[float] = 0.3

    @classmethod
    def of(cls, parameters, layout) -> TemplateSettings:
        """Return the settings of images of a layout from parameters by name."""
        names = [field.name for field in fields(cls)][1:]
        return cls(layout, **{name: parameters[name] for name in names})

    def check(self):
        """Raise if a parameter is out of its range."""
        check_number("n_components", self.n_components, Integral, 1)
        for name in LANDMARKS:
            value = getattr(self, name)
            if isinstance(value, str) and value != "auto":
                raise ValueError(
                    f'{name} must be "auto" or landmarks along the longest axis or '
                    f"along each, got {value!r}"
                )
        for name in (*WIDTHS, "deformation_scale"):
            value = getattr(self, name)
            if isinstance(value, str) and value != "auto":
                raise ValueError(f'{name} must be "auto" or a number, got {value!r}')
            if not isinstance(value, str):
                check_number(name, value, Real, 0, strict=True)
        if not isinstance(self.prior, DeformableTemplatePrior | None):
            raise ValueError(
                f"prior must be a DeformableTemplatePrior or None, got {self.prior!r}"
            )
        self.own_prior.check()
        kinds = ("full", "isotropic", "shared")
        check_choice("covariance_type", self.covariance_type, kinds)
        check_choice("deformation", self.deformation, tuple(GRIDS))
        checked_names(self.nuisances, 2)

    @property
    def own_prior(self) -> DeformableTemplatePrior:
        """The prior, or that of the defaults."""
        return DeformableTemplatePrior() if self.prior is None else self.prior

    @cached_property
    def grid(self) -> ImageGrid:
        """Geometry of the images."""
        layout = self.layout
        return geometry(
            layout.image_shape, self.template_landmarks, self.deformation_landmarks,
            self.template_scale, self.deformation_width, self.deformation,
            layout.n_channels,
        )  # fmt: skip

    def frame_of(self, X, sample_weight) -> Frame:
        """Return the frame of images that are to be fitted."""
        return Frame(self.grid, *units_of(X, sample_weight, self.layout))

    def check_continues(self, fitted):
        """Raise if these do not fit a template that is to be continued."""
        new, grid = self.grid, fitted.frame.grid
        changed = [n for n in LANDMARKS + WIDTHS if getattr(new, n) != getattr(grid, n)]
        if type(new) is not type(grid):
            changed.append("deformation")
        if checked_names(self.nuisances, new.n_axes) != fitted.nuisance_names:
            changed.append("nuisances")
        if self.n_components != len(fitted.params.weights):
            changed.append("n_components")
        if changed:
            raise ValueError(
                f"{', '.join(changed)} cannot change between fits that continue "
                "each other (warm_start and partial_fit)"
            )

    def model(self, grid, n_rows, start_at_mode=False, blocks=None):
        """Return the model of images of total weight ``n_rows``."""
        scale = self.deformation_scale
        if isinstance(scale, str):
            longest = max(self.layout.image_shape)
            scale = self.displacement * max(longest / 16, 1.0)
        names = checked_names(
            self.nuisances, grid.n_axes, grid.n_channels, self.n_components
        )
        return DeformableTemplateModel(
            grid,
            self.own_prior.resolved(grid, scale),
            self.n_components,
            self.covariance_type,
            n_rows=float(n_rows),
            start_at_mode=start_at_mode or bool(names),
            n_jobs=self.n_jobs,
            nuisances=Nuisances(grid, names) if names else None,
            blocks=blocks,
        )

    def initial_templates(self, frame):
        """Return the templates that the user starts from as standardised rows, if any.

        Those of averaged images are in standard units already.
        """
        if self.initial_template is None:
            return None
        T, layout = self.n_components, self.layout
        shape = layout.stack_of(np.zeros((1, frame.grid.n_pixels)), False).shape[1:]
        templates = np.asarray(self.initial_template, dtype=float)
        n_pixels, given_shape = int(np.prod(shape)), templates.shape
        alone = T == 1 and given_shape in (shape, (n_pixels,))
        if not alone and given_shape not in ((T, *shape), (T, n_pixels)):
            raise ValueError(
                f"initial_template must have shape {(T, *shape)}, got {given_shape}"
            )
        if not np.isfinite(templates).all():
            raise ValueError("initial_template contains NaN or infinity")
        rows, *_ = rows_of(
            templates.reshape(T, *shape), layout.image_shape, layout.channel_axis
        )
        return frame.standardised(rows)

    def coarser(self, shape, ratio, templates) -> TemplateSettings:
        """Return the settings of the same displacements in averaged images.

        Parameters
        ----------
        shape : tuple of int
            Pixels of averaged images.
        ratio : float
            Pixels of images to one of these.
        templates : ndarray or None
            Averaged templates to start from, (n_components, n_channels, ...).
        """
        nodes = self.template_landmarks
        if np.ndim(nodes):
            nodes = tuple(map(min, nodes, [side + 2 for side in shape]))

        def shorter(length):
            return length if isinstance(length, str) else length / ratio

        n_channels = self.layout.n_channels
        if templates is not None and n_channels == 1:
            templates = templates[:, 0]
        return replace(
            self,
            layout=Layout(tuple(shape), n_channels, 1 if n_channels > 1 else None),
            template_landmarks=nodes,
            deformation_landmarks=self.grid.deformation_landmarks,
            template_scale=shorter(self.template_scale),
            deformation_width=self.grid.deformation_width / ratio,
            deformation_scale=shorter(self.deformation_scale),
            initial_template=templates,
        )


class Frame(NamedTuple):
    """Geometry of images, and the standardisation of their intensities.

    Offset and scale are numbers, or arrays with one for each of several channels.
    Patches are those that images of the fit have, None where these were not looked for.
    """

    grid: ImageGrid
    offset: Any
    scale: Any
    patches: Patches | None = None

    def at_pixels(self, value):
        """Return a value of each channel, or one of all of them, for every pixel."""
        if self.grid.n_channels == 1:
            return value
        return np.repeat(value, self.grid.n_pixels // self.grid.n_channels)

    def observed(self, X):
        """Return images with NaN in patches of one value that those of the fit lack."""
        return X if self.patches is None else self.patches.missing(X)

    def standardised(self, X):
        """Return images in the units of the model."""
        if not carrier_of(X).in_memory:
            return X.mapped(self.standardised)
        return (X - self.at_pixels(self.offset)) / self.at_pixels(self.scale)

    def restored(self, Y):
        """Return images in their own units."""
        return self.at_pixels(self.offset) + self.at_pixels(self.scale) * Y

    def log_scales(self, Y):
        """Return the sum over observed pixels of the logarithms of the scales."""
        if self.grid.n_channels == 1:
            return observed_counts(Y) * np.log(self.scale)
        return ~np.isnan(Y) @ np.log(self.at_pixels(self.scale))

    def noise_variances(self, variances):
        """Return variances of the noise in units of the images."""
        if self.grid.n_channels == 1:
            return variances * self.scale**2
        return np.multiply.outer(variances, self.scale**2)


class TemplateFit(NamedTuple):
    """The settings of a run over images, and their frame."""

    settings: RunSettings
    frame: Frame


def starting_params(model, X, sample_weight, rng, templates=None):
    """Return starting parameters: about means of the images, or about templates."""
    start = _undeformed_params(model, X, sample_weight, rng)
    if templates is not None:
        template_params = model.params_of(templates, np.eye(model.n_components))
        start = replace(start, coefficients=template_params.coefficients)
    if model.blocks is None:
        return start
    Z = model.start_chains(X, start, rng)
    return model.maximize(model.mean_statistics(X, Z, sample_weight), start)


def seeds_of_runs(random_state, n_runs) -> list:
    """Return the seeds of runs; the first is that of a single run."""
    if n_runs == 1:
        return [random_state]
    others = np.random.default_rng(seed_sequence(random_state))
    return [random_state, *others.integers(2**31, size=n_runs - 1).tolist()]


def _undeformed_params(model, X, sample_weight, rng):
    """Return parameters about means of the images, or of k-means' clusters."""
    T = model.n_components
    if T == 1:
        return model.params_of(X, np.ones((len(X), 1)), sample_weight)
    filled = np.where(np.isnan(X), 0.0, X)
    distinct = len(np.unique(filled, axis=0))
    kmeans = KMeans(
        min(T, distinct), n_init=10, random_state=int(rng.integers(2**31))
    ).fit(filled, sample_weight=sample_weight)
    return model.params_of(X, np.eye(T)[kmeans.labels_], sample_weight)


def default_step(settings, n_rows, max_iter):
    """Return step 1 for half of the iterations, then a decay."""
    solver, per_epoch = settings.solver, 1.0
    if solver.n_index_sets:
        visits = solver.rows_per_iteration(
            n_rows, settings.batch_size, settings.sampler
        )
        # Every second pass of a solver with anchors goes into them.
        per_epoch = max(n_rows / visits / (1 + solver.anchored), 1.0)
    return BurnInThenDecay(n_burn_in=int(max_iter * per_epoch / 2), alpha=0.6)
