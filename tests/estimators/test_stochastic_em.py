"""StochasticEM: the scikit-learn face of the loop."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from sktem import StochasticEM
from sktem.exceptions import FitWarning
from sktem.models import RandomInterceptModel
from sktem.samplers import (
    MALA,
    SAMPLERS,
    ULA,
    ComponentWalk,
    ExactDraws,
    ExactExpectation,
    GrowingDraws,
    RandomWalk,
)
from sktem.schedules import BurnInThenDecay, Polynomial
from sktem.solvers import FITTEM, ISAEM, SOLVERS, VRTTEM, FullBatch
from tests.oracles import (
    Counting,
    Interrupting,
    Recording,
    Target,
    closed_form_mle,
    em_step,
    m_step,
    random_intercept_data,
)

X = random_intercept_data(8, n_rows=200)
MODEL = RandomInterceptModel()


#: What four passes of SAEM with Markov chains have by default.
BURN_IN = BurnInThenDecay(2, 0.6)


def estimator(**options):
    return StochasticEM(MODEL, **{"random_state": 0, "tol": 0, **options})


def bits(em):
    return np.array(em.params_).tobytes(), em.statistics_.tobytes()


class Own(ExactDraws):
    """A sampler without a name."""


# ---------------------------------------------------------------- names and instances


@pytest.mark.parametrize("solver", SOLVERS)
def test_default_fit_of_every_solver(solver):
    em = estimator(solver=solver, max_iter=15).fit(X)
    assert em.params_ == m_step(em.statistics_)
    assert em.n_iter_ <= 15
    assert len(em.history_) <= 15
    assert em.n_features_in_ == 5
    np.testing.assert_allclose(em.params_, closed_form_mle(X), atol=0.3)


@pytest.mark.parametrize(
    "options, same",
    [
        ({"solver": "saem"}, {"solver": FullBatch(), "sampler": "mc"}),
        ({"solver": "auto"}, {"solver": "em"}),
        ({"sampler": "exact"}, {"solver": "em"}),
        ({"sampler": ExactExpectation()}, {"solver": "em"}),
        ({"sampler": "mc"}, {"solver": "saem"}),
        ({}, {"solver": FullBatch()}),
        ({"solver": "em"}, {"solver": FullBatch(), "sampler": "exact"}),
        ({"solver": "mcem"}, {"solver": FullBatch(), "sampler": "mc", "step_size": 1}),
        ({"solver": "iem"}, {"solver": "isaem", "sampler": "exact"}),
        ({"solver": "isaem", "sampler": "mc"}, {"solver": ISAEM(), "sampler": "mc"}),
        ({"solver": "fittem"}, {"solver": FITTEM()}),
        ({"solver": "vrttem"}, {"solver": VRTTEM()}),
        ({"solver": "biased-saem"}, {"solver": "saem", "sampler": ULA()}),
        ({"sampler": "rwm"}, {"sampler": RandomWalk()}),
        ({"sampler": "mc"}, {"sampler": ExactDraws(10)}),
        (
            {"sampler": "mala"},
            {"sampler": MALA(), "step_size": BurnInThenDecay(2, 0.6)},
        ),
        (
            {"solver": "isaem", "sampler": "mala"},
            {"solver": ISAEM(), "sampler": MALA()},
        ),
        ({"solver": "online"}, {"solver": "online", "step_size": Polynomial(0.6, 2)}),
        ({"solver": "isaem"}, {"solver": "isaem", "batch_size": 10}),
    ],
)
def test_what_names_and_auto_mean(options, same):
    first = estimator(max_iter=4, **options).fit(X)
    second = estimator(max_iter=4, **same).fit(X)
    assert bits(first) == bits(second)


def test_auto_sampler_is_the_one_with_the_least_noise():
    class OnlyDraws(RandomInterceptModel):
        posterior = property()  # as if it had none

    class OnlyChains(OnlyDraws):
        draw_posterior = property()

    draws = estimator(max_iter=3).set_params(model=OnlyDraws()).fit(X)
    assert bits(draws) == bits(estimator(max_iter=3, sampler="mc").fit(X))
    assert (draws.history_.solver, draws.history_.sampler) == ("saem", "mc")

    class OnlyDensity(OnlyChains):
        grad_log_joint = property()

    class Nothing(OnlyDensity):
        log_joint = property()

    for model, sampler in [(OnlyChains(), "hmc"), (OnlyDensity(), "rwm")]:
        # The steps of chains are adapted within some iterations.
        chains = estimator(max_iter=30).set_params(model=model).fit(X)
        assert bits(chains) == bits(
            estimator(max_iter=30, sampler=sampler).set_params(model=model).fit(X)
        )
        assert (chains.history_.solver, chains.history_.sampler) == ("saem", sampler)
    with pytest.raises(ValueError, match="Nothing offers no way to its latents"):
        estimator().set_params(model=Nothing()).fit(X)


@pytest.mark.parametrize(
    "sampler", ["rwm", "hmc", "mala", "ula", ComponentWalk(n_prior=0)]
)
def test_latents_that_are_no_real_numbers_are_an_error(sampler):
    class Labels(RandomInterceptModel):
        def initial_latents(self, X, params, rng):
            return super().initial_latents(X, params, rng).astype(int)

    with pytest.raises(TypeError, match="latents of type int64.* real numbers"):
        estimator(sampler=sampler, max_iter=3).set_params(model=Labels()).fit(X)


def test_saem_draws():
    """It never takes expectations by itself, and says what it needs."""

    class NoDraws(RandomInterceptModel):
        draw_posterior = property()

    saem = estimator(solver="saem", max_iter=5).fit(X)
    assert (saem.history_.solver, saem.history_.sampler) == ("saem", "mc")
    # With draws, another seed gives another result; EM does not depend on it.
    other = estimator(solver="saem", max_iter=5, random_state=1).fit(X)
    assert bits(saem) != bits(other)
    em = estimator(max_iter=5).fit(X)
    assert bits(em) == bits(estimator(max_iter=5, random_state=1).fit(X))
    assert (em.history_.solver, em.history_.sampler) == ("em", "exact")
    chains = estimator(solver="saem", max_iter=30).set_params(model=NoDraws()).fit(X)
    assert (chains.history_.solver, chains.history_.sampler) == ("saem", "hmc")


@pytest.mark.parametrize(
    "options, names",
    [
        ({"solver": ISAEM(), "sampler": ExactDraws(2)}, ("ISAEM", "mc")),
        ({"solver": "biased-saem"}, ("biased-saem", "ula")),
        ({"sampler": Own()}, ("saem", "Own")),
    ],
)
def test_a_history_names_what_has_run(options, names):
    history = estimator(max_iter=3, **options).fit(X).history_
    assert (history.solver, history.sampler) == names


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"solver": "sgd"}, ValueError, "solver must be one of .*'biased-saem'.*'em'"),
        ({"sampler": "nuts"}, ValueError, "sampler must be one of .*'exact'.*'ula'"),
        ({"sampling": "all"}, ValueError, "sampling must be one of .*'fixed'"),
        ({"solver": 3}, TypeError, "solver must be one of .* instance of Solver"),
        ({"sampler": 3}, TypeError, "sampler must be one of .* instance of Sampler"),
        ({"solver": "em", "sampler": "mc"}, ValueError, "'em' means the sampler 'exac"),
        ({"solver": FITTEM(rho=2.0)}, ValueError, "rho must be"),
        ({"sampler": ExactDraws(0)}, ValueError, "n_draws must be a positive"),
        ({"batch_size": 0}, ValueError, "batch_size must be an integer >= 1"),
        ({"batch_size": 2.5}, ValueError, "batch_size must be an integer"),
        ({"batch_size": "big"}, ValueError, "batch_size must be an integer"),
        ({"max_iter": -1}, ValueError, "max_iter must be an integer >= 0"),
        ({"max_iter": True}, ValueError, "max_iter must be an integer"),
        ({"tol": -1.0}, ValueError, "tol must be a number >= 0"),
        ({"tol": float("nan")}, ValueError, "tol must be a number"),
        ({"n_iter_no_change": 0}, ValueError, "n_iter_no_change must be an integer"),
        ({"step_size": 0.0}, ValueError, r"step_size must be in \(0, 1\]"),
        ({"step_size": "fast"}, TypeError, "step_size must be a number"),
        ({"average": "all"}, ValueError, "average must be"),
        ({"random_state": "x"}, ValueError, "cannot be used to seed"),
        ({"memory": __file__}, ValueError, "memory must be the path of a folder, '.*'"),
        ({"memory": 3}, TypeError, "memory must be the path of a folder or None"),
        ({"model": "gmm"}, TypeError, "model must be an instance of LatentModel"),
        ({"model": RandomInterceptModel}, TypeError, "model must be an instance"),
    ],
)
def test_wrong_parameters(options, error, message):
    with pytest.raises(error, match=message):
        estimator().set_params(**options).fit(X)


@pytest.mark.parametrize(
    "data, message",
    [
        (np.full((3, 2), np.nan), "NaN"),
        (np.array([[1.0, np.inf]]), "infinity"),
        (np.zeros((0, 2)), "0 sample"),
        (np.zeros(3), "Expected 2D array"),
    ],
)
def test_wrong_data(data, message):
    with pytest.raises(ValueError, match=message):
        estimator().fit(data)


def test_wrong_number_of_features():
    em = estimator(max_iter=2).fit(X)
    for method in (em.score_samples, em.score, em.partial_fit):
        with pytest.raises(ValueError, match="X has 3 features, but StochasticEM"):
            method(X[:, :3])


def test_single_precision_is_kept_and_agrees():
    seen = []

    class Watched(RandomInterceptModel):
        def posterior(self, X, params):
            seen.append(X.dtype)
            return super().posterior(X, params)

    em = StochasticEM(Watched(), solver="em", tol=0, max_iter=30)
    em.fit(X.astype(np.float32))
    assert set(seen) == {np.dtype(np.float32)}
    np.testing.assert_allclose(em.params_, closed_form_mle(X), rtol=1e-5)


# ----------------------------------------------------------------- reproducibility

REPRODUCED = [
    {"solver": "fittem", "sampler": "mc"},
    {"solver": "isaem", "sampler": "rwm", "sampling": "shuffle"},
    {"solver": "vrttem", "sampler": "mala", "average": 2},
    {"solver": "online", "sampler": "ula", "sampling": "inclusion"},
    {
        "solver": "saem",
        "sampler": ExactDraws(GrowingDraws(2)),
        "average": "random",
    },
]


@pytest.mark.parametrize("options", REPRODUCED)
def test_same_seed_same_bits(options):
    em = estimator(max_iter=4, **options)
    first = bits(em.fit(X))
    assert bits(em.fit(X)) == first
    assert bits(clone(em).fit(X)) == first
    assert bits(pickle.loads(pickle.dumps(em)).fit(X)) == first
    assert bits(clone(em).set_params(random_state=1).fit(X)) != first
    generator = np.random.RandomState(3)
    em.set_params(random_state=generator)
    assert bits(em.fit(X)) != bits(em.fit(X))


def test_a_fit_leaves_parameters_alone():
    parts = {"solver": FITTEM(), "sampler": ExactDraws(2), "step_size": Polynomial()}
    em = estimator(max_iter=3, **parts)
    before = {name: repr(value) for name, value in em.get_params().items()}
    em.fit(X)
    after = {name: repr(value) for name, value in em.get_params().items()}
    assert after == before
    assert em.solver is parts["solver"]


@pytest.mark.filterwarnings("ignore:MALA accepted")
def test_nested_parameters():
    em = estimator(solver=FITTEM(), sampler=MALA(), step_size=Polynomial(), max_iter=3)
    em.set_params(solver__rho=0.3, sampler__step=0.02, step_size__alpha=0.9)
    assert em.solver.rho == 0.3
    same = estimator(
        solver=FITTEM(rho=0.3),
        sampler=MALA(step=0.02),
        step_size=Polynomial(alpha=0.9),
        max_iter=3,
    )
    assert bits(em.fit(X)) == bits(same.fit(X))
    copied = clone(em)
    assert copied.solver is not em.solver
    assert copied.get_params()["sampler__step"] == 0.02
    for text in ("FITTEM(rho=0.3)", "MALA(step=0.02)", "Polynomial(alpha=0.9)"):
        assert text in repr(em)


# ------------------------------------------------------------------ fitted attributes


def test_em_against_steps_by_hand():
    em = estimator(solver="em", max_iter=7).fit(X)
    params = MODEL.initial_params(X, None)
    for _ in range(7):
        params = em_step(X, params)
    np.testing.assert_allclose(em.params_, params, rtol=1e-12)
    assert em.n_iter_ == 7
    assert not em.converged_


@pytest.mark.parametrize("solver", ["isaem", "vrttem", "fittem", "iem"])
@pytest.mark.parametrize("max_iter", [1, 2, 5])
def test_n_iter_counts_all_passes(solver, max_iter):
    em = StochasticEM(Counting(), solver=solver, max_iter=max_iter, tol=0).fit(X)
    epochs = len(em.history_)
    assert em.n_iter_ == max_iter  # the initial pass is one of them
    assert sum(em.model.visits) <= (max_iter + epochs) * len(X)
    assert np.isfinite(em.params_).all()


def test_no_pass_at_all():
    for solver in SOLVERS:
        em = estimator(solver=solver, max_iter=0).fit(X)
        assert em.params_ == MODEL.initial_params(X, None)
        assert em.n_iter_ == 0


@pytest.mark.parametrize("sampling", ["fixed", "shuffle", "inclusion"])
@pytest.mark.parametrize("solver", ["online", "isaem", "fittem"])
def test_fewer_visits_than_expected_do_no_harm(solver, sampling):
    """Distinct rows of weighted or random batches may take more epochs than passes."""
    weights = np.r_[np.full(20, 50.0), np.ones(180)]
    for w in (None, weights):
        best = estimator(solver="em", max_iter=100).fit(X, sample_weight=w)
        em = estimator(solver=solver, sampling=sampling, batch_size=10, max_iter=4)
        em.fit(X, sample_weight=w)
        # The start is a nat per row below the maximum.
        assert best.score(X, None, w) - em.score(X, None, w) < 0.02


def test_scores():
    em = estimator(solver="em", max_iter=3).fit(X)
    cov = em.params_.variance + em.params_.noise_variance * np.eye(5)
    from scipy.stats import multivariate_normal

    expected = multivariate_normal(np.full(5, em.params_.mean), cov).logpdf(X)
    np.testing.assert_allclose(em.score_samples(X), expected, rtol=1e-10)
    weights = np.arange(1.0, 201.0)
    assert em.score(X) == pytest.approx(expected.mean())
    assert em.score(X, sample_weight=weights) == pytest.approx(
        np.average(expected, weights=weights)
    )


def test_scores_only_where_the_model_has_a_likelihood():
    class Plain(Target):
        dimension = 1

    em = StochasticEM(Plain())
    assert not hasattr(em, "score")
    assert not hasattr(em, "score_samples")
    assert hasattr(estimator(), "score")
    with pytest.raises(NotFittedError):
        estimator().score(X)


# ---------------------------------------------------------------------------- weights


@pytest.mark.parametrize("solver", ["em", "isaem", "fittem"])
def test_weights_mean_repetition(solver):
    repeats = np.random.default_rng(0).integers(0, 4, size=200)
    em = estimator(solver=solver, max_iter=90)
    found = em.fit(X, sample_weight=repeats).params_
    expected = closed_form_mle(np.repeat(X, repeats, axis=0))
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_weights_of_zero_are_rows_left_out():
    keep = np.arange(200) % 3 > 0
    weights = np.where(keep, 1.0, 0.0)
    for solver in ("em", "isaem", "online"):
        em = estimator(solver=solver, sampler="exact", max_iter=5)
        weighted = bits(em.fit(X, sample_weight=weights))
        assert weighted == bits(em.fit(X[keep]))
        ones = bits(em.fit(X, sample_weight=np.ones(200)))
        assert ones == bits(em.fit(X))


@pytest.mark.parametrize(
    "weights, message",
    [
        (np.zeros(200), "(?i)zero"),
        (np.full(200, -1.0), "Negative values in data passed to"),
        (np.ones(5), "sample_weight.shape"),
        (np.full(200, np.nan), "NaN"),
    ],
)
def test_wrong_weights(weights, message):
    # A chunk without weight is one of a stream, and says nothing.
    for method in ("fit", "partial_fit") if weights.any() else ("fit",):
        with pytest.raises(ValueError, match=message):
            getattr(estimator(max_iter=2), method)(X, sample_weight=weights)


# ---------------------------------------------------------- warnings, starts, prints


def test_warning_if_not_converged():
    with pytest.warns(ConvergenceWarning, match="before it converged"):
        estimator(solver="em", max_iter=2, tol=1e-9).fit(X)
    em = estimator(solver="em", max_iter=200, tol=1e-9).fit(X)
    assert em.converged_
    assert em.n_iter_ < 100


def test_warning_if_something_was_mended():
    class Frozen(RandomInterceptModel):
        def degeneracies(self, params):
            return 1

    em = StochasticEM(Frozen(), solver="em", max_iter=3, tol=0)
    with pytest.warns(FitWarning, match="3 degenerate"):
        em.fit(X)
    assert em.history_.events["degenerate"] == 3


def test_warm_start_goes_on():
    em = estimator(solver="em", max_iter=2, warm_start=True)
    twice = em.fit(X).fit(X).params_
    once = estimator(solver="em", max_iter=4).fit(X).params_
    np.testing.assert_allclose(twice, once, rtol=1e-12)
    cold = estimator(solver="em", max_iter=2).fit(X).fit(X).params_
    assert np.abs(np.subtract(cold, once)).max() > 1e-3


def test_partial_fit_after_fit_and_fit_after_partial_fit():
    em = estimator(solver="online", max_iter=10)
    fitted = bits(em.fit(X))
    em.partial_fit(X[:50])
    assert bits(em) != fitted
    assert bits(em.fit(X)) == fitted


def test_rows_of_a_stream_that_are_sorted_are_told():
    """The mean of the intercepts is then about that of the last rows."""
    rng = np.random.default_rng(0)
    X = 3 + 2 * rng.normal(size=(2000, 1)) + rng.normal(size=(2000, 4))

    def mean_of(rows):
        em = StochasticEM(RandomInterceptModel(), random_state=0)
        for chunk in np.split(rows, 20):
            em.partial_fit(chunk)
        return float(em.params_.mean)

    assert abs(mean_of(X) - X.mean()) < 0.2
    with pytest.warns(FitWarning, match="come in an order") as caught:
        found = mean_of(X[np.argsort(X.mean(axis=1))])
    assert len(caught) == 1 and found > X.mean() + 0.5


def test_prints(capsys):
    estimator(solver="em", max_iter=3).fit(X)
    assert capsys.readouterr().out == ""
    estimator(solver="em", max_iter=4, verbose=1, verbose_interval=2).fit(X)
    out = capsys.readouterr().out
    assert out.splitlines() == [
        "Initialization 0",
        "  Iteration 2",
        "  Iteration 4",
        "Initialization did not converge.",
    ]
    em = estimator(solver="em", max_iter=3, verbose=2, verbose_interval=1).fit(X)
    out = capsys.readouterr().out
    change = em.history_.objective[-1] - em.history_.objective[-2]
    assert f"ll change {change:.5f}" in out
    assert f"lower bound {em.history_.objective[-1]:.5f}." in out
    assert not [name for name in vars(em) if name.startswith("_clock")]


# ------------------------------------------------------------------------- interrupts


@pytest.mark.filterwarnings("ignore:.*no effect")
@pytest.mark.parametrize("solver", ["em", "online", "isaem", "vrttem", "fittem"])
def test_interrupt_leaves_a_usable_estimator(solver):
    options = {"solver": solver, "batch_size": 20, "tol": 0, "random_state": 0}
    at = 7 if solver == "em" else 25  # ten iterations make an epoch of the others
    em = StochasticEM(Interrupting(at), max_iter=50, **options)
    with pytest.raises(KeyboardInterrupt):
        em.fit(X)
    finished = 6 if solver == "em" else 20
    assert em.params_ == em.model.seen[finished - 1] == m_step(em.statistics_)
    assert em.history_.n_iterations[-1] == finished
    assert em.n_iter_ == np.ceil(em.history_.passes[-1])
    assert np.isfinite(em.score(X))
    em.fit(X)  # the model raises once
    whole = StochasticEM(MODEL, max_iter=50, **options).fit(X)
    assert bits(em) == bits(whole)


def test_interrupt_before_the_first_epoch():
    em = StochasticEM(Interrupting(1), solver="online", max_iter=5)
    with pytest.raises(KeyboardInterrupt):
        em.fit(X)
    assert em.params_ == MODEL.initial_params(X, None)
    assert em.n_iter_ == 0
    assert np.isfinite(em.score(X))


def test_the_returned_iterate_follows_from_its_statistics():
    for average in (False, True, 3, "random"):
        model = Recording()
        em = StochasticEM(
            model, sampler="mc", average=average, max_iter=8, tol=0, random_state=0
        ).fit(X)
        assert em.params_ == m_step(em.statistics_)
        if average == 3:
            mean = np.mean(model.seen[3:8], axis=0)
            np.testing.assert_allclose(em.statistics_, mean, rtol=1e-12)


def test_samplers_by_name_fit():
    for name in SAMPLERS:
        em = estimator(sampler=name, max_iter=30).fit(X)
        np.testing.assert_allclose(em.params_, closed_form_mle(X), atol=0.4)


@pytest.mark.parametrize("X", [np.full((20, 3), 2.0), 1e-200 * np.eye(20)])
def test_data_without_variance(X):
    with pytest.raises(ValueError, match="X has no variance"):
        StochasticEM(RandomInterceptModel()).fit(X)
