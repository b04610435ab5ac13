"""
Filling a table: a mixture beside other imputers
================================================

Cells of a real table are removed and imputed: by the mean of a column, by neighbours,
by iterated regressions, and by a mixture, which also says how large its errors may be.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.preprocessing import StandardScaler

from sktem import MixtureImputer

X = StandardScaler().fit_transform(load_breast_cancer().data[:, :10])
rng = np.random.default_rng(0)
methods = {
    "column mean": SimpleImputer(),
    "k neighbours": KNNImputer(),
    "regressions in turn": IterativeImputer(random_state=0),
    "mixture": MixtureImputer(random_state=0),
}
rates, errors = [0.1, 0.2, 0.3, 0.4, 0.5], {name: [] for name in methods}
for rate in rates:
    lost = rng.random(X.shape) < rate
    lost[lost.all(axis=1), 0] = False
    holes = np.where(lost, np.nan, X)
    for name, imputer in methods.items():
        error = (imputer.fit_transform(holes) - X)[lost]
        errors[name].append(np.sqrt(np.mean(error**2)))

# %%
# The error of a cell against the spread of twenty draws of it: the mixture knows which
# cells are uncertain.

imputer = MixtureImputer(n_draws=20, random_state=0).fit(holes)
spread = np.std([draw[lost] for draw in imputer.draws(holes)], axis=0)
error = np.abs(imputer.transform(holes) - X)[lost]
groups = np.array_split(np.argsort(spread), 10)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for name, values in errors.items():
    left.plot(rates, values, "o-", label=name)
left.set(xlabel="share of cells missing", ylabel="error in standard deviations")
left.legend()
right.plot(
    [spread[group].mean() for group in groups],
    [np.sqrt(np.mean(error[group] ** 2)) for group in groups],
    "o-",
)
right.axline((0, 0), slope=1, color="k", lw=0.8)
right.set(xlabel="spread of the draws", ylabel="error of the means, by tenths of cells")
plt.show()
