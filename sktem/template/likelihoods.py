"""Log-likelihoods of images under the templates of several classes."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from sktem.progress import counted
from sktem.template.model.modes import ANNEALING
from sktem.template.model.statistics import observed_counts

__all__ = ["Likelihoods"]

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
        if self.models[0]._fitted_model()[0].light is not None:
            logs = np.stack([own._log_likelihoods(X) for own in models], axis=1)
            return logs, -logs.max(axis=1) / n_seen
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
