"""A tour of sktem in eight short stops, with pictures.

    python examples/tour.py [--only STOP ...] [--output FOLDER]

The stops: mixture, solvers, stream, templates, boltzmann, subjects, counts, model.
All data are simulated or come with scikit-learn; nothing is downloaded.
"""

import argparse
import time
from contextlib import nullcontext
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import zoom
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import PoissonRegressor
from sklearn.mixture import GaussianMixture

from sktem import (
    DeformableTemplateEstimator,
    GaussianMixturePrior,
    LatentBoltzmannMachine,
    NonlinearMixedEffectsRegressor,
    RobustPoissonRegressor,
    StochasticEM,
    StochasticEMGaussianMixture,
    show_progress,
)
from sktem.models import RandomInterceptModel, RandomInterceptParams
from sktem.plotting import IndividualFitDisplay
from sktem.samplers import MALA
from sktem.schedules import BurnInThenDecay
from sktem.solvers import FITTEM, VRTTEM


def timed(function):
    """Return what a function gives, and the seconds that it took."""
    start = time.perf_counter()
    value = function()
    return value, time.perf_counter() - start


def overlapping_mixture(n_samples, n_features, n_components, seed):
    """Draw rows from Gaussians that overlap."""
    rng = np.random.default_rng(seed)
    means = 1.2 * rng.standard_normal((n_components, n_features))
    scales = np.exp(0.2 * rng.standard_normal((n_components, n_features)))
    weights = rng.dirichlet(np.full(n_components, 5))
    labels = rng.choice(n_components, n_samples, p=weights)
    noise = rng.standard_normal((n_samples, n_features))
    return means[labels] + scales[labels] * noise


def save(figure, folder, name, saved):
    """Write a picture and note its path."""
    path = folder / name
    figure.savefig(path, dpi=120)
    plt.close(figure)
    saved.append(path)


def compiling(function):
    """Say how long the first use of compiled loops takes, which numba then keeps."""
    _, seconds = timed(function)
    print(f"   first use of the compiled loops: {seconds:.1f} s, once per machine")


def drop_in(folder, saved):
    """Fit the same mixture with scikit-learn and with sktem, and draw new digits."""
    print("A drop-in for scikit-learn's GaussianMixture")
    X = overlapping_mixture(20_000, 8, 8, seed=3)
    compiling(lambda: StochasticEMGaussianMixture(2, max_iter=2, tol=0).fit(X[:1000]))
    print(f"   {len(X)} rows, {X.shape[1]} features, 8 full covariances:")
    print("                                     tol   passes   seconds   score")
    rows = [
        ("GaussianMixture", GaussianMixture, 1e-3),
        ("StochasticEMGaussianMixture", StochasticEMGaussianMixture, 1e-3),
        ("StochasticEMGaussianMixture", StochasticEMGaussianMixture, 1e-6),
    ]
    for name, mixture_class, tol in rows:
        mixture = mixture_class(8, tol=tol, random_state=0)
        _, seconds = timed(lambda mixture=mixture: mixture.fit(X))
        print(
            f"   {name:28s}  {tol:8.0e}  {mixture.n_iter_:6d}   {seconds:7.2f}   "
            f"{mixture.score(X):.5f}"
        )
    print("   Seconds are of the whole fit with its k-means start.")

    digits = load_digits()
    pca = PCA(20, whiten=True, random_state=0).fit(digits.data)
    mixture = StochasticEMGaussianMixture(
        30,
        covariance_type="tied",
        prior=GaussianMixturePrior(weight_concentration=1e-3),
        tol=1e-4,
        random_state=0,
    ).fit(pca.transform(digits.data))
    drawn, _ = mixture.sample(30)
    drawn = drawn[np.random.default_rng(0).permutation(30)]
    figure, axes = plt.subplots(2, 1, figsize=(7, 5.6), layout="constrained")
    for ax, title, images in zip(
        axes,
        ("handwritten digits", "drawn from a mixture that was fitted to them"),
        (digits.data[:30], pca.inverse_transform(drawn)),
        strict=True,
    ):
        tiles = np.pad(images.reshape(3, 10, 8, 8), ((0, 0), (0, 0), (1, 1), (1, 1)))
        ax.imshow(
            tiles.transpose(0, 2, 1, 3).reshape(30, 100), cmap="gray_r", vmin=0, vmax=16
        )
        ax.set(title=title, xticks=[], yticks=[])
    save(figure, folder, "mixture_digits.png", saved)


def solvers(folder, saved):
    """Follow EM and variance-reduced EM on their way to the maximum."""
    print("Variance reduction: more progress per pass than EM")
    X = overlapping_mixture(20_000, 4, 4, seed=1)
    start = StochasticEMGaussianMixture(4, max_iter=0, random_state=0).fit(X)
    common = {
        "tol": 0,
        "weights_init": start.weights_,
        "means_init": start.means_,
        "precisions_init": start.precisions_,
        "random_state": 0,
    }
    em = StochasticEMGaussianMixture(4, max_iter=300, **common).fit(X)
    reduced = StochasticEMGaussianMixture(
        4, solver=VRTTEM(rho=0.3), max_iter=90, **common
    ).fit(X)
    maximum = max(em.score(X), reduced.score(X))
    figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    print("   solver   gap to the maximum after 15 passes   after 60   seconds of CPU")
    for name, mixture in (("em", em), ("vrttem", reduced)):
        # The objective of an epoch is that of the parameters with which it began.
        history = mixture.history_
        passes = np.array([0, *history.passes[:-1]])
        gap = maximum - np.array(history.objective)
        at = [gap[np.searchsorted(passes, count)] for count in (15, 60)]
        seconds = history.cpu_time[np.searchsorted(passes, 60)]
        print(f"   {name:8s} {at[0]:34.1e}   {at[1]:8.1e}   {seconds:14.2f}")
        shown = (passes <= 90) & (gap > 0)
        ax.semilogy(passes[shown], gap[shown], label=name)
    ax.set(
        xlabel="passes over the data",
        ylabel="gap to the maximum (nats per row)",
        title="Four overlapping Gaussians, 20,000 rows",
    )
    ax.legend(title="solver")
    ax.grid(alpha=0.3)
    save(figure, folder, "solvers.png", saved)


def stream(folder, saved):
    """Learn from a stream whose clusters turn around the origin."""
    print("A stream that drifts: partial_fit with steps that average or forget")
    rng = np.random.default_rng(0)
    n_chunks, rows = 80, 1_024
    angles = np.arange(3) * 2 * np.pi / 3
    chunks = []
    for turn in np.linspace(0, np.pi, n_chunks):
        centres = 4 * np.column_stack([np.cos(angles + turn), np.sin(angles + turn)])
        chunks.append(centres[rng.integers(3, size=rows)] + rng.normal(size=(rows, 2)))
    figure, (ax, plane) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    print("   step size      mean log-likelihood of the next chunk")
    plane.scatter(*chunks[-1].T, s=3, alpha=0.4, color="grey", label="last chunk")
    for position, (name, step_size) in enumerate(
        {"auto": "auto", "constant 0.2": 0.2}.items()
    ):
        mixture = StochasticEMGaussianMixture(3, step_size=step_size, random_state=0)
        mixture.partial_fit(chunks[0])
        scores = []
        for chunk in chunks[1:]:
            scores.append(mixture.score(chunk))  # before it is learned from
            mixture.partial_fit(chunk)
        print(f"   {name:12s} {np.mean(scores):40.3f}")
        colour = f"C{position}"
        ax.plot(range(1, n_chunks), scores, label=name, color=colour)
        plane.plot(*mixture.means_.T, "X", markersize=12, color=colour, label=name)
    ax.set(
        xlabel="chunks seen",
        ylabel="log-likelihood of the next chunk",
        title="Clusters that turn by half a circle",
    )
    ax.legend(title="step size")
    ax.grid(alpha=0.3)
    plane.set(title="means after the last chunk", aspect="equal")
    plane.legend()
    save(figure, folder, "stream.png", saved)


def large_digits(digit, number):
    """Return images of a digit, enlarged to 16 x 16 pixels."""
    images, labels = load_digits(return_X_y=True)
    images = np.pad(images.reshape(-1, 8, 8)[labels == digit], ((0, 0), (1, 1), (1, 1)))
    images = zoom(images, (1, 1.6, 1.6), grid_mode=True, mode="grid-constant")
    return images.clip(0, 16)[:number]


def sharpness(image):
    """Return the mean length of the gradient."""
    return np.hypot(*np.gradient(image)).mean()


def templates(folder, saved):
    """Learn the template of some digits, and draw from the model."""
    print("Templates: the sharp image behind a few deformed ones")
    compiling(lambda: DeformableTemplateEstimator(max_iter=1).fit(large_digits(1, 5)))
    print("   sharpness         images     mean   template")
    figure, axes = plt.subplots(3, 10, figsize=(9, 3.1), layout="constrained")
    for line, digit in zip(axes, (2, 5, 8), strict=True):
        images = large_digits(digit, 20)
        estimator = DeformableTemplateEstimator(random_state=0).fit(images)
        template, mean = estimator.templates_[0], images.mean(axis=0)
        drawn, _ = estimator.sample(4)
        own = np.mean([sharpness(image) for image in images])
        print(
            f"   {digit} from 20 images {own:7.2f} {sharpness(mean):8.2f} "
            f"{sharpness(template):10.2f}"
        )
        shown = [*images[:4], mean, template, *drawn.reshape(-1, 16, 16)]
        for ax, image in zip(line, shown, strict=True):
            ax.imshow(image, cmap="gray_r", vmin=0, vmax=16)
            ax.set(xticks=[], yticks=[])
    titles = ["image"] * 4 + ["mean", "template"] + ["drawn"] * 4
    for ax, title in zip(axes[0], titles, strict=True):
        ax.set_title(title, fontsize=9)
    save(figure, folder, "templates.png", saved)


def boltzmann(folder, saved):
    """Restore halves of digits by a restricted Boltzmann machine."""
    print("A Boltzmann machine: the lower halves of digits from the upper ones")
    X = (load_digits().data > 7).astype(np.float32)
    machine = LatentBoltzmannMachine(
        hidden_layer_sizes=100,
        step_size_m=(0.1, 0.001),
        batch_size=50,
        max_iter=40,
        tol=None,
        random_state=0,
    )
    _, seconds = timed(lambda: machine.fit(X[:1500]))
    test = X[1500:]
    halves = test.copy()
    halves[:, 32:] = np.nan
    restored = machine.impute(halves)
    mean = X[:1500, 32:].mean(axis=0)
    for name, guess in (("mean of the pixel", mean), ("machine", restored[:, 32:])):
        error = ((guess - test[:, 32:]) ** 2).mean()
        print(f"   squared error of a hidden pixel, {name:18s} {error:.3f}")
    print(f"   learned in {seconds:.1f} s, compiling included")
    rows = {
        "seen": np.where(np.isnan(halves), 0.35, halves)[:12],
        "restored": restored[:12],
        "held out": test[:12],
        "drawn anew": machine.sample(12, n_steps=300),
    }
    figure, axes = plt.subplots(4, 12, figsize=(9, 3.4), layout="constrained")
    for line, (name, images) in zip(axes, rows.items(), strict=True):
        for ax, image in zip(line, images, strict=True):
            ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
            ax.set(xticks=[], yticks=[])
        line[0].set_ylabel(name, rotation=0, ha="right", va="center")
    save(figure, folder, "boltzmann.png", saved)


def subjects(folder, saved):
    """Fit the concentrations of a drug in many subjects."""
    print("Curves of many subjects: concentrations after an oral dose")
    rng = np.random.default_rng(0)
    n, m = 30, 7
    groups = np.repeat(np.arange(n), m)
    hours = np.sort(rng.uniform(0.25, 24, size=(n, m)), axis=1).ravel()
    truth = np.array([1.5, 30.0, 3.0])
    spread = [0.5, 0.2, 0.3] * rng.normal(size=(n, 3))
    ka, V, CL = (truth * np.exp(spread))[groups].T
    k = CL / V
    curve = 320 * ka / (V * (ka - k)) * (np.exp(-k * hours) - np.exp(-ka * hours))
    X = np.column_stack([np.full(n * m, 320.0), hours])
    y = curve + 0.4 * rng.normal(size=n * m)
    pk = NonlinearMixedEffectsRegressor(
        "one_compartment_oral",
        parameters={"ka": 0.7, "V": 50.0, "CL": 1.0},
        random_state=0,
    )
    _, seconds = timed(lambda: pk.fit(X, y, groups=groups))
    print(f"   fitted in {seconds:.1f} s, compiling included")
    print("   parameter    true    estimate   standard error")
    for (name, value), true in zip(
        pk.population_parameters_.items(), truth, strict=True
    ):
        error = pk.standard_errors()[name]
        print(f"   {name:9s} {true:7.2f} {value:11.2f} {error:16.2f}")
    display = IndividualFitDisplay.from_estimator(pk, X, y, groups, n_subjects=8)
    display.figure_.supylabel("concentration")
    save(display.figure_, folder, "subjects.png", saved)


def counts(folder, saved):
    """Fit counts of which some are wrong."""
    print("Counts, six of 150 of which are far too large")
    rng = np.random.default_rng(2)
    x = np.sort(rng.uniform(-2, 2, 150))
    y = rng.poisson(np.exp(1 + 0.7 * x))
    wrong = rng.choice(40, 6, replace=False)
    y[wrong] = 12 * (1 + y[wrong])
    X = x[:, None]
    plain = PoissonRegressor(alpha=0).fit(X, y)
    robust = RobustPoissonRegressor(tol=1e-4).fit(X, y)
    print("   slope: truth 0.70, ", end="")
    print(f"PoissonRegressor {plain.coef_[0]:.2f}, robust {robust.coef_[0]:.2f}")
    figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
    ax.plot(x, y, ".", color="0.6", label="counts")
    ax.plot(x[wrong], y[wrong], "x", color="C3", label="wrong counts")
    ax.plot(x, np.exp(1 + 0.7 * x), "k--", label="truth")
    ax.plot(x, plain.predict(X), color="C1", label="PoissonRegressor")
    rate = np.exp(robust.intercept_ + robust.coef_[0] * x)
    ax.plot(x, rate, color="C0", label="RobustPoissonRegressor (median rate)")
    ax.set_yscale("function", functions=(np.sqrt, np.square))
    ax.set(ylim=(0, None), xlabel="feature", ylabel="count (square root scale)")
    ax.legend(fontsize=8, frameon=False)
    save(figure, folder, "counts.png", saved)


def progress_bars():
    """Return the switch of progress bars, where they are installed."""
    try:
        return show_progress()
    except ImportError as error:
        print(f"   ({error})")
        return nullcontext()


def own_model(folder, saved):
    """Fit a random-intercept model with several samplers."""
    print("Any latent-variable model: random intercepts of 2,000 subjects")
    rng = np.random.default_rng(0)
    n, m = 2_000, 4
    X = rng.normal(3.0, 1.0, size=(n, 1)) + rng.normal(0.0, 2.0, size=(n, m))
    # The maximum-likelihood estimate in closed form.
    noise = ((X - X.mean(axis=1, keepdims=True)) ** 2).sum() / (n * (m - 1))
    closed = (X.mean(), X.mean(axis=1).var() - noise / m, noise)
    settings = {
        "em, exact": {"solver": "em", "tol": 1e-9, "max_iter": 200},
        "saem, mala": {
            "solver": "saem",
            "sampler": MALA(step=0.3, n_steps=3),
            "step_size": BurnInThenDecay(n_burn_in=30),
        },
        "vrttem, exact": {"solver": VRTTEM(rho=0.1)},
        "fittem, mc": {"solver": FITTEM(rho=0.1), "sampler": "mc"},
    }
    print("   solver, sampler      mean   variance   noise variance")
    print(
        f"   {'closed form':17s} {closed[0]:7.3f} {closed[1]:10.3f} {closed[2]:16.3f}"
    )
    maximum = RandomInterceptModel().log_likelihood(X, RandomInterceptParams(*closed))
    figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, values in settings.items():
        em = StochasticEM(
            RandomInterceptModel(), **{"tol": 0, "max_iter": 60, **values}
        ).set_params(random_state=0)
        with progress_bars() if name == "saem, mala" else nullcontext():
            params = em.fit(X).params_
        print(
            f"   {name:17s} {params.mean:7.3f} {params.variance:10.3f} "
            f"{params.noise_variance:16.3f}"
        )
        gap = maximum.mean() - np.array(em.history_.objective)
        shown = gap > 1e-9  # below, it is rounding
        ax.loglog(np.array(em.history_.passes)[shown], gap[shown], label=name)
    ax.set(
        xlabel="passes over the data",
        ylabel="gap to the maximum (nats per row)",
        title="One model, several solvers and samplers",
    )
    ax.legend(title="solver, sampler")
    ax.grid(alpha=0.3)
    save(figure, folder, "model.png", saved)


STOPS = {
    "mixture": drop_in,
    "solvers": solvers,
    "stream": stream,
    "templates": templates,
    "boltzmann": boltzmann,
    "subjects": subjects,
    "counts": counts,
    "model": own_model,
}


def main():
    """Take the tour."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only",
        nargs="+",
        choices=STOPS,
        default=list(STOPS),
        metavar="STOP",
        help=f"some of the stops: {', '.join(STOPS)}",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("tour_pictures"),
        help="folder for the pictures (default: tour_pictures)",
    )
    arguments = parser.parse_args()
    folder = arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    saved: list[Path] = []
    start = time.perf_counter()
    for number, name in enumerate(arguments.only, start=1):
        print(f"{number}. ", end="")
        _, seconds = timed(lambda name=name: STOPS[name](folder, saved))
        print(f"   ({seconds:.1f} s; again: python examples/tour.py --only {name})\n")
    print(f"Pictures, after {time.perf_counter() - start:.0f} s:")
    for path in saved:
        print(f"   {path}")
    print("Next: doc/user_guide/recipes.rst, and the other examples.")


if __name__ == "__main__":
    main()
