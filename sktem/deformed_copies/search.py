"""Sizes of deformations, chosen by images that are left out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sktem.deformed_copies.deformations import Deformations, Sizes
from sktem.deformed_copies.gaps import GapFiller
from sktem.deformed_copies.ridge import Rows, learn_ridge
from sktem.deformed_copies.similarity import Similarity
from sktem.images.classes import log_losses
from sktem.progress import bar

__all__ = ["Budget", "Images", "Law", "Search", "Trials", "chosen_law"]


class Budget(NamedTuple):
    """Numbers of images and copies in the training set.

    Attributes
    ----------
    per_class, per_image : int
        Rows for each class and for each image, at least.
    most : int
        Rows altogether, at most.
    """

    per_class: int = 600
    per_image: int = 3
    most: int = 6000


class Search(NamedTuple):
    """Settings of the search for sizes of deformations.

    Attributes
    ----------
    budget : Budget
        Rows of a trial.
    factors : tuple of float
        Multiples of the usual sizes that are tried.
    shares : tuple of float
        Shares of the values of pixels that are tried.
    passes : int
        Passes over the kinds of deformation, at most.
    least_gain, least_share : float
        By how many standard errors, and by what share of itself, the mean loss of
        images left out has to fall for a change.
    temperature : float
        Divisor of scores in the log-loss. It is held: the best one for a few images is
        so small where all of them are right that nothing can be gained any more.
    """

    budget: Budget = Budget(60, 3, 1200)
    factors: tuple = (0.0, 0.5, 2.0)
    shares: tuple = (0.0, 0.5, 1.0)
    passes: int = 2
    least_gain: float = 1.0
    least_share: float = 0.15
    temperature: float = 0.1


SEARCH = Search()


class Images(NamedTuple):
    """Images to learn from, in standard units and without gaps.

    Attributes
    ----------
    X : ndarray of shape (n, n_channels * n_pixels)
        Images.
    labels : ndarray of int of shape (n,)
        Classes.
    weights : ndarray of shape (n,)
        Weights with a mean of one in each class.
    noise : ndarray of shape (n_channels,)
        Standard deviations of the noise of pixels.
    filler : GapFiller
        What fills their gaps, and those of copies.
    """

    X: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    noise: np.ndarray
    filler: GapFiller

    @property
    def shape(self) -> tuple:
        """Pixels along each axis."""
        return self.filler.image_shape

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max()) + 1

    def with_copies(self, deformations, budget, rng) -> Rows:
        """Return the images and new copies of them; every class gets as many rows."""
        counts = np.bincount(self.labels)
        n_rows = max(budget.per_class * len(counts), budget.per_image * len(self.X))
        n_rows = min(n_rows, budget.most)
        sources = [np.arange(len(self.X))]
        for label, count in enumerate(counts):
            wanted = max(n_rows // len(counts) - count, 0)
            turns = np.resize(rng.permutation(count), wanted)
            sources.append(np.flatnonzero(self.labels == label)[turns])
        rows = np.concatenate(sources)
        copies = deformations.copies(self.X[rows[len(self.X) :]], self.noise, rng)
        X = np.concatenate([self.X, self.filler.fill(copies)])
        return Rows(X, self.labels[rows], rows, self.weights[rows])

    def similarity(self, relative, values=0.0) -> Similarity:
        """Return the kernel between images like these."""
        return Similarity(self.shape, len(self.noise), self.noise, relative, values)

    def differ_relatively(self) -> bool:
        """Return whether images of different classes differ in relative features."""
        similarity = self.similarity(True)
        kernel = similarity.kernel(similarity.features(self.X))
        return bool((kernel < 1 - 1e-9)[self.labels[:, None] != self.labels].all())


class Law(NamedTuple):
    """Deformations of copies, and the features of images that are compared.

    Attributes
    ----------
    sizes : Sizes
        Standard deviations of the deformations.
    relative : bool
        Whether brightness is that above the border of an image.
    values : float
        Share of the values of pixels in the kernel.
    """

    sizes: Sizes
    relative: bool
    values: float


class Trials:
    """Losses of images that are left out under laws of deformations.

    Parameters
    ----------
    images : Images
        Images, at least two of each class.
    settings : dict
        Further arguments of :class:`Deformations`.
    equations : Equations
        How equations are solved.
    log_prior : ndarray of shape (n_classes,)
        Logarithms of the prior probabilities.
    seed : int
        Seed of the copies.
    search : Search, default=Search()
        How sizes are chosen.
    """

    def __init__(self, images, settings, equations, log_prior, seed, search=SEARCH):
        self.images = images
        self.settings = settings
        self.equations = equations
        self.log_prior = log_prior
        self.seed = seed
        self.search = search
        self.known: dict[Law, Any] = {}

    def losses(self, law) -> np.ndarray:
        """Return the log-loss of each image; all laws have the same draws."""
        if law not in self.known:
            images = self.images
            deformations = Deformations(images.shape, law.sizes, **self.settings)
            rng = np.random.default_rng(self.seed)
            rows = images.with_copies(deformations, self.search.budget, rng)
            _, left_out = learn_ridge(
                images.similarity(law.relative, law.values),
                rows,
                images.n_classes,
                self.equations,
            )
            self.known[law] = log_losses(
                left_out.scores, self.search.temperature, self.log_prior, images.labels
            )
        return self.known[law]

    def better(self, law, others) -> Law:
        """Return the best of other laws if it gains enough, else the law itself."""
        weights = self.images.weights
        best = min(
            others, key=lambda other: np.average(self.losses(other), weights=weights)
        )
        gaps = weights * (self.losses(law) - self.losses(best))
        least = self.search.least_gain * gaps.std(ddof=1) / np.sqrt(len(gaps))
        share = self.search.least_share * np.mean(weights * self.losses(law))
        return best if gaps.mean() > max(least, share) else law


def chosen_law(trials: Trials, laws, free) -> Law:
    """Return the law by which images that are left out have the least log-loss.

    First the others of some laws, and none of the free deformations, are compared with
    the first of them; then the multiples of each size, one kind after the other.
    """
    start = laws[0]
    with bar("Sizes of deformations", trials.search.passes * len(free)) as advance:
        law = trials.better(start, laws)
        if free:
            still = law.sizes._replace(**dict.fromkeys(free, 0.0))
            law = trials.better(law, [law._replace(sizes=still)])
        for _ in range(trials.search.passes):
            before = law
            for name in free:
                usual, present = getattr(start.sizes, name), getattr(law.sizes, name)
                values = {usual * factor for factor in (1.0, *trials.search.factors)}
                law = trials.better(
                    law,
                    [
                        law._replace(sizes=law.sizes._replace(**{name: value}))
                        for value in sorted(values - {present})
                    ],
                )
                advance()
            if law == before:
                break
    return law
