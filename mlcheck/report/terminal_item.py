"""One line of the checklist for a terminal, with its evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.text import Text

from mlcheck.core.finding import Finding
from mlcheck.core.outcome import By, Outcome
from mlcheck.core.report import Item, Result
from mlcheck.core.signoff import UNSIGNED
from mlcheck.report import digest
from mlcheck.report.rows import Row, printed
from mlcheck.report.safe import block, one_line
from mlcheck.report.traceback import folded

_LABEL = {Outcome.INCONCLUSIVE: "UNCLEAR"}
STYLE = {
    Outcome.FAIL: "bold red",
    Outcome.ERROR: "bold magenta",
    Outcome.WARN: "bold yellow",
    Outcome.PENDING: "bold blue",
    Outcome.INCONCLUSIVE: "cyan",
    Outcome.WAIVED: "dim",
    Outcome.SKIP: "dim",
    Outcome.PASS: "green",
}
MARGIN = 9
_NUMBER = re.compile(r"\d+")
_VALUE = re.compile(r"-?\d[\d,.]*(?:e[+-]\d+)?(?<![,.])")
_SHOWN_FINDINGS = 5
_SHOWN_TRACEBACK_LINES = 40


def render_item(item: Item, *, width: int, color: bool) -> str:
    """One line of the checklist with all its evidence."""
    return printed(list(alarm(item)), width, color)


def alarm(item: Item) -> Iterator[Row]:
    """A failed item in full: evidence, places, what to do, the user's traceback, what was overruled."""
    result = item.decided
    yield _title(item)
    yield from _evidence(result)
    yield from _findings(result.findings[:_SHOWN_FINDINGS])
    left = len(result.findings) - _SHOWN_FINDINGS
    if left > 0:
        yield under(Text(f"... and {left:,} more like it"))
    if result.traceback:
        for line in block(folded(result.traceback), _SHOWN_TRACEBACK_LINES).split("\n"):
            yield Row(Text(line, style="dim"), margin=MARGIN + 2)
    yield from _overruled(item)


def stop_of(result: Result) -> tuple[str, str] | None:
    """What stopped a probe, and where: the same for those that one fault of the program stops."""
    if result.outcome is not Outcome.ERROR or not result.traceback or not result.findings:
        return None
    return str(result.findings[0].location), _NUMBER.sub("", result.summary)


def stopped_alike(item: Item, rule: str) -> Iterator[Row]:
    """A probe that stopped where another did, whose traceback is already shown."""
    yield _title(item)
    yield under(Text(f"stopped by the same error at the same place as {one_line(rule, 80)} above"))
    yield from _overruled(item)


def _title(item: Item) -> Row:
    result = item.decided
    rule = f"{one_line(result.rule, 80)} ({result.by.value})"
    noted = result.outcome is Outcome.PASS and result.findings
    label = Text("NOTE" if noted else label_of(result.outcome), style=STYLE[result.outcome])
    return Row(
        Text(one_line(result.title, 200), style="bold"),
        Text(rule, style="dim"),
        label,
        MARGIN,
        digest.duration(result.seconds),
    )


def _evidence(result: Result) -> Iterator[Row]:
    """The reason and the numbers, unless a finding or the outcome itself says the same."""
    told = [finding.message for finding in result.findings]
    counted = result.by is By.LINT and result.findings  # `2 findings in 9 files`, and here they are
    for said in dict.fromkeys((result.reason, "" if counted else result.summary)):
        if said and said != UNSIGNED and not any(said in message for message in told):
            yield under(Text(one_line(said)))
    if result.options:
        yield under(Text(one_line(digest.options(result)), style="dim"))


def _findings(findings: Sequence[Finding]) -> Iterator[Row]:
    """Each with its place; what is to be done about several in a row is told once, beneath the last."""
    for finding, following in zip_longest(findings, findings[1:]):
        yield from _finding(finding)
        if finding.help and (following is None or following.help != finding.help):
            yield under(Text(f"do: {one_line(finding.help)}"))


def _finding(finding: Finding) -> Iterator[Row]:
    yield under(Text(one_line(finding.message)))
    numbers = {one_line(name, 60): digest.number(value) for name, value in list(finding.numbers.items())[:8]}
    if not set(_VALUE.findall(finding.message)).issuperset(numbers.values()):
        yield under(Text(", ".join(f"{name} {value}" for name, value in numbers.items()), style="dim"))
    place = str(finding.location)
    if place:
        also = "".join(f", {one_line(str(other), 200)}" for other in finding.related[:4])
        yield under(Text(f"at: {one_line(place, 200)}{also}", style="cyan"))


def _overruled(item: Item) -> Iterator[Row]:
    for result in item.overruled:
        if result.outcome is Outcome.SKIP:
            continue
        said = digest.evidence(result) or "nothing to add"
        yield under(Text(f"{result.by.value} said: {label_of(result.outcome)} {one_line(said, 300)}", style="dim"))


def calm(item: Item) -> Iterator[Row]:
    yield _title(item)
    yield from _evidence(item.decided)
    yield from _findings(item.decided.findings[:_SHOWN_FINDINGS])
    if item.outcome is not Outcome.PASS:
        yield from _overruled(item)


def under(text: Text) -> Row:
    return Row(text, margin=MARGIN)


def label_of(outcome: Outcome) -> str:
    return _LABEL.get(outcome, outcome.value.upper())
