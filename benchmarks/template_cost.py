"""What a template costs by the size of its images.

Five images of smooth noise, defaults. A pass is the difference of fits with two and six
passes, and includes the equations of the template, once for all images, and from 64
pixels a side on a pass of the start over averaged blocks of pixels. Below it are
complete fits of more images.

Run: ``python benchmarks/template_cost.py``.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from image_data import Report
from machine import describe
from scipy.ndimage import gaussian_filter
from threadpoolctl import threadpool_limits

from sktem import DeformableTemplateEstimator
from sktem.exceptions import FitWarning

SHAPES = [(16, 16), (32, 32), (64, 64), (128, 128), (256, 256), (12,) * 3]
SHORT, LONG = 2, 6

#: Complete fits: shape, images and passes.
FITS = [((128, 128), 20, 20), ((24,) * 3, 10, 10)]


def images(shape, n):
    """Return smooth noise."""
    noise = np.random.default_rng(0).normal(size=(n, *shape))
    return gaussian_filter(noise, (0, *[max(shape) / 10] * len(shape)))


def seconds(X, n_passes):
    """Return the CPU seconds of a fit, and the fitted estimator."""
    estimator = DeformableTemplateEstimator(
        X.shape[1:], max_iter=n_passes, random_state=0
    )
    began = time.process_time()
    estimator.fit(X)
    return time.process_time() - began, estimator


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=5)
    parser.add_argument("--dry-run", action="store_true", help="write no table")
    options = parser.parse_args()
    report = Report(None if options.dry_run else "template_cost")
    report(describe())
    report()
    report("image            template  ms an image   us a pixel    start and end,")
    report("                 landmarks  and pass      and pass    ms an image")
    for n_axes in {len(shape) for shape in SHAPES}:
        seconds(images((12,) * n_axes, 4), 1)  # compiles
    for shape in SHAPES:
        X = images(shape, options.images)
        short, _ = seconds(X, SHORT)
        long, estimator = seconds(X, LONG)
        each = 1e3 * (long - short) / (LONG - SHORT) / len(X)
        rest = 1e3 * short / len(X) - SHORT * each
        sides = " x ".join(map(str, shape))
        nodes = " x ".join(map(str, estimator.grid_.template_landmarks))
        report(
            f"{sides:14s} {nodes:>12s} {each:10.2f} {1e3 * each / X[0].size:12.2f}"
            f" {rest:14.1f}"
        )
    report()
    report("complete fits         images  passes   CPU s (median and range of three)")
    for shape, n, n_passes in FITS:
        X = images(shape, n)
        spent = sorted(seconds(X, n_passes)[0] for _ in range(3))
        sides = " x ".join(map(str, shape))
        report(
            f"{sides:20s}{n:8d}{n_passes:8d}{spent[1]:8.2f}"
            f" [{spent[0]:.2f}, {spent[2]:.2f}]"
        )


if __name__ == "__main__":
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        warnings.simplefilter("ignore", UserWarning)
        main()
