"""
The template of a handwritten digit
===================================

The mean of forty handwritten fives is a blur: the strokes of one person miss those of
another. A deformable template is a single image from which all of them result by smooth
displacements of the pixels; the distribution of these displacements is learned, too
(Allassonnière, Amit and Trouvé 2007).
"""

# %%
# The data
# --------
# scikit-learn's digits have 8 x 8 pixels. They are enlarged to 16 x 16, because strokes
# of one pixel cannot be displaced by fractions of it; the border of one pixel leaves
# them room to move.

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import zoom
from sklearn.datasets import load_digits

from sktem import DeformableTemplateEstimator
from sktem.plotting import HistoryDisplay, TemplateDisplay

images, labels = load_digits(return_X_y=True)
fives = np.pad(images.reshape(-1, 8, 8)[labels == 5], ((0, 0), (1, 1), (1, 1)))
fives = zoom(fives, (1, 1.6, 1.6), grid_mode=True, mode="grid-constant").clip(0, 16)
train, new = fives[:40], fives[40:48]

# %%
# Template and mean
# -----------------
# Images are given with their axes, as here, or as rows together with ``image_shape``.

estimator = DeformableTemplateEstimator(deformation_landmarks=5, random_state=0)
estimator.fit(train)

figure, axes = plt.subplots(1, 6, figsize=(10, 2), layout="constrained")
shown = [*train[:4], train.mean(axis=0), estimator.templates_[0]]
titles = ["image"] * 4 + ["mean of 40", "template"]
for panel, image, title in zip(axes, shown, titles, strict=True):
    panel.imshow(image, cmap="gray_r", vmin=0, vmax=16)
    panel.set(xticks=[], yticks=[], title=title)
plt.show()


def sharpness(image):
    return np.hypot(*np.gradient(image)).mean()


print(f"sharpness of the images {np.mean([sharpness(x) for x in train]):.2f}")
print(f"          of the mean   {sharpness(train.mean(axis=0)):.2f}")
print(f"          of the template {sharpness(estimator.templates_[0]):.2f}")

# %%
# The run
# -------
# The record of the run shows the step of the stochastic approximation, which is 1 for
# half of the passes, while the template is found, and then decreases. It also shows the
# acceptance rate of the Langevin chains that draw the deformations.

HistoryDisplay.from_estimator(estimator)
plt.show()

# %%
# How fives differ
# ----------------
# The principal components of the displacements, by two standard deviations in both
# directions, with their shares of the variance. The lattice is square on the template
# and is warped along with it.

display = TemplateDisplay.from_estimator(estimator, kind="modes", cmap="gray_r")
plt.show()

# %%
# Samples
# -------
# The model can draw images, here without the noise. Whether they look like fives says
# more about a model than its likelihood.

display.plot("samples", cmap="gray_r")
plt.show()

# %%
# New images
# ----------
# A new image is explained by its most probable deformation. Features that the template
# does not have, such as a closed loop, and differences in the darkness of the ink
# remain as residuals: the model moves pixels but does not change their values.

TemplateDisplay.from_estimator(estimator, new, cmap="gray_r")
plt.show()

# %%
# ``register`` warps images back to the template, and ``inverse_transform`` goes the
# other way. Pixels that are NaN are missing; the deformation that explains the others
# predicts them.

hidden = new.copy()
hidden[:, 8:13, 4:13] = np.nan
completed = estimator.inverse_transform(estimator.modes_of(hidden))

rows = {
    "new": new,
    "registered": estimator.register(new),
    "hidden": hidden,
    "completed": np.where(np.isnan(hidden), completed.reshape(new.shape), hidden),
}
figure, axes = plt.subplots(4, 8, figsize=(9, 4.8), layout="constrained")
for row, (name, content) in zip(axes, rows.items(), strict=True):
    row[0].set_ylabel(name)
    for panel, image in zip(row, content.reshape(-1, 16, 16), strict=True):
        panel.imshow(image, cmap="gray_r", vmin=0, vmax=16)
        panel.set(xticks=[], yticks=[], facecolor="tab:blue")
plt.show()
# sphinx_gallery_thumbnail_number = 3
