"""
Classification from a few images
================================

Five images of each digit are too few for a classifier that has to learn from them what
a shift or a slant is. A kernel machine can learn this from deformed copies of the
images. A model with a deformable template per class knows that images deform, and has
to learn only how (Allassonnière, Amit and Trouvé 2007). By Bayes' rule, it predicts the
class under whose template the image is most likely.
"""

# %%
# The data
# --------
# scikit-learn's digits are enlarged from 8 x 8 to 16 x 16 pixels. The first 5 or 20
# images of each class are for training, and 300 others for testing.

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import zoom
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from sktem import DeformableTemplateClassifier, DeformedCopiesClassifier
from sktem.plotting import TemplateDisplay

images, labels = load_digits(return_X_y=True)
images = np.pad(images.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
images = zoom(images, (1, 1.6, 1.6), grid_mode=True, mode="grid-constant").clip(0, 16)
order = np.random.default_rng(0).permutation(len(labels))
X, y = images[order].reshape(len(order), -1), labels[order]
X_test, y_test = X[-300:], y[-300:]


def first_of_each_class(n):
    rows = [np.flatnonzero(y[:-300] == digit)[:n] for digit in range(10)]
    return np.concatenate(rows)


# %%
# Five classifiers
# ----------------
# ``DeformedCopiesClassifier`` has fewer copies than by default, to be faster. The
# templates have three by three landmarks, each of which moves the pixels within about
# five pixels. They let a digit shift, slant, stretch and bend, more smoothly than by
# default. Their probabilities would be calibrated by cross-validation; this is skipped
# here, since the predicted classes are the same at any temperature. Naive Bayes gets a
# floor for its variances, since a pixel may be constant in five images.


def classifiers():
    smooth = {"deformation_landmarks": 3, "deformation_width": 5.0}
    yield "deformed copies", DeformedCopiesClassifier(max_rows=1000, random_state=0)
    yield (
        "template likelihood",
        DeformableTemplateClassifier(
            **smooth, max_iter=10, temperature=1.0, random_state=0
        ),
    )
    yield "1-nearest neighbour", KNeighborsClassifier(1)
    yield "SVC (rbf)", SVC()
    yield "Gaussian naive Bayes", GaussianNB(var_smoothing=0.01)


numbers, errors, predicted, fitted = (5, 20), {}, {}, {}
for n in numbers:
    train = first_of_each_class(n)
    for name, classifier in classifiers():
        fitted[name, n] = classifier.fit(X[train], y[train])
        predicted[name, n] = classifier.predict(X_test)
        errors[name, n] = 100 * np.mean(predicted[name, n] != y_test)

names = [name for name, _ in classifiers()]
print("errors in %             5 a class   20 a class")
for name in names:
    print(f"{name:22s} {errors[name, 5]:10.1f} {errors[name, 20]:12.1f}")

figure, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
places = np.arange(len(names))
for shift, n in zip((-0.2, 0.2), numbers, strict=True):
    heights = [errors[name, n] for name in names]
    bars = ax.bar(places + shift, heights, 0.38, label=f"{n} images a class")
    ax.bar_label(bars, fmt="%.1f")
ax.set_xticks(places, [name.replace(" ", "\n", 1) for name in names])
ax.set(ylabel="% of 300 images", title="errors: fewer is better")
ax.margins(y=0.12)
ax.legend()
plt.show()

# %%
# With 300 test images, an error of 10 % has a standard error of 1.7 %, and the choice
# of the training images adds to it; but all classifiers use the same images.
#
# The learned templates
# ---------------------
# The templates learned from five images of each class, above the means of the same
# images.

few = fitted["template likelihood", 5]
train = first_of_each_class(5)

figure, axes = plt.subplots(2, 10, figsize=(10, 2.5), layout="constrained")
TemplateDisplay.from_estimator(few, cmap="gray_r", ax=axes[0])
for digit, panel in enumerate(axes[1]):
    mean = X[train][y[train] == digit].mean(axis=0)
    panel.imshow(mean.reshape(16, 16), cmap="gray_r")
    panel.set(xticks=[], yticks=[])
axes[0, 0].set_ylabel("template")
axes[1, 0].set_ylabel("mean")
plt.show()

# %%
# Mistakes
# --------
# Some of the test images that the templates misclassify, and the deformed template of
# the predicted class, which imitates them.

wrong = np.flatnonzero(predicted["template likelihood", 5] != y_test)[:8]
display = TemplateDisplay.from_estimator(few, X_test[wrong], cmap="gray_r")
for panel, digit in zip(display.axes_[0], y_test[wrong], strict=True):
    panel.set_title(f"{digit}, taken for {panel.get_title()}", fontsize="x-small")
plt.show()
# sphinx_gallery_thumbnail_path = "images/card_templates.png"
