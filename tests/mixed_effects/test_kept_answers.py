"""Points of a quadrature are integrated once for likelihoods and slopes."""

import numpy as np

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import OneCompartment, read_nonmem
from sktem.mixed_effects.given_data import given_records
from sktem.mixed_effects.inference.louis import louis_information
from sktem.mixed_effects.inference.marginal_likelihood import (
    DRAWS_AT_ONCE,
    quadrature_draws,
)
from sktem.mixed_effects.problem import Problem
from sktem.mixed_effects.settings import MixedEffectsSettings


class Counted(OneCompartment):
    """Counts subjects at points for which elimination is integrated."""

    n_integrated = 0

    def _predictions(self, records, parameters):
        self.n_integrated += records.n_subjects
        return super()._predictions(records, parameters)


def test_information_integrates_each_point_once():
    n, structure = 3, Counted(elimination="michaelis-menten")
    frame = {
        "ID": np.repeat(np.arange(n), 3), "TIME": np.tile([0.0, 1, 4], n),
        "AMT": np.tile([100.0, 0, 0], n), "DV": np.tile([0, 9.0, 7], n),
    }  # fmt: skip
    estimator = NonlinearMixedEffectsRegressor(
        structure, parameters={"VMAX": 5.0, "KM": 2.0, "V": 10.0}, omega=["VMAX", "V"],
        residual_error="proportional", fixed=["KM"],
    )  # fmt: skip
    settings = MixedEffectsSettings.of(vars(estimator))
    data = given_records(settings, read_nonmem(frame))
    model, _, rows, *_ = Problem.of(settings, data)
    modes, covariances = np.log([[5.0, 10.0]] * n), [0.01 * np.eye(2)] * n
    draws = quadrature_draws(modes, np.array(covariances), 75)
    assert len(draws.points) * n > DRAWS_AT_ONCE  # more than one block of points
    structure.n_integrated = 0
    log_joint = draws.log_joint(model, rows, model.start)
    louis_information(model, rows, model.start, draws, log_joint)
    assert structure.n_integrated == n * 75**2
