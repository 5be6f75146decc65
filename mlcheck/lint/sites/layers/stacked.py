"""A softmax over dimension 1 of a stack along dimension 0: what was the batch stands there now."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_name, last_name
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.softmax_layers import softmax_layer
from mlcheck.lint.sites.model import Call, Class, Function

_FUNCTIONS = ("torch.nn.functional.softmax", "torch.softmax")


def over_samples_of_stack(cls: Class) -> Iterator[Place]:
    """`torch.stack([s.view(b, c, 1, 1) for s in scores]).softmax(1)`, where `b, c, h, w = x.shape` of the input."""
    forward = cls.methods.get("forward")
    if forward is None or "stack(" not in forward.text:
        return
    for call in forward.all(ast.Call):
        given = _given(cls, forward, call)
        made = source(cls.file, given, forward.inner)[0] if given is not None else None
        if isinstance(made, ast.Call) and cls.file.called(made, forward.inner) == "torch.stack":
            stack = Call(cls.file, made, forward.inner)
            parts = _parts(forward, stack)
            if stack.constant("dim", 1, 0) == 0 and parts and all(_begins_with_batch(forward, part) for part in parts):
                yield forward.place(call)


def _given(cls: Class, forward: Function, node: ast.Call) -> ast.expr | None:
    """What a softmax over dimension 1 is taken of."""
    call, name = Call(cls.file, node, forward.inner), cls.file.called(node, forward.inner)
    if name in _FUNCTIONS and call.constant("dim", 1) == 1:
        return node.args[0] if node.args else None
    own = own_attribute(node.func, forward)
    if isinstance(node.func, ast.Attribute) and node.func.attr == "softmax" and not name and not own:
        return node.func.value if call.constant("dim", 0) == 1 else None
    layer = softmax_layer(call)
    return node.args[0] if layer is not None and layer.constant("dim", 0) == 1 else None


def _parts(forward: Function, stack: Call) -> list[ast.expr]:
    """The tensors that are stacked: of a list that is written out, or filled by `append`."""
    given = stack.argument("tensors", 0)
    if isinstance(given, ast.ListComp):
        return [given.elt]
    if isinstance(given, ast.List | ast.Tuple):
        return given.elts
    if not isinstance(given, ast.Name):
        return []
    made = source(stack.file, given, stack.context)[0]
    if not isinstance(made, ast.List):
        return [made.elt] if isinstance(made, ast.ListComp) else []
    filled = [call for call in forward.all(ast.Call) if isinstance(call.func, ast.Attribute)]
    filled = [call for call in filled if is_name(getattr(call.func, "value", None), given.id)]
    known = all(last_name(call.func) == "append" and len(call.args) == 1 for call in filled)
    return [*made.elts, *(call.args[0] for call in filled)] if known else []


def _begins_with_batch(forward: Function, part: ast.expr) -> bool:
    """`score.view(b, c, 1, 1)`, where `b, c, h, w = x.shape` of what the module is given."""
    match part:
        case ast.Call(func=ast.Attribute(attr="view" | "reshape"), args=[ast.Name(id=first), _, *_]):
            return any(_names_batch(forward, line, first) for line in forward.all(ast.Assign))
    return False


def _names_batch(forward: Function, line: ast.Assign, name: str) -> bool:
    match line:
        case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=first), _, _, *_])]) if first == name:
            asked = ast.unparse(line.value).removesuffix(".size()").removesuffix(".shape")
            return asked in forward.parameters and asked != ast.unparse(line.value)
    return False
