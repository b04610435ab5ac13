"""Images of the template benchmarks.

Real images are read from ``../shared/data/images`` next to the repository (or from the
folder named by the environment variable SKTEM_SHARED_DATA). Without USPS, the digits
that come with scikit-learn take its place, enlarged to the same 16 by 16 pixels.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from scipy.ndimage import zoom
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SHARED = Path(
    os.environ.get(
        "SKTEM_SHARED_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"
    )
)
DOC = Path(__file__).resolve().parents[1] / "doc"
SHAPE = (16, 16)


def digits():
    """Return name, training images, labels, test images and labels of digits.

    USPS: 7,291 and 2,007 images with values from 0 to 1, as rows of 256 pixels.
    """
    path = SHARED / "images" / "usps.npz"
    if path.exists():
        with np.load(path) as file:
            X, X_test = (
                file[name].astype(np.float64) for name in ("X_train", "X_test")
            )
            y, y_test = (file[name].astype(int) for name in ("y_train", "y_test"))
        return "USPS", X, y, X_test, y_test
    X, y = load_digits(return_X_y=True)
    large = np.stack([np.pad(zoom(x.reshape(8, 8), 14 / 8), 1) for x in X])
    large = np.clip(large / 16, 0, 1).reshape(len(X), -1)
    parts = train_test_split(large, y, test_size=0.3, random_state=0, stratify=y)
    return "scikit-learn digits", parts[0], parts[2], parts[1], parts[3]


def of_digit(digit, n=None):
    """Return training and test images of one digit; of the first, at most ``n``."""
    _, X, y, X_test, y_test = digits()
    return X[y == digit][:n], X_test[y_test == digit]


def faces():
    """Return the Frey faces, (1,965, 28, 20) with values to 255, or None."""
    path = SHARED / "images" / "frey_faces.npz"
    if not path.exists():
        return None
    with np.load(path) as file:
        return file["X"].astype(np.float64)


def gradient_energy(image):
    """Return the mean square of the differences of neighbouring pixels."""
    return sum(np.mean(np.diff(image, axis=axis) ** 2) for axis in range(image.ndim))


def sharpness(image, mean):
    """Return the gradient energy of an image over that of the pixel mean."""
    return gradient_energy(image) / gradient_energy(mean)


class Report:
    """Prints lines, and writes them to a table of the documentation.

    Parameters
    ----------
    name : str or None
        Name of the table; None writes nothing.
    """

    def __init__(self, name):
        self.path = None if name is None else DOC / "tables" / f"{name}.txt"
        self.lines = []

    def __call__(self, line=""):
        """Print a line, and write all lines so far."""
        print(line, flush=True)
        self.lines.append(line)
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text("\n".join(self.lines) + "\n")


def picture(name):
    """Return the path of a picture of the documentation."""
    path = DOC / "images" / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def show_images(rows, titles, path, shape=SHAPE, width=0.8, limits=(0, 1), columns=()):
    """Draw rows of images with a title on the left of each row.

    Parameters
    ----------
    rows : list of list of ndarray or None
        Images; None leaves a gap.
    titles : list of str
        Titles of the rows.
    path : Path
        File to write.
    shape : tuple of int
        Shape of an image.
    width : float
        Inches of an image.
    limits : tuple of float
        Values drawn black and white: bright strokes on dark paper.
    columns : sequence of str
        Titles of the columns.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    n_columns = max(len(row) for row in rows)
    size = (1.7 + width * n_columns, width * len(rows) * shape[0] / shape[1] + 0.3)
    figure, axes = plt.subplots(len(rows), n_columns, figsize=size, squeeze=False)
    for axis in axes.ravel():
        axis.set_axis_off()
    for row, images in enumerate(rows):
        for column, image in enumerate(images):
            if image is not None:
                axes[row, column].imshow(
                    np.reshape(image, shape),
                    cmap="gray",
                    vmin=limits[0],
                    vmax=limits[1],
                )
    for column, title in enumerate(columns):
        axes[0, column].set_title(title, fontsize=9)
    left = 1.6 / size[0]
    figure.subplots_adjust(
        left=left, right=0.995, top=1 - 0.25 / size[1], bottom=0.01, wspace=0.06,
        hspace=0.06,
    )  # fmt: skip
    for row, title in enumerate(titles):
        box = axes[row, 0].get_position()
        figure.text(
            left - 0.1 / size[0], (box.y0 + box.y1) / 2, title, ha="right", va="center",
            fontsize=9,
        )  # fmt: skip
    figure.savefig(path, dpi=130)
    plt.close(figure)
