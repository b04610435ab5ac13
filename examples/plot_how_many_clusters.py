"""
How many clusters? Let the mixture look
=======================================

With ``n_components="auto"`` a mixture begins with one component, and splits and merges
components as long as a criterion falls. A display draws the result, with an ellipse for
each component and pair of columns. Rows may have holes.
"""

# %%
# Clusters of three columns
# -------------------------
# There are five clusters of different sizes and shapes; a tenth of the values is
# missing.

import matplotlib.pyplot as plt
import numpy as np

from sktem import StochasticEMGaussianMixture
from sktem.plotting import ComponentDisplay

rng = np.random.default_rng(3)
places = rng.uniform(-9, 9, size=(5, 3))
shapes = rng.normal(size=(5, 3, 3)) * 0.9
labels = rng.choice(5, size=1500, p=[0.35, 0.25, 0.2, 0.15, 0.05])
X = places[labels] + np.einsum("nij,nj->ni", shapes[labels], rng.normal(size=(1500, 3)))
X[rng.random(X.shape) < 0.1] = np.nan

# %%
# The search
# ----------
# ``component_search_`` lists the mixtures fitted during the search. BIC falls steeply
# while a component still covers two clusters, and rises by the price of the parameters
# after that.

mixture = StochasticEMGaussianMixture("auto", random_state=0).fit(X)
print(mixture.n_components_)
for step in mixture.component_search_:
    print(f"{step.move:6} {step.n_components} {step.criterion:10.1f}")

# %%
# What it found
# -------------
# Ellipses are at two standard deviations; the thicker the line, the larger the cluster.

display = ComponentDisplay.from_estimator(mixture, X)
plt.show()
