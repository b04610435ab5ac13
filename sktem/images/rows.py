"""Images that are read by blocks."""

from __future__ import annotations

import os
from math import prod
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sktem import budget
from sktem.images.shapes import rows_of
from sktem.rows.answers import gathered
from sktem.rows.base import Rows
from sktem.rows.checked import check_columns, checked_blocks
from sktem.rows.files import (
    check_length,
    found_files,
    names_files,
    opened,
    rows_of_files,
)
from sktem.rows.held import carrier_of
from sktem.rows.partitions import DaskRows
from sktem.rows.sources import as_chunk, at_least_one, found_rows, is_stream

__all__ = [
    "answer",
    "chunks_of",
    "found_images",
    "images_of_start",
]


class ImageRows(Rows):
    """Images of arrays, one after another, as rows of pixels.

    Parameters
    ----------
    arrays : list of array
        Arrays of images: memory maps, zarr or h5py arrays.
    names : list of str
        What errors call them.
    """

    can_take = True

    def __init__(self, arrays, names):
        self.arrays = arrays
        self.labels = names
        paths = [name for name in names if os.path.isfile(name)]
        self.files = {path: os.path.getsize(path) for path in paths}
        self.n_pieces = len(arrays)
        self.ends = np.cumsum([int(array.shape[0]) for array in arrays])
        self.n_rows = int(self.ends[-1])
        shapes = {tuple(array.shape[1:]) for array in arrays}
        if len(shapes) > 1:
            raise ValueError(f"images of different shapes: {sorted(shapes)}")
        self.image_shape = shapes.pop()

    @property
    def n_columns(self):
        """Number of pixels."""
        return prod(self.image_shape)

    def where(self, index):
        """Return the name of an array."""
        return self.labels[index]

    def piece(self, index):
        """Read the images of an array."""
        self._check_length(index)
        array, size = self.arrays[index], budget.block_rows(self.n_columns)
        for start in range(0, int(array.shape[0]), size):
            yield _flat(array[start : start + size])

    def take(self, indices):
        """Return chosen images."""
        which = np.searchsorted(self.ends, indices, side="right")
        taken: Any = None
        for index in np.unique(which):
            self._check_length(index)
            array, chosen = self.arrays[index], np.flatnonzero(which == index)
            rows = indices[chosen] - (self.ends[index] - int(array.shape[0]))
            if isinstance(array, np.ndarray):
                images = array[rows]
            else:  # these want increasing numbers
                rows, places = np.unique(rows, return_inverse=True)
                images = getattr(array, "oindex", array)[rows][places]
            images = _flat(images)
            if taken is None:
                taken = np.empty((len(indices), self.n_columns), images.dtype)
            taken[chosen] = images
        return taken

    def _check_length(self, index):
        if (name := self.labels[index]) in self.files:
            check_length(name, self.files[name])


class DaskImages(DaskRows):
    """Images of a Dask array that have their own axes, as rows of pixels.

    Parameters
    ----------
    images : dask.array.Array
        A stack of images; the number of images may be unknown.
    """

    def __init__(self, images):
        self.image_shape = tuple(map(int, images.shape[1:]))
        if max(images.numblocks[1:]) > 1:
            images = images.rechunk(dict.fromkeys(range(1, images.ndim), -1))
        rows = images.map_blocks(
            _flat,
            dtype=images.dtype,
            chunks=(images.chunks[0], (prod(self.image_shape),)),
            drop_axis=list(range(2, images.ndim)),
            meta=np.empty((0, 0), images.dtype),
        )
        super().__init__(rows)


def _flat(images):
    """Return images as rows of pixels."""
    images = np.asarray(images)
    return images.reshape(len(images), prod(images.shape[1:]))


def found_images(X) -> Rows | None:
    """Return a reader of X by blocks, None if X is an array or a list of images."""
    if names_files(X):
        files = found_files(X)
        if files[0].endswith(".npy"):
            return ImageRows([opened(file) for file in files], files)
        return rows_of_files(X)
    if isinstance(X, np.memmap) and X.ndim >= 2:
        return ImageRows([X], ["X"])
    if type(X).__module__.partition(".")[0] in ("zarr", "h5py") and X.ndim >= 2:
        return ImageRows([X], ["X"])
    if type(X).__module__.startswith("dask") and getattr(X, "ndim", 0) > 2:
        return DaskImages(X)
    return None if isinstance(X, (np.ndarray, list, tuple)) else found_rows(X)


def images_of_start(X, sample_weight, rng):
    """Return the images from which a start is made, all of them or a sample."""
    if carrier_of(X).in_memory:
        return X, sample_weight
    size, rows = max(budget.MEMORY.kept // X.shape[1], 1), np.arange(len(X))
    if len(X) > size:
        rows = np.sort(rng.choice(len(X), size, replace=False))
    images = np.asarray(X.take(rows), dtype=np.float64)
    return images, None if sample_weight is None else sample_weight[rows]


def answer(estimator, X, function, out):
    """Return a function of images, by blocks where they are read so."""
    check_is_fitted(estimator)
    iterated = is_stream(X)
    source = None if iterated else found_images(X)
    if source is not None and source.is_remote and out is None:
        check_columns(estimator, source, reset=False)

        def answers(block):
            return function(_images(estimator, block))

        return source.answers(answers, allow_nan=True)
    blocks = map(function, _each_block(estimator, X, source, iterated))
    by_blocks = source is not None and not isinstance(X, np.ndarray)
    return gathered(source if by_blocks else X, blocks, out)


def chunks_of(X, sample_weight):
    """Yield what a stream brings: one array, or those of an iterator or of rows."""
    iterated = is_stream(X)
    source = None if iterated else found_images(X)
    if source is None and not iterated:
        yield X
        return
    if sample_weight is not None:
        raise ValueError("sample_weight needs X to be a single array")
    if source is None:
        yield from at_least_one(map(as_chunk, X))
        return
    shape = getattr(source, "image_shape", (source.n_columns,))
    blocks = source.blocks(budget.block_rows(source.n_columns))
    for _, block in at_least_one(blocks):
        yield block.reshape(-1, *shape)


def _each_block(estimator, X, source, iterated):
    if source is None:
        for chunk in map(as_chunk, X) if iterated else [X]:
            yield estimator._checked(chunk)
        return
    check_columns(estimator, source, reset=False)
    for block in checked_blocks(source, estimator.n_features_in_, allow_nan=True):
        yield _images(estimator, block)


def _images(estimator, block):
    """Return rows as an estimator computes with them."""
    if getattr(estimator, "channel_axis", None) is not None:
        shape, axis = estimator.image_shape_, estimator.channel_axis
        block = rows_of(np.asarray(block), shape, axis)[0]
    return np.asarray(block, dtype=np.float64, order="C")
