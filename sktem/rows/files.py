"""Rows of files: Parquet by row groups, .npy as memory maps."""

from __future__ import annotations

import glob
import os
from pathlib import Path

import numpy as np

from sktem import budget
from sktem.rows.arrays import ArrayRows, JoinedRows
from sktem.rows.arrow import import_pyarrow, numbers_of
from sktem.rows.base import ChangedRowsError, Rows

__all__ = [
    "NpyRows",
    "ParquetRows",
    "check_length",
    "found_files",
    "names_files",
    "opened",
    "rows_of_files",
]

#: Endings of the files that can be read.
ENDINGS = (".parquet", ".npy")


class NpyRows(ArrayRows):
    """Rows of a .npy file, as a memory map.

    Parameters
    ----------
    path : str
        The file.
    """

    def __init__(self, path):
        super().__init__(opened(path), str(path))
        self.length = os.path.getsize(path)

    def piece(self, index):
        """Read the file in slices."""
        check_length(self.name, self.length)
        return super().piece(index)

    def take(self, indices):
        """Return chosen rows."""
        check_length(self.name, self.length)
        return super().take(indices)

    blocks = Rows.blocks


class ParquetRows(Rows):
    """Rows of Parquet files, one after another; the pieces are the row groups.

    Parameters
    ----------
    paths : list of str
        The files.
    """

    def __init__(self, paths):
        import_pyarrow()
        from pyarrow import parquet

        self.open = parquet.ParquetFile
        self.groups = []
        self.n_rows = 0
        for path in paths:
            with self.open(path) as file:
                names = list(file.schema_arrow.names)
                if self.names is None:
                    self.names = names
                elif names != self.names:
                    raise ValueError(
                        f"{path} has the columns {names}, and {paths[0]} has "
                        f"{self.names}"
                    )
                counts = range(file.metadata.num_row_groups)
                self.groups += [(path, group, len(counts)) for group in counts]
                self.n_rows += file.metadata.num_rows
        self.n_pieces = len(self.groups)

    def where(self, index):
        """Return the file and the row group."""
        path, group, _ = self.groups[index]
        return f"row group {group} of {path}"

    def piece(self, index):
        """Read a row group."""
        path, group, n_groups = self.groups[index]
        with self.open(path) as file:
            if file.metadata.num_row_groups != n_groups:
                raise ChangedRowsError(f"{path} has changed since it was opened")
            batches = file.iter_batches(
                budget.MEMORY.rows, row_groups=[group], columns=self.names
            )
            yield from (numbers_of(batch, self.coded) for batch in batches)


def check_length(path, length):
    """Raise if a file has another length than before.

    Reading behind the end of a mapped file that has become shorter kills the process.
    """
    if os.path.getsize(path) != length:
        raise ChangedRowsError(f"{path} has changed its length while it was read")


def names_files(X) -> bool:
    """Return whether X is a path, or a list of paths."""
    paths = X if isinstance(X, (list, tuple)) and X else [X]
    return all(isinstance(path, (str, os.PathLike)) for path in paths)


def opened(path):
    """Return a memory map of a .npy file."""
    try:
        return np.load(path, mmap_mode="r")
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is no .npy file of numbers: {error}") from error


def _files_of(path):
    """Return the sorted files of a path, a folder or a pattern."""
    if os.path.isdir(path):
        files = [str(file) for file in Path(path).iterdir()]
        return sorted(file for file in files if file.endswith(ENDINGS))
    return [path] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))


def found_files(path):
    """Return the names of files: see `_files_of`; those of a list in its order."""
    several = isinstance(path, (list, tuple))
    names = [os.fspath(entry) for entry in (path if several else [path])]
    files_of = {name: _files_of(name) for name in names}
    files = [file for name in names for file in files_of[name]]
    if several and not all(files_of.values()):
        lost = [name for name in names if not files_of[name]]
        raise ValueError(f"X names files that do not exist: {lost}")
    kinds = {os.path.splitext(file)[1] for file in files}
    if len(kinds) != 1 or not kinds <= set(ENDINGS):
        what = f"files ending with {sorted(kinds)}" if kinds else "no file"
        raise ValueError(
            f"X={names if several else names[0]!r} must name files that all end with "
            f".parquet or all with .npy, found {what}"
        )
    return files


def rows_of_files(path):
    """Return the rows of files, see `found_files`."""
    files = found_files(path)
    if files[0].endswith(".parquet"):
        return ParquetRows(files)
    parts = [NpyRows(file) for file in files]
    return parts[0] if len(parts) == 1 else JoinedRows(parts)
