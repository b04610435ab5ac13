"""Columns as data frames of the kind of another one."""

from __future__ import annotations

__all__ = ["as_frame"]


def as_frame(columns, names=None, like=None):
    """Return columns as a data frame of pandas, or of the kind of another one.

    Parameters
    ----------
    columns : dict of int to ndarray
        The columns.
    names : sequence of str or None, default=None
        Their names, without another frame.
    like : data frame or None, default=None
        Frame whose names, index and types are taken over. Integers and booleans become
        floats where values are fractions.

    Returns
    -------
    data frame
        The frame.
    """
    import pandas as pd

    names = list(names if like is None else like.columns)
    frame = pd.DataFrame(dict(zip(names, columns.values(), strict=True)))
    if like is None:
        return frame.infer_objects()
    if not hasattr(like, "iloc"):
        return _of_polars(frame, like)
    frame.index = like.index
    for name in names:
        wanted = like[name].dtype
        if frame[name].isna().any() and wanted.kind in "biu":
            continue
        if hasattr(wanted, "categories") and frame[name].dtype.kind == "f":
            continue  # fractions need not be among categories that are numbers
        whole = wanted.kind not in "biu" or _are_whole(frame[name])
        if wanted != frame[name].dtype and whole:
            frame[name] = frame[name].astype(wanted)
    return frame


def _of_polars(frame, like):
    """Return a frame of polars with the types of another one, where they fit."""
    kinds = {}
    for name, kind in like.schema.items():
        takes_fractions = not (kind.is_integer() or str(kind) == "Boolean")
        if takes_fractions or _are_whole(frame[name]):
            kinds[name] = kind
    return type(like)({name: list(frame[name]) for name in frame}).cast(kinds)


def _are_whole(values):
    """Return whether values are whole numbers, or no floats at all."""
    return values.dtype.kind != "f" or bool((values == values.round()).all())
