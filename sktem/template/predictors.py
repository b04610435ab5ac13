"""How a classifier of templates predicts: by likelihoods, or by samples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky, get_lapack_funcs
from scipy.ndimage import binary_erosion, gaussian_filter
from scipy.special import logsumexp

from sktem.progress import counted
from sktem.template.classes import best_temperature
from sktem.template.copies import PooledDeformations, pooled_covariance
from sktem.template.likeness import Likeness
from sktem.template.modes import ANNEALING
from sktem.template.pixel_noise import pixel_noise
from sktem.template.setup import Frame
from sktem.template.statistics import observed_counts

__all__ = [
    "Likelihoods",
    "Samples",
    "Typical",
    "has_holes",
    "images_and_copies",
    "learn_samples",
]

#: Searches for modes: factors of the noise variance, nats that a step has to gain, and
#: the share of its expected gain from which on its matrix serves the next step, too.
#: The first one is of all classes; with the later ones, how far behind the most likely
#: class others are that take part, in nats for each pixel, and how many at most.
SMOOTH = {"levels": np.array([16.0]), "gains": (0.1, 0.1), "hold": 0.5}
ROUGH = {"levels": np.array([4.0]), "gains": (0.5, 0.5), "hold": 0.5}, 4.0, np.inf
TO_THE_END = {"levels": np.ones(1), "gains": (0.01, 0.01), "hold": 0.5}, 1.0, 4

#: Energy for each pixel (1 is expected) from which on the best class explains an image
#: poorly: modes of the most likely classes are then sought again, without expansions.
POOR = 3.5
AGAIN = {"levels": ANNEALING[1:], "hold": 0.5}, np.inf, 6

#: Images and copies that the classifier of samples learns from: for each class and for
#: each image at least, and altogether at most.
ROWS_PER_CLASS, ROWS_PER_IMAGE, MOST_ROWS = 600, 3, 6000

#: Ridge of the regression.
RIDGE = 0.1

#: Precision in which its equations are solved: half the memory and time of float64.
PRECISION = np.float32

#: Pixels around a missing one that count, as the standard deviation of a window, and
#: how much of that window the mean image is worth.
NEIGHBOURS, LEAST_MASS = 1.0, 0.01

#: Temperature of scores where a class has one image, and logarithms of those among
#: which the best is sought.
TEMPERATURE, TEMPERATURES = 0.1, (-6.0, 2.0)

#: Standard deviation of the noise of single pixels, as a share of that of all pixels,
#: from which on gradients say less than likelihoods: in digits with noise of twice the
#: standard deviation of their pixels.
MOST_NOISE = 0.9

#: Probability of an image that is like none of the training images, and least standard
#: deviations of how far images are: of squared distances between features, and of
#: log-likelihoods per pixel.
RARE, LEAST_SD, LEAST_SD_OF_PIXEL = 1e-3, 0.03, 0.1

#: Temperature, for each pixel, of log-likelihoods where samples have theirs, chosen on
#: digits of 16 x 16 and 28 x 28 pixels.
TEMPERATURE_OF_PIXEL = 0.5


def has_holes(X, image_shape, n_channels=1) -> np.ndarray:
    """Return for each image whether a pixel and all of its neighbours are missing."""
    found, rows = np.zeros(len(X), dtype=bool), _rows_with_gaps(X)
    if len(rows):
        missing = np.isnan(X[rows]).reshape(-1, n_channels, *image_shape)
        window = np.ones((1, 1, *[3] * len(image_shape)), dtype=bool)
        holes = binary_erosion(missing, window).reshape(len(rows), -1)
        found[rows] = holes.any(axis=1)
    return found


def _rows_with_gaps(X) -> np.ndarray:
    """Return the indices of images with pixels that were not observed."""
    return np.flatnonzero(np.isnan(X).any(axis=1))


class Typical(NamedTuple):
    """How far the images of the classes are from what was learned of their class.

    Attributes
    ----------
    mean, sd : float
        Moments over images that were left out.
    """

    mean: float
    sd: float

    @classmethod
    def of(cls, distances, weights, least_sd) -> Typical:
        """Return the moments of some distances."""
        mean = np.average(distances, weights=weights)
        variance = np.average((distances - mean) ** 2, weights=weights)
        return cls(float(mean), max(float(np.sqrt(variance)), least_sd))

    def outlier_proba(self, distances) -> np.ndarray:
        """Return probabilities of being none of them: far beyond a normal tail."""
        excess = np.maximum((distances - self.mean) / self.sd, 0.0)
        return RARE / (RARE + np.exp(-0.5 * np.minimum(excess, 30.0) ** 2))


class Likelihoods:
    """Log-likelihoods under the templates of each class.

    Parameters
    ----------
    models : list of DeformableTemplateEstimator
        Fitted model of each class.
    """

    def __init__(self, models):
        self.models = models
        self._params: dict = {}

    def __getstate__(self):
        return {"models": self.models, "_params": {}}

    def _fitted(self, label):
        """Return model and parameters of a class.

        The parameters are those of the last call while they have the fitted values:
        what is derived from them takes longer than an image.
        """
        model, params = self.models[label]._fitted_model()
        if label not in self._params or not self._params[label].has_density_of(params):
            self._params[label] = params.copy()
        return model, self._params[label]

    def judge(self, X):
        """Return log-likelihoods, of shape (n, n_classes), and distances of images.

        A distance is minus the largest log-likelihood per pixel. Modes of all classes
        are sought roughly, those of the best classes to the end.
        """
        models = counted(self.models, "Likelihoods of images: classes")
        n_seen = np.maximum(observed_counts(X), 1)
        searches = [
            _Search(model, self._fitted(label), X) for label, model in enumerate(models)
        ]
        logs = np.stack([search.log_likelihoods() for search in searches], axis=1)

        def seek(rows, method, how, behind, most):
            own = logs[rows]
            least = np.sort(own, axis=1)[:, -int(min(most, own.shape[1]))]
            least = np.maximum(least, own.max(axis=1) - behind * n_seen[rows])
            for label, search in enumerate(searches):
                likely = rows[own[:, label] >= least]
                if len(likely):
                    logs[likely, label] = method(search, likely, how)

        everywhere = np.arange(len(X))
        seek(everywhere, _Search.roughly, *ROUGH)
        seek(everywhere, _Search.finished, *TO_THE_END)
        energies = np.stack([search.energies() for search in searches], axis=1)
        of_best = energies[everywhere, logs.argmax(axis=1)]
        # Written so that images without a mode (NaN) count as poor.
        seek(np.flatnonzero(~(of_best <= POOR * n_seen)), _Search.afresh, *AGAIN)
        return logs, -logs.max(axis=1) / n_seen


class _Search:
    """Modes of images under the templates of one class, and their likelihoods.

    Parameters
    ----------
    estimator : DeformableTemplateEstimator
        Fitted model of the class.
    fitted : tuple
        Its model and parameters.
    X : array of shape (n, n_pixels)
        Images.
    """

    def __init__(self, estimator, fitted, X):
        self.estimator = estimator
        self.model, self.params = fitted
        self.Y = estimator._in_range(X)
        self.found = [
            self.model.rough_modes_of(self.Y, self.params, t, **SMOOTH)
            for t in range(len(self.params.weights))
        ]

    def roughly(self, rows, how):
        """Go on by expansions for some images; return their log-likelihoods."""
        return self._sought(self.model.rough_modes_of, rows, how)

    def finished(self, rows, how):
        """Go on with the templates as they are."""
        return self._sought(self.model.modes_of, rows, how)

    def _sought(self, method, rows, how):
        Y = self.Y[rows]
        for t, (modes, *own) in enumerate(self.found):
            new = method(Y, self.params, t, modes[rows], **how)
            for old, values in zip((modes, *own), new, strict=True):
                if len(old):
                    old[rows] = values
        return self.log_likelihoods(rows)

    def afresh(self, rows, how):
        """Search from no deformation, and keep what is better."""
        Y = self.Y[rows]
        for t, (modes, logs, _, energies) in enumerate(self.found):
            new = self.model.modes_of(Y, self.params, t, **how)
            better = ~(new[1] <= logs[rows])
            modes[rows[better]], logs[rows[better]] = new[0][better], new[1][better]
            energies[rows[better]] = new[3][better]
        return self.log_likelihoods(rows)

    def log_likelihoods(self, rows=slice(None)):
        """Return log-likelihoods of images."""
        logs = np.stack([logs[rows] for _, logs, *_ in self.found], axis=1)
        logs = self.estimator._in_units_of_images(logs, self.Y[rows])
        return logsumexp(logs + np.log(self.params.weights), axis=1)

    def energies(self):
        """Return the energies of the images at the mode of the likeliest template."""
        logs = np.stack([logs for _, logs, *_ in self.found], axis=1)
        best = (logs + np.log(self.params.weights)).argmax(axis=1)
        energies = np.stack([energies for *_, energies in self.found], axis=1)
        return energies[np.arange(len(best)), best]


class Samples(NamedTuple):
    """Kernel ridge regression of the classes on features of images and their copies.

    Attributes
    ----------
    likeness : Likeness
        Features of images, and the kernel between them.
    units : tuple of float or of ndarray of shape (n_pixels,)
        What is subtracted from images, and what they are divided by.
    mean_image : ndarray of shape (n_pixels,)
        Mean of the images.
    rows : ndarray of shape (n_rows, n_features)
        Features of the images and copies.
    coefficients : ndarray of shape (n_rows, n_classes)
        Coefficients of their kernels.
    shares : ndarray of shape (n_classes,)
        Shares of the classes in the rows.
    """

    likeness: Likeness
    units: tuple
    mean_image: np.ndarray
    rows: np.ndarray
    coefficients: np.ndarray
    shares: np.ndarray

    def _filled(self, X):
        """Fill missing pixels by the mean image and how those around depart from it."""
        for row in _rows_with_gaps(X):
            image = X[row]
            seen = ~np.isnan(image)
            excess = np.where(seen, image - self.mean_image, 0.0)
            shape = self.likeness.image_shape
            pair = np.stack([excess, seen]).reshape(2, self.likeness.n_channels, *shape)
            sds = (0.0, 0.0, *[NEIGHBOURS] * len(shape))
            excess, mass = gaussian_filter(pair, sds, mode="constant").reshape(2, -1)
            near = self.mean_image + excess / (mass + LEAST_MASS)
            X[row] = np.where(seen, image, near)
        return X

    def judge(self, X):
        """Return scores, near one for the class of an image, and distances of images.

        A distance is the square of that between the features of an image and those of
        the nearest row.
        """
        images = self._filled((X - self.units[0]) / self.units[1])
        kernel = self.likeness.kernel(self.likeness.features(images), self.rows)
        return kernel @ self.coefficients + self.shares, self.likeness.distances(kernel)


class LeftOut(NamedTuple):
    """Scores of images by classifiers that have seen neither them nor their copies.

    Attributes
    ----------
    scores : ndarray of shape (n_images, n_classes)
        Scores.
    labels : ndarray of int of shape (n_images,)
        Classes.
    weights : ndarray of shape (n_images,)
        Weights.
    distances : ndarray of shape (n_images,)
        Distances to the nearest rows.
    """

    scores: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    distances: np.ndarray

    def typical(self) -> Typical:
        """Return how far images are."""
        return Typical.of(self.distances, self.weights, LEAST_SD)

    def temperature(self, log_prior) -> float:
        """Return the divisor of scores that gives the least log-loss."""
        return best_temperature(
            self.scores, log_prior, self.labels, self.weights, TEMPERATURES
        )


class Rows(NamedTuple):
    """Images, class by class, and copies of them.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_channels * n_pixels)
        Images and copies, standardised.
    labels : ndarray of int of shape (n_rows,)
        Classes.
    sources : ndarray of int of shape (n_rows,)
        Rows of the images that they are copies of.
    weights : ndarray of shape (n_rows,)
        Weights with a mean of one in each class.
    noise : ndarray of shape (n_channels,)
        Standard deviations of the pixels' noise.
    """

    X: np.ndarray
    labels: np.ndarray
    sources: np.ndarray
    weights: np.ndarray
    noise: np.ndarray


def images_and_copies(models, parts, units, rng, n_jobs=None) -> Rows:
    """Return images and new copies of them.

    Images are first, as they are, with their missing pixels filled with the deformed
    template. Every class gets as many rows.

    Parameters
    ----------
    models : list of DeformableTemplateEstimator
        Fitted model of each class.
    parts : list of tuple of ndarray
        Images and weights of each class.
    units : tuple of float or of ndarray of shape (n_pixels,)
        What is subtracted from images, and what they are divided by.
    rng : numpy.random.Generator
        Random numbers.
    n_jobs : int or None, default=None
        Threads.

    Returns
    -------
    Rows
        Images and copies, standardised by the given units.
    """
    images, weights = [], []
    for model, (X, own) in zip(models, parts, strict=True):
        if len(X) * len(models) > MOST_ROWS:
            chosen = rng.permutation(len(X))[: MOST_ROWS // len(models)]
            X, own = X[chosen], own[chosen]
        missing = np.isnan(X)
        if missing.any():
            Z, components = model._best_modes(model._in_range(X))
            X = np.where(missing, model._deformed(Z, components), X)
        images.append((X - units[0]) / units[1])
        weights.append(own / own.mean())
    counts = [len(X) for X in images]
    originals, masses = np.concatenate(images), np.concatenate(weights)
    labels = np.repeat(np.arange(len(models)), counts)
    n_rows = max(ROWS_PER_CLASS * len(models), ROWS_PER_IMAGE * len(originals))
    n_rows = min(n_rows, MOST_ROWS)
    sources = [np.arange(len(originals))]
    for label, count in enumerate(counts):
        wanted = max(n_rows // len(models) - count, 0)
        turns = np.resize(rng.permutation(count), wanted)
        sources.append(np.flatnonzero(labels == label)[turns])
    rows = np.concatenate(sources)
    covariance = pooled_covariance(models, parts, n_jobs)
    grid = models[0].grid_
    deformations = PooledDeformations(grid, covariance)
    noise = pixel_noise(originals, grid.image_shape, grid.n_channels)
    copies = deformations.copies(originals[rows[len(originals) :]], noise, rng)
    X = np.concatenate([originals, copies])
    return Rows(X, labels[rows], rows, masses[rows], noise)


def learn_samples(models, parts, rng, n_jobs=None):
    """Learn a classifier from images and copies under deformations of all classes.

    Parameters
    ----------
    models : list of DeformableTemplateEstimator
        Fitted model of each class.
    parts : list of tuple of ndarray
        Images and weights of each class.
    rng : numpy.random.Generator
        Random numbers.
    n_jobs : int or None, default=None
        Threads.

    Returns
    -------
    samples : Samples
        The classifier.
    left_out : LeftOut or None
        Scores of the images, class by class; None where a class has a single one.
    """
    grid = models[0].grid_
    offset = np.mean([model.offset_ for model in models], axis=0)
    frame = Frame(grid, offset, np.mean([model.scale_ for model in models], axis=0))
    units = frame.at_pixels(frame.offset), frame.at_pixels(frame.scale)
    X, labels, sources, weights, noise = images_and_copies(
        models, parts, units, rng, n_jobs
    )
    likeness = Likeness(grid.image_shape, grid.n_channels, noise)
    rows = likeness.features(X)
    targets = np.eye(len(models))[labels]
    shares = targets.mean(axis=0)
    kernel = likeness.kernel(rows.astype(PRECISION))
    n_images = len(np.unique(sources))
    others = [kernel[[i]][:, sources != sources[i]] for i in range(n_images)]
    distances = np.concatenate([likeness.distances(row) for row in others])
    kernel[np.diag_indices_from(kernel)] += RIDGE / np.maximum(weights, 1e-20)
    # The transpose, which is the same, is in the order that LAPACK overwrites.
    lower = cholesky(kernel.T, lower=True, overwrite_a=True, check_finite=False)
    centred = (targets - shares).astype(PRECISION)
    coefficients = cho_solve((lower, True), centred, check_finite=False)
    samples = Samples(
        likeness,
        units,
        X[:n_images].mean(axis=0),
        rows,
        coefficients.astype(float),
        shares,
    )
    if np.bincount(labels[:n_images]).min() < 2:
        return samples, None
    (invert,) = get_lapack_funcs(("trtri",), (lower,))
    inverse, _ = invert(lower, lower=1, overwrite_c=1)
    scores = np.empty((n_images, len(models)))
    order = np.argsort(sources, kind="stable")
    for own in np.split(order, np.flatnonzero(np.diff(sources[order])) + 1):
        # What an image and its copies add to their own fitted values.
        columns = inverse[:, own]
        error = np.linalg.solve(columns.T @ columns, coefficients[own])
        scores[sources[own[0]]] = (targets[own] - error)[0]
    found = LeftOut(scores, labels[:n_images], weights[:n_images], distances)
    return samples, found
