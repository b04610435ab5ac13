"""Random numbers of some rows of a batch, wherever these are."""

from __future__ import annotations

import numpy as np

__all__ = ["BatchPart", "places_of", "repeated", "uniforms"]


class BatchPart(np.random.Generator):
    """The generator of a batch for some of its rows, which draw what they would there.

    Whatever part of a batch it is for, it is left in the same state.

    Parameters
    ----------
    bit_generator : numpy.random.BitGenerator
        That of the batch.
    places : ndarray of int64
        Where in the batch the rows are.
    n_rows : int
        Rows of the batch.
    """

    def __init__(self, bit_generator, places, n_rows):
        super().__init__(bit_generator)
        self.places, self.n_rows = places, n_rows


def places_of(rng) -> np.ndarray | None:
    """Return where in a batch the rows of a generator are, None for all of them."""
    return rng.places if isinstance(rng, BatchPart) else None


def repeated(rng, count):
    """Return the generator of rows that have been repeated, each on its own."""
    if not isinstance(rng, BatchPart):
        return rng
    places = (count * rng.places[:, None] + np.arange(count)).ravel()
    return BatchPart(rng.bit_generator, places, count * rng.n_rows)


def uniforms(rng, shape, axis=0) -> np.ndarray:
    """Return uniform numbers of float32, for the rows of a part along an axis."""
    if not isinstance(rng, BatchPart):
        return rng.random(shape, np.float32)
    whole = (*shape[:axis], rng.n_rows, *shape[axis + 1 :])
    return rng.random(whole, np.float32).take(rng.places, axis=axis)
