"""Fit many small configurations and keep the digests of all that was fitted.

    OMP_NUM_THREADS=1 python same_bits.py OUT.json   # write the digests
    python same_bits.py OUT.json --compare OLD.json  # exit with 1 if they differ
    python same_bits.py OUT.json --only mixture      # names that contain it

Only public paths are imported, so that it runs before and after files move. A
configuration that raises has its exception as digest, and is reported.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import struct
import sys
import time
import types
import warnings

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits

import sktem
from sktem import (
    ARDLogisticClassifier,
    BoltzmannMachineClassifier,
    BoltzmannMachineRegressor,
    ContrastiveSolver,
    DeformableTemplateClassifier,
    DeformableTemplateEstimator,
    DeformedCopiesClassifier,
    GaussianMixturePrior,
    HiddenMarkovModel,
    LatentBoltzmannMachine,
    NonlinearMixedEffectsRegressor,
    RobustPoissonRegressor,
    StochasticEM,
    StochasticEMGaussianMixture,
    StochasticEMMixture,
)

# ------------------------------------------------------------------------- digests

TIMES = ("time", "second", "duration", "elapsed", "clock")


def feed(digest, value, seen=()):
    """Feed the exact value of anything into a digest."""

    def put(*texts):
        for text in texts:
            digest.update(str(text).encode() + b"\0")

    if value is None or isinstance(value, (bool, int, str, bytes)):
        put(type(value).__name__, repr(value))
    elif isinstance(value, float) and not isinstance(value, np.generic):
        digest.update(b"float" + struct.pack("<d", value))
    elif isinstance(value, np.generic):
        put("scalar", value.dtype.str)
        digest.update(value.tobytes())
    elif isinstance(value, np.ndarray):
        put("array", value.dtype.str, value.shape)
        if value.dtype == object:
            for item in value.ravel():
                feed(digest, item, seen)
        else:
            digest.update(np.ascontiguousarray(value).tobytes())
    elif sparse.issparse(value):
        put("sparse", value.format, value.shape)
        rows = value.tocsr()
        for part in (rows.data, rows.indices, rows.indptr):
            feed(digest, part, seen)
    elif isinstance(value, dict):
        put("dict", len(value))
        for key in sorted(value, key=repr):
            if not timing(key):
                put(repr(key))
                feed(digest, value[key], seen)
    elif isinstance(value, (list, tuple)):
        put("sequence", len(value))
        for item in value:
            feed(digest, item, seen)
    elif isinstance(value, (set, frozenset)):
        put("set", *sorted(map(repr, value)))
    elif isinstance(value, np.random.Generator):
        feed(digest, value.bit_generator.state, seen)
    elif isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        put("callable", value.__name__)
    elif id(value) in seen:
        put("again")
    elif hasattr(value, "numpy"):
        feed(digest, value.numpy(), seen)
    else:
        # Names of classes, not of modules: files may move.
        put("object", type(value).__name__)
        seen = (*seen, id(value))
        fields = {}
        if dataclasses.is_dataclass(value):
            fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        fields |= getattr(value, "__dict__", {})
        for name in sorted(fields):
            if not timing(name):
                put(name)
                feed(digest, fields[name], seen)


def timing(name):
    """Return whether a field holds times, which differ from run to run."""
    return isinstance(name, str) and any(word in name for word in TIMES)


def hexdigest(value):
    digest = hashlib.sha256()
    feed(digest, value)
    return digest.hexdigest()


def of_fit(estimator):
    """Return the digest of each fitted attribute."""
    return {
        name: hexdigest(value)
        for name, value in sorted(vars(estimator).items())
        if name.endswith("_") and not name.startswith("_")
    }


# ---------------------------------------------------------------------------- data


def clusters(n=300, seed=0, dtype=float):
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 0.0, 0.0], [4.0, 1.0, 0.0], [0.0, 3.0, -3.0]])
    X = rng.normal(size=(n, 3)) * [1.0, 0.7, 1.3] + centres[np.arange(n) % 3]
    return X.astype(dtype)


def intercepts(n=200, seed=0):
    rng = np.random.default_rng(seed)
    return 1.0 + rng.normal(size=(n, 1)) + rng.normal(size=(n, 4))


def digits(n=16, classes=(5,)):
    X, y = load_digits(return_X_y=True)
    chosen = np.concatenate([np.flatnonzero(y == c)[:n] for c in classes])
    return X[chosen], y[chosen]


def signals(n=20, seed=0):
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, 24)
    shift = 0.05 * rng.normal(size=(n, 1))
    return np.exp(-(((t - 0.5 - shift) / 0.1) ** 2)) + 0.05 * rng.normal(size=(n, 24))


def bits(n=200, d=6, seed=0):
    rng = np.random.default_rng(seed)
    cause = rng.random((n, 2)) < 0.5
    p = np.where(cause[:, np.arange(d) % 2], 0.85, 0.2)
    return (rng.random((n, d)) < p).astype(float)


def bolus(error="constant", n=24, m=5, seed=0):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n), m)
    dose = np.resize([50.0, 100.0, 200.0], n)[groups]
    weight = rng.normal(size=n)[groups]
    X = np.column_stack([dose, np.tile(np.linspace(1, 9, m), n), weight])
    V, CL = (np.array([10, 2]) * np.exp([0.2, 0.3] * rng.normal(size=(n, 2)))).T
    f = dose / V[groups] * np.exp(-CL[groups] / V[groups] * X[:, 1])
    e = rng.normal(size=len(f))
    y = {
        "constant": f + 0.3 * e,
        "proportional": f * (1 + 0.1 * e),
        "combined": f + np.sqrt(0.2**2 + (0.1 * f) ** 2) * e,
        "exponential": f * np.exp(0.2 * e),
    }[error]
    return X, y, groups


def lines(n=24, m=5, seed=0):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n), m)
    x = np.tile(np.linspace(-1, 1, m), n)
    effects = rng.normal(size=(n, 2)) * [1.0, 0.6]
    y = 2 + effects[groups, 0] + (3 + effects[groups, 1]) * x
    return x[:, None], y + 0.5 * rng.normal(size=n * m), groups


def counts(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    z = 1 + X @ [0.5, -0.3] + 0.6 * rng.normal(size=n)
    return X, rng.poisson(np.exp(z)).astype(float)


def classes(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    return X, rng.random(n) < 1 / (1 + np.exp(-2 * X[:, 0]))


# ------------------------------------------------------------------ configurations

CASES = {}


def case(name):
    def register(function):
        assert name not in CASES, name
        CASES[name] = function
        return function

    return register


def answers(estimator, X, *names):
    """Return what methods answer, by name."""
    return {name: getattr(estimator, name)(X) for name in names}


def mixture(name, X=None, weight=None, **options):
    def fit():
        data = clusters() if X is None else X
        em = StochasticEMGaussianMixture(3, **({"random_state": 0} | options))
        em.fit(data, sample_weight=weight) if weight is not None else em.fit(data)
        return em, answers(em, data, "predict_proba", "score_samples", "bic") | {
            "sample": em.sample(5) if em.random_state is not None else None
        }

    case(f"mixture {name}")(fit)


for kind in ("full", "tied", "diag", "spherical"):
    mixture(f"em {kind}", covariance_type=kind)
    mixture(f"vrttem {kind}", covariance_type=kind, solver="vrttem", max_iter=15)
    mixture(
        f"saem mc {kind}",
        covariance_type=kind,
        solver="saem",
        sampler="mc",
        max_iter=15,
    )
for solver in ("mcem", "saem", "online", "iem", "isaem", "vrttem", "fittem"):
    mixture(f"{solver} batches", covariance_type="diag", solver=solver, max_iter=10)
for solver in ("online", "isaem", "vrttem", "fittem"):
    for sampler in ("exact", "mc"):
        mixture(
            f"{solver} {sampler} rows",
            covariance_type="spherical",
            solver=solver,
            sampler=sampler,
            batch_size=1,
            max_iter=6,
        )
for start in ("k-means++", "random", "random_from_data"):
    mixture(f"start {start}", init_params=start, max_iter=30)
for average in (True, 3, "tail", "random"):
    mixture(f"average {average}", solver="isaem", average=average, max_iter=8)
for sampling in ("fixed", "inclusion"):
    mixture(f"sampling {sampling}", solver="fittem", sampling=sampling, max_iter=8)
for seed in (1, 2):
    mixture(f"seed {seed}", X=clusters(seed=seed), random_state=seed, solver="isaem")
mixture("starts", n_init=3, init_params="random_from_data", max_iter=20)
mixture("float32", X=clusters(dtype=np.float32))
mixture("weights", weight=np.linspace(0.5, 2, 300))
mixture("weights isaem", weight=np.linspace(0.5, 2, 300), solver="isaem", max_iter=10)
mixture(
    "penalties",
    prior=GaussianMixturePrior(mean_penalty=0.1, weight_concentration=0.01),
)
mixture(
    "prior",
    prior=GaussianMixturePrior(covariance_prior=1.0, covariance_prior_strength=0.05),
)


@case("mixture n_jobs")
def _():
    em = StochasticEMGaussianMixture(3, n_jobs=2, random_state=0).fit(clusters(3000))
    return em, {}


@case("mixture warm start")
def _():
    em = StochasticEMGaussianMixture(3, max_iter=2, warm_start=True, random_state=0)
    return em.fit(clusters()).fit(clusters(seed=1)), {}


for solver in ("em", "online", "isaem"):

    def _(solver=solver):
        em = StochasticEMGaussianMixture(3, solver=solver, random_state=0)
        for seed in range(4):
            em.partial_fit(clusters(seed=seed))
        return em, answers(em, clusters(), "predict_proba")

    case(f"mixture stream {solver}")(_)


def own_model(name, model, X, **options):
    def fit():
        em = StochasticEM(model(), **({"max_iter": 10, "random_state": 0} | options))
        return em.fit(X()), answers(em, X(), "score_samples")

    case(f"stochastic_em {name}")(fit)


def intercept_model():
    from sktem.models import RandomInterceptModel

    return RandomInterceptModel()


def mixture_model():
    from sktem.models import GaussianMixtureModel

    return GaussianMixtureModel(3)


for solver in ("em", "mcem", "saem", "online", "iem", "isaem", "vrttem", "fittem"):
    own_model(solver, intercept_model, intercepts, solver=solver)
for sampler in ("exact", "mc", "rwm", "hmc", "mala", "ula"):
    own_model(
        f"saem {sampler}", intercept_model, intercepts, solver="saem", sampler=sampler
    )
own_model("fittem mala", intercept_model, intercepts, solver="fittem", sampler="mala")
own_model("biased-saem", intercept_model, intercepts, solver="biased-saem")
own_model("mixture isaem", mixture_model, clusters, solver="isaem", sampler="mc")


@case("stochastic_em component walk")
def _():
    from sktem.samplers import ComponentWalk
    from sktem.schedules import Polynomial

    em = StochasticEM(
        intercept_model(),
        solver="saem",
        sampler=ComponentWalk(n_prior=0),
        step_size=Polynomial(),
        max_iter=10,
        random_state=0,
    )
    return em.fit(intercepts()), {}


@case("stochastic_em stream")
def _():
    em = StochasticEM(intercept_model(), solver="online", random_state=0)
    for seed in range(4):
        em.partial_fit(intercepts(seed=seed))
    return em, {}


def stacks(shape, n=8, seed=0):
    """Return noisy blobs whose places vary, of some shape."""
    rng = np.random.default_rng(seed)
    axes = np.meshgrid(*(np.linspace(-1, 1, side) for side in shape), indexing="ij")
    places = 0.15 * rng.normal(size=(n, len(shape)))
    gaps = [
        np.subtract.outer(-p, -axis) for p, axis in zip(places.T, axes, strict=True)
    ]
    images = np.exp(-2 * sum(gap**2 for gap in gaps))
    return images + 0.05 * rng.normal(size=images.shape)


def template(name, X=None, shape=(8, 8), weight=None, landmarks=(7, 4), **options):
    def fit():
        data = digits()[0] if X is None else X()
        defaults = {
            "max_iter": 3,
            "random_state": 0,
            "template_landmarks": landmarks[0],
            "deformation_landmarks": landmarks[1],
        }
        template = DeformableTemplateEstimator(shape, **(defaults | options))
        template.fit(data, sample_weight=None if weight is None else weight())
        Z = template.transform(data[:2])
        more = {"images": template.inverse_transform(Z)}
        more["modes"] = template.modes_of(data[:4])
        more["registered"] = template.register(data[:2])
        more["sample"] = template.sample(3)
        more["principal"] = template.principal_deformations(2)
        if not {"gain", "offset"} & set(options.get("nuisances", ())):
            more["likelihoods"] = template.likelihood_estimates(data[:2], n_draws=20)
        names = ("transform", "score_samples", "predict_proba", "min_jacobians")
        return template, answers(template, data[:4], *names) | more

    case(f"template {name}")(fit)


def holed():
    X = digits()[0].copy()
    X[::3, 10:20] = np.nan
    return X


for sampler in ("mala", "ula"):
    template(f"sampler {sampler}", sampler=sampler)
for solver in ("saem", "online", "isaem", "vrttem", "fittem", "biased-saem"):
    template(f"solver {solver}", solver=solver, batch_size=5)
for kind in ("shared", "isotropic"):
    template(f"covariance {kind}", covariance_type=kind)
template("components", X=lambda: digits(10, (1, 5))[0], n_components=2)
template("signals", X=signals, shape=(24,))
template("seed", random_state=1)
template("missing", X=holed)
template("weights", weight=lambda: np.linspace(0.5, 2, 16))
template("starts", n_init=2)
template("flows", deformation="diffeomorphic")
template("given start", initial_template=digits()[0][3])
template("channels", X=lambda: stacks((3, 8, 8)), channel_axis=1)
template("volumes", X=lambda: stacks((6, 6, 6)), shape=None, landmarks=(5, 3))
template("blocks", X=lambda: stacks((64, 64)), shape=None, landmarks=("auto", "auto"))
template("places", nuisances=("translation", "rotation", "scale"))
template("light", nuisances=("translation", "gain", "offset"))
template("mixed light", nuisances=("gain",), X=holed)


@case("template stream")
def _():
    X, _ = digits(24)
    template = DeformableTemplateEstimator(
        (8, 8), template_landmarks=7, deformation_landmarks=4, random_state=0
    )
    for chunk in np.split(X, 3):
        template.partial_fit(chunk)
    return template, answers(template, X[:3], "transform")


def template_classifier(name, n=8, **options):
    def fit():
        X, y = digits(n, (0, 1))
        classifier = DeformableTemplateClassifier(
            (8, 8),
            template_landmarks=7,
            deformation_landmarks=4,
            max_iter=3,
            random_state=0,
            **options,
        ).fit(X, y)
        inside = {name: of_fit(part) for name, part in nested(classifier)}
        names = "predict_proba", "outlier_proba", "predict_joint_log_proba"
        return classifier, answers(classifier, X[:3], *names) | inside

    case(f"template {name}")(fit)


template_classifier("classifier", temperature=1.0)
template_classifier("classifier left out", n=6)
template_classifier("classifier mixture", n_components=2, temperature=1.0)


def copies(name, X, y, **options):
    def fit():
        classifier = DeformedCopiesClassifier(
            max_rows=120, random_state=0, **options
        ).fit(X, y)
        names = "predict_proba", "outlier_proba", "predict", "deform"
        return classifier, answers(classifier, X[:3], *names)

    case(f"deformed_copies {name}")(fit)


copies("digits", *digits(5, (0, 1)))
copies("one a class", *digits(1, (0, 1, 2)))
copies("signals", np.concatenate([signals(6), signals(6) ** 2]), np.repeat([0, 1], 6),
       image_shape=(24,))  # fmt: skip
copies("channels", stacks((3, 8, 8)), np.arange(8) % 2, channel_axis=1)
copies("missing", holed(), np.arange(16) % 2, image_shape=(8, 8))


def nested(estimator):
    """Yield the estimators among the fitted attributes."""
    for name, value in sorted(vars(estimator).items()):
        if isinstance(value, (list, tuple, np.ndarray)):
            for index, item in enumerate(value):
                if isinstance(item, BaseEstimator):
                    yield f"{name}{index}", item


def machine(name, X=bits, **options):
    def fit():
        defaults = {"hidden_layer_sizes": 3, "max_iter": 4, "random_state": 0}
        learned = LatentBoltzmannMachine(**(defaults | options)).fit(X())
        scores = "score_samples" if "visible" in options else "pseudo_log_likelihood"
        return learned, answers(learned, X()[:5], "transform", scores)

    case(f"boltzmann {name}")(fit)


for solver in ("apcd", "hapcd", "mfpcd", "pcd", "cd"):
    machine(f"{solver} restricted", solver=solver)
    machine(f"{solver} deep", solver=solver, hidden_layer_sizes=(4, 2), batch_size=50)
for e_step in ("exact", "gibbs", "mean_field"):
    machine(f"e_step {e_step}", e_step=e_step)
machine("gaussian", X=lambda: clusters(150), visible="gaussian")
machine(
    "momentum",
    solver=ContrastiveSolver(momentum=0.5),
    weight_decay=0.01,
    centering=True,
)
machine("binarize", X=lambda: 0.5 * (bits() + bits(seed=1)), binarize="sample")


@case("boltzmann graph")
def _():
    from sktem.graphs import grid_graph

    learned = LatentBoltzmannMachine(
        grid_graph(3, 3), hidden=[1, 3, 5], max_iter=3, random_state=0
    ).fit(bits())
    return learned, {
        "scores": learned.score_samples(bits()[:10]),
        "sample": learned.sample(5),
    }


@case("boltzmann importance sampling")
def _():
    learned = LatentBoltzmannMachine(
        hidden_layer_sizes=(4, 3), max_iter=2, random_state=0
    ).fit(bits())
    found = learned.log_partition(method="ais", n_runs=10, n_temperatures=30)
    return learned, {"partition": found, "sample": learned.sample(3)}


@case("boltzmann graph gibbs")
def _():
    from sktem.graphs import grid_graph

    learned = LatentBoltzmannMachine(
        grid_graph(3, 3), hidden=[1, 3, 5], e_step="gibbs", max_iter=3, random_state=0
    ).fit(bits())
    return learned, {}


@case("boltzmann missing values")
def _():
    X = bits()
    X[::7, 2] = np.nan
    learned = LatentBoltzmannMachine(
        hidden_layer_sizes=3, max_iter=3, random_state=0
    ).fit(X)
    return learned, {"imputed": learned.impute(X[:14])}


@case("boltzmann stream")
def _():
    learned = LatentBoltzmannMachine(hidden_layer_sizes=3, random_state=0)
    for seed in range(3):
        learned.partial_fit(bits(seed=seed))
    return learned, {"sample": learned.sample(4)}


def mixed(name, rows=bolus, model="one_compartment_iv", **options):
    def fit():
        X, y, groups = rows()
        defaults = {
            "parameters": {"V": 10.0, "CL": 2.0},
            "max_iter": 30,
            "n_burn_in": 10,
            "tol": 0,
            "random_state": 0,
        }
        fitted = NonlinearMixedEffectsRegressor(model, **(defaults | options))
        fitted.fit(X, y, groups=groups)
        return fitted, {
            "predictions": fitted.predict(X),
            "individual": fitted.individual_parameters(),
            "likelihood": fitted.log_likelihood(),
        }

    case(f"mixed_effects {name}")(fit)


for error in ("constant", "proportional", "combined", "exponential"):
    mixed(f"error {error}", rows=lambda error=error: bolus(error), residual_error=error)
for solver in ("isaem", "vrttem", "fittem", "online", "biased-saem"):
    mixed(f"solver {solver}", solver=solver, max_iter=10)
for sampler in ("mala", "ula"):
    mixed(f"sampler {sampler}", sampler=sampler, max_iter=15)
mixed("full omega", omega="full")
mixed("covariate", inputs=[0, 1], covariates={"CL": [2]})
mixed("fixed", fixed={"V": 9.5})
mixed("tol", tol=0.5, max_iter=60)
mixed("seed", random_state=1)
mixed(
    "linear",
    rows=lines,
    model="linear",
    parameters={"intercept": 1.0, "slope": 1.0},
    transforms="normal",
)


def exponential_decay(psi, X):
    return X[:, 0] / psi["V"] * np.exp(-psi["CL"] / psi["V"] * X[:, 1])


mixed("own function", model=exponential_decay, max_iter=15)


@case("mixed_effects stream")
def _():
    fitted = NonlinearMixedEffectsRegressor(
        "one_compartment_iv", parameters={"V": 10.0, "CL": 2.0}, random_state=0
    )
    for seed in range(3):
        X, y, groups = bolus(seed=seed)
        fitted.partial_fit(X, y, groups=groups + 100 * seed)
    return fitted, {"predictions": fitted.predict(X)}


@case("mixed_effects checks")
def _():
    from sktem.evaluation import individual_residuals, visual_predictive_check

    X, y, groups = bolus()
    fitted = NonlinearMixedEffectsRegressor(
        "one_compartment_iv",
        parameters={"V": 10.0, "CL": 2.0},
        tol=0,
        max_iter=20,
        random_state=0,
    ).fit(X, y, groups=groups)
    check = visual_predictive_check(
        fitted, X, y, groups=groups, time=1, n_simulations=20, random_state=0
    )
    return fitted, {
        "errors": fitted.standard_errors(),
        "iwres": individual_residuals(fitted, X, y, groups=groups),
        "vpc": check,
    }


for solver, sampler in (
    ("saem", "auto"),
    ("isaem", "auto"),
    ("fittem", "auto"),
    ("saem", "mala"),
    ("saem", "ula"),
):

    def _(solver=solver, sampler=sampler):
        X, y = counts()
        fitted = RobustPoissonRegressor(
            solver=solver, sampler=sampler, max_iter=15, random_state=0
        ).fit(X, y)
        return fitted, {"predictions": fitted.predict(X)}

    case(f"robust_poisson {solver} {sampler}")(_)

for sampler in ("auto", "ula", "mala"):

    def _(sampler=sampler):
        X, y = classes()
        fitted = ARDLogisticClassifier(sampler=sampler, max_iter=30, random_state=0)
        return fitted.fit(X, y), {"probabilities": fitted.predict_proba(X)}

    case(f"ard_logistic {sampler}")(_)


# ------------------------------------------------------------ streams, and other faces


def stream(name, make, chunks, before=None, asked=()):
    """Add a stream of chunks, which may continue a fit."""

    def fit():
        learned = make()
        if before is not None:
            learned.fit(*before())
        for chunk, options in chunks():
            learned.partial_fit(*chunk, **options)
        return learned, answers(learned, chunks()[0][0][0], *asked)

    case(f"stream {name}")(fit)


def chunks_of(rows, n=4, **options):
    """Return a function that makes chunks of rows, with seeds."""
    return lambda: [((rows(seed=seed),), options) for seed in range(n)]


def rows_with_holes(seed=0):
    X = clusters(600, seed)
    if seed:
        X[::5, 1] = np.nan
    return X


def marks(n=300, seed=0):
    """Return rows of a number and a label."""
    rng = np.random.default_rng(seed)
    state = rng.integers(2, size=n)
    return np.column_stack([rng.normal(3.0 * state), (rng.random(n) < 0.2) ^ state])


def pieces(seed=0):
    return (clusters(90, seed),), {"continues": seed > 0}


def some_digits(seed=0):
    return digits(40)[0][8 * seed : 8 * seed + 8]


def mark_emission():
    from sktem.emissions import Categorical, Columns, Gaussian

    return Columns([("x", Gaussian("spherical"), [0]), ("y", Categorical(), [1])])


for solver in ("auto", "vrttem", "iem"):
    stream(
        f"mixture {solver}",
        lambda solver=solver: StochasticEMGaussianMixture(
            3, solver=solver, random_state=0
        ),
        chunks_of(lambda seed: clusters(600, seed)),
        asked=("predict_proba",),
    )
stream(
    "mixture first rows",
    lambda: StochasticEMGaussianMixture(3, n_init=2, random_state=0),
    chunks_of(lambda seed: clusters(100, seed), 3),
)
stream(
    "mixture holes",
    lambda: StochasticEMGaussianMixture(3, random_state=0),
    chunks_of(rows_with_holes),
)
stream(
    "mixture after fit",
    lambda: StochasticEMGaussianMixture(3, average="tail", random_state=0),
    chunks_of(clusters),
    lambda: (clusters(seed=9),),
)
stream(
    "emission mixture",
    lambda: StochasticEMMixture(2, emission=mark_emission(), random_state=0),
    chunks_of(lambda seed: marks(600, seed)),
    asked=("predict_proba",),
)
for solver in ("online", "fittem", "saem"):
    stream(
        f"stochastic_em {solver}",
        lambda solver=solver: StochasticEM(
            intercept_model(), solver=solver, max_iter=4, random_state=0
        ),
        chunks_of(intercepts),
        (lambda: (intercepts(seed=9),)) if solver == "saem" else None,
    )
for begins in (False, True):
    stream(
        f"hidden_markov {begins}",
        lambda: HiddenMarkovModel(3, emission="gaussian", random_state=0),
        chunks_of(clusters, lengths=[100, 50, 150]),
        (lambda: (clusters(seed=9),)) if begins else None,
        ("predict_proba",),
    )
stream(
    "hidden_markov pieces",
    lambda: HiddenMarkovModel(3, random_state=0),
    lambda: [pieces(seed) for seed in range(6)],
)
for n_hidden in (3, (4, 2)):
    stream(
        f"boltzmann {n_hidden}",
        lambda n_hidden=n_hidden: LatentBoltzmannMachine(
            hidden_layer_sizes=n_hidden, random_state=0
        ),
        chunks_of(bits),
        asked=("transform", "free_energy"),
    )
stream(
    "boltzmann first rows",
    lambda: LatentBoltzmannMachine(hidden_layer_sizes=3, random_state=0),
    chunks_of(lambda seed: bits(60, seed=seed), 1),
)
stream(
    "boltzmann weights",
    lambda: LatentBoltzmannMachine(hidden_layer_sizes=3, random_state=0),
    chunks_of(bits, sample_weight=np.linspace(0.5, 1.5, 200)),
)
stream(
    "boltzmann gaussian after fit",
    lambda: LatentBoltzmannMachine(
        hidden_layer_sizes=3, random_state=0, visible="gaussian", max_iter=5
    ),
    chunks_of(clusters),
    lambda: (clusters(seed=9),),
    ("score_samples",),
)
stream(
    "boltzmann hapcd after fit",
    lambda: LatentBoltzmannMachine(
        hidden_layer_sizes=(3, 2), random_state=0, solver="hapcd", max_iter=5
    ),
    chunks_of(bits),
    lambda: (bits(seed=9),),
)
stream(
    "template after start",
    lambda: DeformableTemplateEstimator((8, 8), max_iter=4, random_state=0),
    chunks_of(some_digits, 5),
    asked=("modes_of",),
)
stream(
    "template after fit",
    lambda: DeformableTemplateEstimator(
        (8, 8), max_iter=4, solver="vrttem", nuisances=("gain",), random_state=0
    ),
    chunks_of(some_digits, 2),
    lambda: (digits(30)[0],),
    ("score_samples",),
)


@case("stream mixed_effects after fit")
def _():
    fitted = NonlinearMixedEffectsRegressor(
        "one_compartment_iv",
        parameters={"V": 10.0, "CL": 2.0},
        max_iter=20,
        random_state=0,
    )
    X, y, groups = bolus()
    fitted.fit(X, y, groups=groups)
    for seed in range(1, 3):
        X, y, groups = bolus(seed=seed)
        fitted.partial_fit(X, y, groups=groups + 100 * seed)
    return fitted, {"predictions": fitted.predict(X)}


def conditional(name, kind, X, y, streams=False, **options):
    def fit():
        learned = kind(random_state=0, **options)
        if streams:
            for _ in range(2):
                learned.partial_fit(X, y, classes=np.unique(y))
        else:
            learned.fit(X, y)
        names = (
            ("predict",) if kind is BoltzmannMachineRegressor else ("predict_proba",)
        )
        return learned, answers(learned, X[:5], *names)

    case(f"boltzmann {name}")(fit)


conditional("classifier", BoltzmannMachineClassifier, *classes(), n_hidden=4)
conditional(
    "classifier stream", BoltzmannMachineClassifier, *classes(), True, n_hidden=4
)
conditional(
    "classifier outputs", BoltzmannMachineClassifier, bits(), bits(seed=1)[:, :3] > 0,
    n_hidden=3, weight_decay=0.01,
)  # fmt: skip
conditional("regressor", BoltzmannMachineRegressor, *counts(), n_hidden=2)
machine("auto", max_iter="auto")
machine("auto weights", max_iter="auto", weight_decay=0.0, tol=0.1, batch_size=20)
machine("visible", X=lambda: 2 * bits() - 1, visible="spin", max_iter="auto")
machine("sparse", X=lambda: sparse.csr_array(bits()))
machine("wide", X=lambda: bits(150, 30), hidden_layer_sizes=25, max_iter=30)
machine(
    "table", X=lambda: np.hstack([clusters(200), bits()]), visible="auto", max_iter=8
)


@case("boltzmann warm start")
def _():
    learned = LatentBoltzmannMachine(
        hidden_layer_sizes=3, max_iter=3, warm_start=True, random_state=0
    )
    learned.fit(bits()).fit(bits()).partial_fit(bits(seed=1)).fit(bits())
    return learned, {"marginals": learned.marginals(), "gibbs": learned.gibbs(bits())}


@case("boltzmann weighted rows")
def _():
    learned = LatentBoltzmannMachine(hidden_layer_sizes=3, max_iter=3, random_state=0)
    learned.fit(bits(), sample_weight=np.linspace(0.5, 1.5, 200))
    X = bits()[:8]
    X[::2, 1] = np.nan
    return learned, {
        "drawn": learned.sample_conditional(X),
        "chains": learned.impute(X, n_steps=10),
        "bracket": learned.log_partition("bracket", n_runs=20, n_temperatures=50),
    }


# ----------------------------------------------------------------------------- main


def run(name):
    """Return the digests of a configuration, or its exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            estimator, other = CASES[name]()
            found = of_fit(estimator)
            found.update({f"({key})": hexdigest(value) for key, value in other.items()})
        except Exception as error:  # compared like a result
            return {"error": f"{type(error).__name__}: {error}"}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("--compare", metavar="OLD.json")
    parser.add_argument("--only", default="")
    parser.add_argument("--slow", action="store_true", help="print slow configurations")
    options = parser.parse_args()
    print("sktem of", os.path.dirname(sktem.__file__))
    found, start = {}, time.process_time()
    for name in CASES:
        if options.only in name:
            begin = time.process_time()
            found[name] = run(name)
            if options.slow and time.process_time() - begin > 2:
                print(f"  {time.process_time() - begin:5.1f} s  {name}")
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1, sort_keys=True)
    errors = {n: f["error"] for n, f in found.items() if list(f) == ["error"]}
    print(f"{len(found)} configurations, {time.process_time() - start:.0f} CPU s")
    for name, error in errors.items():
        print(f"  RAISES {name}: {error[:200]}")
    if not options.compare:
        return 0
    with open(options.compare, encoding="utf-8") as file:
        old = json.load(file)
    wrong = 0
    for name in sorted({n for n in old if options.only in n} | set(found)):
        before, after = old.get(name), found.get(name)
        if before != after:
            wrong += 1
            if before is None or after is None:
                where = "the new" if before is None else "the old"
                print(f"  DIFFERS {name}: only in {where}")
                continue
            keys = sorted(
                key
                for key in set(before) | set(after)
                if before.get(key) != after.get(key)
            )
            print(f"  DIFFERS {name}: {', '.join(keys)}")
    print("all the same" if not wrong else f"{wrong} configurations differ")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
