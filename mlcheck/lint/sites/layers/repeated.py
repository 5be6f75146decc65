"""One layer that is put into a stack several times: `[layer] * 6`, `[layer for _ in range(6)]`, or in a loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.lint.nodes import is_name, loads
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.layers.modules import holds_parameters
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.scopes import Context


class Repeated(NamedTuple):
    """The layer, where it is made; the line of each turn that puts it in, if there is one; and how often."""

    layer: Origin
    turn: Origin | None
    times: ast.expr | None


def repeated(stack: Call) -> Iterator[Repeated]:
    """What is in the stack of this `nn.ModuleList` or `nn.Sequential` more than once."""
    file = stack.file
    for arg in stack.node.args:
        given = arg.value if isinstance(arg, ast.Starred) else arg
        made, where = file.value(given, stack.context)
        yield from _multiplied(file, made, where)
        if isinstance(made, ast.ListComp | ast.GeneratorExp) and len(made.generators) == 1:
            inner = Context("comprehension", made, where, where.scope)
            yield from _of_turns(file, made.elt, inner, made.generators[0])
        if isinstance(given, ast.Name):
            yield from _appended(stack, given.id)
    for name in file.names_given(stack.node) if not stack.node.args else ():
        yield from _appended(stack, name)


def _multiplied(file: File, node: ast.expr, context: Context) -> Iterator[Repeated]:
    """`[Block(8), nn.ReLU()] * n`, also as one part of a sum."""
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _multiplied(file, left, context)
            yield from _multiplied(file, right, context)
        case (
            ast.BinOp(left=ast.List(elts=parts), op=ast.Mult(), right=times)
            | ast.BinOp(left=times, op=ast.Mult(), right=ast.List(elts=parts))
        ):
            layers = (_layer(file, each, context) for each in parts)
            layer = next((each for each in layers if each is not None), None)
            if layer is not None and file.constant(times, context) not in (0, 1):
                yield Repeated(layer, None, times)


def _appended(stack: Call, name: str) -> Iterator[Repeated]:
    """`for _ in range(n): layers.append(layer)`, of what is made outside of the loop."""
    file = stack.file
    for call in file.calls("append"):
        owner = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
        same = is_name(owner, name) or (isinstance(owner, ast.Attribute) and owner.attr == name)
        loop = call.context.node
        if same and call.function is stack.function and len(call.node.args) == 1 and isinstance(loop, ast.For):
            for found in _of_turns(file, call.node.args[0], call.context, loop):
                yield found._replace(turn=Origin(file, call.node, call.context))


def _of_turns(file: File, element: ast.expr, context: Context, loop: ast.For | ast.comprehension) -> Iterator[Repeated]:
    """A layer that each turn of a loop over numbers puts in as it is."""
    over = loop.iter
    if isinstance(element, ast.Call) and file.called(element, context) == "copy.copy" and len(element.args) == 1:
        element = element.args[0]  # a shallow copy has the same parameters
    if not isinstance(element, ast.Name) or not isinstance(over, ast.Call) or not is_name(over.func, "range"):
        return
    if loads(loop.target, element.id) or is_name(loop.target, element.id):
        return
    if any(loop is outer.node for each in file.bindings(element.id, context) for outer in each.context.outwards()):
        return
    layer = _layer(file, element, context)
    if layer is not None and not (len(over.args) == 1 and file.constant(over.args[0], context) in (0, 1)):
        yield Repeated(layer, Origin(file, element, context), over.args[-1] if len(over.args) == 1 else None)


def _layer(file: File, node: ast.expr, context: Context) -> Origin | None:
    """Where the layer with parameters is made; None where that is not certain, or a copy is made here."""
    found = origins(file, node, context) if isinstance(node, ast.Name) else [Origin(file, node, context)]
    made = [each for each in found if isinstance(each.node, ast.Call)]
    certain = len(made) == len(found) and all(holds_parameters(each.file, each.node, each.context) for each in made)
    return made[0] if made and certain else None
