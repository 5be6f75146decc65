"""A rule is a Markdown page: its documentation, its registry entry and its test, all in one text."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from mlcheck.core.dataclasses import dataclass
from mlcheck.core.mistake import Mistake
from mlcheck.core.options import Option, declared
from mlcheck.core.outcome import By, Severity, Stage

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```\s*$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"#\s*error\b")
_KEYS = {"severity", "by", "source", "explains", "needs", "options"}


class BadPage(Mistake):
    """A rule page that does not follow the form; the message names the page and what is missing."""


@dataclass(frozen=True, slots=True)
class Example:
    """A program from a page. `files` maps file names to code; `errors` holds (file, line) to be reported."""

    kind: str
    files: dict[str, str]
    errors: tuple[tuple[str, int], ...]
    line: int


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the checklist. `name` names the defect, `title` says the positive sentence.

    `explains` names the rules whose failure this defect causes; `body` is the page's prose and examples; `options`
    are the numbers that a team may set.
    """

    name: str
    title: str
    stage: Stage
    severity: Severity
    by: tuple[By, ...]
    source: tuple[str, ...]
    explains: tuple[str, ...]
    needs: str
    body: str
    examples: tuple[Example, ...]
    path: str
    options: tuple[Option, ...] = ()


def read_page(path: Path) -> Rule:
    """Read one page. Raises BadPage when the heading, the TOML block or a key of it is wrong."""
    text = path.read_text(encoding="utf-8")
    heading, _, body = text.partition("\n")
    if not heading.startswith("# ") or not heading[2:].strip():
        raise BadPage(f"{path}: the first line must be `# ` and the checklist sentence")
    fences = list(_FENCE.finditer(text))
    if not fences or fences[0]["info"].strip() != "toml":
        raise BadPage(f"{path}: the first fenced block must be ```toml")
    try:
        table = tomllib.loads(fences[0]["body"])
        unknown = set(table) - _KEYS
        if unknown:
            raise BadPage(f"{path}: unknown key {min(unknown)!r} in the toml block")
        return Rule(
            name=path.stem,
            title=heading[2:].strip(),
            stage=Stage(path.parent.name),
            severity=Severity(table["severity"]),
            by=tuple(By(name) for name in table["by"]),
            source=tuple(table.get("source", ())),
            explains=tuple(table.get("explains", ())),
            needs=table.get("needs", ""),
            body=body.replace(fences[0][0], "", 1).strip(),
            examples=_examples(path, text, fences[1:]),
            path=str(path),
            options=declared(table.get("options", {})),
        )
    except (KeyError, ValueError) as error:
        raise BadPage(f"{path}: {error}") from error


def _examples(path: Path, text: str, fences: list[re.Match[str]]) -> tuple[Example, ...]:
    """Blocks `python bad` / `python good`, or `yaml` and `bash` for the config of a program and what it starts with.

    A block with a file name continues the example before it, unless the kind changes or the name was taken: then
    a new program begins.
    """
    examples: list[Example] = []
    for fence in fences:
        words = fence["info"].split()
        if not words or words[0] not in {"python", "yaml", "bash"} or len(words) == 1:
            continue
        kind, name = words[1], words[2] if len(words) > 2 else "example.py"
        if kind not in {"bad", "good"}:
            raise BadPage(f"{path}: a {words[0]} block is `bad` or `good`, not {kind!r}")
        line = text.count("\n", 0, fence.start()) + 1
        errors = tuple((name, n) for n, code in enumerate(fence["body"].splitlines(), 1) if _MARK.search(code))
        last = examples[-1] if examples else None
        if len(words) > 2 and last and last.kind == kind and "example.py" not in last.files and name not in last.files:
            examples[-1] = Example(kind, {**last.files, name: fence["body"]}, last.errors + errors, last.line)
        else:
            examples.append(Example(kind, {name: fence["body"]}, errors, line))
    return tuple(examples)
