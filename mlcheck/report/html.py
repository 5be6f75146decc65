"""The checklist as one HTML file that needs nothing else: no network, no font, no other file."""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from mlcheck.core.causes import causes
from mlcheck.core.finding import limit_rows
from mlcheck.core.outcome import By, Outcome
from mlcheck.core.plural import plural
from mlcheck.core.report import Item, Report
from mlcheck.core.signoff import UNSIGNED
from mlcheck.report import digest, figures
from mlcheck.report.headline import headline
from mlcheck.report.safe import block, one_line

_TEMPLATES = Path(__file__).parent / "templates"
_CODE = re.compile(r"`([^`]+)`")
_SHOWN_TRACEBACK_LINES = 200


def render(report: Report) -> str:
    """The whole page. Everything a report holds is data to it: escaped, and cut where it is endless."""
    checklist = report.items()
    found = causes(checklist)
    style, script = (Markup((_TEMPLATES / name).read_text(encoding="utf-8")) for name in ("report.css", "report.js"))  # noqa: S704
    return (
        _environment()
        .get_template("report.html")
        .render(
            report=report,
            checklist=checklist,
            causes=found,
            headline=headline(checklist, found),
            counts=digest.counts(checklist),
            stages=digest.by_stage(checklist),
            limits=digest.limits(report),
            style=style,
            script=script,
            policy=_policy(style, script),
        )
    )


def _policy(style: str, script: str) -> str:
    """Nothing may be loaded, and only this style and this script may run."""
    ours = f"style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    return f"default-src 'none'; img-src data:; {ours}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "line": one_line,
        "prose": _prose,
        "number": digest.number,
        "duration": digest.duration,
        "moment": digest.moment,
        "anchor": _anchor,
        "words": digest.words,
        "held": limit_rows,
        "draw": lambda figure: Markup(figures.draw(figure)),  # noqa: S704
        "traceback": lambda text: block(text, _SHOWN_TRACEBACK_LINES),
    }
    environment.globals |= {
        "evidence": digest.evidence,
        "options": digest.options,
        "cost": digest.cost,
        "took": digest.took,
        "short_place": digest.short_place,
        "repeat_command": digest.repeat_command,
        "sign_command": digest.sign_command,
        "plural": plural,
        "change_words": digest.change_words,
        "changes_counted": digest.changes_counted,
        "opens": _opens,
        "unsigned": UNSIGNED,
        "can_be_signed": _can_be_signed,
    }
    return environment


def _prose(text: str, limit: int = 4000) -> Markup:
    """One line of text, with what stands between backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", escape(one_line(text, limit))))  # noqa: S704


def _anchor(rule: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", rule.lower()[:80])


def _opens(item: Item) -> bool:
    """Whether an item is unfolded at first: what is wrong, and images that wait for someone to look."""
    return item.outcome in digest.ALARMS or (item.outcome is Outcome.PENDING and bool(item.decided.figures))


def _can_be_signed(item: Item) -> bool:
    return item.outcome is Outcome.PENDING and item.decided.by in (By.SIGN_OFF, By.PROBE)
