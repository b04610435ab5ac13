"""Tables of records in text files."""

from __future__ import annotations

import csv

import numpy as np

__all__ = ["comments", "hours_of", "number_of", "read_table"]


def read_table(path, ignore):
    """Return the columns of a text file, numbers where all fields are numbers."""
    lines = _text(path).splitlines()
    lines = [line for line in lines if line.strip()]
    # A table that NONMEM has written has a title.
    lines = lines[1:] if lines and lines[0].startswith("TABLE NO.") else lines
    if not lines:
        raise ValueError(f"{path} is empty")
    separator = next((s for s in (",", "\t", ";") if s in lines[0]), None)
    names = _fields(lines[0].lstrip("\ufeff#"), separator)
    if twice := [name for k, name in enumerate(names) if name in names[:k]]:
        raise ValueError(f"{path} has several columns {twice[0]!r}")
    rows = []
    are_comments = comments(lines[1:], separator, ignore)
    for k, line in enumerate(lines[1:], start=2):
        if are_comments[k - 2]:
            continue
        fields = _fields(line, separator)
        if len(fields) != len(names):
            raise ValueError(
                f"{path}, line {k}: {len(fields)} fields, but {len(names)} names of "
                "columns"
            )
        rows.append(fields)
    table = {}
    columns = [[row[j] for row in rows] for j in range(len(names))]
    for name, fields in zip(names, columns, strict=True):
        try:
            values = np.array([number_of(field) for field in fields])
            if name.upper() == "ID" and not np.isnan(values).any():
                whole = values.astype(np.int64)
                values = whole if (whole == values).all() else values
            table[name] = values
        except ValueError:
            table[name] = np.array(fields, dtype=object)
    return table


def comments(lines, separator, ignore):
    """Return which lines are left out, with a letter only if the others have none."""
    marks = [line.lstrip()[:1] for line in lines]
    firsts = [
        _fields(line, separator)[0]
        for line, mark in zip(lines, marks, strict=True)
        if mark not in ignore
    ]
    try:
        numbers = [number_of(field) for field in firsts]
    except ValueError:
        numbers = []
    return [mark in ignore and bool(numbers or not mark.isalpha()) for mark in marks]


def _fields(line, separator):
    """Return the fields of a line without blanks and quotation marks."""
    if separator is None:
        fields = line.split()
    else:
        [fields] = csv.reader([line], delimiter=separator, skipinitialspace=True)
    return [field.strip().strip('"').strip("'") for field in fields]


def _text(path):
    """Return the text of a file that may be compressed."""
    import bz2
    import gzip
    import lzma

    unpack = {".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress}
    content = path.read_bytes()
    if path.suffix in unpack:
        content = unpack[path.suffix](content)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def number_of(value):
    """Return a field as a number, NaN if it is missing."""
    if value is None or (isinstance(value, str) and value.strip() in ("", ".", "NA")):
        return np.nan
    try:
        return float(value)
    except TypeError:
        if value != value or type(value).__name__ == "NAType":
            return np.nan
        raise


def hours_of(value):
    """Return a time as a number, of a clock in hours."""
    if isinstance(value, str) and ":" in value:
        parts = [float(part) for part in value.split(":")]
        return float(sum(part / 60.0**k for k, part in enumerate(parts)))
    return number_of(value)
