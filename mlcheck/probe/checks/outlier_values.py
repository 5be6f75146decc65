"""Judges whether single values lie absurdly far from all others, or are codes for missing ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torch import Tensor

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.data.columns import Columns, columns_of
from mlcheck.probe.measure.data.passes import Pass, Passes

FEW = 200
TIMES = 100.0
CODES = (999.0, 9999.0, 99999.0, 999999.0)
CODE_TIMES = 20.0
MANY = 0.3
AGAIN = 3


def check(passes: Passes, *, times: float = TIMES) -> Verdict:
    judged, held_out = _judged(passes.training), _judged(passes.validation)
    if not judged and not held_out:
        return Verdict(Outcome.SKIP, reason=f"no floating-point input has {FEW} rows")
    findings = tuple(_faults(judged, times)) or tuple(
        replace(fault, message=f"in validation {fault.message}") for fault in _faults(held_out, times)
    )
    looked = sum(len(columns.share) for columns in (*judged, *held_out))
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=looked)
    furthest = max(float(_times(columns).max()) for columns in (*judged, *held_out))
    told = f"no value lies further from its median than {furthest:.3g} times the distance that 99 % of them keep"
    return Verdict(Outcome.PASS, told, numbers={"furthest": furthest}, looked_at=looked)


def _judged(split: Pass | None) -> list[Columns]:
    found = columns_of(split, numbers=True).values() if split else ()
    return [columns for columns in found if columns.rows >= FEW]


def _faults(judged: list[Columns], times: float) -> Iterator[Finding]:
    for columns in judged:
        if fault := _fault(columns, times) or _apart_from_all(columns, times):
            yield fault


def _times(columns: Columns) -> Tensor:
    return (columns.reach / columns.bulk).where(columns.bulk > 0, columns.bulk)


def _named(columns: Columns, place: int) -> str:
    return f"`{columns.place}`" if columns.kind == "number" else f"{columns.kind} {place} of `{columns.place}`"


def _fault(columns: Columns, most: float) -> Finding | None:
    times = _times(columns)
    place = int(times.argmax())
    value, bulk = float(columns.furthest[place]), float(columns.bulk[place])
    code = next((c for c in CODES if abs(value) == c), None)
    limit = CODE_TIMES if code else most
    if float(times[place]) < limit:
        return None
    missing = ": a code for a missing value" if code else ""
    return Finding(
        f"{_named(columns, place)} holds {value:.6g}, {float(times[place]):.3g} times as "
        f"far from its median as 99 % of its {columns.rows:,} values{missing}",
        help="fix or leave out such samples; one of them outweighs all others in a mean, a scale and a squared error",
        numbers={"value": value, "bulk": bulk, "times": float(times[place])},
    )


def _apart_from_all(columns: Columns, most: float) -> Finding | None:
    """One value again and again, with nothing between it and all others: what a missing number was filled with."""
    alone = (columns.rest > 0) & (columns.repeated <= MANY) & (columns.repeated * columns.rows >= AGAIN)
    gaps = (columns.reach / columns.rest).where(alone, columns.rest * 0)
    place = int(gaps.argmax())
    value, gap = float(columns.furthest[place]), float(gaps[place])
    if gap < (CODE_TIMES if abs(value) in CODES else most):
        return None
    share = 100 * float(columns.repeated[place])
    return Finding(
        f"{_named(columns, place)} is {value:.6g} in {share:.2g} % of {plural(columns.rows, 'value')}, "
        f"{gap:.3g} times as far from its median as any other: it looks like a code for a missing value",
        help="fix or leave out such samples, or fill them with the median beside a column that says so",
        numbers={"value": value, "share": float(columns.repeated[place]), "times": gap},
    )
