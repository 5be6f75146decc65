"""The checklist for a terminal: the verdict, its causes, then what is open, stage by stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from rich.text import Text

from mlcheck.core.causes import Cause, causes
from mlcheck.core.finding import LIMIT_COLUMNS
from mlcheck.core.outcome import Outcome, Stage
from mlcheck.core.plural import plural
from mlcheck.core.report import Item, Report
from mlcheck.core.signoff import UNSIGNED
from mlcheck.report import digest
from mlcheck.report.headline import headline
from mlcheck.report.rows import Row, printed
from mlcheck.report.safe import one_line
from mlcheck.report.terminal_item import MARGIN, STYLE, alarm, calm, label_of, stop_of, stopped_alike, under

_HELD = {"kept": "green", "BROKEN": "bold red"}
_STAGE_MARGIN = max(len(stage.value) for stage in Stage) + 2
_FEW = 20  # of these, each is told at once; what `mlcheck load` asks is no more
WHOLE = "the whole report, with figures: "


def render(report: Report, *, width: int, color: bool, verbose: bool = False) -> str:
    """The report as lines of at most `width` columns; without `color` no escape code and ASCII of our own.

    What passed and what was skipped is counted where it is much, and told in full when `verbose`.
    """
    checklist = report.items()
    found = causes(checklist)
    together = digest.alike(checklist)
    once = {item.decided.rule for group in together for item in group.items}
    single = [item for item in checklist if item.outcome not in digest.ALARMS and item.decided.rule not in once]
    counted = not verbose and sum(map(_settled, single)) > _FEW
    rows = [
        *_head(report, checklist, found),
        *_limits(report),
        *_causes(found),
        *_stages([item for item in single if not (counted and _settled(item))]),
        *_together(together, verbose),
        *(_counted(filter(_settled, single)) if counted else ()),
        *_foot(report, checklist, found, bool(together or counted) and not verbose),
    ]
    return printed(rows, width, color)


def _head(report: Report, checklist: list[Item], found: list[Cause]) -> Iterator[Row]:
    """The verdict with its cause, what was checked, and the counts."""
    yield Row(_verdict(checklist, found))
    about = (f"mlcheck {report.command}", report.subject, digest.moment(report.started))
    yield Row(Text("  ".join(one_line(part, 200) for part in about if part), style="dim"))
    yield Row(_counts(checklist))


def _verdict(checklist: list[Item], found: list[Cause]) -> Text:
    """The outcome with what accounts for most of it: first in the report, and last, where a terminal stops."""
    verdict = headline(checklist, found)
    line = Text(f"{label_of(verdict.outcome)}  ", style=STYLE[verdict.outcome])
    if verdict.rule:
        line.append(f"{one_line(verdict.rule, 80)}  ", style="bold")
    line.append(one_line(verdict.sentence))
    if verdict.place:
        line.append(f" ({one_line(verdict.place)})")
    if verdict.explains:
        line.append(f"; {verdict.explains}")
    return line


def _counts(checklist: list[Item]) -> Text:
    line = Text(f"{plural(len(checklist), 'item')}: ")
    parts = (
        Text(f"{number} {digest.words(outcome)}", style=STYLE[outcome])
        for outcome, number in digest.counts(checklist).items()
    )
    return line + Text(", ").join(parts)


def _limits(report: Report) -> Iterator[Row]:
    """Numbers against their limits, aligned; on a narrow screen each row wraps under itself."""
    held = digest.limits(report)
    if not held:
        return
    yield from _heading("against the limits")
    lines = [list(LIMIT_COLUMNS), *([one_line(cell, 60) for cell in row] for row in held)]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    for number, (*cells, verdict) in enumerate(lines):
        word = verdict.partition(" ")[0]
        text = "  ".join(f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()
        style = _HELD.get(word, "cyan") if number else "dim"
        yield Row(Text(text, style="dim" if not number else ""), label=Text(word, style=style), margin=MARGIN + 2)


def _causes(found: list[Cause]) -> Iterator[Row]:
    if found:
        yield from _heading("what is wrong")
    told: set[str] = set()
    stops: dict[tuple[str, str], str] = {}
    for position, cause in enumerate(found):
        if position:
            yield Row(Text())
        stop, rule = stop_of(cause.item.decided), cause.item.decided.rule
        again = stop is not None and stops.setdefault(stop, rule) != rule
        yield from stopped_alike(cause.item, stops[stop]) if stop and again else alarm(cause.item)
        if cause.symptoms:
            sure = cause.item.outcome is not Outcome.WARN
            yield under(Text("this explains:" if sure else "this may explain:", style="bold"))
        for symptom in cause.symptoms:
            rule = symptom.decided.rule
            evidence = "see above" if rule in told else one_line(digest.evidence(symptom.decided), 300)
            told.add(rule)
            said = Text(f"{one_line(rule, 80)}: {evidence}")
            label = Text.assemble(" " * MARGIN, (f"{label_of(symptom.outcome)}  ", STYLE[symptom.outcome]))
            yield Row(said, label=label, margin=label.cell_len)


def _stages(single: list[Item]) -> Iterator[Row]:
    """What no alarm is about, by stage."""
    for stage, found in digest.by_stage(single).items():
        yield from _heading(stage.value)
        for item in found:
            yield from calm(item)


def _together(groups: list[digest.Alike], verbose: bool) -> Iterator[Row]:
    """What came out alike for one reason; the open questions by name, the skipped ones only when they are asked for."""
    if groups:
        yield from _heading("for one reason")
    for group in groups:
        told = f"{plural(len(group.items), 'item')}: {one_line(group.reason)}"
        yield Row(Text(told), label=Text(label_of(group.outcome), style=STYLE[group.outcome]), margin=MARGIN)
        if verbose or group.outcome is not Outcome.SKIP:
            yield under(Text(", ".join(one_line(item.decided.rule, 80) for item in group.items), style="dim"))


def _settled(item: Item) -> bool:
    """Whether there is nothing to do or to know about it: no note, and no threshold of the project's own."""
    known = item.decided.findings or item.decided.options
    return item.outcome in (Outcome.PASS, Outcome.SKIP) and not known


def _counted(settled: Iterable[Item]) -> Iterator[Row]:
    """How many passed and were skipped, a line a stage."""
    yield from _heading("passed and skipped")
    for stage, found in digest.by_stage(settled).items():
        numbers = Counter(item.outcome for item in found)
        told = ", ".join(
            f"{numbers[outcome]} {digest.words(outcome)}"
            for outcome in (Outcome.PASS, Outcome.SKIP)
            if numbers[outcome]
        )
        yield Row(Text(told), label=Text(stage.value), margin=_STAGE_MARGIN)


def _foot(report: Report, checklist: list[Item], found: list[Cause], shortened: bool) -> Iterator[Row]:
    yield Row(Text())
    if shortened and not any(WHOLE in notice for notice in report.notices):
        yield _note("`--verbose` tells what passed and what was skipped, each with its evidence")
    if any(item.decided.reason == UNSIGNED for item in checklist):
        yield _note("sign an item off with `mlcheck sign RULE --note ANSWER`")
    for notice in filter(None, (digest.cost(report), *report.notices)):
        yield _note(one_line(notice))
    if report.since:
        yield _note(f"since {digest.moment(one_line(report.since, 60))}: {digest.changes_counted(report.changes)}")
        for change in report.changes:
            if change.kind != "still":
                yield under(Text(one_line(f"{change.kind}: {change.rule}: {digest.change_words(change)}", 300)))
    seconds = digest.duration(report.seconds)
    yield Row(_counts(checklist) + Text(f" in {seconds}" if seconds else ""))
    yield Row(_verdict(checklist, found))


def _heading(words: str) -> Iterator[Row]:
    yield Row(Text())
    yield Row(Text(words.upper(), style="bold"))


def _note(words: str) -> Row:
    return Row(Text(words), label=Text("note"), margin=MARGIN)
