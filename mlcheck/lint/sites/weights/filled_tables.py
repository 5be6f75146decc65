"""Tables of weights that a loop fills: `for name, p in model.named_parameters(): self.shadow[name] = p.data`."""

import ast
from typing import NamedTuple

from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.model import Function

_SAME_MEMORY = ("", ".data", ".detach()", ".data.detach()", ".detach().data")


class Filling(NamedTuple):
    """`value` is stored for each of the weights that `loop` goes through."""

    method: Function
    loop: ast.For
    value: ast.expr


def filled_by(function: Function, kept: ast.expr, blend: ast.stmt) -> Filling | None:
    """What fills the table `self.kept` with the weights as they are; None where anything else may be put in, too."""
    name = own_attribute(kept, function) if function.cls is not None else ""
    stores: list[tuple[Function, ast.Assign]] = []
    for method in function.cls.methods.values() if function.cls is not None and name else ():
        if f"{method.receiver}.{name}.update(" in method.text:
            return None
        for node in method.nodes:
            target = node.targets[0] if isinstance(node, ast.Assign) and node is not blend else None
            if isinstance(target, ast.Subscript) and own_attribute(target.value, method) == name:
                assert isinstance(node, ast.Assign)
                stores.append((method, node))
    found = [_in_loop(method, store) for method, store in stores]
    return found[0] if len(found) == 1 else None


def _in_loop(method: Function, store: ast.Assign) -> Filling | None:
    """The loop over names and weights that stores each weight under its name."""
    loops = [node for node in method.nodes if isinstance(node, ast.For) and store in walk(node)]
    target, stored = loops[-1].target if loops else None, store.targets[0]
    if not isinstance(target, ast.Tuple) or len(target.elts) != 2 or not isinstance(stored, ast.Subscript):
        return None
    name, weight = map(ast.unparse, target.elts)
    given = ast.unparse(store.value)
    if ast.unparse(stored.slice) != name or given not in [weight + end for end in _SAME_MEMORY]:
        return None
    return Filling(method, loops[-1], store.value)
