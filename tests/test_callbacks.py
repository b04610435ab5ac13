"""Callbacks: progress, scores, early stopping, checkpoints, interrupts."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sktem import StochasticEM, StochasticEMGaussianMixture
from sktem.callbacks import Checkpoint, LogLikelihoodMonitor
from sktem.exceptions import FitWarning
from sktem.models import RandomInterceptModel

callback = pytest.importorskip("sklearn.callback")  # scikit-learn 1.9 and later

FITTED = ("weights_", "means_", "covariances_", "precisions_")


@pytest.fixture(scope="module", name="X")
def simulated():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(4, 3)) * 2
    return rng.normal(size=(4000, 3)) + centres[rng.integers(4, size=4000)]


class Hooks:
    """Calls a function after each epoch."""

    def __init__(self, function):
        self.function = function
        self.epochs = 0
        self.finished = 0

    def setup(self, estimator, context):
        self.epochs = 0

    def teardown(self, estimator, context):
        self.finished += 1

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        if context.task_name != "epoch":
            return False
        self.epochs += 1
        return self.function(self.epochs)


def mixture(**settings):
    return StochasticEMGaussianMixture(
        4, **{"random_state": 0, "tol": 0.0, "max_iter": 12, **settings}
    )


def test_progress_bar(X, capsys):
    plain = mixture().fit(X)
    shown = mixture().set_callbacks(callback.ProgressBar()).fit(X)
    assert "StochasticEMGaussianMixture" in capsys.readouterr().out
    assert_array_equal(shown.means_, plain.means_)


@pytest.mark.parametrize("solver", ["em", "online", "vrttem"])
def test_a_callback_stops_the_run(X, solver):
    hooks = Hooks(lambda epoch: epoch == 3)
    stopped = mixture(solver=solver, tol=1e-12).set_callbacks(hooks).fit(X)
    assert hooks.epochs == len(stopped.lower_bounds_) == 3
    assert hooks.finished == 1
    full = mixture(solver=solver).fit(X)
    assert len(full.lower_bounds_) > 3
    assert stopped.lower_bounds_ == full.lower_bounds_[:3]
    # Stopping was asked for: no warning, and no claim of convergence either.
    assert not stopped.converged_


def test_each_start_can_be_stopped(X):
    hooks = Hooks(lambda epoch: True)
    fitted = mixture(n_init=3).set_callbacks(hooks).fit(X)
    assert hooks.epochs == 3
    assert len(fitted.lower_bounds_) == 1


@pytest.mark.parametrize("solver", ["em", "fittem"])
def test_monitor_scores_what_a_shorter_fit_scores(X, solver):
    monitor = LogLikelihoodMonitor(X[:500])
    mixture(solver=solver).set_callbacks(monitor).fit(X[500:])
    hooks = Hooks(lambda epoch: epoch == 2)
    shorter = mixture(solver=solver).set_callbacks(hooks).fit(X[500:])
    assert monitor.scores_[1] == pytest.approx(shorter.score(X[:500]), rel=1e-12)
    assert monitor.scores_[-1] > monitor.scores_[0]


def test_monitor_stops_when_the_score_no_longer_rises(X):
    patient = LogLikelihoodMonitor(X[:500], patience=2, min_delta=1e-4)
    fitted = mixture(max_iter=100).set_callbacks(patient).fit(X[500:])
    scores = np.array(patient.scores_)
    assert len(scores) == fitted.n_iter_ < 100
    best = np.maximum.accumulate(scores)
    assert max(scores[-2:]) < best[-3] + 1e-4
    # It would not have stopped an epoch before.
    assert max(scores[-3:-1]) >= best[-4] + 1e-4


@pytest.mark.parametrize("solver", ["em", "online", "vrttem", "fittem", "isaem"])
@pytest.mark.parametrize("n_init", [1, 2])
def test_a_killed_fit_resumes_to_the_same_bits(X, solver, n_init, tmp_path):
    settings = {"solver": solver, "n_init": n_init, "average": 2}
    whole = mixture(**settings).fit(X)

    def kill(epoch):
        if len(kills) == 0 and epoch == 3:
            kills.append(epoch)
            raise RuntimeError("killed")
        return False

    kills = []
    path = tmp_path / "fit.pickle"
    with pytest.raises(RuntimeError, match="killed"):
        mixture(**settings).set_callbacks(Checkpoint(path), Hooks(kill)).fit(X)
    hooks = Hooks(lambda epoch: False)
    resumed = mixture(**settings).set_callbacks(Checkpoint(path), hooks).fit(X)
    for name in FITTED:
        assert_array_equal(getattr(resumed, name), getattr(whole, name), err_msg=name)
    assert resumed.lower_bounds_ == whole.lower_bounds_
    everything = Hooks(lambda epoch: False)
    mixture(**settings).set_callbacks(everything).fit(X)
    assert hooks.epochs == everything.epochs - 3  # it did not begin anew


def test_a_checkpoint_of_another_fit_is_not_used(X, tmp_path):
    path = tmp_path / "fit.pickle"
    mixture(random_state=1).set_callbacks(Checkpoint(path)).fit(X)
    with pytest.warns(FitWarning, match="other parameters or data"):
        other = mixture().set_callbacks(Checkpoint(path)).fit(X)
    assert_array_equal(other.means_, mixture().fit(X).means_)
    with pytest.warns(FitWarning, match="other parameters or data"):
        mixture().set_callbacks(Checkpoint(path)).fit(X[:-1])


def test_a_checkpoint_is_whole_at_any_moment(X, tmp_path, monkeypatch):
    path = tmp_path / "fit.pickle"
    mixture(max_iter=3).set_callbacks(Checkpoint(path)).fit(X)
    before = path.read_bytes()

    def full_disk(*arguments):
        raise OSError("no space left on device")

    monkeypatch.setattr("sktem.callbacks.os.fsync", full_disk)
    with pytest.raises(OSError, match="no space"), pytest.warns(FitWarning):
        mixture(max_iter=4).set_callbacks(Checkpoint(path)).fit(X)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_saves_every_so_many_epochs(X, tmp_path):
    path = tmp_path / "fit.pickle"
    mixture(max_iter=8).set_callbacks(Checkpoint(path, every=3)).fit(X)
    with open(path, "rb") as file:
        _, progress = pickle.load(file)
    assert len(progress.current.history) == 6
    with pytest.raises(ValueError, match="every must be a positive integer"):
        Checkpoint(path, every=0)


def test_checkpoint_of_a_users_model(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1)) + rng.normal(size=(200, 3))
    settings = {"solver": "saem", "sampler": "mala", "max_iter": 8, "tol": 0.0}
    model = RandomInterceptModel()
    whole = StochasticEM(model, random_state=0, **settings).fit(X)
    path = tmp_path / "fit.pickle"
    resumed = StochasticEM(model, random_state=0, **settings)
    resumed.set_callbacks(Checkpoint(path), Hooks(lambda epoch: epoch == 4)).fit(X)
    assert resumed.params_ != whole.params_
    resumed.set_callbacks(Checkpoint(path)).fit(X)
    assert resumed.params_ == whole.params_


@pytest.mark.parametrize("solver", ["em", "online", "vrttem", "fittem"])
def test_interrupt_leaves_the_last_finished_epoch(X, solver):
    def interrupt(epoch):
        if epoch == 3:
            raise KeyboardInterrupt
        return False

    interrupted = mixture(solver=solver).set_callbacks(Hooks(interrupt))
    with pytest.raises(KeyboardInterrupt):
        interrupted.fit(X)
    stopped = mixture(solver=solver).set_callbacks(Hooks(lambda epoch: epoch == 3))
    stopped.fit(X)
    for name in FITTED:
        assert_array_equal(getattr(interrupted, name), getattr(stopped, name))
    assert np.isfinite(interrupted.score(X))
    interrupted.set_callbacks().partial_fit(X)
    assert np.isfinite(interrupted.score(X))
