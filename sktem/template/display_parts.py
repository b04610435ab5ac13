"""Contents of a display of deformable templates, from a fitted estimator."""

from __future__ import annotations

import numpy as np

__all__ = ["parts_of"]


def parts_of(estimator, X, n_modes, deviations, n_samples, noise):
    """Return the parameters of a display."""
    models, names = _models(estimator)
    if models[0].grid_.n_channels > 1:
        raise ValueError("displays of templates show one channel: draw templates_")
    shape = models[0].image_shape_
    n_modes = min(n_modes, models[0].grid_.n_latents)
    lists: dict[str, list] = {
        name: []
        for name in ("templates", "mode_images", "mode_fields", "mode_shares",
                     "samples", "sample_labels")
    }  # fmt: skip
    first = 0
    for model in models:
        T = len(model.templates_)
        lists["templates"].extend(model.templates_)
        for t in range(T):
            Z, shares = model.principal_deformations(n_modes, t)
            deformed = model.mean_deformations_[t] + Z[:, None] * deviations[:, None]
            deformed = deformed.reshape(-1, Z.shape[1])
            images = model.inverse_transform(deformed, t)
            lists["mode_images"].append(images.reshape(len(Z), len(deviations), *shape))
            lists["mode_fields"].append(model.grid_.field(Z))
            lists["mode_shares"].append(shares)
        samples, labels = model.sample(n_samples, noise=noise)
        lists["samples"].extend(samples.reshape(-1, *shape))
        lists["sample_labels"].extend(labels + first)
        first += T
    data = {name: np.stack(values) for name, values in lists.items()}
    data |= {"names": names, "deviations": deviations}
    return data if X is None else data | _explained(estimator, models, X)


def _models(estimator):
    """Return the models of an estimator, and names of all their templates."""
    if hasattr(estimator, "templates_"):
        weights = estimator.weights_
        if len(weights) == 1:
            return [estimator], ["template"]
        return [estimator], [f"{t} ({share:.0%})" for t, share in enumerate(weights)]
    if not hasattr(estimator, "estimators_"):
        raise TypeError(
            "estimator must be a DeformableTemplateEstimator or a "
            f"DeformableTemplateClassifier, got {type(estimator).__name__}"
        )
    names = []
    for label, model in zip(estimator.classes_, estimator.estimators_, strict=True):
        T = len(model.weights_)
        names += [str(label) if T == 1 else f"{label}, {t}" for t in range(T)]
    return estimator.estimators_, names


def _explained(estimator, models, X):
    """Return images, and their reconstructions by the most probable templates."""
    shape = models[0].image_shape_
    images = np.asarray(X, dtype=float)
    images = images.reshape(len(images), *shape)
    which = np.zeros(len(images), dtype=int)
    if len(models) > 1 or hasattr(estimator, "estimators_"):
        which = np.searchsorted(estimator.classes_, estimator.predict(X))
    starts = np.cumsum([0, *(len(model.templates_) for model in models)])
    fits = np.empty_like(images)
    fields = np.empty((len(images), len(shape), *shape))
    labels = np.empty(len(images), dtype=int)
    for number in np.unique(which):
        rows, model = np.flatnonzero(which == number), models[number]
        class_images = images[rows].reshape(len(rows), -1)
        Z = model.modes_of(class_images)
        components = np.zeros(len(rows), dtype=int)
        if len(model.templates_) > 1:
            components = model.predict(class_images)
        fits[rows] = model.inverse_transform(Z, components).reshape(-1, *shape)
        fields[rows] = model.grid_.field(Z)
        labels[rows] = starts[number] + components
    return {"images": images, "fits": fits, "fields": fields, "labels": labels}
