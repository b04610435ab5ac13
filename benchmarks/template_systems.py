"""The two forms of the equations of a template, in complete fits.

A template with many landmarks is solved for by products along the axes and conjugate
gradients, and with a banded factor where that does not succeed. Fits of a disc that
shifts, with both forms and with the factor alone: CPU seconds (median of the
repeats, which alternate), and their ratio.

Run: ``python benchmarks/template_systems.py``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from unittest.mock import patch

import numpy as np
from image_data import Report
from machine import describe
from threadpoolctl import threadpool_limits

from sktem import DeformableTemplateEstimator
from sktem.template.model import priors
from sktem.template.model.systems import FactoredSystem, systems_of

CASES = {"32 x 32": (40, 20), "64 x 64": (20, 10), "12 x 12 x 12": (10, 5)}


def discs(shape, n, rng):
    """Return ellipses, or ellipsoids, at random places."""
    axes = np.meshgrid(*(np.linspace(-1, 1, side) for side in shape), indexing="ij")
    places = 0.1 * rng.normal(size=(n, len(shape)))
    images = []
    for place in places:
        gaps = [
            (x - p) * (1 + 0.3 * k)
            for k, (x, p) in enumerate(zip(axes, place, strict=True))
        ]
        radius = np.sqrt(sum(gap**2 for gap in gaps))
        images.append(1 / (1 + np.exp(-30 * (0.6 - radius))))
    return np.array(images) + 0.05 * rng.normal(size=(n, *shape))


def factored(grid, part, informative, equations):
    """Yield the form with a factor only."""
    yield FactoredSystem(grid, part.middle, part.cross, equations)


def seconds(X, passes, systems):
    """Return the CPU seconds of a fit whose systems are those of a function."""
    with patch.object(priors, "systems_of", systems):
        start = time.process_time()
        DeformableTemplateEstimator(max_iter=passes, random_state=0).fit(X)
        return time.process_time() - start


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    report = Report("template_systems")
    report(describe())
    report()
    report("image            landmarks   both forms   factor alone   ratio")
    warnings.simplefilter("ignore")
    for name, (n, passes) in CASES.items():
        shape = tuple(map(int, name.split(" x ")))
        X = discs(shape, n, np.random.default_rng(0))
        short = DeformableTemplateEstimator(max_iter=1, random_state=0).fit(X)
        times = [
            [seconds(X, passes, one) for one in (systems_of, factored)]
            for _ in range(options.repeats)
        ]
        both, alone = np.median(times, axis=0)
        landmarks = " x ".join(map(str, short.grid_.template_landmarks))
        cost = f"{both:11.2f} s{alone:13.2f} s{alone / both:8.1f}"
        report(f"{name:14s}{landmarks:>12s}{cost}")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
