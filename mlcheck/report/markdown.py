"""The checklist as a short Markdown comment for a pull request: the verdict, what is wrong, what is open."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mlcheck.core.causes import Cause, causes
from mlcheck.core.finding import LIMIT_COLUMNS
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.core.report import Item, Report
from mlcheck.report import digest
from mlcheck.report.headline import headline
from mlcheck.report.safe import one_line

_SPECIAL = re.compile(r"([\\*_\[\]|~>])")
_SHOWN = 20
_SHOWN_LIMITS = 60


def render(report: Report) -> str:
    """Markdown of at most some 20 causes and 20 open questions. User text cannot form markup or mention anyone."""
    checklist = report.items()
    found = causes(checklist)
    verdict = headline(checklist, found)
    rule = f" {_code(verdict.rule)}" if verdict.rule else ""
    place = f" ({_code(verdict.place)})" if verdict.place else ""
    explains = f"; {verdict.explains}" if verdict.explains else ""
    counts = ", ".join(f"{number} {digest.words(outcome)}" for outcome, number in digest.counts(checklist).items())
    lines = [f"**{verdict.outcome.upper()}**{rule} {_text(verdict.sentence)}{place}{explains}", ""]
    lines += [f"{_code(f'mlcheck {report.command}')} {_code(report.subject)}: {counts}".rstrip(": "), ""]
    if report.since:
        lines += [f"Since {_text(digest.moment(report.since))}: {digest.changes_counted(report.changes)}", ""]
    lines += _limits(report)
    lines += _causes(found)
    lines += _open([item for item in checklist if item.outcome in (Outcome.PENDING, Outcome.INCONCLUSIVE)])
    return "\n".join(lines).rstrip() + "\n"


def _limits(report: Report) -> Iterator[str]:
    held = digest.limits(report)
    if held:
        yield f"| {' | '.join(LIMIT_COLUMNS)} |"
        yield "| --- | --- | --- | --- | --- |"
        yield from (f"| {' | '.join(_text(cell) for cell in row)} |" for row in held[:_SHOWN_LIMITS])
        yield ""


def _causes(found: list[Cause]) -> Iterator[str]:
    for cause in found[:_SHOWN]:
        result = cause.item.decided
        place = f" {_code(digest.short_place(result))}" if digest.short_place(result) else ""
        yield f"- **{result.outcome.upper()}** {_code(result.rule)}{place}: {_text(digest.evidence(result))}"
        help_text = next((finding.help for finding in result.findings if finding.help), "")
        if help_text:
            yield f"  - {_text(help_text)}"
        if cause.symptoms:
            names = ", ".join(_code(symptom.decided.rule) for symptom in cause.symptoms[:_SHOWN])
            yield f"  - {'may explain' if result.outcome is Outcome.WARN else 'explains'} {names}"
    if len(found) > _SHOWN:
        yield f"- and {len(found) - _SHOWN:,} more"
    if found:
        yield ""


def _open(waiting: list[Item]) -> Iterator[str]:
    if not waiting:
        return
    yield f"<details><summary>{plural(len(waiting), 'open question')}</summary>"
    yield ""
    for item in waiting[:_SHOWN]:
        result = item.decided
        reason = _text(result.reason or digest.evidence(result))
        yield f"- {result.outcome.upper()} {_code(result.rule)} {_text(result.title)}: {reason}"
    if len(waiting) > _SHOWN:
        yield f"- and {len(waiting) - _SHOWN:,} more"
    yield ""
    yield "</details>"


def _text(text: str) -> str:
    """User text as text; what it marks as code with backticks stays code."""
    parts = one_line(text, 400).split("`")
    if len(parts) % 2 == 0:
        return _escaped("'".join(parts))
    return "".join(_code(part) if position % 2 else _escaped(part) for position, part in enumerate(parts))


def _escaped(text: str) -> str:
    """No emphasis, link, HTML, mention or address: a zero-width space parts what a forge would link."""
    escaped = _SPECIAL.sub(r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;"))
    return escaped.replace("@", "@\u200b").replace("://", ":\u200b//")


def _code(text: str) -> str:
    """A code span that no backtick in `text` can end."""
    line = one_line(text, 200)
    if not line:
        return ""
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence, pad = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{pad}{line}{pad}{fence}"
