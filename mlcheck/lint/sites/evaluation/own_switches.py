"""Models that switch themselves when they are called: their mode, or whether gradients are recorded."""

import ast

from mlcheck.lint.facts import Forward
from mlcheck.lint.nodes import is_attribute, last_name, walk
from mlcheck.lint.values import Object

_OFF = ("no_grad", "inference_mode", "set_grad_enabled")


def sets_own_mode(forward: Forward) -> bool:
    """`if is_eval: self.eval()` in its `forward`: the call says which mode it means."""
    nodes = _nodes(forward)
    return any(isinstance(node, ast.Call) and is_attribute(node.func, "self", "eval") for node in nodes)


def switches_gradients(forward: Forward) -> bool:
    """`with torch.no_grad(): ...` in its `forward`, for one kind of call."""
    items = [item.context_expr for node in _nodes(forward) if isinstance(node, ast.With) for item in node.items]
    return any(isinstance(item, ast.Call) and last_name(item.func) in _OFF for item in items)


def _nodes(forward: Forward) -> list[ast.AST]:
    cls = forward.module.cls if isinstance(forward.module, Object) else None
    method = cls.find("forward") if cls is not None else None
    return walk(method.node) if method is not None else []
