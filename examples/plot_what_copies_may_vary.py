"""
What copies of images may vary
==============================

With few images, a classifier can learn from deformed copies of them, provided that the
deformation does not change the class. A digit that is turned a little is the same
digit. A gauge whose needle is turned is not: its angle is the reading. Here held-out
images decide how much the copies are deformed.
"""

# %%
# Needles and digits
# ------------------
# There are ten images each of needles at 0 and 20 degrees, whose place, length and
# width vary. The other data are the digits 1 and 7 of scikit-learn, whose slant is
# irrelevant.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from sktem import DeformedCopiesClassifier

rng = np.random.default_rng(0)
y_pixel, x_pixel = np.mgrid[:24, :24] - 11.5


def needle(reading):
    x, y = x_pixel - 0.5 * rng.normal(), y_pixel - 0.5 * rng.normal()
    angle = np.deg2rad(20 * reading + 3 * rng.normal())
    along = np.abs(x * np.cos(angle) + y * np.sin(angle))
    across = np.abs(y * np.cos(angle) - x * np.sin(angle))
    length, width = 8 + rng.normal(), 2 + 0.4 * rng.normal()
    image = 1 / (1 + np.exp(-2 * np.minimum(length - along, width - across)))
    return image + 0.1 * rng.normal(size=image.shape)


readings = np.arange(320) % 2
needles = np.array([needle(reading) for reading in readings])
digits, labels = load_digits(return_X_y=True)
chosen = np.isin(labels, (1, 7))
digits, labels = digits[chosen].reshape(-1, 8, 8), labels[chosen]
data = {"needles": (needles, readings), "digits 1 and 7": (digits, labels)}

# %%
# Three classifiers
# -----------------
# The first chooses the sizes of its deformations, the second deforms copies as is usual
# for handwriting, and the third is a support vector machine on the pixels.


def errors(classifier, X, y):
    return 100 * (1 - classifier.fit(X[:20], y[:20]).score(X[20:], y[20:]))


handwriting = {"rotation": 0.18, "shear": 0.18, "stretch": 0.13, "scale": 0.09}
found, bars = {}, {}
for name, (X, y) in data.items():
    found[name] = DeformedCopiesClassifier(max_rows=800, random_state=0)
    usual = DeformedCopiesClassifier(**handwriting, max_rows=800, random_state=0)
    bars[name] = [
        errors(found[name], X, y),
        errors(usual, X, y),
        errors(SVC(C=10), X.reshape(len(X), -1), y),
    ]
    sizes = {kind: round(size, 2) for kind, size in found[name].deformations_.items()}
    print(f"{name}: {sizes}")

kinds = ["sizes chosen", "sizes of handwriting", "SVC on pixels"]
figure, ax = plt.subplots(figsize=(7, 2.8), layout="constrained")
for shift, (name, heights) in zip((-0.2, 0.2), bars.items(), strict=True):
    drawn = ax.bar(np.arange(3) + shift, heights, 0.38, label=name)
    ax.bar_label(drawn, fmt="%.1f")
ax.set_xticks(range(3), kinds)
ax.set(ylabel="errors in %")
ax.margins(y=0.15)
ax.legend()
plt.show()

# %%
# Copies
# ------
# The classifier learns from images and copies: here an image of each kind, and copies
# of it under the chosen deformations. Those of the needle keep its reading.

figure, axes = plt.subplots(2, 8, figsize=(9, 2.6), layout="constrained")
for row, (name, (X, _)) in zip(axes, data.items(), strict=True):
    copies = found[name].deform(X[:1], 7, random_state=0)
    for panel, image in zip(row, [X[0], *copies], strict=True):
        panel.imshow(image, cmap="gray_r")
        panel.set(xticks=[], yticks=[])
    row[0].set_title(name, fontsize="small")
axes[0, 1].set_title("copies", fontsize="small")
plt.show()
