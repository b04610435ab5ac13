"""
Spike words: are pairs enough?
==============================

Fifteen neurons have a common input, which is not recorded; a word says which of them
fired in a time bin. A pairwise maximum-entropy model has their rates and correlations,
and no more structure than necessary for these. A restricted machine has two hidden
units in place of all pairs. Both are judged by quantities to which they were not
fitted: the likelihood of other bins, and the distribution of the number K of neurons
that fire together.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from sktem import LatentBoltzmannMachine
from sktem.graphs import complete_graph

n_neurons, n_bins = 15, 10000
rng = np.random.default_rng(0)
rates = rng.uniform(0.02, 0.15, n_neurons)
loadings = rng.uniform(0.3, 0.7, n_neurons)
common = rng.standard_normal((2 * n_bins, 1))
own = rng.standard_normal((2 * n_bins, n_neurons))
drive = loadings * common + np.sqrt(1 - loadings**2) * own
words = (drive > stats.norm.isf(rates)).astype(float)
train, test = words[:n_bins], words[n_bins:]

# %%
# Without hidden units and with so few neurons, the fit reaches the maximum of the
# likelihood: the rates and correlations of the model are those of the bins.
no_edges = np.zeros((n_neurons, n_neurons))
machines = {
    "independent": LatentBoltzmannMachine(no_edges),
    "pairs": LatentBoltzmannMachine(complete_graph(n_neurons)),
    "two hidden units": LatentBoltzmannMachine(hidden_layer_sizes=2),
}
for name, machine in machines.items():
    machine.set_params(random_state=0).fit(train)
    parameters = len(machine.params_)
    print(
        f"{name:17} {parameters:4} parameters, {machine.score(test):.3f} nats per word"
    )

# %%
# Pairs account for the correlations but not for P(K): silence is more frequent than
# they predict, and so are words of four to eight spikes. Hidden units get it right,
# with half the number of parameters.
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8))
off_diagonal = np.triu_indices(n_neurons, 1)
seen = np.corrcoef(test.T)[off_diagonal]
K = np.arange(11)
counts = np.bincount(test.sum(axis=1).astype(int), minlength=16)[K]
right.semilogy(K, counts / n_bins, "k.", label="other bins")
for name, machine in machines.items():
    drawn = machine.sample(20000)
    if name != "independent":
        left.plot(seen, np.corrcoef(drawn.T)[off_diagonal], ".", ms=4, label=name)
    counts = np.bincount(drawn.sum(axis=1).astype(int), minlength=16)[K]
    right.semilogy(K, np.maximum(counts, 0.5) / len(drawn), label=name)
left.axline((0.1, 0.1), slope=1, color="0.7", lw=1)
left.set(xlabel="correlation in other bins", ylabel="correlation of draws")
left.legend()
right.set(xlabel="K, neurons that fire together", ylabel="P(K)", ylim=(1e-5, 1))
right.legend()
fig.tight_layout()
plt.show()
