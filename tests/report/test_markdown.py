"""The Markdown comment: short, and nothing in it is markup that mlcheck did not write."""

import re
from dataclasses import replace

from mlcheck.core.report import Report
from mlcheck.report import markdown


def test_the_verdict_the_causes_and_the_open_questions(report: Report) -> None:
    assert markdown.render(report) == (
        "**FAIL** `softmax-before-ce` the output already sums to 1 (`model.py:42`); "
        "it explains 1 other failure and 1 warning\n"
        "\n"
        "`mlcheck check` `model:Net`: 2 failed, 1 could not run, 1 warned, 1 waiting for a person, 1 inconclusive, "
        "1 waived, 1 skipped, 1 passed\n"
        "\n"
        "- **FAIL** `softmax-before-ce` `model.py:42`: the output already sums to 1\n"
        "  - return logits: `CrossEntropyLoss` applies log-softmax itself\n"
        "  - explains `cannot-overfit`, `flat-start`\n"
        "- **ERROR** `loader-raises`: IndexError: 17\n"
        "\n"
        "<details><summary>2 open questions</summary>\n"
        "\n"
        "- PENDING `purpose-unstated` The purpose is written down: nobody has signed this off yet\n"
        "- INCONCLUSIVE `batch-dependence` Samples do not mix: two runs differ by 2e-3\n"
        "\n"
        "</details>\n"
    )


def test_outside_text_forms_no_markup(hostile: Report) -> None:
    text = markdown.render(hostile)
    text.encode("utf-8")
    outside_code = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    assert set(re.findall(r"(?<!\\)<[^\s>]*>", outside_code)) <= {"<details>", "<summary>", "</summary>", "</details>"}
    assert not re.search(r"@\w", outside_code)
    assert not re.search(r"(?<!\\)\[", outside_code)


def test_it_stays_short(report: Report) -> None:
    many = tuple(
        replace(result, rule=f"{result.rule}-{number}", summary="s" * 100_000, explains=())
        for number in range(100)
        for result in report.results
    )
    assert len(markdown.render(replace(report, results=many))) < 30_000
