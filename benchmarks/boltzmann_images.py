"""Likelihood of images: MNIST and OCR letters, PCD, MFPCD, APCD and H-APCD by AIS.

Machines are scaled to what a core does in about an hour for each data set: all rows,
and fewer epochs (of letters also fewer units) than published, centred and with longer
steps. Jang et al. (2016) have -84.31 and -83.93 (MNIST) and -31.13 and -29.59 (OCR) for
MFPCD and H-APCD; their split of the letters is not known. MNIST is binarised
stochastically once; thresholded images are another, easier data set. All solvers go on
from the same layers, which are pretrained; the CPU seconds contain it. Where a solver
needs shorter steps than another to stay finite, the title line says so.

``--seconds 300`` gives each solver that much CPU time after the pretraining instead of
epochs: two trial epochs, of the halves of a run, say how many it has. With ``--below``
the machines of the data set that ``--only`` names begin as that of
``boltzmann_record.py`` does, with the average of a restricted machine and small weights
to the layer on top, and draw the pixels of digits anew at each visit. ``--small`` takes
two minutes: 8,000 or 6,000 rows and smaller machines.
``--paper``
runs the published sizes (784-500-1000 and 128-500-1000, 100 epochs of pretraining and
500 or 200 more, the steps and transitions of the paper), which takes days on such a
machine.
Run: ``OMP_NUM_THREADS=1 python benchmarks/boltzmann_images.py``.
"""

from __future__ import annotations

import argparse
import copy
import time
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path

import joblib
import layerwise
import numpy as np
from boltzmann_data import frey_faces, mnist, mnist_intensities, ocr_letters
from boltzmann_record import Run, new_machine, step_size  # noqa: F401 (in checkpoints)
from machine import describe
from parzen import ParzenWindow

from sktem import LatentBoltzmannMachine
from sktem.boltzmann.normalisation.ais import posterior_log_sums
from sktem.evaluation import annealed_importance_sampling

SOLVERS = {
    "MFPCD": dict(solver="mfpcd"),
    "H-APCD": dict(solver="hapcd"),
    "PCD, Gibbs": dict(solver="pcd"),
    "APCD": dict(solver="apcd"),
}


@dataclass(frozen=True)
class Plan:
    """A data set, and the machine that is to learn it.

    ``steps_of`` are those of solvers for which ``steps`` are too long.
    """

    name: str
    load: object
    width: int
    sizes: tuple
    pretrain: int
    epochs: int
    steps: tuple
    steps_of: dict = field(default_factory=dict)
    centering: bool = True
    n_gibbs_e: int = 10
    n_mean_field: int = 10
    n_gibbs_m: int = 5
    n_rows: int | None = None
    n_test: int = 500
    n_temperatures: int = 30_000
    decay: float = 2e-4


SCALED = {
    "ocr": Plan(
        "OCR letters", ocr_letters, 8, (500, 500), 5, 50, (0.2, 0.002),
        steps_of={"H-APCD": (0.1, 0.001)},
    ),
    "mnist": Plan(
        "MNIST", mnist, 28, (500, 1000), 15, 20, (0.1, 0.001),
        steps_of={"PCD, Gibbs": (0.05, 0.0005), "APCD": (0.05, 0.0005)},
    ),
}  # fmt: skip
SMALL = {
    "ocr": Plan(
        "OCR letters", ocr_letters, 8, (100, 100), 10, 20, (0.1, 0.001), n_rows=8000,
        n_test=200, n_temperatures=3000,
    ),
    "mnist": Plan(
        "MNIST", mnist, 28, (200, 200), 10, 10, (0.1, 0.001), n_rows=6000,
        n_test=200, n_temperatures=3000,
    ),
}  # fmt: skip
PUBLISHED = {
    key: Plan(
        SCALED[key].name, SCALED[key].load, SCALED[key].width, (500, 1000), 100, epochs,
        (0.005, 0.0001), centering=False, n_gibbs_e=100, n_mean_field=30,
        n_gibbs_m=10, n_test=1000,
    )
    for key, epochs in (("ocr", 200), ("mnist", 500))
}  # fmt: skip


#: Machines that go on from a restricted one.
ON_TOP = {
    "ocr": Plan(
        "OCR letters", ocr_letters, 8, (500, 500), 0, 50, (0.03, 0.0003), decay=1e-4,
        n_gibbs_e=2, n_test=1000, n_temperatures=15_000,
    ),
    "mnist": Plan(
        "MNIST", lambda: (mnist_intensities()[0], mnist()[1]), 28, (500, 1000), 0, 20,
        (0.03, 0.0003), n_gibbs_e=2, n_test=1000, n_temperatures=15_000,
    ),
}  # fmt: skip


def plans(arguments):
    """Return the plans that were asked for."""
    if arguments.below:
        return ON_TOP
    if arguments.small:
        return SMALL
    return PUBLISHED if arguments.paper else SCALED


def pretrained(key, plan, train, arguments):
    """Return a machine whose layers were learned in turn, and CPU s."""
    path = kept(arguments.keep, key, "layers")
    if path is not None and path.exists():
        return joblib.load(path)
    start = time.process_time()
    if arguments.below:
        options = argparse.Namespace(
            below=arguments.below, top=plan.sizes[1], gibbs=plan.n_gibbs_m,
            gibbs_e=plan.n_gibbs_e, chains=100, decay=plan.decay, seed=arguments.seed,
        )  # fmt: skip
        machine = new_machine(options, train)
        return machine.set_params(n_mean_field=plan.n_mean_field), 0.0
    machine = LatentBoltzmannMachine(
        hidden_layer_sizes=plan.sizes, n_gibbs_m=plan.n_gibbs_m,
        n_gibbs_e=plan.n_gibbs_e, n_mean_field=plan.n_mean_field,
        step_size_m=plan.steps, centering=plan.centering, weight_decay=0.0, tol=None,
        random_state=arguments.seed, n_jobs=1,
    )  # fmt: skip
    machine = layerwise.pretrained(machine, train, plan.pretrain)
    result = machine, time.process_time() - start
    if path is not None:
        joblib.dump(result, path)
    return result


def learned(plan, start, train, **settings):
    """Return a machine that continues another one."""
    machine = copy.deepcopy(start).set_params(
        warm_start=True, max_iter=plan.epochs, **settings
    )
    return machine.fit(train)


def epochs_in(plan, start, train, seconds, **settings):
    """Return how many epochs a solver does in so much CPU time."""
    trial = replace(plan, epochs=2)
    learned(replace(plan, epochs=1), start, train[:500], **settings)  # compiles
    begun = time.process_time()
    learned(trial, start, train, **settings)
    return max(2, round(2 * seconds / (time.process_time() - begun)))


def log_likelihoods(machine, test, seed, n_temperatures):
    """Return log-likelihoods of rows and the estimate of log Z, both by AIS."""
    model, params = machine.fitted_.model, machine.params_
    rng = np.random.default_rng(seed)
    total = annealed_importance_sampling(model, params, rng, 100, n_temperatures)
    values, _ = posterior_log_sums(model, params, test.astype(float), rng, 10, 100)
    return values - total.value, total


def deep(key, plan, train, test, arguments):
    base = np.clip(train.mean(axis=0, dtype=float), 1e-3, 1 - 1e-3)
    rates = (test * np.log(base) + (1 - test) * np.log1p(-base)).sum(axis=1)
    shape = "-".join(str(size) for size in (train.shape[1], *plan.sizes))
    length = f"{plan.pretrain} + {plan.epochs} epochs"
    if arguments.seconds:
        length = (
            f"{plan.pretrain} epochs and {arguments.seconds:g} CPU s of each solver"
        )
    print(
        f"\n{plan.name}, {shape}, {len(train):,} rows, {length}, "
        f"{len(test)} test rows; base rates {rates.mean():.2f}"
    )
    others = [f"; {name} {steps[0]}" for name, steps in plan.steps_of.items()]
    print(f"steps from {plan.steps[0]}{''.join(others)}")
    print(
        "  solver        log-likelihood     less the first, paired   log Z error, size"
        "   fit, CPU s  epochs"
    )
    first = None
    layers = pretrained(key, plan, train, arguments)
    for solver in arguments.solvers:
        result = one_solver(key, plan, solver, layers, train, arguments)
        machine, n_temperatures = result["machine"], plan.n_temperatures
        values, total = log_likelihoods(machine, test, arguments.seed, n_temperatures)
        error = np.hypot(standard_error(values), total.standard_error)
        first = (values, total) if first is None else first
        paired = values - first[0]
        spread = np.hypot(total.standard_error, first[1].standard_error)
        spread = np.hypot(standard_error(paired), spread)
        print(
            f"  {solver:12s} {values.mean():9.2f} +-{error:5.2f}       "
            f"{paired.mean():+6.2f} +-{spread:5.2f}           "
            f"{total.standard_error:5.2f} {total.effective_sample_size:5.0f}     "
            f"{result['seconds']:8.1f}  {result.get('epochs', plan.epochs):6d}",
            flush=True,
        )
        if solver == "H-APCD":
            samples = machine.sample(60, n_steps=2000)
            picture_shape = (samples.shape[1] // plan.width, plan.width)
            picture(arguments.pictures, f"boltzmann_{key}", samples, picture_shape)


def one_solver(key, plan, solver, layers, train, arguments):
    """Return machine and seconds of a solver, kept ones if there are."""
    path = kept(arguments.keep, key, solver)
    if path is not None and path.exists():
        return joblib.load(path)
    machine, seconds = layers
    steps = plan.steps_of.get(solver, plan.steps)
    settings = dict(step_size_m=steps, **SOLVERS[solver])
    if arguments.seconds:
        epochs = epochs_in(plan, machine, train, arguments.seconds, **settings)
        plan = replace(plan, epochs=epochs)
    start = time.process_time()
    machine = learned(plan, machine, train, **settings)
    seconds += time.process_time() - start
    result = dict(machine=machine, seconds=seconds, epochs=plan.epochs)
    if path is not None:
        joblib.dump(result, path)
    return result


def kept(folder, key, solver):
    """Return where the machine of a solver is kept."""
    return None if folder is None else Path(folder) / f"{key}_{solver}.joblib"


def standard_error(values):
    return values.std() / np.sqrt(len(values))


def picture(folder, name, rows, shape):
    """Write 60 rows as one picture, light on dark."""
    if folder is None:
        return
    from matplotlib import image

    height, width = shape
    tiles = rows[:60].reshape(5, 12, height, width)
    frame = np.pad(tiles, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=0.5)
    mosaic = frame.transpose(0, 2, 1, 3).reshape(5 * (height + 2), 12 * (width + 2))
    mosaic = np.kron(np.clip(mosaic, 0, 1), np.ones((2, 2)))
    image.imsave(Path(folder) / f"{name}.png", mosaic, cmap="gray", vmin=0, vmax=1)


def faces(arguments):
    """Gaussian visible units on the Frey faces, by Parzen windows as in the paper."""
    train, test = frey_faces()
    machine = LatentBoltzmannMachine(
        hidden_layer_sizes=200, visible="gaussian", solver="pcd", n_gibbs_m=5,
        step_size_m=(0.01, 0.0002), max_iter=arguments.face_epochs, batch_size=50,
        centering=False, weight_decay=0.0, tol=None, random_state=arguments.seed,
        n_jobs=1,
    )  # fmt: skip
    start = time.process_time()
    machine.fit(train)
    seconds = time.process_time() - start
    validation = train[: len(train) // 10]
    print(
        f"\nFrey faces, 560-200 with Gaussian units, {arguments.face_epochs} epochs, "
        f"{seconds:.0f} s; Parzen windows, {len(test)} test faces"
    )
    samples = machine.sample(5_000, n_steps=200)
    picture(arguments.pictures, "boltzmann_frey_faces", samples, (28, 20))
    sources = {"samples of the machine": samples, "training faces": train[176:]}
    for source, rows in sources.items():
        window = ParzenWindow(bandwidths=np.geomspace(0.03, 0.3, 12))
        values = window.fit(rows, validation=validation).score_samples(test)
        error = values.std() / np.sqrt(len(values))
        print(f"  {source:24s} {values.mean():8.1f} +- {error:.1f}")
    return machine


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--paper", action="store_true")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--seconds", type=float, help="CPU time of each solver")
    parser.add_argument("--only", choices=["ocr", "mnist", "faces"])
    parser.add_argument("--below", help="checkpoint of boltzmann_record.py")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--solvers", nargs="+", choices=list(SOLVERS), default=SOLVERS)
    parser.add_argument(
        "--keep", help="folder for machines; those there are not redone"
    )
    parser.add_argument("--pictures", help="folder for pictures of samples")
    parser.add_argument("--face-epochs", type=int, default=40)
    arguments = parser.parse_args()
    if arguments.below and arguments.only not in ON_TOP:
        parser.error("--below needs --only ocr or --only mnist")
    warnings.simplefilter("ignore")
    for folder in filter(None, (arguments.keep, arguments.pictures)):
        Path(folder).mkdir(exist_ok=True, parents=True)
    print(describe())
    for key, plan in plans(arguments).items():
        if arguments.only not in (None, key):
            continue
        train, test = plan.load()
        train = train[: plan.n_rows]
        deep(key, plan, train, test[: plan.n_test], arguments)
    if arguments.only in (None, "faces"):
        faces(arguments)


if __name__ == "__main__":
    main()
