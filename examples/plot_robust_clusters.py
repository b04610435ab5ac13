"""
Robust clusters by Student-t components
=======================================

A few distant rows pull the means of Gaussian components and widen their covariances, or
get a component of their own. Student-t components give distant rows less weight, and
learn how heavy the tails are.
"""

# %%
# There are three clusters, and five percent of the rows lie anywhere.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse
from sklearn.metrics import adjusted_rand_score

from sktem import StochasticEMMixture

rng = np.random.default_rng(1)
centres = np.array([[0.0, 0.0], [4.0, 0.0], [2.0, 3.0]])
label = rng.integers(3, size=570)
clean = centres[label] + rng.normal(size=(570, 2)) * 0.6
X = np.vstack([clean, rng.uniform(-12, 16, size=(30, 2))])

figure, axes = plt.subplots(
    1, 2, figsize=(9, 4), layout="constrained", sharex=True, sharey=True
)
for ax, emission in zip(axes, ["gaussian", "student_t"], strict=True):
    mixture = StochasticEMMixture(3, emission=emission, n_init=5, random_state=0)
    found = mixture.fit_predict(X)
    agreement = adjusted_rand_score(label, found[:570])
    print(f"{emission}: agreement with the clusters {agreement:.2f}")
    ax.scatter(*X.T, s=4, c=found, cmap="brg")
    for k in range(3):
        values, vectors = np.linalg.eigh(mixture.params_.covariances[k])
        angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
        size = 4 * np.sqrt(values)
        ax.add_patch(
            Ellipse(mixture.params_.means[k], size[1], size[0], angle=angle, fill=False)
        )
    ax.set(title=f"{emission}: agreement {agreement:.2f}", xlim=(-8, 12), ylim=(-8, 12))
plt.show()

# %%
# Few learned degrees of freedom mean heavy tails. Rows that are far from all components
# have a low density and can be recognised by ``score_samples``.

print("degrees of freedom", mixture.params_.degrees_of_freedom.round(1))
lowest = mixture.score_samples(X).argsort()[:20]
print(f"of the 20 least dense rows {np.mean(lowest >= 570):.0%} are strays")
