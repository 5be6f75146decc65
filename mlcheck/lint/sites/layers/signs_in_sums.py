"""With which sign a name goes into a sum, here or where a function that returns it is called."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.scopes import Context


def parents(nodes: Sequence[ast.AST]) -> dict[int, ast.AST]:
    """What stands right around each node, by its identity."""
    return {id(child): node for node in nodes for child in ast.iter_child_nodes(node)}


def added_by_callers(file: File, context: Context, reads: Sequence[ast.expr], above: Mapping[int, ast.AST]) -> bool:
    """`return bce, weight * kld`, and each caller adds what it is given there, and differentiates the sum."""
    function = file.function_around(context)
    items = {_returned_item(read, above) for read in reads} - {None}
    if function is None or len(items) != 1:
        return False
    item = items.pop()
    signs = []
    for call in callers(file.sites, function):
        outer = call.function
        nodes = outer.nodes if outer is not None else list(ast.walk(call.file.module.source.tree))
        around = parents(nodes)
        for name in _bound_to(around.get(id(call.node)), item or 0):
            uses = [node for node in nodes if isinstance(node, ast.Name) and node.id == name]
            sums = {node: sign for node in uses if (sign := sign_in_sum(node, around))}
            signs += [sign if _is_differentiated(node, around, nodes) else 0 for node, sign in sums.items()]
    return set(signs) == {1}


def _is_differentiated(node: ast.AST, above: Mapping[int, ast.AST], nodes: Sequence[ast.AST]) -> bool:
    """`(bce + kld).backward()`, or `loss = bce + kld` and `loss.backward()`."""
    while isinstance(outer := above.get(id(node)), ast.BinOp):
        node = outer
    total = ast.unparse(outer.targets[0]) if isinstance(outer, ast.Assign) else ""
    if isinstance(outer, ast.Attribute):
        return outer.attr == "backward"
    return any(isinstance(each, ast.Call) and ast.unparse(each.func) == f"{total}.backward" for each in nodes)


def _returned_item(node: ast.AST, above: Mapping[int, ast.AST]) -> int | None:
    """As which item of a tuple a name is returned, itself or multiplied by something positive."""
    while isinstance(outer := above.get(id(node)), ast.BinOp) and isinstance(outer.op, ast.Mult | ast.Div):
        other = outer.right if outer.left is node else outer.left
        if sign_of_product(other) < 0:
            return None
        node = outer
    if isinstance(outer, ast.Tuple) and isinstance(above.get(id(outer)), ast.Return):
        return outer.elts.index(node) if isinstance(node, ast.expr) else None
    return None


def _bound_to(statement: ast.AST | None, item: int) -> Iterator[str]:
    for target in statement.targets if isinstance(statement, ast.Assign) else ():
        if isinstance(target, ast.Tuple) and item < len(target.elts):
            part = target.elts[item]
            if isinstance(part, ast.Name) and not any(isinstance(each, ast.Starred) for each in target.elts):
                yield part.id


def sign_of_product(node: ast.expr) -> int:
    """-1 for `-0.5` and `-0.5 * beta`, where every name stands for something positive."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        return sign_of_product(node.left) * sign_of_product(node.right)
    return -sign_of_product(node.operand) if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1


def sign_in_sum(node: ast.AST, above: Mapping[int, ast.AST]) -> int:
    """With which sign a name goes into a sum: `bce + beta * kld`; 0 where it goes into none."""
    while isinstance(outer := above.get(id(node)), ast.BinOp) and isinstance(outer.op, ast.Mult | ast.Div):
        other = outer.right if outer.left is node else outer.left
        if isinstance(other, ast.UnaryOp):
            return -1
        node = outer
    if not isinstance(outer, ast.BinOp) or not isinstance(outer.op, ast.Add | ast.Sub):
        turned = isinstance(outer, ast.UnaryOp) and not isinstance(above.get(id(outer)), ast.Dict)
        return -1 if turned else 0
    sign = -1 if isinstance(outer.op, ast.Sub) and outer.right is node else 1
    while isinstance(further := above.get(id(outer)), ast.BinOp | ast.UnaryOp | ast.Call | ast.Attribute):
        if isinstance(further, ast.UnaryOp) or (isinstance(further, ast.BinOp) and isinstance(further.op, ast.Sub)):
            return -1  # turned as a whole, or taken from something: not judged
        outer = further
    return sign
