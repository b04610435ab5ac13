"""
Predictions from what happens to be known
=========================================

Some measurements of some patients are missing, in training and later. A mixture of
inputs and outputs needs neither imputation nor a model for each pattern of missing
values: inputs that are NaN are integrated out, and standard deviations grow as less is
known.
"""

# %%
# Two outputs are predicted from eight measurements of diabetes patients, of which 20
# percent are missing in the training rows.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

from sktem import GaussianMixtureRegressor

X, progression = load_diabetes(return_X_y=True, scaled=False)
Y = np.column_stack([progression, X[:, 9]])  # progression and blood sugar
X = X[:, :9]
rng = np.random.default_rng(0)
order = rng.permutation(len(X))
train, test = order[:300], order[300:]
holes = np.where(rng.random(X.shape) < 0.2, np.nan, X)

regressor = GaussianMixtureRegressor(2, random_state=0).fit(holes[train], Y[train])

# %%
# The fewer inputs are known, the wider the predicted distribution; with none, it is the
# marginal distribution of the outputs.

informative = np.argsort(-np.abs(np.corrcoef(X.T, progression)[-1, :-1]))
known, errors, widths, covered = range(10), [], [], []
for count in known:
    part = np.full_like(X[test], np.nan)
    part[:, informative[:count]] = X[test][:, informative[:count]]
    error = Y[test, 0] - regressor.predict(part)[:, 0]
    low, high = regressor.predict_quantiles(part, [0.05, 0.95])[:, 0].T
    errors.append(np.sqrt(np.mean(error**2)))
    widths.append(regressor.predict_std(part)[:, 0].mean())
    covered.append(np.mean((Y[test, 0] >= low) & (Y[test, 0] <= high)))
print("coverage of 90 % intervals:", np.round(covered, 2))

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(known, errors, "o-", label="root mean squared error")
ax.plot(known, widths, "s--", label="mean predicted standard deviation")
ax.set(xlabel="inputs that are known", ylabel="progression", ylim=(0, None))
ax.legend()
plt.show()

# %%
# The predicted standard deviations are close to the errors, without a second data set
# for calibration. With many inputs they are a little too small, since there were only
# 300 training rows.
