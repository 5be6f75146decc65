"""Judges the rehearsal of the combinations of hyperparameters that a grid or a search is going to start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.search.combinations import Combinations, Fault

_LONGEST = 40
_SPARE = 1.5
_HELP = "leave what does not go together out of the search, or let the code take it"
_HELP_CONFIG = f"{_HELP}; where a trial raises `determined.InvalidHP`, it is refused in order, not restarted"
_HELP_RUNNER = f"{_HELP}; a runner's file may have a document for each set of values that go together"


def check(seen: Combinations) -> Verdict:
    if seen.faults:
        finding, *others = (_fault(fault, seen) for fault in seen.faults)
        return Verdict(
            Outcome.FAIL,
            _counted(seen),
            findings=(finding, *others),
            figures=_figures(seen),
            numbers=_numbers(seen),
            looked_at=len(seen.rehearsed),
            traceback=seen.faults[0].traceback,
        )
    if seen.count("starts") + seen.count("rejected") < seen.planned:
        raise NotMeasured(_open(seen), Outcome.INCONCLUSIVE)
    return Verdict(
        Outcome.PASS,
        _counted(seen),
        figures=_figures(seen),
        numbers=_numbers(seen),
        looked_at=len(seen.rehearsed),
    )


def written(values: Mapping[str, Any]) -> str:
    """`heads=6` with `width=128` and `depth=2`."""
    first, *others = (f"`{name}={_short(value)}`" for name, value in values.items())
    return f"{first} with {' and '.join(others)}" if others else first


def _short(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _fault(fault: Fault, seen: Combinations) -> Finding:
    help_ = _HELP_RUNNER if seen.by_runner else _HELP_CONFIG
    if not fault.values:
        told = f"none of the {len(seen.rehearsed)} combinations that were tried starts"
        return Finding(f"{told}: {fault.error}", fault.place)
    unsure = "" if fault.is_narrow or len(fault.values) == 1 else ", whichever of these values is to blame"
    share = f" ({fault.planned:,} of {seen.planned:,} combinations)" if seen.is_whole and fault.is_narrow else ""
    return Finding(f"{written(fault.values)} does not start{unsure}{share}: {fault.error}", fault.place, help=help_)


def _counted(seen: Combinations) -> str:
    """`of 16 planned combinations 10 start, 4 do not, 2 were not tried`."""
    started, failed, rejected, unknown = map(seen.count, ("starts", "fails", "rejected", "unknown"))
    planned = plural(seen.planned, "planned combination" if seen.is_whole else "combination")
    if not seen.is_whole:
        planned += f" of the search (every value, every pair of values, {plural(seen.drawn, 'draw')})"
    if started == seen.planned:
        return f"all {planned} start"
    others = [
        f"{failed:,} {'does' if failed == 1 else 'do'} not" if failed else "",
        f"{rejected:,} {_was(rejected)} rejected by the trial" if rejected else "",
        f"{unknown:,} stayed open" if unknown else "",
        f"{seen.untried:,} {_was(seen.untried)} not tried" if seen.untried else "",
    ]
    return ", ".join(filter(None, [f"of {planned} {started:,} {'starts' if started == 1 else 'start'}", *others]))


def _was(number: int) -> str:
    return "was" if number == 1 else "were"


def _open(seen: Combinations) -> str:
    if not seen.rehearsed:
        planned = plural(seen.planned, "planned combination")
        return f"none of {planned} was tried within {seen.seconds:.0f} s: raise --time-limit"
    told = _counted(seen)
    if seen.untried:
        unmet = [f"`{name}={_short(value)}`" for name, value in seen.values if not seen.met(name, value)]
        without = f", with {', '.join(unmet[:3])}{' and others' if unmet[3:] else ''} in none that was" if unmet else ""
        told += f"{without} (all take about {_minutes(seen)}: raise --time-limit and --budget)"
    row, start = next(((row, start) for row, start in seen.rehearsed if start.how == "unknown"), ({}, None))
    return f"{told}; {written(row)}: {start.error}" if start else told


def _minutes(seen: Combinations) -> str:
    seconds = _SPARE * seen.seconds * seen.planned / max(1, len(seen.rehearsed))
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _numbers(seen: Combinations) -> dict[str, float]:
    named = {"starts": "started", "fails": "failed", "rejected": "rejected", "unknown": "open"}
    counts = {name: float(seen.count(how)) for how, name in named.items()}
    return {"planned": float(seen.planned), "tried": float(len(seen.rehearsed)), **counts}


def _figures(seen: Combinations) -> tuple[Figure, ...]:
    rows = []
    for name, value in seen.values:
        met = [start.how for start in seen.met(name, value)]
        rows.append([name, _short(value), str(len(met)), str(met.count("starts"))])
    return (
        Figure("table", "Tried by value", {"columns": ["hyperparameter", "value", "tried", "started"], "rows": rows}),
    )
