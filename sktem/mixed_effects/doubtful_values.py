"""Messages on records that are probably mistaken."""

from __future__ import annotations

import numpy as np

from sktem.mixed_effects.endpoints import EndpointError
from sktem.mixed_effects.outcomes import EventOutcome
from sktem.mixed_effects.residual_errors import ProportionalError

__all__ = ["doubtful_columns", "doubtful_values", "has_error", "unobserved"]

#: Names under which data sets have what CENS says, limits, kinds of observations,
#: durations of infusions, and occasions.
FLAGS = ("BLQ", "BQL", "BLOQ", "BLLOQ", "CENSORED", "CENSORING")
LIMITS = ("LLOQ", "LOQ", "LLQ", "LOD", "LLOD")
KINDS = ("DVID", "YTYPE", "DVNAME", "ENDPOINT", "FLAG")
DURATIONS = ("TINF", "DURATION")
OCCASIONS = ("OCC", "OCCASION", "IOV")
#: Distinct limits of quantification, one an observation, from which they are doubtful.
FEWEST_LIMITS = 5
#: Texts that stand for what is missing.
UNKNOWN = ("", ".", "NA", "nan", "None", "NaT", "<NA>")


def doubtful_values(model, rows):
    """Return messages on records whose values are probably mistaken."""
    if rows.events is None or model.error is None:
        return []
    censored = np.zeros(len(rows.y)) if rows.censored is None else rows.censored
    messages = _of_doses(rows.events.records)
    has_events = has_error(model.error, rows, EventOutcome).any()
    if has_events and (late := rows.events.begun_late()):
        messages.append(
            f"Hazards are integrated from time 0, and subjects such as {late[:3]} have "
            "no record for longer than they were followed: count time from the "
            "beginning of the observation."
        )
    relative = has_error(model.error, rows, ProportionalError)
    if (relative & (censored == 1) & (rows.y <= 0)).any():
        messages.append(
            "CENS is 1 where DV is zero or less, which says nothing but that values "
            "are negative: DV has to be the limit of quantification there."
        )
    below = np.unique(rows.y[censored == 1], return_counts=True)[1]
    is_measured = len(below) >= FEWEST_LIMITS and below.max() == 1
    if is_measured and model.error.regresses and rows.limits is None:
        messages.append(
            f"CENS is 1 in {len(below)} observations, each of them with another DV: DV "
            "has to be the limit of quantification there, not what was measured below "
            "it."
        )
    zero = (rows.y == 0) & (censored == 0)
    zeros = np.flatnonzero(rows.sums((~zero).astype(float)) == 0)
    zeros = zeros[rows.lengths[zeros] > 1]
    if len(zeros) and model.error.regresses and len(zeros) <= len(rows) / 8:
        labels = rows.events.records.labels[zeros].tolist()
        messages.append(
            f"All observations of the subjects {labels} are zero: if they are below a "
            "limit of quantification, set CENS to 1 and DV to the limit; if the dose "
            "was not taken, leave it out."
        )
    exact = relative & (rows.y <= 0) & (censored == 0)
    exact &= ~rows.events.records.undosed[rows.events.records.observed]
    if exact.any():
        messages.append(
            f"{exact.sum()} of {rows.n_rows} observations after a dose are zero or "
            "less, which is all of the prediction to a proportional error, and "
            "inflates it. If they are below a limit of quantification, set CENS to 1 "
            'and DV to the limit, or MDV to 1; else pass residual_error="combined".'
        )
    return messages


def _of_doses(records) -> list[str]:
    """Return messages on doses with observations, and on doses that stand twice."""
    messages = []
    if (unread := records.unread).any():
        messages.append(
            f"{unread.sum()} records of doses or other events, such as "
            f"{records.name(int(np.argmax(unread)))}, have a DV, which is not read: "
            "what was observed then has a record of its own with EVID 0, above a dose "
            "that came later. If DV is no observation, set MDV to 1 there."
        )
    if (repeated := records.repeated_doses).any():
        messages.append(
            f"{repeated.sum()} doses, such as "
            f"{records.name(int(np.argmax(repeated)))}, are the same as the dose "
            "before in all columns, and both are counted: leave one of them out, or "
            "make it one record with the sum of AMT."
        )
    return messages


def doubtful_columns(problem) -> list[str]:
    """Return messages on unread columns of limits, kinds and durations."""
    layout, rows = problem.layout, problem.rows
    if problem.model.error is None or layout.names is None:
        return []
    covariates = [*layout.subject_columns, *layout.row_columns, layout.occasion_column]
    read = {layout.names[j] for j in covariates if j is not None}
    if rows.events is None:
        names = [] if layout.inputs is None else list(layout.names)
        read |= {layout.names[j] for j in layout.inputs or ()}
        flags = [n for n in names if n not in read and n.upper() in ("CENS", *FLAGS)]
        return [
            f"The column {name!r} of X is not read, so that each y counts as measured: "
            "limits of quantification go with records and the models of "
            "sktem.compartments, where CENS says it."
            for name in flags
        ]
    records = rows.events.records
    messages = []
    for name in records.columns:
        if name in read:
            continue
        if found := _doubt_of(str(name), records):
            messages.append(found)
        # A model of functions may read the column of occasions.
        function = problem.model.structure.model is not None
        if problem.model.design.n_latents and not function:
            messages += _of_occasions(str(name), records)
    return messages


def _of_occasions(name, records) -> list[str]:
    """Return a message on a column of several occasions of a subject, or none."""
    values = records[name][records.observed]
    if name.upper() not in OCCASIONS:
        return []
    is_text = values.dtype.kind not in "biuf"
    if is_text:
        texts = np.array([str(value).strip() for value in values.tolist()])
        values = np.unique(texts, return_inverse=True)[1].astype(float)
        values[np.isin(texts, UNKNOWN)] = np.nan
    owner, known = records.subject_of_record[records.observed], np.isfinite(values)
    pairs = np.unique(np.column_stack([owner[known], values[known]]), axis=0)
    count = (np.bincount(pairs[:, 0].astype(np.int64)) > 1).sum()
    return [
        f"{count} subjects are observed on several occasions ({name}), and nothing "
        "reads that column, so that their parameters do not differ between these: "
        f"{'number them, and ' if is_text else ''}pass "
        f'occasions={{"{name}": [...]}} with the names of those that do.'
    ] * int(count > 0)


def _doubt_of(name, records) -> str:
    """Return a message on a column of records that nothing reads, or nothing."""
    used = records.observed
    values, y = records[name][used], records["DV"][used]
    cens, kinds = records["CENS"][used], records["CMT"][used]
    upper, is_number = name.upper(), values.dtype.kind in "biuf"
    flagged = (cens == 0) & (values == 1) if upper in FLAGS else cens != cens
    if flagged.any():
        return (
            f"{name} is 1 in {flagged.sum()} observations, and nothing reads that "
            "column, so that their DV counts as measured: have the limit in DV and "
            f'call it CENS, as by read_nonmem(..., columns={{"CENS": "{name}"}}), or '
            "set MDV to 1 there."
        )
    if upper in LIMITS and is_number:
        below = (cens == 0) & ((y < values) | ((y == values) & ~cens.any()))
        if below.any():
            return (
                f"{below.sum()} observations are not above {name}, and nothing reads "
                "that column, so that their DV counts as measured: set CENS to 1 "
                "there, with the limit in DV, or MDV to 1."
            )
        if (apart := (cens == 1) & (values > 0) & (y != values)).any():
            return (
                f"CENS is 1 in {apart.sum()} observations whose DV is not {name}: DV "
                "has to be the limit of quantification there."
            )
    if upper in KINDS:
        for kind in np.unique(kinds):
            different = sorted({str(value) for value in values[kinds == kind]})
            if len(different) > 1:
                return (
                    f"Observations of one CMT have {name} {different[:5]}, and nothing "
                    "reads that column: if it tells measurements apart, give each its "
                    "CMT, and an error of its own by residual_error, or set MDV to 1 "
                    "in the others."
                )
    lasts = (
        records[name] if upper in DURATIONS and is_number else np.zeros(len(records))
    )
    if ((lasts > 0) & (records["AMT"] > 0) & (records["RATE"] == 0)).any():
        return (
            f"{name} is positive in doses without RATE, and nothing reads that column: "
            "if these are infusions, call their duration DUR."
        )
    return ""


def has_error(error, rows, of_class):
    """Return which rows have an error of a class."""
    if not isinstance(error, EndpointError):
        return np.full(len(rows.y), isinstance(error, of_class))
    kinds = [k for k, e in error.errors.items() if isinstance(e, of_class)]
    return np.isin(rows.kinds, kinds)


def unobserved(problem) -> list[str]:
    """Return a message on subjects without observations, who are left out."""
    labels = problem.left_out
    if not labels:
        return []
    first = f"{len(labels)} subjects, such as" if len(labels) > 5 else "The subjects"
    return [f"{first} {list(labels[:5])} have no observations and are left out."]
