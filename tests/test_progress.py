"""Bars for long calls: what they are called, and that results do not depend on them."""

import builtins
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import sktem
import sktem.progress
from sktem.evaluation import population_residuals, visual_predictive_check

pytest.importorskip("rich")


@pytest.fixture
def labels(monkeypatch):
    """Return the labels of the bars that are opened."""
    found = []
    begin = sktem.progress._Bars.begin

    def recorded(self, label, total):
        found.append(label)
        return begin(self, label, total)

    monkeypatch.setattr(sktem.progress._Bars, "begin", recorded)
    return found


def rows(n=200):
    return np.random.default_rng(0).normal(size=(n, 2))


def mixture(**settings):
    settings = {"tol": 0.0, "max_iter": 3, "random_state": 0} | settings
    return sktem.StochasticEMGaussianMixture(2, **settings)


@pytest.mark.filterwarnings("ignore::UserWarning")  # these fits are short
def test_fits_streams_and_classes(labels):
    images = np.random.default_rng(0).normal(size=(12, 6, 6))
    classifier = sktem.DeformableTemplateClassifier(max_iter=2, temperature=1.0)
    with sktem.show_progress():
        mixture(n_init=2).fit(rows())
        stream = mixture(batch_size=500)
        for chunk in np.split(rows(4000), 2):
            stream.partial_fit(chunk)
        classifier.fit(images, np.arange(12) % 2)
    wanted = {
        "StochasticEMGaussianMixture: epochs of start 1 of 2",
        "StochasticEMGaussianMixture: epochs of start 2 of 2",
        "StochasticEMGaussianMixture: starts from the first rows",
        "StochasticEMGaussianMixture: batches of a chunk",
        "DeformableTemplateClassifier: classes",
        "DeformableTemplateEstimator: epochs",
    }
    assert wanted <= set(labels)
    labels.clear()
    mixture().fit(rows())
    assert labels == []


def test_annealed_importance_sampling(labels):
    bits = (rows(60) > 0).astype(float)
    machine = sktem.LatentBoltzmannMachine(hidden_layer_sizes=2, max_iter=2, tol=None)
    machine.set_params(random_state=0).fit(bits)
    with sktem.show_progress():
        machine.log_partition(method="bracket", n_runs=5, n_temperatures=5)
    assert labels == [
        "Temperatures of annealed importance sampling",
        "Temperatures of reverse annealed importance sampling",
    ]


def test_curves(labels):
    rng = np.random.default_rng(0)
    groups, X = np.repeat(np.arange(20), 5), np.tile(np.arange(5.0), 20)[:, None]
    y = X[:, 0] + rng.normal(size=20)[groups] + 0.3 * rng.normal(size=100)
    curves = sktem.NonlinearMixedEffectsRegressor(
        "linear", parameters={"intercept": 0.5, "slope": 0.5}, transforms="normal",
        omega=["intercept"], random_state=0,
    ).fit(X, y, groups=groups)  # fmt: skip
    with sktem.show_progress():
        with_bars = curves.log_likelihood(method="quadrature")
        curves.log_likelihood(method="importance")
        curves.standard_errors()
        checked = visual_predictive_check(curves, X, y, groups, random_state=0)
        population_residuals(curves, X, y, groups, random_state=0)
    assert {
        "Likelihood: blocks of quadrature nodes",
        "Likelihood: blocks of importance draws",
        "Information: blocks of quadrature nodes",
        "Visual predictive check: blocks of simulated data sets",
        "NPDE: subjects",
    } <= set(labels)
    assert with_bars == curves.log_likelihood(method="quadrature")
    again = visual_predictive_check(curves, X, y, groups, random_state=0)
    assert_array_equal(checked.lower, again.lower)


def test_what_is_seen(capsys):
    with sktem.show_progress():
        for _ in sktem.progress.counted(range(4), "Quick"):
            pass
        for _ in sktem.progress.counted(range(4), "Slow"):
            for _ in sktem.progress.counted(range(2), "Within"):
                time.sleep(0.1)
    shown = capsys.readouterr().err
    assert "Slow" in shown and "4/4" in shown
    assert "Quick" not in shown
    for _ in sktem.progress.counted(range(2), "Off"):
        time.sleep(0.3)
    assert capsys.readouterr().err == ""


def test_printed_lines(capsys, monkeypatch):
    for _ in sktem.progress.counted(range(40), "Fast", verbose=1):
        pass
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10 and lines[-1] == "  Fast: 40 of 40"
    for _ in sktem.progress.counted(range(40), "Fast", verbose=1, seconds=5.0):
        pass
    assert capsys.readouterr().out == ""
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(sktem.progress, "time", clock)
    for _ in sktem.progress.counted(range(10), "Slow", verbose=1, seconds=0.09):
        clock.now += 0.05
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"  Slow: {k} of 10" for k in (2, 4, 6, 8, 10)]


def test_blocks_and_sessions():
    assert not sktem.progress.shown()
    with sktem.show_progress():
        assert sktem.progress.shown()
        with sktem.show_progress(False):
            assert not sktem.progress.shown()
        assert sktem.progress.shown()
    assert not sktem.progress.shown()
    sktem.show_progress()
    assert sktem.progress.shown()
    sktem.show_progress(False)
    assert not sktem.progress.shown()


def test_an_error_closes_the_bars():
    with sktem.show_progress():
        with pytest.raises(RuntimeError, match="of the loop"):
            for step in sktem.progress.counted(range(3), "Loop"):
                for _ in sktem.progress.counted(range(3), "Within"):
                    if step:
                        raise RuntimeError("of the loop")
        bars = sktem.progress._bars
        assert bars.thread is None and bars.display is None


def test_other_threads_show_no_bars():
    found = []
    with sktem.show_progress(), sktem.progress.bar("Here", 1):
        thread = threading.Thread(target=lambda: found.append(sktem.progress.shown()))
        thread.start()
        thread.join()
    assert found == [False]


def test_without_rich(monkeypatch):
    load = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("rich"):
            raise ImportError(name)
        return load(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install .sktem\[progress\]"):
        sktem.show_progress()
