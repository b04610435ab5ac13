"""Draw the pictures of the landing page and of the user guide.

    python doc/draw_pictures.py [NAME ...]

Without names, all of them are drawn, into ``doc/images``. It takes about a minute, and
all data are simulated or come with scikit-learn.
"""

import sys
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse
from scipy.ndimage import zoom
from sklearn.datasets import load_digits
from sklearn.linear_model import PoissonRegressor

from sktem import (
    DeformableTemplateEstimator,
    LatentBoltzmannMachine,
    NonlinearMixedEffectsRegressor,
    RobustPoissonRegressor,
    StochasticEM,
    StochasticEMGaussianMixture,
)
from sktem.models import RandomInterceptModel
from sktem.plotting import (
    IndividualFitDisplay,
    ParameterTraceDisplay,
    ResidualDisplay,
    TemplateDisplay,
    VisualPredictiveCheckDisplay,
)
from sktem.samplers import MALA
from sktem.solvers import VRTTEM

IMAGES = Path(__file__).resolve().parent / "images"
CARD = (4.8, 2.6)


def save(name, figure=None):
    """Write a figure as a small PNG."""
    figure = figure or plt.gcf()
    figure.savefig(IMAGES / f"{name}.png", dpi=110)
    plt.close(figure)


def add_ellipses(ax, mixture, colours):
    """Draw the two standard deviations of each component."""
    parts = zip(mixture.means_, mixture.covariances_, colours, strict=False)
    for mean, covariance, colour in parts:
        values, vectors = np.linalg.eigh(covariance)
        angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
        width, height = 4 * np.sqrt(values[::-1])
        ax.add_patch(
            Ellipse(mean, width, height, angle=angle, fill=False, lw=2.5, color=colour)
        )


def card_mixture():
    """Draw three clusters and the components that were found."""
    rng = np.random.default_rng(3)
    shapes = [([0, 0], [[1.5, 0.9], [0.9, 0.8]]), ([5, 1], [[0.5, -0.5], [-0.5, 1.5]])]
    shapes.append(([2.5, -2.8], [[1.6, 0], [0, 0.25]]))
    X = np.vstack([rng.multivariate_normal(m, c, 700) for m, c in shapes])
    mixture = StochasticEMGaussianMixture(3, n_init=3, random_state=0).fit(X)
    figure, ax = plt.subplots(figsize=CARD, layout="constrained")
    colours = ["C0", "C1", "C2"]
    ax.scatter(*X.T, s=3, alpha=0.35, c=np.array(colours)[mixture.predict(X)])
    add_ellipses(ax, mixture, colours)
    ax.set(xticks=[], yticks=[], aspect="equal")
    save("card_mixture", figure)


def large_digits(digit, number):
    """Return digits of scikit-learn, enlarged to 16 x 16 pixels."""
    images, labels = load_digits(return_X_y=True)
    images = np.pad(images.reshape(-1, 8, 8)[labels == digit], ((0, 0), (1, 1), (1, 1)))
    images = zoom(images, (1, 1.6, 1.6), grid_mode=True, mode="grid-constant")
    return images.clip(0, 16)[:number]


def card_templates():
    """Draw images of three digits, their means and their templates."""
    figure, axes = plt.subplots(3, 6, figsize=CARD, layout="constrained")
    for line, digit in zip(axes, (5, 3, 2), strict=True):
        images = large_digits(digit, 40)
        estimator = DeformableTemplateEstimator(random_state=0).fit(images)
        shown = [*images[:4], images.mean(axis=0), estimator.templates_[0]]
        for ax, image in zip(line, shown, strict=True):
            ax.imshow(image, cmap="gray_r", vmin=0, vmax=16)
            ax.set(xticks=[], yticks=[])
    for ax, title in zip(axes[0], [*["image"] * 4, "mean", "template"], strict=True):
        ax.set_title(title, fontsize=9)
    save("card_templates", figure)


def template_guide():
    """Draw the modes, samples and registered images of a template."""
    fives = large_digits(5, 48)
    estimator = DeformableTemplateEstimator(deformation_landmarks=5, random_state=0)
    estimator.fit(fives[:40])
    display = TemplateDisplay.from_estimator(estimator, kind="modes", cmap="gray_r")
    save("guide_template_modes", display.figure_)
    display.plot("samples", cmap="gray_r")
    save("guide_template_samples", display.figure_)
    explained = TemplateDisplay.from_estimator(estimator, fives[40:46], cmap="gray_r")
    save("guide_template_explained", explained.figure_)


def restored_digits():
    """Draw the lower halves of digits restored from the upper ones."""
    X = (load_digits().data > 7).astype(np.float32)
    machine = LatentBoltzmannMachine(
        hidden_layer_sizes=150,
        step_size_m=(0.1, 0.001),
        n_gibbs_m=5,
        batch_size=50,
        max_iter=60,
        centering=False,
        tol=None,
        random_state=0,
    ).fit(X[:1600])
    test = X[1600:1609]
    halves = test.copy()
    halves[:, 32:] = np.nan
    rows = {
        "seen": np.where(np.isnan(halves), 0.35, halves),
        "restored": machine.impute(halves),
        "held out": test,
        "drawn anew": machine.sample(9, n_steps=500),
    }
    for name, kept, size in (
        ("card_boltzmann", ("seen", "restored", "held out"), CARD),
        ("guide_boltzmann", tuple(rows), (7, 3.3)),
    ):
        figure, axes = plt.subplots(len(kept), 9, figsize=size, layout="constrained")
        for line, key in zip(axes, kept, strict=True):
            for ax, image in zip(line, rows[key], strict=True):
                ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
                ax.set(xticks=[], yticks=[])
            line[0].set_ylabel(key, rotation=0, ha="right", va="center", fontsize=9)
        save(name, figure)


def concentrations():
    """Return doses and times, concentrations and subjects, simulated."""
    rng = np.random.default_rng(0)
    n, m = 30, 7
    groups = np.repeat(np.arange(n), m)
    time = np.sort(rng.uniform(0.25, 24, size=(n, m)), axis=1).ravel()
    spread = [0.5, 0.2, 0.3] * rng.normal(size=(n, 3))
    ka, V, CL = (np.array([1.5, 30.0, 3.0]) * np.exp(spread))[groups].T
    k = CL / V
    curve = 320 * ka / (V * (ka - k)) * (np.exp(-k * time) - np.exp(-ka * time))
    X = np.column_stack([np.full(n * m, 320.0), time])
    return X, curve + 0.4 * rng.normal(size=n * m), groups


def mixed_effects():
    """Draw individual curves and the checks of a fit."""
    X, y, groups = concentrations()
    pk = NonlinearMixedEffectsRegressor(
        "one_compartment_oral",
        parameters={"ka": 0.7, "V": 50.0, "CL": 1.0},
        random_state=0,
    ).fit(X, y, groups=groups)
    display = IndividualFitDisplay.from_estimator(pk, X, y, groups, n_subjects=8)
    display.figure_.supylabel("concentration")
    save("guide_individual_fits", display.figure_)
    figure, axes = plt.subplots(
        1, 3, figsize=CARD, sharex=True, sharey=True, layout="constrained"
    )
    times = np.linspace(0.1, 24, 100)
    typical = pk.predict(np.column_stack([np.full(100, 320.0), times]))
    for ax, subject in zip(axes, (1, 4, 7), strict=True):
        rows = groups == subject
        grid = np.column_stack([np.full(100, 320.0), times])
        curve = pk.predict(grid, groups=np.full(100, subject))
        ax.plot(times, typical, "--", color="0.5", label="population")
        ax.plot(times, curve, label="subject")
        ax.plot(X[rows, 1], y[rows], "o", color="k", ms=4)
        ax.set(xlabel="hours", title=f"subject {subject}")
    axes[0].set_ylabel("concentration")
    axes[0].legend(fontsize=7, frameon=False)
    save("card_mixed_effects", figure)
    display = ParameterTraceDisplay.from_estimator(pk)
    save("guide_parameter_trace", display.figure_)
    display = VisualPredictiveCheckDisplay.from_estimator(
        pk, X, y, groups, random_state=0
    )
    save("guide_predictive_check", display.figure_)
    display = ResidualDisplay.from_estimator(
        pk, X, y, groups, kinds="npde", random_state=0
    )
    save("guide_residuals", display.figure_)


def card_regression():
    """Draw what outlying counts do to two regressions."""
    rng = np.random.default_rng(2)
    x = np.sort(rng.uniform(-2, 2, 150))
    counts = rng.poisson(np.exp(1 + 0.7 * x))
    wrong = rng.choice(40, 6, replace=False)
    counts[wrong] = 12 * (1 + counts[wrong])
    X = x[:, None]
    robust = RobustPoissonRegressor(tol=1e-4).fit(X, counts)
    plain = PoissonRegressor(alpha=0).fit(X, counts)
    figure, ax = plt.subplots(figsize=CARD, layout="constrained")
    ax.plot(x, counts, ".", color="0.6")
    ax.plot(x[wrong], counts[wrong], "x", color="C3", label="wrong counts")
    ax.plot(x, np.exp(1 + 0.7 * x), "k--", label="truth")
    ax.plot(x, plain.predict(X), color="C1", label="PoissonRegressor")
    centre = np.exp(robust.intercept_ + robust.coef_[0] * x)
    ax.plot(x, centre, color="C0", label="robust (median rate)")
    ax.set_yscale("function", functions=(np.sqrt, np.square))
    ax.set(ylim=(0, None), xlabel="feature", ylabel="count")
    ax.legend(fontsize=7, frameon=False, loc="upper right")
    save("card_regression", figure)


def card_own_model():
    """Draw the way of several solvers to the maximum of one model."""
    rng = np.random.default_rng(0)
    X = rng.normal(3, 1, size=(2000, 1)) + rng.normal(0, 2, size=(2000, 4))
    model = RandomInterceptModel()
    best = StochasticEM(model, solver="em", tol=1e-12, max_iter=1000).fit(X).score(X)
    settings = {
        "em, exact": {"solver": "em"},
        "saem, mala": {"solver": "saem", "sampler": MALA(step=0.3, n_steps=3)},
        "vrttem, exact": {"solver": VRTTEM(rho=0.1)},
    }
    figure, ax = plt.subplots(figsize=CARD, layout="constrained")
    for name, values in settings.items():
        em = StochasticEM(model, tol=0, max_iter=50, random_state=0, **values).fit(X)
        gap = best - np.array(em.history_.objective)
        shown = gap > 1e-9
        ax.loglog(np.array(em.history_.passes)[shown], gap[shown], label=name)
    ax.set(xlabel="passes over the data", ylabel="gap to the maximum")
    ax.legend(title="solver, sampler", fontsize=8, title_fontsize=8, frameon=False)
    save("card_own_model", figure)


def mixture_guide():
    """Draw solvers against passes, and a stream that drifts."""
    rng = np.random.default_rng(1)
    means = 1.2 * rng.standard_normal((4, 4))
    labels = rng.choice(4, 40_000, p=rng.dirichlet(np.full(4, 5)))
    X = means[labels] + rng.standard_normal((40_000, 4))
    start = StochasticEMGaussianMixture(4, max_iter=0, random_state=0).fit(X)
    common = {
        "tol": 0,
        "weights_init": start.weights_,
        "means_init": start.means_,
        "precisions_init": start.precisions_,
        "random_state": 0,
    }
    em = StochasticEMGaussianMixture(4, max_iter=1500, **common).fit(X)
    runs = {"em": em}
    runs["vrttem"] = StochasticEMGaussianMixture(
        4, solver=VRTTEM(rho=0.3), max_iter=150, **common
    ).fit(X)
    best = max(run.score(X) for run in runs.values())
    figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
    for name, run in runs.items():
        passes = np.array([0, *run.history_.passes[:-1]])
        gap = best - np.array(run.history_.objective)
        shown = (passes <= 150) & (gap > 1e-8)
        ax.semilogy(passes[shown], gap[shown], label=name)
    ax.set(xlabel="passes over the data", ylabel="gap to the maximum (nats per row)")
    ax.legend(title="solver")
    ax.grid(alpha=0.3)
    save("guide_mixture_solvers", figure)


def stream_guide():
    """Draw the score of two step sizes on a stream that drifts."""
    rng = np.random.default_rng(0)
    angles = np.arange(3) * 2 * np.pi / 3
    chunks = []
    for turn in np.linspace(0, np.pi, 80):
        centres = 4 * np.column_stack([np.cos(angles + turn), np.sin(angles + turn)])
        chunks.append(centres[rng.integers(3, size=1024)] + rng.normal(size=(1024, 2)))
    figure, (ax, plane) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    plane.scatter(*chunks[-1].T, s=3, alpha=0.4, color="grey", label="last chunk")
    for name, step, marker in (("auto", "auto", "X"), ("constant 0.2", 0.2, "P")):
        mixture = StochasticEMGaussianMixture(3, step_size=step, random_state=0)
        mixture.partial_fit(chunks[0])
        scores = []
        for chunk in chunks[1:]:
            scores.append(mixture.score(chunk))
            mixture.partial_fit(chunk)
        [line] = ax.plot(range(1, 80), scores, label=name)
        plane.plot(*mixture.means_.T, marker, ms=11, color=line.get_color(), label=name)
    ax.set(xlabel="chunks seen", ylabel="log-likelihood of the next chunk")
    ax.legend(title="step_size", frameon=False)
    plane.set(title="means after the last chunk", aspect="equal")
    plane.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    save("guide_stream", figure)


PICTURES = {
    function.__name__: function
    for function in (
        card_mixture,
        card_templates,
        template_guide,
        restored_digits,
        mixed_effects,
        card_regression,
        card_own_model,
        mixture_guide,
        stream_guide,
    )
}


def main():
    """Draw the pictures that the command line names, or all."""
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name]()
        print(name)


if __name__ == "__main__":
    main()
