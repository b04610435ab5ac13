"""Work arrays of a subject, in two pieces of memory."""

from typing import Any, NamedTuple

from numba import njit

from sktem.compartments.kernels.observations import WORK_SIZE, Work, work_at
from sktem.compartments.kernels.schedule import Dosing, Pending, Steps
from sktem.kernels.borrowed import offset
from sktem.kernels.options import INNER


class SubjectWork(NamedTuple):
    """Addresses of the work arrays of a subject.

    Attributes
    ----------
    psi, arguments : pointer
        Parameters of each line, and those of the closed form of compartments.
    f, since : pointer
        Predictions, and times of rows since the step before.
    linear : Work
        Work of the closed form of compartments.
    dosing : Dosing
        Parameters of doses, of all records.
    steps, pending : Steps, Pending
        Steps that are made for the parameters, and doses to come.
    before : pointer
        How many rows come before each.
    """

    psi: Any
    arguments: Any
    f: Any
    since: Any
    linear: Work
    dosing: Dosing
    steps: Steps
    pending: Pending
    before: Any


class Sizes(NamedTuple):
    """Lengths of the arrays of a block of subjects.

    Attributes
    ----------
    psi, random, shifts, effects : int
        Parameters, random ones, those with shifts (all or none), and effects of
        occasions.
    rows, lines : int
        Rows of all subjects, and lines of one at most.
    longest : int
        Rows of a subject, at most.
    arguments, records : int
        Arguments of the closed form, and records of doses.
    chains, latents, noise, moves : int
        Chains of a subject, latents, numbers of noise, and moves.
    errors : int
        Errors (a, b) at which densities are evaluated.
    """

    psi: int
    random: int
    shifts: int
    effects: int
    rows: int
    lines: int
    longest: int
    arguments: int
    records: int
    chains: int
    latents: int
    noise: int
    moves: int
    errors: int


@njit(**INNER, error_model="numpy")
def sizes_of(model, rows, moves, Z, errors):
    """Return the lengths of arrays."""
    longest = n_lines = 0
    for i in range(rows.offsets.shape[0] - 1):
        longest = max(longest, rows.offsets[i + 1] - rows.offsets[i])
        own = rows.lines.of_subject[i + 1] - rows.lines.of_subject[i]
        n_lines = max(n_lines, own)
    return Sizes(
        rows.base.shape[1],
        model.positions.shape[0],
        rows.lines.shifts.shape[0],
        rows.lines.parameters.shape[0],
        rows.y.shape[0],
        n_lines,
        longest,
        rows.plan.order.shape[0],
        rows.lines.of_record.shape[0],
        Z.shape[1],
        Z.shape[2],
        moves.noise.shape[2],
        moves.first.shape[0],
        errors.shape[0],
    )


@njit(**INNER, error_model="numpy")
def numbers_of_work(sizes, room):
    """Return how many real and whole numbers the work of a subject takes."""
    n = sizes.records if room else 0
    own = sizes.lines * (sizes.psi + sizes.arguments) + 2 * sizes.longest
    return own + WORK_SIZE + sizes.latents + 4 * n + 10 * room, 8 * room + 2


@njit(**INNER, error_model="numpy")
def subject_work_at(place, whole, sizes, room, kinds):
    """Return work for each subject, which lies at addresses of real and whole numbers.

    ``kinds`` are the numbers of depots, compartments and effects.
    """
    n = sizes.records if room else 0
    arguments = offset(place, sizes.lines * sizes.psi)
    f = offset(arguments, sizes.lines * sizes.arguments)
    since = offset(f, sizes.longest)
    linear = offset(since, sizes.longest)
    doses = offset(linear, WORK_SIZE)
    reals = offset(doses, 4 * n)
    return SubjectWork(
        place,
        arguments,
        f,
        since,
        work_at(linear, *kinds),
        Dosing(doses, offset(doses, n), offset(doses, 2 * n), offset(doses, 3 * n)),
        Steps(
            reals, offset(reals, room), offset(whole, 2), offset(whole, room + 2),
            offset(whole, 2 * room + 2), offset(reals, 2 * room),
            offset(reals, 3 * room), offset(reals, 4 * room), offset(reals, 5 * room),
            offset(whole, 3 * room + 2), whole,
        ),
        Pending(
            offset(reals, 6 * room), offset(reals, 7 * room),
            offset(whole, 4 * room + 2), offset(whole, 5 * room + 2),
            offset(reals, 8 * room), offset(reals, 9 * room),
            offset(whole, 6 * room + 2), room,
        ),
        offset(whole, 7 * room + 2),
    )  # fmt: skip
