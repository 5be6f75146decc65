"""JUnit: one case a rule, counted right, and readable for every XML parser whatever a message holds."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from mlcheck.core.outcome import Outcome
from mlcheck.core.report import Report
from mlcheck.report import junit

# What junit-10.xsd allows, the grammar that Jenkins publishes: attributes that must and may stand there, and children.
SECONDS = re.compile(r"([0-9]+(\.[0-9]{0,3})?)?")
TOLD: tuple[set[str], set[str], set[str]] = (set(), {"type", "message"}, set())
GRAMMAR: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors"}, {"time", "skipped", "timestamp"}, {"testcase"}),
    "testcase": ({"name"}, {"time", "classname"}, {"skipped", "error", "failure", "system-out"}),
    "failure": TOLD, "error": TOLD, "skipped": TOLD, "system-out": (set(), set(), set()),
}  # fmt: skip


def parsed(report: Report, *failing: Outcome) -> ElementTree.Element:
    """The root, after the counts were checked against the cases, on every level, and all of it against the grammar."""
    root = ElementTree.fromstring(junit.render(report, failing or (Outcome.FAIL,)))
    assert root.tag == "testsuites"
    for element in root.iter():
        required, optional, children = GRAMMAR[element.tag]
        assert required <= set(element.keys()) <= required | optional, element.tag
        assert {child.tag for child in element} <= children
        assert SECONDS.fullmatch(element.get("time", "")), element.get("time")
    for whole in (root, *root):
        cases = list(whole.iter("testcase"))
        assert int(whole.get("tests", "")) == len(cases)
        for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            if whole is not root or kind != "skipped":
                assert int(whole.get(kind, "")) == sum(case.find(tag) is not None for case in cases)
        assert float(whole.get("time", "")) >= 0
    for case in root.iter("testcase"):
        assert case.get("classname")
        assert case.get("name") is not None
        assert [child.tag for child in case] in ([], ["failure"], ["error"], ["skipped"], ["system-out"])
    return root


def cases(root: ElementTree.Element) -> dict[str, str]:
    return {case.get("name", ""): (case[0].tag if len(case) else "") for case in root.iter("testcase")}


def test_outcomes_become_cases(report: Report) -> None:
    assert cases(parsed(report)) == {
        "softmax-before-ce": "failure",
        "cannot-overfit": "failure",
        "flat-start": "system-out",
        "loader-raises": "error",
        "purpose-unstated": "skipped",
        "batch-dependence": "skipped",
        "missing-eval-mode": "skipped",
        "clip-before-unscale": "skipped",
        "unused-parameter": "system-out",
    }


def test_what_counts_is_said_by_the_caller(report: Report) -> None:
    strict = cases(parsed(report, Outcome.FAIL, Outcome.WARN, Outcome.PENDING, Outcome.INCONCLUSIVE))
    assert {name for name, tag in strict.items() if tag == "failure"} == {
        "softmax-before-ce", "cannot-overfit", "flat-start", "purpose-unstated", "batch-dependence",
    }  # fmt: skip


def test_suites_are_stages_in_their_order(report: Report) -> None:
    root = parsed(report)
    assert [suite.get("name") for suite in root] == [
        f"mlcheck.{stage}" for stage in ("scope", "data", "training", "validation", "speed")
    ]
    assert root[0].get("timestamp") == "2026-11-21T14:31:19+00:00"


def test_a_failure_tells_everything(report: Report) -> None:
    (failure,) = (c[0] for c in parsed(report).iter("testcase") if c.get("name") == "softmax-before-ce")
    assert failure.get("message") == "the output already sums to 1"
    assert failure.get("type") == "error"
    text = failure.text or ""
    for told in ("The loss receives logits", "model.py:42:16 (Net.forward)", "row sum 1", "help: return logits"):
        assert told in text
    assert "lint said fail" in text


def test_a_crash_shows_the_traceback(report: Report) -> None:
    (error,) = (case[0] for case in parsed(report).iter("testcase") if case.get("name") == "loader-raises")
    assert 'File "data.py", line 9, in get' in (error.text or "")


def test_hostile_text_stays_text(hostile: Report) -> None:
    parsed(hostile, Outcome.FAIL, Outcome.WARN)


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0, 1e300])
def test_times_are_numbers(report: Report, seconds: float) -> None:
    parsed(replace(report, seconds=seconds, results=tuple(replace(r, seconds=seconds) for r in report.results)))


def test_an_empty_report_is_an_empty_suite() -> None:
    assert len(parsed(Report("lint", ".", ()))) == 0
