"""Curves of the record of a run."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from sktem import StochasticEMGaussianMixture
from sktem.history import History
from sktem.plotting import HistoryDisplay

nan = float("nan")


@pytest.fixture
def history():
    history = History()
    for epoch in range(4):
        history.append(
            passes=epoch + 1.0,
            monitor_passes=0.0,
            n_iterations=10 * (epoch + 1),
            step_size=1 / (epoch + 1),
            objective=nan,
            mean_field=0.1 * (epoch + 1),
            acceptance_rate=nan if epoch == 1 else 0.5,
            cpu_time=0.1 * epoch,
        )
    return history


def test_only_what_holds_numbers_is_drawn(pyplot, history):
    display = HistoryDisplay(history).plot()
    assert display.traces == ["mean_field", "step_size", "acceptance_rate"]
    assert display.axes_.shape == (3,)
    assert display.figure_ is display.axes_[0].figure
    titles = [panel.get_title() for panel in display.axes_]
    assert titles == ["squared mean field", r"step $\gamma$", "acceptance rate"]


def test_curves_are_the_entries(pyplot, history):
    step, rate = HistoryDisplay(history).plot(["step_size", "acceptance_rate"]).axes_
    np.testing.assert_array_equal(step.lines[0].get_xdata(), [1, 2, 3, 4])
    np.testing.assert_array_equal(step.lines[0].get_ydata(), history.step_size)
    np.testing.assert_array_equal(rate.lines[0].get_xdata(), [1, 3, 4])
    assert step.get_legend() is None


@pytest.mark.parametrize("x", ["passes", "n_iterations", "cpu_time"])
def test_horizontal_axis(pyplot, history, x):
    (panel,) = HistoryDisplay(history).plot(["step_size"], x=x).axes_
    np.testing.assert_array_equal(panel.lines[0].get_xdata(), getattr(history, x))


def test_scale_of_the_mean_field(pyplot, history):
    display = HistoryDisplay(history)
    assert display.plot(["mean_field"]).axes_[0].get_yscale() == "log"
    history.mean_field[-1] = -1e-3
    assert display.plot(["mean_field"]).axes_[0].get_yscale() == "linear"


def test_two_runs_in_the_same_panels(pyplot, history):
    first = HistoryDisplay(history, name="one").plot(["step_size", "mean_field"])
    HistoryDisplay(history, name="two").plot(
        ["step_size", "mean_field"], ax=first.axes_, color="black"
    )
    assert [len(panel.lines) for panel in first.axes_] == [2, 2]
    assert first.axes_[1].lines[1].get_color() == "black"
    names = [text.get_text() for text in first.axes_[0].get_legend().get_texts()]
    assert names == ["one", "two"]


def test_from_estimator(pyplot):
    X = np.random.default_rng(0).normal(size=(200, 2))
    mixture = StochasticEMGaussianMixture(2, random_state=0).fit(X)
    display = HistoryDisplay.from_estimator(mixture, traces=["objective"])
    assert display.history is mixture.history_
    (panel,) = display.axes_
    np.testing.assert_array_equal(
        panel.lines[0].get_ydata(), mixture.history_.objective
    )


def test_errors(pyplot, history):
    display = HistoryDisplay(history)
    with pytest.raises(ValueError, match=r"no numbers for \['objective'\]"):
        display.plot(["objective", "step_size"])
    with pytest.raises(ValueError, match="x must be one of"):
        display.plot(x="time")
    with pytest.raises(ValueError, match="no numbers for any trace"):
        HistoryDisplay(History()).plot()
    with pytest.raises(NotFittedError):
        HistoryDisplay.from_estimator(StochasticEMGaussianMixture())


def test_no_line_joins_a_sample_and_all_rows(pyplot, history):
    """It fell where the rows changed that progress was measured on."""
    history.of_sample.extend([True, True, False, False])
    measured, step = HistoryDisplay(history).plot(["mean_field", "step_size"]).axes_
    np.testing.assert_array_equal(measured.lines[0].get_xdata(), [1, 2, nan, 3, 4])
    np.testing.assert_array_equal(step.lines[0].get_xdata(), [1, 2, 3, 4])
    assert measured.get_yscale() == "log"
