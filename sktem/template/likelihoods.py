"""Log-likelihoods of images under the templates of several classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from sktem.progress import counted
from sktem.template.model.modes import Descent
from sktem.template.model.statistics import observed_counts

__all__ = ["Likelihoods"]


class Stage(NamedTuple):
    """A search for modes under the templates of the classes that are likely.

    Attributes
    ----------
    descent : Descent
        Steps; their matrices serve as long as half of the expected gain is had, by
        which predictions take half the time.
    behind : float
        How far behind the most likely class others are that take part, in nats for each
        pixel.
    n_classes : float
        How many take part at most.
    afresh : bool
        Whether to search from no deformation and keep what is better.
    """

    descent: Descent
    behind: float = np.inf
    n_classes: float = np.inf
    afresh: bool = False


class Searches(NamedTuple):
    """Stages of the search for modes under the templates of all classes.

    Attributes
    ----------
    first, rough, last : Stage
        One after the other.
    poor : float
        Energy for each pixel (1 is expected) from which on the best class explains an
        image poorly.
    again : Stage
        What such images are sought by once more.
    """

    first: Stage = Stage(Descent(np.array([16.0]), gains=(0.1, 0.1), hold=0.5))
    rough: Stage = Stage(Descent(np.array([4.0]), gains=(0.5, 0.5), hold=0.5), 4.0)
    last: Stage = Stage(Descent(np.ones(1), gains=(0.01, 0.01), hold=0.5), 1.0, 4)
    poor: float = 3.5
    again: Stage = Stage(
        Descent(4.0 ** np.arange(3, -1, -1), hold=0.5), n_classes=6, afresh=True
    )


class Likelihoods:
    """Log-likelihoods under the templates of each class.

    Parameters
    ----------
    fits : list of FittedTemplate
        Fitted template of each class.
    searches : Searches, optional
        How modes are sought.
    """

    def __init__(self, fits, searches=None):
        self.fits = fits
        self.searches = Searches() if searches is None else searches

    def judge(self, X):
        """Return log-likelihoods, of shape (n, n_classes), and distances of images.

        A distance is minus the largest log-likelihood per pixel. Modes of all classes
        are sought at high levels of noise, those of the best classes to the end.
        """
        fits = counted(self.fits, "Likelihoods of images: classes")
        n_seen = np.maximum(observed_counts(X), 1)
        if self.fits[0].model.light is not None:
            logs = np.stack([fitted.log_likelihoods(X) for fitted in fits], axis=1)
            return logs, -logs.max(axis=1) / n_seen
        searches = [_Search(fitted, X, self.searches.first) for fitted in fits]
        logs = np.stack([search.log_likelihoods() for search in searches], axis=1)

        def seek(rows, stage):
            here = logs[rows]
            least = np.sort(here, axis=1)[:, -int(min(stage.n_classes, here.shape[1]))]
            least = np.maximum(least, here.max(axis=1) - stage.behind * n_seen[rows])
            for label, search in enumerate(searches):
                likely = rows[here[:, label] >= least]
                if len(likely):
                    logs[likely, label] = search.sought(likely, stage)

        everywhere = np.arange(len(X))
        seek(everywhere, self.searches.rough)
        seek(everywhere, self.searches.last)
        energies = np.stack([search.energies() for search in searches], axis=1)
        of_best = energies[everywhere, logs.argmax(axis=1)]
        # Written so that images without a mode (NaN) count as poor.
        poor = np.flatnonzero(~(of_best <= self.searches.poor * n_seen))
        seek(poor, self.searches.again)
        return logs, -logs.max(axis=1) / n_seen


class _Search:
    """Modes of images under the templates of one class, and their likelihoods.

    Parameters
    ----------
    fitted : FittedTemplate
        Fitted template of the class.
    X : array of shape (n, n_pixels)
        Images.
    first : Stage
        The first search.
    """

    def __init__(self, fitted, X, first):
        self.fitted = fitted
        self.model, self.params = fitted.model, fitted.params
        self.Y = fitted.standardised(X)
        self.by_template = [
            self.model.modes_of(self.Y, self.params, t, descent=first.descent)
            for t in range(len(self.params.weights))
        ]

    def sought(self, rows, stage):
        """Search on for some images; return their log-likelihoods."""
        Y = self.Y[rows]
        for t, (modes, logs, _, energies) in enumerate(self.by_template):
            start = None if stage.afresh else modes[rows]
            new = self.model.modes_of(Y, self.params, t, start, stage.descent)
            better = np.full(len(rows), True)
            if stage.afresh:
                better = ~(new[1] <= logs[rows])
            improved = rows[better]
            for old, values in ((modes, new[0]), (logs, new[1]), (energies, new[3])):
                old[improved] = values[better]
        return self.log_likelihoods(rows)

    def log_likelihoods(self, rows=slice(None)):
        """Return log-likelihoods of images."""
        logs = np.stack([logs[rows] for _, logs, *_ in self.by_template], axis=1)
        logs = np.where(np.isnan(logs), -np.inf, logs) + np.log(self.params.weights)
        return logsumexp(self.fitted.in_units_of_images(logs, self.Y[rows]), axis=1)

    def energies(self):
        """Return the energies of the images at the mode of the likeliest template."""
        logs = np.stack([logs for _, logs, *_ in self.by_template], axis=1)
        best = (logs + np.log(self.params.weights)).argmax(axis=1)
        energies = np.stack([energies for *_, energies in self.by_template], axis=1)
        return energies[np.arange(len(best)), best]
