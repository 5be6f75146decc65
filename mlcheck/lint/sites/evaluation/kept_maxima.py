"""The best score so far, whatever it is called: `if acc > max_acc: max_acc = acc; torch.save(...)`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.scopes import Context

_KEEPS = pattern(r"torch\.save\(|save_checkpoint\(|save_model\(|state_dict\(\)|deepcopy\(")
_TEST = pattern(r"^([ \t]*)(?:if|elif) [^\n]*[<>]")


def kept_maxima(file: File) -> Iterator[tuple[ast.expr, ast.expr, Context]]:
    """The score and the best one so far, where the branch that takes the score in its place keeps the model."""
    lines = file.text.split("\n")
    for compare, where in file.walk.comparisons:
        begins = _TEST.match(lines[compare.lineno - 1])
        if (
            begins is None
            or len(compare.ops) != 1
            or not isinstance(compare.ops[0], ast.Lt | ast.Gt | ast.LtE | ast.GtE)
        ):
            continue
        block = _block(lines, compare.lineno, len(begins[1]))
        if not _KEEPS.search(block):
            continue
        sides = compare.left, compare.comparators[0]
        for score, best in (sides, sides[::-1]):
            taken = rf"^\s*{re.escape(ast.unparse(best))} = {re.escape(ast.unparse(score))}\s*(?:#|;|$)"
            if re.search(taken, block, re.MULTILINE):
                yield score, best, where


def _block(lines: list[str], after: int, indent: int) -> str:
    """The lines below that stand further in."""
    inside = []
    for line in lines[after:]:
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        inside.append(line)
    return "\n".join(inside)
