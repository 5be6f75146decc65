"""Stacks of linear layers that are applied one after the other, with nothing between them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_attribute, is_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.layers.modules import module_classes
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_LINEAR, _SEQUENTIAL = "torch.nn.Linear", "torch.nn.Sequential"
_MEANT = pattern(r"[Ll]inear|[Ff]actor|[Ll]ow_?[Rr]ank")


class LinearStack(NamedTuple):
    """Where the layers follow one another, and where they are made."""

    place: Place
    made: Place


def linear_stacks(sites: Sites) -> Iterator[LinearStack]:
    for call in sites.calls(_SEQUENTIAL):
        stacked = [arg.value for arg in call.node.args if isinstance(arg, ast.Starred)]
        if len(stacked) == len(call.node.args) == 1:
            made = _square(call.file, stacked[0], call.context) or _appended(call.file, stacked[0], call.context)
            if made is not None and not (call.cls is not None and _MEANT.search(call.cls.name)):
                yield LinearStack(call.place, made)
    for cls in sites.once(module_classes):
        forward = cls.methods.get("forward")
        if forward is None or _MEANT.search(cls.name):
            continue
        for name in cls.attributes:
            if (layers := _listed(cls, name)) is not None:
                for line in _chained(forward, name):
                    yield LinearStack(forward.place(line), layers)


def _listed(cls: Class, name: str) -> Place | None:
    """`self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])`."""
    found = cls.attribute(name)
    if len(found) != 1:
        return None
    function, assigned = found[0]
    value = assigned.value
    if not isinstance(value, ast.Call) or function.file.called(value, assigned.context) != "torch.nn.ModuleList":
        return None
    return _square(function.file, value.args[0], assigned.context) if len(value.args) == 1 else None


def _square(file: File, node: ast.expr, context: Context) -> Place | None:
    """`[nn.Linear(width, width) for _ in range(depth)]`."""
    made, where = file.value(node, context)
    if not isinstance(made, ast.ListComp | ast.GeneratorExp) or len(made.generators) != 1 or made.generators[0].ifs:
        return None
    inner = Context("comprehension", made, where, where.scope)
    over = made.generators[0].iter
    once = isinstance(over, ast.Call) and [file.constant(each, where) for each in over.args] == [1]
    return file.place(made.elt, inner) if _is_square(file, made.elt, inner) and not once else None


def _is_square(file: File, node: ast.expr, context: Context) -> bool:
    """`nn.Linear(width, width)`."""
    if not isinstance(node, ast.Call) or file.called(node, context) != _LINEAR or len(node.args) < 2:
        return False
    return ast.unparse(node.args[0]) == ast.unparse(node.args[1])


def _appended(file: File, node: ast.expr, context: Context) -> Place | None:
    """`for _ in range(depth): layers.append(nn.Linear(width, width))`, and nothing but linear layers otherwise."""
    if not isinstance(node, ast.Name):
        return None
    begun, _ = file.value(node, context)
    bindings = file.bindings(node.id, context)
    changes = [each for each in file.walk.mutations.get(node.id, ()) if file.bindings(node.id, each[1]) is bindings]
    if not isinstance(begun, ast.List) or not all(_is_linear(file, each, context) for each in begun.elts):
        return None
    found = None
    for change, where in changes:
        match change:
            case ast.Call(func=ast.Attribute(attr="append"), args=[layer]) if _is_linear(file, layer, where):
                looped = where.kind == "loop" and (_is_square(file, layer, where) or _is_of_neighbours(layer, where))
                found = file.place(layer, where) if looped else found
            case ast.Call(func=ast.Attribute(attr="append"), args=[layer]) if _drops(file, layer, where):
                continue
            case _:
                return None
    return found


def _drops(file: File, node: ast.expr, context: Context) -> bool:
    return isinstance(node, ast.Call) and file.called(node, context) == "torch.nn.Dropout"


def _is_of_neighbours(layer: ast.expr, loop: Context) -> bool:
    """`nn.Linear(a, b)` of `for a, b in zip(sizes, sizes[1:])`, where the cuts leave several: one output is the next
    one's input."""
    match loop.node, layer:
        case (
            ast.For(
                target=ast.Tuple(elts=[ast.Name(id=one), ast.Name(id=other)]),
                iter=ast.Call(func=ast.Name(id="zip"), args=[first, second]),
            ),
            ast.Call(args=[ast.Name(id=given), ast.Name(id=made), *_]),
        ):
            base = first.value if isinstance(first, ast.Subscript) else first
            cut = isinstance(second, ast.Subscript) and ast.unparse(second.slice).startswith("1:")
            same = isinstance(second, ast.Subscript) and ast.unparse(second.value) == ast.unparse(base)
            return cut and same and (one, other) == (given, made)
    return False


def _is_linear(file: File, node: ast.expr, context: Context) -> bool:
    return isinstance(node, ast.Call) and file.called(node, context) == _LINEAR


def _chained(forward: Function, name: str) -> Iterator[ast.stmt]:
    """`for layer in self.layers: x = layer(x)`, and by number, `x = self.layers[i](x)`."""
    for loop in forward.all(ast.For):
        turn = iteration_of(loop)
        if len(loop.body) != 1:
            continue
        match loop.body[0]:
            case ast.Assign(targets=[ast.Name(id=kept)], value=ast.Call(func=func, args=[ast.Name(id=given)])) if (
                kept == given
            ):
                by_turn = is_attribute(turn.over, forward.receiver, name) and is_name(
                    turn.brought, getattr(func, "id", "")
                )
                by_number = isinstance(func, ast.Subscript) and is_attribute(func.value, forward.receiver, name)
                if by_turn or by_number:
                    yield loop.body[0]
