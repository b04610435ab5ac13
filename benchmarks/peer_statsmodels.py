"""Runs statsmodels' MixedLM, in an environment of its own, on arrays in a file.

Called by other benchmarks: ``python peer_statsmodels.py data.npz``. The file holds
``x``, ``y`` and ``group``; the model is a line per group with correlated intercept and
slope, by maximum likelihood. The answer is one line of JSON.
"""

import json
import sys
import time
import warnings

import numpy as np
from statsmodels.regression.mixed_linear_model import MixedLM


def main():
    file = np.load(sys.argv[1])
    warnings.simplefilter("ignore")
    design = np.column_stack([np.ones(len(file["x"])), file["x"]])
    begin = time.process_time()
    fit = MixedLM(file["y"], design, groups=file["group"], exog_re=design).fit(
        reml=False, method=["powell", "bfgs"], gtol=1e-9
    )
    spent = time.process_time() - begin
    answer = {
        "psi": fit.fe_params.tolist(),
        "omega": np.asarray(fit.cov_re).tolist(),
        "a": float(np.sqrt(fit.scale)),
        "deviance": -2 * float(fit.llf),
        "cpu": spent,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
