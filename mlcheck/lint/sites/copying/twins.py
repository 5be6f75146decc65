"""A line that was copied for a second input and still reads the first, while nothing reads the second."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import assigned, before_methods, is_name, last_name, reads_of, stores, stores_of, walk
from mlcheck.lint.sites.lines import Lines

_PART = pattern(r"\d+|[A-Z]?[a-z]+|[A-Z]+(?![a-z])|_+")
_NAME = pattern(r"[A-Za-z_]\w*")
_SIZES = pattern(r"^_|len|size|shape|num|dim")  # of things that belong together these agree
_ANCHOR = pattern(r"quer|anchor|user|source")
_MOVES = ("to", "cuda", "cpu", "float", "double", "half", "long", "contiguous", "unsqueeze", "reshape", "view")
_MOVING = pattern(rf"\.(?:{'|'.join(_MOVES)})\(")
_LABELS = pattern(r"label|target|(?:^|_)(?:y|gt|truth|tgt)(?:_|\d|$)")
_SHORTEST = 2
_NEAR = 20
_RARE = 2


class Copied(NamedTuple):
    """The line that is right, the copy that reads `read`, and `unread`, which it was meant to read."""

    first: ast.AST
    copy: ast.expr | ast.stmt
    read: str
    unread: str


def copied_lines(lines: Lines) -> Iterator[Copied]:
    """`z1 = f(x1)`, `z2 = f(x1)`, where nothing reads `x2`."""
    unread = _unread(lines)
    copies: list[ast.Assign | ast.Call] | None = None
    for name in unread:
        for twin, change in _twins(name, lines):
            copies = _copied(lines) if copies is None else copies
            bound = _first_bound(lines, name)
            after = [line for line in copies if bound < line.lineno and _reads(line, twin) and not stores(line, name)]
            texts = [(line, ast.unparse(line)) for line in after]
            for first, text in texts:
                meant = _changed(text, change)
                for copy, other in texts:
                    near = copy is not first and abs(copy.lineno - first.lineno) <= _NEAR
                    if (
                        near
                        and text != other
                        and _is_same_but(meant, other, name, twin)
                        and not _is_anchor(twin, change)
                    ):
                        yield Copied(first, copy, twin, name)
                        break
                else:
                    continue
                break


def _is_anchor(name: str, change: tuple[str, str]) -> bool:
    """Whether positive and negative have it in common: what both are compared with."""
    return {part.lower()[:3] for part in change} == {"pos", "neg"} and _ANCHOR.search(name.lower()) is not None


def added_to_itself(lines: Lines) -> Iterator[tuple[ast.BinOp, str]]:
    """`distance(p1, z2) + distance(p1, z2)`, where nothing reads `p2`, or `z1`: the other half is left out."""
    for node in lines.all(ast.BinOp) if lines.text.count("+") else ():
        if isinstance(node.op, ast.Add) and any(isinstance(part, ast.Call) for part in walk(node.left)):
            if ast.unparse(node.left) == ast.unparse(node.right):
                read = {part.id for part in walk(node.left) if isinstance(part, ast.Name)}
                for name in _unread(lines):
                    if any(twin in read for twin, _ in _twins(name, lines)):
                        yield node, name
                        break


def _moved(lines: Lines) -> Counter[str]:
    """How often each name is only given to itself: `x1, x2 = x1.to(device), x2.to(device)`."""
    if lines.function is None or not _MOVING.search(lines.text):
        return Counter()
    pairs = [pair for line in lines.all(ast.Assign) for pair in assigned(line)]
    return Counter(last_name(target) for target, value in pairs if _is_moved(target, value))


def _is_moved(target: ast.expr, value: ast.expr) -> bool:
    inner = before_methods(value, _MOVES)
    return isinstance(target, ast.Name) and inner is not value and is_name(inner, target.id)


def _rare_twins(text: str, moved: Counter[str]) -> set[str]:
    """Names that stand there once or twice and have a twin that stands there more than once, by the text alone."""
    counts = Counter(_NAME.findall(text))
    counts = counts - moved - moved if moved else counts
    shared = Counter(stem for name in counts for stem in _stems(name))
    common = Counter(stem for name, count in counts.items() if count > 1 for stem in _stems(name))
    rare = (name for name, count in counts.items() if count <= _RARE)
    paired = (name for name in rare if any(stem in common and shared[stem] > 1 for stem in _stems(name)))
    return {name for name in paired if not _SIZES.search(name)}


@lru_cache(65_536)
def _stems(name: str) -> tuple[tuple[int, str], ...]:
    """What is left of a name without each of its parts."""
    parts = _PART.findall(name)
    rests = ("".join([*parts[:place], "#", *parts[place + 1 :]]) for place in range(len(parts)))
    return tuple(enumerate(rests)) if len(parts) >= _SHORTEST else ()


def _unread(lines: Lines) -> list[str]:
    """The parameters and variables that nothing reads, and that may have a twin."""
    moved = _moved(lines)
    rare = _rare_twins(lines.text, moved)
    if not rare or "locals()" in lines.text:
        return []
    own = {node.id for node in lines.all(ast.Name) if isinstance(node.ctx, ast.Store)} - _left_over(lines)
    return sorted(name for name in rare & (own | {*lines.parameters}) if _is_unread(lines, name, moved[name]))


def _is_unread(lines: Lines, name: str, moved: int) -> bool:
    """Whether nothing reads it but to move it; labels are moved with the rest of a batch that is to have none."""
    if name not in lines.read:
        return True
    return moved > 0 and not _LABELS.search(name.lower()) and len(reads_of(lines.all(ast.Name), name)) == moved


def _left_over(lines: Lines) -> set[str]:
    """`s` of `u, s, v = svd(x)`: of what a function gives together, not all need be of use."""
    found: set[str] = set()
    for line in lines.all(ast.Assign):
        if isinstance(line.value, ast.Call) and last_name(line.value.func) != "next":
            targets = [part for target in line.targets if isinstance(target, ast.Tuple) for part in target.elts]
            found |= {part.id for part in targets if isinstance(part, ast.Name)}
    return found


def _twins(name: str, lines: Lines) -> Iterator[tuple[str, tuple[str, str]]]:
    """Names that are the same but for one part: `x1` of `x2`, `pos_labels` of `neg_labels`."""
    parts = _PART.findall(name)
    others = {node.id for node in lines.all(ast.Name) if isinstance(node.ctx, ast.Load)}
    for other in sorted(others):
        theirs = _PART.findall(other)
        if len(theirs) != len(parts) or len(parts) < _SHORTEST or "".join(theirs) != other:
            continue
        differing = [(mine, its) for mine, its in zip(parts, theirs, strict=True) if mine != its]
        if len(differing) == 1 and "_" not in "".join(differing[0]):
            yield other, (differing[0][1], differing[0][0])


def _copied(lines: Lines) -> list[ast.Assign | ast.Call]:
    """What may have been copied: assignments and calls."""
    return [*lines.all(ast.Assign), *lines.all(ast.Call)]


def _first_bound(lines: Lines, name: str) -> int:
    """The line that first gives the name a value; 0 for a parameter."""
    return 0 if name in lines.parameters else min(node.lineno for node in stores_of(lines.all(ast.Name), name))


def _reads(line: ast.AST, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in walk(line))


def _changed(text: str, change: tuple[str, str]) -> str:
    """The text with the one part replaced by the other in all its names."""

    def renamed(found: re.Match[str]) -> str:
        parts = _PART.findall(found[0])
        if "".join(parts) != found[0]:
            return found[0]
        return "".join(change[1] if part == change[0] else part for part in parts)

    return str(_NAME.sub(renamed, text))


def _is_same_but(meant: str, written: str, name: str, twin: str) -> bool:
    """Whether the copy is what was meant, but for the twin in the place of the name; other names were changed."""
    if meant == written or name not in meant:
        return False
    return re.sub(rf"(?<![\w.]){re.escape(name)}\b", twin, meant) == written
