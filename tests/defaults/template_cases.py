"""Deformable templates with default settings on drawn shapes and on real images."""

from functools import partial

import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_digits
from sklearn.impute import SimpleImputer
from sklearn.metrics import log_loss
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sktem import (
    DeformableTemplateClassifier,
    DeformableTemplateEstimator,
    DeformedCopiesClassifier,
)
from tests.defaults.harness import SHARED_DATA, Case, root_mean_square

DATA = SHARED_DATA / "images"


def step(distance, width):
    """Return 1 inside, 0 outside, with an edge of the given width."""
    return 1 / (1 + np.exp(-np.clip(distance / width, -50, 50)))


def drawn(kind, axes, edge):
    """Return an object at coordinates in half sides of the image."""
    if len(axes) == 1:
        u = axes[0]
        peaks = [(-0.4, 0.1, 1.0), (0.0, 0.06, 0.7), (0.5, 0.15, -0.5)]
        return sum(h * np.exp(-(((u - c) / w) ** 2)) for c, w, h in peaks)
    if len(axes) == 3:
        z, y, x = axes
        outer = np.sqrt(z**2 + (y / 0.8) ** 2 + (x / 0.9) ** 2)
        inner = np.sqrt((z - 0.1) ** 2 + y**2 + x**2)
        return step(0.7 - outer, edge) - 0.8 * step(0.3 - inner, edge)
    y, x = axes
    if kind == "ring":
        r = np.hypot(x, y)
        return step(0.6 - r, edge) - step(0.4 - r, edge)
    if kind == "cross":
        one = step(0.12 - abs(x), edge) * step(0.7 - abs(y), edge)
        two = step(0.12 - abs(y), edge) * step(0.6 - abs(x), edge)
        return np.maximum(one, two)
    if kind == "triangle":
        return step(0.5 - y, edge) * step(0.42 * (y + 0.8) - abs(x), edge)
    if kind == "star":
        rays = 0.45 + 0.18 * np.cos(5 * np.arctan2(y, x))
        return step(rays - np.hypot(x, y), edge)
    if kind == "checker":
        return step(np.sin(6 * x) * np.sin(6 * y), 2 * edge) * step(
            0.7 - np.hypot(x, y), edge
        )
    face = step(1 - np.hypot(x / 0.55, y / 0.7), edge)
    for side in (-1, 1):
        eye = np.hypot((x - 0.22 * side) / 0.1, (y + 0.2) / 0.1)
        face = face - 0.8 * step(1 - eye, 4 * edge)
    return face - 0.6 * step(1 - np.hypot(x / 0.25, (y - 0.3) / 0.07), 6 * edge)


def images(kind, shape, n, seed, displacement=0.06, noise=0.05, smoothness=0.15):
    """Return the object without deformation, and deformed by smooth random fields.

    Between them is the mean of the deformed ones before noise.
    """
    rng = np.random.default_rng(seed)
    longest = max(shape)
    axes = [(np.arange(m) - (m - 1) / 2) / ((longest - 1) / 2) for m in shape]
    mesh = np.meshgrid(*axes, indexing="ij")
    edge, smooth, d = 1.2 / longest, smoothness * longest, len(shape)
    pad = longest // 2
    inner = tuple(slice(pad, pad + m) for m in shape)
    unit = (4 * np.pi * smooth**2) ** (-d / 4)
    stack = []
    for _ in range(n):
        fields = [
            gaussian_filter(rng.normal(size=[m + 2 * pad for m in shape]), smooth)
            for _ in shape
        ]
        moved = [
            x - displacement * f[inner] / unit
            for x, f in zip(mesh, fields, strict=True)
        ]
        stack.append(drawn(kind, moved, edge))
    clean = np.array(stack)
    noisy = clean + noise * rng.normal(size=clean.shape)
    return drawn(kind, mesh, edge), clean.mean(axis=0), noisy


def sharpness(image):
    return np.sqrt(sum((np.diff(image, axis=a) ** 2).mean() for a in range(image.ndim)))


def template_distance(seed, kind, shape, n, scale=1.0, offset=0.0, **how):
    """Return the error relative to that of the mean image; 2 if it is less sharp."""
    truth, blurred, stack = images(kind, shape, n, seed, **how)
    estimator = DeformableTemplateEstimator(shape, random_state=seed)
    estimator.fit(offset + scale * stack)
    template = (estimator.templates_[0] - offset) / scale
    mean = stack.mean(axis=0)
    # Noise makes a mean look sharp.
    if sharpness(template) < sharpness(blurred):
        return 2.0
    return root_mean_square(template - truth) / root_mean_square(mean - truth)


def load(name):
    with np.load(DATA / name) as file:
        return {key: file[key] for key in file}


def digits(name, digit, n, n_new):
    data = load(name)
    own = data["X_train"][data["y_train"] == digit].astype(float)
    side = 16 if name.startswith("usps") else 28
    own = own.reshape(-1, side, side) / own.max()
    return own[:n], own[-n_new:]


def faces():
    X = load("frey_faces.npz")["X"].astype(float) / 255
    return X[::60], X[30::60]


def gaussian_log_density(train, new):
    """Return the mean log-density under independent Gaussian pixels about the mean."""
    variance = train.var()
    variance = (
        ((train - train.mean(axis=0)) ** 2).mean() * len(train) / (len(train) - 1)
    )
    errors = ((new - train.mean(axis=0)) ** 2).reshape(len(new), -1)
    return -0.5 * (np.log(2 * np.pi * variance) + errors / variance).sum(axis=1).mean()


def held_out_distance(seed, load_parts):
    """Return how many nats per pixel new images are less likely than about the mean."""
    train, new = load_parts()
    estimator = DeformableTemplateEstimator(random_state=seed).fit(train)
    if sharpness(estimator.templates_[0]) < sharpness(train.mean(axis=0)):
        return 2.0
    gain = estimator.score(new) - gaussian_log_density(train, new)
    return -gain / new[0].size


def classifier_distance(seed, name, n, n_new=150):
    """Return the error relative to the better of nearest neighbour and SVC."""
    data = load(name)
    rng = np.random.default_rng(seed)
    X, y = data["X_train"].reshape(len(data["X_train"]), -1), data["y_train"]
    chosen = np.concatenate(
        [
            rng.choice(np.flatnonzero(y == digit), n, replace=False)
            for digit in range(10)
        ]
    )
    new = rng.choice(len(data["X_test"]), n_new, replace=False)
    train, labels = X[chosen] / X.max(), y[chosen]
    test = data["X_test"].reshape(len(data["X_test"]), -1)[new] / X.max()
    truth = data["y_test"][new]
    side = round(X.shape[1] ** 0.5)
    own = DeformedCopiesClassifier((side, side), random_state=seed)
    own.fit(train, labels)
    peers = [KNeighborsClassifier(1), SVC(C=10)]
    errors = [1 - peer.fit(train, labels).score(test, truth) for peer in peers]
    return (1 - own.score(test, truth)) / min(errors)


def classes_of_shapes(seed, kinds, shape, n, scale=1.0, offset=0.0, lost=0.0, **how):
    """Return training and test images of drawn shapes, and their labels."""
    parts = [
        images(k, shape, n + 30, 10 * seed + t, **how) for t, k in enumerate(kinds)
    ]
    stacks = np.array([stack for *_, stack in parts]).reshape(len(kinds), n + 30, -1)
    stacks = offset + scale * stacks
    stacks[np.random.default_rng(seed).random(stacks.shape) < lost] = np.nan
    train, test = stacks[:, :n], stacks[:, n:]
    labels = np.arange(len(kinds))
    return (
        (train.reshape(len(kinds) * n, -1), np.repeat(labels, n)),
        (test.reshape(len(kinds) * 30, -1), np.repeat(labels, 30)),
        shape,
    )


def classes_of_digits(seed, n_classes, n):
    X, y = load_digits(n_class=n_classes, return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    X, y = X[order], y[order]
    first = np.concatenate([np.flatnonzero(y == k)[:n] for k in range(n_classes)])
    rest = np.setdiff1d(np.arange(len(X)), first)[:150]
    return (X[first], y[first]), (X[rest], y[rest]), (8, 8)


def excess_error(seed, load_parts):
    """Return how much larger the error is than that of the better of two peers."""
    (X, y), (new, truth), shape = load_parts(seed)
    own = DeformedCopiesClassifier(shape, random_state=seed).fit(X, y)
    peers = [KNeighborsClassifier(1), SVC(C=10)]
    scores = [
        make_pipeline(SimpleImputer(), StandardScaler(with_std=False), peer)
        .fit(X, y)
        .score(new, truth)
        for peer in peers
    ]
    return max(scores) - own.score(new, truth)


def excess_loss(seed, n):
    """Return how much larger the log-loss is than that of equal probabilities."""
    (X, y), (new, truth), shape = classes_of_digits(seed, 6, n)
    own = DeformableTemplateClassifier(shape, random_state=seed).fit(X, y)
    return log_loss(truth, own.predict_proba(new)) - np.log(6)


def certainty_case(n):
    return Case(
        f"digits 0 to 5, {n} a class", "DeformableTemplateClassifier",
        "equal probabilities", "more log-loss", -0.5, partial(excess_loss, n=n),
        slow=n > 1,
    )  # fmt: skip


def moved_out(images, pixels):
    """Return images moved along rows; what leaves the frame is lost."""
    moved = np.zeros_like(images)
    moved[..., pixels:] = images[..., :-pixels]
    return moved


def patched(images, value):
    """Return images with three patches of 2 x 2 pixels of a value."""
    images, rng = images.copy(), np.random.default_rng(0)
    for image in images:
        for row, column in rng.integers(2, 12, (3, 2)):
            image[row : row + 2, column : column + 2] = value
    return images


def changed_error(seed, classifier, change):
    """Return how much larger the error is of new images that are changed."""
    (X, y), (new, truth), shape = classes_of_shapes(
        seed, SHARP, (16, 16), 5, displacement=0.1
    )
    own = classifier(shape, random_state=seed).fit(X, y)
    changed = change(new.reshape(-1, *shape)).reshape(new.shape)
    return own.score(new, truth) - own.score(changed, truth)


def changed_case(classifier, name, change):
    return Case(
        name=f"sharp, new images {name}",
        estimator=classifier.__name__,
        reference="the same images as they were",
        unit="more errors, share of images",
        limit=0.04,
        distance=partial(changed_error, classifier=classifier, change=change),
        may_warn=True,
        slow=True,
    )


def shapes_case(name, kinds, shape, n, *, slow=True, **how):
    load_parts = partial(classes_of_shapes, kinds=kinds, shape=shape, n=n, **how)
    sides = " x ".join(map(str, shape))
    return class_case(f"{name}, {sides}", n, load_parts, slow=slow)


def class_case(name, n, load_parts, *, slow=True, may_warn=False):
    # The difference of two errors on a hundred images has a standard error of .02.
    return Case(
        name=f"{name}, {n} a class",
        estimator="DeformedCopiesClassifier",
        reference="nearest neighbour or SVC",
        unit="more errors, share of images",
        limit=0.04,
        distance=partial(excess_error, load_parts=load_parts),
        may_warn=may_warn,
        slow=slow,
    )


def drawn_case(name, kind, shape, n, *, slow=False, limit=1.0, **how):
    return Case(
        name=f"{name}, {' x '.join(map(str, shape))}, n={n}",
        estimator="DeformableTemplateEstimator",
        reference="the truth",
        unit="errors of the mean image",
        limit=limit,
        distance=partial(template_distance, kind=kind, shape=shape, n=n, **how),
        slow=slow,
    )


def held_out_case(name, load_parts, *, slow=False):
    return Case(
        name=name,
        estimator="DeformableTemplateEstimator",
        reference="Gaussian pixels about the mean image",
        unit="nats per pixel lost",
        limit=0.0,
        distance=partial(held_out_distance, load_parts=load_parts),
        slow=slow,
    )


def classifier_case(name, file, n, *, slow=True):
    return Case(
        name=f"{name}, {n} a class",
        estimator="DeformedCopiesClassifier",
        reference="nearest neighbour or SVC",
        unit="of its error",
        limit=1.0,
        distance=partial(classifier_distance, name=file, n=n),
        slow=slow,
    )


CASES = [
    drawn_case("face", "face", (16, 16), 20, displacement=0.1),
    drawn_case("ring", "ring", (16, 16), 40, displacement=0.1),
    drawn_case("star", "star", (16, 16), 20, slow=True),
    drawn_case("checker", "checker", (16, 16), 20, slow=True),
    drawn_case("ring, rough", "ring", (16, 16), 20, smoothness=0.1),
    drawn_case("star, six", "star", (20, 20), 6),
    drawn_case("checker", "checker", (24, 24), 12),
    drawn_case("cross", "cross", (20, 28), 20, slow=True),
    drawn_case("triangle", "triangle", (28, 20), 20),
    drawn_case("face", "face", (32, 32), 15, slow=True),
    drawn_case("ring, inverted", "ring", (24, 24), 15, scale=-1e-3, offset=7.0),
    drawn_case(
        "cross, large values", "cross", (24, 24), 15, scale=1e6, offset=-3e6, slow=True
    ),
    drawn_case("triangle, noisy", "triangle", (24, 24), 20, noise=0.3),
    drawn_case("cross, little noise", "cross", (24, 24), 20, noise=0.005, slow=True),
    drawn_case("few faces", "face", (32, 32), 5, slow=True),
    drawn_case("many rings", "ring", (16, 16), 200, slow=True),
    drawn_case("face", "face", (64, 64), 15, slow=True),
    drawn_case("cross", "cross", (64, 64), 15, slow=True),
    drawn_case("face", "face", (128, 128), 12, slow=True),
    drawn_case("peaks", "peaks", (60,), 20),
    drawn_case("peaks", "peaks", (100,), 40),
    drawn_case("peaks", "peaks", (101,), 60),
    drawn_case("peaks, noisy", "peaks", (101,), 40, noise=0.3),
    drawn_case("peaks", "peaks", (400,), 20),
    drawn_case("ball", "ball", (12, 12, 12), 10, slow=True, displacement=0.1),
    drawn_case("ball", "ball", (24, 24, 24), 8, slow=True, displacement=0.1),
]
ROUND, SHARP = ("ring", "face"), ("cross", "triangle", "star")
CASES += [
    shapes_case("round", ROUND, (16, 16), 2, slow=False, displacement=0.15),
    shapes_case("sharp", SHARP, (16, 16), 1, slow=False, displacement=0.15),
    shapes_case("sharp", SHARP, (12, 12), 5, displacement=0.15),
    shapes_case("sharp, wide", SHARP, (12, 20), 3, displacement=0.15),
    shapes_case("sharp, noisy", SHARP, (16, 16), 5, displacement=0.1, noise=0.5),
    shapes_case("five", ROUND + SHARP, (16, 16), 3, displacement=0.2),
    shapes_case("sharp, large values", SHARP, (16, 16), 3, scale=1e5, offset=-4e6),
    shapes_case("sharp, a third lost", SHARP, (16, 16), 4, lost=0.3),
    shapes_case("sharp", SHARP, (32, 32), 3, displacement=0.15),
    shapes_case("five", ROUND + SHARP, (24, 24), 10, displacement=0.2),
    class_case(
        "digits 0 to 3", 1, partial(classes_of_digits, n_classes=4, n=1), may_warn=True
    ),
    class_case(
        "digits 0 to 3", 10, partial(classes_of_digits, n_classes=4, n=10), slow=False
    ),
    class_case("digits", 3, partial(classes_of_digits, n_classes=10, n=3)),
    class_case("digits", 30, partial(classes_of_digits, n_classes=10, n=30)),
]
CASES += [certainty_case(n) for n in (1, 2, 5)]
CHANGES = {
    "brighter by 1": partial(np.add, 1.0),
    "with 3 times the contrast": partial(np.multiply, 3.0),
    "with a third of the contrast": partial(np.multiply, 1 / 3),
    "moved by 1 pixel": partial(np.roll, shift=1, axis=2),
    "moved by 2 pixels": partial(np.roll, shift=2, axis=2),
    "moved by 4 pixels": partial(np.roll, shift=4, axis=2),
    "cut, 4 pixels lost": partial(moved_out, pixels=4),
    "cut, 7 pixels lost": partial(moved_out, pixels=7),
    "with gaps of 2 x 2": partial(patched, value=np.nan),
    "with dark patches of 2 x 2": partial(patched, value=0.0),
    "with bright patches of 2 x 2": partial(patched, value=1.0),
}
CASES += [
    changed_case(classifier, name, change)
    for classifier in (DeformedCopiesClassifier, DeformableTemplateClassifier)
    for name, change in CHANGES.items()
]
if DATA.exists():
    CASES += [
        held_out_case("USPS 5, n=20", partial(digits, "usps.npz", 5, 20, 40)),
        held_out_case("USPS 0, n=50", partial(digits, "usps.npz", 0, 50, 40)),
        held_out_case(
            "MNIST 3, n=20", partial(digits, "mnist.npz", 3, 20, 30), slow=True
        ),
        held_out_case("Frey faces, n=33", faces, slow=True),
        *(classifier_case("USPS", "usps.npz", n) for n in (1, 5, 20)),
        *(classifier_case("MNIST", "mnist.npz", n) for n in (1, 5, 20)),
    ]
