"""
Classes of images that are half hidden
======================================

A deformable template is a distribution of all pixels, so that an image with missing
parts can be explained by the rest, without filling anything in. Here digits are
recognised with some of the pixels unknown (NaN), the probabilities say how much doubt
there is, and the template shows what may be hidden.
"""

# %%
# Digits and a curtain
# --------------------
# scikit-learn's digits are enlarged from 8 x 8 to 16 x 16 pixels. Ten images of each
# class, all complete, are for training. In each of 150 test images, a curtain hides
# more and more rows from below.

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import zoom
from sklearn.datasets import load_digits
from sklearn.impute import KNNImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

from sktem import DeformableTemplateClassifier
from sktem.plotting import TemplateDisplay

images, labels = load_digits(return_X_y=True)
images = np.pad(images.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
images = zoom(images, (1, 1.6, 1.6), grid_mode=True, mode="grid-constant").clip(0, 16)
order = np.random.default_rng(0).permutation(len(labels))
X, y = images[order], labels[order]
X_test, y_test = X[-150:], y[-150:]
train = np.concatenate([np.flatnonzero(y[:-150] == digit)[:10] for digit in range(10)])


def behind_a_curtain(images, n_rows):
    hidden = images.copy()
    hidden[:, 16 - n_rows :] = np.nan
    return hidden


# %%
# Probabilities
# -------------
# ``temperature="auto"`` divides the log-likelihoods by a number found by
# cross-validation, because the errors of neighbouring pixels are not independent. It is
# compared with a logistic regression, with a penalty chosen by cross-validation. This
# needs the pixels to be filled in first, here from the five nearest training images.

classifier = DeformableTemplateClassifier(
    deformation_landmarks=3,
    deformation_width=5.0,
    max_iter=10,
    random_state=0,
).fit(X[train], y[train])
logistic = make_pipeline(KNNImputer(), LogisticRegression(C=0.1, max_iter=2000))
logistic.fit(X[train].reshape(100, -1), y[train])

hidden_rows = (0, 3, 6, 9)
probabilities = {"deformable template": [], "imputed, logistic": []}
for n_rows in hidden_rows:
    part = behind_a_curtain(X_test, n_rows)
    probabilities["deformable template"].append(classifier.predict_proba(part))
    probabilities["imputed, logistic"].append(
        logistic.predict_proba(part.reshape(150, -1))
    )

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
for name, found in probabilities.items():
    errors = [100 * np.mean(p.argmax(axis=1) != y_test) for p in found]
    losses = [log_loss(y_test, p) for p in found]
    print(f"{name:20s} % errors {np.round(errors, 1)}, log-loss {np.round(losses, 2)}")
    left.plot(hidden_rows, errors, "o-", label=name)
    right.plot(hidden_rows, losses, "o-", label=name)
left.set(xlabel="hidden rows of 16", ylabel="% of 150 images", title="errors")
right.set(xlabel="hidden rows of 16", title="log-loss")
left.legend()
plt.show()

# %%
# With 150 images, an error of 10 % has a standard error of 2.4 %, but both classifiers
# saw the same images. The template makes fewer errors, above all with six hidden rows;
# log-losses are similar.
#
# Which images are in doubt?
# --------------------------
# These are the six images with the largest entropy of the probabilities when six rows
# are hidden: the image with the predicted class, the deformed template of that class,
# and the probabilities, with that of the true class in green. The lattice continues
# behind the curtain: hidden pixels move along with visible ones, because deformations
# are smooth.

part = behind_a_curtain(X_test, 6)
doubt = probabilities["deformable template"][hidden_rows.index(6)]
entropy = -(doubt * np.log(np.maximum(doubt, 1e-300))).sum(axis=1)
unclear = np.argsort(-entropy)[:6]

figure = plt.figure(figsize=(9, 6.5), layout="constrained")
upper, lower = figure.subfigures(2, 1, height_ratios=(3.2, 1))
TemplateDisplay.from_estimator(
    classifier, part[unclear], cmap="gray_r", ax=upper.subplots(3, 6)
)
for panel, row in zip(lower.subplots(1, 6, sharey=True), unclear, strict=True):
    colours = ["tab:green" if digit == y_test[row] else "0.6" for digit in range(10)]
    panel.bar(range(10), doubt[row], color=colours)
    panel.set(xticks=range(10), xlabel=f"a {y_test[row]}")
    panel.tick_params(labelsize="x-small")
lower.axes[0].set_ylabel("probability")
plt.show()

# %%
# Are the probabilities honest?
# -----------------------------
# Among images whose largest probability lies between two bounds, how many are
# classified correctly? Where a point lies above the line, the classifier is more
# cautious than necessary. The template classifier is somewhat too cautious: its
# temperature comes from models of two thirds of the images, which are less certain than
# the final ones. The logistic regression treats filled-in pixels as observed and is too
# certain.

bounds = np.array([0.0, 0.5, 0.7, 0.9, 0.97, 1.0])
figure, ax = plt.subplots(figsize=(4.5, 3.5), layout="constrained")
ax.plot([0, 1], [0, 1], color="0.6")
for name, found in probabilities.items():
    sure = np.concatenate([p.max(axis=1) for p in found])
    right = np.concatenate([p.argmax(axis=1) == y_test for p in found])
    numbers = np.digitize(sure, bounds[1:-1])
    filled = [b for b in range(len(bounds) - 1) if (numbers == b).sum() >= 10]
    ax.plot(
        [sure[numbers == b].mean() for b in filled],
        [right[numbers == b].mean() for b in filled],
        "o-",
        label=name,
    )
ax.set(xlabel="mean of the largest probability", ylabel="share classified well")
ax.legend()
plt.show()
