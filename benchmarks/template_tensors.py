"""One iteration of a deformable template on tensors, beside the compiled kernels.

An iteration moves the chains of all images by five Langevin steps and sums their
statistics; a search finds posterior modes. Both get the same images, draws and
parameters, as a NumPy array and as a tensor of torch, and runs of the two alternate.
On the processor times are CPU seconds of one thread; on a GPU those of the tensor are
seconds on the clock between two synchronisations, while the compiled kernels stay on
one thread of the processor.

Usage: ``python benchmarks/template_tensors.py [--device cuda] [--repeats 5] [--quick]``
"""

from __future__ import annotations

import statistics
from typing import Any, NamedTuple

import numpy as np
import torch
from mixture_tensors import begun, seconds

from sktem.arrays import TensorRows
from sktem.models import DeformableTemplateModel, TemplateParams, TemplatePriors
from sktem.template.geometry import geometry

CASES = [(2000, (16, 16)), (500, (32, 32)), (100, (64, 64)), (50, (16, 16, 16))]

#: Images whose modes are sought, as a share of all.
SEARCHED = 10

#: Variance of the noise of images whose templates have values about one.
NOISE = 0.05


class Case(NamedTuple):
    """Images and the model that they are drawn from."""

    model: Any
    params: Any
    X: np.ndarray


def make_case(n, shape):
    """Return images of a random template and random deformations."""
    rng = np.random.default_rng(0)
    grid = geometry(shape, *["auto"] * 4)
    priors = TemplatePriors(0.3 * max(shape) / 16, 50.0, 0.5)
    params = TemplateParams(
        np.ones(1),
        0.5 * rng.normal(size=(1, grid.n_template)),
        priors.deformation_covariance(grid)[None],
        np.array([NOISE]),
    )
    Z = rng.multivariate_normal(np.zeros(grid.n_latents), params.covariances[0], n)
    X = np.array([grid.deformed(params.coefficients[0], z) for z in Z])
    X += np.sqrt(NOISE) * rng.normal(size=X.shape)
    return Case(DeformableTemplateModel(grid, priors, n_rows=n, n_jobs=1), params, X)


def iterate(case, X, states, seed):
    """Move chains, and return statistics."""
    states, *_ = case.model.move_chains(
        X, states, case.params, seed, "mala", 5, adapt=0.574, start=0.2
    )
    return case.model.mean_statistics(X, states)


def search(case, X, states, seed):
    """Return modes of the first images."""
    few = max(len(X) // SEARCHED, 1)
    return case.model.search_modes(X[:few], case.params, 0)[0]


def spread(values):
    """Return the median and the range as text."""
    return f"{statistics.median(values):.3g} [{min(values):.3g}, {max(values):.3g}]"


def measure(case, name, function, device, repeats):
    """Print a line for each type of tensor."""
    states = case.model.chain_states(len(case.X))
    for dtype in ("float64", "float32"):
        tensor = torch.asarray(case.X, dtype=getattr(torch, dtype), device=device)
        times, ratios = [], []
        for seed in range(repeats + 1):
            ours, found = seconds(
                device, function, case, TensorRows(tensor), states, seed
            )
            own, expected = seconds("cpu", function, case, case.X, states, seed)
            times.append(ours)
            ratios.append(own / ours)
            if dtype == "float64":
                scale = np.abs(expected).max()
                np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * scale)
        shape = " x ".join(map(str, case.model.grid.image_shape))
        rates = [1 / value for value in times[1:]]  # without warming up
        print(
            f"{f'{len(case.X)} of {shape}':18} {name:10} {dtype:8} "
            f"{spread(rates):30} {spread(ratios[1:])}",
            flush=True,
        )


def main():
    arguments = begun(__doc__, repeats=5)
    device = arguments.device
    print(
        f"{'images':18} {'':10} {'type':8} {'per second':30} "
        "seconds of the compiled kernels / those of the tensor"
    )
    for n, shape in CASES:
        case = make_case(n // 10 if arguments.quick else n, shape)
        measure(case, "iteration", iterate, device, arguments.repeats)
        measure(case, "search", search, device, arguments.repeats)


if __name__ == "__main__":
    main()
