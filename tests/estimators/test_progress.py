"""Verbose fits say when they compile; verbose streams say what they have learned."""

import numba
import numpy as np
import pytest

from sktem import (
    DeformableTemplateEstimator,
    StochasticEM,
    StochasticEMGaussianMixture,
)
from sktem.estimators.progress import NOTICE, compile_notice
from sktem.models import RandomInterceptModel


@pytest.mark.parametrize("verbose, expected", [(0, ""), (1, f"{NOTICE}\n")])
def test_compiling_is_announced_once(capsys, verbose, expected):
    with compile_notice(verbose):
        assert numba.njit(lambda x: x + 1)(1.0) == 2.0
        assert numba.njit(lambda x: x + 2)(1.0) == 3.0
    assert capsys.readouterr().out == expected
    numba.njit(lambda x: x + 3)(1.0)
    with compile_notice(verbose):
        pass
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "estimator, rows",
    [
        (StochasticEMGaussianMixture(2), np.random.default_rng(0).normal(size=(60, 2))),
        (
            StochasticEM(RandomInterceptModel(), solver="online"),
            np.random.default_rng(0).normal(size=(60, 2)),
        ),
        (
            DeformableTemplateEstimator(
                template_landmarks=6, deformation_landmarks=3, max_iter=2
            ),
            np.random.default_rng(0).random((60, 36)),
        ),
    ],
    ids=lambda part: type(part).__name__,
)
@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
def test_chunks_are_printed(capsys, estimator, rows):
    estimator.set_params(random_state=0).partial_fit(rows[:20])
    assert "Chunk" not in capsys.readouterr().out
    estimator.set_params(verbose=1)
    estimator.partial_fit(rows[20:40]).partial_fit(rows[40:])
    lines = [line for line in capsys.readouterr().out.splitlines() if "Chunk" in line]
    assert [line.split()[2] for line in lines] == ["20", "20"]


def test_chunks_are_timed(capsys):
    rows = np.random.default_rng(0).normal(size=(60, 2))
    mixture = StochasticEMGaussianMixture(2, random_state=0, verbose=2)
    mixture.partial_fit(rows).partial_fit(rows[:5])
    lines = [line for line in capsys.readouterr().out.splitlines() if "Chunk" in line]
    assert [line.split("\t")[2].strip() for line in lines] == [
        "60 rows so far",
        "65 rows so far",
    ]
