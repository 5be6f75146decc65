"""Meters of a project's own, which weigh the values they are given."""

import ast

from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites.model import Class


def weight_of(cls: object, method: str, at: int) -> str:
    """`n` of a class with `def update(self, value, n=1)`, which multiplies the value, parameter `at`, by it.

    And counts it: what a value is only shown times, as in percent, is no weight.
    """
    update = cls.find(method) if isinstance(cls, Class) else None
    names = list(update.parameters) if update is not None else []
    if update is None or len(names) != at + 2:
        return ""
    value, weight = names[at:]
    default = update.parameters[weight]
    once = isinstance(default, ast.Constant) and default.value == 1
    weighs = any(_is_weighed(node, value, weight) for node in update.nodes)
    return weight if once and weighs and any(_is_counted(node, weight) for node in update.nodes) else ""


def _is_weighed(node: ast.AST, value: str, weight: str) -> bool:
    """`value * n`; `each * n` of `for key, each in value.items()`."""
    match node:
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            return {ast.unparse(left), ast.unparse(right)} == {value, weight}
        case ast.For(iter=over) if f"{value}.items(" in ast.unparse(over):
            names = [part.id for part in walk(node.target) if isinstance(part, ast.Name)]
            return any(_is_weighed(part, name, weight) for name in names[-1:] for part in walk(node))
    return False


def _is_counted(node: ast.AST, weight: str) -> bool:
    """`self.count += n`, `self.count[key] = self.count.get(key, 0) + n`."""
    match node:
        case ast.AugAssign(op=ast.Add(), value=added):
            return is_name(added, weight)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return is_name(left, weight) or is_name(right, weight)
    return False
