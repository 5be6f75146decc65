"""What an outcome means to a test: pass, fail with the evidence, skip with the reason, or an expected failure."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlcheck.core.outcome import Outcome
from mlcheck.core.report import Item, Result, items

if TYPE_CHECKING:
    from mlcheck.config import Config

_WIDTH = 100


class MlcheckWarning(UserWarning):
    """A probe that warns: very likely wrong, but not proven."""


def answered(results: list[Result], rule: str) -> Item:
    """The checklist item of a rule. Raises LookupError when nothing answered it."""
    return next(item for item in items(results) if item.decided.rule == rule)


def judge(item: Item) -> None:
    """Pass, or raise what pytest knows the outcome by."""
    result = item.decided
    match result.outcome:
        case Outcome.FAIL | Outcome.ERROR:
            pytest.fail(told(item), pytrace=False)
        case Outcome.WARN:
            warnings.warn(MlcheckWarning(told(item)), stacklevel=2)
        case Outcome.WAIVED:
            pytest.xfail(result.reason)
        case Outcome.SKIP:
            pytest.skip(result.reason)
        case Outcome.INCONCLUSIVE:
            pytest.skip(f"inconclusive: {result.reason or result.summary}")
        case Outcome.PENDING:
            pytest.skip(f"waits for a person: {result.reason}")


def told(item: Item) -> str:
    """The evidence in one line, for pytest's summary, and below it the item as the terminal report shows it."""
    from mlcheck.report import digest, terminal_item
    from mlcheck.report.safe import one_line

    result = item.decided
    place = digest.short_place(result)
    short = f"{digest.evidence(result)}{f' ({place})' if place else ''}"
    return f"{one_line(short)}\n\n{terminal_item.render_item(item, width=_WIDTH, color=False).rstrip()}"


def waivers(config: Config) -> list[Result]:
    """What the project's `signoff.toml` waives."""
    from datetime import date

    from mlcheck.core.catalog import Catalog, team_folders
    from mlcheck.core.signoff import sign_off_results

    catalog = Catalog(team=team_folders(config.rules, config.root))
    said = sign_off_results(catalog, Path(config.root, config.signoff), date.today())
    return [result for result in said if result.outcome is Outcome.WAIVED]
