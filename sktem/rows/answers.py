"""Answers about rows that are read by blocks: arrays, iterators, Dask arrays."""

from __future__ import annotations

import numpy as np

from sktem.rows.sources import found_rows, is_stream

__all__ = ["gathered", "in_memory"]


def gathered(X, blocks, out):
    """Return answers about blocks: written to ``out``, an array or an iterator."""
    if out is not None:
        return _written(blocks, out)
    if not is_stream(X) and (isinstance(X, np.ndarray) or found_rows(X) is None):
        parts = list(blocks)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    return blocks


def in_memory(answers):
    """Return answers, an iterator of them, or a Dask array, as an array."""
    if hasattr(answers, "compute"):
        return answers.compute()
    return np.concatenate([*answers]) if hasattr(answers, "__next__") else answers


def _written(blocks, out):
    """Write blocks to an array, which has to have their length, and return it."""
    first = 0
    for block in blocks:
        if first + len(block) > len(out):
            raise ValueError(f"out has {len(out)} rows, and X has more")
        _check_room(block, out)
        out[first : first + len(block)] = block
        first += len(block)
    if first != len(out):
        raise ValueError(f"out has {len(out)} rows, and X has {first}")
    return out


def _check_room(block, out):
    """Raise if answers do not fit into the rows of ``out``, or would be cut there."""
    shape, dtype = getattr(out, "shape", None), getattr(out, "dtype", None)
    if shape is not None and tuple(shape[1:]) != tuple(block.shape[1:]):
        raise ValueError(
            f"out has shape {tuple(shape)}, and the answer for each row has shape "
            f"{tuple(block.shape[1:])}"
        )
    if isinstance(block, np.ndarray) and isinstance(dtype, np.dtype):
        if block.dtype.kind == "f" and dtype.kind in "biu":
            raise ValueError(f"out holds {dtype}, and answers are {block.dtype}")
