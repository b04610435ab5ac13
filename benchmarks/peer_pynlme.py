"""Runs pynlme's SAEM, in an environment of its own, on arrays in a file.

Called by other benchmarks: ``python peer_pynlme.py data.npz n_seeds
with_likelihood first_seed``.
The file holds ``dose, time, y, group, start``; the answer is one line of JSON per seed.
"""

import json
import sys
import time

import numpy as np
import pynlme


def model(phi, x, v):
    ka, V, CL = phi[..., 0], phi[..., 1], phi[..., 2]
    k = CL / V
    dose, t = x[:, 0], x[:, 1]
    return dose * ka / (V * (ka - k)) * (np.exp(-k * t) - np.exp(-ka * t))


def main():
    data = np.load(sys.argv[1])
    X = np.column_stack([data["dose"], data["time"]])
    start = np.log(data["start"])
    options = {"ParamTransform": [1, 1, 1]}
    if sys.argv[3] == "1":
        options |= {"LogLikMethod": "is", "ComputeStdErrors": True}
    if len(np.unique(data["group"])) > 50:
        options["n_chains"] = 1
    first = int(sys.argv[4])
    for seed in range(first - 1, first + int(sys.argv[2])):  # one to warm up
        begin = time.process_time()
        beta, psi, stats, _ = pynlme.nlmefitsa(
            X, data["y"], data["group"], None, model, start,
            random_state=max(seed, 0), **options,
        )  # fmt: skip
        spent = time.process_time() - begin
        if seed >= first:
            found = [*np.exp(beta), *np.diag(psi), float(np.ravel(stats.errorparam)[0])]
            print(json.dumps({"values": found, "cpu": spent}), flush=True)


if __name__ == "__main__":
    main()
