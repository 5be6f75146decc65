"""Where the tokens that a model is given, and those it is to tell, come from; and whether these are the next ones."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import before_methods, walk
from mlcheck.lint.sites.data.batch_items import behind_loaders
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.scopes import Context

_SAME = (
    *("view", "reshape", "flatten", "contiguous", "transpose", "permute", "long", "to", "cuda", "clone", "float"),
    *("detach", "squeeze", "t"),
)
_STEPS = 12


def plain(node: ast.expr) -> ast.expr:
    """The tensor itself of `tokens.flatten().to(device)`."""
    return before_methods(node, _SAME)


def token_sources(file: File, node: ast.expr, context: Context) -> Iterator[Origin]:
    """Where the values come from, past copies, moves and loaders."""
    todo, steps = [Origin(file, node, context)], 0
    while todo and steps < _STEPS:
        steps += 1
        each = todo.pop()
        inner = plain(each.node)
        further = list(origins(each.file, inner, each.context))
        behind = [more for one in further for more in behind_loaders(one)]
        for one in behind:
            if one.node is each.node or (one.node is inner and not isinstance(inner, ast.Call)):
                yield one._replace(item=each.item) if one.item < 0 else one
            else:
                todo.append(one)


def are_next(tokens: Origin, targets: Origin, cut: bool) -> bool:
    """Whether the targets are the same text as the tokens, one token ahead: `data[i:j]` and `data[i + 1:j + 1]`.

    With `cut`, the last answer was left out before the loss: the tokens themselves, and `tokens[:, 1:]`.
    """
    sides = [list(token_sources(*each[:3])) for each in (tokens, targets)]
    if any(len(side) != 1 for side in sides):
        return False
    given, wanted = sides[0][0], sides[1][0]
    if given.file is not wanted.file or given.context.scope is not wanted.context.scope:
        return False
    ahead = _sliced(wanted.node)
    if ahead is None or ahead[0].step is not None:
        return False
    if cut:
        return _bounds(ahead[0]) == ("1", "") and ahead[1] == ast.unparse(given.node)
    behind = _sliced(given.node)
    return behind is not None and behind[1] == ahead[1] and _is_one_on(behind[0], ahead[0])


def _sliced(node: ast.expr) -> tuple[ast.Slice, str] | None:
    """The one slice with bounds in an expression, and the text around it; `tokens` of `tokens[:, 1:]`."""
    found = [part for part in walk(node) if isinstance(part, ast.Slice) and _bounds(part) != ("", "")]
    if len(found) != 1:
        return None
    if isinstance(node, ast.Subscript):
        return found[0], ast.unparse(node.value)
    return found[0], ast.unparse(node).replace(ast.unparse(found[0]), "*")


def _is_one_on(behind: ast.Slice, ahead: ast.Slice) -> bool:
    """`[:-1]` and `[1:]`, `[i:i + n]` and `[i + 1:i + n + 1]`."""
    (low, high), (next_low, next_high) = _bounds(behind), _bounds(ahead)
    if (low, high, next_low, next_high) == ("", "-1", "1", ""):
        return True
    return bool(low) and next_low in (f"{low} + 1", f"1 + {low}") and len(high) < len(next_high)


def _bounds(part: ast.Slice) -> tuple[str, str]:
    return (
        ast.unparse(part.lower) if part.lower is not None else "",
        ast.unparse(part.upper) if part.upper is not None else "",
    )
