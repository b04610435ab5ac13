"""
Counts, categories and amounts together
=======================================

Customers have a number of visits, a channel, and an amount. Each column has its own
distribution in each component. With ``emission="auto"`` labels are categorical and
integers are counts; ``Columns`` specifies all emissions explicitly.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

from sktem import StochasticEMMixture
from sktem.emissions import Categorical, Columns, Gamma, NegativeBinomial

rng = np.random.default_rng(0)
kind = rng.choice(3, p=[0.6, 0.3, 0.1], size=2000)
table = pd.DataFrame(
    {
        "visits": rng.negative_binomial(2, 2 / (2 + np.array([2.0, 9, 25])[kind])),
        "channel": np.where(
            rng.random(2000) < np.array([0.8, 0.3, 0.5])[kind], "shop", "online"
        ),
        "amount": rng.gamma(np.array([2.0, 3, 6])[kind], np.array([10.0, 9, 30])[kind]),
    }
)
table = table.mask(rng.random(table.shape) < 0.1)
print(table.head())

# %%
# Amounts are positive and skewed: a gamma distribution is appropriate, a Gaussian one
# is not, and BIC shows it.

emission = Columns(
    [
        ("visits", NegativeBinomial(), ["visits"]),
        ("channel", Categorical(), ["channel"]),
        ("amount", Gamma(), ["amount"]),
    ]
)
gamma = StochasticEMMixture(3, emission=emission, n_init=5, random_state=0).fit(table)
gaussian = StochasticEMMixture(3, emission="gaussian", n_init=5, random_state=0)
gaussian.fit(table)
print(f"BIC with gamma amounts and counts {gamma.bic(table):.0f}, ", end="")
print(f"with Gaussian numbers {gaussian.bic(table):.0f}")
for name, mixture in (("own emissions", gamma), ("Gaussian numbers", gaussian)):
    agreement = adjusted_rand_score(kind, mixture.predict(table))
    print(f"{name}: agreement with the kinds {agreement:.2f}")
print(gamma.class_profiles().round(2))

# %%
# Given the other columns, the distribution of the amount is again a mixture.

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
amounts = np.linspace(1, 300, 300)
for visits, channel in ((1, "shop"), (10, "online"), (40, "shop")):
    given = gamma.condition(["visits", "channel"], [visits, channel])
    density = np.exp(given.score_samples(pd.DataFrame({"amount": amounts})))
    ax.plot(amounts, density, label=f"{visits} visits, {channel}")
ax.set(xlabel="amount", title="Density of the amount given the others")
ax.legend()
plt.show()
