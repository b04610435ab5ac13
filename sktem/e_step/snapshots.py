"""Files with what is remembered of rows, so that little has to be computed again."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
import warnings
import weakref
from typing import Any

from sktem.exceptions import FitWarning
from sktem.rows.partitions import current_client

__all__ = ["Snapshots"]

#: Visits after which what is remembered is written to files.
VISITS_PER_SNAPSHOT = 10


class Snapshots:
    """Writes results of tasks to files, which later tasks begin with.

    A result that is an argument of the next task, and so on, would have to be computed
    from the first one again when a worker is lost, and Dask would remember all tasks.

    Parameters
    ----------
    X : PartitionedRows
        Whose tasks they are.
    folder : str or None
        A folder that all workers see; None is that for temporary files.
    """

    def __init__(self, X, folder):
        self.X = X
        self.count = 0
        self.folder: str | None = None
        client = current_client()
        if client is None:  # results are in this process, which is not lost alone
            return
        if folder is not None:
            os.makedirs(folder, exist_ok=True)
        path = tempfile.mkdtemp(prefix="sktem-", dir=folder)
        weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)
        if all(client.run(os.path.isdir, path).values()):
            self.folder = path
        else:
            warnings.warn(
                f"Dask's workers do not see the folder {os.path.dirname(path)!r}: what "
                "is remembered of rows will be computed again from the start if a "
                "worker is lost. Set memory to a folder that all workers see.",
                FitWarning,
                stacklevel=2,
            )

    def taken(self, kept: dict[int, Any]) -> dict[int, Any]:
        """Count a visit; return results, which come from files after some visits."""
        self.count += 1
        if self.folder is None or self.count % VISITS_PER_SNAPSHOT:
            return kept
        number = self.count // VISITS_PER_SNAPSHOT
        paths = {index: self._path(index, number) for index in kept}
        save, load = self.X.delayed(_save), self.X.delayed(_load)
        self.X.compute([save(kept[index], path) for index, path in paths.items()])
        _, loaded = self.X.compute([], [load(path) for path in paths.values()])
        for index in kept:
            if os.path.exists(before := self._path(index, number - 1)):
                os.remove(before)
        return dict(zip(paths, loaded, strict=True))

    def _path(self, index, number):
        return os.path.join(str(self.folder), f"partition-{index}-{number}.pickle")


def _save(value, path):
    """Write a file, whole or not at all."""
    part = f"{path}.{os.getpid()}"
    try:
        with open(part, "wb") as file:
            pickle.dump(value, file, protocol=5)
        os.replace(part, path)
    except OSError as error:
        why = f"what is remembered of the rows cannot be written ({error.strerror})"
        raise OSError(error.errno, why, path) from error


def _load(path):
    with open(path, "rb") as file:
        return pickle.load(file)
