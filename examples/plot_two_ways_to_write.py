"""
Two ways to write a digit
=========================

Some people cross their sevens. One template cannot explain both kinds by moving pixels,
because the bar is either there or not. A mixture of two templates finds the kinds
without labels, and says to which of them each image belongs.
"""

# %%
# Sevens
# ------
# The images are scikit-learn's digits, enlarged from 8 x 8 to 16 x 16 pixels.

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import zoom
from sklearn.datasets import load_digits

from sktem import DeformableTemplateEstimator

images, labels = load_digits(return_X_y=True)
sevens = np.pad(images.reshape(-1, 8, 8)[labels == 7], ((0, 0), (1, 1), (1, 1)))
sevens = zoom(sevens, (1, 1.6, 1.6), grid_mode=True, mode="grid-constant").clip(0, 16)
sevens = sevens[:100]

# %%
# One template, two templates
# ---------------------------
# Deformations with four by four landmarks are smooth, so that they cannot create or
# hide a bar. The single template has to try, and warns that some of its deformations
# fold.

settings = {"deformation_landmarks": 4, "solver": "isaem", "max_iter": 25}
one = DeformableTemplateEstimator(random_state=0, **settings).fit(sevens)
two = DeformableTemplateEstimator(n_components=2, random_state=0, **settings)
two.fit(sevens)
kind = two.predict(sevens)
print("shares of the two kinds:", two.weights_.round(2))
for name, estimator in (("one template", one), ("two templates", two)):
    print(f"noise with {name}: {np.sqrt(estimator.noise_variances_).round(2)}")

# %%
# Below each template are images that were assigned to it.

figure, axes = plt.subplots(2, 9, figsize=(9, 2.4), layout="constrained")
for number, line in enumerate(axes):
    shown = [two.templates_[number], *sevens[kind == number][:8]]
    for ax, image in zip(line, shown, strict=False):
        ax.imshow(image, cmap="gray_r", vmin=0, vmax=16)
    for ax in line:
        ax.set(xticks=[], yticks=[])
    line[0].set_ylabel(f"kind {number + 1}")
    for side in line[0].spines.values():
        side.set(color="C3", linewidth=2)
axes[0, 0].set_title("template", color="C3")
axes[0, 4].set_title("images assigned to it")
plt.show()
