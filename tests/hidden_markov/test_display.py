"""The display of hidden states."""

import numpy as np
import pytest

from sktem import HiddenMarkovModel
from sktem.plotting import HiddenStatesDisplay

LENGTHS = [100, 60]
RNG = np.random.default_rng(0)
STATES = np.repeat([0, 1, 2, 0, 1], [40, 60, 20, 20, 20])
X = np.column_stack([RNG.normal(size=160), 5.0 * STATES + RNG.normal(size=160)])


@pytest.fixture(scope="module")
def fit():
    return HiddenMarkovModel(3, random_state=0).fit(X, lengths=LENGTHS)


def test_bands_are_the_decoded_path(pyplot, fit):
    display = HiddenStatesDisplay.from_estimator(
        fit, X, lengths=LENGTHS, sequence=1, column=1
    )
    assert len(display.axes_) == 3
    np.testing.assert_array_equal(display.series, X[100:, 1])
    np.testing.assert_array_equal(display.states, fit.predict(X[100:]))
    series, transitions, durations = display.axes_
    changes = int((np.diff(display.states) != 0).sum())
    assert len(series.patches) == changes + 1
    values = {one.get_text() for one in transitions.texts}
    leaving = fit.transitions_ * ~np.eye(3, dtype=bool)
    shown = leaving[leaving > 0.05 * leaving.sum(axis=1, keepdims=True)]
    assert {f"{p:.2g}" for p in shown} <= values
    assert len(transitions.texts) == 2 * len(shown) + 6
    line = durations.lines[0].get_ydata()
    stay = fit.transitions_[0, 0]
    np.testing.assert_allclose(line, stay ** np.arange(len(line)), atol=1e-12)


def test_panels_and_names(pyplot, fit):
    names = ["a", "b", "c"]
    display = HiddenStatesDisplay.from_estimator(
        fit, [X[:100], X[100:]], names=names, panels="series"
    )
    assert len(display.axes_) == 1
    labels = {text.get_text() for text in display.axes_[0].get_legend().get_texts()}
    assert labels == {names[k] for k in np.unique(display.states)}
    with pytest.raises(ValueError, match="names must be of 3 states"):
        HiddenStatesDisplay.from_estimator(fit, X, names=["a"])
    with pytest.raises(ValueError, match="panels"):
        display.plot(["serie"])
