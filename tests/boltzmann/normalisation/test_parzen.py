"""Parzen windows against scikit-learn's kernel density."""

import numpy as np
import pytest
from sklearn.neighbors import KernelDensity

from sktem.evaluation import ParzenWindow

rng = np.random.default_rng(0)
SAMPLES, ROWS = rng.normal(size=(300, 3)), rng.normal(size=(270, 3))


def test_densities_are_those_of_scikit_learn():
    window = ParzenWindow(bandwidth=0.4).fit(SAMPLES)
    peer = KernelDensity(bandwidth=0.4).fit(SAMPLES)
    np.testing.assert_allclose(window.score_samples(ROWS), peer.score_samples(ROWS))
    assert window.score(ROWS) == pytest.approx(peer.score_samples(ROWS).mean())


def test_validation_rows_choose_the_bandwidth():
    candidates = [0.05, 0.2, 0.5, 1.0, 3.0]
    window = ParzenWindow(bandwidths=candidates).fit(SAMPLES, validation=ROWS)
    scores = [ParzenWindow(b).fit(SAMPLES).score(ROWS) for b in candidates]
    assert window.bandwidth_ == candidates[int(np.argmax(scores))]
    inside = ParzenWindow(bandwidths=candidates).fit(SAMPLES)
    assert inside.bandwidth_ in (0.5, 1.0)


@pytest.mark.parametrize("bandwidth", [0, -1, "wide", None])
def test_bad_bandwidth(bandwidth):
    with pytest.raises(ValueError, match="bandwidth must be"):
        ParzenWindow(bandwidth).fit(SAMPLES)
