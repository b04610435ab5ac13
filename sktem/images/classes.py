"""Probabilities of the classes of images, and of images that are like none of them."""

from __future__ import annotations

from numbers import Real
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from sktem.choices import did_you_mean, is_auto

__all__ = [
    "Calibration",
    "Typical",
    "certainties_of",
    "class_log_proba",
    "given_temperature",
    "log_losses",
    "log_of",
    "resolved_prior",
]


class Typical(NamedTuple):
    """Usual distances and certainties of images that were left out.

    Attributes
    ----------
    mean, sd : float
        Moments of the distances of images that were left out.
    certainty, certainty_sd : float
        Moments of the largest probability of a class of these images.
    n_images : int
        Their number.
    rare : float
        Share of images that are like none of the training images.
    farther, less_certain : float
        By how many standard deviations distances on the whole have to be larger, and by
        how much certainties less, to be reported.
    moved : float
        Share of these that is enough where objects are out of place.
    errors, most : float
        By how many standard errors they have to be so beside, and the standard
        deviations that a single distance counts at most.
    """

    mean: float
    sd: float
    certainty: float
    certainty_sd: float
    n_images: int
    rare: float = 1e-3
    farther: float = 0.55
    less_certain: float = 0.02
    moved: float = 0.4
    errors: float = 1.75
    most: float = 3.0

    def outlier_proba(self, distances) -> np.ndarray:
        """Return probabilities of being none of them: far beyond a normal tail."""
        excess = np.clip((distances - self.mean) / self.sd, 0.0, 30.0)
        return self.rare / (self.rare + np.exp(-0.5 * excess**2))

    def difference(self, distances, certainties, is_moved=False, places=False):
        """Return a phrase on the difference from images that were left out, or None.

        `is_moved` says whether objects are out of place, and `places` whether that
        alone makes distances larger.
        """
        n, share = len(distances), self.moved if is_moved else 1.0
        error = self.errors * np.sqrt(1 / n + 1 / self.n_images)
        excess = (distances - self.mean) / self.sd
        farther = float(np.clip(excess, -self.most, self.most).mean())
        if farther > self.farther * (share if places else 1.0) + error:
            return (
                f"are farther from the training images by {farther:.1f} standard "
                "deviations (see outlier_proba)"
            )
        certainty = float(certainties.mean())
        # Of few images that were left out all may be certain by chance.
        squares = n * certainties.var() + self.n_images * self.certainty_sd**2
        error *= np.sqrt(squares / (n + self.n_images))
        if self.certainty - certainty > self.less_certain * share + error:
            return f"have labels with a probability of {certainty:.0%} on average"
        return None


def log_of(probabilities) -> np.ndarray:
    """Return logarithms, minus infinity for zero."""
    with np.errstate(divide="ignore"):
        return np.log(probabilities)


def log_losses(scores, temperature, log_prior, labels) -> np.ndarray:
    """Return minus the log-probability of the class of each image."""
    tempered = scores / temperature + log_prior
    label_scores = tempered[np.arange(len(scores)), labels]
    return np.nan_to_num(logsumexp(tempered, axis=1) - label_scores, posinf=1e6)


class Calibration(NamedTuple):
    """Calibration of probabilities by images that were left out.

    Attributes
    ----------
    bounds : tuple of float
        Logarithms of the least and of the largest divisor of scores.
    least_sd : float
        Least standard deviation of distances.
    expected, deviation : float
        Divisor that a prior expects, and standard deviation of its logarithm. Where all
        of few images are right, they alone would ask for no doubt at all. An infinite
        deviation is no prior.
    sure : float
        By how much the score of another class is larger where a label is surely wrong.
    """

    bounds: tuple
    least_sd: float
    expected: float = 1.0
    deviation: float = np.inf
    sure: float = np.inf

    def contradicted(self, scores, labels) -> float:
        """Return the share of images that surely look like those of another class."""
        gaps = scores.max(axis=1) - scores[np.arange(len(scores)), labels]
        return float((gaps > self.sure).mean())

    def temperature(self, scores, log_prior, labels, weights) -> float:
        """Return the divisor of scores for the least log-loss.

        Parameters
        ----------
        scores : ndarray of shape (n, n_classes)
            Scores or log-likelihoods of images that were left out.
        log_prior : ndarray of shape (n_classes,)
            Logarithms of the prior probabilities.
        labels : ndarray of int of shape (n,)
            Classes.
        weights : ndarray of shape (n,)
            Weights.

        Returns
        -------
        float
            The divisor.
        """

        def loss(log_temperature):
            losses = log_losses(scores, np.exp(log_temperature), log_prior, labels)
            gap = (log_temperature - np.log(self.expected)) / self.deviation
            return weights @ losses + 0.5 * gap**2

        optimum = minimize_scalar(loss, bounds=self.bounds, method="bounded")
        return float(np.exp(optimum.x))

    def typical(self, distances, joint_logs, weights) -> Typical:
        """Return the moments of images that were left out."""
        mean, sd = _moments(distances, weights)
        certainty, of_certainty = _moments(certainties_of(joint_logs), weights)
        sd = max(sd, self.least_sd)
        return Typical(mean, sd, certainty, of_certainty, len(weights))


def certainties_of(joint_logs) -> np.ndarray:
    """Return the largest probability of a class of each image."""
    return np.exp(joint_logs.max(axis=1) - logsumexp(joint_logs, axis=1))


def _moments(values, weights):
    """Return weighted mean and standard deviation."""
    mean = np.average(values, weights=weights)
    variance = np.average((values - mean) ** 2, weights=weights)
    return float(mean), float(np.sqrt(variance))


def given_temperature(temperature) -> float | None:
    """Return a temperature as a number, or None for "auto"."""
    if is_auto(temperature):
        return None
    if not isinstance(temperature, Real) or not float(temperature) > 0.0:
        raise ValueError(f'temperature must be "auto" or > 0, got {temperature!r}')
    return float(temperature)


def class_log_proba(joint_logs, outlier_proba, class_prior) -> np.ndarray:
    """Return log-probabilities of classes: those of the prior for outliers."""
    logs = joint_logs - logsumexp(joint_logs, axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        usual = np.log1p(-outlier_proba)
    odd = log_of(outlier_proba)[:, None]
    return np.logaddexp(logs + usual[:, None], log_of(class_prior) + odd)


def resolved_prior(class_prior, masses) -> np.ndarray:
    """Return the prior probabilities of the classes.

    Parameters
    ----------
    class_prior : {"empirical", "uniform"} or array-like of shape (n_classes,)
        Parameter of a classifier.
    masses : ndarray of shape (n_classes,)
        Weights of the images of each class.

    Returns
    -------
    ndarray of shape (n_classes,)
        Probabilities.
    """
    n_classes = len(masses)
    if isinstance(class_prior, str):
        if class_prior == "uniform":
            return np.full(n_classes, 1 / n_classes)
        if class_prior == "empirical":
            return masses / masses.sum()
        raise ValueError(
            'class_prior must be "empirical", "uniform" or probabilities, got '
            f"{class_prior!r}{did_you_mean(class_prior, ('empirical', 'uniform'))}"
        )
    prior = np.asarray(class_prior, dtype=float)
    if prior.shape != (n_classes,) or (prior < 0).any() or not prior.sum() > 0:
        raise ValueError(
            f"class_prior must hold {n_classes} non-negative numbers, got "
            f"{class_prior!r}"
        )
    return prior / prior.sum()
