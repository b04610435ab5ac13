"""Messages: correct models pass, wrong ones and wrong data are named."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import cross_val_score

from sktem import (
    HiddenMarkovModel,
    NonlinearMixedEffectsRegressor,
    RobustPoissonRegressor,
    StochasticEM,
    StochasticEMGaussianMixture,
)
from sktem.models import RandomInterceptModel, check_model
from tests.defaults.harness import Case
from tests.loop.test_check_model import BROKEN, GROUPS, MODELS, StartsAtMean, Words

FACES = (
    StochasticEMGaussianMixture(2),
    StochasticEM(RandomInterceptModel()),
    RobustPoissonRegressor(),
    HiddenMarkovModel(2),
)


def refuses(call, *words):
    """Return whether a call fails with a message that has all of the words."""
    try:
        call()
    except (TypeError, ValueError) as error:
        return all(word in str(error) for word in words)
    return False


def correct_models(seed):
    """Correct models that are refused."""
    words = np.random.default_rng(seed).poisson(
        np.where(np.arange(30) < 20, 1.0, 0.0), size=(50, 30)
    )
    correct = [
        *MODELS.values(),
        (StartsAtMean(), GROUPS, {}),
        (StartsAtMean(), 1e3 * GROUPS, {}),
        (Words(), words * 1.0, {}),
    ]
    return sum(
        refuses(lambda m=model, X=X, o=options: check_model(m, X, **o))
        for model, X, options in correct
    )


def wrong_models(seed):
    """Wrong models that pass, or whose fault is not named."""
    missed = 0
    for changes, words in BROKEN.values():
        model = type("Broken", (RandomInterceptModel,), changes)()
        name = words.split(".*")[0].split("|")[0]
        missed += not refuses(lambda m=model: check_model(m, GROUPS), name)
    return missed


def by_position(seed):
    """Calls of methods whose arguments have other names that fail."""

    class Renamed(RandomInterceptModel):
        def log_likelihood(self, rows, theta):
            return super().log_likelihood(rows, theta)

    check_model(Renamed(), GROUPS)
    em = StochasticEM(Renamed(), random_state=seed).fit(GROUPS)
    return sum(refuses(lambda f=f: f(GROUPS)) for f in (em.score, em.score_samples))


def values_of_maps(seed):
    """Faces that do not name the row and column of a NaN in a memory map."""
    row, column = np.random.default_rng(seed).integers([70_000, 3])
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X.npy"
        X = np.ones((70_000, 3))
        X[row, column] = np.inf
        np.save(path, X)
        X = np.load(path, mmap_mode="r")
        for face in FACES:
            place = f"row {row}", f"column {column}"
            missed += not refuses(lambda f=face, X=X: f.fit(X, X[:, 0]), *place)
        del X  # so that the folder can go
    return missed


def dates(seed):
    """Faces that do not name a column of dates."""
    frame = pd.DataFrame({"x": np.arange(20.0)})
    frame["when"] = pd.date_range("2020-01-01", periods=20)
    return sum(
        not refuses(lambda f=face: f.fit(frame, np.arange(20)), "when")
        for face in FACES
    )


def routing(seed):
    """Grouped models in a search without routing of which nobody is told."""
    rng = np.random.default_rng(seed)
    X, groups = rng.normal(size=(40, 1)), np.repeat(np.arange(8), 5)
    model = NonlinearMixedEffectsRegressor(
        "linear", parameters={"intercept": 0.0, "slope": 1.0}, transforms="normal",
        omega=["intercept"], max_iter=5, tol=0,
    )  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        refused = refuses(
            lambda: cross_val_score(model, X, X[:, 0], groups=groups, cv=2), "groups"
        )
    told = any("enable_metadata_routing" in str(w.message) for w in caught)
    return 0 if refused or told else 1


def case(name, distance, estimator="all"):
    return Case(name, estimator, "none", "messages that miss", 0, distance, slow=True)


CASES = [
    case("correct models pass", correct_models, "check_model"),
    case("wrong models are named", wrong_models, "check_model"),
    case("arguments of other names", by_position, "StochasticEM"),
    case("values that are not finite, in a map", values_of_maps),
    case("columns of dates", dates),
    case("groups without routing", routing, "NonlinearMixedEffectsRegressor"),
]
