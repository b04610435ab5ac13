"""Files with what is remembered of rows, so that little has to be computed again."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
import warnings
import weakref
from collections import Counter

from sktem.exceptions import FitWarning
from sktem.rows.tasks import Call, Held, current_client

__all__ = ["Snapshots", "save"]

#: Visits of a partition after which what is remembered of it is written to a file.
VISITS_PER_SNAPSHOT = 10


class Snapshots:
    """Where tasks write what is remembered of partitions, and later ones begin.

    A result that is an argument of the next task, and so on, would have to be computed
    from the first one again when a worker is lost, and Dask would remember all tasks.

    Parameters
    ----------
    folder : str or None
        A folder that all workers see; None is that for temporary files.
    """

    def __init__(self, folder):
        self.counts: Counter = Counter()
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

    def path(self, index: int) -> str | None:
        """Count a visit of a partition; return where it writes, None for nowhere."""
        self.counts[index] += 1
        number, rest = divmod(self.counts[index], VISITS_PER_SNAPSHOT)
        return None if rest or self.folder is None else self._path(index, number)

    def written(self, index: int, path: str) -> Held:
        """Return what stands for what has been written, and remove what was before."""
        number = self.counts[index] // VISITS_PER_SNAPSHOT
        if os.path.exists(before := self._path(index, number - 1)):
            os.remove(before)
        return Held(f"sktem-{path}", Call(load, (path,)))

    def _path(self, index, number):
        return os.path.join(str(self.folder), f"partition-{index}-{number}.pickle")


def save(value, path):
    """Write a file, whole or not at all."""
    part = f"{path}.{os.getpid()}"
    try:
        with open(part, "wb") as file:
            pickle.dump(value, file, protocol=5)
        os.replace(part, path)
    except OSError as error:
        why = f"what is remembered of the rows cannot be written ({error.strerror})"
        raise OSError(error.errno, why, path) from error


def load(path):
    """Read what was written."""
    with open(path, "rb") as file:
        return pickle.load(file)
