"""scikit-learn's checks of all public estimators, by default and with two components.

All estimators that can be imported from ``sktem`` are checked with their defaults;
where there are components or states, two are checked as well. Checks that fail are
printed with their reason. Those of ``EXPECTED`` may fail, as scikit-learn allows:
a chain for each row means other draws for two rows than for one of weight two, and rows
of one sequence belong together.

Usage: ``python benchmarks/estimator_checks.py [--only HiddenMarkovModel ...]``
"""

import argparse
import inspect
import time
import warnings
from collections import Counter

from machine import describe
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import check_estimator
from threadpoolctl import threadpool_limits

import sktem
from sktem.models import RandomInterceptModel

#: What has no default because nothing could be one.
NEEDED = {
    "StochasticEM": {"model": RandomInterceptModel()},
    "NonlinearMixedEffectsRegressor": {
        "model": "linear",
        "parameters": {"intercept": 0.0, "slope": 1.0},
        "transforms": "normal",
        "omega": [],
    },
}
DRAWS = {"check_sample_weight_equivalence_on_dense_data": "draws of copies differ"}
BATCHES = {
    f"check_sample_weight_equivalence_on_{kind}_data": "batches of copies differ"
    for kind in ("dense", "sparse")
}
#: Checks that are expected to fail, and why.
EXPECTED = {
    "DeformableTemplateEstimator": DRAWS,
    "DeformableTemplateClassifier": DRAWS,
    "DeformedCopiesClassifier": DRAWS,
    "LatentBoltzmannMachine": BATCHES,
    "HiddenMarkovModel": {
        "check_methods_sample_order_invariance": "the order of rows has a meaning",
        "check_methods_subset_invariance": "a row is judged by its neighbours",
        "check_sample_weights_not_overwritten": "weights are of sequences",
        "check_sample_weight_equivalence_on_dense_data": "weights are of sequences",
    },
}


def public_estimators():
    """Return names of all estimators that can be imported from ``sktem``."""
    found = {name: getattr(sktem, name) for name in sktem.__all__}
    return [
        name
        for name, value in found.items()
        if inspect.isclass(value)
        and issubclass(value, BaseEstimator)
        and hasattr(value, "fit")
    ]


def variants(name):
    """Yield an estimator with its defaults, and one with two components."""
    Estimator = getattr(sktem, name)
    given = NEEDED.get(name, {})
    yield Estimator(**given)
    for parts in ("n_components", "n_states"):
        default = inspect.signature(Estimator).parameters.get(parts)
        if default is not None and default.default != 2:
            yield Estimator(**{parts: 2}, **given)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=public_estimators())
    names = parser.parse_args().only or public_estimators()
    print(describe())
    warnings.simplefilter("ignore")
    n_failed = 0
    for name in names:
        for estimator in variants(name):
            start = time.process_time()
            results = check_estimator(
                estimator, expected_failed_checks=EXPECTED.get(name), on_fail=None,
                on_skip=None,
            )  # fmt: skip
            counts = Counter(result["status"] for result in results)
            counts = ", ".join(f"{n} {status}" for status, n in sorted(counts.items()))
            seconds = time.process_time() - start
            print(f"{' '.join(repr(estimator).split()):60} {counts} ({seconds:.1f} s)",
                  flush=True)  # fmt: skip
            for result in results:
                if result["status"] == "failed":
                    n_failed += 1
                    print(f"    {result['check_name']}: {result['exception']}")
    print(f"failed: {n_failed}")


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
