"""Images of the Boltzmann benchmarks.

Read from ``../shared/data/images`` next to the repository, or from the folder named by
the environment variable SKTEM_SHARED_DATA.
"""

from __future__ import annotations

import numpy as np
from mixture_data import SHARED


def _load(name):
    path = SHARED / "images" / f"{name}.npz"
    if not path.exists():
        raise SystemExit(f"{path} is not there: set SKTEM_SHARED_DATA")
    return np.load(path)


def mnist(seed=0):
    """Digits drawn once as Bernoulli pixels, float32: (60,000, 784), (10,000, 784).

    This is the stochastic binarisation that published likelihoods are about; a
    thresholded image is an easier target, and is not to be compared with them.
    """
    rng = np.random.default_rng(seed)
    return [
        (rng.random(part.shape, np.float32) < part).astype(np.float32)
        for part in mnist_intensities()
    ]


def mnist_intensities():
    """Grey levels of the digits in [0, 1], float32: (60,000, 784), (10,000, 784)."""
    with _load("mnist") as file:
        parts = [file[name].reshape(-1, 784) for name in ("X_train", "X_test")]
    return [part / np.float32(255) for part in parts]


def ocr_letters():
    """Letters of 16 x 8 bits, float32: (42,152, 128), (10,000, 128)."""
    with _load("ocr_letters") as file:
        X = file["X"].astype(np.float32)
    X = X[np.random.default_rng(0).permutation(len(X))]
    return X[:42152], X[42152:]


def frey_faces():
    """Frames of 28 x 20 pixels in [0, 1], float32: (1,765, 560), (200, 560)."""
    with _load("frey_faces") as file:
        X = file["X"].reshape(-1, 560).astype(np.float32) / 255
    X = X[np.random.default_rng(0).permutation(len(X))]
    return X[:1765], X[1765:]
