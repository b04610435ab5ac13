"""Panels: new, given, or in the place of given axes."""

import sys

import numpy as np
import pytest

from sktem.plotting.panels import load_pyplot, make_panels


def test_new_figure(pyplot):
    axes = make_panels(pyplot, None, (2, 3), (1.0, 1.0))
    assert axes.shape == (2, 3)
    assert len(axes[0, 0].figure.axes) == 6


def test_unused_panels_are_removed(pyplot):
    axes = make_panels(pyplot, None, (2, 3), (1.0, 1.0), n_used=4)
    assert axes.shape == (4,)
    assert list(axes[0].figure.axes) == list(axes)


def test_one_given_axes_is_used_for_one_panel(pyplot):
    _, ax = pyplot.subplots()
    assert make_panels(pyplot, ax, (1, 1), (1.0, 1.0))[0, 0] is ax


def test_one_given_axes_gives_its_place(pyplot):
    figure, (left, right) = pyplot.subplots(1, 2)
    axes = make_panels(pyplot, left, (2, 2), (1.0, 1.0))
    assert axes.shape == (2, 2) and not left.axison and right.axison
    bounds = left.get_position()
    for panel in axes.flat:
        place = panel.get_position()
        assert bounds.x0 - 1e-9 <= place.x0 and place.x1 <= bounds.x1 + 1e-9
        assert bounds.y0 - 1e-9 <= place.y0 and place.y1 <= bounds.y1 + 1e-9
    assert len(figure.axes) == 6


def test_given_axes_are_used_in_order(pyplot):
    _, given = pyplot.subplots(2, 2)
    axes = make_panels(pyplot, given, (1, 4), (1.0, 1.0))
    assert axes.shape == (1, 4)
    assert list(axes[0]) == list(given.ravel())


def test_wrong_number_of_axes(pyplot):
    _, given = pyplot.subplots(1, 2)
    with pytest.raises(ValueError, match="one Axes or 3 of them, got 2"):
        make_panels(pyplot, given, (1, 3), (1.0, 1.0))


def test_axes_without_a_grid_cannot_be_divided(pyplot):
    ax = pyplot.figure().add_axes([0.1, 0.1, 0.8, 0.8])
    with pytest.raises(ValueError, match="does not belong to a grid"):
        make_panels(pyplot, ax, (1, 2), (1.0, 1.0))
    assert np.ravel(make_panels(pyplot, ax, (1, 1), (1.0, 1.0)))[0] is ax


def test_missing_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        ImportError, match=r'Some.plot needs.*pip install "sktem\[plot\]"'
    ):
        load_pyplot("Some.plot")
