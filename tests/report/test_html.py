"""The HTML page: complete, self-contained, and deaf to what it quotes."""

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import By, Outcome, Severity, Stage
from mlcheck.core.report import Report, Result
from mlcheck.report import html

VOID = {"meta", "img", "input", "br", "line", "rect", "circle", "path", "polyline"}


class Page(HTMLParser):
    """Tags with their attributes in order, the text of each element kind, and whether the nesting is sound."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text: Counter[str] = Counter()
        self.open: list[str] = []
        self.said = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in {"script", "style"}:
            self.said += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]


def items_of(page: Page) -> list[dict[str, str]]:
    return [attributes for attributes in page.all("details") if attributes.get("class") == "item"]


def test_every_item_stands_once_with_its_outcome(report: Report) -> None:
    page = Page(html.render(report))
    assert not page.open
    shown = {attributes["id"]: attributes["data-outcome"] for attributes in items_of(page)}
    assert shown == {item.decided.rule: item.outcome.value for item in report.items()}


def test_evidence_places_help_numbers_and_commands_are_told(report: Report) -> None:
    said = " ".join(Page(html.render(report)).said.split())
    for part in (
        "the output already sums to 1",
        "it explains 1 other failure and 1 warning",
        "row sums 1.0000 over 64 rows",
        "model.py:42:16 (Net.forward)",
        "return logits: CrossEntropyLoss applies log-softmax itself",
        "3.1e-08",
        "mlcheck probe model:Net --only softmax-before-ce",
        "mlcheck lint . --select clip-before-unscale",
        "lint said fail",
        "nn.Softmax feeds CrossEntropyLoss",
        "IndexError: 17",
        "waived by Ada on 2026-11-02",
        "mlcheck sign purpose-unstated",
        "looked at 6",
        "61 ms",
        "2.13.0",
        "the whole report: report.html",
    ):
        assert part in said, part


def test_what_is_wrong_is_open_and_what_is_fine_is_folded(report: Report) -> None:
    folded = {attributes["id"]: "open" not in attributes for attributes in items_of(Page(html.render(report)))}
    assert not folded["softmax-before-ce"]
    assert not folded["loader-raises"]
    assert folded["unused-parameter"]
    assert folded["clip-before-unscale"]


def test_links_lead_to_items_of_the_page(report: Report) -> None:
    page = Page(html.render(report))
    anchors = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    links = [attributes["href"] for attributes in page.all("a")]
    assert links
    assert all(link.startswith("#") and link[1:] in anchors for link in links)


def test_the_figures_of_an_overruled_result_are_kept(report: Report) -> None:
    probe = next(result for result in report.results if result.figures)
    shown = replace(probe, outcome=Outcome.PENDING, findings=())
    signed = replace(probe, outcome=Outcome.PASS, by=By.SIGN_OFF, figures=(), findings=(), summary="signed by Ada")
    assert "The batch" in Page(html.render(replace(report, results=(shown, signed)))).said


def test_what_passes_with_a_note_is_marked_as_one(report: Report) -> None:
    noted = next(result for result in report.results if result.findings)
    passed = replace(noted, outcome=Outcome.PASS, severity=Severity.NOTE, by=By.LINT)
    silent = replace(passed, rule="nothing-noted", findings=())
    page = Page(html.render(replace(report, results=(passed, silent))))
    badges = [attributes["class"] for attributes in page.all("span") if "badge" in attributes.get("class", "")]
    assert badges.count("badge tone-note") == 1


def loads_nothing(page: Page) -> None:
    allowed = {"meta": {"charset", "http-equiv", "content", "name"}}
    for tag, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name not in {"style", "srcset", "action", "formaction", "background", "poster", "data"}, (tag, name)
            if name == "href":
                assert value.startswith("#")
            if name == "src":
                assert tag == "img"
                assert re.fullmatch(r"data:image/png;base64,[A-Za-z0-9+/=]+", value)
        if tag in allowed:
            assert set(attributes) <= allowed[tag]
    tags = Counter(tag for tag, _ in page.tags)
    assert not {"link", "iframe", "object", "embed", "base", "form", "audio", "video"} & set(tags)
    assert (tags["script"], tags["style"]) == (1, 1)


def test_nothing_is_loaded_and_nothing_else_may_run(report: Report) -> None:
    source = html.render(report)
    page = Page(source)
    loads_nothing(page)
    assert not re.search(r"(?i)@import|url\(|https?://|fetch\(|XMLHttpRequest", source)
    policy = next(attributes["content"] for attributes in page.all("meta") if "http-equiv" in attributes)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert len(re.findall(r"'sha256-[A-Za-z0-9+/=]{44}'", policy)) == 2


def test_hostile_text_stays_text(hostile: Report) -> None:
    source = html.render(hostile)
    source.encode("utf-8")
    page = Page(source)
    assert not page.open
    loads_nothing(page)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", source)
    if "{{" in hostile.subject:
        assert "{{ 7 * 7 }}" in page.said
    if "<script>" in hostile.subject:
        assert "</script><script>alert(1)</script>" in page.said


def test_the_page_of_an_empty_report_stands() -> None:
    page = Page(html.render(Report("check", "m:N", ())))
    assert not page.open
    assert "nothing was checked" in page.said


def test_two_thousand_findings_stay_a_page() -> None:
    results = tuple(
        Result(
            f"rule-{number}", f"The sentence of rule {number}", list(Stage)[number % 8], Severity.ERROR, By.LINT,
            Outcome.FAIL if number % 3 else Outcome.PASS, explains=(f"rule-{number + 1}",),
            findings=tuple(
                Finding("`backward()` adds to gradients that no `zero_grad()` clears", Location("train.py", line, 9),
                        "call `optimizer.zero_grad()` before `loss.backward()`")
                for line in range(1, 11)
            ),
        )
        for number in range(200)
    )  # fmt: skip
    page = html.render(Report("check", "m:N", results))
    assert len(page) < 1_300_000
    assert page.count('class="finding"') == 2000


def test_an_ordinary_page_is_small(report: Report) -> None:
    assert len(html.render(report)) < 60_000


@pytest.mark.parametrize("field", ["summary", "reason", "traceback", "title", "rule"])
def test_a_megabyte_of_text_is_cut(report: Report, field: str) -> None:
    endless = replace(report.results[0], **{field: "word " * 200_000})
    assert len(html.render(replace(report, results=(endless,)))) < 100_000
