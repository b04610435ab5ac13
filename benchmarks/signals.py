"""Mean curves of warped signals: templates against barycentres and elastic means.

Forty curves of 101 points, one period of a smooth curve of about the shape and size of
a knee angle in degrees, each under a smooth monotone warp of time and with noise. The
figure is the root mean square error of the estimated mean curve:
``DeformableTemplateEstimator`` with flows, and without; dynamic time warping barycentre
averaging and the soft-DTW barycentre of tslearn; the elastic mean of scikit-fda. Peers
that are not installed are left out.

Run: ``python benchmarks/signals.py``.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from image_data import Report
from machine import describe
from scipy.ndimage import gaussian_filter1d

from sktem import DeformableTemplateEstimator

N_POINTS = 101


def truth(t):
    """Return a curve with two bends, in degrees, at times from 0 to 1."""
    return (
        8
        + 12 * np.exp(-(((t - 0.15) / 0.07) ** 2))
        + 52 * np.exp(-(((t - 0.7) / 0.1) ** 2))
        + 4 * np.cos(2 * np.pi * t)
    )


def curves(n, noise, seed, strength=0.35):
    """Return warped, noisy curves, and the curve that they have in common."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, N_POINTS)
    rates = gaussian_filter1d(rng.normal(size=(n, 3 * N_POINTS)), 15.0, axis=1)
    rates = rates[:, N_POINTS : 2 * N_POINTS] / rates.std()
    speeds = np.exp(strength * rates)
    warps = np.cumsum(speeds[:, 1:] + speeds[:, :-1], axis=1)
    warps = np.column_stack([np.zeros(n), warps / warps[:, -1:]])
    clean = truth(warps)
    return truth(t), clean + noise * rng.normal(size=clean.shape)


def template(X, deformation):
    """Return the template of curves with default settings."""
    estimator = DeformableTemplateEstimator(
        (N_POINTS,), deformation=deformation, random_state=0
    )
    return estimator.fit(X).templates_[0]


def dba(X):
    """Return tslearn's barycentre under dynamic time warping."""
    from tslearn.barycenters import dtw_barycenter_averaging

    return dtw_barycenter_averaging(X[..., None], max_iter=30, tol=1e-4).ravel()


def soft_dtw(X):
    """Return tslearn's soft-DTW barycentre."""
    from tslearn.barycenters import softdtw_barycenter

    return softdtw_barycenter(X[..., None], gamma=1.0, max_iter=100).ravel()


def elastic_mean(X):
    """Return the mean of scikit-fda's elastically registered curves."""
    import skfda
    from skfda.preprocessing.registration import FisherRaoElasticRegistration

    data = skfda.FDataGrid(X, np.linspace(0, 1, X.shape[1]))
    registered = FisherRaoElasticRegistration().fit_transform(data)
    return registered.mean().data_matrix.ravel()


METHODS = {
    "pointwise mean": lambda X: X.mean(axis=0),
    "templates, linear": lambda X: template(X, "linear"),
    "templates, flows": lambda X: template(X, "diffeomorphic"),
    "DBA (tslearn)": dba,
    "soft-DTW, gamma 1 (tslearn)": soft_dtw,
    "elastic mean (scikit-fda)": elastic_mean,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--noise", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--strengths", type=float, nargs="+", default=[0.1])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--curves", type=int, default=40)
    parser.add_argument("--dry-run", action="store_true", help="write no table")
    options = parser.parse_args()
    report = Report(None if options.dry_run else "signals")
    report(describe())
    report()
    report(
        f"{options.curves} warped curves of {N_POINTS} points: errors of the mean "
        f"curve for seeds 0 to {options.seeds - 1}, median CPU seconds a fit"
    )
    for strength in options.strengths:
        for noise in options.noise:
            report()
            report(f"warps of strength {strength:g}, noise sd {noise:g}")
            data = [
                curves(options.curves, noise, seed, strength)
                for seed in range(options.seeds)
            ]
            for name, method in METHODS.items():
                report(f"  {name:30s}" + figures(data, method))


def figures(data, method):
    """Return the errors of a method and its time."""
    errors, seconds = [], []
    for mean, X in data:
        began = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = method(X)
        except ImportError:
            return "not installed"
        seconds.append(time.process_time() - began)
        errors.append(np.sqrt(((found - mean) ** 2).mean()))
    # The median: the first fit may compile.
    return "".join(f"{e:7.2f}" for e in errors) + f"{np.median(seconds):9.1f} s"


if __name__ == "__main__":
    main()
