"""One module's parameters written down twice where those of several are put together."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.project import Sites

_LISTED = ("list", "tuple")


def twice_given(sites: Sites) -> Iterator[Finding]:
    """`list(net.parameters()) + list(net.parameters())`, `chain(net.parameters(), net.parameters())`."""
    for file in sites.mentioning([".parameters()"]):
        if file.text.count(".parameters()") < 2:
            continue
        for scope, context in file.scopes():
            for node in file.nodes_in(scope):
                owners = [_owner(part) for part in _parts(node)]
                for number, owner in enumerate(owners):
                    if owner and owner in owners[:number]:
                        yield Finding(
                            f"The parameters of `{owner}` are given twice",
                            file.place(_parts(node)[number], context).location,
                            help="those of which other module are meant?",
                        )


def _parts(node: ast.AST) -> list[ast.expr]:
    """What is put together: the two sides of a sum, the arguments of `chain`, the stars of a list."""
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [left, right]
        case ast.Call(func=func, args=args) if last_name(func) == "chain":
            return args
        case ast.List(elts=elts):
            return [each.value for each in elts if isinstance(each, ast.Starred)]
    return []


def _owner(node: ast.expr) -> str:
    """`net` of `net.parameters()` and `list(net.parameters())`."""
    if isinstance(node, ast.Call) and last_name(node.func) in _LISTED and len(node.args) == 1:
        node = node.args[0]
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="parameters"), args=[]):
            return ast.unparse(owner)
    return ""
