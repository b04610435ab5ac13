"""Speed of deformable templates on images of 16 by 16 pixels.

18 x 18 landmarks of the template, 6 x 6 of the deformations (72 coordinates). All
times are CPU seconds of one thread (``time.process_time``), medians over repeats that
alternate between the methods, with the range in brackets.

- ``energy``: log-density of one deformation and its gradient. "dense" computes 324
  Gaussian kernels per pixel in vectorised NumPy, "separable" the 18 + 18 that a product
  grid needs, "compiled" is the package's loop over images with the template as a cubic
  spline. The floor is its arithmetic over the measured peak of a product of matrices.
- ``throughput``: images per second of five Langevin steps and their statistics.
- ``statistics``: the mid-point form against a dense ``K'K`` in NumPy.
- ``fits``: complete fits, and the compilation in fresh processes.

Run: ``python benchmarks/template.py``; one part with ``--parts energy``.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import replace

import numpy as np
from image_data import SHAPE, Report, digits, of_digit
from machine import describe
from numba import njit
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from sktem import DeformableTemplateEstimator
from sktem.exceptions import FitWarning
from sktem.template.kernels.field import new_work, steps_of
from sktem.template.kernels.products import fetch, quadratic
from sktem.template.model.statistics import split

PARTS = ("energy", "throughput", "statistics", "fits")


def spread(values, scale=1.0, digits=1):
    """Return median and range as text."""
    low, high = min(values) * scale, max(values) * scale
    middle = statistics.median(values) * scale
    return f"{middle:9.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def cpu_time(function, n_calls=1):
    """Return the CPU seconds of one call, the mean of several."""
    began = time.process_time()
    for _ in range(n_calls):
        function()
    return (time.process_time() - began) / n_calls


def alternate(functions, repeats):
    """Return CPU seconds per call of each; ``functions`` holds (function, calls)."""
    for function, _ in functions.values():
        function()
    times = {name: [] for name in functions}
    for _ in range(repeats):
        for name, (function, n_calls) in functions.items():
            times[name].append(cpu_time(function, n_calls))
    return times


def fit(X, **parameters):
    """Return a template fitted without warnings of folds and of short runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (FitWarning, ConvergenceWarning))
        return DeformableTemplateEstimator(SHAPE, **parameters).fit(X)


def measure_peak():
    """Return operations per second of a product of matrices on one thread."""
    A = np.random.default_rng(0).normal(size=(768, 768))
    return 2.0 * 768**3 / min(cpu_time(lambda: A @ A) for _ in range(15))


class Dense:
    """Log-density and gradient in NumPy, with all kernels of all pixels."""

    def __init__(self, grid, params):
        self.pixels = grid.pixels.T
        self.K_g = grid.design_of_deformations
        self.nodes = grid.nodes
        self.axes = grid.axes
        self.precision_p = grid.scale**-2
        self.beta = params.coefficients[0]
        self.square = self.nodes @ self.nodes.T
        self.node_squares = np.einsum("ij,ij->i", self.nodes, self.nodes)
        # I and its slopes are sums over the same kernels with these three weights.
        self.weights = np.column_stack([self.beta, self.beta[:, None] * self.nodes])
        self.tables = self.weights.T.reshape(3, len(self.axes[0]), len(self.axes[1]))
        self.precision = np.linalg.inv(params.covariances[0])
        self.noise_variance = params.noise_variances[0]

    def finish(self, y, z, x, sums):
        """Return energy and gradient from the three sums over kernels."""
        value = sums[:, 0]
        slopes = (sums[:, 1:] - x * value[:, None]) * self.precision_p
        residual = y - value
        pull = self.K_g.T @ (residual[:, None] * slopes)
        prior = self.precision @ z
        energy = residual @ residual / self.noise_variance + z @ prior
        return energy / 2, pull.T.ravel() / self.noise_variance + prior

    def positions(self, z):
        """Return the displaced pixels, (256, 2)."""
        return self.pixels - self.K_g @ z.reshape(2, -1).T

    def dense(self, y, z):
        """Compute all kernels of each pixel."""
        x = self.positions(z)
        squares = np.einsum("ij,ij->i", x, x)[:, None] + self.node_squares
        squares -= 2 * (x @ self.nodes.T)
        squares *= -0.5 * self.precision_p
        np.exp(squares, out=squares)
        return self.finish(y, z, x, squares @ self.weights)

    def separable(self, y, z):
        """Compute the kernels along each axis only."""
        x = self.positions(z)
        first, second = (
            np.exp(-0.5 * self.precision_p * np.subtract.outer(x[:, a], nodes) ** 2)
            for a, nodes in enumerate(self.axes)
        )
        sums = [np.einsum("ij,ij->i", first @ table, second) for table in self.tables]
        return self.finish(y, z, x, np.column_stack(sums))

    def dense_statistics(self, y, z):
        """Return ``K'y`` and ``K'K``."""
        x = self.positions(z)
        squares = np.einsum("ij,ij->i", x, x)[:, None] + self.node_squares
        squares -= 2 * (x @ self.nodes.T)
        squares *= -0.5 * self.precision_p
        K = np.exp(squares, out=squares)
        return K.T @ y, K.T @ K


class _Geometry:
    """Parts of a grid for the dense code."""

    def __init__(self, grid):
        self.pixels, self.scale = grid.pixels, grid.template_scale
        self.axes = grid.template_axes
        mesh = np.meshgrid(*grid.template_axes, indexing="ij")
        self.nodes = np.stack([axis.ravel() for axis in mesh], axis=1)
        units = np.eye(grid.n_places)
        zeros = np.zeros_like(units)
        fields = grid.field(np.concatenate([units, zeros], axis=1))
        self.design_of_deformations = fields[:, 0].reshape(grid.n_places, -1).T


@njit(nogil=True)
def energies(
    displace, compare, adjoint, Y, Z, table, precision, noise_variance, grid, work,
    energy, gradient,
):  # fmt: skip
    """Fill energies and gradients of images, one by one."""
    dim, prior = grid.dim, grid.more
    for row in range(np.uint64(len(Y))):
        fetch(Y, row, work, grid.image, grid.n_pixels)
        fetch(Z, row, work, grid.z, dim)
        displace(grid, work, ())
        rss = compare(table, grid, work)
        adjoint(grid, work, ())
        form = quadratic(precision, work, grid.z, prior, dim)
        for j in range(dim):
            pull = work[grid.pull + j] / noise_variance
            gradient[row, j] = pull + work[prior + j]
        energy[row] = 0.5 * (rss / noise_variance + form)


def count_operations(grid):
    """Return the floating-point operations of one energy with its gradient."""
    (m1, m2), (g1, g2) = grid.image_shape, grid.deformation_landmarks
    displace = 2 * (2 * g1 * g2 * m2 + 2 * m1 * g1 * m2 + 2 * m1 * m2)
    # Weights and slopes of the cubic along two axes, four columns of four rows twice,
    # three sums over columns, position and residual.
    spline = m1 * m2 * (2 * 25 + 8 * 7 + 3 * 7 + 10)
    pull = 2 * (3 * m1 * m2 + 2 * g1 * m1 * m2 + 2 * g1 * g2 * m2)
    return displace + spline + pull + 2 * grid.n_latents**2 + 5 * grid.n_latents


class Setting:
    """A fitted template of digit 5, and states of chains on its images."""

    def __init__(self, n_images=500):
        self.X, _ = of_digit(5, n_images)
        self.estimator = fit(self.X, random_state=0)
        fitted = self.estimator.fitted_
        settings = self.estimator._template_settings()
        self.model = settings.model(fitted.frame.grid, n_images)
        self.params = fitted.params
        self.Y = fitted.standardised(self.X)
        self.grid = self.model.grid
        states = self.model.chain_states(len(self.Y))
        states, _, _ = self.model.move_chains(
            self.Y, states, self.params, 0, 200, adapt=0.574, first=0.2
        )
        self.states = states
        self.Z = np.ascontiguousarray(states[:, : self.grid.n_latents])
        self.dense = Dense(_Geometry(self.grid), self.params)
        self.part = self.model.component(self.params, 0)


def energy(report, options, setting):
    """Print the time of an energy with its gradient."""
    grid, part, dense = setting.grid, setting.part, setting.dense
    Y, Z = setting.Y, setting.Z
    found = np.empty(len(Y)), np.empty_like(Z)

    def compiled():
        energies(
            *steps_of(grid.compiled), Y, Z, part.table, part.precision.ravel(),
            part.noise_variance, grid.compiled,
            new_work(grid.compiled, grid.n_latents).flat, *found,
        )  # fmt: skip

    count = 20
    functions = {
        "dense NumPy": (lambda: [dense.dense(Y[i], Z[i]) for i in range(count)], 3),
        "separable NumPy": (
            lambda: [dense.separable(Y[i], Z[i]) for i in range(count)],
            10,
        ),
        "compiled": (compiled, 5),
    }
    times = alternate(functions, options.repeats)
    per = {"dense NumPy": count, "separable NumPy": count, "compiled": len(Y)}
    times = {name: [t / per[name] for t in values] for name, values in times.items()}
    exact = [dense.dense(y, z) for y, z in zip(Y, Z, strict=True)]
    gradients = np.array([pair[1] for pair in exact])
    scale = np.abs(gradients).max()
    separable = np.array([dense.separable(Y[i], Z[i])[1] for i in range(count)])
    errors = {
        "dense NumPy": 0.0,
        "separable NumPy": np.abs(separable - gradients[:count]).max() / scale,
        "compiled": np.abs(found[1] - gradients).max() / scale,
    }
    report(
        "Energy and gradient of one image, 16 x 16 pixels, 18 x 18 and 6 x 6 landmarks"
    )
    report()
    report(
        "                      CPU us                  times less    error of gradient"
    )
    for name, values in times.items():
        ratios = [a / b for a, b in zip(times["dense NumPy"], values, strict=True)]
        report(
            f"{name:16s}{spread(values, 1e6):26s}{spread(ratios):22s}"
            f"{errors[name]:9.1e}"
        )
    peak, work = measure_peak(), count_operations(grid)
    floor = work / peak
    share = floor / statistics.median(times["compiled"])
    report(
        f"floor {1e6 * floor:.1f} us: {work:,} operations at {peak / 1e9:.0f} GF/s; "
        f"the compiled loop reaches {share:.0%} of it"
    )
    verdict(report, "times less than dense NumPy", ratios, 15, above=True)


def verdict(report, what, values, target, above):
    """Print whether the median reaches a target."""
    middle = statistics.median(values)
    reached = middle >= target if above else middle <= target
    bound = "at least" if above else "less than"
    report(
        f"target {bound} {target:,} ({what}): {'reached' if reached else 'MISSED'}, "
        f"{middle:,.4g}"
    )


def throughput(report, options, setting):
    """Print images per second of chains and statistics."""
    model, params, Y = setting.model, setting.params, setting.Y
    states = setting.states

    def move():
        return model.move_chains(Y, states, params, 1, 5, adapt=0.574)[0]

    functions = {
        "five steps": (move, 1),
        "statistics": (lambda: model.mean_statistics(Y, states), 1),
        "both": (lambda: model.mean_statistics(Y, move()), 1),
    }
    times = alternate(functions, options.repeats)
    report(f"Five Langevin steps (MALA) and statistics, {len(Y)} images of digit 5")
    report()
    report("                CPU us per image        images per second")
    rates = {}
    for name, values in times.items():
        rates[name] = [len(Y) / value for value in values]
        report(
            f"{name:12s}{spread(values, 1e6 / len(Y)):26s}"
            f"{spread(rates[name], digits=0)}"
        )
    verdict(report, "images per second", rates["both"], 5000, above=True)
    mean = model.mean_statistics(Y, states)
    rebuild = alternate(
        {
            "maximise": (lambda: model.maximize(mean, params), 5),
            "target": (lambda: model.target(replace(params), 0), 5),
        },
        options.repeats,
    )
    report(
        "beside these, once per iteration: M-step"
        f"{spread(rebuild['maximise'], 1e3, 2)} ms, preconditioner"
        f"{spread(rebuild['target'], 1e3, 2)} ms"
    )


def statistics_part(report, options, setting):
    """Print the time of the statistics of an image."""
    model, Y, Z, dense = setting.model, setting.Y, setting.Z, setting.dense
    count = 20
    functions = {
        "dense K'K": (
            lambda: [dense.dense_statistics(Y[i], Z[i]) for i in range(count)],
            3,
        ),
        "mid-points": (lambda: model.mean_statistics(Y, Z), 1),
    }
    times = alternate(functions, options.repeats)
    ours = [t / len(Y) for t in times["mid-points"]]
    theirs = [t / count for t in times["dense K'K"]]
    part = split(model.grid, model.mean_statistics(Y[:1], Z[:1]))
    cross, gram = dense.dense_statistics(Y[0], Z[0])
    grams, ones = setting.grid.grams, np.ones(setting.grid.n_template)
    sums = grams.product(grams.of(part.middle), ones)
    error = max(
        np.abs(sums - gram @ ones).max() / gram.sum(axis=1).max(),
        np.abs(part.cross - cross).max() / np.abs(cross).max(),
    )
    n = setting.grid.n_template
    report("Statistics of one image: K'y and K'K")
    report()
    report("                 CPU us                    numbers kept")
    report(f"dense NumPy  {spread(theirs, 1e6):28s}{n * n + n:8,d}")
    report(
        f"mid-points   {spread(ours, 1e6):28s}{n + setting.grid.n_middle:8,d}"
        f"    relative difference {error:.0e}"
    )
    report(f"times less  {spread([a / b for a, b in zip(theirs, ours, strict=True)])}")


FRESH = """
import time
began = time.process_time()
from sktem import DeformableTemplateEstimator
import numpy as np
imported = time.process_time()
X = np.random.default_rng(0).random((20, 256))
import warnings
warnings.simplefilter("ignore")
DeformableTemplateEstimator((16, 16), random_state=0, max_iter=1).fit(X)
fitted = time.process_time()
DeformableTemplateEstimator((16, 16), random_state=0, max_iter=1).fit(X)
print(imported - began, fitted - imported, time.process_time() - fitted)
"""


def fresh(folder):
    """Return CPU seconds of import, first fit and second fit in a new process."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
    done = subprocess.run(
        [sys.executable, "-c", FRESH],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    return [float(value) for value in done.stdout.split()]


def fits(report, options, setting):
    """Print the time of complete fits."""
    few = setting.X[:20]
    name, X, y, _, _ = digits()
    many = X[y == 0][:1000]
    functions = {
        "20 images, 60 passes": (
            lambda: fit(few, random_state=0, max_iter=60),
            1.0,
        ),
        f"{len(many)} images, 20 passes": (
            lambda: fit(many, random_state=0, max_iter=20),
            10.0,
        ),
    }
    repeats = min(options.repeats, 5)
    times = alternate({key: (f, 1) for key, (f, _) in functions.items()}, repeats)
    report(f"Complete fits, {name} digits 5 and 0")
    report()
    for key, values in times.items():
        target = functions[key][1]
        reached = statistics.median(values) < target
        report(
            f"{key:36s}{spread(values, digits=2)} CPU s    target less than "
            f"{target:g}: {'reached' if reached else 'MISSED'}"
        )
    report()
    report("New processes, CPU seconds:   import   first fit   second fit")
    with tempfile.TemporaryDirectory() as folder:
        for title in ("no compiled cache", "with the cache"):
            seconds = fresh(folder)
            report(f"{title:28s}{seconds[0]:8.1f}{seconds[1]:12.1f}{seconds[2]:13.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--dry-run", action="store_true", help="write no table")
    options = parser.parse_args()
    parts = energy, throughput, statistics_part, fits
    functions = dict(zip(PARTS, parts, strict=True))
    report = Report(None if options.dry_run else "template_speed")
    with threadpool_limits(1):
        report(describe() + ", one thread")
        setting = Setting()
        for part in options.parts:
            report()
            functions[part](report, options, setting)


if __name__ == "__main__":
    main()
