"""
The template of a family of signals
===================================

Spectra, heart beats, steps: signals of one kind have the same peaks, but not at the
same places. Their mean is smeared, because it averages peaks with flanks. A deformable
template aligns the peaks before averaging. A signal is an image with one axis, so that
the estimator is the same.
"""

# %%
# The data
# --------
# A pattern of four peaks is stretched and compressed by a smooth displacement of its
# positions, different for each signal, and noise is added.

import matplotlib.pyplot as plt
import numpy as np

from sktem import DeformableTemplateEstimator
from sktem.plotting import TemplateDisplay

rng = np.random.default_rng(0)
positions = np.arange(80.0)


def pattern(x):
    peaks = [(14, 2.5, 1.0), (30, 3.5, 0.6), (44, 2.5, -0.5), (60, 4.0, 0.9)]
    return sum(a * np.exp(-((x - centre) ** 2) / 2 / w**2) for centre, w, a in peaks)


knots = np.linspace(0, 79, 7)
bumps = np.exp(-((positions[:, None] - knots) ** 2) / 2 / 11**2)
displacements = rng.normal(0, 1.8, (60, 7)) @ bumps.T
X = pattern(positions - displacements) + 0.05 * rng.normal(size=(60, 80))
train, new = X[:40], X[40:]

# %%
# The fit
# -------
# Displacements of about two pixels are expected, which is more than the default. All
# lengths are in pixels.

estimator = DeformableTemplateEstimator(
    image_shape=(80,),
    template_landmarks=35,
    template_scale=2.5,
    deformation_landmarks=7,
    deformation_width=11.0,
    deformation_scale=2.0,
    random_state=0,
).fit(train)
template = estimator.templates_[0]

figure, axes = plt.subplots(1, 2, figsize=(10, 3.2), sharey=True, layout="constrained")
axes[0].plot(train[:15].T, color="0.6", linewidth=0.7)
axes[0].set(title="fifteen of forty signals", xlabel="position")
axes[1].plot(pattern(positions), "k--", linewidth=1, label="pattern")
axes[1].plot(train.mean(axis=0), label="mean of the signals")
axes[1].plot(template, label="template")
axes[1].set(title="mean and template", xlabel="position")
axes[1].legend(fontsize="small")
plt.show()

# %%
# How the signals differ
# ----------------------
# The principal deformations, by two standard deviations in both directions: the
# template, and below it the displacement.

TemplateDisplay.from_estimator(estimator, kind="modes", n_modes=3)
plt.show()

# %%
# New signals
# -----------
# ``register`` warps new signals back to the template, with the displacements returned
# by ``deformation_fields``. Where a signal is flat, the displacement is determined only
# by the nearest peaks and the other signals.

registered = estimator.register(new)
found = estimator.deformation_fields(new)[:, 0]

figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
for panel, signals, title in (
    (axes[0], new, "new signals"),
    (axes[1], registered, "registered"),
):
    panel.plot(signals.T, color="0.6", linewidth=0.7)
    panel.plot(template, color="tab:green")
    panel.set(title=title, xlabel="position", ylim=(-0.75, 1.25))
for number, (true, estimate) in enumerate(
    zip(displacements[40:43], found[:3], strict=True)
):
    axes[2].plot(true, "--", color=f"C{number}")
    axes[2].plot(estimate, color=f"C{number}")
axes[2].set(title="displacement: true (dashed), found", xlabel="position")
plt.show()

# The noise has 0.05, and interpolating between two pixels averages some of it away.
spread = new.std(axis=0).mean(), registered.std(axis=0).mean()
print(f"standard deviation across the new signals: {spread[0]:.3f}, ", end="")
print(f"registered {spread[1]:.3f}")

# %%
# The difference between a signal and the deformed template is noise.

TemplateDisplay.from_estimator(estimator, new[:3])
plt.show()
