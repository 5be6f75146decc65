"""How a large report opens and filters in headless Chromium: 200 rules, 2,000 findings, 300 figures.

python tests/benchmarks/large_report.py [--keep report.html]
"""

from __future__ import annotations

import argparse
import base64
import math
import random
import statistics
import struct
import sys
import time
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

from mlcheck.core.finding import Figure, Finding, Location
from mlcheck.core.outcome import By, Outcome, Severity, Stage
from mlcheck.core.report import Report, Result
from mlcheck.report import html

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "report"))
from chromium import Page, chromium

RULES, FINDINGS, FIGURES = 200, 2000, 300
WORDS = [
    "gradient",
    "loader",
    "optimizer",
    "batch",
    "layer",
    "weight",
    "softmax",
    "dropout",
    "epoch",
    "label",
    "shuffle",
    "scheduler",
]
OUTCOMES = (Outcome.FAIL, Outcome.WARN, Outcome.PENDING, Outcome.SKIP, Outcome.PASS, Outcome.PASS, Outcome.PASS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, help="write the page there")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    report = large()
    begun = time.process_time()
    page = html.render(report)
    print(f"rendered in {time.process_time() - begun:.2f} s of processor time, {len(page.encode()) / 1e6:.1f} MB")
    with TemporaryDirectory() as folder, chromium() as tab:
        path = arguments.keep or Path(folder, "report.html")
        path.write_text(page, encoding="utf-8")
        tab.look(1280, 900)
        for name, seconds in measured(tab, path, arguments.rounds).items():
            print(f"{name:<28} {1e3 * statistics.median(seconds):7.0f} ms  (worst {1e3 * max(seconds):.0f})")


def measured(tab: Page, path: Path, rounds: int) -> dict[str, list[float]]:
    """Seconds from the start of the navigation to the load event, and from an event to the frame that shows it."""
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        tab.open(path)
        timing = tab.run("performance.getEntriesByType('navigation')[0].toJSON()")
        paint = tab.run("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN")
        found.setdefault("first paint", []).append(paint / 1e3)
        found.setdefault("loaded", []).append(timing["loadEventEnd"] / 1e3)
        for key in range(1, 9):
            typed = f"search.value = {'gradient'[:key]!r}; search.dispatchEvent(new Event('input'))"
            found.setdefault("a key of the filter", []).append(to_frame(tab, typed))
        found.setdefault("the filter emptied", []).append(
            to_frame(tab, "search.value = ''; search.dispatchEvent(new Event('input'))")
        )
        for outcome in ("fail", "pass", "fail", "pass"):
            found.setdefault("an outcome chosen", []).append(
                to_frame(tab, f"document.querySelector('[data-show={outcome}]').click()")
            )
        found.setdefault("all opened", []).append(to_frame(tab, "document.getElementById('fold').click()"))
        found.setdefault("a key with all open", []).append(
            to_frame(tab, "search.value = 'loader'; search.dispatchEvent(new Event('input'))")
        )
        found.setdefault("scrolled to the end", []).append(to_frame(tab, "scrollTo(0, document.body.scrollHeight)"))
    return found


def to_frame(tab: Page, action: str) -> float:
    shown = "requestAnimationFrame(() => setTimeout(() => done(performance.now() - begun)))"
    return float(tab.run(f"new Promise((done) => {{ const begun = performance.now(); {action}; {shown}; }})")) / 1e3


def large() -> Report:
    """The same report every time."""
    chance = random.Random(0)
    stages = list(Stage)
    results = []
    for number in range(RULES):
        outcome = OUTCOMES[number % len(OUTCOMES)]
        figures = tuple(figure(chance, place) for place in range(number, FIGURES, RULES))
        results.append(
            Result(
                f"rule-{number}-{chance.choice(WORDS)}-{chance.choice(WORDS)}",
                sentence(chance),
                stages[number % len(stages)],
                list(Severity)[number % 3],
                (By.LINT, By.PROBE)[number % 2],
                outcome,
                sentence(chance),
                findings=tuple(finding(chance) for _ in range(FINDINGS // RULES)),
                figures=figures,
                numbers={word: chance.random() for word in chance.sample(WORDS, 3)},
                seconds=chance.random(),
                reason="no scheduler in this folder" if outcome is Outcome.SKIP else "",
            )
        )
    return Report("check", "train:build", tuple(results), {"torch": "2.13.0"}, "2026-11-21T12:00:00+00:00", 60.0)


def sentence(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=12))


def finding(chance: random.Random) -> Finding:
    place = Location(f"src/{chance.choice(WORDS)}.py", chance.randrange(1, 900), 5)
    return Finding(sentence(chance), place, sentence(chance), {"share": chance.random()})


def figure(chance: random.Random, number: int) -> Figure:
    kinds = ("curves", "bars", "matrix", "images", "table", "curves")
    kind = kinds[number % len(kinds)]
    values = [[chance.gauss(0, 1) for _ in range(24)] for _ in range(24)]
    names = [f"layer.{position}" for position in range(24)]
    curves = [{"name": word, "y": [math.exp(-x / 99) + chance.random() for x in range(300)]} for word in WORDS[:3]]
    data = {
        "curves": {"series": curves, "x_label": "step", "y_label": "loss"},
        "bars": {"labels": names, "values": values[0]},
        "matrix": {"rows": names, "columns": names, "values": values},
        "images": {"tiles": [{"png": picture(chance), "caption": f"{tile}"} for tile in range(16)]},
        "table": {"columns": names[:6], "rows": [row[:6] for row in values]},
    }
    return Figure(kind, f"{kind} {number}", data[kind])


def picture(chance: random.Random) -> str:
    """A grey PNG of noise, 32 by 32."""
    rows = b"".join(b"\0" + chance.randbytes(32) for _ in range(32))
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", 32, 32, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    data = b"\x89PNG\r\n\x1a\n"
    for kind, body in chunks:
        data += struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    return base64.b64encode(data).decode()


if __name__ == "__main__":
    main()
