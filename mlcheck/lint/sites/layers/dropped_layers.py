"""Layers of a library that are called as a statement: what they made of their input is dropped."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.names import canonical
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.layers.modules import CONTAINERS, module_classes
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.straight import read_after

_HOOKS = ("register_forward", "register_full")


def dropped_layers(sites: Sites) -> Iterator[tuple[Function, ast.Call, ast.Name]]:
    """`self.norm(x)` as a statement, where the method goes on with `x`: the call and what it was to change."""
    for cls in sites.once(module_classes):
        if any(word in base.file.text for base in cls.line for word in _HOOKS):
            continue  # a hook may take what the layer returns
        for method in cls.methods.values():
            for line in method.all(ast.Expr):
                call = line.value
                if not isinstance(call, ast.Call) or len(call.args) != 1 or call.keywords:
                    continue
                given = call.args[0]
                if isinstance(given, ast.Name) and _returns_anew(cls, own_attribute(call.func, method)):
                    if read_after(method.node, call, given.id) is not None:
                        yield method, call, given


def _returns_anew(cls: Class, name: str) -> bool:
    """Whether the attribute is one layer of PyTorch, and leaves its input as it is."""
    found = cls.attribute(name) if name else []
    made = found[0][1].value if len(found) == 1 else None
    if not isinstance(made, ast.Call):
        return False
    function, assigned = found[0]
    layer = canonical(function.file.called(made, assigned.context))
    parent, _, last = layer.rpartition(".")
    if parent != "torch.nn" or not last[:1].isupper() or layer in CONTAINERS or "Loss" in last:
        return False
    return not works_in_place(made)


def works_in_place(call: ast.Call) -> bool:
    """Whether `inplace` is given, or may be: `nn.ReLU(True)`, `F.relu(x, inplace=flag)`, `nn.ReLU(*options)`."""
    named = any(word.arg is None or (word.arg == "inplace" and not _is(word.value, False)) for word in call.keywords)
    return named or any(isinstance(given, ast.Starred) or _is(given, True) for given in call.args)


def _is(node: ast.expr, value: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is value
