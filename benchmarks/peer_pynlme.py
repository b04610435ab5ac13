"""Runs pynlme's SAEM, in an environment of its own, on arrays in a file.

Called by other benchmarks: ``python peer_pynlme.py data.npz n_seeds with_likelihood
first_seed [control]``. The file holds ``dose, time, y, group, start``; control is JSON
with more settings of saemix; the answer is one line of JSON per seed.
"""

import json
import sys
import time

import numpy as np
from pynlme import r


def model(psi, id, x):
    ka, V, CL = psi[id, 0], psi[id, 1], psi[id, 2]
    k = CL / V
    dose, t = x[:, 0], x[:, 1]
    return dose * ka / (V * (ka - k)) * (np.exp(-k * t) - np.exp(-ka * t))


def main():
    path, n_seeds, likelihood, first = sys.argv[1], *map(int, sys.argv[2:5])
    more = json.loads(sys.argv[5]) if len(sys.argv) > 5 else {}
    file = np.load(path)
    names = ("ka", "V", "CL")
    start = dict(zip(names, file["start"].tolist(), strict=True))
    structure = r.saemixModel(model, start, transform_par=[1, 1, 1])
    columns = {name: file[name] for name in ("group", "dose", "time", "y")}
    data = r.saemixData(columns, "group", ["dose", "time"], "y")
    chains = max(1, -(-50 // len(np.unique(file["group"]))))
    warm_up = 1 if likelihood else 0  # long runs of many subjects need none
    for seed in range(first - warm_up, first + n_seeds):
        control = {"seed": seed + 1, "nb.chains": chains, "ll.is": bool(likelihood)}
        control.update(more)
        begin = time.process_time()
        fit = r.saemix(structure, data, control)
        spent = time.process_time() - begin
        if seed >= first:
            found = [fit["typical"][name] for name in names]
            found += [*np.diag(fit["omega"]), fit["respar"]["a.1"]]
            print(
                json.dumps({"values": [*map(float, found)], "cpu": spent}), flush=True
            )


if __name__ == "__main__":
    main()
