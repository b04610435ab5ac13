"""Deformations of images: features, registration, warping, modes and samples."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import map_coordinates
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from sktem.e_step.random import seed_sequence

__all__ = ["TemplateImages"]

#: Chains of `transform`: they start at modes; states are averaged after a few moves.
BURN_IN, AVERAGED, SPACING = 10, 60, 2

#: Fixed-point steps that invert ``x - Phi(x)``.
INVERSION_STEPS = 30


class TemplateImages(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Methods of a fitted template that return deformations or images."""

    def _fitted_model(self):
        check_is_fitted(self, "coefficients_")
        return self._new_model(self.grid_, 1.0), self._params()

    def _standardised(self, X):
        """Check images and return them standardised, as rows."""
        check_is_fitted(self, "coefficients_")
        X, _ = self._validate(X, reset=False)
        with np.errstate(over="ignore"):
            Y = (X - self._offset) / self._scale
        # The squares of larger values would overflow.
        return np.clip(Y, -1e100, 1e100)

    def _best_modes(self, Y):
        """Return modes under the most probable component, and the components."""
        return self._modes_under(*self._fitted_model(), Y)

    @staticmethod
    def _modes_under(model, params, Y):
        """Return modes under the most probable component, and the components."""
        found = [model.search_modes(Y, params, t) for t in range(len(params.weights))]
        logs = np.stack([log for _, log in found], axis=1) + np.log(params.weights)
        labels = np.where(np.isnan(logs), -np.inf, logs).argmax(axis=1)
        Z = np.stack([modes for modes, _ in found], axis=1)
        return Z[np.arange(len(Y)), labels], labels

    def transform(self, X):
        """Return the posterior mean of each image's deformation.

        The mean is taken over a Markov chain of 130 Langevin steps, which starts at the
        posterior mode. For a mixture, it is the deformation of the most probable
        template.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images.

        Returns
        -------
        ndarray of shape (n_samples, n_latents)
            Coefficients of the landmarks, in pixels: those of all landmarks along the
            first axis of the image, then along the second.
        """
        Y = self._standardised(X)
        model, params = self._fitted_model()
        modes, labels = self._best_modes(Y)
        means = np.empty_like(modes)
        for t in np.unique(labels):
            rows = np.flatnonzero(labels == t)
            means[rows] = model.posterior_mean(
                Y[rows], params, t, modes[rows], BURN_IN, AVERAGED, SPACING
            )
        return means

    def modes_of(self, X):
        """Return the most probable deformation of each image.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images.

        Returns
        -------
        ndarray of shape (n_samples, n_latents)
            Posterior modes, found by Levenberg-Marquardt steps while the noise is
            lowered to its estimate; images that are explained badly are searched
            several times.
        """
        return self._best_modes(self._standardised(X))[0]

    def _check_deformations(self, Z):
        check_is_fitted(self, "coefficients_")
        Z = check_array(Z, dtype=np.float64)
        if Z.shape[1] != self.grid_.n_latents:
            raise ValueError(
                f"Z must have {self.grid_.n_latents} columns, got {Z.shape[1]}"
            )
        return Z

    def _check_components(self, component, n):
        components = np.broadcast_to(np.asarray(component, dtype=int), (n,))
        T = len(self.weights_)
        if n and not (0 <= components.min() and components.max() < T):
            raise ValueError(f"component must be in 0, ..., {T - 1}, got {component!r}")
        return components

    def inverse_transform(self, Z, component=0):
        """Return images of deformed templates, without noise.

        Parameters
        ----------
        Z : array-like of shape (n_samples, n_latents)
            Deformations.
        component : int or array-like of int, default=0
            Which template, for all or for each.

        Returns
        -------
        ndarray of shape (n_samples, n_pixels)
            Images, as rows.
        """
        Z = self._check_deformations(Z)
        components = self._check_components(component, len(Z))
        images = np.empty((len(Z), self.grid_.n_pixels))
        for row, t in enumerate(components):
            images[row] = self.grid_.deformed(self.coefficients_[t], Z[row])
        return self._offset + self._scale * images

    def deformation_fields(self, X):
        """Return the displacement of every pixel of each image.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images.

        Returns
        -------
        ndarray of shape (n_samples, n_axes, ...)
            ``Phi(x)`` in pixels along each axis: the pixel at x shows the template at
            ``x - Phi(x)``.
        """
        return self.grid_.field(self.modes_of(X))

    def min_jacobians(self, X):
        """Return the least Jacobian determinant of each image's deformation.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images.

        Returns
        -------
        ndarray of shape (n_samples,)
            Least determinant of the derivative of ``x - Phi(x)`` over the pixels; at
            most 0 where the deformation folds.
        """
        return self.grid_.min_jacobians(self.modes_of(X))

    def register(self, X):
        """Carry each image back to the template.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images.

        Returns
        -------
        ndarray of shape (n_samples, n_pixels)
            Images as they would be without deformation, as rows. Pixels that were not
            observed are filled with the deformed template.
        """
        Z, labels = self._best_modes(self._standardised(X))
        X, _ = self._validate(X, reset=False)
        missing = np.isnan(X)
        if missing.any():
            X = np.where(missing, self.inverse_transform(Z, labels), X)
        return self.warp(X, Z, labels, to_template=True)

    def warp(self, other, Z, component=0, *, to_template=False, order=1):
        """Carry masks, labels or other channels along with deformations.

        Parameters
        ----------
        other : array-like of shape (n_pixels,), image_shape, or those of n images
            What belongs to the template as ``templates_`` shows it (or to each image,
            with ``to_template``); one for all deformations, or one for each.
        Z : array-like of shape (n_samples, n_latents)
            Deformations.
        component : int or array-like of int, default=0
            Of which template, for all or for each.
        to_template : bool, default=False
            From the image to the template instead of from the template to the image.
        order : int, default=1
            Order of the interpolating spline: 0 for labels and masks, 1, or 3.

        Returns
        -------
        ndarray of shape (n_samples, n_pixels)
            What was carried along, as rows. Beyond the border the nearest pixel counts.
        """
        Z = self._check_deformations(Z)
        components = self._check_components(component, len(Z))
        other = np.asarray(other, dtype=float)
        shape, n_pixels = self.image_shape_, self.grid_.n_pixels
        if other.size not in (n_pixels, n_pixels * len(Z)):
            raise ValueError(
                f"other must hold one or {len(Z)} images of {n_pixels} pixels, got "
                f"shape {other.shape}"
            )
        images = other.reshape(-1, *shape)
        images = np.broadcast_to(images, (len(Z), *shape))
        centre = np.array(self.grid_.half_widths)[:, None]
        warped = np.empty((len(Z), n_pixels))
        for row, t in enumerate(components):
            # The template is shown at the mean deformation.
            z, mean = Z[row], self.mean_deformations_[t]
            if to_template:
                positions = self._inverse(z, self.grid_.moved(mean))
            else:
                positions = self._inverse(mean, self.grid_.moved(z))
            warped[row] = map_coordinates(
                images[row], positions + centre, order=order, mode="nearest"
            )
        return warped

    def _inverse(self, z, positions):
        """Return the x for which ``x - Phi(x)`` are given positions."""
        x = positions.copy()
        for _ in range(INVERSION_STEPS):
            moved = positions + self.grid_.field_at(z, x)
            # Half steps, so that the iteration settles for strong deformations too.
            x = 0.5 * (x + moved)
        return x

    def principal_deformations(self, k=5, component=0):
        """Return the principal deformations about the mean deformation.

        Parameters
        ----------
        k : int, default=5
            How many.
        component : int, default=0
            Of which template.

        Returns
        -------
        Z : ndarray of shape (k, n_latents)
            Deformations of one standard deviation, to be added to
            ``mean_deformations_``, ordered by how much they displace: principal
            components of the displacement fields.
        shares : ndarray of shape (k,)
            Their shares of the variance of the displacements.
        """
        check_is_fitted(self, "coefficients_")
        self._check_components(component, 1)
        n_latents = self.grid_.n_latents
        if not 1 <= k <= n_latents:
            raise ValueError(f"k must be in 1, ..., {n_latents}, got {k!r}")
        factor = self._spread(component)
        fields = self.grid_.field(factor.T).reshape(n_latents, -1)
        # Columns of the factor are independent deformations of unit variance.
        left, values, _ = np.linalg.svd(fields, full_matrices=False)
        squares = values**2
        Z = (factor @ left[:, :k]).T
        # The sign is free: make the largest coefficient positive.
        largest = Z[np.arange(k), np.abs(Z).argmax(axis=1)]
        return Z * np.sign(largest)[:, None], squares[:k] / squares.sum()

    def _spread(self, component):
        """Return a square root of the covariance of deformations about their mean."""
        mean, covariance = (
            self.mean_deformations_[component],
            self.covariances_[component],
        )
        count = self._mass * self.weights_[component]
        share = count / (count + self._prior_strength())
        values, vectors = np.linalg.eigh(covariance - share * np.outer(mean, mean))
        return vectors * np.sqrt(np.maximum(values, 0.0))

    def sample(self, n_samples=1, *, noise=True):
        """Draw images from the model.

        Parameters
        ----------
        n_samples : int, default=1
            How many.
        noise : bool, default=True
            Whether to add the noise.

        Returns
        -------
        X : ndarray of shape (n_samples, n_pixels)
            Images, as rows.
        labels : ndarray of shape (n_samples,)
            Their components.
        """
        check_is_fitted(self, "coefficients_")
        if n_samples < 1:
            raise ValueError(f"n_samples must be >= 1, got {n_samples!r}")
        rng = np.random.default_rng(seed_sequence(self.random_state))
        T, n_latents = len(self.weights_), self.grid_.n_latents
        labels = np.repeat(np.arange(T), rng.multinomial(n_samples, self.weights_))
        factors = np.linalg.cholesky(self.covariances_)
        draws = rng.standard_normal((n_samples, n_latents))
        Z = np.einsum("nij,nj->ni", factors[labels], draws)
        X = self.inverse_transform(Z, labels)
        if noise:
            scale = np.sqrt(self.noise_variances_)[labels, None]
            X = X + scale * rng.standard_normal(X.shape)
        return X, labels
