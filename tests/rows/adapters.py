"""The same rows in every form that can be read by blocks."""

import numpy as np
import pytest

from sktem.rows import Rows


class Chunked(Rows):
    """A source of one's own, with uneven pieces."""

    def __init__(self, X, lengths=(7, 0, 100, 1), *, dropped=None):
        ends = np.cumsum(lengths) % (len(X) + 1)
        self.parts = np.split(X, np.unique(ends))
        self.n_pieces = len(self.parts)
        self.dropped = dropped

    def piece(self, index):
        if index != self.dropped:
            yield self.parts[index][:3]
            yield self.parts[index][3:]


def names_of(X):
    return [f"x{j}" for j in range(X.shape[1])]


def table(X):
    pyarrow = pytest.importorskip("pyarrow")
    return pyarrow.table(dict(zip(names_of(X), X.T, strict=True)))


def memory_map(X, folder):
    path = folder / "mapped.npy"
    np.save(path, np.asfortranarray(X))
    return np.load(path, mmap_mode="r")


def npy_files(X, folder):
    for number, part in enumerate(np.array_split(X, 3)):
        np.save(folder / f"part{number}.npy", part)
    return str(folder / "part*.npy")


def parquet(X, folder):
    parquet = pytest.importorskip("pyarrow.parquet")
    for number, part in enumerate(np.array_split(X, 2)):
        name = folder / f"rows{number}.parquet"
        parquet.write_table(table(part), name, row_group_size=61)
    return folder


def dataset(X, folder):
    pytest.importorskip("pyarrow")
    from pyarrow import dataset

    return dataset.dataset(str(parquet(X, folder)))


def lazy_frame(X, folder):
    polars = pytest.importorskip("polars")
    frame = polars.LazyFrame(dict(zip(names_of(X), X.T, strict=True)))
    if not hasattr(frame, "collect_batches"):
        pytest.skip("this polars does not collect in batches")
    return frame


def relation(X, folder):
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    connection = duckdb.connect()
    connection.register("given", table(X))
    return connection.sql("select * from given")


def zarr_array(X, folder):
    zarr = pytest.importorskip("zarr")
    made = zarr.create_array(
        str(folder / "rows.zarr"), shape=X.shape, chunks=(50, 2), dtype=X.dtype
    )
    made[:] = X
    return made


def hdf5(X, folder):
    h5py = pytest.importorskip("h5py")
    file = h5py.File(folder / "rows.h5", "w")
    return file.create_dataset("rows", data=X, chunks=(64, X.shape[1]))


def frames(X, folder):
    pandas = pytest.importorskip("pandas")
    parts = np.array_split(X, 4)
    return [pandas.DataFrame(part, columns=names_of(X)) for part in parts]


class Loader:
    """It begins anew each time it is iterated over, like a loader of batches."""

    def __init__(self, X):
        self.X = X

    def __iter__(self):
        return iter(np.array_split(self.X, 9))


ADAPTERS = {
    "own": lambda X, folder: Chunked(X),
    "memory map": memory_map,
    "list of arrays": lambda X, folder: np.array_split(X, 5),
    "list of frames": frames,
    "function": lambda X, folder: lambda: iter(np.array_split(X, 7)),
    "loader": lambda X, folder: Loader(X),
    "table": lambda X, folder: table(X),
    "lazy frame": lazy_frame,
    "relation": relation,
    "dataset": dataset,
    "parquet": parquet,
    "npy files": npy_files,
    "zarr": zarr_array,
    "hdf5": hdf5,
}
