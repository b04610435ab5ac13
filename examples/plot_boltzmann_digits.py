"""
Digits from a Boltzmann machine: samples and restored halves
============================================================

A restricted machine with 150 hidden units learns scikit-learn's 8 x 8 digits by
persistent contrastive divergence. Its E-step is exact. The learned model is examined in
three ways: by samples from the machine, by the lower halves of held-out digits restored
from their upper halves, and by the log-likelihood, for which log Z is estimated by
annealed importance sampling.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sktem import LatentBoltzmannMachine

X = (load_digits().data > 7).astype(np.float32)
train, test = train_test_split(X, test_size=200, random_state=0)

machine = LatentBoltzmannMachine(
    hidden_layer_sizes=150,
    step_size_m=(0.1, 0.001),
    n_gibbs_m=5,
    batch_size=50,
    max_iter=60,
    centering=False,
    tol=None,
    random_state=0,
).fit(train)

# %%
# The likelihood, and how far to trust it: the standard error of log Z, and the
# effective sample size, the number of equally weighted runs that the weighted runs are
# worth. For comparison, the base rates of the pixels alone are a machine without edges.
log_partition = machine.log_partition("ais")
score = machine.score_samples(test, log_partition=log_partition.value).mean()
rates = np.clip(train.mean(axis=0), 0.002, 0.998)
independent = (test * np.log(rates) + (1 - test) * np.log1p(-rates)).sum(axis=1).mean()
print(
    f"log Z {log_partition.value:.2f} +- {log_partition.standard_error:.2f}, effective "
    f"sample size {log_partition.effective_sample_size:.0f} of {log_partition.n_runs}"
)
print(f"held-out log-likelihood {score:.2f}, base rates alone {independent:.2f}")

# %%
# NaN is a missing pixel: ``impute`` returns its probability given the others,
# ``sample_conditional`` draws it.
halves = test[:10].copy()
halves[:, 32:] = np.nan
rows = {
    "sampled": machine.sample(10, n_steps=500),
    "held out": test[:10],
    "seen": np.where(np.isnan(halves), 0.5, halves),
    "restored": machine.impute(halves),
    "drawn": machine.sample_conditional(halves),
}
fig, axes = plt.subplots(len(rows), 10, figsize=(8, 4.2), layout="constrained")
for line, (name, images) in zip(axes, rows.items(), strict=True):
    for ax, image in zip(line, images, strict=True):
        ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        ax.set(xticks=[], yticks=[])
    line[0].set_ylabel(name, rotation=0, ha="right", va="center")
plt.show()
# sphinx_gallery_thumbnail_path = "images/card_boltzmann.png"
