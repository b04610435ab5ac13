"""From the parameters of a deformable template estimator to a model and its start."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import KMeans

from sktem.choices import check_choice
from sktem.e_step.random import seed_sequence
from sktem.estimators.stochastic_em import drop_weightless
from sktem.images.shapes import Layout, is_flat, resolved_shape, rows_of
from sktem.images.units import checked_weights, units_of
from sktem.loop.state import RunSettings
from sktem.schedules import BurnInThenDecay
from sktem.template.geometry.grid import ImageGrid
from sktem.template.geometry.landmarks import GRIDS, geometry
from sktem.template.model.model import DeformableTemplateModel
from sktem.template.model.nuisances import Nuisances, checked_names
from sktem.template.model.priors import TemplatePriors
from sktem.template.model.statistics import observed_counts
from sktem.validation import validate_data

__all__ = [
    "Frame",
    "TemplateFit",
    "check_parameters",
    "check_same",
    "default_step",
    "initial_templates",
    "new_grid",
    "new_model",
    "seeds_of_runs",
    "starting_params",
    "validated",
]

#: Prior of the deformations: pixels for sides up to 16, and weight in images. Chosen by
#: the likelihood of other training images of handwritten digits.
EXPECTED_DISPLACEMENT, STRENGTH = 0.3, 50.0


def validated(estimator, X, sample_weight=None, *, reset):
    """Return images as rows of float64, and weights."""
    flat, given = is_flat(X), estimator.image_shape
    X, shape, n_channels = rows_of(
        X, given if reset else estimator.image_shape_, estimator.channel_axis
    )
    if not reset:
        estimator._layout.check_channels(n_channels)
    X = validate_data(
        estimator,
        X,
        reset=reset,
        dtype=np.float64,
        order="C",
        ensure_all_finite="allow-nan",
    )
    nothing = reset and bool(np.isnan(X).all())
    if reset:
        estimator.image_shape_ = resolved_shape(X, given, shape)
        estimator._layout = Layout(
            estimator.image_shape_, n_channels, estimator.channel_axis
        )
        estimator._flat = flat
        if nothing:
            raise ValueError("all pixels of all images are NaN: nothing to learn")
    if sample_weight is None:
        return X, None
    return drop_weightless(X, checked_weights(sample_weight, X))


def check_parameters(estimator):
    """Raise if a parameter of a template is out of its range."""
    estimator._check_number("n_components", Integral, 1)
    estimator._check_number("n_init", Integral, 1)
    estimator._check_number("verbose_interval", Integral, 1)
    if estimator.n_steps is not None:
        estimator._check_number("n_steps", Integral, 1)
    for name in ("noise_prior_strength", "weight_concentration"):
        estimator._check_number(name, Real, 0)
    estimator._check_number("noise_prior_scale", Real, 0, strict=True)
    for name in ("template_landmarks", "deformation_landmarks"):
        value = getattr(estimator, name)
        if isinstance(value, str) and value != "auto":
            raise ValueError(
                f'{name} must be "auto" or landmarks along the longest axis or '
                f"along each, got {value!r}"
            )
    for name in ("template_scale", "deformation_width", "deformation_scale"):
        _check_auto(estimator, name, strict=True)
    _check_auto(estimator, "prior_strength", strict=False)
    if estimator.template_prior is not None:
        estimator._check_number("template_prior", Real, 0, strict=True)
    kinds = ("full", "isotropic", "shared")
    check_choice("covariance_type", estimator.covariance_type, kinds)
    check_choice("deformation", estimator.deformation, tuple(GRIDS))
    checked_names(estimator.nuisances, 2)


def _check_auto(estimator, name, *, strict):
    value = getattr(estimator, name)
    if isinstance(value, str):
        if value != "auto":
            raise ValueError(f'{name} must be "auto" or a number, got {value!r}')
        return
    estimator._check_number(name, Real, 0, strict=strict)


def new_grid(estimator):
    """Return the geometry of images of the fitted shape."""
    return geometry(
        estimator.image_shape_,
        estimator.template_landmarks,
        estimator.deformation_landmarks,
        estimator.template_scale,
        estimator.deformation_width,
        estimator.deformation,
        estimator._layout.n_channels,
    )


def nuisances_of(estimator, grid) -> Nuisances | None:
    """Return the nuisances of images that an estimator has, if any."""
    names = checked_names(
        estimator.nuisances, grid.n_axes, grid.n_channels, estimator.n_components
    )
    return Nuisances(grid, names) if names else None


def check_same(estimator):
    """Raise if the parameters no longer fit the templates to be continued."""
    new, old = new_grid(estimator), estimator.grid_
    names = (
        "template_landmarks",
        "deformation_landmarks",
        "template_scale",
        "deformation_width",
    )
    changed = [n for n in names if getattr(new, n) != getattr(old, n)]
    if type(new) is not type(old):
        changed.append("deformation")
    if checked_names(estimator.nuisances, new.n_axes) != estimator._nuisance_names:
        changed.append("nuisances")
    if estimator.n_components != len(estimator.weights_):
        changed.append("n_components")
    if changed:
        raise ValueError(
            f"{', '.join(changed)} cannot change between fits that continue "
            "each other (warm_start and partial_fit)"
        )


class Frame(NamedTuple):
    """Geometry of images, and the standardisation of their intensities.

    Offset and scale are numbers, or arrays with one for each of several channels.
    """

    grid: ImageGrid
    offset: Any
    scale: Any

    @classmethod
    def of(cls, estimator, X, sample_weight) -> Frame:
        """Return the frame of images that are to be fitted."""
        return cls(new_grid(estimator), *units_of(X, sample_weight, estimator._layout))

    @classmethod
    def fitted(cls, estimator) -> Frame:
        """Return the frame of a fitted estimator."""
        return cls(estimator.grid_, estimator.offset_, estimator.scale_)

    def at_pixels(self, value):
        """Return a value of each channel, or one of all of them, for every pixel."""
        if self.grid.n_channels == 1:
            return value
        return np.repeat(value, self.grid.n_pixels // self.grid.n_channels)

    def standardised(self, X):
        """Return images in the units of the model."""
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


def new_model(estimator, grid, n_rows, start_at_mode=False, blocks=None):
    """Return the model of an estimator for images of total weight ``n_rows``."""
    scale, strength = estimator.deformation_scale, estimator.prior_strength
    if isinstance(scale, str):
        scale = EXPECTED_DISPLACEMENT * max(max(estimator.image_shape_) / 16, 1.0)
    priors = TemplatePriors(
        deformation_scale=float(scale),
        strength=float(STRENGTH if isinstance(strength, str) else strength),
        template_scale=np.inf if estimator.template_prior is None else
        float(estimator.template_prior),
        noise_scale=float(estimator.noise_prior_scale),
        noise_strength=float(estimator.noise_prior_strength) * grid.n_pixels,
        weight_concentration=float(estimator.weight_concentration),
        noise_floor=1e-6,
    )  # fmt: skip
    nuisances = nuisances_of(estimator, grid)
    return DeformableTemplateModel(
        grid,
        priors,
        estimator.n_components,
        estimator.covariance_type,
        n_rows=float(n_rows),
        start_at_mode=start_at_mode or nuisances is not None,
        n_jobs=estimator.n_jobs,
        nuisances=nuisances,
        blocks=blocks,
    )


def starting_params(model, X, sample_weight, rng, templates=None):
    """Return starting parameters: about means of the images, or about templates."""
    start = _undeformed_params(model, X, sample_weight, rng)
    if templates is not None:
        own = model.params_of(templates, np.eye(model.n_components))
        start = replace(start, coefficients=own.coefficients)
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


def initial_templates(estimator, frame):
    """Return the templates that the user starts from as standardised rows, or None."""
    given = estimator.initial_template
    if given is None:
        return None
    T, layout = estimator.n_components, estimator._layout
    shape = layout.stack_of(np.zeros((1, frame.grid.n_pixels)), False).shape[1:]
    given = np.asarray(given, dtype=float)
    n_pixels, given_shape = int(np.prod(shape)), given.shape
    alone = T == 1 and given_shape in (shape, (n_pixels,))
    if not alone and given_shape not in ((T, *shape), (T, n_pixels)):
        raise ValueError(
            f"initial_template must have shape {(T, *shape)}, got {given_shape}"
        )
    if not np.isfinite(given).all():
        raise ValueError("initial_template contains NaN or infinity")
    rows, *_ = rows_of(
        given.reshape(T, *shape), layout.image_shape, layout.channel_axis
    )
    return frame.standardised(rows)


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
