"""Whether a program goes through two of its places in turns: a loop of its own holds both."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from itertools import zip_longest
from pathlib import Path
from types import FrameType

Stack = tuple[tuple[str, int, int], ...]
"""File, first line of the function, line: outermost first."""


def stack_of(frames: Iterable[FrameType]) -> Stack:
    """Of frames that are given innermost first."""
    found = [(frame.f_code.co_filename, frame.f_code.co_firstlineno, frame.f_lineno) for frame in frames]
    return tuple(reversed(found))


def never_again(first: Stack, later: Stack) -> bool:
    """Whether what is done at `first` is over for good when `later` is reached; False where it cannot be told.

    It cannot where a library calls both: from the same line, its loops unseen.
    """
    for one, other in zip_longest(first, later):
        if one is None or other is None or one[:2] != other[:2]:
            return False
        loops = [loop for loop in _loops(one[0]) if one[2] in loop]
        if any(other[2] in loop for loop in loops):
            return False
        if one[2] != other[2]:
            return one[2] < other[2]
    return False


@cache
def _loops(file: str) -> tuple[range, ...]:
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return (range(1 << 31),)
    kinds = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
    loops = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return tuple(range(node.lineno, (node.end_lineno or node.lineno) + 1) for node in loops)
