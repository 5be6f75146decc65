"""Totals that are begun inside of the loop that adds to them: they never hold more than one batch."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import is_name, last_name, reads_of, walk
from mlcheck.lint.sites.blocks import LoopSite, straight

_JOINED = frozenset(["cat", "concat", "concatenate", "hstack", "vstack", "stack", "mean", "average", "median"])
_METRICS = "sklearn.metrics."


class BegunAnew(NamedTuple):
    """Where the total begins in each turn, and where it is taken for a whole."""

    name: str
    begun: ast.stmt
    read: ast.AST


def begun_anew(loop: LoopSite, means: Callable[[], dict[str, ast.BinOp]]) -> Iterator[BegunAnew]:
    """`correct = 0; correct += ...` in each turn. `means`: divisions behind the loop by what all turns counted."""
    for line in straight(loop.node.body):
        if not isinstance(line, ast.Assign) or not isinstance(line.targets[0], ast.Name) or len(line.targets) > 1:
            continue
        name = line.targets[0].id
        adding: ast.AST | None = None
        read: ast.AST | None = None
        if isinstance(line.value, ast.List) and not line.value.elts:
            adding, read = _only_item(loop.node, name), _joined(loop, name) or _joined_at_times(loop, name)
        elif isinstance(line.value, ast.Constant) and repr(line.value.value) in ("0", "0.0"):
            adding, read = _only_addition(loop.node, name), means().get(name) or _reported(loop.node, name)
        if adding is not None and read is not None and _is_stored_alone(loop.node, name, (line, adding)):
            yield BegunAnew(name, line, read)


def _is_stored_alone(loop: ast.For, name: str, known: tuple[ast.AST, ...]) -> bool:
    """Whether nothing else is put under the name, but for what is read now and then: `found = torch.cat(found)`."""
    allowed = {node for part in known for node in walk(part)} | _at_times(loop)
    stored = {node for node in walk(loop) if is_name(node, name) and not isinstance(node.ctx, ast.Load)}
    return stored <= allowed


def _at_times(loop: ast.For) -> set[ast.AST]:
    """What is done in some turns alone, `if step % 100 == 0`."""
    return {part for test in _every_so_often(loop) for line in test.body for part in walk(line)}


def _straight(loop: ast.For) -> list[ast.AST]:
    """What stands in the body, without what stands in a loop inside of it."""
    found, todo = list[ast.AST](), list[ast.AST](loop.body)
    while todo:
        node = todo.pop()
        found.append(node)
        if not isinstance(node, ast.For | ast.While | ast.ListComp | ast.GeneratorExp | ast.FunctionDef | ast.Lambda):
            todo += ast.iter_child_nodes(node)
    return found


def _only_addition(loop: ast.For, name: str) -> ast.AugAssign | None:
    """The single `total += ...` of a plain number."""
    found = [node for node in walk(loop) if isinstance(node, ast.AugAssign) and is_name(node.target, name)]
    if len(found) != 1 or found[0] not in set(_straight(loop)) or not isinstance(found[0].op, ast.Add):
        return None
    return found[0] if ".item()" in ast.unparse(found[0].value) or "len(" in ast.unparse(found[0].value) else None


def _only_item(loop: ast.For, name: str) -> ast.Call | None:
    """The single `found.append(...)`; None where anything else may fill the list."""
    always = set(walk(loop)) - _at_times(loop)
    uses = [node for node in always if isinstance(node, ast.Attribute) and is_name(node.value, name)]
    straight = set(_straight(loop))
    added = [node for node in straight if isinstance(node, ast.Call) and node.func in uses]
    if len(uses) != 1 or len(added) != 1 or uses[0].attr not in ("append", "extend"):
        return None
    handed = [node for node in always if isinstance(node, ast.Call) and _gets(node, name)]
    return added[0] if all(_is_joining(node) for node in handed) else None


def _gets(call: ast.Call, name: str) -> bool:
    return any(is_name(arg, name) for arg in (*call.args, *(word.value for word in call.keywords)))


def _is_joining(call: ast.Call) -> bool:
    return last_name(call.func) in (*_JOINED, "len", "sum")


def _joined(loop: LoopSite, name: str) -> ast.AST | None:
    """`torch.cat(found)` or `accuracy_score(labels, found)` behind the loop, before anything else is stored there."""
    for line in loop.after:
        for node in walk(line):
            if isinstance(node, ast.Call) and _gets(node, name):
                named = loop.file.resolve(node.func, loop.context)
                if _is_joining(node) or (isinstance(named, str) and named.startswith(_METRICS)):
                    return node
        if any(is_name(node, name) and not isinstance(node.ctx, ast.Load) for node in walk(line)):
            return None
    return None


def _joined_at_times(loop: LoopSite, name: str) -> ast.AST | None:
    """`torch.cat(found)` under `if step % 100 == 0`, where the list was to hold the batches since the last time."""
    for test in _every_so_often(loop.node):
        for line in test.body:
            for node in walk(line):
                if isinstance(node, ast.Call) and _gets(node, name) and last_name(node.func) in _JOINED:
                    return node
    return None


def _reported(loop: ast.For, name: str) -> ast.AST | None:
    """`running / 100` under `if step % 100 == 99`."""
    for test in _every_so_often(loop):
        periods = {ast.unparse(node.right) for node in _remainders(test.test)}
        for node in (each for line in test.body for each in walk(line)):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and reads_of(walk(node.left), name):
                if ast.unparse(node.right) in periods:
                    return node
    return None


def _every_so_often(loop: ast.For) -> Iterator[ast.If]:
    for node in loop.body:
        if isinstance(node, ast.If) and _remainders(node.test):
            yield node


def _remainders(test: ast.expr) -> list[ast.BinOp]:
    """`step % 100` in the question."""
    return [node for node in walk(test) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)]
