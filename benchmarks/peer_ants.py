"""Runs ANTsPy, in an environment of its own, on images in a file.

Called by other benchmarks: ``python peer_ants.py images.npy answer.npz``. Builds a
template (three rounds of SyN, as by default), registers it to every image, and writes
``template``, ``fields`` and ``seconds``: the pixel at x of an image is the template at
``x - field(x)``.
"""

import sys
import time

import ants
import numpy as np
import pandas as pd


def main():
    X = np.load(sys.argv[1])
    images = [ants.from_numpy(image) for image in X.astype(np.float32)]
    began = time.process_time()
    template = ants.build_template(ants.from_numpy(X.mean(axis=0)), images)
    pixels = np.indices(X.shape[1:]).reshape(2, -1).astype(float)
    places = pd.DataFrame({"x": pixels[0], "y": pixels[1]})
    fields = []
    for image in images:
        found = ants.registration(image, template, type_of_transform="SyN")
        there = ants.apply_transforms_to_points(2, places, found["fwdtransforms"])
        fields.append(pixels - there[["x", "y"]].to_numpy().T)
    seconds = time.process_time() - began
    np.savez(
        sys.argv[2],
        template=template.numpy(),
        fields=np.reshape(fields, (len(X), 2, *X.shape[1:])),
        seconds=seconds,
    )


if __name__ == "__main__":
    main()
