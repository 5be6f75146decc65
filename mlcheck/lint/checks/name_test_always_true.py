"""name-test-always-true: `if "bn" or "bias" in name` asks for one of two names, and holds for every name."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Context, File

LOOKS_AT = "test of several names"
WORDS = (" or ", " and ")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["torch"]):
        for test, context in file.walk.tests:
            yield from _judged(facts, file, test, context)
        for test, context in file.walk.asserted:
            if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):  # after `and` a text is a message
                yield from _judged(facts, file, test, context)


def _judged(facts: Facts, file: File, test: ast.expr, context: Context) -> Iterator[Finding]:
    for part in _parts(test):
        texts = [value for value in part.values if isinstance(value, ast.Constant) and isinstance(value.value, str)]
        asks = [value for value in part.values if isinstance(value, ast.Compare)]
        facts.sites.seen[LOOKS_AT] += 1
        if not texts or not asks or not all(text.value for text in texts):
            continue
        told = ast.unparse(texts[0])
        of_all = isinstance(part.op, ast.Or)
        yield Finding(
            f"{told} is tested by itself, and a string that is not empty is always true: "
            + ("the condition holds for every name" if of_all else "nothing looks for it in the name"),
            file.place(part, context).location,
            help=f"ask for each: `{_spelled_out(part, texts[0], asks[0])}`",
        )


def _parts(test: ast.expr) -> Iterator[ast.BoolOp]:
    """The `and` and `or` that a test is made of."""
    if isinstance(test, ast.BoolOp):
        yield test
        for value in test.values:
            yield from _parts(value)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _parts(test.operand)


def _spelled_out(part: ast.BoolOp, text: ast.expr, asked: ast.Compare) -> str:
    """The comparison beside it, once more for the text: on the side where its own constant stands."""
    word = "or" if isinstance(part.op, ast.Or) else "and"
    first = isinstance(asked.left, ast.Constant)
    sides = (text, asked.comparators[0]) if first else (asked.left, text)
    each = ast.Compare(sides[0], asked.ops[:1], [sides[1]])
    return f"{ast.unparse(asked)} {word} {ast.unparse(each)}"
