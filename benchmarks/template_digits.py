"""Templates of real images: digits, styles of writing, clusters and faces.

Four parts, each with a picture:

- all ten digits: pixel means, templates (from 20 images and from all) and samples,
  with the sharpness of each, the gradient energy over that of the pixel mean;
- two templates for the sevens and for the twos: styles of writing;
- an unlabelled fit with several templates, by adjusted Rand index against k-means;
- faces: the template and its leading deformations at two standard deviations.

Run: ``python benchmarks/template_digits.py``; one part with ``--parts digits``.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from image_data import (
    SHAPE,
    Report,
    digits,
    faces,
    gradient_energy,
    of_digit,
    picture,
    sharpness,
    show_images,
)
from machine import describe
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from sktem import DeformableTemplateEstimator
from sktem.exceptions import FitWarning

PARTS = ("digits", "styles", "clusters", "faces")


def fit(X, shape=SHAPE, **parameters):
    """Return a fitted template and the CPU seconds that it took."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # folds are printed instead
        estimator = DeformableTemplateEstimator(shape, **parameters).fit(X)
    return estimator, time.process_time() - began


def all_digits(report, options):
    """Print the sharpness of all templates, and draw them."""
    report("All ten digits: sharpness is gradient energy over that of the pixel mean")
    report()
    report(
        "digit  images   mean of    template, 20 images    template, all images"
        "     samples"
    )
    report(
        "                images    sharpness  CPU s  folds   sharpness  CPU s  folds"
        "   sharpness"
    )
    rows = [[] for _ in range(7)]
    ratios = []
    for digit in range(10):
        X, _ = of_digit(digit, options.images)
        mean = X.mean(axis=0).reshape(SHAPE)
        of_images = np.mean([gradient_energy(x.reshape(SHAPE)) for x in X])
        few, few_time = fit(X[:20], random_state=digit)
        estimator, all_time = fit(X, random_state=digit, max_iter=options.epochs)
        samples, _ = estimator.sample(20, noise=False)
        sampled = np.mean([gradient_energy(x.reshape(SHAPE)) for x in samples])
        scale = gradient_energy(mean)
        few_mean = X[:20].mean(axis=0).reshape(SHAPE)
        ratios.append(
            (
                sharpness(few.templates_[0], few_mean),
                sharpness(estimator.templates_[0], mean),
            )
        )
        report(
            f"{digit:3d} {len(X):8d} {of_images / scale:9.2f} {ratios[-1][0]:12.2f}"
            f"{few_time:8.2f}{few.fold_rate_:7.0%} {ratios[-1][1]:11.2f}"
            f"{all_time:8.2f}{estimator.fold_rate_:7.0%}{sampled / scale:12.2f}"
        )
        found = (mean, few.templates_[0], estimator.templates_[0], *samples[:4])
        for row, image in zip(rows, found, strict=True):
            row.append(image)
    low, high = np.min(ratios, axis=0), np.max(ratios, axis=0)
    report(
        f"all of 10 sharper than the pixel mean: {bool((low > 1).all())} "
        f"(20 images {low[0]:.2f} to {high[0]:.2f}, all {low[1]:.2f} to {high[1]:.2f})"
    )
    titles = ["mean of all images", "template, 20 images", "template, all images"]
    show_images(rows, [*titles, *["sample"] * 4], picture("template_digits"))


def styles(report, options):
    """Print the shares of two styles of 7 and of 2, and draw them."""
    report("Two templates for one digit, 200 images")
    report()
    rows, titles = [], []
    for digit in (7, 2):
        X, _ = of_digit(digit, 200)
        estimator, seconds = fit(
            X, n_components=2, random_state=0, max_iter=options.epochs
        )
        labels = estimator.predict(X)
        single, _ = fit(X, random_state=0, max_iter=options.epochs)
        gain = (estimator.score(X) - single.score(X)) / X.shape[1]
        counts = np.bincount(labels, minlength=2)
        report(
            f"digit {digit}: {counts[0]} and {counts[1]} images, log-likelihood per "
            f"pixel {gain:+.3f} against one template, {seconds:.1f} CPU s"
        )
        sure = estimator.predict_proba(X)
        for t in range(2):
            order = np.argsort(-sure[:, t], kind="stable")
            examples = [X[i] for i in order[: counts[t]]][:8]
            mean = X[labels == t].mean(axis=0) if counts[t] else None
            rows.append([estimator.templates_[t], mean, None, *examples])
            titles.append(f"{digit}, style {t + 1}")
    show_images(
        rows,
        titles,
        picture("template_styles"),
        columns=("template", "mean", "", "images"),
    )


def clusters(report, options):
    """Print adjusted Rand indices of an unlabelled fit and of k-means."""
    name, X, y, _, _ = digits()
    report(
        f"Unlabelled fit, {options.cluster_images} images of {name}, adjusted Rand "
        "index (the same images and numbers of clusters for k-means, 10 starts)"
    )
    report()
    report("clusters  seed   k-means  templates    CPU s")
    for n_components in options.components:
        pairs = []
        for seed in range(options.seeds):
            rng = np.random.default_rng(seed)
            rows = rng.choice(len(X), options.cluster_images, replace=False)
            kmeans = KMeans(n_components, n_init=10, random_state=seed).fit(X[rows])
            estimator, seconds = fit(
                X[rows],
                n_components=n_components,
                random_state=seed,
                max_iter=options.cluster_epochs,
            )
            pairs.append(
                (
                    adjusted_rand_score(y[rows], kmeans.labels_),
                    adjusted_rand_score(y[rows], estimator.predict(X[rows])),
                )
            )
            report(
                f"{n_components:8d}{seed:6d}{pairs[-1][0]:10.3f}{pairs[-1][1]:11.3f}"
                f"{seconds:9.1f}"
            )
        theirs, ours = np.transpose(pairs)
        report(
            f"{n_components:8d}  mean{theirs.mean():10.3f}{ours.mean():11.3f}"
            f"    ahead in {np.sum(ours > theirs)} of {len(pairs)}; sd "
            f"{theirs.std(ddof=1):.3f}, {ours.std(ddof=1):.3f}"
            if len(pairs) > 1
            else f"{n_components:8d}  mean{theirs.mean():10.3f}{ours.mean():11.3f}"
        )


def leading_faces(report, options):
    """Print what the leading deformations of faces explain, and draw them."""
    images = faces()
    if images is None:
        report("Frey faces are absent")
        return
    shape = images.shape[1:]
    X = images[:: max(len(images) // options.faces, 1)][: options.faces]
    estimator, seconds = fit(
        X,
        shape=shape,
        template_landmarks=options.face_landmarks,
        random_state=0,
        max_iter=options.epochs,
    )
    mean, template = X.mean(axis=0), estimator.templates_[0]
    modes, shares = estimator.principal_deformations(4)
    report(
        f"Frey faces, {len(X)} of {len(images)}, {shape[0]} x {shape[1]} pixels, "
        f"{options.face_landmarks} landmarks along the longest axis"
    )
    report(
        f"sharpness {sharpness(template, mean):.2f}, folds {estimator.fold_rate_:.0%}, "
        f"{seconds:.1f} CPU s"
    )
    report(
        "shares of the displacements' variance: "
        + ", ".join(f"{share:.0%}" for share in shares)
    )
    rows = [[mean, template, None, X[0], X[len(X) // 3], X[-1]]]
    titles = ["mean, template,\nimages"]
    for k, mode in enumerate(modes):
        sizes = np.array([-2, -1, 0, 1, 2])
        rows.append([*estimator.inverse_transform(sizes[:, None] * mode), None])
        titles.append(f"deformation {k + 1}, {shares[k]:.0%}\n-2 to 2 sd")
    show_images(
        rows, titles, picture("template_faces"), shape=shape, width=0.9, limits=(0, 255)
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--images", type=int, default=None, help="per digit, at most")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--components", type=int, nargs="+", default=[10, 20])
    parser.add_argument("--cluster-images", type=int, default=500)
    parser.add_argument("--cluster-epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--faces", type=int, default=200)
    parser.add_argument("--face-landmarks", type=int, default=29)
    parser.add_argument("--dry-run", action="store_true", help="write no table")
    options = parser.parse_args()
    functions = dict(
        zip(PARTS, (all_digits, styles, clusters, leading_faces), strict=True)
    )
    # A table for each part, so that a part can be run alone.
    for part in options.parts:
        report = Report(None if options.dry_run else f"template_{part}")
        report(describe())
        report()
        functions[part](report, options)
        print()


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
