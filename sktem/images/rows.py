"""Images that are read by blocks."""

from __future__ import annotations

import os
from math import prod

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sktem import budget
from sktem.images.shapes import rows_of
from sktem.rows.answers import gathered
from sktem.rows.arrays import ArrayRows, JoinedRows, SlicedRows
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

__all__ = ["answer", "chunks_of", "found_images", "images_of_start"]


class ImageRows(ArrayRows):
    """Images of an array as rows of pixels.

    Parameters
    ----------
    array : array
        A memory map, or a zarr or h5py array that is not cut into chunks of images.
    name : str, default="X"
        Its file, or what errors call it.
    """

    blocks = Rows.blocks

    def __init__(self, array, name="X"):
        self.array, self.name = array, name
        self.image_shape, self.n_rows = tuple(array.shape[1:]), int(array.shape[0])
        self.length = os.path.getsize(name) if os.path.isfile(name) else None

    @property
    def n_columns(self):
        """Number of pixels."""
        return prod(self.image_shape)

    def piece(self, index):
        """Read the images in slices."""
        self._check_length()
        return map(_flat, super().piece(index))

    def take(self, indices):
        """Return chosen images."""
        self._check_length()
        if isinstance(self.array, np.ndarray):
            return _flat(self.array[indices])
        # These want increasing numbers.
        rows, places = np.unique(indices, return_inverse=True)
        return _flat(getattr(self.array, "oindex", self.array)[rows][places])

    def _check_length(self):
        if self.length is not None:
            check_length(self.name, self.length)


class ChunkedImages(SlicedRows):
    """Images of a zarr or h5py array in chunks as rows of pixels, read in order.

    Parameters
    ----------
    array : array
        The images.
    """

    def __init__(self, array):
        self.image_shape = tuple(array.shape[1:])
        super().__init__(_Pixels(array))


class _Pixels:
    """Images of an array as a table that is read by slices."""

    ndim = 2

    def __init__(self, array):
        self.array, self.dtype, self.chunks = array, array.dtype, array.chunks
        self.shape = (array.shape[0], prod(array.shape[1:]))

    def __getitem__(self, rows):
        return _flat(self.array[rows])


class JoinedImages(JoinedRows):
    """Images of several arrays of one shape, one after another, as rows of pixels.

    Parameters
    ----------
    parts : list of ImageRows
        The arrays.
    """

    def __init__(self, parts):
        super().__init__(parts)
        shapes = {part.image_shape for part in parts}
        if len(shapes) > 1:
            raise ValueError(f"images of different shapes: {sorted(shapes)}")
        self.image_shape = shapes.pop()


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
            return JoinedImages([ImageRows(opened(file), file) for file in files])
        return rows_of_files(X)
    is_sliced = type(X).__module__.partition(".")[0] in ("zarr", "h5py")
    if (isinstance(X, np.memmap) or is_sliced) and X.ndim >= 2:
        cut = (getattr(X, "chunks", None) or (1,))[0] > 1
        return ChunkedImages(X) if cut else ImageRows(X)
    if type(X).__module__.startswith("dask") and getattr(X, "ndim", 0) > 2:
        return DaskImages(X)
    return None if isinstance(X, (np.ndarray, list, tuple)) else found_rows(X)


def images_of_start(X, sample_weight, rng):
    """Return the images of a start, all of them or a sample."""
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
    if source is None and not iterated and out is None:
        return next(blocks)  # an array or a list of images, which is no list of chunks
    by_blocks = source is not None and not isinstance(X, np.ndarray)
    return gathered(source if by_blocks else X, blocks, out)


def chunks_of(X, sample_weight):
    """Yield the chunks of a stream: one array, or those of an iterator or of rows."""
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
