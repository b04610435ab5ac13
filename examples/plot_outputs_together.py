"""
Two outputs with a common cause
===============================

The outputs are the length and the width of an iris petal, given its sepal. Apart from
the sepal, they are linked by the species, which is not given. The hidden units of
:class:`~sktem.BoltzmannMachineRegressor` are shared by all outputs and find it. A
linear regression of both outputs with a full covariance of its errors learns that they
are correlated, but not that there are species.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split

from sktem import BoltzmannMachineRegressor

rows, species = load_iris(return_X_y=True)
X, X_test, y, y_test, _, kinds = train_test_split(
    rows[:, :2], rows[:, 2:], species, test_size=0.4, random_state=0, stratify=species
)

machine = BoltzmannMachineRegressor(n_hidden=2, random_state=0).fit(X, y)
line = LinearRegression().fit(X, y)
errors = multivariate_normal(cov=np.cov((y - line.predict(X)).T))
print(f"linear, new row: {errors.logpdf(y_test - line.predict(X_test)).mean():.2f}")
print(f"machine, new row: {machine.log_likelihood(X_test, y_test) / len(X_test):.2f}")

# %%
# Petals drawn given the sepals of the test rows form groups, as the real ones do. Those
# of the linear regression fill the space between.
drawn = {
    "test rows": y_test,
    "machine, draws": machine.sample(X_test),
    "linear, draws": line.predict(X_test) + errors.rvs(len(X_test), random_state=0),
}
fig, axes = plt.subplots(1, 3, figsize=(9, 3.2), sharex=True, sharey=True)
for ax, (name, values) in zip(axes, drawn.items(), strict=True):
    ax.scatter(*values.T, c=kinds if name == "test rows" else "0.4", s=14)
    ax.set(title=name, xlabel="petal length / cm")
axes[0].set_ylabel("petal width / cm")
fig.tight_layout()
plt.show()
