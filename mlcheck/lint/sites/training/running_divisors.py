"""Losses that are divided by how many batches there have been, and not by how many make a step."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.iteration import counter_of
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_BACKWARD = ("backward", "manual_backward")
_WINDOW = pattern(r"accum|micro", re.IGNORECASE)
_OUTER = pattern(r"epoch|episode|round|task", re.IGNORECASE)


class Running(NamedTuple):
    """The division, the number that grows with every batch, and where it is counted on."""

    division: Place
    number: str
    counted: Place
    backward: Place


def running_divisors(sites: Sites) -> Iterator[Running]:
    for file in sites.mentioning(["backward("]):
        for call in file.calls(*_BACKWARD) if "/" in file.text and not file.is_test else ():
            for each in _divisions(call):
                counted = _counted_on(each, call)
                if counted is not None:
                    yield Running(each.place, ast.unparse(each.by.node), counted, call.place)


class _Division(NamedTuple):
    """`loss / n`, with `n` as it is found further back."""

    place: Place
    by: Origin


def _divisions(call: Call) -> Iterator[_Division]:
    """What the loss of a backward pass was divided by, on its way there."""
    loss = _loss_of(call)
    for origin in origins(call.file, loss, call.context) if loss is not None else ():
        for part in _factors(origin.node) if not _is_below(origin, call) else ():
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Div):
                place, by = origin.file.place(part, origin.context), origin._replace(node=part.right)
                yield from (_Division(place, each) for each in _behind(by))
    for line in _shrinking(call, loss):
        place, by = call.file.place(line, call.context), Origin(call.file, line.value, call.context)
        yield from (_Division(place, each) for each in _behind(by))


def _is_below(origin: Origin, call: Call) -> bool:
    """Whether it comes after the backward pass in the turn of its loop, as what is reported of the batches so far."""
    function = call.function.node if call.function is not None else None
    beside = origin.file is call.file and any(outer.node is function for outer in origin.context.outwards())
    return beside and getattr(origin.node, "lineno", 0) > call.node.lineno


def _behind(by: Origin) -> list[Origin]:
    """The divisor as it is written, and what it is further back: its own name may be the one that counts."""
    while by.entered is not None and isinstance(by.node, ast.Name):
        passed = by.entered.passed(by.node.id)
        if passed is None or passed[1]:
            break
        by = Origin(by.entered.call.file, passed[0], by.entered.call.context, -1, by.entered.outer)
    return [by, *(each for each in origins(by.file, by.node, by.context, by.entered) if each.node is not by.node)]


def _loss_of(call: Call) -> ast.expr | None:
    """`loss` of `loss.backward()`, `scaler.scale(loss).backward()`, `accelerator.backward(loss)` and apex's `with`."""
    node = call.node.args[0] if call.node.args else call.owner
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "scale":
        node = node.args[0] if node.args else None
    if not isinstance(node, ast.Name):
        return node
    for outer in call.context.outwards():
        for item in outer.node.items if isinstance(outer.node, ast.With) else ():
            made = item.context_expr
            scales = isinstance(made, ast.Call) and last_name(made.func) == "scale_loss"
            if isinstance(made, ast.Call) and scales and is_name(item.optional_vars, node.id):
                return made.args[0] if made.args else None
    return node


def _factors(node: ast.expr) -> Iterator[ast.expr]:
    """`a / n` and `b` of `b * (a / n)`: what divides one of them divides all."""
    yield node
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield from (*_factors(node.left), *_factors(node.right))


def _shrinking(call: Call, loss: ast.expr | None) -> Iterator[ast.AugAssign]:
    """`loss /= n` above the backward pass, in the same loop or function."""
    around = call.loops[0].node if call.loops else call.function.node if call.function is not None else None
    if around is None or not isinstance(loss, ast.Name) or f"{loss.id} /=" not in call.file.text:
        return
    for line in walk(around):
        match line:
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Div()) if name == loss.id:
                if line.lineno < call.node.lineno:
                    yield line


def _counted_on(division: _Division, call: Call) -> Place | None:
    """Where the divisor grows by one with every batch."""
    file, node, context = division.by.file, division.by.node, division.by.context
    start = 1
    match node:
        case ast.BinOp(left=ast.Name(), op=ast.Add(), right=ast.Constant(value=1)):
            node, start = node.left, 0
    name = ast.unparse(node)
    if not isinstance(node, ast.Name | ast.Attribute) or _OUTER.search(name):
        return None
    loop = next((outer for outer in context.outwards() if outer.kind in ("loop", "function")), None)
    if loop is None:
        return None
    if loop.kind == "function":
        return _counted_by_method(file, name, loop) if isinstance(node, ast.Attribute) and not call.loops else None
    if not _is_of_batches(loop.node):
        return None
    if counter_of(loop.node) == (name, start):
        return file.place(loop.node, loop.outer or loop)
    line = _increment(loop.node, name) if start == 1 else None
    return file.place(line, loop) if line is not None else None


def _is_of_batches(loop: ast.AST) -> bool:
    """Whether its turns are the batches of a training: there is a step in it, or it is one step's window."""
    head = ast.unparse(loop.iter) + ast.unparse(loop.target) if isinstance(loop, ast.For) else ""
    steps = any(isinstance(node, ast.Call) and last_name(node.func) in ("step", "zero_grad") for node in walk(loop))
    outer = isinstance(loop, ast.For) and _OUTER.search(last_name(loop.target)) is not None
    return _WINDOW.search(head) is not None or (steps and not outer)


def _increment(code: ast.AST, name: str) -> ast.stmt | None:
    """`n += 1`, which is not left out in any turn."""
    for line in getattr(code, "body", []):
        match line:
            case ast.AugAssign(target=target, op=ast.Add(), value=ast.Constant(value=1)):
                if ast.unparse(target) == name:
                    return line
            case ast.Assign(targets=[target], value=ast.BinOp(left=old, op=ast.Add(), right=ast.Constant(value=1))):
                if ast.unparse(target) == ast.unparse(old) == name:
                    return line
    return None


def _counted_by_method(file: File, name: str, function: Context) -> Place | None:
    """`self.n += 1` in a method that is called with every batch, and begins anew with each step: `self.n = 0`."""
    line = _increment(function.node, name)
    anew = any(isinstance(node, ast.Assign) and ast.unparse(node) == f"{name} = 0" for node in walk(function.node))
    return file.place(line, function) if line is not None and anew else None
