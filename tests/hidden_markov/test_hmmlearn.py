"""The path of EM is that of hmmlearn from the same start."""

import warnings

import numpy as np
import pytest

from sktem import HiddenMarkovModel
from sktem.emissions import Gaussian, Mixture, Multinomial

hmm = pytest.importorskip("hmmlearn.hmm")

LENGTHS = [60, 1, 110, 80]
START = np.array([0.5, 0.3, 0.2])
TRANSITIONS = np.array([[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.05, 0.15, 0.8]])
MEANS = np.array([[0.0, 0.0], [2.0, 1.0], [-1.0, 2.0]])
PASSES = 25
FIXED = {"n_iter": PASSES, "tol": -np.inf, "init_params": ""}


def fitted_peer(peer, X, **values):
    for name, value in {
        "startprob_": START,
        "transmat_": TRANSITIONS,
        **values,
    }.items():
        setattr(peer, name, value.copy())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return peer.fit(X, LENGTHS)


def fitted(emission, X, values, **options):
    options = {"max_iter": PASSES, "tol": 0, **options}
    return HiddenMarkovModel(
        3, emission=emission, start_init=START, transitions_init=TRANSITIONS,
        emission_init=values, **options,
    ).fit(X, lengths=LENGTHS)  # fmt: skip


def compare(ours, peer, X, has_ties=False):
    np.testing.assert_allclose(ours.start_, peer.startprob_, atol=1e-10)
    np.testing.assert_allclose(ours.transitions_, peer.transmat_, atol=1e-10)
    total = ours.score_samples(X, lengths=LENGTHS).sum()
    assert total == pytest.approx(peer.score(X, LENGTHS), rel=1e-12)
    scores, states = ours.decode(X, lengths=LENGTHS)
    score, path = peer.decode(X, LENGTHS)
    assert scores.sum() == pytest.approx(score, rel=1e-12)
    assert has_ties or (states == path).all()
    probabilities = ours.predict_proba(X, lengths=LENGTHS)
    expected = peer.predict_proba(X, LENGTHS)
    np.testing.assert_allclose(probabilities, expected, atol=1e-10)


#: What is held where hmmlearn learns what letters stand for: with "c" it needs "m".
HELD = {"stmc": (), "stm": ("covariances",)}


@pytest.mark.parametrize("letters", HELD)
@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_gaussian(kind, letters):
    rng = np.random.default_rng(0)
    X = MEANS[rng.integers(3, size=sum(LENGTHS))] + rng.normal(size=(sum(LENGTHS), 2))
    covariances = {
        "full": np.stack([np.eye(2) * scale for scale in (1.0, 2.0, 3.0)]),
        "tied": np.eye(2),
        "diag": np.full((3, 2), 1.5),
        "spherical": np.full(3, 1.5),
    }[kind]
    peer = hmm.GaussianHMM(
        3, covariance_type=kind, min_covar=0, **FIXED, covars_prior=0, params=letters,
        covars_weight=0 if kind in ("full", "tied") else 1,
    )  # fmt: skip
    fitted_peer(peer, X, means_=MEANS, covars_=covariances)
    values = {"means": MEANS, "covariances": covariances}
    emission, options = Gaussian(kind, reg_covar=0), {"fixed": HELD[letters]}
    ours = fitted(emission, X, values, **options)
    compare(ours, peer, X)
    for name in HELD[letters]:
        np.testing.assert_array_equal(
            getattr(ours.emission_params_, name), values[name]
        )
    np.testing.assert_allclose(ours.emission_params_.means, peer.means_, atol=1e-10)
    expected = peer._covars_
    if kind == "spherical":
        expected = np.reshape(expected, (3, -1))[:, 0]
    found = ours.emission_params_.covariances
    np.testing.assert_allclose(found, expected, atol=1e-10)
    # The negative control: one pass fewer is another point of the path.
    fewer = fitted(emission, X, values, max_iter=PASSES - 1, **options)
    assert np.abs(fewer.transitions_ - peer.transmat_).max() > 1e-6


#: Codes that some states, and one that no row, cannot have.
ZEROS = np.array([[0.7, 0.0, 0.0, 0.3], [0.0, 0.5, 0.0, 0.5], [0.3, 0.4, 0.3, 0.0]])


@pytest.mark.parametrize(
    "name", ["categorical", "zeros", "zeros of counts", "poisson", "multinomial"]
)
def test_counts_and_labels(name):
    rng, n = np.random.default_rng(0), sum(LENGTHS)
    X, emission, init, peer, theirs = {
        "categorical": lambda: (
            rng.integers(4, size=(n, 1)), name,
            {"probabilities": (p := rng.dirichlet(np.ones(4), size=3))[:, None]},
            hmm.CategoricalHMM(3, **FIXED), {"emissionprob_": p},
        ),
        "zeros": lambda: (
            rng.choice([0, 1, 3], size=(n, 1)), "categorical",
            {"probabilities": ZEROS[:, None]},
            hmm.CategoricalHMM(3, **FIXED), {"emissionprob_": ZEROS},
        ),
        "zeros of counts": lambda: (
            np.stack([rng.multinomial(6, ZEROS[k]) for k in rng.integers(3, size=n)]),
            Multinomial(), {"probabilities": ZEROS},
            hmm.MultinomialHMM(3, n_trials=6, **FIXED), {"emissionprob_": ZEROS},
        ),
        "poisson": lambda: (
            rng.poisson(5, size=(n, 2)), name,
            {"rates": (p := rng.uniform(2, 8, size=(3, 2)))},
            hmm.PoissonHMM(3, **FIXED), {"lambdas_": p},
        ),
        "multinomial": lambda: (
            rng.multinomial(12, rng.dirichlet(np.ones(4), size=n)), Multinomial(),
            {"probabilities": (p := rng.dirichlet(np.ones(4), size=3))},
            hmm.MultinomialHMM(3, n_trials=12, **FIXED), {"emissionprob_": p},
        ),
    }[name]()  # fmt: skip
    fitted_peer(peer, X, **theirs)
    ours = fitted(emission, X, init)
    compare(ours, peer, X, has_ties=name == "zeros")
    (field,), (attribute,) = init, theirs
    found = np.squeeze(getattr(ours.emission_params_, field))
    np.testing.assert_allclose(found, getattr(peer, attribute), atol=1e-9)
    if name.startswith("zeros"):
        assert (found[ZEROS == 0] == 0).all()
        assert (found[ZEROS > 0] > 0).all()
        d = X.shape[1]
        # A code of no row, which only the last state could have, is no parameter.
        n_free = {"zeros": 3, "zeros of counts": 4}[name]
        assert ours.emission_.n_parameters(3, d, ours.emission_params_) == n_free
        wrong = ZEROS[[0, 0, 0]]
        with pytest.raises(ValueError, match="zeros of .* exclude all its paths"):
            values = wrong[:, None] if name == "zeros" else wrong
            fitted(emission, X, {"probabilities": values})
    if name == "multinomial":
        assert ours.sample(50)[0].sum(axis=1).tolist() == [12.0] * 50


def test_dirichlet_priors():
    rng = np.random.default_rng(0)
    X = rng.poisson(5, size=(sum(LENGTHS), 2))
    rates = rng.uniform(2, 8, size=(3, 2))
    priors = np.array([[3.0, 1.0, 2.0], [1.5, 4.0, 1.0], [1.0, 1.0, 1.0]])
    peer = hmm.PoissonHMM(3, startprob_prior=2.5, transmat_prior=priors, **FIXED)
    fitted_peer(peer, X, lambdas_=rates)
    options = {"start_prior": 2.5, "transitions_prior": priors}
    ours = fitted("poisson", X, {"rates": rates}, **options)
    compare(ours, peer, X)


def mixtures(kind, distance):
    """Return rows of states with two bumps each, and values to start from."""
    rng = np.random.default_rng(3)
    means = distance * np.array([[0.0, 0], [1, 0], [0, 1], [1, 1], [2, 0], [2, 1]])
    X = means[rng.integers(6, size=sum(LENGTHS))]
    X = X + rng.normal(size=X.shape)
    shapes = {"full": np.stack([np.eye(2)] * 6), "diag": np.ones((6, 2)),
              "spherical": np.ones(6), "unit": np.ones(6)}  # fmt: skip
    weights = rng.dirichlet(np.full(2, 5.0), size=3)
    components = {"means": means + 0.3 * rng.normal(size=means.shape)}
    components["covariances"] = shapes[kind]
    return X, {"weights": weights, "components": components}


@pytest.mark.parametrize("letters", ["stmw", "stm", "stw"])
def test_mixtures_of_known_covariances(letters):
    X, values = mixtures("spherical", 2.0)
    peer = hmm.GMMHMM(3, 2, covariance_type="spherical", params=letters, **FIXED)
    components = values["components"]
    fitted_peer(
        peer, X, weights_=values["weights"],
        means_=components["means"].reshape(3, 2, 2), covars_=np.ones((3, 2)),
    )  # fmt: skip
    held = {"stmw": (), "stm": ("weights",), "stw": ("components",)}[letters]
    ours = fitted(Mixture(Gaussian("unit"), 2), X, values, fixed=held)
    compare(ours, peer, X)
    params = ours.emission_params_
    np.testing.assert_allclose(params.weights, peer.weights_, atol=1e-10)
    found = params.components.means.reshape(3, 2, 2)
    np.testing.assert_allclose(found, peer.means_, atol=1e-9)
    fewer = fitted(Mixture(Gaussian("unit"), 2), X, values, max_iter=PASSES - 1)
    assert np.abs(fewer.transitions_ - peer.transmat_).max() > 1e-6


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_mixtures_end_where_hmmlearn_stays(kind):
    # Its covariances are about the means of the pass before, which is not EM, so that
    # only the ends are the same.
    X, values = mixtures(kind, 5.0)
    emission = Mixture(Gaussian(kind, reg_covar=0), 2)
    ours = fitted(emission, X, values, max_iter=200)
    params = ours.emission_params_
    peer = hmm.GMMHMM(3, 2, covariance_type=kind, min_covar=0, **{**FIXED, "n_iter": 1})
    covariances = params.components.covariances
    fitted_peer(
        peer, X, startprob_=ours.start_, transmat_=ours.transitions_,
        weights_=params.weights, means_=params.components.means.reshape(3, 2, 2),
        covars_=covariances.reshape(3, 2, *covariances.shape[1:]),
    )  # fmt: skip
    compare(ours, peer, X)
    np.testing.assert_allclose(
        peer.covars_.ravel(), covariances.ravel(), rtol=1e-7, atol=1e-8
    )
    begun = fitted(emission, X, values, max_iter=1)
    assert np.abs(begun.transitions_ - peer.transmat_).max() > 1e-4


def test_models_of_given_values_answer_alike():
    """Without a pass a fit holds what it is given: paths and scores are hmmlearn's."""
    start, transitions = (
        np.array([0.6, 0.4, 0.0]),
        np.array([[0.7, 0.2, 0.1], [0.0, 0.8, 0.2], [0.3, 0.0, 0.7]]),
    )
    means, variances = np.array([[0.0], [2.0], [5.0]]), np.array([[1.0], [0.5], [2.0]])
    peer = hmm.GaussianHMM(3, "diag")
    peer.startprob_, peer.transmat_ = start, transitions
    peer.means_, peer.covars_ = means, variances
    X, _ = peer.sample(90, random_state=0)
    lengths = [40, 50]
    ours = HiddenMarkovModel(
        3,
        emission=Gaussian("diag"),
        start_init=start,
        transitions_init=transitions,
        emission_init={"means": means, "covariances": variances},
        max_iter=0,
    ).fit(X, lengths=lengths)
    value, path = peer.decode(X, lengths)
    values, states = ours.decode(X, lengths=lengths)
    np.testing.assert_array_equal(states, path)
    np.testing.assert_allclose(values.sum(), value)
    total = ours.score_samples(X, lengths=lengths).sum()
    np.testing.assert_allclose(total, peer.score(X, lengths))
    np.testing.assert_allclose(
        ours.predict_proba(X, lengths=lengths), peer.predict_proba(X, lengths)
    )
    rows, drawn = ours.sample(30)
    assert rows.shape == (30, 1) and drawn.shape == (30,)
