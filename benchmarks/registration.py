"""Templates and displacement fields of drawn shapes against registration by others.

A face (or a cross or a ring: ``--shapes``), drawn at 32 pixels a side (``--sides`` for
others) and moved by smooth random fields of known size (0.06 of half a side; noise
0.05). For every method: the root mean square error of the template, and of the
displacement fields in pixels beside the size of the fields; both fields less their mean
over the images, which is the template's own. The share of images that fold, and CPU
seconds (the second fit: the first one compiles). Peers: the mean of the pixels, which
registers nothing, and scikit-image's optical flow (TV-L1) from the mean to every image
and back, in four rounds. What is not installed is left out.

Run: ``python benchmarks/registration.py``.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from image_data import Report
from machine import describe
from scipy.ndimage import gaussian_filter, map_coordinates

from sktem import DeformableTemplateEstimator


def edge(distance, width):
    """Return 1 inside, 0 outside."""
    return 1 / (1 + np.exp(-np.clip(distance / width, -50, 50)))


def drawn(kind, y, x, width):
    """Return a shape at coordinates in half sides."""
    r = np.hypot(x, y)
    if kind == "ring":
        return edge(0.6 - r, width) - edge(0.4 - r, width)
    if kind == "cross":
        one = edge(0.12 - abs(x), width) * edge(0.7 - abs(y), width)
        two = edge(0.12 - abs(y), width) * edge(0.6 - abs(x), width)
        return np.maximum(one, two)
    face = edge(1 - np.hypot(x / 0.55, y / 0.7), width)
    for side in (-1, 1):
        eye = np.hypot((x - 0.22 * side) / 0.1, (y + 0.2) / 0.1)
        face = face - 0.8 * edge(1 - eye, 4 * width)
    return face - 0.6 * edge(1 - np.hypot(x / 0.25, (y - 0.3) / 0.07), 6 * width)


def images(kind, side, n, seed, displacement=0.06, noise=0.05):
    """Return the shape, deformed images and the displacements in pixels."""
    rng = np.random.default_rng(seed)
    half = (side - 1) / 2
    y, x = np.meshgrid(*[(np.arange(side) - half) / half] * 2, indexing="ij")
    smooth, inner = 0.15 * side, slice(side // 2, side // 2 + side)
    rough = rng.normal(size=(n, 2, 2 * side, 2 * side))
    fields = gaussian_filter(rough, (0, 0, smooth, smooth))[:, :, inner, inner]
    fields *= displacement * np.sqrt(4 * np.pi) * smooth
    width = 1.2 / side
    clean = np.stack([drawn(kind, y - f[0], x - f[1], width) for f in fields])
    truth = drawn(kind, y, x, width)
    return truth, clean + noise * rng.normal(size=clean.shape), half * fields


def pixel_mean(X):
    """Return the mean and no displacements."""
    return X.mean(axis=0), np.zeros((len(X), 2, *X.shape[1:]))


def templates(X, **settings):
    """Return the template and displacements of sktem."""
    fitted = DeformableTemplateEstimator(random_state=0, **settings).fit(X)
    fields = -fitted.registration(X).displacements(inverse=True)
    return fitted.templates_[0], fields


def optical_flow(X, rounds=4):
    """Return the mean of the images carried back by optical flow, and the flows."""
    from skimage.registration import optical_flow_tvl1

    mean, grid = X.mean(axis=0), np.indices(X.shape[1:])
    for _ in range(rounds):
        # The mean at x - f(x) is the image at x, and the other way round.
        flows = np.array([optical_flow_tvl1(image, mean) for image in X])
        back = np.array([optical_flow_tvl1(mean, image) for image in X])
        moved = [
            map_coordinates(image, grid + flow, order=1, mode="nearest")
            for image, flow in zip(X, back, strict=True)
        ]
        mean = np.mean(moved, axis=0)
    return mean, -flows


METHODS = {
    "mean of the pixels": pixel_mean,
    "optical flow, TV-L1": optical_flow,
    "templates, linear": templates,
    "templates, flows": lambda X: templates(X, deformation="diffeomorphic"),
}


def folds(fields):
    """Return the share of images in which ``x - f(x)`` folds at a pixel."""
    down, along = np.gradient(fields, axis=2), np.gradient(fields, axis=3)
    determinants = (1 - down[:, 0]) * (1 - along[:, 1]) - down[:, 1] * along[:, 0]
    return float((determinants <= 0).any(axis=(1, 2)).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sides", type=int, nargs="+", default=[32])
    parser.add_argument("--shapes", nargs="+", default=["face"])
    parser.add_argument("--images", type=int, default=15)
    parser.add_argument("--dry-run", action="store_true", help="write no table")
    options = parser.parse_args()
    report = Report(None if options.dry_run else "registration")
    report(describe())
    report()
    report(f"{options.images} images of each shape: errors of template and fields")
    report()
    report(
        "side  shape  method                  template   field (size)   folds    CPU s"
    )
    compiled = set()
    for side in options.sides:
        for kind in options.shapes:
            truth, X, fields = images(kind, side, options.images, seed=0)
            fields -= fields.mean(axis=0)
            for name, method in METHODS.items():
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        if name not in compiled:
                            method(X[:4])
                            compiled.add(name)
                        began = time.process_time()
                        mean, found = method(X)
                except ImportError:
                    continue
                seconds = time.process_time() - began
                rest = found - found.mean(axis=0) - fields
                report(
                    f"{side:4d}  {kind:6s} {name:22s}"
                    f"{np.sqrt(((mean - truth) ** 2).mean()):10.3f}"
                    f"{np.sqrt((rest**2).mean()):8.2f}"
                    f" ({np.sqrt((fields**2).mean()):.2f})"
                    f"{folds(found):9.0%}{seconds:9.1f}"
                )


if __name__ == "__main__":
    main()
