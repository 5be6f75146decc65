"""What counts the samples of a batch: how many are right, how many there are, a mean as many times as there are."""

from __future__ import annotations

import ast

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.origins import returns
from mlcheck.lint.sites.scopes import Context

BATCH_SIZE = pattern(r"len\(\w+\)|\w+\.size\((?:dim=)?0\)|\w+\.size\(\)\[0\]|\w+\.shape\[0\]")
_CASTS = ("float", "long", "int", "type", "to", "double")


def is_count(file: File, node: ast.expr, context: Context) -> bool:
    """As `counts`, also through a name and a function of the project that returns nothing else."""
    node, where = source(file, node, context)
    named = file.resolve(node.func, where) if isinstance(node, ast.Call) else None
    if isinstance(named, Function) and not named.node.decorator_list:
        given = list(returns(named))
        return bool(given) and all(counts(source(named.file, each, named.inner)[0]) for each in given)
    return counts(node) or _is_weighed(node)


def _is_weighed(node: ast.expr) -> bool:
    """`loss.item() * x.size(0)`: the mean of a batch, as many times as it has samples."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return False
    sides = [node.left, node.right]
    sizes = [BATCH_SIZE.fullmatch(ast.unparse(side)) is not None for side in sides]
    other = sides[1 - sizes.index(True)] if sizes.count(True) == 1 else None
    return isinstance(other, ast.Call) and last_name(other.func) == "item"


def counts(node: ast.expr) -> bool:
    """`(a == b).sum().item()`, `torch.sum(a == b)`: how many of a batch are right; a loss with `reduction="sum"`."""
    while isinstance(node, ast.Call):
        func = node.func
        if any(word.arg == "reduction" and ast.unparse(word.value) == "'sum'" for word in node.keywords):
            return True
        if isinstance(func, ast.Attribute) and func.attr in ("item", "cpu", "float", "long", "int") and not node.args:
            node = func.value
        elif isinstance(func, ast.Name) and func.id in ("int", "float") and node.args:
            node = node.args[0]
        elif isinstance(func, ast.Attribute) and func.attr == "sum":
            node = node.args[0] if ast.unparse(func.value) == "torch" and node.args else func.value
            while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CASTS:
                node = node.func.value
            equal = isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq)
            return equal or (isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".eq"))
        else:
            return False
    return False
