"""EM and k-means on clusters: sktem on Dask, Spark's GaussianMixture, dask-ml's KMeans.

All of them have the same double-precision rows of overlapping components, in as many
partitions and in memory, and two cores: ours and dask-ml's two worker processes of a
thread each, Spark's two threads of ``local[2]``. Spark chooses the start, which is its
model after no iteration, and ours begins there, with full covariances, no floor of the
variances and equally many iterations; both ends are scored by the same code, on rows
that neither has seen. The unit of the rows is small because Spark adds 2e-16 to each
density: where densities are not far above that, as in 16 dimensions and with variances
near 1, its iterations are not those of EM. dask-ml's k-means from the same means, and
ours with diagonal covariances, show what a pass over a Dask array costs.

Printed is what an iteration takes, by the clock and of the processors of all processes
together: the difference of fits with few and with more iterations, in turns.

Run, in an environment that has sktem with its extras "dask" and "arrow", pyspark (which
needs Java) and dask-ml, ``python benchmarks/peer_clusters.py``. The table is
``doc/tables/peer_clusters.txt``.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
from machine import describe

from sktem import StochasticEMGaussianMixture

FEW = 1  # iterations of the short fit
HELD_OUT = 100_000


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=16)
    parser.add_argument("--components", type=int, default=16)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--turns", type=int, default=5)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    from distributed import Client, LocalCluster

    names = ("pyspark", "dask", "dask-ml")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    print(f"{describe()}, {versions}")
    n_rows = arguments.rows + HELD_OUT
    X = rows_of(n_rows, arguments.features, arguments.components)
    X, held_out = X[:-HELD_OUT], X[-HELD_OUT:]
    settings = {"threads_per_worker": 1, "dashboard_address": None}
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=2, **settings) as cluster,
        Client(cluster) as client,
    ):
        spark = Spark(X, arguments, folder)
        start = spark.parameters(spark.fit(0))
        rows = persisted(client, X, arguments.partitions)
        fits = {
            "Spark GaussianMixture, full": spark.fit,
            "sktem, full": lambda n: ours(rows, n, start, "full"),
            "sktem, diagonal": lambda n: ours(rows, n, start, "diag"),
            "dask-ml KMeans": lambda n: k_means(rows, n, start[1]),
        }
        clocks = {
            name: spark.clocks if "Spark" in name else lambda: clocks_of_dask(client)
            for name in fits
        }
        found, ends = timed(fits, clocks, arguments)
        spark_end = spark.parameters(ends["Spark GaussianMixture, full"])
        spark.close()
    report(found, arguments)
    last = FEW + arguments.iterations
    end = ends["sktem, full"]
    own = end.weights_, end.means_, end.covariances_
    for name, parameters in (("start", start), ("Spark", spark_end), ("sktem", own)):
        value = log_likelihood(held_out, parameters)
        when = "" if name == "start" else f" after {last} iterations"
        print(f"{name:>6s}: {value:.9f} nats a row held out{when}")
    difference = np.max(np.abs(spark_end[1] - own[1]))
    print(f"largest difference of the means {difference / np.std(X):.1e} of the scale")


def rows_of(n_rows, d, K, seed=0):
    """Return rows of overlapping components, in a small unit."""
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((K, d))
    shapes = np.eye(d) + 0.3 * rng.standard_normal((K, d, d)) / np.sqrt(d)
    labels = rng.integers(K, size=n_rows)
    X = rng.standard_normal((n_rows, d))
    for k in range(K):
        X[labels == k] = X[labels == k] @ shapes[k] + means[k]
    return X / 100


class Spark:
    """Spark's mixture on rows in the memory of its JVM."""

    def __init__(self, X, arguments, folder):
        import pyarrow
        from pyarrow import parquet
        from pyspark.ml.feature import VectorAssembler
        from pyspark.sql import SparkSession

        names = [f"x{j}" for j in range(X.shape[1])]
        path = str(Path(folder) / "rows.parquet")
        parquet.write_table(
            pyarrow.table(dict(zip(names, X.T, strict=True))), path,
            row_group_size=-(-len(X) // arguments.partitions),
        )  # fmt: skip
        self.session = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.memory", "4g")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.local.dir", folder)
            .getOrCreate()
        )
        self.session.sparkContext.setLogLevel("ERROR")
        columns = self.session.read.parquet(path)
        vectors = VectorAssembler(inputCols=names, outputCol="features")
        self.rows = vectors.transform(columns).select("features")
        self.rows = self.rows.repartition(arguments.partitions).cache()
        assert self.rows.count() == len(X)
        self.pid = self.session.sparkContext._gateway.proc.pid
        self.n_components = arguments.components

    def fit(self, n_iterations):
        """Return the model after some iterations."""
        from pyspark.ml.clustering import GaussianMixture

        return GaussianMixture(
            k=self.n_components, maxIter=n_iterations, tol=0.0, seed=0
        ).fit(self.rows)

    def parameters(self, model):
        """Return weights, means and covariances."""
        gaussians = model.gaussiansDF.collect()
        means = np.array([row["mean"].toArray() for row in gaussians])
        covariances = np.array([row["cov"].toArray() for row in gaussians])
        return np.array(model.weights), means, covariances

    def clocks(self):
        """Return seconds by the clock and of the processors, of the JVM and here."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks = int(fields[11]) + int(fields[12])
        there = ticks / os.sysconf("SC_CLK_TCK")
        return time.perf_counter(), time.process_time() + there

    def close(self):
        self.session.stop()


def persisted(client, X, n_partitions):
    """Return a Dask array in the memory of the workers."""
    import dask.array as da
    from distributed import wait

    rows = client.persist(da.from_array(X, chunks=(-(-len(X) // n_partitions), -1)))
    wait(rows)
    client.rebalance(rows)
    return rows


def ours(rows, n_iterations, start, kind):
    """Return our mixture after some iterations."""
    return mixture_from(start, kind, n_iterations).fit(rows)


def mixture_from(start, kind, n_iterations):
    weights, means, covariances = start
    precisions = np.linalg.inv(covariances)
    if kind == "diag":
        precisions = 1 / np.diagonal(covariances, axis1=1, axis2=2)
    return StochasticEMGaussianMixture(
        len(weights), covariance_type=kind, weights_init=weights, means_init=means,
        precisions_init=precisions, solver="em", max_iter=n_iterations, tol=0,
        reg_covar=0,
    )  # fmt: skip


def k_means(rows, n_iterations, means):
    """Return dask-ml's k-means after some iterations."""
    from dask_ml.cluster import KMeans

    return KMeans(len(means), init=means, max_iter=n_iterations, tol=0).fit(rows)


def clocks_of_dask(client):
    """Return seconds by the clock and of the processors, of all processes."""
    workers = sum(client.run(time.process_time).values())
    return time.perf_counter(), time.process_time() + workers


def timed(fits, clocks, arguments):
    """Return clock and processor seconds of iterations, and the last estimators."""
    found, ends = {name: [] for name in fits}, {}
    last = FEW + arguments.iterations
    for fit in fits.values():  # loads and compiles what is needed
        fit(FEW)
    for _ in range(arguments.turns):
        for name, fit in fits.items():
            clock, seconds = clocks[name], []
            for n_iterations in (FEW, last):
                begun = np.array(clock())
                ends[name] = fit(n_iterations)
                seconds.append(clock() - begun)
            found[name].append((seconds[1] - seconds[0]) / arguments.iterations)
    return found, ends


def report(found, arguments):
    """Print a line for each kind of fit."""
    n, d, K = arguments.rows, arguments.features, arguments.components
    print(
        f"{n:,} x {d} float64, {K} components, {arguments.partitions} partitions, two "
        f"cores (load {os.getloadavg()[0]:.1f})\n"
        f"seconds of an iteration, median [quartiles] of {arguments.turns}"
    )
    for name, seconds in found.items():
        cells = [
            "{1:.3f} [{0:.3f}, {2:.3f}]".format(*np.percentile(column, (25, 50, 75)))
            for column in np.transpose(seconds)
        ]
        print(f"{name:>28s}: {cells[0]} by the clock, {cells[1]} of processors")
    peer, full, diagonal, means = (np.median(v, axis=0) for v in found.values())
    for what, ratio in (
        ("Spark / sktem, full", peer / full),
        ("dask-ml KMeans / sktem, diagonal", means / diagonal),
    ):
        print(f"{what}: {ratio[0]:.1f} by the clock, {ratio[1]:.1f} of processors")


def log_likelihood(X, parameters):
    """Return the mean log-likelihood of the rows at parameters."""
    return mixture_from(parameters, "full", 0).fit(X[:1000]).score(X)


if __name__ == "__main__":
    main()
