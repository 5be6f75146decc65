"""Rules for people at a terminal: the page of one, a table of many."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from textwrap import wrap

from mlcheck.core.options import TABLE
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.core.report import Report
from mlcheck.core.rule import Rule
from mlcheck.report.excerpt import clipped
from mlcheck.report.safe import visible

_BOLD, _FAINT, _CYAN, _OFF = "\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[0m"
_NARROWEST, _WIDEST = 40, 100
_ROOM_FOR_TITLE = 48
_FIELDS = ("name", "title", "stage", "severity", "by", "source", "explains", "needs", "options")
_KIND = {"bad": "Wrong", "good": "Right"}
_STRONG = re.compile(r"(?<!\w)\*\*(\w[^*]*)\*\*(?!\w)")
_MARK = re.compile(r"#\s*error\b.*")


def prose(rule: Rule) -> str:
    """Why it hurts and how to fix it, without the examples that are its test."""
    return re.split(r"^(?:## Reported|```\w+ (?:bad|good))", rule.body, maxsplit=1, flags=re.MULTILINE)[0].strip()


def examples(rule: Rule, everything: bool = False) -> list[tuple[str, str]]:
    """The first program of each kind, or all: `Wrong (net.py)` and the code, what is reported marked in it."""
    chosen = list(rule.examples)
    if not everything:
        chosen = [example for kind in ("bad", "good") for example in [e for e in chosen if e.kind == kind][:1]]
    told = []
    for example in chosen:
        for name, code in example.files.items():
            where = f" ({name})" if len(example.files) > 1 else ""
            told.append((f"{_KIND[example.kind]}{where}", _MARK.sub("# <-- reported", code.strip("\n"))))
    return told


def page(rule: Rule, width: int, color: bool, everything: bool = False) -> str:
    """The page of a rule, prose wrapped to `width`; one wrong and one right program, or all of its examples."""
    answered = ", ".join(by.value for by in rule.by)
    lines = [_painted(_BOLD, line, color) for line in _filled(rule.title, width)]
    lines += [_painted(_FAINT, f"{rule.name}: {rule.severity.value}, {rule.stage.value}, by {answered}", color), ""]
    lines += _body(prose(rule), width, color)
    lines += _options(rule, width, color)
    for kind, code in examples(rule, everything):
        lines += ["", _painted(_BOLD, f"{kind}:", color)]
        lines += [_painted(_CYAN, f"    {visible(line)}".rstrip(), color) for line in code.split("\n")]
    if links := [f"  {visible(source)}" for source in rule.source if "://" in source]:
        lines += ["", _painted(_BOLD, "Sources:", color), *links]
    left = 0 if everything else len(rule.examples) - len({example.kind for example in rule.examples})
    if left > 0:
        lines += ["", f"{plural(left, 'more example')}: `mlcheck explain {rule.name} --all`"]
    return "\n".join(lines).rstrip() + "\n"


def data(rules: Iterable[Rule]) -> str:
    """What programs want to know of rules, as JSON."""
    told = [{name: whole[name] for name in _FIELDS} for whole in map(asdict, rules)]
    return json.dumps(told, indent=1) + "\n"


def _options(rule: Rule, width: int, color: bool) -> Iterator[str]:
    """The numbers that a team may set, as they stand in pyproject.toml."""
    if not rule.options:
        return
    yield from ("", _painted(_BOLD, "What pyproject.toml can set, with the defaults:", color), "")
    yield _painted(_CYAN, f"    [{TABLE}.{rule.name}]", color)
    for option in rule.options:
        yield _painted(_CYAN, f"    {option.name} = {option.default}", color)
        for line in _filled(f"{option.meaning}; {option}", width - 8):
            yield f"        {line}"


def _body(text: str, width: int, color: bool) -> Iterator[str]:
    """Paragraphs filled, lists item by item, fenced blocks as they are."""
    paragraph: list[str] = []
    fenced = False
    for line in text.split("\n"):
        begins = bool(re.match(r"\s*(?:[-*|]|\d+\.)\s", line))
        if fenced or not line.strip() or line.startswith(("#", "```")) or begins:
            yield from _flush(paragraph, width)
        if line.startswith("```"):
            fenced = not fenced
        elif fenced:
            yield _painted(_CYAN, f"    {visible(line)}".rstrip(), color)
        elif not line.strip():
            yield ""
        elif line.startswith("#"):
            yield _painted(_BOLD, visible(line.lstrip("# ")), color)
        else:
            paragraph.append(line)
    yield from _flush(paragraph, width)


def _flush(paragraph: list[str], width: int) -> Iterator[str]:
    if paragraph:
        yield from _filled(" ".join(line.strip() for line in paragraph), width)
        paragraph.clear()


def _filled(text: str, width: int) -> list[str]:
    hanging = "  " if text.startswith(("- ", "* ")) else ""
    return wrap(
        visible(_STRONG.sub(r"\1", text)),
        min(max(width, _NARROWEST), _WIDEST),
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def table(rules: Iterable[Rule], width: int, color: bool) -> str:
    """The rules under their stages: name, severity, who answers; the title beside them or, without room, beneath."""
    listed = list(rules)
    if not listed:
        return "no rule is like that\n"
    name = max(len(rule.name) for rule in listed)
    by = max(len(_answered(rule)) for rule in listed)
    fixed = 2 + name + 2 + len("warning") + 2 + by + 2
    beside = width - fixed >= _ROOM_FOR_TITLE
    lines = []
    for stage in dict.fromkeys(rule.stage for rule in listed):
        lines += ["", _painted(_BOLD, stage.value.upper(), color)]
        for rule in (rule for rule in listed if rule.stage is stage):
            start = f"  {rule.name:<{name}}  {rule.severity.value:<7}  {_answered(rule):<{by}}"
            told = wrap(visible(rule.title), width - fixed if beside else max(width - 6, _NARROWEST))
            if beside:
                lines += [f"{start}  {told[0]}", *(" " * fixed + line for line in told[1:])]
            else:
                lines += [start.rstrip(), *(_painted(_FAINT, f"      {line}", color) for line in told)]
    return "\n".join(lines[1:]) + f"\n\n{plural(len(listed), 'rule')}; `mlcheck explain RULE` prints the page of one\n"


def _answered(rule: Rule) -> str:
    return "+".join(by.value for by in rule.by)


def statistics(report: Report, width: int) -> str:
    """How many findings each rule has, the most first; titles end where the terminal does."""
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
    return "\n".join(clipped(visible(line).rstrip(), width) for line in lines) + "\n"


def _painted(style: str, text: str, color: bool) -> str:
    return f"{style}{text}{_OFF}" if color and text else text
