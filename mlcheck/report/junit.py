"""The checklist as JUnit XML, as every build server reads it: a test case for each rule, a suite for each stage."""

from __future__ import annotations

import re
from collections.abc import Collection
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from mlcheck.core.outcome import Outcome
from mlcheck.core.report import Item, Report, Result
from mlcheck.report import digest
from mlcheck.report.safe import one_line, visible

_UNSAID = {Outcome.PENDING, Outcome.INCONCLUSIVE, Outcome.SKIP, Outcome.WAIVED}
_MOST_FINDINGS = 200


def render(report: Report, failing: Collection[Outcome] = frozenset({Outcome.FAIL})) -> str:
    """`failing` are the outcomes that count as failures, besides checks that broke.

    What was not answered is skipped with its reason, so that it is no pass; a warning that does not count, and
    a note, are written out under a case that passes.
    """
    whole = Element("testsuites", name=f"mlcheck {_line(report.command)}", time=_seconds(report.seconds))
    for stage, found in digest.by_stage(report.items()).items():
        suite = SubElement(whole, "testsuite", name=f"mlcheck.{stage.value}")
        if report.started:
            suite.set("timestamp", _line(report.started))
        for item in found:
            _case(suite, stage.value, item, failing)
        for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(kind, str(len(suite.findall(f"testcase/{tag}"))))
        suite.set("tests", str(len(found)))
        suite.set("time", _seconds(sum(result.seconds for item in found for result in item.results)))
    for kind in ("tests", "failures", "errors"):
        whole.set(kind, str(sum(int(suite.get(kind, "0")) for suite in whole)))
    indent(whole, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(whole, encoding="unicode") + "\n"


def _case(suite: Element, stage: str, item: Item, failing: Collection[Outcome]) -> None:
    result = item.decided
    seconds = _seconds(sum(one.seconds for one in item.results))
    case = SubElement(suite, "testcase", classname=f"mlcheck.{stage}", name=_line(result.rule), time=seconds)
    said = _line(digest.evidence(result))
    if item.outcome is Outcome.ERROR:
        SubElement(case, "error", message=said, type="error").text = _block(result.traceback or result.reason)
    elif item.outcome in failing:
        kind = "open" if item.outcome in _UNSAID else result.severity.value
        SubElement(case, "failure", message=said, type=kind).text = _told(item)
    elif item.outcome in _UNSAID:
        SubElement(case, "skipped", message=f"{digest.words(item.outcome)}: {said}" if said else item.outcome.value)
    elif told := _told(item):
        SubElement(case, "system-out").text = told


def _told(item: Item) -> str:
    """Every finding with its place and what to do, then what was overruled."""
    lines = [_block(result_line) for result_line in _lines(item.decided)]
    lines += [
        f"{other.by.value} said {other.outcome.value}: {_line(digest.evidence(other))}" for other in item.overruled
    ]
    return "\n".join(line for line in lines if line)


def _lines(result: Result) -> list[str]:
    lines = [result.title]
    lines += [said for said in (result.summary, result.reason) if said and said != result.headline]
    for finding in result.findings[:_MOST_FINDINGS]:
        place = str(finding.location)
        lines.append(f"{place}: {finding.message}" if place else finding.message)
        numbers = ", ".join(f"{name} {digest.number(value)}" for name, value in finding.numbers.items())
        lines += [f"  {told}" for told in (numbers, finding.help and f"help: {finding.help}") if told]
    left = len(result.findings) - _MOST_FINDINGS
    if left > 0:
        lines.append(f"and {left:,} more")
    if not result.findings:
        lines.append(result.headline)
    return lines + ([result.traceback] if result.traceback else [])


def _seconds(seconds: float) -> str:
    return f"{max(seconds, 0.0):.3f}" if seconds == seconds and seconds < 1e12 else "0.000"


def _line(text: str) -> str:
    return one_line(text)


def _block(text: str) -> str:
    """XML has no place for control characters, not even escaped; a tab and an end of line may stay."""
    return "\n".join(re.sub(r"[^\t]+", lambda part: visible(part[0]), line) for line in text.splitlines())
