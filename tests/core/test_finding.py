"""Findings: the same line is told once."""

from __future__ import annotations

from mlcheck.core.finding import Finding, Location, first_of_each_line


def test_the_first_finding_of_a_line_stays() -> None:
    places = [("a.py", 1, 5), ("a.py", 2, 1), ("a.py", 1, 9), ("b.py", 1, 5)]
    findings = [Finding(str(number), Location(*place)) for number, place in enumerate(places)]
    assert [finding.message for finding in first_of_each_line(findings)] == ["0", "1", "3"]
