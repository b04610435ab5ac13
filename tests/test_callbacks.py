"""Callbacks: checkpoints, monitors, early stops, progress bars."""

import os
import pickle
import signal
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from sktem import (
    DeformableTemplateEstimator,
    LatentBoltzmannMachine,
    NonlinearMixedEffectsRegressor,
    StochasticEM,
    StochasticEMGaussianMixture,
)
from sktem.callbacks import Checkpoint, LogLikelihoodMonitor
from sktem.exceptions import FitWarning
from sktem.graphs import grid_graph
from sktem.mixture.stream import FIRST_ROWS
from sktem.models import RandomInterceptModel
from tests import oracles
from tests.loop.test_saddles import TwoMeans
from tests.loop.test_saddles import rows as rows_of_two_means

sklearn_callback = pytest.importorskip("sklearn.callback")  # scikit-learn 1.9

SOLVERS = ["em", "online", "vrttem", "fittem", "mcem", "isaem"]


def data(seed=0, n=200):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) + 3.0 * rng.integers(0, 2, size=(n, 1))


def mixture(**settings):
    settings = {"random_state": 0, "tol": 0.0, "max_iter": 12, **settings}
    return StochasticEMGaussianMixture(2, **settings)


def assert_same(first, second):
    oracles.assert_same(first, second, names=(*oracles.MIXTURE, "lower_bounds_"))
    assert first.history_.passes == second.history_.passes
    assert first.n_iter_ == second.n_iter_


class Hooks:
    """A callback that does what it is told at the end of an epoch."""

    def __init__(self, at_end=lambda epoch, fitted: False):
        self.at_end = at_end
        self.tasks = []
        self.epochs = 0

    def setup(self, estimator, context):
        self.tasks.append("setup")

    def teardown(self, estimator, context):
        self.tasks.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.tasks.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.tasks.append(("end", context.task_name))
        if context.task_name != "epoch":
            return False
        self.epochs += 1
        return self.at_end(self.epochs, fitted_estimator)


class KilledError(BaseException):
    """What no handler in a fit expects."""


def kill_at(epoch):
    def at_end(now, fitted):
        if now == epoch:
            raise KilledError
        return False

    return Hooks(at_end)


# ----------------------------------------------------------------------- checkpoints


@pytest.mark.parametrize("solver", ["em", "squarem", "iem", "fittem"])
def test_a_fit_killed_beyond_a_saddle_goes_on_to_the_same_bits(solver, tmp_path):
    X, path = rows_of_two_means(0), tmp_path / "fit.pickle"
    fit = lambda: StochasticEM(TwoMeans(), solver=solver, random_state=0)  # noqa: E731
    expected = fit().fit(X)
    assert abs(np.diff(expected.params_)) > 2  # it has left the saddle
    last = len(expected.history_) - 1
    with pytest.raises(KilledError):
        fit().set_callbacks(Checkpoint(path), kill_at(last - 1)).fit(X)
    resumed = fit().set_callbacks(Checkpoint(path)).fit(X)
    assert resumed.history_.objective == expected.history_.objective
    assert_array_equal(resumed.params_, expected.params_)


@pytest.mark.parametrize("every, epoch", [(1, 1), (1, 3), (2, 3)])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_killed_fit_goes_on_to_the_same_bits(solver, every, epoch, tmp_path):
    X, path = data(), tmp_path / "fit.pickle"
    full = solver in ("em", "mcem", "saem")
    settings = {"solver": solver, "batch_size": "auto" if full else 20}
    expected = mixture(**settings).fit(X)
    with pytest.raises(KilledError):
        killed = mixture(**settings)
        killed.set_callbacks(Checkpoint(path, every), kill_at(epoch)).fit(X)
    counter = Hooks()
    resumed = mixture(**settings).set_callbacks(Checkpoint(path, every), counter)
    resumed.fit(X)
    assert_same(resumed, expected)
    # It did go on: the epochs that were saved are not run again.
    assert counter.epochs == len(expected.history_) - epoch // every * every
    more = data(seed=1, n=3000)
    resumed.partial_fit(more)
    expected.partial_fit(more)
    for name in oracles.MIXTURE:
        assert_array_equal(getattr(resumed, name), getattr(expected, name))


@pytest.mark.parametrize("average", [True, "tail", "random"])
def test_what_is_averaged_goes_on(average, tmp_path):
    X, path = data(), tmp_path / "fit.pickle"
    settings = {"solver": "online", "average": average, "batch_size": 20}
    expected = mixture(**settings).fit(X)
    with pytest.raises(KilledError):
        mixture(**settings).set_callbacks(Checkpoint(path), kill_at(4)).fit(X)
    assert_same(mixture(**settings).set_callbacks(Checkpoint(path)).fit(X), expected)


@pytest.mark.parametrize("solver", ["em", "online", "fittem"])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_several_starts_go_on(solver, share, tmp_path):
    """Starts that are over are kept, those that come are as they would have been."""
    X, path = data(), tmp_path / "fit.pickle"
    settings = {"solver": solver, "n_init": 4, "init_params": "random", "max_iter": 7}
    whole = Hooks()
    expected = mixture(**settings).set_callbacks(whole).fit(X)
    epoch = int(share * whole.epochs)
    with pytest.raises(KilledError):
        mixture(**settings).set_callbacks(Checkpoint(path), kill_at(epoch)).fit(X)
    counter = Hooks()
    resumed = mixture(**settings).set_callbacks(Checkpoint(path), counter).fit(X)
    assert_same(resumed, expected)
    assert counter.epochs == whole.epochs - epoch


def crossed(seed):
    """Return rows of three long clusters that cross, of which k-means makes others."""
    rng = np.random.default_rng(seed)
    turns = np.linalg.qr(rng.normal(size=(3, 2, 2)))[0]
    z, noise = rng.integers(3, size=300), rng.normal(size=(300, 2, 1))
    return (turns[z] * [4.0, 0.3] @ noise)[..., 0] + rng.normal(size=(3, 2))[z]


@pytest.mark.parametrize("n_init", [1, 2])
def test_a_better_start_is_one_more_run(n_init, tmp_path):
    """Callbacks see it as the others, and a fit that is killed in it goes on."""
    pytest.importorskip("rich")
    n_further = 0
    for seed in range(20):
        X = crossed(seed)
        settings = {"n_init": n_init, "random_state": 0}
        expected = StochasticEMGaussianMixture(3, **settings).fit(X)
        whole, path = Hooks(), tmp_path / f"{seed}.pickle"
        bars = [whole, sklearn_callback.ProgressBar()]
        fit = StochasticEMGaussianMixture(3, **settings).set_callbacks(*bars).fit(X)
        assert_same(fit, expected)
        n_runs = whole.tasks.count(("begin", "run"))
        if n_runs == n_init:
            continue
        n_further += 1
        assert n_runs == whole.tasks.count(("end", "run")) == n_init + 1
        kill = kill_at(whole.epochs - 1)
        with pytest.raises(KilledError):
            StochasticEMGaussianMixture(3, **settings).set_callbacks(
                Checkpoint(path), kill
            ).fit(X)
        resumed = StochasticEMGaussianMixture(3, **settings)
        assert_same(resumed.set_callbacks(Checkpoint(path)).fit(X), expected)
    assert n_further >= 3


def test_a_killed_process_goes_on(tmp_path):
    """With a signal that nothing can catch, in the middle of an epoch."""
    path = tmp_path / "fit.pickle"
    code = f"""
import os, signal
import numpy as np
from sktem import StochasticEMGaussianMixture
from sktem.callbacks import Checkpoint
from sktem.models import GaussianMixtureModel

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 2)) + 3.0 * rng.integers(0, 2, size=(200, 1))
real, calls = GaussianMixtureModel.expected_statistics, iter(range(10**6))
def killing(self, *args, **kwargs):
    if next(calls) == 100:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, *args, **kwargs)
GaussianMixtureModel.expected_statistics = killing
StochasticEMGaussianMixture(
    2, solver="vrttem", batch_size=20, random_state=0, tol=0.0, max_iter=30,
    sampling="inclusion",
).set_callbacks(Checkpoint({str(path)!r})).fit(X)
"""
    if not hasattr(signal, "SIGKILL"):
        pytest.skip("no such signal here")
    killed = subprocess.run([sys.executable, "-c", code], check=False)
    assert killed.returncode == -signal.SIGKILL
    counter = Hooks()
    # Such batches do not run in a compiled sweep, which nothing could stop.
    settings = {"solver": "vrttem", "batch_size": 20, "max_iter": 30}
    settings["sampling"] = "inclusion"
    resumed = mixture(**settings).set_callbacks(Checkpoint(path), counter).fit(data())
    expected = mixture(**settings).fit(data())
    assert_same(resumed, expected)
    assert 0 < counter.epochs < len(expected.history_)


def test_a_finished_fit_is_not_run_again(tmp_path):
    X, path = data(), tmp_path / "fit.pickle"
    for settings in ({"tol": 1e-3, "max_iter": 100}, {"tol": 0.0}):
        path.unlink(missing_ok=True)
        first = mixture(**settings).set_callbacks(Checkpoint(path)).fit(X)
        counter = Hooks()
        again = mixture(**settings).set_callbacks(Checkpoint(path), counter).fit(X)
        assert_same(again, first)
        assert counter.epochs == 0
        assert again.converged_ == first.converged_ == (settings["tol"] > 0)


CHANGES = {
    "rows": ({}, {"X": data(seed=1)}),
    "weights": ({}, {"sample_weight": np.r_[2.0, np.ones(199)]}),
    "seed": ({"random_state": 1}, {}),
    "solver": ({"solver": "isaem"}, {}),
    "tol": ({"tol": 1e-12}, {}),
    "start": ({"means_init": [[0.0, 0.0], [1.0, 1.0]]}, {}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_of_another_fit_is_not_used(change, tmp_path):
    settings, arguments = CHANGES[change]
    arguments = {"X": data(), **arguments}
    base, path = {"solver": "online", "batch_size": 20}, tmp_path / "fit.pickle"
    with pytest.raises(KilledError):
        mixture(**base).set_callbacks(Checkpoint(path), kill_at(3)).fit(data())
    base.update(settings, max_iter=5)
    with pytest.warns(FitWarning, match="belongs to a fit with other") as caught:
        found = mixture(**{**base, "tol": 0.0}).set_callbacks(Checkpoint(path))
        found.fit(**arguments)
    assert caught[0].filename == __file__
    assert_same(found, mixture(**{**base, "tol": 0.0}).fit(**arguments))
    # And it has been overwritten.
    again = mixture(**{**base, "tol": 0.0}).set_callbacks(Checkpoint(path))
    assert_same(again.fit(**arguments), found)


@pytest.mark.filterwarnings("ignore:1529 free parameters")
def test_long_arrays_are_told_apart(tmp_path):
    """Their printed form is abridged, and is the same."""
    rng = np.random.default_rng(0)
    start, path = 9 * rng.normal(size=(30, 50)), tmp_path / "fit.pickle"
    X = np.repeat(start, 3, axis=0) + rng.normal(size=(90, 50))
    other = start.copy()
    other[15] += 1
    assert repr(start) == repr(other)
    settings = {"covariance_type": "unit", "tol": 0.0, "max_iter": 4}

    def fitted(means_init):
        found = StochasticEMGaussianMixture(30, means_init=means_init, **settings)
        return found.set_params(weights_init=np.full(30, 1 / 30))

    fitted(start).set_callbacks(Checkpoint(path)).fit(X)
    with pytest.warns(FitWarning, match="belongs to a fit with other parameters"):
        found = fitted(other).set_callbacks(Checkpoint(path)).fit(X)
    assert_array_equal(found.means_, fitted(other).fit(X).means_)


def test_what_does_not_change_the_result_may_change(tmp_path, capsys):
    X, path = data(), tmp_path / "fit.pickle"
    with pytest.raises(KilledError):
        mixture().set_callbacks(Checkpoint(path), kill_at(3)).fit(X)
    resumed = mixture(verbose=1, verbose_interval=2, n_jobs=2)
    assert_same(resumed.set_callbacks(Checkpoint(path)).fit(X), mixture().fit(X))
    assert "Iteration 4" in capsys.readouterr().out


def test_the_file_is_replaced_as_a_whole(tmp_path, monkeypatch):
    """A fault while it is written leaves the earlier one, and nothing else."""
    X, path = data(), tmp_path / "fit.pickle"
    with pytest.raises(KilledError):
        mixture().set_callbacks(Checkpoint(path), kill_at(3)).fit(X)
    before = path.read_bytes()

    def full(*args, **kwargs):
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space left"):
            mixture().set_callbacks(Checkpoint(path)).fit(X)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["fit.pickle"]
    resumed = mixture().set_callbacks(Checkpoint(path)).fit(X)
    assert_same(resumed, mixture().fit(X))


def of_grid(e_step):
    X = np.random.default_rng(0).integers(2, size=(60, 6)).astype(float)
    machine = LatentBoltzmannMachine(
        grid_graph(3, 3), hidden=[1, 4, 8], e_step=e_step, max_iter=5, tol=None,
        step_size_m=(0.05, 0.0005), random_state=0,
    )  # fmt: skip
    return machine, {"X": X}, 3


def of_intercepts():
    model = RandomInterceptModel()
    em = StochasticEM(model, solver="saem", sampler="mala", tol=0, random_state=0)
    return em.set_params(max_iter=8), {"X": oracles.random_intercept_data(0, 100)}, 3


def of_subjects():
    rng = np.random.default_rng(0)
    groups, time = np.repeat(np.arange(20), 5), np.tile(np.linspace(1, 12, 5), 20)
    V, CL = [[10.0], [2.0]] * np.exp([[0.2], [0.4]] * rng.normal(size=(2, 20)))[
        :, groups
    ]
    regressor = NonlinearMixedEffectsRegressor(
        "one_compartment_iv", parameters={"V": 15.0, "CL": 1.5}, max_iter=75, tol=0,
        random_state=0,
    )  # fmt: skip
    y = 100 / V * np.exp(-CL / V * time) + 0.3 * rng.normal(size=100)
    X = np.column_stack([np.full(100, 100.0), time])
    return regressor, {"X": X, "y": y, "groups": groups}, 65  # after the burn-in


#: Other fits: what they are of, and the epoch at which they are killed.
OTHERS = {
    "own model": of_intercepts,
    "machine": partial(of_grid, "auto"),
    "machine with Gibbs chains": partial(of_grid, "gibbs"),
    "mixed effects": of_subjects,
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_fits_go_on_to_the_same_bits(name, tmp_path):
    estimator, rows, epoch = OTHERS[name]()
    whole, path = clone(estimator).fit(**rows), tmp_path / "fit.pickle"
    with pytest.raises(KilledError):
        clone(estimator).set_callbacks(Checkpoint(path), kill_at(epoch)).fit(**rows)
    counter = Hooks()
    resumed = clone(estimator).set_callbacks(Checkpoint(path), counter).fit(**rows)
    np.testing.assert_equal(resumed.params_, whole.params_)
    assert counter.epochs == len(whole.history_) - epoch
    found, expected = resumed.history_.objective, whole.history_.objective
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("every", [0, -1, 1.5, "2"])
def test_checkpoint_intervals(every, tmp_path):
    with pytest.raises(ValueError, match="every must be a positive integer"):
        Checkpoint(tmp_path / "fit.pickle", every)


def test_the_fitted_estimator_carries_no_state_of_the_fit(tmp_path):
    """A checkpoint must not make the estimator heavy."""
    fitted = mixture(solver="fittem")
    with pytest.raises(KilledError):
        checkpoint = Checkpoint(tmp_path / "fit")
        fitted.set_callbacks(checkpoint, kill_at(2)).fit(data(n=2000))
    assert len(pickle.dumps(fitted.set_callbacks(checkpoint))) < 20_000
    assert len(pickle.dumps(mixture(solver="fittem").fit(data(n=2000)))) < 20_000


# -------------------------------------------------------------------------- monitors


def test_monitor_scores_every_epoch():
    X, held_out = data(), data(seed=1)
    monitor = LogLikelihoodMonitor(held_out)
    fitted = mixture(max_iter=6).set_callbacks(monitor).fit(X)
    expected = [mixture(max_iter=k).fit(X).score(held_out) for k in range(1, 7)]
    assert monitor.scores_ == expected
    assert_same(fitted, mixture(max_iter=6).fit(X))  # looking changes nothing
    fitted.set_params(max_iter=3).fit(X)
    assert monitor.scores_ == expected[:3]


@pytest.mark.parametrize("solver", ["em", "online", "vrttem"])
@pytest.mark.parametrize("patience, min_delta", [(1, 0.0), (3, 0.0), (2, 1e-3)])
def test_monitor_stops(solver, patience, min_delta):
    """At the first epoch after which so many have brought nothing."""
    X, held_out = data(n=60), data(seed=1)
    settings = {"solver": solver, "max_iter": 120, "init_params": "random"}
    whole = LogLikelihoodMonitor(held_out)
    mixture(**settings).set_callbacks(whole).fit(X)
    scores = whole.scores_
    stop = next(
        epoch
        for epoch in range(patience + 1, len(scores) + 1)
        if max(scores[epoch - patience : epoch]) <= max(scores[: epoch - patience])
        or max(scores[epoch - patience : epoch])
        < max(scores[: epoch - patience]) + min_delta
    )
    assert stop < len(scores)
    monitor = LogLikelihoodMonitor(held_out, patience=patience, min_delta=min_delta)
    fitted = mixture(**settings).set_callbacks(monitor).fit(X)
    assert monitor.scores_ == scores[:stop]
    assert len(fitted.history_) == stop
    assert fitted.score(held_out) == scores[stop - 1]


def test_monitor_stops_where_nothing_changes():
    X = data()
    monitor = LogLikelihoodMonitor(X, patience=3)
    one = StochasticEMGaussianMixture(1, tol=0.0, max_iter=50).set_callbacks(monitor)
    one.fit(X)  # one component is done at once
    assert len(monitor.scores_) < 10


def test_monitor_of_a_user_s_model():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 1)) + rng.normal(size=(100, 4))
    monitor = LogLikelihoodMonitor(X)
    em = StochasticEM(RandomInterceptModel(), solver="em", tol=0.0, max_iter=20)
    em.set_callbacks(monitor).fit(X)
    assert len(monitor.scores_) == 20
    assert (np.diff(monitor.scores_) > -1e-12).all()
    assert monitor.scores_[-1] == em.score(X)


# -------------------------------------------------------------------- any other hooks


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_callback_stops_the_fit(solver):
    """Without a warning: it is what the user wanted."""
    X, means = data(), []

    def at_end(epoch, fitted):
        means.append(fitted.means_)
        return epoch == 3

    fitted = mixture(solver=solver, tol=1e-12, max_iter=60)
    fitted.set_callbacks(Hooks(at_end)).fit(X)
    assert len(fitted.history_) == len(means) == 3
    assert not fitted.converged_
    assert_array_equal(fitted.means_, means[-1])


@pytest.mark.parametrize("n_init", [1, 3])
def test_tasks_begin_and_end(n_init):
    hooks = Hooks()
    mixture(max_iter=4, n_init=n_init).set_callbacks(hooks).fit(data())
    run = [("begin", "run"), *[("begin", "epoch"), ("end", "epoch")] * 4]
    run.append(("end", "run"))
    expected = ["setup", ("begin", "fit"), *run * n_init, ("end", "fit"), "teardown"]
    assert hooks.tasks == expected


def test_a_callback_sees_a_usable_estimator():
    X, seen = data(), []

    def at_end(epoch, fitted):
        seen.append((fitted.predict(X), fitted.bic(X), fitted.n_iter_))
        return False

    mixture(max_iter=4).set_callbacks(Hooks(at_end)).fit(X)
    for k, (labels, bic, n_iter) in enumerate(seen, start=1):
        expected = mixture(max_iter=k).fit(X)
        assert_array_equal(labels, expected.predict(X))
        assert bic == expected.bic(X)
        assert n_iter == k


@pytest.mark.parametrize("sampling", ["shuffle", "fixed", "inclusion"])
@pytest.mark.parametrize("solver", ["em", "online", "vrttem", "fittem"])
def test_progress_bar(solver, sampling):
    """It changes nothing, whatever the number of epochs turns out to be."""
    pytest.importorskip("rich")
    X = data()
    weights = np.random.default_rng(0).random(len(X)) + 0.1
    settings = {"solver": solver, "sampling": sampling, "n_init": 2, "max_iter": 5}
    for sample_weight in (None, weights):
        bar = sklearn_callback.ProgressBar()
        fitted = mixture(**settings).set_callbacks(bar)
        fitted.fit(X, sample_weight=sample_weight)
        plain = mixture(**settings).fit(X, sample_weight=sample_weight)
        assert_same(fitted, plain)


# --------------------------------------------------------------------------- streams


def streamed(solver, callback, chunks, **settings):
    fitted = mixture(solver=solver, batch_size=50, **settings)
    if callback is not None:
        fitted.set_callbacks(callback)
    for chunk in chunks:
        fitted.partial_fit(chunk)
    return fitted


#: Starts that are compared on the first rows of a stream.
N_STARTS = 1 + FIRST_ROWS.random


@pytest.mark.parametrize(
    "solver, name, counts",
    # A solver that remembers rows fills its memory in a pass, and does one more.
    [
        ("online", "batch", (1200 // 50, 125 // 50)),
        ("isaem", "pass", (N_STARTS * 20 + 1 + 1, 1)),
    ],
)
def test_tasks_of_a_stream(solver, name, counts):
    """The starts, then each batch of rows, or each pass over a chunk."""
    hooks, X = Hooks(), data(n=1200)
    streamed(solver, hooks, [X, X[:125]])
    assert hooks.tasks[:2] == ["setup", ("begin", "partial_fit")]
    assert hooks.tasks[-2:] == [("end", "partial_fit"), "teardown"]
    calls = "".join(map(str, hooks.tasks)).split("teardown")
    assert [call.count(f"('end', '{name}')") for call in calls[:2]] == list(counts)
    assert hooks.tasks.count(("end", "start")) == N_STARTS
    assert hooks.epochs == 0
    plain = streamed(solver, None, [X, X[:125]])
    for attribute in oracles.MIXTURE:  # looking changes nothing
        assert_array_equal(
            getattr(streamed(solver, Hooks(), [X, X[:125]]), attribute),
            getattr(plain, attribute),
        )


@pytest.mark.parametrize("solver", ["em", "fittem"])
def test_progress_bar_of_a_stream(solver):
    pytest.importorskip("rich")
    chunks = [data(n=300), data(n=900), data(n=77)]
    bar = sklearn_callback.ProgressBar()
    found, plain = streamed(solver, bar, chunks), streamed(solver, None, chunks)
    for name in oracles.MIXTURE:
        assert_array_equal(getattr(found, name), getattr(plain, name))


def test_monitor_of_a_stream():
    """It scores after each chunk what the estimator then is, and goes on."""
    held_out, chunks = data(seed=1), [data(n=n) for n in (40, 1100, 60)]
    monitor = LogLikelihoodMonitor(held_out, patience=1)
    streamed("online", monitor, chunks)
    expected = [
        streamed("online", None, chunks[: k + 1]).score(held_out) for k in range(3)
    ]
    assert monitor.scores_ == expected
    mixture(max_iter=3).set_callbacks(monitor).fit(data())
    assert len(monitor.scores_) <= 3


def test_a_checkpoint_saves_no_stream(tmp_path):
    path = tmp_path / "fit"
    found = streamed("online", Checkpoint(path), [data(n=1200)])
    assert not path.exists()
    assert len(pickle.dumps(found)) < 20_000


def test_tasks_of_other_streams():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 1)) + rng.normal(size=(90, 4))
    hooks = Hooks()
    em = StochasticEM(RandomInterceptModel(), solver="online", batch_size=20)
    em.set_callbacks(hooks).partial_fit(X).partial_fit(X)
    assert hooks.tasks.count(("end", "batch")) == 9
    hooks, groups = Hooks(), np.repeat(np.arange(12), 5)
    x = np.tile(np.linspace(-1, 1, 5), 12)
    y = 2 + rng.normal(size=12)[groups] + 3 * x + 0.5 * rng.normal(size=60)
    line = NonlinearMixedEffectsRegressor(
        "linear",
        parameters={"intercept": 1.0, "slope": 1.0},
        transforms="normal",
        omega=["intercept"],
        random_state=0,
    )
    line.set_callbacks(hooks).partial_fit(x[:, None], y, groups=groups)
    assert hooks.tasks.count(("end", "batch")) == 2  # of five subjects


@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
def test_tasks_of_a_stream_of_images():
    """A fit of the first ones, another one when there are enough, then batches."""
    X, hooks = np.random.default_rng(0).random((45, 36)), Hooks()
    settings = {"template_landmarks": 6, "deformation_landmarks": 3, "max_iter": 2}
    stream = DeformableTemplateEstimator(**settings, random_state=0)
    plain = DeformableTemplateEstimator(**settings, random_state=0)
    stream.set_callbacks(hooks)
    for chunk in (X[:15], X[15:25], X[25:]):
        stream.partial_fit(chunk)
        plain.partial_fit(chunk)
    assert hooks.tasks.count("setup") == hooks.tasks.count("teardown") == 3
    assert hooks.tasks.count(("end", "run")) == 2
    # One after that which fills the memory, of two fits and two chunks.
    assert hooks.tasks.count(("end", "pass")) == 4
    assert hooks.tasks.count(("end", "chunk")) == 2
    assert_array_equal(stream.templates_, plain.templates_)


def test_tasks_of_a_stream_of_a_machine():
    X, hooks = np.random.default_rng(0).integers(0, 2, size=(45, 6)), Hooks()
    machine = LatentBoltzmannMachine(hidden_layer_sizes=2, batch_size=10)
    machine.set_callbacks(hooks)
    counts = []
    for chunk in (X[:7], X[7:35], X[35:]):
        machine.partial_fit(chunk)
        counts.append(hooks.tasks.count(("end", "batch")))
    assert counts == [0, 3, 4]
    assert hooks.tasks.count(("end", "partial_fit")) == 3
    assert machine.n_samples_seen_ == 45
