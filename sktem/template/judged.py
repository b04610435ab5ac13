"""Checks at the end of a run over images: folds, noise and convergence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning
from sktem.images.units import n_copies_of
from sktem.schedules import steps_from
from sktem.template.fitted import FittedTemplate
from sktem.template.geometry.landmarks import geometry
from sktem.template.model.statistics import observed_counts

__all__ = [
    "BOUNDS",
    "Bounds",
    "Judged",
    "folds_of",
    "has_settled",
    "pixel_log_densities",
    "shares_of_folds",
    "warn_of_channels",
    "warn_of_pixels",
    "warn_of_repetition",
]


class Bounds(NamedTuple):
    """Thresholds of the warnings at the end of a run.

    Attributes
    ----------
    folds, many_folds : float
        Shares of pixels in folds above which a fit warns, and above which longer runs
        are not advised.
    coarse : float
        How much wider than usual the kernel of a template is that is to blame.
    least_passes : int
        Runs of fewer passes are too short to be judged.
    drift, drift_of_noise : float
        Changes over the last third of a run: of the template, relative to its deviation
        over the pixels, and of the logarithm of the noise variance, for steps that sum
        to several units.
    at_rest, drift_in_errors : float
        A template in much noise moves by more, as its chains do. Where the noise is at
        rest, within this share of what is too large, it may move by this share of the
        error that it has with this number of images: a sixth of its variance.
    copies, weight : float
        Share of the images that are exact copies of others, and a mean weight, or one
        over it, with which the prior counts for too little or too much.
    judged, compared : int
        Images that are judged, and that are compared with independent pixels, at most;
        fewer than an eighth of the latter are too few.
    behind, errors : float
        Nats a pixel by which these explain the images better, and standard errors
        beyond them, from which on a fit warns.
    least_variance : float
        Least variance of an independent pixel, as a share of the mean one: an even
        background is no finding.
    """

    folds: float = 0.05
    many_folds: float = 0.01
    coarse: float = 1.3
    least_passes: int = 20
    drift: float = 0.04
    drift_of_noise: float = 0.06
    at_rest: float = 0.25
    drift_in_errors: float = 0.4
    copies: float = 0.25
    weight: float = 10.0
    judged: int = 50
    compared: int = 40
    behind: float = 0.03
    errors: float = 2.0
    least_variance: float = 0.25


BOUNDS = Bounds()


def folds_of(model, params, Y, chains):
    """Return the shares of images with folds, and of pixels in folds."""
    if chains is not None and chains.values is not None:
        deformations, shares = model.parts(chains.values[:, 0])
        chosen = deformations[np.arange(len(deformations)), shares.argmax(axis=1)]
    else:
        chosen = model.modes_under(Y, params)[0]
    return shares_of_folds(model.grid, chosen)


def shares_of_folds(grid, deformations):
    """Return the share of deformations that fold, and of pixels that do."""
    folded = grid.jacobians(deformations) <= 0
    return float(folded.any(axis=1).mean()), float(folded.mean())


def warn_of_channels(X, n_channels):
    """Warn of channels that are equal."""
    first, *others = np.split(X, n_channels, axis=1)
    if others and all(np.array_equal(first, other, equal_nan=True) for other in others):
        warn_user(
            f"All {n_channels} channels are equal, and each of them counts as an "
            "observation of its own: deformations are followed too closely. Pass one "
            "of them.",
            FitWarning,
        )


def _varies(X, axis) -> bool:
    """Return whether observed values differ anywhere along an axis."""
    return bool((np.fmax.reduce(X, axis=axis) > np.fmin.reduce(X, axis=axis)).any())


def warn_of_repetition(X, sample_weight, bounds=BOUNDS):
    """Warn of images without contrast, of copies, and of unusual weights."""
    n_copies = n_copies_of(X, [0] * len(X))
    if observed_counts(X).max() > 1 and not _varies(X, axis=1):
        warn_user(
            "Each of the images holds one value alone, so that there is nothing to "
            "deform. Look at how they were read and scaled.",
            FitWarning,
        )
    elif n_copies > bounds.copies * len(X):
        warn_user(
            f"{n_copies} of {len(X)} images are exact copies of others, and each of "
            "them counts as an observation of its own: deformations are followed too "
            "closely. Pass every image once.",
            FitWarning,
        )
    if sample_weight is None:
        return
    weights = np.asarray(sample_weight, dtype=float)
    mean = weights[weights > 0].mean()
    if not 1 / bounds.weight <= mean <= bounds.weight:
        effects = "images outweigh the prior", "prior outweighs the images"
        warn_user(
            f"The weights of the images have the mean {mean:.3g}. A weight means "
            f"repetition: the {effects[int(mean < 1)]}. Divide the weights by their "
            "mean.",
            FitWarning,
        )


def pixel_log_densities(Y, least, weight=2.0):
    """Return log-densities of images under Gaussian pixels, learned from the others.

    Parameters
    ----------
    Y : ndarray of shape (n, n_pixels)
        Images, NaN where a pixel was not observed.
    least : float
        Least variance of a pixel, as a share of the mean variance.
    weight : float, default=2.0
        Observations that the mean variance counts for in that of every pixel.

    Returns
    -------
    ndarray of shape (n,)
        Log-densities of the observed pixels of each image, by means and variances of
        all other images.
    """
    observed = ~np.isnan(Y)
    values = np.where(observed, Y - np.nanmean(Y), 0.0)
    several = observed.sum(axis=0) > 1  # a mask may hide a pixel in all images
    pooled = float(np.nanvar(Y[:, several], axis=0, ddof=1).mean())
    n = np.maximum(observed.sum(axis=0) - observed, 1)
    sums, squares = (total.sum(axis=0) - total for total in (values, values**2))
    means = sums / n
    variances = (squares - n * means**2 + weight * pooled) / (n - 1 + weight)
    variances = np.maximum(variances, least * pooled) * (1 + 1 / n)
    logs = np.log(2 * np.pi * variances) + (values - means) ** 2 / variances
    return -0.5 * np.where(observed, logs, 0.0).sum(axis=1)


def warn_of_pixels(model, params, Y, bounds=BOUNDS):
    """Warn of images that independent pixels explain better than templates do."""
    Y = Y[np.linspace(0, len(Y) - 1, min(len(Y), bounds.compared)).astype(int)]
    Y = Y[~np.isnan(Y).all(axis=1)]
    # Where no pixel differs between images there is no density of any.
    if len(Y) < bounds.compared / 8 or not _varies(Y, axis=0):
        return
    gaps = pixel_log_densities(Y, bounds.least_variance)
    gaps -= model.log_likelihoods(Y, params)
    gaps /= observed_counts(Y)
    error = bounds.errors * gaps.std(ddof=1) / np.sqrt(len(gaps))
    if gaps.mean() > bounds.behind + error:
        warn_user(
            f"Gaussian pixels that are independent explain images better, by "
            f"{gaps.mean():.2g} nats a pixel: their noise is not the same everywhere, "
            "as in counts, or there is detail as fine as a pixel. Pass images of more "
            "pixels, take square roots of counts, or compare with a mixture whose "
            "covariances are diagonal.",
            FitWarning,
        )


class Judged(NamedTuple):
    """Figures of a fit that decide on warnings.

    Attributes
    ----------
    fold_rate, folded_pixels : float
        Shares of images whose deformation folds, and of pixels in folds.
    fitted : FittedTemplate
        The templates.
    """

    fold_rate: float
    folded_pixels: float
    fitted: FittedTemplate

    @classmethod
    def of(cls, attributes) -> Judged:
        """Return the figures of fitted attributes, by their names."""
        names = "fold_rate_", "folded_pixels_", "fitted_"
        return cls(*(attributes[name] for name in names))

    def drift_advice(self, odd=False) -> str:
        """Return advice about a run that has not settled, with odd images or not."""
        if odd:
            return "See to the images of the other warning first."
        if self.folded_pixels > BOUNDS.many_folds:
            return (
                f"A longer run would deform more, and {self.folded_pixels:.1%} of the "
                'pixels lie in folds already: try deformation="diffeomorphic", a '
                "larger prior_strength or a smaller deformation_scale, and compare the "
                "scores of images left out."
            )
        return (
            "Increase max_iter and compare the scores of images left out: with few "
            "images, a longer run may fit them too closely."
        )

    def fold_advice(self) -> str | None:
        """Return advice about folds, or None if too few pixels fold."""
        if not self.folded_pixels > BOUNDS.folds:
            return None
        grid = self.fitted.frame.grid
        usual = geometry(grid.image_shape, *["auto"] * 4).template_scale
        if grid.template_scale > BOUNDS.coarse * usual:
            return (
                "The template is too coarse to be sharp without contractions: increase "
                "template_landmarks."
            )
        advice = (
            "Decrease deformation_scale, increase prior_strength or deformation_width, "
            "or separate styles by more n_components."
        )
        model = self.fitted.model
        if not model.light and grid.n_channels == model.n_components == 1:
            advice += (
                " Where contrast or brightness differ between images, "
                'nuisances=("gain", "offset") explain them.'
            )
        return advice

    def warn_of_drift(self, odd=False):
        """Warn that a run has not settled, with odd images or not."""
        warn_user(
            "Template or noise still changed in the last third of the passes. "
            + self.drift_advice(odd),
            ConvergenceWarning,
        )

    def warn(self, n_images=np.inf):
        """Warn of more templates than images, and of many pixels in folds."""
        n_components = len(self.fitted.params.weights)
        if n_images < n_components:
            warn_user(
                f"n_components={n_components} templates of {n_images} images: "
                "some have no image of their own. Pass more images, or fewer "
                "n_components",
                FitWarning,
            )
        advice = self.fold_advice()
        if advice is not None:
            warn_user(
                f"{self.folded_pixels:.0%} of the pixels lie where deformations fold "
                f"over themselves, in {self.fold_rate:.0%} of the images, which have "
                f"no inverse there. {advice}",
                FitWarning,
            )


def has_settled(settings, state, bounds=BOUNDS):
    """Return whether template and noise had settled in the last third of a run."""
    if not state.compared or settings.max_passes < bounds.least_passes:
        return False
    (before, first), now = state.compared, state.params
    means = settings.model.means_of
    # Averages with small steps have covered only this share of what was left.
    count = state.solver.iteration - first
    steps = steps_from(settings.step_size, first + 1, count)
    covered = 1 - np.prod(1 - np.minimum(steps, 1))
    for t in range(len(now.weights)):
        if now.weights[t] * state.n_rows < 1:
            continue
        new = settings.model.grid.deformed(now.coefficients[t], means(now)[t])
        old = settings.model.grid.deformed(before.coefficients[t], means(before)[t])
        moved = np.sqrt(np.mean((new - old) ** 2))
        of_noise = abs(np.log(now.noise_variances[t] / before.noise_variances[t]))
        allowed = bounds.drift * new.std()
        allowed_of_noise = covered * bounds.drift_of_noise
        if of_noise < bounds.at_rest * allowed_of_noise:
            error = np.sqrt(now.noise_variances[t] / (now.weights[t] * state.n_rows))
            allowed = max(allowed, bounds.drift_in_errors * error)
        if moved > covered * allowed or of_noise > allowed_of_noise:
            return False
    return True
