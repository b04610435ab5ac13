"""The parameters that several estimators share, with their defaults, as a table.

Run ``python benchmarks/shared_parameters.py > doc/tables/shared_parameters.csv`` after
a change of a default; a test compares the two.
"""

import csv
import inspect
import io

import sktem

ESTIMATORS = {
    "Gaussian mixture": sktem.StochasticEMGaussianMixture,
    "Any model": sktem.StochasticEM,
    "Templates": sktem.DeformableTemplateEstimator,
    "Boltzmann": sktem.LatentBoltzmannMachine,
    "Mixed effects": sktem.NonlinearMixedEffectsRegressor,
    "Robust Poisson": sktem.RobustPoissonRegressor,
    "Relevance": sktem.ARDLogisticClassifier,
}
PARAMETERS = (
    "solver sampler batch_size sampling step_size average max_iter tol "
    "n_iter_no_change warm_start n_jobs random_state verbose verbose_interval"
).split()
ATTRIBUTES = ["n_iter_", "converged_", "history_"]


def default_of(cls, name):
    """Return the default of a parameter as it is written, empty if there is none."""
    parameters = inspect.signature(cls).parameters
    return repr(parameters[name].default) if name in parameters else ""


def documents(cls, attribute):
    """Return whether the docstring of a class names a fitted attribute."""
    return "yes" if f"    {attribute} : " in cls.__doc__ else ""


def accepts_weights(cls):
    """Return whether ``fit`` takes weights of the rows."""
    return "yes" if "sample_weight" in inspect.signature(cls.fit).parameters else ""


def table():
    """Return the table as comma-separated text."""
    classes = ESTIMATORS.values()
    rows = [["", *ESTIMATORS]]
    for name in PARAMETERS:
        rows.append([f"``{name}``"] + [default_of(cls, name) for cls in classes])
    for name in ATTRIBUTES:
        rows.append([f"``{name}``"] + [documents(cls, name) for cls in classes])
    has_stream = ["yes" if hasattr(cls, "partial_fit") else "" for cls in classes]
    rows.append(["``partial_fit``", *has_stream])
    rows.append(["``sample_weight``"] + [accepts_weights(cls) for cls in classes])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


if __name__ == "__main__":
    print(table(), end="")
