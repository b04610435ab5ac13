"""
How many components?
====================

The likelihood always prefers more components. Three criteria do not: BIC, which
estimates how many Gaussians describe the density; ICL, which also requires them to be
separated; and the score on held-out rows, which works with all of scikit-learn's tools
for model selection, such as a grid search over a pipeline.
"""

# %%
# The data
# --------
# There are two clusters, one of which is not Gaussian: it consists of a narrow and a
# wide Gaussian with the same centre. Three components describe the density, and two of
# them are separated.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktem import StochasticEMGaussianMixture

rng = np.random.default_rng(0)
narrow = rng.normal(0, 0.6, (1_000, 2))
wide = rng.normal(0, 2.0, (1_000, 2))
other = rng.normal([9, 0], [1.0, 1.5], (1_000, 2))
X = rng.permutation(np.vstack([narrow, wide, other]))

# %%
# BIC and ICL
# -----------
# Both are methods of the fitted mixture, and lower is better. ICL is BIC plus twice the
# entropy of the posterior probabilities (Biernacki, Celeux and Govaert 2000), which is
# large where components overlap.

numbers = range(1, 5)
mixtures = [
    StochasticEMGaussianMixture(n, n_init=3, tol=1e-5, random_state=0).fit(X)
    for n in numbers
]
bic = np.array([mixture.bic(X) for mixture in mixtures])
icl = np.array([mixture.icl(X) for mixture in mixtures])
print("components          BIC          ICL")
for n, one_bic, one_icl in zip(numbers, bic, icl, strict=True):
    print(f"{n:10d}   {one_bic:10.0f}   {one_icl:10.0f}")

# %%
# Held-out rows, in a pipeline
# ----------------------------
# ``score`` is the mean log-likelihood per row, so that cross-validation works as it is.
# Here it chooses the number of components and the covariance type together.

search = GridSearchCV(
    make_pipeline(
        StandardScaler(), StochasticEMGaussianMixture(tol=1e-4, random_state=0)
    ),
    {
        "stochasticemgaussianmixture__n_components": list(numbers),
        "stochasticemgaussianmixture__covariance_type": ["full", "spherical"],
    },
    cv=3,
).fit(X)
print(search.best_params_)

# %%
# Any other criterion is a function of the fitted pipeline and the rows. A criterion
# computed on the rows of the fit needs, in place of cross-validation, a single split in
# which both parts contain all rows.


def minus_icl(pipeline, X, y=None):
    return -pipeline[-1].icl(pipeline[:-1].transform(X))


every_row = np.arange(len(X))
by_icl = GridSearchCV(
    search.estimator, search.param_grid, scoring=minus_icl, cv=[(every_row, every_row)]
).fit(X)
print(by_icl.best_params_)

# %%
# The choice
# ----------

figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
axes[0].plot(numbers, bic, "o-", label="BIC")
axes[0].plot(numbers, icl, "o-", label="ICL")
axes[0].set(xlabel="components", title="lower is better")
axes[0].legend()

chosen = {"BIC": mixtures[bic.argmin()], "ICL": mixtures[icl.argmin()]}
for ax, (name, mixture) in zip(axes[1:], chosen.items(), strict=True):
    ax.scatter(*X.T, c=mixture.predict(X), s=3, alpha=0.4, cmap="tab10", vmin=0, vmax=9)
    for mean, covariance in zip(mixture.means_, mixture.covariances_, strict=True):
        values, vectors = np.linalg.eigh(covariance)
        angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
        width, height = 4 * np.sqrt(values[::-1])  # two standard deviations
        ax.add_patch(Ellipse(mean, width, height, angle=angle, fill=False, linewidth=2))
    ax.set(title=f"{name}: {mixture.n_components} components", aspect="equal")
plt.show()
# sphinx_gallery_thumbnail_path = "images/card_mixture.png"
