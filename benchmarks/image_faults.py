"""Faults of new images: what they cost the classifiers of images, and who says so.

Ten images of each of at most six classes are learned from as they are; new ones are
patched, cut, moved, noisy or in another light. Accuracy in percent of each classifier,
with "w" where its predictions warned and "!" where over five points were lost without a
word; beside it a support vector machine on pixels and the nearest neighbour, which say
nothing. False alarms are counted in batches of new images as they are.

Run: ``python benchmarks/image_faults.py`` (minutes); ``--sets usps`` for some sets.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from functools import partial

import numpy as np
from image_data import Report
from machine import describe
from shared_data import locate
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from sktem import DeformableTemplateClassifier, DeformedCopiesClassifier
from sktem.exceptions import FitWarning

PER_CLASS, N_NEW, BATCHES, BATCH = 10, 100, 20, 20

CLASSIFIERS = {
    "copies": DeformedCopiesClassifier,
    "templates": DeformableTemplateClassifier,
    "SVC": partial(SVC, C=10),
    "1-NN": partial(KNeighborsClassifier, 1),
}


def stored(name, shape, images="X_train", labels="y_train"):
    """Return images of six classes of the shared data, and labels."""
    with np.load(locate(f"images/{name}.npz")) as file:
        chosen = file[labels] < 6
        X, y = file[images][chosen], file[labels][chosen]
    return X.reshape(-1, *shape).astype(float), y.astype(int)


def strips():
    """Return noisy strips with bands, of seven kinds, like those of chromosomes."""
    rng, n, places = np.random.default_rng(5), 80, np.linspace(0, 1, 40)
    images, labels = [], np.repeat(np.arange(7), n)
    for _ in range(7):
        centres, widths = rng.random(4), rng.uniform(0.02, 0.06, 4)
        heights = rng.choice([-1, 1], 4) * rng.uniform(0.5, 1, 4)
        for _ in range(n):
            waves = places * rng.uniform(0.5, 1.5) + rng.random()
            moved = places + 0.03 * np.sin(2 * np.pi * waves) + 0.02 * rng.normal()
            bumps = np.exp(-(((moved[:, None] - centres) / widths) ** 2))
            strip = np.outer(rng.uniform(0.8, 1.2, 5), bumps @ heights)
            images.append(strip + 0.25 * rng.normal(size=strip.shape))
    return np.array(images), labels


def shapes():
    """Return discs, bars, crosses and rings with noise, moved and of other sizes."""
    rng, n, half = np.random.default_rng(6), 80, 7.5
    y, x = np.mgrid[:16, :16] - half
    images, labels = [], np.repeat(np.arange(4), n)
    for label in labels:
        down, right = rng.normal(0, 0.7, 2)
        size = rng.uniform(0.8, 1.2)
        v, u = (y - down) / size, (x - right) / size
        radius = np.hypot(v, u)
        inside = (
            5 - radius,
            2 - np.abs(u) + 0 * v,
            1.5 - np.minimum(np.abs(u), np.abs(v)),
            1.5 - np.abs(radius - 4.5),
        )[label]
        image = 1 / (1 + np.exp(-3 * inside))
        images.append(image + 0.1 * rng.normal(size=image.shape))
    return np.array(images), labels


SETS = {
    "digits": lambda: [
        part.reshape(-1, *shape)
        for part, shape in zip(
            load_digits(n_class=6, return_X_y=True), ((8, 8), ()), strict=True
        )
    ],
    "USPS": partial(stored, "usps", (16, 16)),
    "letters": partial(stored, "ocr_letters", (16, 8), "X", "y"),
    "strips": strips,
    "shapes": shapes,
}


def patched(share, value, images, rng, low, high, n=1):
    """Return images with a block of one value of this share of each side."""
    images = images.copy()
    sides = np.maximum(2, np.rint(np.multiply(share, images.shape[1:])).astype(int))
    for image in images:
        for _ in range(n):
            first = rng.integers(0, np.subtract(image.shape, sides) + 1)
            block = map(slice, first, first + sides)
            image[tuple(block)] = low + value * (high - low)
    return images


def moved(share, images, rng, low, high, cut=False):
    """Return images moved along rows by a share of a side; what is cut is lost."""
    pixels = max(1, round(share * images.shape[-1]))
    images = np.roll(images, pixels, axis=-1)
    if cut:
        images[..., :pixels] = low
    return images


def noisy(share, images, rng, low, high):
    """Return images with Gaussian noise."""
    return images + share * (high - low) * rng.normal(size=images.shape)


def dotted(share, images, rng, low, high):
    """Return images some of whose pixels are dark or bright."""
    either = np.where(rng.random(images.shape) < 0.5, low, high)
    return np.where(rng.random(images.shape) < share, either, images)


FAULTS = {
    "none": lambda images, *_: images,
    "dark patch, a quarter": partial(patched, 0.25, 0.0),
    "dark patch, .4": partial(patched, 0.4, 0.0),
    "bright patch, a quarter": partial(patched, 0.25, 1.0),
    "bright patch, .4": partial(patched, 0.4, 1.0),
    "grey patch, .4": partial(patched, 0.4, 0.5),
    "three bright patches": partial(patched, 0.1, 1.0, n=3),
    "missing block, .4": partial(patched, 0.4, np.nan),
    "cut, a fifth": partial(moved, 0.2, cut=True),
    "cut, .4": partial(moved, 0.4, cut=True),
    "shift, an eighth": partial(moved, 0.125),
    "shift, a quarter": partial(moved, 0.25),
    "noise, .1": partial(noisy, 0.1),
    "noise, a quarter": partial(noisy, 0.25),
    "dots, a tenth": partial(dotted, 0.1),
    "three times the contrast": lambda images, *_: 3 * images,
    "brighter": lambda images, rng, low, high: images + high - low,
}


def split(images, labels, seed=0):
    """Return rows of training images, their labels, and those of new ones."""
    rng = np.random.default_rng(seed)
    classes = np.unique(labels)
    train = [rng.permutation(np.flatnonzero(labels == c))[:PER_CLASS] for c in classes]
    train = np.concatenate(train)
    new = rng.permutation(np.setdiff1d(np.arange(len(images)), train))[:N_NEW]
    return images[train], labels[train], images[new], labels[new]


def told(classifier, rows):
    """Return predictions, and whether there was a warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        predicted = classifier.predict(rows)
    return predicted, any(one.category is FitWarning for one in caught)


def run_set(name, report):
    """Print the rows of a set, and return counts by classifier and kind."""
    train, labels, new, truth = split(*SETS[name]())
    shape, ends = train.shape[1:], (train.min(), train.max())
    fitted, counts = {}, Counter()
    for kind, make in CLASSIFIERS.items():
        own = kind in ("copies", "templates")
        classifier = make(shape, random_state=0) if own else make()
        fitted[kind] = classifier.fit(train.reshape(len(train), -1), labels)
    clean = {}
    for fault, change in FAULTS.items():
        rng = np.random.default_rng(1)
        rows = change(new, rng, *ends).reshape(len(new), -1)
        cells = []
        for kind, classifier in fitted.items():
            own = kind in ("copies", "templates")
            predicted, warned = told(classifier, rows if own else np.nan_to_num(rows))
            accuracy = np.mean(predicted == truth)
            loss = clean.setdefault(kind, accuracy) - accuracy
            silent = loss > 0.05 and not warned and own
            mark = "w" if warned else "!" if silent else " "
            cells.append(f"{100 * accuracy:8.0f} {mark}")
            counts[kind, "lost"] += loss > 0.05
            counts[kind, "silent"] += silent
            counts[kind, "idle"] += warned and loss < 0.02
            counts[kind, "in all"] += 100 * accuracy
        report(f"{name:8} {fault:26}" + "".join(cells))
    rng = np.random.default_rng(2)
    for kind in ("copies", "templates"):
        for _ in range(BATCHES):
            batch = rng.choice(len(new), BATCH, replace=False)
            _, warned = told(fitted[kind], new[batch].reshape(BATCH, -1))
            counts[kind, "false"] += warned
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    arguments = parser.parse_args()
    whole = arguments.sets == list(SETS)
    report = Report("image_faults" if whole else None)
    report(describe())
    report(f"{'set':8} {'fault':26}" + "".join(f"{kind:>8}  " for kind in CLASSIFIERS))
    counts = Counter()
    for name in arguments.sets:
        counts += run_set(name, report)
    n_sets = len(arguments.sets)
    for kind in ("copies", "templates"):
        report(
            f"{kind}: {counts[kind, 'lost']} faults cost over 5 points, "
            f"{counts[kind, 'silent']} of them silently; warnings without a loss of 2 "
            f"points: {counts[kind, 'idle']}; in batches of {BATCH} images as they "
            f"are: {counts[kind, 'false']} of {BATCHES * n_sets}"
        )
    means = (
        f"{kind} {counts[kind, 'in all'] / n_sets / len(FAULTS):.1f}"
        for kind in CLASSIFIERS
    )
    report("mean accuracy: " + ", ".join(means))


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
