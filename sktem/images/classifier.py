"""Common base of the classifiers of images: answers from scores and distances."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score

from sktem.choices import KnownParametersMixin
from sktem.e_step.random import seed_sequence
from sktem.estimators.by_blocks import needed_in_memory
from sktem.images.classes import (
    certainties_of,
    class_log_proba,
    given_temperature,
    log_of,
    resolved_prior,
)
from sktem.images.patches import Patches
from sktem.images.pixels import PixelRegression
from sktem.images.rows import answer, found_images
from sktem.images.units import checked_images, labelled_images
from sktem.images.usual import UsualImages
from sktem.links import DocumentationLinkMixin
from sktem.rows.answers import in_memory

__all__ = ["ImageClassifier", "integer_seed"]


class ImageClassifier(
    KnownParametersMixin, DocumentationLinkMixin, ClassifierMixin, BaseEstimator, ABC
):
    """Base of classifiers that score images for each class, and judge how odd they are.

    They have ``_scores(X)``, which returns scores of shape (n, n_classes) and distances
    of checked images, and are fitted with ``_layout``, ``_patches`` and ``_usual``, the
    looks of the images, and ``_typical``, the distances of those that were left out.
    """

    _layout: Any
    _typical: Any
    _patches: Patches
    _usual: UsualImages
    classes_: np.ndarray
    class_prior: Any
    class_prior_: np.ndarray
    temperature: Any
    temperature_: float

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags

    def predict_joint_log_proba(self, X, *, out=None):
        """Return tempered scores plus the logarithms of the priors.

        Outliers are not taken into account, see :meth:`outlier_proba`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images, or anything that :ref:`can be read in blocks <rows-estimators>`.
        out : array of shape (n_samples, n_classes) or None, default=None
            Where to write the result, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or iterator
            Unnormalised log-probabilities of the classes. An iterator over blocks of
            them if X is read in blocks and ``out`` is not given.
        """
        return answer(self, X, lambda X: self._judged(X)[0], out)

    def predict_log_proba(self, X, *, out=None):
        """Return log-probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images, or anything that :ref:`can be read in blocks <rows-estimators>`.
        out : array of shape (n_samples, n_classes) or None, default=None
            Where to write the result, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or iterator
            Log-probabilities in the order of ``classes_``. An iterator over blocks of
            them if X is read in blocks and ``out`` is not given.
        """
        return answer(self, X, self._logs, out)

    def predict_proba(self, X, *, out=None):
        """Return probabilities of the classes.

        Images that are unlike all training images get the prior probabilities: see
        :meth:`outlier_proba`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images, or anything that :ref:`can be read in blocks <rows-estimators>`.
        out : array of shape (n_samples, n_classes) or None, default=None
            Where to write the result, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or iterator
            Probabilities in the order of ``classes_``. An iterator over blocks of them
            if X is read in blocks and ``out`` is not given.
        """
        return answer(self, X, lambda X: np.exp(self._logs(X)), out)

    def predict(self, X, *, out=None):
        """Return the most probable class of each image.

        Images that are unlike all training images are still given one of the classes;
        see :meth:`outlier_proba`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images, or anything that :ref:`can be read in blocks <rows-estimators>`.
        out : array of shape (n_samples,) or None, default=None
            Where to write the result, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples,) or iterator
            Labels. An iterator over blocks of them if X is read in blocks and ``out``
            is not given.
        """

        def labels(X):
            return self.classes_[self._judged(X)[0].argmax(axis=1)]

        return answer(self, X, labels, out)

    def outlier_proba(self, X, *, out=None):
        """Return the probabilities that images are unlike all training images.

        The model expects one outlier in a thousand images. The distances of other
        images from what was learned (see the notes on the class) are normally
        distributed, like those of the held-out training images. The probabilities are
        zero where no images were held out.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images, or anything that :ref:`can be read in blocks <rows-estimators>`.
        out : array of shape (n_samples,) or None, default=None
            Where to write the result, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples,) or iterator
            Probabilities. An iterator over blocks of them if X is read in blocks and
            ``out`` is not given.
        """
        return answer(self, X, lambda X: self._judged(X, asked=True)[1], out)

    def score(self, X, y, sample_weight=None):
        """Return the share of images whose class is predicted correctly.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images, or anything that :ref:`can be read in blocks <rows-estimators>`.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights.

        Returns
        -------
        float
            Mean accuracy.
        """
        predicted = in_memory(self.predict(X))
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    def _labelled(self, X, y, sample_weight, reason):
        """Return checked images and labels of a fit, which have to be in memory."""
        needed_in_memory(type(self).__name__, X, reason, found_images)
        data = labelled_images(self, X, y, sample_weight)
        self.classes_, self._layout, self._patches = data[3:]
        self.image_shape_ = data.layout.image_shape
        masses = np.bincount(data.labels, data.weights)
        self.class_prior_ = resolved_prior(self.class_prior, masses)
        return data

    def _calibrate(self, calibration, left_out, X, labels, weights, light=False):
        """Learn how probabilities follow from scores and distances of images left out.

        Where there are none (``left_out`` is None), a temperature is expected or given,
        and images are no outliers.
        """
        temperature = given_temperature(self.temperature)
        self._typical = None
        if left_out is not None:
            scores, distances = left_out
            log_prior = log_of(self.class_prior_)
            if temperature is None:
                temperature = calibration.temperature(
                    scores, log_prior, labels, weights
                )
            logs = scores / temperature + log_prior
            self._typical = calibration.typical(distances, logs, weights)
            contradicted = calibration.contradicted(scores, labels)
            self._usual.warn_of_errors(logs, labels, light, contradicted)
            PixelRegression().warn(X, labels, scores.argmax(axis=1) != labels)
        self.temperature_ = temperature or calibration.expected

    def _checked(self, X):
        return checked_images(self, X, self._layout)

    @abstractmethod
    def _scores(self, X):
        """Return scores (n, n_classes) and distances (n,) of checked images."""

    def _judged(self, X, asked=False):
        """Return tempered scores plus log-priors, and probabilities of outliers.

        Who asks for outliers is not warned of them, nor is anybody of patches where
        images with them are like those that were left out.
        """
        lost = self._patches.lost(X)
        X = np.where(lost, np.nan, X)
        scores, distances = self._scores(X)
        logs = scores / self.temperature_ + log_of(self.class_prior_)
        patched = lost.any(axis=1)
        if not self._is_usual(X[patched], distances[patched], logs[patched]):
            self._patches.warn_of(patched)
        odd = np.zeros(len(X))
        if self._typical is not None:
            odd = self._typical.outlier_proba(distances)
        if not asked and len(X):
            as_left_out = self._as_left_out(X, distances, logs)
            if len(X) < self._usual.several:
                self._usual.warn_of_odd(X, odd, self._typical, *as_left_out)
            else:
                labels = logs.argmax(axis=1)
                self._usual.warn_of_others(X, labels, self._typical, *as_left_out)
        return logs, odd

    def _is_usual(self, X, distances, logs):
        """Return whether several images resemble the images that were left out."""
        if self._typical is None or len(logs) < self._usual.several:
            return False
        as_left_out = self._as_left_out(X, distances, logs)
        return self._typical.difference(*as_left_out) is None

    def _as_left_out(self, X, distances, logs):
        """Return distances and certainties, as of images that were left out."""
        return distances, certainties_of(logs)

    def _logs(self, X):
        logs, odd = self._judged(X)
        return class_log_proba(logs, odd, self.class_prior_)


def integer_seed(random_state):
    """Return one seed for all parts of a fit."""
    return int(seed_sequence(random_state).generate_state(1)[0])
