"""
Fewer samples than features
===========================

The classifier with automatic relevance determination is compared with l1-penalised
logistic regression, on 60 samples with 200 features, of which four matter.
"""

# %%
# Errors on new data, and features kept
# -------------------------------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from sktem import ARDLogisticClassifier

rng = np.random.default_rng(0)
beta = np.zeros(200)
beta[:4] = [3.0, -3.0, 2.0, 2.0]
X = rng.normal(size=(1060, 200))
y = rng.random(1060) < 1 / (1 + np.exp(-X @ beta))

penalties = np.geomspace(0.05, 5, 8)
errors, kept = [], []
for C in penalties:
    l1 = LogisticRegression(l1_ratio=1, solver="liblinear", C=C)
    l1.fit(X[:60], y[:60])
    errors.append(1 - l1.score(X[60:], y[60:]))
    kept.append(np.count_nonzero(l1.coef_))

# %%
# Relevance determination keeps few features, and there is no penalty strength to
# choose. It makes more errors than the best strength, which is not known beforehand,
# and fewer than weak penalties. A warning says that 60 rows are too few to show which
# of 200 features matter: if a fifth of them is left out, other coefficients are found.

ard = ARDLogisticClassifier(random_state=0).fit(X[:60], y[:60])

figure, ax = plt.subplots()
ax.plot(kept, errors, "o-", label="l1 penalty, several strengths")
ax.plot(ard.support_.sum(), 1 - ard.score(X[60:], y[60:]), "s", label="relevance")
ax.set(xlabel="features kept", ylabel="error on 1000 new rows")
ax.legend()

# %%
plt.show()
