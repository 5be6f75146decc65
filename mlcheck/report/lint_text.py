"""Lint findings as compilers print them: the place, the message, the line of code with the span marked."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mlcheck.core.finding import Finding, Location
from mlcheck.core.notebook import is_notebook
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.core.report import Report, Result
from mlcheck.report.excerpt import Sources, clipped, excerpt, line_of, source_lines
from mlcheck.report.safe import one_line, visible

_NARROWEST = 40
_COLORS = {"error": "1;31", "warning": "1;33", "note": "1;36", "mark": "1;31", "help": "36", "place": "1", "faint": "2"}


def render(report: Report, color: bool, width: int, sources: Sources = source_lines, folded: bool = False) -> str:
    """Every finding with its code, then what else is to be said, then the counts.

    `folded` breaks headlines and notices between words too: better to read, and worse to search with grep.
    """
    paint = _painter(color)
    code = _remembering(sources)
    columns = max(width, _NARROWEST) if folded else 0
    blocks = ["\n".join(_block(result, finding, code, paint, width, columns)) for result, finding in _findings(report)]
    blocks += ["\n".join(_failure(result, paint)) for result in report.results if result.outcome is Outcome.ERROR]
    if report.notices:
        notices = (f"{paint('note', 'note:')} {_folded(one_line(notice), columns, 6)}" for notice in report.notices)
        blocks.append("\n".join(notices))
    return "\n\n".join([*blocks, _counts(report)]) + "\n"


def concise(report: Report) -> str:
    """One line a finding, for editors and `grep`; the counts last."""
    lines = [_headline(result, finding, _painter(False)) for result, finding in _findings(report)]
    lines += [_broken(result) for result in report.results if result.outcome is Outcome.ERROR]
    return "\n".join([*lines, _counts(report)]) + "\n"


def _findings(report: Report) -> list[tuple[Result, Finding]]:
    """All findings with their rule, in the order of the code."""
    pairs = [(result, finding) for result in report.results for finding in result.findings]
    return sorted(pairs, key=lambda pair: (pair[1].location, pair[0].rule))


def _block(
    result: Result, finding: Finding, code: Sources, paint: Callable[[str, str], str], width: int, columns: int
) -> Iterator[str]:
    place = finding.location
    yield _headline(result, finding, paint, columns)
    gutter = max(len(str(other.line)) for other in (place, *finding.related)) + 2
    if code_and_marks := excerpt(place, code, max(width, _NARROWEST) - gutter - 3):
        shown, marks = code_and_marks
        yield paint("faint", f"{place.line:>{gutter}} |") + f" {shown}"
        yield paint("faint", f"{'':>{gutter}} |") + f" {paint('mark', marks)}"
    for other in finding.related:
        yield from _beneath("note", _reference(other, place, code), gutter, paint, width)
    if finding.help:
        yield from _beneath("help", finding.help, gutter, paint, width)


def _reference(other: Location, place: Location, code: Sources) -> str:
    if (other.path, other.line) == (place.path, place.line):
        return f"see column {other.column} of this line"
    line = line_of(other, code).strip()
    return f"see {_place(other)}" + (f": {line}" if line else "")


def _beneath(role: str, text: str, gutter: int, paint: Callable[[str, str], str], width: int) -> Iterator[str]:
    """`= help: ...`, broken between words where the terminal ends; a note is cut to one line."""
    start = gutter + len(f" = {role}: ")
    room = max(width, _NARROWEST) - start
    shown = one_line(text)
    lines = [clipped(shown, room)] if role == "note" else _wrapped(shown, room) or [""]
    yield f"{'':>{gutter}} {paint('faint', '=')} {paint(role, f'{role}:')} {lines[0]}"
    yield from (" " * start + line for line in lines[1:])


def _headline(result: Result, finding: Finding, paint: Callable[[str, str], str], columns: int = 0) -> str:
    """Place, kind and message; where they are folded and the kind has no room beside the place, it stands beneath."""
    place = _place(finding.location)
    start = f"{place}: " if place else ""
    kind = f"{result.severity}[{result.rule}]"
    beneath = bool(columns and start and len(start) + len(kind) > columns)
    used = 4 if beneath else len(start)
    message = _folded(one_line(finding.message), columns, used + len(f"{kind} "))
    lead = paint("place", f"{place}:") + ("\n    " if beneath else " ") if place else ""
    return f"{lead}{paint(result.severity, kind)} {message}"


def _folded(text: str, columns: int, used: int) -> str:
    """`text` over several lines, the first of which has `used` columns less; on one line when `columns` is 0."""
    if not columns or used + len(text) <= columns:
        return text
    first = "x" * min(used, columns - 1) + " "
    lines = _wrapped(first + text, columns, subsequent_indent="    ", break_long_words=False)
    return "\n".join([lines[0][len(first) :], *lines[1:]])


def _wrapped(text: str, columns: int, subsequent_indent: str = "", break_long_words: bool = True) -> list[str]:
    from textwrap import wrap  # compiles expressions, for what most runs do not print

    return wrap(
        text,
        columns,
        subsequent_indent=subsequent_indent,
        break_long_words=break_long_words,
        break_on_hyphens=False,
    )


def _place(location: Location) -> str:
    told = ":".join(str(part) for part in (location.path, location.line, location.column) if part)
    if location.symbol and is_notebook(location.path):
        told += f" ({location.symbol})"
    return visible(told).replace("\n", "\\n").replace("\t", "\\t")


def _failure(result: Result, paint: Callable[[str, str], str]) -> Iterator[str]:
    yield paint("error", _broken(result))
    yield from (f"    {visible(line)}" for line in result.traceback.strip().split("\n") if line)
    yield "    This is a fault of mlcheck, not of your code; the other rules went on without this one."


def _broken(result: Result) -> str:
    return f"mlcheck: `{result.rule}` broke: {one_line(result.reason)}"


def _counts(report: Report) -> str:
    """`Found 3 errors and 1 warning in 12 files`, or that there is nothing."""
    severities = [result.severity.value for result, _ in _findings(report)]
    kinds = [(severities.count(kind), kind) for kind in ("error", "warning", "note")]
    told = [plural(number, kind) for number, kind in kinds if number]
    files = report.environment.get("files linted", "")
    where = f" in {plural(int(files), 'file')}" if files.isdecimal() else ""
    found = " and ".join([*([", ".join(told[:-1])] if told[1:] else []), *told[-1:]])
    return f"Found {found}{where}" if found else f"Found nothing{where}"


def _remembering(sources: Sources) -> Sources:
    """`sources`, asked once for each file."""
    known: dict[str, list[str]] = {}

    def lines(path: str) -> list[str]:
        if path not in known:
            known[path] = sources(path)
        return known[path]

    return lines


def _painter(color: bool) -> Callable[[str, str], str]:
    """Wraps text in the colour of its role, or leaves it alone."""

    def paint(role: str, text: str) -> str:
        return f"\x1b[{_COLORS[role]}m{text}\x1b[0m" if color and text else text

    return paint
