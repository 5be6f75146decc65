"""Parameters that `forward` changes in place, where autograd records what happens to them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.layers.modules import PARAMETER, text_of
from mlcheck.lint.sites.layers.overwriting import METHODS
from mlcheck.lint.sites.model import Class, Function


def changed_parameters(cls: Class) -> Iterator[tuple[Place, str]]:
    """`self.weight.mul_(self.mask)` and `self.scale *= 2` in `forward`, under no `with` and of no frozen parameter."""
    forward = cls.methods.get("forward")
    if forward is None or forward.node.decorator_list or "Parameter" not in text_of(cls):
        return
    frozen = any(word in text_of(cls) for word in ("requires_grad", "no_grad", "grad_enabled", "inference_mode"))
    for line in forward.node.body if not frozen else ():
        for node in walk(line) if not isinstance(line, ast.With) else ():
            name = _written(node, forward)
            if name and _is_parameter(cls, name):
                yield forward.place(node), name


def _written(node: ast.AST, forward: Function) -> str:
    match node:
        case ast.AugAssign(target=target):
            return own_attribute(target, forward)
        case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in METHODS:
            return own_attribute(owner, forward)
    return ""


def _is_parameter(cls: Class, name: str) -> bool:
    sets = [(function, each) for function, each in cls.attribute(name) if not isinstance(each.node, ast.AugAssign)]
    made = sets[0][1].value if len(sets) == 1 else None
    return isinstance(made, ast.Call) and sets[0][0].file.called(made, sets[0][1].context) == PARAMETER
