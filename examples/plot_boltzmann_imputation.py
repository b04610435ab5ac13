"""
Missing pixels restored by a Boltzmann machine
==============================================

A third of the pixels of all digits, including the training digits, is missing. A
restricted machine learns from the other pixels: in its E-step a missing pixel is one
more hidden unit. Its ``impute`` returns the expectation of missing pixels, both for
scattered pixels and for a whole half. It is compared with the imputers of scikit-learn,
which learn from the same rows. The steps of the fit stay long, and averaging the
parameters removes their noise: the last parameters alone would lose to ten nearest
neighbours.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.model_selection import train_test_split

from sktem import ContrastiveSolver, LatentBoltzmannMachine

rng = np.random.default_rng(0)
X = (load_digits().data > 7).astype(np.float32)
train, test = train_test_split(X, test_size=300, random_state=0)
train[rng.random(train.shape) < 1 / 3] = np.nan

machine = LatentBoltzmannMachine(
    hidden_layer_sizes=100,
    solver=ContrastiveSolver("pcd", averaging=True),
    step_size_m=0.3,
    n_gibbs_e=5,
    n_gibbs_m=2,
    batch_size=25,
    max_iter=60,
    centering=False,
    tol=None,
    random_state=0,
).fit(train)
methods = {
    "mean": SimpleImputer().fit(train),
    "1 neighbour": KNNImputer(n_neighbors=1).fit(train),
    "10 neighbours": KNNImputer(n_neighbors=10).fit(train),
}

# %%
# The error is the mean squared difference over the missing pixels, for which the
# expectation is the best answer. A chain moves slowly between the shapes that fit the
# observed pixels, and shapes that it has not visited are missing from its mean. Each
# row is therefore restored by three chains, whose means are averaged.
holes = {
    "a third": rng.random(test.shape) < 1 / 3,
    "lower half": np.tile(np.arange(64) >= 32, (len(test), 1)),
}
restored, errors = {}, {}
for hole, missing in holes.items():
    seen = np.where(missing, np.nan, test)
    restored[hole] = {name: method.transform(seen) for name, method in methods.items()}
    restored[hole]["machine"] = machine.impute(seen, n_steps=150, n_chains=3)
    errors[hole] = {
        name: np.square(values - test)[missing].mean()
        for name, values in restored[hole].items()
    }
    print(hole, {name: f"{error:.4f}" for name, error in errors[hole].items()})

# %%
fig, grids = plt.subplots(
    6,
    13,
    figsize=(9, 4.4),
    layout="constrained",
    width_ratios=[1] * 6 + [0.6] + [1] * 6,
)
for part, (hole, missing) in enumerate(holes.items()):
    shown = {
        "held out": test,
        "seen": np.where(missing, 0.5, test),
        **restored[hole],
    }
    for line, (name, images) in zip(grids, shown.items(), strict=True):
        for ax, image in zip(line[7 * part :][:6], images[20:], strict=False):
            ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
            ax.set(xticks=[], yticks=[])
        if name in errors[hole]:
            label = f"{errors[hole][name]:.3f}"
            line[7 * part + 5].set_ylabel(label, rotation=0, ha="left", va="center")
            line[7 * part + 5].yaxis.set_label_position("right")
        line[6].axis("off")
        line[0].set_ylabel(name, rotation=0, ha="right", va="center")
    grids[0, 7 * part + 2].set_title(f"{hole} missing", fontsize=10)
plt.show()
