"""A backward pass behind the loop over the batches: of all the losses that the loop computed, the last is learned."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import assigned, is_name, last_name, loads, walk
from mlcheck.lint.sites.blocks import LoopSite, for_loops, straight
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.project import Sites

_BATCHES = pattern(r"loader|(?:\b|_)dl\b|batches|iterator|dataset")
_LEAVES = (ast.Break, ast.Return, ast.Yield, ast.YieldFrom)


class LastStep(NamedTuple):
    """The backward pass behind the loop, the loss, and the line of the loop that computes it."""

    loop: LoopSite
    learned: ast.expr
    name: str
    line: ast.Assign


def last_batch_steps(sites: Sites) -> Iterator[LastStep]:
    """`for x, y in loader: loss = criterion(model(x), y)`, and behind it `loss.backward()`."""
    for file in sites.mentioning([".backward("]):
        for loop in for_loops(file):
            learned = _learned(loop)
            if learned is None or not _BATCHES.search(ast.unparse(iteration_of(loop.node).over).lower()):
                continue
            name, node = learned
            line = _computed(loop.node, name)
            if line is not None and not _learns(loop) and _is_of_this_turn(loop.node, line.value):
                yield LastStep(loop, node, name, line)


def _learned(loop: LoopSite) -> tuple[str, ast.expr] | None:
    """The first loss of the block behind the loop that a statement differentiates, itself or by a function."""
    for line in loop.after:
        if not isinstance(line, ast.Expr | ast.Assign):
            return None
        call = line.value
        if not isinstance(call, ast.Call):
            continue
        if (
            isinstance(call.func, ast.Attribute)
            and call.func.attr == "backward"
            and isinstance(call.func.value, ast.Name)
        ):
            return call.func.value.id, call
        given = [arg.id for arg in call.args if isinstance(arg, ast.Name)]
        if len(given) == 1 and _differentiates(loop.file, call, loop):
            return given[0], call
    return None


def _differentiates(file: File, call: ast.Call, loop: LoopSite) -> bool:
    """Whether a function of the project runs `backward` on the one thing that it is given."""
    named = file.resolve(call.func, loop.context)
    if not isinstance(named, Function):
        return False
    names = [name for name in named.parameters if name != named.receiver]
    return len(names) == len(call.args) == 1 and f"{names[0]}.backward()" in named.text


def _computed(loop: ast.For, name: str) -> ast.Assign | None:
    """The one line of each turn that computes the loss, from nothing that an earlier turn left under its name."""
    stores = [node for node in walk(loop) if is_name(node, name) and not isinstance(node.ctx, ast.Load)]
    lines = [line for line in straight(loop.body) if isinstance(line, ast.Assign) and is_name(line.targets[0], name)]
    return lines[0] if len(stores) == len(lines) == 1 and not loads(lines[0].value, name) else None


def _learns(loop: LoopSite) -> bool:
    """Whether the loop itself may train, or choose the batch that is learned."""
    calls = {last_name(node.func) for node in walk(loop.node) if isinstance(node, ast.Call)}
    return bool(calls & {"backward", "step", "append"}) or any(isinstance(node, _LEAVES) for node in walk(loop.node))


def _is_of_this_turn(loop: ast.For, value: ast.expr) -> bool:
    """Whether it is computed from the batch, and from nothing that the turn before handed on, such as a state."""
    own = {node.id for node in walk(loop.target) if isinstance(node, ast.Name)}
    made: dict[str, ast.expr] = {}
    for line in straight(loop.body):
        for target, given in assigned(line) if isinstance(line, ast.Assign) else ():
            for part in walk(target):
                if isinstance(part, ast.Name):
                    made[part.id] = given
    changed = {last_name(node.target) for node in walk(loop) if isinstance(node, ast.AugAssign)}
    todo, seen, of_batch = [value], set[str](), False
    while todo:
        for node in walk(todo.pop()):
            if not isinstance(node, ast.Name) or node.id in seen:
                continue
            seen.add(node.id)
            of_batch = of_batch or node.id in own
            if node.id in changed or (node.id in made and loads(made[node.id], node.id) and node.id not in own):
                return False
            if node.id in made:
                todo.append(made[node.id])
    return of_batch
