"""What every renderer says alike: counts, stages, numbers, the command to repeat."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from mlcheck.core.finding import limit_rows
from mlcheck.core.notebook import is_notebook
from mlcheck.core.outcome import By, Outcome, Stage
from mlcheck.core.plural import plural
from mlcheck.core.report import Change, Item, Report, Result

ALARMS = (Outcome.FAIL, Outcome.ERROR, Outcome.WARN)
_TOGETHER = 4
_DEAREST = 3
ORDER = (*ALARMS, Outcome.PENDING, Outcome.INCONCLUSIVE, Outcome.WAIVED, Outcome.SKIP, Outcome.PASS)


def counts(checklist: Iterable[Item]) -> dict[Outcome, int]:
    """How many items came out how, gravest first, without zeros."""
    counted = Counter(item.outcome for item in checklist)
    return {outcome: counted[outcome] for outcome in ORDER if counted[outcome]}


@dataclass(frozen=True, slots=True)
class Alike:
    """Items that came out alike for one and the same reason: said once, it is read."""

    outcome: Outcome
    reason: str
    items: tuple[Item, ...]


def alike(checklist: Iterable[Item]) -> list[Alike]:
    """What was left undecided, and what was skipped, for a reason that many share."""
    groups: dict[tuple[Outcome, str], list[Item]] = {}
    for item in checklist:
        silent = all(result.outcome is Outcome.SKIP for result in item.overruled)
        if item.outcome in (Outcome.INCONCLUSIVE, Outcome.SKIP) and item.decided.reason and silent:
            groups.setdefault((item.outcome, item.decided.reason), []).append(item)
    many = [Alike(*key, tuple(items)) for key, items in groups.items() if len(items) >= _TOGETHER]
    return sorted(many, key=lambda group: ORDER.index(group.outcome))


def words(outcome: Outcome) -> str:
    """`3 failed, 2 waiting for a person`: the outcome as a count is read."""
    return {
        Outcome.PASS: "passed",
        Outcome.WARN: "warned",
        Outcome.FAIL: "failed",
        Outcome.ERROR: "could not run",
        Outcome.SKIP: "skipped",
        Outcome.PENDING: "waiting for a person",
    }.get(outcome, outcome.value)


def by_stage(checklist: Iterable[Item]) -> dict[Stage, list[Item]]:
    """Items under their stage, stages in the checklist's order, empty ones left out."""
    stages: dict[Stage, list[Item]] = {stage: [] for stage in Stage}
    for item in checklist:
        stages[item.decided.stage].append(item)
    return {stage: found for stage, found in stages.items() if found}


def evidence(result: Result) -> str:
    """The sentence that decided; a crash without words shows the last line of its traceback."""
    last = result.traceback.strip().splitlines()[-1:]
    return (result.headline or (last[0] if last else "")).strip().rstrip(".")


def limits(report: Report) -> list[list[str]]:
    """Every number that was held against a limit: the limit, what it allows, what was measured (the
    worst, at these numbers of workers), the verdict."""
    return [row for result in report.results for figure in result.figures for row in limit_rows(figure)]


def short_place(result: Result) -> str:
    """`model.py:42`, of a notebook `train.ipynb, cell 5, line 2`, or the symbol where no file is known."""
    for finding in result.findings:
        place = finding.location
        if is_notebook(place.path) and place.symbol:
            return f"{place.path}, {place.symbol}"
        if place.path:
            return f"{place.path}:{place.line}" if place.line else place.path
        if place.symbol:
            return place.symbol
    return ""


def repeat_command(result: Result, report: Report) -> str:
    """The shell command that answers this one question again; empty for a sign-off."""
    if result.by is By.LINT:
        seen = dict.fromkeys(finding.location.path for finding in result.findings if finding.location.path)
        paths = list(seen)[:3] or [report.subject if report.command == "lint" else "."]
        return shlex.join(["mlcheck", "lint", *paths, "--select", result.rule])
    if result.by is By.LOAD:
        return shlex.join(["mlcheck", "load", *(report.arguments or (report.subject,)), "--only", result.rule])
    if result.by is By.PROBE:
        given = report.arguments or (report.subject,)
        end = given.index("--") if "--" in given else len(given)  # what follows is the command line of a script
        return shlex.join(["mlcheck", "probe", *given[:end], "--only", result.rule, *given[end:]])
    return ""


def sign_command(rule: str) -> str:
    """How the question is answered, once there is an answer."""
    return f"mlcheck sign {shlex.quote(rule)} --note ''"


def options(result: Result) -> str:
    """`with share = 0.3, as this project sets it`; empty where the rule's own numbers hold."""
    told = ", ".join(f"{name} = {number(value)}" for name, value in result.options.items())
    return f"with {told}, as this project sets it" if told else ""


def change_words(change: Change) -> str:
    """What became of a rule, in a phrase after its name."""
    if change.kind != "still":
        return change.said
    moved = [f"{count} {told}" for count, told in ((change.came, "more"), (change.went, "fewer")) if count]
    count = f" ({', '.join(moved)})" if moved else ""
    return f"still there{count}: {change.said}"


def changes_counted(changes: Sequence[Change]) -> str:
    """`1 new, 2 fixed, 3 still there`; `nothing is wrong` without any."""
    counted = Counter(change.kind for change in changes)
    told = {"new": "new", "fixed": "fixed", "waived": "waived", "gone": "not decided now", "still": "still there"}
    return (
        ", ".join(f"{counted[kind]} {words_}" for kind, words_ in told.items() if counted[kind]) or "nothing is wrong"
    )


def number(value: object) -> str:
    """Four significant digits, from a thousand to a million all; whole numbers whole, with separators; NaN and inf."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**15 else f"{Decimal(value):.3e}"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if 999.95 <= abs(value) < 1e6:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def duration(seconds: float) -> str:
    """`12 ms`, `1.4 s`, `2 min 05 s`; empty where nothing was timed."""
    if not math.isfinite(seconds) or seconds <= 0:
        return ""
    if seconds < 0.0995:
        return f"{max(1, round(seconds * 1000))} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s"


def cost(report: Report) -> str:
    """What the probes cost together, and the dearest of them, in training steps; empty where no step was timed."""
    if not 0 < report.steps(report.probe_seconds) < math.inf:
        return ""
    probes = sorted((one for one in report.results if one.by is By.PROBE), key=lambda one: -one.seconds)
    named = ", ".join(f"{one.rule} {duration(one.seconds)}" for one in probes[:_DEAREST] if one.seconds > 0)
    return (
        f"the probes took {duration(report.probe_seconds)}, as long as "
        f"{plural(round(report.steps(report.probe_seconds)), 'training step')} of {_millis(report.step_seconds)}; "
        f"most of it: {named}"
    )


def took(result: Result, report: Report) -> str:
    """`1.4 s`, and for a probe of two training steps or more `1.4 s, as long as 220 training steps`."""
    steps = report.steps(result.seconds) if result.by is By.PROBE else 0
    told = duration(result.seconds)
    return f"{told}, as long as {steps:,.0f} training steps" if 1.5 < steps < math.inf else told


def _millis(seconds: float) -> str:
    return duration(seconds) if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def moment(started: str) -> str:
    """`2026-11-21 14:31 UTC` from ISO 8601; anything else as it is."""
    try:
        time = datetime.fromisoformat(started)
    except ValueError:
        return started
    return f"{time:%Y-%m-%d %H:%M %Z}".strip()
