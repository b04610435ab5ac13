"""Deformable templates from their definition, with dense matrices and no spline."""

import numpy as np

from sktem import DeformableTemplateClassifier, DeformableTemplateEstimator
from sktem.kernels import counter_random
from sktem.models import (
    DeformableTemplateModel,
    ImageGrid,
    TemplateParams,
    TemplatePriors,
)
from sktem.template.kernels.field import new_work, pull_of, rss_of
from tests.oracles import for_python

#: Draws of the kernels.
stream_key, uniform = map(
    for_python, (counter_random.stream_key, counter_random.uniform)
)
fill_normals = for_python(counter_random.fill_normals)

#: Odd shapes with one to three axes, and landmarks for them.
SHAPES = {
    (5,): ((7,), (3,)),
    (7, 4): ((6, 5), (3, 2)),
    (3, 4, 5): ((3, 4, 5), (2, 2, 3)),
}


class Pixels:
    """Compiled functions of the pixels of an image, with their scratch arrays."""

    def __init__(self, grid, table):
        self.grid = grid.compiled
        self.work = new_work(self.grid)
        self.table = table

    def rss(self, y, z):
        """Return the sum of squared residuals at a deformation."""
        self.work.z[:], self.work.image[:] = z, y
        return rss_of(self.table, self.grid, self.work)

    def pull(self):
        """Return the pull of the residuals last found."""
        return pull_of(self.grid, self.work).copy()


def grid_of(shape, template_scale=1.6, deformation_width=2.0):
    """Return a small geometry for one of the shapes."""
    return ImageGrid(shape, *SHAPES[shape], template_scale, deformation_width)


def points_of(axes):
    """Return the points of a product grid, one per row, the last axis fastest."""
    return np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], axis=1)


def kernel(A, B, scale):
    """Return the Gaussian kernel between all points of two sets."""
    return np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2) / (2 * scale**2))


def square(bands):
    """Return a symmetric matrix from its lower bands."""
    n = bands.shape[1]
    full = np.zeros((n, n))
    for k in range(len(bands)):
        rows = np.arange(n - k)
        full[rows + k, rows] = full[rows, rows + k] = bands[k, : n - k]
    return full


def gram_of(grid, middle):
    """Return ``K' K`` from the sums at mid-points, as a square matrix."""
    return square(grid.grams.of(middle))


def kernel_of_landmarks(grid):
    """Return the kernel of the template between its landmarks."""
    nodes = points_of(grid.template_axes)
    return kernel(nodes, nodes, grid.template_scale)


class Dense:
    """Densities and derivatives of images, one at a time, as the model defines them."""

    def __init__(self, grid):
        self.grid = grid
        self.pixels = points_of(grid.pixel_axes)
        self.nodes = points_of(grid.template_axes)
        self.places = points_of(grid.deformation_axes)
        self.Kg = kernel(self.pixels, self.places, grid.deformation_width)

    def moved(self, z):
        """Return ``x - Phi(x)`` at the pixels, (n_pixels, n_axes)."""
        z = np.asarray(z)[: self.grid.n_latents]
        return self.pixels - self.Kg @ z.reshape(self.grid.n_axes, -1).T

    def design(self, z=None):
        """Return the template's kernels at the pixels, displaced by a deformation."""
        z = np.zeros(self.grid.n_latents) if z is None else z
        return kernel(self.moved(z), self.nodes, self.grid.template_scale)

    def slopes(self, z, beta):
        """Return the derivatives of the template there, (n_axes, n_pixels)."""
        gaps = self.moved(z)[:, None] - self.nodes[None]
        weighted = self.design(z) * beta / self.grid.template_scale**2
        return -np.einsum("uka,uk->au", gaps, weighted)

    def jacobian(self, z, beta):
        """Return the derivatives of the image in z, (n_pixels, n_latents)."""
        parts = [-slope[:, None] * self.Kg for slope in self.slopes(z, beta)]
        return np.concatenate(parts, axis=1)

    def log_joint(self, y, z, beta, gamma, variance):
        """Return ``log N(y; image, variance) + log N(z; 0, gamma)``, NaN left out."""
        seen = ~np.isnan(y)
        error = (y - self.design(z) @ beta)[seen]
        noise = len(error) * np.log(2 * np.pi * variance) + error @ error / variance
        prior = len(z) * np.log(2 * np.pi) + np.linalg.slogdet(gamma)[1]
        return -0.5 * (noise + prior + z @ np.linalg.solve(gamma, z))

    def gradient(self, y, z, beta, gamma, variance):
        seen = ~np.isnan(y)
        error = (y - self.design(z) @ beta)[seen]
        pull = self.jacobian(z, beta)[seen].T @ error
        return pull / variance - np.linalg.solve(gamma, z)


def random_params(grid, rng, n_components=1, noise_variance=0.05, spread=0.3):
    """Return parameters with a positive definite, correlated covariance."""
    shape = (n_components, grid.n_latents, grid.n_latents)
    roots = rng.normal(size=shape) / np.sqrt(grid.n_latents)
    covariances = roots @ roots.swapaxes(1, 2) + 0.5 * np.eye(grid.n_latents)
    return TemplateParams(
        np.full(n_components, 1 / n_components),
        rng.normal(size=(n_components, grid.n_template)),
        spread**2 * covariances,
        np.full(n_components, noise_variance),
    )


def model_of(grid, **options):
    """Return a model with ordinary priors."""
    priors = TemplatePriors(deformation_scale=0.3, strength=10.0, template_scale=3.0)
    return DeformableTemplateModel(grid, **{"priors": priors, **options})


def simulate(grid, params, n, rng):
    """Return images of the first template and their deformations."""
    dense, factor = Dense(grid), np.linalg.cholesky(params.covariances[0])
    Z = rng.normal(size=(n, grid.n_latents)) @ factor.T
    images = np.array([dense.design(z) @ params.coefficients[0] for z in Z])
    noise = np.sqrt(params.noise_variances[0]) * rng.normal(size=images.shape)
    return images + noise, Z


# --------------------------------------------------- a signal with two latent numbers


def two_landmarks():
    """Return model, parameters and one signal, whose posterior is not Gaussian.

    The latent has two coordinates, so that all integrals over it can be computed on a
    lattice.
    """
    grid = ImageGrid((9,), (7,), (2,), 1.5, 4.0)
    params = TemplateParams(
        np.ones(1),
        np.array([[0.0, 0.3, 1.2, -0.6, 0.9, 0.2, 0.0]]),
        np.array([[[0.9, 0.3], [0.3, 0.6]]]),
        np.array([0.08]),
    )
    y = Dense(grid).design(np.array([1.1, -0.4])) @ params.coefficients[0]
    y = y + np.sqrt(0.08) * np.random.default_rng(3).normal(size=9)
    return model_of(grid), params, y


class Lattice:
    """Integrals over two latent numbers by the rectangle rule, which is spectral."""

    def __init__(self, log_joint, half=6.0, count=241):
        axis = np.linspace(-half, half, count)
        self.Z = points_of([axis, axis])
        logs = log_joint(self.Z)
        top = logs.max()
        weights = np.exp(logs - top)
        self.log_likelihood = top + np.log(weights.sum() * (axis[1] - axis[0]) ** 2)
        self.weights = weights / weights.sum()

    def mean(self, function):
        return self.weights @ function(self.Z)


def features(Z):
    """Return what samplers are judged by: moments, and smooth steps for the tails."""
    a, b = Z[..., 0], Z[..., 1]
    return np.stack(
        [a, b, a**2, b**2, a * b, np.tanh(3 * a - 3), np.cos(3 * b)], axis=-1
    )


# ------------------------------------------------------------------------- estimators

#: Settings of estimators whose fits take milliseconds.
SMALL = {
    "template_landmarks": 5,
    "deformation_landmarks": 3,
    "max_iter": 4,
    "random_state": 0,
}


def template(**settings):
    """Return a small estimator."""
    return DeformableTemplateEstimator(**{**SMALL, **settings})


def classifier(**settings):
    """Return a small classifier without a search for the temperature."""
    return DeformableTemplateClassifier(**{**SMALL, "temperature": 1.0, **settings})


def named_kinds(n):
    """Return images of bars, and names of their kinds."""
    X, kinds = two_kinds(n)
    return X, np.array(["across", "down"])[kinds]


def blobs(n, shape=(6, 6), seed=0, noise=0.05, width=1.5, jitter=0.5):
    """Return rows of images of a blob whose place varies."""
    rng = np.random.default_rng(seed)
    centres = jitter * rng.normal(size=(n, len(shape)))
    axes = [np.arange(side) - (side - 1) / 2 for side in shape]
    gaps = points_of(axes)[None] - centres[:, None]
    images = np.exp(-(gaps**2).sum(axis=2) / (2 * width**2))
    return images + noise * rng.normal(size=images.shape)


def two_kinds(n, seed=0):
    """Return images of horizontal and of vertical bars by turns, and their kinds."""
    rng = np.random.default_rng(seed)
    kinds = np.arange(n) % 2
    u = np.arange(6) - 2.5
    images = []
    for kind in kinds:
        bar = np.exp(-((u - 0.4 * rng.normal()) ** 2))
        image = np.outer(bar, np.exp(-(u**2) / 8))
        images.append((image.T if kind else image).ravel())
    return np.array(images) + 0.05 * rng.normal(size=(n, 36)), kinds
