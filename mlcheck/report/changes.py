"""Two reports beside each other, for a terminal."""

from __future__ import annotations

from mlcheck.core.compare import surroundings
from mlcheck.core.report import Change, Report
from mlcheck.report import digest
from mlcheck.report.safe import one_line


def render(before: Report, after: Report, changes: tuple[Change, ...]) -> str:
    """What is new, what is fixed, what nobody looked at this time and what is still there."""
    moments = [digest.moment(one_line(report.started, 60)) or "a run without a date" for report in (before, after)]
    lines = [f"{one_line(after.subject, 200)}: from {moments[0]} to {moments[1]}"]
    if before.subject != after.subject:
        lines.append(f"the earlier report is about {one_line(before.subject, 200)}")
    lines += [_line(change) for change in changes]
    lines += [f"OTHER   {one_line(told, 400)}" for told in surroundings(before, after)]
    return "\n".join([*lines, digest.changes_counted(changes)]) + "\n"


def _line(change: Change) -> str:
    return f"{change.kind.upper():<7} {one_line(change.rule, 80)}: {one_line(digest.change_words(change), 300)}"
