"""scikit-learn's estimator checks, and those that it draws for other kinds only."""

import inspect
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import FactorAnalysis
from sklearn.mixture import GaussianMixture
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import BernoulliRBM
from sklearn.utils.estimator_checks import (
    estimator_checks_generator,
    parametrize_with_checks,
)

import sktem
from sktem import (
    DeformableTemplateClassifier,
    DeformableTemplateEstimator,
    DeformedCopiesClassifier,
    LatentBoltzmannMachine,
    StochasticEM,
    StochasticEMGaussianMixture,
    StochasticEMMixture,
)
from sktem.exceptions import FitWarning
from sktem.models import RandomInterceptModel

MIXTURES = [
    StochasticEMGaussianMixture(),
    StochasticEMGaussianMixture(2),
    StochasticEMGaussianMixture(2, covariance_type="tied", init_params="k-means++"),
    StochasticEMMixture(2),
    *(StochasticEMGaussianMixture(solver=name) for name in ("online", "fittem")),
]
# tol=0 never warns that a run has not converged; warnings are errors here.
DENSITIES = [
    *MIXTURES,
    StochasticEM(RandomInterceptModel(), solver="em", tol=0.0, max_iter=10),
]
SMALL = {"template_landmarks": 6, "deformation_landmarks": 3, "max_iter": 4}
TEMPLATES = [
    DeformableTemplateEstimator(**SMALL),
    DeformableTemplateEstimator(n_components=2, solver="saem", **SMALL),
    DeformableTemplateClassifier(temperature=1.0, **SMALL),
    DeformedCopiesClassifier(max_rows=200, random_state=0),
]
ESTIMATORS = [*DENSITIES, *TEMPLATES]

# Nothing that scikit-learn's own mixture passes is expected to fail, but for one thing:
# a Markov chain for each image means other draws for two images than for one of weight
# two, as for scikit-learn's own estimators that are random.
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "draws of repeated images differ"
}
# Likewise for machines: batches of repeated rows are other batches.
EXPECTED_OF_MACHINES = {
    f"check_sample_weight_equivalence_on_{kind}_data": "batches of repeated rows differ"
    for kind in ("dense", "sparse")
}


FEW = {"max_iter": 2, "tol": None, "hidden_layer_sizes": 3, "random_state": 0}
MACHINES = [
    LatentBoltzmannMachine(visible="gaussian", **FEW),
    LatentBoltzmannMachine(**FEW),
    LatentBoltzmannMachine(
        binarize=0.5, solver="mfpcd", **{**FEW, "hidden_layer_sizes": (3, 2)}
    ),
]
# Real-valued columns are refused where the matrix is sparse, which old versions of
# scikit-learn count as having passed.
DENSE_MACHINES = MACHINES[:1]
STRICT = (
    {"xfail_strict": True}
    if "xfail_strict" in inspect.signature(parametrize_with_checks).parameters
    else {}
)
checks = parametrize_with_checks(
    [*ESTIMATORS, *MACHINES],
    expected_failed_checks=lambda estimator: (
        EXPECTED
        if estimator in [*TEMPLATES, *DENSE_MACHINES]
        else EXPECTED_OF_MACHINES
        if estimator in MACHINES
        else {}
    ),
    **STRICT,
)


def names_of(estimator):
    found = estimator_checks_generator(estimator, legacy=True)
    return [getattr(check, "func", check).__name__ for _, check in found]


@checks
def test_estimator_check(estimator, check):
    if "check_array_api_input" in str(check):
        pytest.importorskip("scipy", "1.14", reason="scikit-learn dispatches from 1.14")
    with warnings.catch_warnings():
        # scikit-learn 1.6 fits ten rows of noise here, too few for templates.
        if estimator in TEMPLATES and "check_n_features_in_after_fitting" in str(check):
            warnings.simplefilter("ignore", FitWarning)
        # Sixteen images of two pixels, of which four differ.
        if estimator in TEMPLATES and "check_sample_weights_" in str(check):
            warnings.simplefilter("ignore", FitWarning)
        # Fifteen rows of ten columns, some without weight: no covariance matrix.
        if estimator in DENSITIES and "sample_weight_equivalence" in str(check):
            warnings.simplefilter("ignore", FitWarning)
        # Sixteen rows with four distinct ones, or five of noise, in two components.
        if getattr(estimator, "n_components", 1) == 2:
            warnings.simplefilter("ignore", FitWarning)
        # A hundred images with labels by chance.
        if isinstance(estimator, DeformedCopiesClassifier):
            warnings.simplefilter("ignore", FitWarning)
        # Some checks have columns of few whole numbers, as codes of categories are.
        if getattr(estimator, "visible", "") == "auto":
            warnings.simplefilter("ignore", FitWarning)
        check(estimator)


def test_no_check_is_dropped():
    peers = {
        type(estimator): set(names_of(GaussianMixture())) for estimator in DENSITIES
    }
    peers[DeformableTemplateEstimator] = set(names_of(FactorAnalysis()))
    for Classifier in (DeformableTemplateClassifier, DeformedCopiesClassifier):
        peers[Classifier] = set(names_of(GaussianNB()))
    weighted = {
        name
        for name in names_of(MiniBatchKMeans())
        if "sample_weight" in name and "sparse" not in name
    }
    assert len(weighted) > 5
    for estimator in ESTIMATORS:
        peer = {name for name in peers[type(estimator)] if "array_api" not in name}
        assert len(peer) > 30
        if estimator.__sklearn_tags__().input_tags.allow_nan:
            peer.remove("check_estimators_nan_inf")
        expected, names = peer | weighted, names_of(estimator)
        missing = expected - set(names)
        assert not missing, (estimator, missing)
        assert len(names) >= len(expected)


def test_no_check_of_a_machine_is_dropped():
    peer = set(names_of(BernoulliRBM()))
    # Missing values are welcome, and real numbers of Gaussian units are not sparse.
    welcome = {"check_estimators_nan_inf"}
    thin = {name for name in peer if "sparse" in name}
    assert len(peer) > 30
    for estimator in MACHINES:
        missing = peer - welcome - set(names_of(estimator))
        assert missing <= (thin if estimator.visible == "gaussian" else set())


def test_checks_are_collected(request):
    """What pytest runs, if it runs this whole file, is what scikit-learn yields."""
    collected = [
        item
        for item in request.session.items
        if getattr(item, "originalname", None) == "test_estimator_check"
        and item.module.__name__ == __name__
    ]
    yielded = sum(len(names_of(estimator)) for estimator in [*ESTIMATORS, *MACHINES])
    print(f"{len(collected)} estimator checks collected, {yielded} yielded")
    config = request.config
    asked = config.option.keyword or config.getoption("lf", False)
    if asked or any("::" in argument for argument in config.args):
        pytest.skip("only a part of the tests was asked for")
    assert len(collected) == yielded


@pytest.mark.parametrize("estimator", [*DENSITIES, *MACHINES], ids=repr)
def test_partial_fit_checks_the_number_of_features(estimator):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    estimator = type(estimator)(**estimator.get_params(deep=False))
    estimator.partial_fit(X)
    assert estimator.n_features_in_ == 4
    for method in ("partial_fit", "score", "score_samples"):
        with pytest.raises(ValueError, match="X has 3 features, but"):
            getattr(estimator, method)(X[:, :3])
    estimator.partial_fit(X)


@pytest.mark.parametrize("estimator", DENSITIES, ids=repr)
def test_partial_fit_after_fit_checks_the_number_of_features(estimator):
    X = np.random.default_rng(0).normal(size=(60, 4))
    estimator = type(estimator)(**estimator.get_params(deep=False)).set_params(tol=0.1)
    estimator.fit(X)
    with pytest.raises(ValueError, match="X has 5 features, but"):
        estimator.partial_fit(np.ones((3, 5)))
    estimator.partial_fit(X)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_feature_names(method):
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).normal(size=(60, 3))
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    mixture = getattr(StochasticEMGaussianMixture(2, random_state=0), method)(frame)
    assert list(mixture.feature_names_in_) == ["a", "b", "c"]
    other = frame.rename(columns={"b": "z"})
    with pytest.raises(ValueError, match="feature names"):
        mixture.partial_fit(other)
    with pytest.raises(ValueError, match="feature names"):
        mixture.predict(other)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        mixture.predict(X)


def test_mixture_transforms_nothing():
    mixture = StochasticEMGaussianMixture()
    assert not hasattr(mixture, "transform")
    assert not hasattr(mixture, "set_output")


@pytest.mark.parametrize("mixture", MIXTURES, ids=repr)
def test_mixture_is_a_density_estimator(mixture):
    assert mixture.__sklearn_tags__().estimator_type == "density_estimator"


def test_every_public_estimator_is_checked():
    """Each of them is in a list of checks: here, of supervised ones, or in its room."""
    here = Path(__file__).parent
    files = [*here.glob("test_common*.py"), here / "mixture" / "test_outliers.py",
             here / "mixture" / "test_imputer.py",
             here / "hidden_markov" / "test_estimator.py"]  # fmt: skip
    checked = "".join(file.read_text() for file in files)
    estimators = [
        name
        for name in sktem.__all__
        if hasattr(getattr(sktem, name), "get_params")
        and hasattr(getattr(sktem, name), "fit")
    ]
    assert len(estimators) > 10
    assert not [name for name in estimators if f"{name}(" not in checked]
