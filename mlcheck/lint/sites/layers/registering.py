"""Layers that a module registers by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import is_attribute, is_name, last_name, walk
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.modules import holds_parameters
from mlcheck.lint.sites.model import Call, Class

READS = (
    *("len", "enumerate", "zip", "range", "reversed", "iter", "isinstance", "print", "sorted", "all", "any", "sum"),
    *("stack", "cat", "hstack", "vstack"),
)
_HOLD = ("Sequential", "ModuleList", "add_module", "register_module")


def registered_over(cls: Class) -> Iterator[Call]:
    """`self.add_module("block", layer)` in a loop, of a layer that each turn makes: it takes the place of the last."""
    for call in cls.file.calls("add_module", "register_module"):
        method, name, layer = call.function, call.argument("name", 0), call.argument("module", 1)
        if method is None or call.cls is not cls or not call.loops or not isinstance(layer, ast.expr):
            continue
        if not isinstance(name, ast.Constant) or not is_attribute(
            call.node.func, method.receiver, last_name(call.node.func)
        ):
            continue
        inside = walk(call.loops[0].node)
        made = layer if isinstance(layer, ast.Call) else source(cls.file, layer, call.context)[0]
        stops = any(isinstance(node, ast.Break | ast.Return) for node in inside)
        if not stops and any(node is made for node in inside) and holds_parameters(cls.file, made, call.context):
            yield call


def is_registered(cls: Class, name: str) -> bool:
    """Whether `self.name` is put into a container of torch, or given to somebody who may do so."""
    for base in cls.line:
        for function, assigned in base.attributes.get(name, ()):
            value = assigned.value
            named = base.file.resolve(value.func, function.inner) if isinstance(value, ast.Call) else None
            if isinstance(named, str) and named.startswith("torch.nn."):
                return True
        calls = [node for node in walk(base.node) if isinstance(node, ast.Call)]
        read = [arg for call in calls if last_name(call.func) in READS for arg in call.args]
        for call in calls:
            if call not in read or last_name(call.func) not in ("list", "tuple"):
                last = last_name(call.func)
                given = [arg.value if isinstance(arg, ast.Starred) else arg for arg in call.args]
                given += [] if last in ("list", "tuple") else [_values_of(arg) for arg in given]
                given += [arg.value for arg in given if isinstance(arg, ast.Subscript) and last in _HOLD]
                if last not in READS and any(isinstance(a, ast.Attribute) and a.attr == name for a in given):
                    return True
                if last in _HOLD and any(_made_of(base, call, arg, name) for arg in call.args):
                    return True
    return False


def _made_of(cls: Class, call: ast.Call, node: ast.expr, name: str) -> bool:
    """`nn.Sequential(*layers)`, where `layers = sum(zip(self.blocks, activations), ())`; the layers of its rows."""
    inner = node.value if isinstance(node, ast.Starred) else node
    method = next((each for each in cls.methods.values() if call in each.nodes), None)
    if method is None or not isinstance(inner, ast.Name):
        return method is not None and any(is_attribute(part, method.receiver, name) for part in walk(inner))
    lines = [
        line for line in method.all(ast.Assign) if line.lineno < call.lineno and is_name(line.targets[0], inner.id)
    ]
    return any(is_attribute(part, method.receiver, name) for line in lines for part in walk(line.value))


def _values_of(node: ast.expr) -> ast.expr:
    """The dictionary in `d.values()`, `list(d.values())` or `d.items()`."""
    if isinstance(node, ast.Call) and _named(node.func) in ("list", "tuple") and len(node.args) == 1:
        return _values_of(node.args[0])
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("values", "items"):
        return node.func.value
    return node


def _named(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""
