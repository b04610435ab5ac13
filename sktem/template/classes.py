"""Fits of the templates of several classes, and their common noise."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
from joblib import Parallel, delayed
from sklearn import config_context, get_config

from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning
from sktem.images.units import n_copies_of
from sktem.progress import bar
from sktem.template.judged import BOUNDS, Judged

__all__ = [
    "learn_all",
    "shared_noise",
    "warn_of_classes",
    "warn_of_copies",
]


def learn_all(models, parts, n_jobs, context=None, share=None):
    """Fit models without their warnings, in threads; share what they share.

    ``share(runs)`` changes the ends of the runs before they become fitted attributes.
    """

    def learn(model, part, task):
        # A filter of warnings would hold for the whole process, not for one thread.
        context = task.propagate_callback_context(model) if task else nullcontext()
        with config_context(**configuration), context:
            learned = model._learn(*part)
        vars(model).pop("_callback_fit_ctx", None)  # scikit-learn's fit would do it
        advance()
        return learned

    configuration = get_config()  # of this thread
    contexts = [context and context.subcontext(task_name="class") for _ in models]
    with bar("DeformableTemplateClassifier: classes", len(models)) as advance:
        runs = Parallel(n_jobs, require="sharedmem")(
            delayed(learn)(*three)
            for three in zip(models, parts, contexts, strict=True)
        )
    if share is not None:
        share(runs)
    for model, run in zip(models, runs, strict=True):
        model._finish(run)


def shared_noise(runs, masses, expected):
    """Return noise variances of few images, shrunk towards those of all classes.

    A template takes up one image: n images of a class determine its noise as well as n
    - 1 residuals. Those of all classes are pooled, with one more image of the prior's
    noise, and the pooled noise counts as one image in every class.

    Parameters
    ----------
    runs : list of tuple
        State and settings of the fit of each class.
    masses : ndarray of shape (n_classes,)
        Weights of the images of each class.
    expected : float
        Noise of the prior, in standard deviations of the pixels of a class.

    Returns
    -------
    list of ndarray of shape (n_components,)
        Variances of the components of each class, in the units of its images.
    """
    # Channels have the units of all classes: the first one will do.
    squares = np.array([np.ravel(fit.frame.scale)[0] ** 2 for _, fit, *_ in runs])
    params = [state.params for state, *_ in runs]
    counts = [
        np.maximum(mass * of_class.weights - 1.0, 0.0)
        for mass, of_class in zip(masses, params, strict=True)
    ]
    variances = [
        of_class.noise_variances * unit
        for of_class, unit in zip(params, squares, strict=True)
    ]
    total = sum(n @ v for n, v in zip(counts, variances, strict=True))
    total += expected**2 * np.mean(squares)
    pooled = total / (sum(n.sum() for n in counts) + 1.0)
    return [
        (n * v + pooled) / (n + 1.0) / unit
        for n, v, unit in zip(counts, variances, squares, strict=True)
    ]


def warn_of_classes(classes, models, pooled):
    """Warn once of problems in the fits of any class.

    Where the noise is that of other classes, templates may leave nothing of the images.
    """

    def names(chosen):
        labels = [str(c) for c, is_in in zip(classes, chosen, strict=True) if is_in]
        return f"the class{'es' if len(labels) > 1 else ''} {', '.join(labels)}"

    advice = [Judged.of(vars(model)).fold_advice() for model in models]
    if any(folds := [text is not None for text in advice]):
        texts = sorted({text for text in advice if text is not None})
        warn_user(
            f"Many pixels lie where deformations fold over themselves in {names(folds)}"
            f" (see folded_pixels_ of estimators_). {' '.join(texts)}",
            FitWarning,
        )
    events = [model.history_.events for model in models]
    expected = [
        counts["degenerate"] if few else 0
        for counts, few in zip(events, pooled, strict=True)
    ]
    recovered = [
        sum(counts.values()) > n for counts, n in zip(events, expected, strict=True)
    ]
    if any(recovered):
        warn_user(
            f"Fits of {names(recovered)} recovered from numerical problems (see "
            "history_.events of estimators_). Inspect the result; more images, fewer "
            "components or a larger prior_strength may help.",
            FitWarning,
        )


def warn_of_copies(X, labels):
    """Warn where images that are left out have copies among those that are not."""
    n_copies = n_copies_of(X, labels.tolist())
    if n_copies > BOUNDS.copies * len(X):
        warn_user(
            f"{n_copies} of {len(X)} images are exact copies of others of their "
            "class. Copies show no noise and cannot be left out, by which "
            "probabilities and outlier_proba are judged: new images may look like "
            "outliers. Pass every image once, and class_prior for how often the "
            "classes come.",
            FitWarning,
        )
