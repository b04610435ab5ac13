"""Templates and displacement fields of drawn shapes against registration by others.

A face (or a cross or a ring: ``--shapes``), drawn at 32 pixels a side (``--sides`` for
others) and moved by smooth random fields of known size (0.06 of half a side; noise
0.05). For every method: the root mean square error of the template, and of the
displacement fields in pixels beside the size of the fields; both fields less their mean
over the images, which is the template's own. The share of images that fold, and CPU
seconds (the second fit: the first one compiles). Peers: the mean of the pixels, which
registers nothing, scikit-image's optical flow (TV-L1) from the mean to every image
and back, in four rounds, and ANTsPy's templates by SyN, in an environment of its own
whose interpreter ``--peer-python`` names. What is not installed is left out. With
``--pose`` the images are also shifted (0.08 of half a side), turned (0.2 radians),
scaled (0.1) and lit (gains 0.2, offsets 0.1). With ``--reduced`` templates are also
fitted to images whose pixels are averaged in blocks down to 32 a side, and template and
fields interpolated.

Run: ``python benchmarks/registration.py``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from image_data import Report
from machine import describe
from scipy.ndimage import gaussian_filter, map_coordinates, zoom

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


def posed(y, x, rng, n):
    """Return coordinates in shifted, turned and scaled images, gains and offsets."""
    factor = np.exp(0.1 * rng.normal(size=n) + 0.2j * rng.normal(size=n))
    shift = 0.08 * rng.normal(size=n) + 0.08j * rng.normal(size=n)
    places = factor[:, None, None] * (y + 1j * x - shift[:, None, None])
    gain, offset = 0.2 * rng.normal(size=n), 0.1 * rng.normal(size=n)
    # The truth is the template at the mean light.
    light = 1 + gain - gain.mean(), offset - offset.mean()
    return places.real, places.imag, *(part[:, None, None] for part in light)


def images(kind, side, n, seed, pose=False, displacement=0.06, noise=0.05):
    """Return the shape, deformed images and the displacements in pixels."""
    rng = np.random.default_rng(seed)
    half = (side - 1) / 2
    y, x = np.meshgrid(*[(np.arange(side) - half) / half] * 2, indexing="ij")
    smooth, inner = 0.15 * side, slice(side // 2, side // 2 + side)
    rough = rng.normal(size=(n, 2, 2 * side, 2 * side))
    fields = gaussian_filter(rough, (0, 0, smooth, smooth))[:, :, inner, inner]
    fields *= displacement * np.sqrt(4 * np.pi) * smooth
    width, light = 1.2 / side, (1.0, 0.0)
    places = np.stack([y - fields[:, 0], x - fields[:, 1]])
    if pose:
        *moved, gain, offset = posed(y, x, rng, n)
        places, light = np.stack(moved) - fields.swapaxes(0, 1), (gain, offset)
    clean = np.stack([drawn(kind, *place, width) for place in places.swapaxes(0, 1)])
    X = light[0] * clean + light[1] + noise * rng.normal(size=clean.shape)
    fields = np.stack([y - places[0], x - places[1]], axis=1)
    return drawn(kind, y, x, width), X, half * fields


def pixel_mean(X):
    """Return the mean and no displacements."""
    return X.mean(axis=0), np.zeros((len(X), 2, *X.shape[1:]))


def templates(X, **settings):
    """Return the template and displacements of sktem."""
    fitted = DeformableTemplateEstimator(random_state=0, **settings).fit(X)
    fields = -fitted.registration(X).displacements(inverse=True)
    return fitted.templates_[0], fields


def reduced(X, side=32):
    """Return those of images of fewer pixels, interpolated."""
    n, times = len(X), X.shape[1] // side
    mean, fields = templates(X.reshape(n, side, times, side, times).mean(axis=(2, 4)))
    settings = {"order": 1, "grid_mode": True, "mode": "nearest"}
    fields = times * zoom(fields, (1, 1, times, times), **settings)
    return zoom(mean, times, **settings), fields


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


def ants_template(X, interpreter):
    """Return ANTsPy's template and displacements, and its CPU seconds."""
    script = Path(__file__).with_name("peer_ants.py")
    with TemporaryDirectory() as folder:
        data, answer = Path(folder, "images.npy"), Path(folder, "answer.npz")
        np.save(data, X)
        one = {"ITK_GLOBAL_DEFAULT_NUMBER_OF_THREADS": "1", "PYTHONPATH": ""}
        subprocess.run(
            [interpreter, script, data, answer],
            check=True, capture_output=True, env={**os.environ, **one},
        )  # fmt: skip
        with np.load(answer) as found:
            return found["template"], found["fields"], float(found["seconds"])


METHODS = {
    "mean of the pixels": pixel_mean,
    "optical flow, TV-L1": optical_flow,
    "templates, linear": templates,
    "templates, flows": lambda X: templates(X, deformation="diffeomorphic"),
}

ALL = ("translation", "rotation", "scale", "gain", "offset")

#: Those of images with poses.
WITH_POSE = {
    "linear, nuisances": lambda X: templates(X, nuisances=ALL),
    "flows, nuisances": lambda X: templates(
        X, nuisances=ALL, deformation="diffeomorphic"
    ),
}


def folds(fields):
    """Return the share of images in which ``x - f(x)`` folds at a pixel."""
    down, along = np.gradient(fields, axis=2), np.gradient(fields, axis=3)
    determinants = (1 - down[:, 0]) * (1 - along[:, 1]) - down[:, 1] * along[:, 0]
    return float((determinants <= 0).any(axis=(1, 2)).mean())


def measured(method, X, first):
    """Return template, displacements and CPU seconds of a method."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if first:
            method(X[:4])
        began = time.process_time()
        mean, found, *seconds = method(X)
    return mean, found, seconds[0] if seconds else time.process_time() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sides", type=int, nargs="+", default=[32])
    parser.add_argument("--shapes", nargs="+", default=["face"])
    parser.add_argument("--images", type=int, default=15)
    parser.add_argument("--pose", action="store_true", help="with poses and light")
    parser.add_argument("--reduced", action="store_true", help="also of fewer pixels")
    parser.add_argument("--skip", nargs="*", default=[], help="methods left out")
    parser.add_argument("--peer-python", help="interpreter that has ANTsPy")
    parser.add_argument("--dry-run", action="store_true", help="write no table")
    options = parser.parse_args()
    name = "registration" + options.pose * "_pose" + options.reduced * "_reduced"
    report = Report(None if options.dry_run else name)
    report(describe())
    report()
    pose = ", with poses and light" if options.pose else ""
    report(
        f"{options.images} images of each shape{pose}: errors of template and fields"
    )
    report()
    report(
        "side  shape  method                  template   field (size)   folds    CPU s"
    )
    methods = METHODS | (WITH_POSE if options.pose else {})
    if options.reduced:
        methods["linear, 32 pixels"] = reduced
    if options.peer_python:
        methods["ANTsPy, SyN"] = lambda X: ants_template(X, options.peer_python)
    compiled = {"ANTsPy, SyN"}
    for side in options.sides:
        for kind in options.shapes:
            truth, X, fields = images(kind, side, options.images, 0, options.pose)
            fields -= fields.mean(axis=0)
            for name, method in methods.items():
                if name in options.skip:
                    continue
                try:
                    mean, found, seconds = measured(method, X, name not in compiled)
                except ImportError:
                    continue
                compiled.add(name)
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
