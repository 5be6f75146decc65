"""`mlcheck sign` and `mlcheck waive`: what a person answers, written down with who, when and why."""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from mlcheck.cli.delivery import saved_report
from mlcheck.cli.output import write
from mlcheck.cli.settings import known_rules
from mlcheck.cli.streams import say
from mlcheck.config import load_config
from mlcheck.core.git import asked
from mlcheck.core.mistake import Mistake

if TYPE_CHECKING:
    from mlcheck.config import Config
    from mlcheck.core.report import Result
    from mlcheck.core.rule import Rule
    from mlcheck.core.signing import Entry


def add_sign_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("rule", metavar="RULE", help="the question to answer; see `mlcheck rules --by sign-off`")
    parser.add_argument("--note", required=True, metavar="TEXT", help="the answer")
    parser.add_argument("--link", default="", metavar="URL", help="where to read more")
    parser.add_argument("--files", nargs="+", default=[], metavar="PATH", help="ask again when one of these changes")
    _add_person_options(parser)
    parser.set_defaults(run=sign)


def add_waive_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("rule", metavar="RULE", help="the rule whose failure to accept")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why it is accepted")
    _add_person_options(parser)
    parser.set_defaults(run=waive)


def _add_person_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--until", default="", metavar="DATE", help="the last day on which this holds, such as 2027-05-01"
    )
    parser.add_argument("--by", default="", metavar="NAME", help="your name (default: user.name from git)")


def sign(arguments: argparse.Namespace) -> int:
    """Write a sign-off, bound to the evidence that the last report showed."""
    from mlcheck.core.outcome import By
    from mlcheck.core.signing import print_of_evidence, print_of_files

    config, rule = load_config(), known_rules()[arguments.rule]
    if By.SIGN_OFF not in rule.by:
        answered = " and ".join(by.value for by in rule.by)
        raise Mistake(f"`{rule.name}` is answered by {answered}, not by a person: to accept its failure, waive it")
    entry: dict[str, str | date | list[str]] = {**_person(arguments), "note": arguments.note}
    if arguments.link:
        entry["link"] = arguments.link
    if shown := _shown(rule, config):
        entry["evidence"] = print_of_evidence(shown)
        say(f"the evidence: {shown.summary}")
    if arguments.files:
        try:
            entry |= {"files": arguments.files, "print": print_of_files(arguments.files, _folder(config))}
        except OSError as error:
            raise Mistake(
                f"--files: {error.filename or error} cannot be read: it is looked for in {_folder(config)}"
            ) from None
    return _write("sign", rule.name, entry, config)


def waive(arguments: argparse.Namespace) -> int:
    """Write a waiver for a rule that may fail."""

    rule = known_rules()[arguments.rule]
    return _write("waive", rule.name, {"reason": arguments.reason, **_person(arguments)}, load_config())


def _person(arguments: argparse.Namespace) -> dict[str, str | date | list[str]]:
    """Who, when, until when, and of which commit."""
    by = arguments.by or asked("config", "user.name")
    if not by:
        raise Mistake("nobody is named: give --by, or set `git config user.name`")
    entry: dict[str, str | date | list[str]] = {"by": by, "date": date.today()}
    if arguments.until:
        try:
            entry["until"] = until = date.fromisoformat(arguments.until)
        except ValueError:
            raise Mistake(f"--until {arguments.until}: write a day like 2027-05-01") from None
        if until < date.today():
            raise Mistake(f"--until {arguments.until}: that day has passed")
    if commit := asked("rev-parse", "--short=12", "HEAD"):
        entry["commit"] = commit
    return entry


def _folder(config: Config) -> Path:
    return Path(config.root, config.signoff).parent


def _shown(rule: Rule, config: Config) -> Result | None:
    """The evidence of the last report, for a rule that is signed on evidence. Nothing can be signed unseen."""
    from mlcheck.core.outcome import By, Outcome

    if By.PROBE not in rule.by or not config.json:
        return None
    saved = Path(config.root, config.json)
    if not saved.exists():
        raise Mistake(f"`{rule.name}` is signed on evidence, and there is no report yet: run `mlcheck check`")
    waiting = [
        result
        for result in saved_report(str(saved)).results
        if result.rule == rule.name and result.outcome is Outcome.PENDING
    ]
    if not waiting:
        raise Mistake(f"{saved} shows no evidence for `{rule.name}`: run `mlcheck check`, look, then sign")
    return waiting[0]


def _write(kind: str, rule: str, entry: Entry, config: Config) -> int:
    """Write the file whole or not at all, and only if it can be read again."""
    from mlcheck.core.signing import with_entry
    from mlcheck.core.signoff import results_of, sign_off_results

    path, catalog = Path(config.root, config.signoff), known_rules()
    sign_off_results(catalog, path, date.today())
    text = path.read_text(encoding="utf-8-sig") if path.exists() else ""
    signed = with_entry(text, kind, rule, entry)
    results_of(signed, catalog, path, date.today())
    write(str(path), signed)
    say(f"{'signed' if kind == 'sign' else 'waived'} {rule} in {path}: by {entry['by']} on {entry['date']}")
    return 0
