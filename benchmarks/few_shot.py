"""Few images a class: deformed copies beside what practitioners would use.

Training images are drawn at random from the training set, the same for all methods,
and test images are classified by all. Nothing is chosen on test images.

``copies``
    ``DeformedCopiesClassifier()``.
``likelihood``
    ``DeformableTemplateClassifier(temperature=1.0)``.
``HOG + SVC``
    Histograms of oriented gradients (nine directions, cells of four or seven pixels,
    overlapping blocks of two by two; as good as those of scikit-image) of images and
    copies under random affine maps and smooth displacements; C = 10.
``dense HOG + SVC``
    The same with the best of twelve such descriptors on training images of USPS:
    signed directions, overlapping cells, square roots.
``CNN``
    Four convolutions of 32 and 64 channels with new copies of the same kind in every
    step; needs torch.
``tangent distance``
    Nearest neighbour by the distance of the tangent planes of seven transformations
    of both images, among the 30 nearest by that of the training image alone.
``SVC``, ``1-NN``
    On the pixels; C and gamma by cross-validation.

Error in percent; CPU seconds of fitting and CPU milliseconds of predicting an image.

Run: ``python benchmarks/few_shot.py``. With ``--cells FILE`` results are written one by
one to that file, so that a run can be stopped and go on; the table has all that are in
it, with the number of splits of each method. That of the documentation comes from runs
with ``--test-size 0`` (USPS) and 2000, and five splits;
``--methods`` without any only prints it. ``--data faces`` and ``--data noisy``, digits
with noise, have tables of their own.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from image_data import SHARED, Report, digits
from machine import describe
from scipy.ndimage import gaussian_filter, map_coordinates
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from template_classification import draw
from threadpoolctl import threadpool_limits

from sktem import DeformableTemplateClassifier, DeformedCopiesClassifier
from sktem.exceptions import FitWarning

#: Least rows of images and copies, and copies of an image that has many others.
LEAST_ROWS, COPIES = 3000, 2


# ------------------------------------------------------------------------------- data


def usps():
    """Return training images, labels, test images and labels of 16 x 16 digits."""
    _, X, y, X_test, y_test = digits()
    return X.reshape(-1, 16, 16), y, X_test.reshape(-1, 16, 16), y_test


def mnist():
    """Return those of MNIST, 28 x 28."""
    with np.load(SHARED / "images" / "mnist.npz") as file:
        X, X_test = file["X_train"] / 255.0, file["X_test"] / 255.0
        return X, file["y_train"].astype(int), X_test, file["y_test"].astype(int)


def letters():
    """Return those of handwritten letters, 16 x 8; words of fold 0 are for tests."""
    with np.load(SHARED / "images" / "ocr_letters.npz") as file:
        X, y = file["X"].reshape(-1, 16, 8).astype(float), file["y"].astype(int)
        test = file["fold"] == 0
    return X[~test], y[~test], X[test], y[test]


def faces():
    """Return faces of Labeled Faces in the Wild and other pieces of photographs.

    A hundred of each kind, of 25 x 25 pixels, which come with scikit-image. Every other
    one is for tests.
    """
    from skimage.data import lfw_subset

    X, y = lfw_subset(), np.repeat([1, 0], 100)
    return X[::2], y[::2], X[1::2], y[1::2]


def noisy(load, share):
    """Return noisy images: white noise of so many standard deviations of the pixels."""
    X, y, X_test, y_test = load()
    rng, sd = np.random.default_rng(0), share * X.std()
    X, X_test = (one + sd * rng.standard_normal(one.shape) for one in (X, X_test))
    return X, y, X_test, y_test


DATA = {
    "usps": usps,
    "mnist": mnist,
    "letters": letters,
    "faces": faces,
    "usps, noise 0.5": partial(noisy, usps, 0.5),
    "usps, noise 1": partial(noisy, usps, 1.0),
    "mnist, noise 0.5": partial(noisy, mnist, 0.5),
    "mnist, noise 1": partial(noisy, mnist, 1.0),
}

#: Names that stand for several sets, and sets with a table of their own.
NOISY = [name for name in DATA if "noise" in name]
GROUPS = {"noisy": NOISY}
TABLES = {("faces",): "few_shot_faces", tuple(NOISY): "few_shot_noise"}


# ------------------------------------------------------------------------------ peers


def copies(X, rng):
    """Return images under random affine maps and smooth displacements."""
    n, height, width = X.shape
    side = max(height, width)
    pixels = np.stack(
        np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    ).astype(float)
    centred = pixels - (np.array([height, width])[:, None, None] - 1) / 2
    angle = np.deg2rad(8) * rng.standard_normal(n)
    turn = np.stack([np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)], -1)
    shear = np.tile(np.eye(2), (n, 1, 1))
    shear[:, 1, 0] = 0.15 * rng.standard_normal(n)
    scales = np.exp(0.1 * rng.standard_normal((n, 1, 2)))
    maps = turn.reshape(n, 2, 2) @ shear * scales - np.eye(2)
    fields = np.einsum("nab,bij->naij", maps, centred)
    fields += 0.04 * side * rng.standard_normal((n, 2, 1, 1))
    noise = rng.standard_normal((n, 2, height, width))
    sd = 3 * side / 16
    smooth = gaussian_filter(noise, (0, 0, sd, sd), mode="wrap")
    fields += 0.6 * side / 16 * smooth / smooth.std()
    return np.stack(
        [
            map_coordinates(x, pixels + field, order=1, mode="constant")
            for x, field in zip(X, fields, strict=True)
        ]
    )


def with_copies(X, rng):
    """Return images and copies, and the row of the image that each comes from."""
    n = len(X)
    wanted = max(LEAST_ROWS - n, COPIES * n)
    sources = np.concatenate([np.arange(n), rng.permutation(np.arange(wanted) % n)])
    return np.concatenate([X, copies(X[sources[n:]], rng)]), sources


def hog(X):
    """Return histograms of oriented gradients (Dalal and Triggs, 2005)."""
    n, height, width = X.shape
    gradient = np.zeros((2, n, height, width))
    gradient[0][:, 1:-1] = X[:, 2:] - X[:, :-2]
    gradient[1][:, :, 1:-1] = X[:, :, 2:] - X[:, :, :-2]
    size = np.hypot(*gradient)
    angle = np.arctan2(*gradient) % np.pi / np.pi * 9
    low = np.floor(angle).astype(int)
    share = angle - low
    channels = np.zeros((n, height, width, 9))
    for place, part in ((low % 9, 1 - share), ((low + 1) % 9, share)):
        found = np.take_along_axis(channels, place[..., None], -1)
        np.put_along_axis(
            channels, place[..., None], found + (size * part)[..., None], -1
        )
    cell = 4 if height <= 20 else 7
    rows, columns = height // cell, width // cell
    cells = channels[:, : rows * cell, : columns * cell]
    cells = cells.reshape(n, rows, cell, columns, cell, 9).sum(axis=(2, 4))
    blocks = np.concatenate(
        [
            cells[:, i : rows - 1 + i, j : columns - 1 + j]
            for i in (0, 1)
            for j in (0, 1)
        ],
        axis=-1,
    )
    for _ in range(2):
        blocks = blocks / np.sqrt((blocks**2).sum(axis=-1, keepdims=True) + 1e-3)
        blocks = np.minimum(blocks, 0.2)
    return blocks.reshape(n, -1)


def dense_hog(X):
    """Return histograms of oriented gradients that were chosen for digits.

    Of twelve descriptors, those with the fewest errors on training images of USPS:
    eight directions of all around, slightly smoothed images, cells of three eighths of
    a side whose distance is a third of their width, square roots of unit norm.
    """
    n, height, width = X.shape
    side = max(height, width)
    sd, cell, stride = 0.7 * side / 16, 3 * side // 8, side // 8
    smooth = gaussian_filter(X, (0, sd, sd))
    down, right = np.gradient(smooth, axis=(1, 2))
    angle = np.arctan2(down, right) % (2 * np.pi) / (2 * np.pi) * 8
    low = np.floor(angle).astype(int) % 8
    share = angle - np.floor(angle)
    size = np.hypot(down, right)
    channels = np.zeros((n, height, width, 8))
    for place, part in ((low, 1 - share), ((low + 1) % 8, share)):
        np.put_along_axis(channels, place[..., None], (size * part)[..., None], -1)
    rows, columns = (_cells(n, cell, stride) for n in (height, width))
    cells = np.einsum("ai,nijd,bj->nabd", rows, channels, columns, optimize=True)
    features = np.sqrt(cells.reshape(n, -1))
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    return features / np.maximum(norms, 1e-9)


def _cells(n, cell, stride):
    """Return which pixels of an axis are in which cell, as 0 or 1."""
    starts = np.arange(0, n - cell + 1, stride)
    inside = np.arange(n) - starts[:, None]
    return ((inside >= 0) & (inside < cell)).astype(float)


class HOGClassifier:
    """Support vector machine on histograms of gradients of images and copies."""

    def __init__(self, describe, seed):
        self.describe = describe
        self.seed = seed

    def fit(self, X, y):
        images, sources = with_copies(X, np.random.default_rng(self.seed))
        self.svc = SVC(C=10).fit(self.describe(images), y[sources])
        return self

    def predict(self, X):
        return self.svc.predict(self.describe(X))


class TangentNeighbour:
    """Nearest neighbour by tangent distance (Simard, LeCun and Denker, 1993)."""

    def fit(self, X, y):
        self.X, self.y = X.reshape(len(X), -1), y
        self.planes = tangents(X)
        self.bases = np.linalg.qr(self.planes.swapaxes(1, 2))[0]
        return self

    def predict(self, X):
        labels, found = self.y, []
        planes = tangents(X)
        for x, plane in zip(X.reshape(len(X), -1), planes, strict=True):
            gaps = x - self.X
            inside = np.einsum("npk,np->nk", self.bases, gaps, optimize=True)
            one = (gaps**2).sum(axis=1) - (inside**2).sum(axis=1)
            near = np.argsort(one)[:30]
            both = np.concatenate(
                [self.planes[near], np.broadcast_to(plane, (len(near), *plane.shape))],
                axis=1,
            )
            gram = both @ both.swapaxes(1, 2)
            gram += 1e-3 * np.einsum("nkk->n", gram)[:, None, None] / 14 * np.eye(14)
            right = np.einsum("nkp,np->nk", both, gaps[near])
            left = (gaps[near] ** 2).sum(axis=1) - (
                right * np.linalg.solve(gram, right[..., None])[..., 0]
            ).sum(axis=1)
            found.append(labels[near[left.argmin()]])
        return np.array(found)


def tangents(X):
    """Return seven tangent vectors of each image: six affine ones and thickness."""
    n, height, width = X.shape
    sd = 0.9 * max(height, width) / 16
    smooth = gaussian_filter(X, (0, sd, sd))
    down, right = np.gradient(smooth, axis=(1, 2))
    y, x = np.meshgrid(
        np.arange(height) - (height - 1) / 2,
        np.arange(width) - (width - 1) / 2,
        indexing="ij",
    )
    vectors = [down, right, y * down, x * right, x * down, y * right]
    vectors.append(down**2 + right**2)
    return np.stack(vectors, axis=1).reshape(n, 7, -1)


class ConvolutionalNetwork:
    """Four convolutions and two dense layers, taught with new copies in every step."""

    def __init__(self, seed, n_steps=600, batch_size=64):
        self.seed = seed
        self.n_steps = n_steps
        self.batch_size = batch_size

    def fit(self, X, y):
        import torch
        from torch import nn

        torch.set_num_threads(1)
        torch.manual_seed(self.seed)
        rng = np.random.default_rng(self.seed)
        self.classes, labels = np.unique(y, return_inverse=True)
        height, width = X.shape[1] // 4, X.shape[2] // 4
        self.network = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
            nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
            nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.5),
            nn.Linear(64 * height * width, 128), nn.ReLU(), nn.Dropout(0.5),
            nn.Linear(128, len(self.classes)),
        )  # fmt: skip
        optimizer = torch.optim.Adam(self.network.parameters(), weight_decay=1e-4)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, max_lr=4e-3, total_steps=self.n_steps
        )
        loss = nn.CrossEntropyLoss()
        self.network.train()
        for _ in range(self.n_steps):
            rows = rng.integers(len(X), size=self.batch_size)
            images = torch.tensor(copies(X[rows], rng)[:, None], dtype=torch.float32)
            optimizer.zero_grad()
            loss(self.network(images), torch.tensor(labels[rows])).backward()
            optimizer.step()
            schedule.step()
        return self

    def predict(self, X):
        import torch

        self.network.eval()
        images = torch.tensor(X[:, None], dtype=torch.float32)
        with torch.no_grad():
            parts = [self.network(part).argmax(1) for part in images.split(256)]
        return self.classes[torch.cat(parts).numpy()]


class OnPixels:
    """A classifier of scikit-learn on the pixels."""

    def __init__(self, classifier):
        self.classifier = classifier

    def fit(self, X, y):
        self.classifier.fit(X.reshape(len(X), -1), y)
        return self

    def predict(self, X):
        return self.classifier.predict(X.reshape(len(X), -1))


def pixel_svc(seed, per_class):
    """Return a support vector machine whose C and gamma are searched for."""
    if per_class == 1:
        return OnPixels(SVC(C=10))
    grid = {"C": [1, 10, 100], "gamma": ["scale", 3e-3, 1e-2, 3e-2]}
    folds = StratifiedKFold(min(3, per_class), shuffle=True, random_state=seed)
    return OnPixels(GridSearchCV(SVC(), grid, cv=folds))


METHODS = {
    "copies": lambda seed, _: DeformedCopiesClassifier(random_state=seed),
    "likelihood": lambda seed, _: DeformableTemplateClassifier(
        temperature=1.0, random_state=seed
    ),
    "HOG + SVC": lambda seed, _: HOGClassifier(hog, seed),
    "dense HOG + SVC": lambda seed, _: HOGClassifier(dense_hog, seed),
    "CNN": lambda seed, _: ConvolutionalNetwork(seed),
    "tangent distance": lambda seed, _: TangentNeighbour(),
    "SVC": pixel_svc,
    "1-NN": lambda seed, _: OnPixels(KNeighborsClassifier(1)),
}


# -------------------------------------------------------------------------------- runs


def run(name, data, per_class, split, n_test):
    """Return error in percent, CPU seconds of the fit and CPU ms of a prediction."""
    X, y, X_test, y_test = data
    rows = draw(y, per_class, np.random.default_rng([split, per_class]))
    if n_test and n_test < len(X_test):
        chosen = np.random.default_rng(0).choice(len(X_test), n_test, replace=False)
        X_test, y_test = X_test[chosen], y_test[chosen]
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier = METHODS[name](split, per_class).fit(X[rows], y[rows])
    fitted = time.process_time()
    error = 100 * np.mean(classifier.predict(X_test) != y_test)
    predicted = time.process_time() - fitted
    return error, fitted - began, 1e3 * predicted / len(X_test)


def available(names):
    """Return the methods that can run here."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return [name for name in names if name != "CNN"]
    return names


class Cells:
    """Results of runs that were made already, and those to come, in a file.

    Parameters
    ----------
    path : str or None
        A file of JSON lines; None keeps nothing.
    """

    def __init__(self, path):
        self.path = path and Path(path)
        self.known = {}
        if self.path and self.path.exists():
            for line in self.path.read_text().splitlines():
                key, values = json.loads(line)
                self.known[tuple(key)] = tuple(values)

    def make(self, key, compute):
        """Compute and keep the values of a key, unless they are known."""
        if key not in self.known:
            self.known[key] = compute()
            if self.path:
                with self.path.open("a") as file:
                    file.write(json.dumps([key, self.known[key]]) + "\n")

    def of(self, name, size):
        """Return values by split of each method, for each number of test images."""
        found = {}
        for (data, n_test, per_class, split, method), values in self.known.items():
            if (data, per_class) == (name, size):
                found.setdefault(n_test, {}).setdefault(method, {})[split] = values
        return {
            n_test: {method: by[method] for method in METHODS if method in by}
            for n_test, by in found.items()
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=[*DATA, *GROUPS], nargs="+", default=["usps"])
    parser.add_argument("--per-class", type=int, nargs="+", default=[5])
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--methods", choices=METHODS, nargs="*", default=list(METHODS))
    parser.add_argument(
        "--test-size", type=int, default=500, help="images at random, 0 for all"
    )
    parser.add_argument("--cells", help="file of results, to go on after a stop")
    parser.add_argument("--dry-run", action="store_true", help="write no table")
    options = parser.parse_args()
    methods, cells = available(options.methods), Cells(options.cells)
    names = [name for each in options.data for name in GROUPS.get(each, [each])]
    data = {name: DATA[name]() for name in names}
    n_tests = {
        name: min(options.test_size or len(each[2]), len(each[2]))
        for name, each in data.items()
    }
    for name, split, size, method in product(
        data, range(options.splits), options.per_class, methods
    ):
        n_test = n_tests[name]
        cells.make(
            (name, n_test, size, split, method),
            partial(run, method, data[name], size, split, n_test),
        )
        print(name, size, split, method, cells.known[name, n_test, size, split, method])
    table = TABLES.get(tuple(names), "few_shot")
    report = Report(None if options.dry_run else table)
    report(describe())
    for name, size in product(data, options.per_class):
        for n_test, found in cells.of(name, size).items():
            summary(report, found, name, size, n_test)


def summary(report, found, name, per_class, n_test, kind="images"):
    """Print means over splits, and the share of errors that copies have of them."""
    ours = found.get("copies", {})
    report()
    report(
        f"{name}, {per_class} a class, {n_test} test {kind}    errors in %: mean (sd), "
        "splits; copies' errors on the same splits divided by these; CPU"
    )
    for method, values in found.items():
        errors, fits, asked = np.array(list(values.values())).T
        sd = f"{errors.std(ddof=1):.2f}" if len(errors) > 1 else "-"
        both = [split for split in values if split in ours]
        ratio = "-"
        if both and method != "copies":
            own, other = (np.mean([v[s][0] for s in both]) for v in (ours, values))
            ratio = f"{own / other:.2f}" if other > 0 else "-"
        report(
            f"{method:18s}{errors.mean():7.2f} ({sd:>4s}) {len(errors)}  {ratio:>5s}"
            f"   fit {np.median(fits):6.1f} s   predict {np.median(asked):6.2f} ms"
        )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
