"""A check is not loaded where none of its words stands in the program: asked all the same, it would be silent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

import pytest

from mlcheck.core.check import Listed, find_checks, list_checks
from mlcheck.core.outcome import By
from mlcheck.lint import checks
from mlcheck.lint.facts import Facts
from mlcheck.lint.files.source import Source, parse
from mlcheck.lint.interpret import roots
from mlcheck.lint.interpret.interpreter import Interpreter
from mlcheck.lint.program import Program
from mlcheck.lint.sites import Sites
from tests import pages
from tests.lint.test_pairs import pairs, version

FIXTURES = Path(__file__).parent / "fixtures"
WORDED = [listed for listed in list_checks(checks) if listed.words]
RULES = [rule for rule in pages.RULES if By.LINT in rule.by]
SHARES = 16


def programs() -> Iterator[Mapping[str, str]]:
    """The programs of all pages, both versions of each pair, and the sound ones."""
    for rule in RULES:
        yield from (example.files for example in rule.examples)
    for _, body in pairs():
        yield from (version(body, kind)[0] for kind in ("broken", "sound"))
    for path in sorted(FIXTURES.glob("*/*.py")):
        yield {path.name: path.read_text("utf-8")}


def interpreted(files: Mapping[str, str]) -> Facts:
    parsed = [parse(path, text.encode(), path.removesuffix(".py").replace("/", ".")) for path, text in files.items()]
    program = Program([source for source in parsed if isinstance(source, Source)])
    machine = Interpreter(program, Sites(program))
    for _, run in roots.plan(machine):
        run()
    return machine.facts


def what_was_missed(listed: Listed, facts: Facts) -> list[object]:
    """What the check says when it is asked all the same, and how much it looks at."""
    facts.sites.seen = {}
    found: list[object] = list(listed.load().run(facts))
    looked_at = facts.sites.seen.get(listed.looks_at) or facts.counts().get(listed.looks_at)
    return found + [f"{looked_at} looked at"] * bool(looked_at)


@pytest.mark.parametrize("first", range(0, 2 * SHARES, 2))
def test_a_check_whose_words_are_missing_has_nothing_to_say(first: int) -> None:
    missed, idle = [], 0
    for files in islice(programs(), first, None, 2 * SHARES):  # every other program: all of them take minutes
        silent = [each for each in WORDED if not any(word in text for text in files.values() for word in each.words)]
        idle += len(silent)
        facts = interpreted(files)
        missed += [(each.rule, files, told) for each in silent if (told := what_was_missed(each, facts))]
    assert missed == []
    assert idle > 50_000 / SHARES


def test_the_list_says_what_the_modules_say() -> None:
    loaded = {check.rule: (check.looks_at, check.run) for check in find_checks(checks)}
    listed = {each.rule: (each.looks_at, each.load().run) for each in list_checks(checks)}
    assert loaded == listed
    words = {check.rule: check.run.__globals__.get("WORDS", ()) for check in find_checks(checks)}
    assert words == {each.rule: each.words for each in list_checks(checks)}
    assert len(WORDED) > 100


@pytest.mark.parametrize("listed", WORDED, ids=lambda listed: listed.rule)
def test_no_word_holds_another(listed: Listed) -> None:
    """Where the longer stands the shorter does too: the longer one would cost a search and tell nothing."""
    assert all(not (one != two and one in two) for one in listed.words for two in listed.words)
