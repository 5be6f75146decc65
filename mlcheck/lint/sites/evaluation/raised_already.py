"""A best score that is set to the better of itself and the score before the two are compared: `acc > best` is false."""

from __future__ import annotations

import ast
import re

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.blocks import blocks
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.scopes import Context

_REPEATS_OR_DEFINES = (ast.For, ast.AsyncFor, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def raised_already(file: File, test: ast.Compare, best: ast.expr, context: Context) -> ast.stmt | None:
    """`best = max(acc, best)`, or `best = acc`, above a strict comparison of just these two in the same block."""
    if len(test.ops) != 1 or not isinstance(test.ops[0], ast.Lt | ast.Gt) or not isinstance(best, _NAMED):
        return None
    score = test.left if test.comparators[0] is best else test.comparators[0]
    if not isinstance(score, _NAMED) or best not in (test.left, test.comparators[0]):
        return None
    beats = "max" if isinstance(test.ops[0], ast.Gt) == (score is test.left) else "min"
    function = file.function_around(context)
    nodes = function.nodes if function is not None else file.nodes_in(file.module.source.tree)
    text = function.text if function is not None else file.text
    if not re.search(rf"\b{re.escape(ast.unparse(best))} = [^\n]*\b{re.escape(ast.unparse(score))}\b", text):
        return None
    for node in (function.node if function is not None else file.module.source.tree, *nodes):
        for block in blocks(node) if isinstance(node, ast.stmt | ast.Module) else ():
            if any(_holds(line, test) for line in block):
                found = _above(block, test, _Pair(ast.unparse(best), ast.unparse(score), beats))
                if found is not None:
                    return found
    return None


_NAMED = (ast.Name, ast.Attribute)


class _Pair(NamedTuple):
    """The best score and the one it is compared with, as written; `beats` picks the one that is asked for."""

    best: str
    score: str
    beats: str


def _above(block: list[ast.stmt], test: ast.Compare, pair: _Pair) -> ast.stmt | None:
    found = None
    for line in block:
        if _holds(line, test):
            again = found is None or isinstance(line, _REPEATS_OR_DEFINES) or _sets_above(line, test, pair)
            return None if again else found
        if isinstance(line, ast.Assign) and [ast.unparse(target) for target in line.targets] == [pair.best]:
            found = line if _is_better_of(line.value, pair) else None
        elif found is not None and _sets(line, pair):
            found = None
    return None


def _holds(line: ast.stmt, test: ast.Compare) -> bool:
    return line.lineno <= test.lineno <= (line.end_lineno or 0)


def _sets_above(line: ast.stmt, test: ast.Compare, pair: _Pair) -> bool:
    """Whether a branch that the comparison stands in sets either of the two before it comes to it."""
    above = [node for node in walk(line) if getattr(node, "lineno", test.lineno) < test.lineno]
    return any(_is_set(node, pair) for node in above)


def _sets(line: ast.stmt, pair: _Pair) -> bool:
    return any(_is_set(node, pair) for node in walk(line))


def _is_set(node: ast.AST, pair: _Pair) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store | ast.Del) and ast.unparse(node) in (pair.best, pair.score)


def _is_better_of(value: ast.expr, pair: _Pair) -> bool:
    """The score itself, or whichever of the two is better."""
    if isinstance(value, ast.Call) and last_name(value.func) in ("max", "min") and len(value.args) == 2:
        both = {ast.unparse(part) for part in value.args} == {pair.best, pair.score}
        return last_name(value.func) == pair.beats and both and not value.keywords
    return ast.unparse(value) == pair.score
