"""Layers that a module registers by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import is_attribute, last_name, walk
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.modules import holds_parameters
from mlcheck.lint.sites.model import Call, Class


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
