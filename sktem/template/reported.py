"""Deformations and nuisances of images as users see them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sktem.template.model.nuisances import Nuisances
from sktem.template.settings import Frame

__all__ = ["Reported"]


class Reported(NamedTuple):
    """Conversion of landmarks to columns of deformations and nuisances, and back.

    Attributes
    ----------
    frame : Frame
        Geometry and standardisation.
    nuisances : Nuisances or None
        Nuisances.
    deformations : ndarray of shape (n_components, n_latents, n_latents)
        Covariances of the deformations.
    means, covariances : ndarray or None
        Moments of the nuisances.
    """

    frame: Frame
    nuisances: Nuisances | None
    deformations: np.ndarray
    means: Any
    covariances: Any

    @property
    def names(self) -> list[str]:
        """Names of the columns of nuisances."""
        return [] if self.nuisances is None else self.nuisances.columns

    def columns(self, Z, labels, lights) -> np.ndarray:
        """Return deformations apart from nuisances, and these as further columns."""
        if self.nuisances is None:
            return Z
        columns = np.empty((len(Z), Z.shape[1] + len(self.names)))
        for t in np.unique(labels):
            rows = np.flatnonzero(labels == t)
            fields, rest = self.nuisances.fields_of(Z[rows], self.deformations[t])
            light = None if lights is None else lights[rows]
            mean = self.means[t][None]
            reported = self.nuisances.reported(fields, light, mean, self.frame)
            columns[rows] = np.hstack([rest, reported])
        return columns

    def whole(self, columns, components):
        """Return deformations with their nuisances, and light, from columns."""
        n_latents, lights = self.frame.grid.n_latents, None
        whole = columns[:, :n_latents]
        if self.nuisances is None:
            return whole, None
        if self.nuisances.light is not None:
            lights = np.tile(self.means[0, -2:], (len(whole), 1))
        if columns.shape[1] > n_latents:
            fields, lights = self.nuisances.restored(
                columns[:, n_latents:], self.means[components], self.frame
            )
            whole = whole + fields @ self.nuisances.basis.T
        return whole, lights

    def table(self, columns) -> dict[str, np.ndarray]:
        """Return nuisances by their names."""
        names = np.array([name.split()[0] for name in self.names])
        values = columns[:, self.frame.grid.n_latents :]
        by_name = {name: values[:, names == name] for name in dict.fromkeys(names)}
        return {
            str(name): value if name == "translation" else value[:, 0]
            for name, value in by_name.items()
        }

    def unlit(self, rows, columns) -> np.ndarray:
        """Return images of gain one and offset zero."""
        table = self.table(columns)
        rows = rows - np.reshape(table.get("offset", 0.0), (-1, 1))
        return rows / np.reshape(table.get("gain", 1.0), (-1, 1))

    def drawn(self, n_samples, labels, rng):
        """Return deformations and light drawn from the learned distribution."""
        factors = np.linalg.cholesky(self.deformations)
        draws = rng.standard_normal((n_samples, self.frame.grid.n_latents))
        Z = np.einsum("nij,nj->ni", factors[labels], draws)
        if self.nuisances is None:
            return Z, None
        moments = zip(self.means[labels], self.covariances[labels], strict=True)
        nuisances = np.array(
            [rng.multivariate_normal(*pair, method="eigh") for pair in moments]
        )
        k = self.nuisances.basis.shape[1]
        lights = None if self.nuisances.light is None else nuisances[:, k:]
        return Z + nuisances[:, :k] @ self.nuisances.basis.T, lights

    def spread(self, mean, component, share) -> np.ndarray:
        """Return a square root of the covariance of deformations about their mean."""
        covariance = self.deformations[component]
        if self.nuisances is not None:
            mean = self.nuisances.fields_of(mean[None], covariance)[1][0]
        values, vectors = np.linalg.eigh(covariance - share * np.outer(mean, mean))
        return vectors * np.sqrt(np.maximum(values, 0.0))
