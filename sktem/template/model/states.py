"""Named fields of the chain states of templates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["ChainStates", "state_size"]


class ChainStates(NamedTuple):
    """Fields of the chain states of images, as views.

    Attributes
    ----------
    position : ndarray of shape (n, n_components, n_latents)
        Displacements of the landmarks.
    log_step : ndarray of shape (n, n_components)
        Logarithms of the steps.
    transitions : ndarray of shape (n, n_components)
        Transitions so far.
    share : ndarray of shape (n, n_components)
        Shares of the components.
    mode : ndarray of shape (n, n_components, n_latents)
        Remembered modes, from which shares follow; without entries for one component.
    light : ndarray of shape (n, n_components, 0 or 2)
        Gains and offsets, where images have them.
    """

    position: np.ndarray
    log_step: np.ndarray
    transitions: np.ndarray
    share: np.ndarray
    mode: np.ndarray
    light: np.ndarray

    @classmethod
    def of(cls, Z: np.ndarray, n_latents: int, n_components: int) -> ChainStates:
        """Return the fields of contiguous states, of shape (n, width)."""
        if not Z.flags.c_contiguous:  # a copy would take what is written
            raise ValueError("the states are not contiguous")
        flat = Z.reshape(len(Z), n_components, Z.shape[1] // n_components)
        position, tail = flat[:, :, :n_latents], flat[:, :, n_latents:]
        modes = state_size(n_latents, n_components) - n_latents
        return cls(
            position, tail[..., 0], tail[..., 1], tail[..., 2], tail[..., 3:modes],
            tail[..., modes:],
        )  # fmt: skip


def state_size(n_latents: int, n_components: int) -> int:
    """Return the numbers in the state of one image and one component, but for light."""
    return n_latents + 3 + (n_latents if n_components > 1 else 0)
