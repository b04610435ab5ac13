"""Latents where chains start, moved, so that no two rows have the same."""

from __future__ import annotations

import numpy as np

from sktem.e_step.chains import ChainState
from sktem.e_step.random import spawn_generators
from sktem.models.contract import check_each_row
from sktem.samplers import RandomWalk

__all__ = ["moved_latents"]

#: Draws of the random walk, whose length may have to grow by orders of magnitude first.
MOVES = 40


def moved_latents(model, X, Z: np.ndarray, params, rng) -> np.ndarray:
    """Move latents by a random walk, where the model has a density of them.

    Parameters
    ----------
    model : LatentModel
        The model.
    X : array-like
        Rows.
    Z : ndarray of shape (n, ...)
        Latents of the rows.
    params : object
        Parameters.
    rng : numpy.random.Generator
        Random numbers.

    Returns
    -------
    ndarray of shape (n, ...)
        Latents; discrete ones and those without a density as they are.
    """
    if Z.dtype.kind != "f" or not callable(getattr(model, "log_joint", None)):
        return Z
    check_each_row(model, "log_joint", model.log_joint(X, Z, params), len(Z))
    chains, generators = ChainState(Z[:, None]), spawn_generators(rng)
    for k in range(MOVES):
        chains, _ = RandomWalk().draw(model, X, chains, params, generators, k)
    return chains.position[:, 0]
