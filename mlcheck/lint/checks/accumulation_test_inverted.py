"""accumulation-test-inverted: the optimizer steps at every batch but those that the count is there to find."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import UNKNOWN, Call

LOOKS_AT = "step behind a test"
WORDS = (".step(",)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning([".step("]):
        for call in file.calls("step") if "backward(" in file.text else ():
            facts.sites.seen[LOOKS_AT] += 1
            around = [outer for outer in call.context.outwards() if outer.kind in ("if", "loop")]
            guard = around[0].node if around else None
            if not isinstance(guard, ast.If) or around[0].arm != "body" or guard.orelse or not call.loops:
                continue
            count = _remainder(guard.test)
            if count is None or not _is_many(call, count.right) or not _gathers(call, guard):
                continue
            yield Finding(
                f"`{ast.unparse(guard.test)}` holds for all batches but every `{ast.unparse(count.right)}`th: the "
                "optimizer steps at nearly each of them",
                file.place(guard.test, call.context).location,
                help=f"write `if {ast.unparse(count)} == 0:`",
                related=(call.place.location,),
            )


def _remainder(test: ast.expr) -> ast.BinOp | None:
    """`i % n` of the tests `i % n` and `i % n != 0`."""
    match test:
        case ast.Compare(left=ast.BinOp() as count, ops=[ast.NotEq()], comparators=[ast.Constant(value=0)]):
            test = count
    return test if isinstance(test, ast.BinOp) and isinstance(test.op, ast.Mod) else None


def _is_many(call: Call, number: ast.expr) -> bool:
    """Whether it may be more than 2, where one batch in two is singled out either way."""
    value = call.file.constant(number, call.context)
    return value is UNKNOWN or (isinstance(value, int) and value > 2)


def _gathers(call: Call, guard: ast.If) -> bool:
    """Whether the gradients are cleared under the test, and computed above it, at each batch."""
    func = call.node.func
    owner = ast.unparse(func.value) if isinstance(func, ast.Attribute) else ""
    under = [node for line in guard.body for node in walk(line) if isinstance(node, ast.Call)]
    clears = any(ast.unparse(node.func) == f"{owner}.zero_grad" for node in under)
    if not clears or any(last_name(node.func) == "backward" for node in under):
        return False
    backwards = call.file.calls("backward")
    return any(each.loops[:1] == call.loops[:1] and each.node.lineno < guard.lineno for each in backwards)
