"""`# mlcheck: ignore[rule, ...] reason`: findings that the author of the code has answered in the code.

The comment stands in the statement it is about, or on its own line above it; `ignore-file` is about the whole
file. Without brackets it is about every rule. The reason may also stand in another comment of the statement, or above.
"""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from mlcheck.core.catalog import Catalog, UnknownRule
from mlcheck.core.dataclasses import dataclass, field

IDLE_COMMENTS = "ignore comments to put right"  # in the environment of a report: how many there are
MARKER = b"mlcheck:"
UNEXPLAINED = "ignore-without-reason"  # hidden by a comment that names it, not by one for every rule
_COMMENT = r"#\s*mlcheck:\s*(?P<word>[\w-]*)\s*(?P<names>\[[^\]]*\]?)?"
_FOR_OTHERS = r"#\s*(?:noqa|type:|pragma|fmt:|isort:|nosec|pylint:|ruff:|pyright:|mypy:)[^#]*"


@dataclass(slots=True)
class Suppression:
    """One comment: the lines of the statement it covers, the rules it names (none: all), and which it has hidden."""

    path: str
    line: int
    text: str
    first: int
    last: int
    rules: tuple[str, ...]
    reason: str = ""
    hidden: set[str] = field(default_factory=set)

    def covers(self, rule: str, line: int) -> bool:
        named = rule in self.rules if self.rules else rule != UNEXPLAINED
        return self.first <= line <= self.last and named


@dataclass(frozen=True, slots=True)
class Malformed:
    """A comment that was meant for mlcheck and cannot be read."""

    path: str
    line: int
    problem: str


class Suppressions:
    """The suppressions of all files of a run. Each remembers what it hid, so that idle ones can be told."""

    def __init__(self) -> None:
        self._by_path: dict[str, list[Suppression]] = {}
        self._malformed: list[Malformed] = []

    def read(self, path: str, data: bytes) -> None:
        """Take the suppressions of a file; one without the marker in its bytes costs a text search."""
        if MARKER not in data:
            return
        for found in suppressions(path, data):
            if isinstance(found, Malformed):
                self._malformed.append(found)
            else:
                self._by_path.setdefault(path, []).append(found)

    def read_lines(self, path: str, lines: Sequence[str]) -> None:
        """Take those of a file that is no Python (YAML, shell): a comment alone in its line is about the next one."""
        for number, text in enumerate(lines, 1):
            found = re.search(f"(?:^|\\s)({_COMMENT}.*)", text)
            if not found:
                continue
            alone = not text[: found.start(1)].strip()
            after = enumerate(lines[number:], number + 1)
            line = next((n for n, other in after if not other.lstrip().startswith("#")), number) if alone else number
            parsed = _parse(path, number, found[1], line, line, "")
            if isinstance(parsed, Malformed):
                self._malformed.append(parsed)
            else:
                self._by_path.setdefault(path, []).append(parsed)

    def hides(self, rule: str, path: str, line: int) -> bool:
        """Whether a comment covers a finding of `rule` on that line. Every such comment counts as used."""
        hiding = [found for found in self._by_path.get(path, ()) if found.covers(rule, line)]
        for found in hiding:
            found.hidden.add(rule)
        return bool(hiding)

    def notices(self, catalog: Catalog, ran: Collection[str], ran_all: bool) -> Iterator[str]:
        """What is wrong with the comments: unreadable ones, names no rule has, and those that hid nothing.

        `ran` are the rules that lint looked for; a comment for every rule is judged only when all of them ran.
        """
        for broken in self._malformed:
            yield f"{broken.path}:{broken.line}: {broken.problem}"
        for found in (found for path in self._by_path.values() for found in path):
            yield from _unknown(found, catalog)
            idle = [name for name in found.rules if name in ran and name not in found.hidden]
            if len(idle) == len(found.rules) and not found.hidden and (idle or ran_all):
                yield f"{found.path}:{found.line}: `{found.text}` hides nothing: remove it"
            elif idle:
                yield f"{found.path}:{found.line}: `{found.text}` hides no {_listed(idle)}: take it out"


def _unknown(found: Suppression, catalog: Catalog) -> Iterator[str]:
    for name in found.rules:
        if name not in catalog:
            try:
                catalog[name]
            except UnknownRule as error:
                yield f"{found.path}:{found.line}: `{found.text}`: {error}"


def _listed(names: Iterable[str]) -> str:
    return " and no ".join(f"`{name}`" for name in names)


def suppressions(path: str, data: bytes) -> Iterator[Suppression | Malformed]:
    """The comments that address mlcheck, each with the lines of its statement."""
    waiting: list[tuple[int, str]] = []
    said = ""
    for comments, first, last in _statements(data):
        waiting += [(line, text) for line, text in comments if re.search(_COMMENT, text)]
        said += " ".join(text for _, text in comments if not re.search(_COMMENT, text))
        if first:
            for line, text in waiting:
                yield _parse(path, line, text, first, last, said)
            waiting, said = [], ""
    for line, text in waiting:
        yield _parse(path, line, text, line, line, said)


def _statements(data: bytes) -> Iterator[tuple[list[tuple[int, str]], int, int]]:
    """Each logical line as (comments in it or alone above it, first line, last line); 0 where there is no code.

    A file that cannot be tokenized ends early: it does not parse either, so there is nothing to hide in it.
    """
    import tokenize

    comments: list[tuple[int, str]] = []
    first = 0
    layout = {tokenize.ENCODING, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    try:
        for token in tokenize.tokenize(io.BytesIO(data).readline):
            if token.type == tokenize.COMMENT:
                comments.append((token.start[0], token.string))
            elif token.type == tokenize.NEWLINE:
                yield comments, first, token.start[0]
                comments, first = [], 0
            elif token.type not in layout and not first:
                first = token.start[0]
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass
    yield comments, 0, 0


def _parse(path: str, line: int, text: str, first: int, last: int, around: str) -> Suppression | Malformed:
    match = re.search(_COMMENT, text)
    assert match is not None
    word, names = match["word"], match["names"]
    if word not in {"ignore", "ignore-file"}:
        return Malformed(path, line, f"`# mlcheck: {word}` means nothing: write `# mlcheck: ignore[rule-name] reason`")
    said = match[0].strip()
    if names is not None and not (names.endswith("]") and names.strip("[] ,")):
        return Malformed(path, line, f"`{said}` names no rule: write `# mlcheck: {word}[rule-name] reason`")
    rules = tuple(name.strip() for name in (names or "").strip("[]").split(",") if name.strip())
    if word == "ignore-file":
        first, last = 0, 1 << 62
    reason = re.sub(_FOR_OTHERS, "", text.replace(match[0], "") + around)
    return Suppression(path, line, said, first, last, rules, " ".join(re.findall(r"\w+", reason)))
