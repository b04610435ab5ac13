"""
Mean curves of steps that differ in time
========================================

The angles of hip and knee follow the same curve with every step, but never at the same
pace. Averaging them point by point flattens every peak. Here the mean curve is a
template, each step is a smooth and monotone time warp of it, and both angles share the
warp. Parts of some recordings are missing.
"""

# %%
# The data
# --------
# There are twenty steps with two angles in degrees. The pace within a step varies
# smoothly, and sensors drop out for a fifth of some steps.

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter1d

from sktem import DeformableTemplateEstimator

rng = np.random.default_rng(0)
n_steps, n_points = 20, 101
t = np.linspace(0, 1, n_points)


def angles(t):
    hip = 10 + 25 * np.cos(2 * np.pi * t)
    first, second = (0.15, 0.07, 15), (0.7, 0.1, 55)
    knee = 5 + sum(h * np.exp(-(((t - c) / w) ** 2)) for c, w, h in (first, second))
    return np.stack([hip, knee], axis=-1)


paces = gaussian_filter1d(rng.normal(size=(n_steps, 300)), 15, axis=1)[:, 100:201]
warps = np.cumsum(np.exp(0.35 * paces / paces.std()), axis=1)
warps = (warps - warps[:, :1]) / np.ptp(warps, axis=1)[:, None]
steps = angles(warps) + 1.5 * rng.normal(size=(n_steps, n_points, 2))
for step in range(0, n_steps, 5):
    start = rng.integers(0, 80)
    steps[step, start : start + 20] = np.nan

# %%
# The fit
# -------
# ``channel_axis`` is the axis of the two angles. With flows instead of sums of
# displacements, points in time keep their order.

estimator = DeformableTemplateEstimator(
    channel_axis=-1, deformation="diffeomorphic", deformation_scale=4.0, random_state=0
).fit(steps)
template = estimator.templates_[0]

figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
for axis, name, k in zip(axes, ("hip", "knee"), (0, 1), strict=True):
    axis.plot(steps[:, :, k].T, color="0.8", linewidth=0.5)
    axis.plot(angles(t)[:, k], "k--", label="truth")
    axis.plot(np.nanmean(steps[:, :, k], axis=0), label="mean")
    axis.plot(template[:, k], label="template")
    axis.set(title=f"{name} [degrees]", xlabel="share of the step [%]")
axes[1].legend()
plt.show()

# %%
# The template keeps the height of the peaks:

for name, curve in (
    ("mean", np.nanmean(steps, axis=0)),
    ("template", template),
):
    error = np.sqrt(((curve - angles(t)) ** 2).mean(axis=0))
    print(f"{name:8s} error of hip and knee: {error[0]:.2f}, {error[1]:.2f} degrees")

# %%
# Events and warps
# ----------------
# A point marked once in the template is found in every step: here the highest bend of
# the knee. The displacements are time warps, which never run backwards.

registration = estimator.registration(steps)
peak = float(template[:, 1].argmax())
times = registration.warp_points([[peak]])[:, 0, 0]
displacements = registration.displacements()[:, 0]
print(f"least pace: {1 + np.diff(displacements, axis=1).min():.2f}")

figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
for step in range(0, 8, 2):
    (line,) = axes[0].plot(steps[step, :, 1], linewidth=0.8)
    axes[0].axvline(times[step], color=line.get_color(), linestyle=":")
axes[0].set(title="highest bend of four steps", xlabel="share of the step [%]")
axes[1].plot(np.arange(n_points)[:, None] + displacements.T, color="C0", linewidth=0.5)
axes[1].set(title="warps", xlabel="time of the template", ylabel="time of the step")
axes[2].plot(estimator.register(steps)[:, :, 1].T, color="C0", linewidth=0.5)
axes[2].set(title="knee, registered", xlabel="share of the step [%]")
plt.show()
