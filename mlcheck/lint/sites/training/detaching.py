"""Expressions that cut a tensor from the graph it was computed in: `detach()`, `.data`, a way through NumPy."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites.model import Function

CUTS = ("detach", "item", "numpy", "tolist")


def cuts_argument(method: Function) -> ast.AST | None:
    """The cut in `def compress(self, h): return torch.from_numpy(np.log1p(h.detach().numpy()))`, and nothing else."""
    names = list(method.parameters)
    if len(names) != 2 or method.name in ("forward", "__init__") or method.node.decorator_list:
        return None
    around = {child: node for node in method.nodes for child in ast.iter_child_nodes(node)}
    reads = [node for node in around if isinstance(node, ast.Name) and node.id == names[1]]
    cuts = [_cut_around(node, around, frozenset()) if isinstance(node.ctx, ast.Load) else None for node in reads]
    return next((cut for cut in cuts if isinstance(cut, ast.AST)), None) if None not in cuts else None


def cut_of(
    function: ast.FunctionDef | ast.AsyncFunctionDef,
    statement: ast.Assign | ast.Return,
    cutting: frozenset[str],
    layer: str,
) -> ast.AST | None:
    """Where what the statement has the layer compute is cut off: right there, or wherever its name is read."""
    if statement.value is not None and any(isinstance(node, ast.NamedExpr) for node in walk(statement.value)):
        return None
    if statement.value is not None and _ends_in_a_cut(statement.value):
        return statement.value
    around = {child: node for node in walk(statement) for child in ast.iter_child_nodes(node)}
    calls = [node for node in around if isinstance(node, ast.Call) and ast.unparse(node.func) == layer]
    handed = [_cut_around(call, around, cutting) for call in calls]
    if handed and all(isinstance(cut, ast.Call) and ast.unparse(cut.func) in cutting for cut in handed):
        return next((cut for cut in handed if isinstance(cut, ast.AST)), None)
    if not isinstance(statement, ast.Assign) or statement not in function.body or len(statement.targets) != 1:
        return None
    first = None
    for name in _parts(statement.targets[0]):
        reads = _reads_after(function, statement, name.id, cutting) if isinstance(name, ast.Name) else None
        if reads is None:
            return None
        first = first or next(iter(reads), None)
    return first


def _parts(target: ast.expr) -> list[ast.expr]:
    """What is assigned to, one by one: `out, (h, c)` is three names."""
    if isinstance(target, ast.Tuple | ast.List):
        return [part for element in target.elts for part in _parts(element)]
    return [target]


def _reads_after(
    function: ast.FunctionDef | ast.AsyncFunctionDef, after: ast.stmt, name: str, cutting: frozenset[str]
) -> list[ast.AST] | None:
    """The cuts that all further uses of a variable lie in; None where one of them lies in none."""
    found: list[ast.AST] = []
    for statement in function.body[function.body.index(after) + 1 :]:
        around = {child: node for node in walk(statement) for child in ast.iter_child_nodes(node)}
        mentions = [node for node in around if is_name(node, name)]
        for node in mentions:
            cut = _cut_around(node, around, cutting) if isinstance(node.ctx, ast.Load) else "asked"
            if cut is None:
                return None
            if isinstance(cut, ast.AST):
                found.append(cut)
        if any(isinstance(node.ctx, ast.Store) for node in mentions):
            return found if isinstance(statement, ast.Assign) else None
    return found


def _cut_around(node: ast.AST, around: dict[ast.AST, ast.AST], cutting: frozenset[str]) -> ast.AST | str | None:
    """The expression that cuts off what `node` is part of; "asked" where only its shape or device is asked for."""
    while isinstance(parent := around.get(node), ast.expr):
        if isinstance(parent, ast.Attribute) and parent.attr in (*CUTS, "data"):
            return parent
        if isinstance(parent, ast.Attribute) and parent.attr in ("shape", "device", "dtype", "ndim", "size"):
            return "asked"
        if isinstance(parent, ast.Call) and node in parent.args and ast.unparse(parent.func) in cutting:
            return parent
        node = parent
    return None


def _ends_in_a_cut(value: ast.expr | None) -> bool:
    """`....detach()` around the whole expression."""
    if isinstance(value, ast.Attribute) and value.attr == "data":
        return True
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr in CUTS:
            return True
        value = value.func.value
    return False
