"""Rules for people at a terminal: the page of one, a table of many."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from textwrap import wrap

from mlcheck.core.outcome import Outcome
from mlcheck.core.report import Report
from mlcheck.core.rule import Rule
from mlcheck.report.safe import visible

_BOLD, _FAINT, _CYAN, _OFF = "\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[0m"
_NARROWEST, _WIDEST = 40, 100
_FENCE = re.compile(r"^```")


def page(rule: Rule, width: int, color: bool) -> str:
    """The whole page: prose wrapped to `width`, code as it is, each example under the word for its kind."""
    answered = ", ".join(by.value for by in rule.by)
    head = [*_filled(rule.title, width), f"{rule.name}: {rule.severity.value}, {rule.stage.value}, by {answered}"]
    lines = [_painted(_BOLD, line, color) for line in head[:-1]] + [_painted(_FAINT, head[-1], color), ""]
    lines += _body(rule.body, width, color)
    if rule.source:
        lines += ["", "Sources:", *(f"  {source}" for source in rule.source)]
    return "\n".join(lines).rstrip() + "\n"


def _body(text: str, width: int, color: bool) -> Iterator[str]:
    paragraph: list[str] = []
    fenced = False
    for line in [*text.split("\n"), ""]:
        if _FENCE.match(line):
            yield from _flush(paragraph, width)
            fenced = not fenced
            yield _label(line, color) if fenced else ""
        elif fenced:
            yield _painted(_CYAN, f"    {visible(line)}", color) if line.strip() else ""
        elif not line.strip():
            if paragraph:
                yield from _flush(paragraph, width)
                yield ""
        elif line.startswith("#"):
            yield from _flush(paragraph, width)
            yield _painted(_BOLD, visible(line.lstrip("# ")), color)
        else:
            if re.match(r"\s*(?:[-*|]|\d+\.)\s", line):
                yield from _flush(paragraph, width)
            paragraph.append(line)
    yield from _flush(paragraph, width)


def _label(fence: str, color: bool) -> str:
    """`python bad model.py` -> `Wrong (model.py):`."""
    words = fence.strip("`").split()
    kind = {"bad": "Wrong", "good": "Right"}.get(words[1] if len(words) > 1 else "", "")
    name = f" ({words[2]})" if len(words) > 2 else ""
    return _painted(_BOLD, f"{kind}{name}:" if kind else "  " + " ".join(words), color)


def _flush(paragraph: list[str], width: int) -> Iterator[str]:
    if paragraph:
        yield from _filled(" ".join(line.strip() for line in paragraph), width)
        paragraph.clear()


def _filled(text: str, width: int) -> list[str]:
    hanging = "  " if text.startswith(("- ", "* ")) else ""
    return wrap(
        visible(text),
        min(max(width, _NARROWEST), _WIDEST),
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def table(rules: Iterable[Rule], width: int, color: bool) -> str:
    """One line a rule under its stage, where the terminal is wide enough: name, severity, who answers, title."""
    listed = list(rules)
    if not listed:
        return "no rule is like that\n"
    name = max(len(rule.name) for rule in listed)
    by = max(len(_answered(rule)) for rule in listed)
    fixed = 2 + name + 2 + len("warning") + 2 + by + 2
    lines = []
    for stage in dict.fromkeys(rule.stage for rule in listed):
        lines += ["", _painted(_BOLD, stage.value.upper(), color)]
        for rule in (rule for rule in listed if rule.stage is stage):
            start = f"  {rule.name:<{name}}  {rule.severity.value:<7}  {_answered(rule):<{by}}  "
            if width - fixed >= _NARROWEST // 2:
                first, *more = wrap(visible(rule.title), width - fixed) or [""]
                lines += [start + first, *(" " * fixed + line for line in more)]
            else:
                lines += [start.rstrip(), *(f"      {line}" for line in _filled(rule.title, width - 6))]
    return "\n".join(lines[1:]) + f"\n\n{len(listed)} rules; `mlcheck explain RULE` prints the page of one\n"


def _answered(rule: Rule) -> str:
    return "+".join(by.value for by in rule.by)


def statistics(report: Report) -> str:
    """How many findings each rule has, the most first."""
    counts = [
        (len(result.findings), result.severity.value, result.rule, result.title)
        for result in report.results
        if result.findings and result.outcome is not Outcome.ERROR
    ]
    counts.sort(key=lambda row: (-row[0], row[2]))
    if not counts:
        return "Found nothing\n"
    number, name = len(f"{counts[0][0]:,}"), max(len(row[2]) for row in counts)
    lines = [f"{count:>{number},}  {severity:<7}  {rule:<{name}}  {title}" for count, severity, rule, title in counts]
    return "\n".join(visible(line).rstrip() for line in lines) + "\n"


def _painted(style: str, text: str, color: bool) -> str:
    return f"{style}{text}{_OFF}" if color and text else text
