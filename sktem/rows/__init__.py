"""Sources of rows: arrays, chunks, files; one protocol, read block by block."""

from sktem.rows.base import Rows, repeat_rows
from sktem.rows.sources import as_rows

__all__ = ["Rows", "as_rows", "repeat_rows"]
