"""remainder-of-constant: `if epoch + 1 % 10 == 0` takes the remainder of 1, so the test never holds."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts

LOOKS_AT = "test of a remainder"
WORDS = ("%",)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["%"]):
        for compare, context in file.walk.comparisons:
            if len(compare.ops) != 1 or not isinstance(compare.ops[0], ast.Eq | ast.NotEq):
                continue
            facts.sites.seen[LOOKS_AT] += 1
            match compare.left, compare.comparators[0]:
                case ast.BinOp(
                    left=count, op=ast.Add() | ast.Sub(), right=ast.BinOp(left=ast.Constant(), op=ast.Mod()) as rest
                ), ast.Constant(value=int()) if not isinstance(count, ast.Constant):
                    every = ast.unparse(rest.right)
                    meant = ast.BinOp(ast.BinOp(count, compare.left.op, rest.left), ast.Mod(), rest.right)
                    yield Finding(
                        f"`{ast.unparse(rest)}` is computed first: this does not select every `{every}`th",
                        file.place(compare, context).location,
                        help=f"`{ast.unparse(ast.Compare(meant, compare.ops, compare.comparators))}`",
                    )
                case ast.BinOp(op=ast.Mod(), right=whole), other if ast.dump(whole) == ast.dump(other):
                    yield Finding(
                        f"A remainder is smaller than its divisor: this is never `{ast.unparse(whole)}`",
                        file.place(compare, context).location,
                        help=f"`{ast.unparse(compare.left)} == 0`, or `== {ast.unparse(whole)} - 1`",
                    )
