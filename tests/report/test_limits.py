"""Numbers against their limits stand at the top of every report that a person reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlcheck.core.finding import limit_table
from mlcheck.core.report import Report
from mlcheck.report import html, markdown, terminal

ROWS = [
    ["random p99", "<= 50 ms", "31.2 ms [29, 33]", "1, 2, 4", "kept"],
    ["random p99", "<= 50 ms", "154 ms [120, 190]", "8", "BROKEN"],
    ["accuracy", ">= 90.00%", "89.1% [85%, 92%]", "", "undecided"],
]


@pytest.fixture
def held(report: Report) -> Report:
    first, *others = report.results
    return replace(report, results=(replace(first, figures=(limit_table(ROWS), *first.figures)), *others))


def test_they_are_aligned_in_a_terminal_of_80_columns(held: Report) -> None:
    printed = terminal.render(held, width=80, color=False)
    section = printed[printed.index("AGAINST THE LIMITS") :].splitlines()[1:5]
    assert section == [
        "verdict    limit       allowed    measured           in parallel",
        "kept       random p99  <= 50 ms   31.2 ms [29, 33]   1, 2, 4",
        "BROKEN     random p99  <= 50 ms   154 ms [120, 190]  8",
        "undecided  accuracy    >= 90.00%  89.1% [85%, 92%]",
    ]


def test_they_are_a_table_in_markdown_and_on_the_page(held: Report) -> None:
    text = markdown.render(held)
    assert "| limit | allowed | measured | in parallel | verdict |\n| --- |" in text
    assert "| random p99 | &lt;= 50 ms | 154 ms \\[120, 190\\] | 8 | BROKEN |" in text
    page = html.render(held)
    assert '<td class="held-broken">BROKEN</td>' in page
    assert page.count("154 ms [120, 190]") == 1


def test_a_report_without_limits_has_no_such_part(report: Report) -> None:
    for text in (terminal.render(report, width=80, color=False), markdown.render(report), html.render(report)):
        assert "gainst the limits" not in text
        assert "AGAINST THE LIMITS" not in text
