"""Columns of records that have a meaning, as numbers."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from sktem.compartments.record_files import hours_of, number_of

__all__ = ["COLUMNS", "complete", "numbers", "unread"]

#: Columns with a meaning, and their values where a data set lacks them.
COLUMNS = {
    "ID": None, "TIME": None, "DV": np.nan, "AMT": 0.0, "RATE": 0.0, "II": 0.0,
    "ADDL": 0.0, "SS": 0.0, "CMT": 0.0, "EVID": None, "MDV": None, "CENS": 0.0,
    "LIMIT": np.nan, "DUR": None,
}  # fmt: skip


def complete(columns, n):
    """Return numeric columns, with defaults for missing columns and values."""
    full = {"ID": columns["ID"]}
    for name, default in COLUMNS.items():
        if name == "ID":
            continue
        if name in columns:
            full[name] = numbers(name, columns[name])
        elif default is not None:
            full[name] = np.full(n, default)
    if "EVID" in full:
        full["EVID"] = np.where(np.isnan(full["EVID"]), 0.0, full["EVID"])
    else:
        is_dose = (np.nan_to_num(full["AMT"]) > 0) | (np.nan_to_num(full["RATE"]) > 0)
        full["EVID"] = is_dose.astype(float)
    # Of a dose the amount must be known, unless an infusion never ends.
    unknown = np.isin(full["EVID"], (1, 4)) & ~(full["RATE"] > 0)
    for name in ("AMT", "RATE", "II", "ADDL", "SS", "CMT", "CENS"):
        missing = np.isnan(full[name]) & ~(unknown & (name == "AMT"))
        full[name] = np.where(missing, COLUMNS[name], full[name])
    if "DUR" in full:
        full["DUR"] = lasts = np.nan_to_num(full["DUR"])
        rates = full["AMT"] / np.where(lasts > 0, lasts, 1.0)
        full["RATE"] = np.where((full["RATE"] == 0) & (lasts > 0), rates, full["RATE"])
    unobserved = (full["EVID"] != 0).astype(float)
    if "MDV" in full:
        full["MDV"] = np.where(np.isnan(full["MDV"]), unobserved, full["MDV"])
    else:
        full["MDV"] = unobserved
    for name, values in columns.items():
        if name not in full:
            full[name] = values
            if values.dtype.kind in "OUS":  # of numbers, too, where some are "."
                with suppress(ValueError):
                    full[name] = numbers(name, values)
    return full


def unread(columns, given):
    """Return which records have a DV that nothing reads, and nobody has said so."""
    values, unobserved = columns["DV"], columns["EVID"] != 0
    told = 0.0 if given is None else numbers("MDV", given)
    return unobserved & np.isfinite(values) & (values != 0) & (told != 1)


def numbers(name, values):
    """Return numbers, NaN for "." and empty fields; an error names the record."""
    if values.dtype.kind in "mM":
        raise ValueError(
            f"{name} holds dates or durations, whose unit is not known: make numbers "
            'of them, such as hours, (t - t.min()) / pd.Timedelta("1h")'
        )
    if values.dtype.kind in "biuf":
        return values.astype(float)
    numbers = np.empty(len(values))
    for i, value in enumerate(values.tolist()):
        try:
            numbers[i] = hours_of(value) if name == "TIME" else number_of(value)
        except (TypeError, ValueError):
            advice = (
                "; a value below the limit of quantification has CENS 1, and the limit "
                "in DV"
            )
            raise ValueError(
                f"record {i + 1}: {name} must be a number, got {value!r}"
                f"{advice if name == 'DV' else ''}"
            ) from None
    return numbers
