"""
Outliers in rows with holes
===========================

A row must not look more normal, or more odd, only because values are missing. The
detector scores the observed values, and missing values contribute their expected score.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

from sktem import MixtureOutlierDetector

data = load_breast_cancer()
benign, malignant = data.data[data.target == 1], data.data[data.target == 0]
rng = np.random.default_rng(0)
X = np.vstack([benign, malignant[:40]])
is_odd = np.arange(len(X)) >= len(benign)

# %%
# Half of the rows lose a share of their values. The threshold is the default, "auto".

shares, areas, flagged = [0.0, 0.2, 0.4, 0.6], [], []
losing = rng.random(len(X)) < 0.5
for share in shares:
    lost = (rng.random(X.shape) < share) & losing[:, None]
    holes = np.where(lost, np.nan, X)
    detector = MixtureOutlierDetector(random_state=0).fit(holes)
    areas.append(roc_auc_score(is_odd, -detector.score_samples(holes)))
    odd = detector.predict(holes) == -1
    flagged.append([odd[~is_odd & ~losing].mean(), odd[~is_odd & losing].mean()])

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
left.plot(shares, areas, "o-")
left.set(xlabel="share missing in every other row", title="Area under the ROC curve")
left.set_ylim(0.5, 1)
right.plot(shares, np.array(flagged), "o-", label=["complete rows", "rows with holes"])
right.set(
    xlabel="share missing in every other row", title="Benign rows that are flagged"
)
right.set_ylim(0, 0.1)
right.legend()
plt.show()
