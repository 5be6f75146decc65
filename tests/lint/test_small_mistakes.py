"""Many small mistakes in many sound programs: lint names the fault, at its line or at its other end, and no other.

What it stays silent about is listed with its reason, in `silent.toml`, and what it may say in `told.toml`.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from mutations import Mutant, operators

from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Severity
from mlcheck.lint.engine import Crash, analyse
from mlcheck.lint.files.source import Source, parse
from tests.pages import RULES

FOLDER = Path(__file__).parent / "fixtures" / "sound"
PROGRAMS = [pytest.param(path.read_text("utf-8"), path.stem, id=path.stem) for path in sorted(FOLDER.glob("*.py"))]
TOLD: Mapping[str, Mapping[str, list[str]]] = tomllib.loads((FOLDER / "told.toml").read_text("utf-8"))
SILENT = tomllib.loads((FOLDER / "silent.toml").read_text("utf-8"))
KNOWN = {name for kind in ("harmless", "untold") for group in SILENT[kind] for name in group["mutants"]}
BESIDE = 2
SHARE = 0.75
"""Of the mutants that are no longer sound, so many are told."""


@functools.cache
def notes() -> frozenset[str]:
    return frozenset(rule.name for rule in RULES if rule.severity is Severity.NOTE)


def findings(code: str, name: str) -> list[tuple[str, Finding]]:
    source = parse(f"{name}.py", code.encode(), name)
    assert isinstance(source, Source)
    answers = list(analyse([source]))
    assert not [answer.traceback for answer in answers if isinstance(answer, Crash)]
    return [answer for answer in answers if isinstance(answer, tuple)]


def mutants(code: str) -> list[tuple[str, Mutant]]:
    return [(name, mutant) for name, mutate in operators().items() for mutant in mutate(code)]


@pytest.mark.parametrize(("code", "name"), PROGRAMS)
def test_sound_program_is_silent(code: str, name: str) -> None:
    assert [rule for rule, _ in findings(code, name) if rule not in notes()] == []


@pytest.mark.parametrize(("code", "name"), PROGRAMS)
def test_each_mistake_is_told_by_its_name_and_place(code: str, name: str) -> None:
    before = {rule for rule, _ in findings(code, name)}
    silent = set()
    for operator, mutant in mutants(code):
        said = [(rule, finding) for rule, finding in findings(mutant.code, name) if rule not in before]
        told = TOLD.get(operator, {"rules": [], "at": []})
        named = [(rule, finding) for rule, finding in said if rule in told["rules"]]
        others = {rule for rule, _ in said} - set(told["rules"]) - notes()
        assert not others, (operator, mutant.line, mutant.text)
        if not named:
            silent.add(f"{name}:{mutant.line} {operator}")
        for rule, finding in named:
            line = finding.location.line
            text = mutant.code.splitlines()[line - 1]
            near = abs(line - mutant.line) <= BESIDE or any(word in text for word in told["at"])
            assert near, (operator, mutant.line, mutant.text, rule, text)
    assert silent == {known for known in KNOWN if known.partition(":")[0] == name}


def test_most_mistakes_are_told() -> None:
    total = sum(len(mutants(str(program.values[0]))) for program in PROGRAMS)
    harmless = sum(len(group["mutants"]) for group in SILENT["harmless"])
    meaningful = total - harmless
    told = total - len(KNOWN)
    assert len(PROGRAMS) >= 19
    assert told / meaningful >= SHARE, f"{told} of {meaningful} are told"
