"""The transformer that completes tables."""

import numpy as np
import pandas as pd

from sktem import MixtureImputer


def test_conditional_means_and_draws():
    rng = np.random.default_rng(0)
    X = rng.multivariate_normal([0, 0], [[1.0, 0.8], [0.8, 1.0]], size=2000)
    holes = X.copy()
    holes[::2, 1] = np.nan
    imputer = MixtureImputer(1, n_draws=3, random_state=0).fit(holes)
    np.testing.assert_allclose(
        imputer.transform(holes)[::2, 1], 0.8 * X[::2, 0], atol=0.15
    )
    one, two, _ = imputer.draws(holes)
    assert (one[::2, 1] != two[::2, 1]).all() and (one[1::2] == X[1::2]).all()


def test_frames():
    frame = pd.DataFrame({"a": [0.0, 1, None, 5, 6], "b": list("xxyy") + [None]})
    filled = MixtureImputer(1).fit_transform(frame)
    assert isinstance(filled, pd.DataFrame) and not filled.isna().any().any()
