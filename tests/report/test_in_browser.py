"""The page in headless Chromium: what a reader sees, clicks, types and prints."""

from __future__ import annotations

import base64
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlcheck.core.report import Report
from mlcheck.report import html

_spec = importlib.util.spec_from_file_location("chromium", Path(__file__).with_name("chromium.py"))
assert _spec
assert _spec.loader
browser = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(browser)

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not browser.FOUND, reason="Chromium is not installed")]
SHOWN = "[...document.querySelectorAll('.item')].filter((item) => item.checkVisibility()).map((item) => item.id)"
PAPER = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def tab() -> Iterator[Any]:
    with browser.chromium() as page:
        yield page


@pytest.fixture
def opened(tab: Any, report: Report, tmp_path: Path) -> Any:
    return shown(tab, report, tmp_path)


def shown(tab: Any, report: Report, folder: Path) -> Any:
    path = folder / "report.html"
    path.write_text(html.render(report), encoding="utf-8")
    tab.look(1280, 900)
    tab.open(path)
    return tab


def test_it_filters_by_keyboard(opened: Any, report: Report) -> None:
    everything = opened.run(SHOWN)
    assert len(everything) == len(report.items())
    opened.press("/", 191, "/")
    opened.type("softmax")
    assert opened.run("document.activeElement.id") == "search"
    found = opened.run(SHOWN)
    assert "softmax-before-ce" in found
    assert len(found) < len(everything)
    assert opened.run("document.getElementById('shown').textContent") == f"{len(found)} of {len(everything)}"
    opened.type("nowhere")
    assert opened.run("document.getElementById('none').checkVisibility()")
    opened.press("Escape", 27)
    assert opened.run(SHOWN) == everything
    assert opened.complaints == []


def test_an_outcome_is_chosen_and_a_link_leads_to_what_it_hides(opened: Any) -> None:
    opened.run("document.querySelector('[data-show=pass]').click()")
    assert opened.run(SHOWN) == ["unused-parameter"]
    opened.run("document.querySelector('a[href=\"#softmax-before-ce\"]').click()")
    opened.run("new Promise((done) => setTimeout(done, 50))")
    assert "softmax-before-ce" in opened.run(SHOWN)
    assert opened.run("document.getElementById('softmax-before-ce').open")


def test_an_item_opens_by_keyboard(opened: Any) -> None:
    opened.run("document.querySelector('#unused-parameter summary').focus()")
    opened.press("Enter", 13, "\r")
    assert opened.run("document.getElementById('unused-parameter').open")
    assert opened.run("document.querySelector('#unused-parameter .evidence').checkVisibility()")


def test_light_dark_and_narrow(opened: Any) -> None:
    light = opened.run(PAPER)
    opened.look(1280, 900, "dark")
    assert opened.run(PAPER) != light
    for width in (1280, 720, 360):
        opened.look(width, 800)
        assert opened.run("document.scrollingElement.scrollWidth <= innerWidth"), f"scrolls sideways at {width} px"
    assert opened.screenshot().startswith(b"\x89PNG")


def test_all_of_it_is_printed(opened: Any) -> None:
    folded = "document.querySelectorAll('details.item:not([open])').length"
    before = opened.run(folded)
    assert before
    opened.run("dispatchEvent(new Event('beforeprint'))")
    assert opened.run(folded) == 0
    opened.run("dispatchEvent(new Event('afterprint'))")
    assert opened.run(folded) == before
    assert base64.b64decode(opened.say("Page.printToPDF")["data"]).startswith(b"%PDF")


def test_hostile_text_runs_nothing(tab: Any, hostile: Report, tmp_path: Path) -> None:
    page = shown(tab, hostile, tmp_path)
    assert page.complaints == []
    assert page.run("document.querySelectorAll('script').length") == 1
    assert page.run("document.querySelectorAll('.item').length") == len(hostile.items())
