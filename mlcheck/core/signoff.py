"""Sign-offs and waivers: what people answered, in a `signoff.toml` that lives beside the code.

[sign.baseline-unknown]
by = "Ada"
date = 2026-11-02
note = "logistic regression reaches 91.2 %"
link = "docs/baseline.md"      # optional
until = 2027-05-01             # optional: to be asked again after this day
files = ["data/labels.csv"]    # optional: to be asked again when one of them changes; `print` is theirs
print = "0f3a9b1c5d7e2468"

[waive.missing-eval-mode]
reason = "the model has neither dropout nor batch norm"
by = "Ada"
date = 2026-11-02
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlcheck.core.catalog import Catalog
from mlcheck.core.mistake import Mistake
from mlcheck.core.outcome import By, Outcome
from mlcheck.core.report import Result
from mlcheck.core.rule import Rule
from mlcheck.core.signing import print_of_evidence, print_of_files

UNSIGNED = "nobody has signed this off yet"
_KEYS = {
    "sign": (("by", "date", "note"), ("link", "until", "commit", "evidence", "files", "print")),
    "waive": (("reason", "by", "date"), ("until", "commit")),
}


class BadSignOff(Mistake):
    """A `signoff.toml` that cannot be trusted: one sentence with the file, the line and the fault."""


def sign_off_results(
    catalog: Catalog, path: Path, today: date, shown: Mapping[str, Result] = MappingProxyType({})
) -> list[Result]:
    """One result for every signed or waived rule, and PENDING for each that waits for a person.

    `shown` is the evidence of this run by rule: a sign-off given for other evidence has to be given again.
    A missing file leaves every sign-off open. Raises BadSignOff when the file cannot be read, is not TOML,
    names an unknown rule, signs and waives the same rule, or holds a key, date or value of the wrong form.
    """
    return results_of(_read(path), catalog, path, today, shown)


def results_of(
    text: str, catalog: Catalog, path: Path, today: date, shown: Mapping[str, Result] = MappingProxyType({})
) -> list[Result]:
    """The same of a text that is in the file, or is about to be."""
    tables = _tables(text, path)
    results = []
    for kind in _KEYS:
        for name, entry in tables.get(kind, {}).items():
            where = f"{path}{_line_of(text, kind, name)}: [{kind}.{name}]"
            if name not in catalog:
                raise BadSignOff(f"{where}: no rule has this name{_near(name, catalog.paths)}")
            if kind == "waive" and name in tables.get("sign", {}):
                raise BadSignOff(f"{where}: this rule is signed as well; keep one of the two")
            _check_entry(kind, entry, where, today)
            rule = catalog[name]
            if kind == "sign":
                results.append(_signed(rule, entry, today, path.parent, shown.get(name)))
            else:
                results.append(_waived(rule, entry, today))
    answered = {result.rule for result in results}
    asked = [rule for rule in catalog if By.SIGN_OFF in rule.by and rule.name not in answered]
    return results + [_result(rule, Outcome.PENDING, reason=UNSIGNED) for rule in asked]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise BadSignOff(f"{path}: not UTF-8 at byte {error.start}") from error
    except OSError as error:
        raise BadSignOff(f"{path}: cannot be read: {error.strerror}") from error


def _tables(text: str, path: Path) -> dict[str, dict[str, Any]]:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadSignOff(f"{path}: not valid TOML: {error}") from error
    for kind, entries in tables.items():
        if kind not in _KEYS:
            raise BadSignOff(
                f"{path}: unknown table [{kind}]{_near(kind, _KEYS)}; it holds [sign.RULE] and [waive.RULE]"
            )
        if not isinstance(entries, dict):
            raise BadSignOff(f"{path}: `{kind}` must be tables named after rules, like [{kind}.RULE]")
    return tables


def _line_of(text: str, kind: str, name: str) -> str:
    """`:12` for the line of the table's header, where it is written as one."""
    header = re.compile(rf"""^\s*\[\s*{kind}\s*\.\s*["']?{re.escape(name)}["']?\s*\]""", re.MULTILINE)
    match = header.search(text)
    return f":{text.count(chr(10), 0, match.end()) + 1}" if match else ""


def _near(name: str, known: Any) -> str:
    near = get_close_matches(name, list(known), n=2)
    return f"; did you mean {' or '.join(f'`{word}`' for word in near)}?" if near else ""


def _check_entry(kind: str, entry: Any, where: str, today: date) -> None:
    """Raise BadSignOff unless `entry` has the keys of its kind, filled, with sensible dates."""
    if not isinstance(entry, dict):
        raise BadSignOff(f"{where}: must be a table with {', '.join(_KEYS[kind][0])}")
    required, optional = _KEYS[kind]
    for key in entry:
        if key not in required + optional:
            raise BadSignOff(f"{where}: unknown key `{key}`{_near(key, required + optional)}")
    for key in required:
        if key not in entry:
            raise BadSignOff(f"{where}: `{key}` is missing")
    for key, value in entry.items():
        if key in {"date", "until"}:
            _day(value, key, where)
        elif key == "files":
            if not (isinstance(value, list) and value and all(isinstance(name, str) for name in value)):
                raise BadSignOff(f"{where}: `files` must be a list of paths")
            if "print" not in entry:
                raise BadSignOff(f"{where}: `files` needs their `print`; `mlcheck sign` writes both")
        elif not isinstance(value, str) or not value.strip():
            raise BadSignOff(f"{where}: `{key}` must be a text that is not empty")
    signed = _day(entry["date"], "date", where)
    if signed > today + timedelta(days=1):  # a colleague east of here may already live in tomorrow
        raise BadSignOff(f"{where}: `date` {signed} is in the future")
    if "until" in entry and _day(entry["until"], "until", where) < signed:
        raise BadSignOff(f"{where}: `until` {entry['until']} is before `date` {signed}")


def _day(value: Any, key: str, where: str) -> date:
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise BadSignOff(f"{where}: `{key}` must be a day like 2026-11-02, not {value!r}") from None


def _expired(entry: dict[str, Any], today: date) -> bool:
    return "until" in entry and _day(entry["until"], "until", "") < today


def _signed(rule: Rule, entry: dict[str, Any], today: date, folder: Path, shown: Result | None) -> Result:
    who = f"{entry['by']} on {_day(entry['date'], 'date', '')}"
    if _expired(entry, today):
        return _result(rule, Outcome.PENDING, reason=f"the sign-off by {who} ended on {entry['until']}: sign again")
    if changed := _changed(entry, folder, shown):
        return _result(rule, Outcome.PENDING, reason=f"{changed} since the sign-off by {who}: look and sign again")
    link = f" ({entry['link']})" if "link" in entry else ""
    until = f", until {entry['until']}" if "until" in entry else ""
    return _result(rule, Outcome.PASS, summary=f"signed off by {who}{until}: {entry['note']}{link}")


def _changed(entry: dict[str, Any], folder: Path, shown: Result | None) -> str:
    """What the sign-off was given for and is no longer so; empty while it holds."""
    if shown is not None and "evidence" in entry and entry["evidence"] != print_of_evidence(shown):
        return "the evidence changed"
    files = entry.get("files", [])
    try:
        return f"{', '.join(files)} changed" if files and print_of_files(files, folder) != entry["print"] else ""
    except FileNotFoundError as error:
        return f"{error} was removed"
    except OSError as error:
        return f"{error.filename} became unreadable"


def _waived(rule: Rule, entry: dict[str, Any], today: date) -> Result:
    who = f"{entry['by']} on {_day(entry['date'], 'date', '')}"
    if _expired(entry, today):
        told = f"the waiver by {who} ended on {entry['until']}: renew it, or fix the cause"
        return _result(rule, Outcome.PENDING, reason=told)
    until = f"until {entry['until']}" if "until" in entry else "without end"
    return _result(rule, Outcome.WAIVED, reason=f"waived by {who}, {until}: {entry['reason']}")


def _result(rule: Rule, outcome: Outcome, summary: str = "", reason: str = "") -> Result:
    return Result(
        rule=rule.name,
        title=rule.title,
        stage=rule.stage,
        severity=rule.severity,
        by=By.SIGN_OFF,
        outcome=outcome,
        summary=summary,
        reason=reason,
        looked_at=1 if summary else 0,
        explains=rule.explains,
    )
