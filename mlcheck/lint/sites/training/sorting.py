"""Lists that a test chooses among: by branches, by a conditional expression, or by one that leaves early."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.branches import branches
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.returning import returns
from mlcheck.lint.sites.scopes import Context

_ADDS = ("append", "add")


class Sorted(NamedTuple):
    """What is put into `held` where the test holds, and else into `other`."""

    node: ast.AST
    test: ast.expr
    held: ast.expr
    other: ast.expr


def sorted_by_test(file: File, nodes: Sequence[ast.AST], context: Context) -> Iterator[Sorted]:
    """`if p.ndim > 1: decay.append(p)`, `else: rest.append(p)`, and `(decay if p.ndim > 1 else rest).append(p)`."""
    for branch in branches(nodes):
        held, other = filled(branch.held), filled(branch.other)
        if held is not None and other is not None:
            yield Sorted(branch.node, _meant(file, branch.test, context), held, other)
    for node in nodes:
        chosen = _chosen(nodes, node)
        if chosen is not None:
            yield Sorted(node, _meant(file, chosen.test, context), chosen.body, chosen.orelse)


def filled(body: list[ast.stmt]) -> ast.expr | None:
    """The one list that a branch puts something into, and does no more."""
    done = [line for line in body if not isinstance(line, ast.Continue)]
    match done:
        case [ast.Expr(value=ast.Call(func=ast.Attribute(value=target, attr="append")))]:
            return target
        case [ast.AugAssign(target=target, op=ast.Add(), value=ast.List())]:
            return target
    return None


def _chosen(nodes: Sequence[ast.AST], node: ast.AST) -> ast.IfExp | None:
    """`(decay if small else rest).append(p)`, also with the list in a name between."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.IfExp() as chosen, attr="append" | "add")):
            return chosen
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.IfExp() as chosen):
            calls = (each.func for each in nodes if isinstance(each, ast.Call))
            adds = (func for func in calls if isinstance(func, ast.Attribute) and func.attr in _ADDS)
            return chosen if any(isinstance(f.value, ast.Name) and f.value.id == name for f in adds) else None
    return None


def _meant(file: File, test: ast.expr, context: Context) -> ast.expr:
    """What a function of the project asks, where the test is a call of it: `p.ndim == 1` of `is_vector(p)`."""
    named = file.resolve(test.func, context) if isinstance(test, ast.Call) else None
    answers = list(returns(named)) if isinstance(named, Function) else []
    plain = len(answers) == 1 and not any(isinstance(part, ast.IfExp) for part in walk(answers[0]))
    return answers[0] if plain else test
