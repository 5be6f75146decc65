"""running-sum-not-reset: every N batches a sum is divided by N, and it goes on from the batches before."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk

LOOKS_AT = "running sum"


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["%"]):
        if "torch" not in file.text or "+=" not in file.text:
            continue
        for loop, context in file.walk.loops:
            for told, added in _means(loop, facts):
                sum_, period = ast.unparse(told.left), ast.unparse(told.right)
                yield Finding(
                    f"`{sum_}` is divided by the `{period}` batches since the last report, and holds the sum "
                    "of all batches so far: the mean grows from report to report",
                    file.place(told, context).location,
                    help=f"set `{sum_} = 0.0` after the report",
                    related=(file.place(added, context).location,),
                )


def _means(loop: ast.For | ast.While, facts: Facts) -> Iterator[tuple[ast.BinOp, ast.AugAssign]]:
    """`if i % n == 0: print(total / n)`, where this very loop adds to `total` and nothing in it starts it anew."""
    sums = {
        line.target.id: line
        for line in loop.body
        if isinstance(line, ast.AugAssign) and isinstance(line.op, ast.Add) and isinstance(line.target, ast.Name)
    }
    for line in loop.body if sums else ():
        period = _period(line.test) if isinstance(line, ast.If) else None
        if period is None or not isinstance(line, ast.If):
            continue
        for node in (node for inner in line.body for node in walk(inner)):
            if (
                not isinstance(node, ast.BinOp)
                or not isinstance(node.op, ast.Div)
                or not isinstance(node.left, ast.Name)
            ):
                continue
            added = sums.get(node.left.id)
            if added is None or ast.unparse(node.right) != period:
                continue
            facts.sites.seen[LOOKS_AT] += 1
            stores = [n for n in walk(loop) if isinstance(n, ast.Name) and n.id == node.left.id and _is_set(n)]
            if len(stores) == 1:
                yield node, added


def _is_set(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store | ast.Del)


def _period(test: ast.expr) -> str | None:
    """`n` of `i % n == k`, `(i + 1) % n == 0`, `not i % n` and `i and i % n == 0`."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        found = [period for value in test.values if (period := _period(value)) is not None]
        return found[0] if len(found) == 1 else None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        test = test.left
    if isinstance(test, ast.BinOp) and isinstance(test.op, ast.Mod) and ast.unparse(test.right) != "1":
        return ast.unparse(test.right)
    return None
