"""
A stream in service: a kill, a drift, an alarm
==============================================

A service learns from a log of rows as long as it runs. It saves its model together with
the offset in the log, so that a kill neither loses rows nor counts any twice. It scores
each batch before it learns from it. With a constant step it can follow a drift.
"""

# %%
# A log that drifts
# -----------------
# There are three clusters, which begin to move after 30,000 rows.

import pickle

import matplotlib.pyplot as plt
import numpy as np

from sktem import StochasticEMGaussianMixture

n_rows, batch = 60_000, 500
rng = np.random.default_rng(0)
drift = np.clip(np.arange(n_rows) / 30_000 - 1, 0, 1) * 6
log = rng.normal(size=(n_rows, 2)) + rng.choice([-5, 0, 5], size=(n_rows, 1))
log[:, 0] += drift

# %%
# The service
# -----------
# Model and offset form one checkpoint. Here it is a variable; a service writes it to a
# temporary file and renames that.


def serve(checkpoint, killed_at=None, every=5_000):
    """Learn the log from a checkpoint on; return scores by offset and checkpoint."""
    (model, offset), scores = pickle.loads(checkpoint), {}
    while offset < n_rows and offset != killed_at:
        rows = log[offset : offset + batch]
        if offset > 0:
            scores[offset] = model.score(rows)  # these rows are still held out
        model.partial_fit(rows)
        offset += batch
        if offset % every == 0:
            checkpoint = pickle.dumps((model, offset))
    return scores, checkpoint


scores, models = {}, {}
for name, step_size in (("decreasing steps", "auto"), ("constant step", 0.05)):
    mixture = StochasticEMGaussianMixture(3, step_size=step_size, random_state=0)
    begin = pickle.dumps((mixture, 0))
    whole, at_end = serve(begin)
    # Killed at row 22,500: the checkpoint of row 20,000 is what is left of it.
    first, checkpoint = serve(begin, killed_at=22_500)
    second, again = serve(checkpoint)
    scores[name], models[name] = first | second, pickle.loads(again)[0]
    same = np.array_equal(models[name].means_, pickle.loads(at_end)[0].means_)
    print(f"{name}: the same bits as without the kill: {same}")
    print(f"  rows learned: {models[name].n_samples_seen_}")

# %%
# What a monitor sees
# -------------------
# Until the drift, decreasing steps are a little better, since they average over all
# rows. Then their score falls and keeps falling, which raises an alarm. The constant
# step remembers about five thousand rows and follows the drift.

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for name, values in scores.items():
    ax.plot(list(values), list(values.values()), linewidth=1, label=name)
ax.axvline(22_500, color="0.5", linestyle=":", label="killed and restarted")
ax.axvspan(30_000, n_rows, color="0.9", label="drift")
ax.set(
    xlabel="offset in the log",
    ylabel="log-likelihood of the next batch\n(nats per row)",
)
ax.legend()
plt.show()
