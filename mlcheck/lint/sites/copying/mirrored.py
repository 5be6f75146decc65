"""Two lines for both sides of a pair, A and B, of which the second has all of its names exchanged but one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.sites.lines import Lines

_NAME = pattern(r"[A-Za-z_]\w*")
_SIDE = pattern(r"(?<![A-Z])[AB]+(?![A-Za-z])|(?<![^\W_])[ab]+(?![^\W_])")  # of `netG_AB`, `disA`, `gen_a`
_ASSIGNS = pattern(r"(?:B(?<![A-Z]B)(?![A-Za-z])|_b(?![^\W_]))[\w.]*[ \t]*\+?=[^=]")
_EXCHANGED = str.maketrans("ABab", "BAba")
_NEAR = 12

Line = ast.Assign | ast.AugAssign


class Mirrored(NamedTuple):
    """The line for the first side, that for the second, the function this calls, and the one that is meant."""

    first: Line
    copy: Line
    called: str
    meant: str


def mirrored_lines(lines: Lines) -> Iterator[Mirrored]:
    """`loss_A = crit(dis_A(x_A), one)`, `loss_B = crit(dis_A(x_B), one)`, where `dis_B` is called elsewhere."""
    if not _ASSIGNS.search(lines.text):
        return
    by_target: dict[str, list[Line]] = {}
    both: list[Line] = [*lines.all(ast.Assign), *lines.all(ast.AugAssign)]
    for line in sorted(both, key=lambda each: each.lineno):
        target = line.targets[0] if isinstance(line, ast.Assign) else line.target
        name = ast.unparse(target)
        above = [each for each in by_target.get(_other_side(name), []) if line.lineno - each.lineno <= _NEAR]
        if above and _other_side(name) != name:
            yield from _one_left_over(lines, above[-1], line)
        by_target.setdefault(name, []).append(line)


def _other_side(text: str) -> str:
    return str(_NAME.sub(lambda name: _SIDE.sub(lambda side: side[0].translate(_EXCHANGED), name[0]), text))


def _one_left_over(lines: Lines, first: Line, copy: Line) -> Iterator[Mirrored]:
    """Whether the one is the mirror of the other, but for a single function that both call."""
    one, other = ast.unparse(first.value), ast.unparse(copy.value)
    if type(first) is not type(copy) or _NAME.sub("", one) != _NAME.sub("", other):
        return
    names = list(zip(_NAME.finditer(one), _NAME.finditer(other), strict=True))
    told = [mine[0] for mine, its in names if mine[0] != its[0] and _other_side(mine[0]) == its[0]]
    left = [(mine, its) for mine, its in names if _other_side(mine[0]) != its[0]]
    if not told or len(left) != 1 or left[0][0][0] != left[0][1][0]:
        return
    called, end = left[0][1][0], left[0][1].end()
    meant = _other_side(called)
    if other[end : end + 1] == "(" and re.search(rf"\b{re.escape(meant)}\(", lines.text):
        yield Mirrored(first, copy, called, meant)
