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
        told = f"none of the {seen.count('fails')} combinations that were tried starts"
        return Finding(f"{told}: {fault.error}", fault.place)
    unsure = "" if fault.is_narrow else ", whichever of these values is to blame"
    share = f" ({fault.planned:,} of {seen.planned:,} combinations)" if seen.is_whole and fault.is_narrow else ""
    return Finding(f"{written(fault.values)} does not start{unsure}{share}: {fault.error}", fault.place, help=help_)


def _counted(seen: Combinations) -> str:
    started, failed, rejected, unknown = map(seen.count, ("starts", "fails", "rejected", "unknown"))
    others = [
        f"{failed} {'do' if failed > 1 else 'does'} not" if failed else "",
        f"the trial rejects {rejected}" if rejected else "",
        f"{unknown} stayed open" if unknown else "",
    ]
    tried = len(seen.rehearsed)
    told = "all" if started == seen.planned else f"{started:,} of {tried:,}"
    start = "starts" if started == 1 else "start"
    if tried < seen.planned:
        told = f"{tried:,} of {_planned(seen)} tried: {started:,}"
    elif told == "all":
        told = f"all {_planned(seen)}"
    else:
        told = f"of {_planned(seen)} {started:,}"
    return ", ".join(filter(None, [f"{told} {start}", *others])) + _held(seen)


def _planned(seen: Combinations) -> str:
    if seen.is_whole:
        return plural(seen.planned, "planned combination")
    return f"{plural(seen.planned, 'combination')} (every value, every pair of values, {plural(seen.drawn, 'draw')})"


def _held(seen: Combinations) -> str:
    return f"; with {', '.join(f'`{name}`' for name in seen.held)} as given" if seen.held else ""


def _open(seen: Combinations) -> str:
    told = _counted(seen)
    untried = seen.planned - len(seen.rehearsed)
    unmet = [f"`{name}={_short(value)}`" for name, value in seen.values if not seen.met(name, value)]
    if untried:
        told += ", each value among them" if not unmet else f"; not tried: {', '.join(unmet[:4])}"
        told += " and others" if len(unmet) > 4 else ""
        told += f" (all take about {_minutes(seen)}: raise --time-limit and --budget)"
    first = next(((row, start) for row, start in seen.rehearsed if start.how == "unknown"), None)
    return f"{told}; {written(first[0])}: {first[1].error}" if first else told


def _minutes(seen: Combinations) -> str:
    seconds = _SPARE * seen.seconds * seen.planned / max(1, len(seen.rehearsed))
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _numbers(seen: Combinations) -> dict[str, float]:
    counts = {how: float(seen.count(how)) for how in ("starts", "fails", "rejected", "unknown")}
    return {"planned": float(seen.planned), "rehearsed": float(len(seen.rehearsed)), **counts}


def _figures(seen: Combinations) -> tuple[Figure, ...]:
    rows = []
    for name, value in seen.values:
        met = [start.how for start in seen.met(name, value)]
        rows.append([name, _short(value), str(len(met)), str(met.count("starts"))])
    return (
        Figure("table", "Tried by value", {"columns": ["hyperparameter", "value", "tried", "started"], "rows": rows}),
    )
