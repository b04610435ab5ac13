"""
Classes behind the answers of a survey
======================================

A latent class is a group of people who answer alike. A mixture with categorical columns
finds the classes, even if answers are missing. A test shows how many there are, and
profiles describe them.
"""

# %%
# A survey
# --------
# There are three kinds of travellers, five questions, and their age; a tenth of the
# values is missing.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sktem import StochasticEMMixture
from sktem.plotting import ClassProfileDisplay

rng = np.random.default_rng(0)
kind = rng.choice(3, size=800, p=[0.5, 0.3, 0.2])
table = pd.DataFrame(
    {
        "travels by": [
            rng.choice(["car", "train", "bike"], p=p)
            for p in np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]])[kind]
        ],
        "owns a car": rng.random(800) < np.array([0.95, 0.5, 0.1])[kind],
        "lives in a city": rng.random(800) < np.array([0.2, 0.6, 0.9])[kind],
        "works at home": rng.random(800) < np.array([0.2, 0.5, 0.3])[kind],
        "has children": rng.random(800) < np.array([0.6, 0.4, 0.1])[kind],
        "age": rng.normal(np.array([48.0, 40.0, 27.0])[kind], 6.0).round(),
    }
)
table = table.astype(object).mask(rng.random(table.shape) < 0.1)
table["age"] = table["age"].astype(float)

# %%
# How many classes
# ----------------
# BIC finds the number. Whether one class fewer would be enough is answered by a
# bootstrap test, whose null distribution comes from samples of the smaller mixture.

mixture = StochasticEMMixture("auto", random_state=0).fit(table)
test = mixture.likelihood_ratio_test(table, n_bootstrap=9)
print(mixture.n_components_, round(test.statistic), test.p_value)

# %%
# How certain is the classification? The first number is 1 for certainty. The table has
# the mean probabilities of the rows assigned to each class.

print(round(mixture.entropy_r2(table), 2))
print(mixture.classification_table(table).round(2))

# %%
# Who they are
# ------------

display = ClassProfileDisplay.from_estimator(mixture)
plt.show()
