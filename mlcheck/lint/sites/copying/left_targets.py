"""A loss that is given the targets in one function, and in another of the same file something else in their place."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_name, last_name, reads_of, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Function

_LOSS = pattern(r"loss|crit")


class LeftTargets(NamedTuple):
    """The call that leaves the targets out, the function around it, their name, and the call that takes them."""

    function: Function
    call: ast.Call
    targets: str
    taken: ast.Call


def left_targets(file: File) -> Iterator[LeftTargets]:
    """`loss_fn(outputs, targets)` in `train`, and `loss_fn(inner, outputs)` in `validate`, which fetches them too."""
    losing = [function for function in file.functions if _LOSS.search(function.text)]
    calls = [(function, call) for function in losing for call in function.all(ast.Call) if _is_loss(call)]
    for function, call in calls:
        given = _names(call)
        for other, taken in calls:
            if other is function or last_name(taken.func) != last_name(call.func) or len(given) != len(_names(taken)):
                continue
            for name in _names(taken)[1:]:
                if name and name not in given and all(given) and _is_only_moved(function, name):
                    yield LeftTargets(function, call, name, taken)
                    return


def _is_loss(call: ast.Call) -> bool:
    return _LOSS.search(last_name(call.func)) is not None and len(call.args) == 2 and not call.keywords


def _names(call: ast.Call) -> list[str]:
    return [arg.id if isinstance(arg, ast.Name) else "" for arg in call.args]


def _is_only_moved(function: Function, name: str) -> bool:
    """Whether a loop brings it, and nothing is done with it but `name = name.to(device)`."""
    brought = any(is_name(part, name) for loop in function.all(ast.For) for part in walk(loop.target))
    lines = [line for line in function.all(ast.Assign) if any(is_name(target, name) for target in line.targets)]
    moving = {part for line in lines if isinstance(line.value, ast.Call) for part in walk(line.value)}
    return brought and bool(lines) and all(read in moving for read in reads_of(function.all(ast.Name), name))
