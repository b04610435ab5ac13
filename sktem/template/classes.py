"""Fits of the templates of several classes, and warnings about them."""

from __future__ import annotations

from contextlib import nullcontext

from joblib import Parallel, delayed
from sklearn import config_context, get_config

from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning
from sktem.images.units import n_copies_of
from sktem.progress import bar
from sktem.template.judged import BOUNDS, Judged

__all__ = [
    "learn_all",
    "warn_of_classes",
    "warn_of_copied_images",
]


def learn_all(models, parts, n_jobs, context=None):
    """Fit models without their warnings, in threads."""

    def learn(model, part, task):
        # A filter of warnings would hold for the whole process, not for one thread.
        context = task.propagate_callback_context(model) if task else nullcontext()
        with config_context(**configuration), context:
            model._learn(*part)
        vars(model).pop("_callback_fit_ctx", None)  # scikit-learn's fit would do it
        advance()

    configuration = get_config()  # of this thread
    contexts = [context and context.subcontext(task_name="class") for _ in models]
    with bar("DeformableTemplateClassifier: classes", len(models)) as advance:
        Parallel(n_jobs, require="sharedmem")(
            delayed(learn)(*three)
            for three in zip(models, parts, contexts, strict=True)
        )


def warn_of_classes(classes, models):
    """Warn once of problems in the fits of any class."""

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
    recovered = [sum(model.history_.events.values()) > 0 for model in models]
    if any(recovered):
        warn_user(
            f"Fits of {names(recovered)} recovered from numerical problems (see "
            "history_.events of estimators_). Inspect the result; more images, fewer "
            "components or a larger prior_strength may help.",
            FitWarning,
        )


def warn_of_copied_images(X, labels):
    """Warn where images that are left out have copies among the others."""
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
