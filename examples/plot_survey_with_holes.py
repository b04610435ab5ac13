"""
A survey with holes: latent classes
===================================

Answers to a survey are labels, and people skip questions. Which kinds of respondents
are there? Latent class analysis answers this by a mixture with categorical columns. A
data frame can be passed as it is.
"""

# %%
# Three kinds of respondents answer six questions about media and politics, each with
# its own probabilities; a fifth of the answers is missing.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sktem import StochasticEMMixture

rng = np.random.default_rng(0)
questions = {
    "news from": ["paper", "television", "online"],
    "reads daily": ["no", "yes"],
    "trusts news": ["no", "somewhat", "yes"],
    "voted": ["no", "yes"],
    "discusses politics": ["never", "sometimes", "often"],
    "age": ["18-34", "35-59", "60+"],
}
kind = rng.choice(3, p=[0.5, 0.3, 0.2], size=1500)
answers = {}
for question, labels in questions.items():
    rates = rng.dirichlet(np.full(len(labels), 0.7), size=3).cumsum(axis=1)
    code = (rng.random((1500, 1)) > rates[kind]).sum(axis=1)
    answers[question] = np.array(labels, dtype=object)[code.clip(0, len(labels) - 1)]
survey = pd.DataFrame(answers).mask(rng.random((1500, 6)) < 0.2)
print(survey.head())

# %%
# The number of classes is chosen by BIC of the observed answers. ``entropy_r2`` is
# close to 1 if respondents clearly belong to their class.

fits = {
    n: StochasticEMMixture(n, n_init=5, random_state=0).fit(survey) for n in range(1, 6)
}
bic = {n: fit.bic(survey) for n, fit in fits.items()}
best = min(bic, key=bic.get)
mixture = fits[best]
print(f"{best} classes, entropy R2 {mixture.entropy_r2(survey):.2f}")

# %%
# Profiles of the classes: the probability of each answer.

profiles = mixture.class_profiles()
print(profiles.round(2).head(4))

figure, (left, right) = plt.subplots(
    1, 2, figsize=(10, 5), layout="constrained", width_ratios=[1, 2]
)
left.plot(list(bic), list(bic.values()), "o-")
left.set(xlabel="classes", ylabel="BIC", xticks=list(bic))
rates = profiles.iloc[1:]
image = right.imshow(rates, aspect="auto", cmap="Blues", vmin=0, vmax=1)
right.set_yticks(range(len(rates)), [": ".join(map(str, row)) for row in rates.index])
right.set_xticks(
    range(best), [f"class {k}\n{w:.0%}" for k, w in enumerate(profiles.iloc[0])]
)
figure.colorbar(image, label="probability of the answer")
plt.show()

# %%
# The same object imputes missing answers, and predicts the class from some answers:
# here for someone who gets the news from the paper.

print(mixture.impute(survey, "mode").head())
print(
    "weights given the paper:",
    mixture.condition("news from", "paper").weights_.round(2),
)
