"""Terms that a function returns, and callers add to a loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import before_methods, is_name, last_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.signs_in_sums import parents, sign_in_sum, sign_of_product
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.scopes import Context

_KEEPS = frozenset(["sum", "mean", "to", "squeeze", "view", "float", "clamp"])
_IS_LOSS = pattern(r"entropy|mse|l1_loss|nll|loss|bce")


def returned_and_added(file: File, context: Context, term: ast.AST, sign: int, above: Mapping[int, ast.AST]) -> bool:
    """`return 0.5 * torch.sum(1 + l - m**2 - exp(l))`, and each caller adds what it is given to a loss."""
    function = file.function_around(context)
    if function is None or _sign_returned(term, sign, above, function.nodes) >= 0:
        return False
    found = [_is_added(call) for call in callers(file.sites, function)]
    return bool(found) and all(found)


def _sign_returned(node: ast.AST, sign: int, above: Mapping[int, ast.AST], nodes: Sequence[ast.AST]) -> int:
    """The sign of a term in what the function returns, also by a name that is bound once; 0 for none."""
    while (outer := above.get(id(node))) is not None:
        match outer:
            case ast.Return():
                return sign
            case ast.UnaryOp(op=ast.USub()):
                sign = -sign
            case ast.BinOp(op=ast.Mult() | ast.Div(), left=left, right=right):
                sign *= sign_of_product(right if left is node else left)
            case ast.Assign(targets=[ast.Name(id=name)]):
                uses = [each for each in nodes if is_name(each, name)]
                reads = [use for use in uses if isinstance(getattr(use, "ctx", None), ast.Load)]
                return _sign_returned(reads[0], sign, above, nodes) if len(uses) == 2 and len(reads) == 1 else 0
            case ast.Attribute() | ast.Call():
                pass
            case _:
                return 0
        node = outer
    return 0


def _is_added(call: Call) -> bool:
    """`loss + weight * kl(m, l)`, there or under a name that is bound once."""
    nodes = call.function.nodes if call.function is not None else list(ast.walk(call.file.module.source.tree))
    above = parents(nodes)
    for node in (call.node, *_named(call, nodes, above)):
        if sign_in_sum(node, above) == 1 and any(_is_loss(call, each) for each in _beside(node, above)):
            return True
    return False


def _named(call: Call, nodes: Sequence[ast.AST], above: Mapping[int, ast.AST]) -> Iterator[ast.Name]:
    line = above.get(id(call.node))
    name = line.targets[0].id if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name) else ""
    uses = [node for node in nodes if isinstance(node, ast.Name) and node.id == name]
    if sum(isinstance(use.ctx, ast.Store) for use in uses) == 1:
        yield from (use for use in uses if isinstance(use.ctx, ast.Load))


def _beside(node: ast.AST, above: Mapping[int, ast.AST]) -> Iterator[ast.expr]:
    """The other terms of the sums around a node."""
    while isinstance(outer := above.get(id(node)), ast.BinOp):
        if isinstance(outer.op, ast.Add):
            yield outer.right if outer.left is node else outer.left
        node = outer


def _is_loss(call: Call, node: ast.expr) -> bool:
    """Whether this is what a loss function returned, which gets smaller as things get better."""
    made = before_methods(source(call.file, before_methods(node, _KEEPS), call.context)[0], _KEEPS)
    return isinstance(made, ast.Call) and _IS_LOSS.search(last_name(made.func).lower()) is not None
