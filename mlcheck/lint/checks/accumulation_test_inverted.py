"""accumulation-test-inverted: the optimizer steps at every batch but those that the count is there to find."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import UNKNOWN, Call
from mlcheck.lint.sites.asking import Asked, asked_by
from mlcheck.lint.sites.branches import Branch, branches_of
from mlcheck.lint.sites.training.windows import stepped_in_each_turn

LOOKS_AT = "step behind a test"
WORDS = (".step(",)


class _Count(NamedTuple):
    """The test that is asked in truth, the remainder in it, and by what it is divided."""

    test: ast.expr
    remainder: ast.BinOp
    steps: ast.expr


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for step, counted in stepped_in_each_turn(facts.sites):
        yield Finding(
            f"The optimizer steps after every batch, and not where `{ast.unparse(counted.test)}`: the loss is divided, "
            "and nothing is accumulated",
            step.place.location,
            help="step and clear the gradients under that test",
            related=(step.file.place(counted, step.context).location,),
        )
    for file in facts.sites.mentioning([".step("]):
        for call in file.calls("step") if "backward(" in file.text else ():
            facts.sites.seen[LOOKS_AT] += 1
            guard = _guard(call) if call.loops else None
            count = _remainder(guard, call) if guard is not None else None
            if guard is None or count is None or not _gathers(call, guard):
                continue
            asked = "" if count.test is guard.test else f", which asks for `{ast.unparse(count.test)}`,"
            yield Finding(
                f"The optimizer steps at every batch except each `{ast.unparse(count.steps)}`th: "
                f"`{ast.unparse(guard.node.test)}`{asked} is true for all the others",
                file.place(guard.node.test, call.context).location,
                help=f"step where `{ast.unparse(count.remainder)} == 0`",
                related=(call.place.location,),
            )


def _guard(call: Call) -> Branch | None:
    """The branch that a call stands in, or behind where the other side goes on with the next batch."""
    around = (outer.node for outer in call.context.outwards())
    innermost = next((node for node in around if isinstance(node, ast.If | ast.For | ast.AsyncFor | ast.While)), None)
    if innermost is None:
        return None
    block: list[ast.stmt] = [innermost] if isinstance(innermost, ast.If) else innermost.body
    for guard in branches_of(block):
        for under, idle in ((guard.held, guard.other), (guard.other, guard.held)):
            if all(isinstance(line, ast.Pass | ast.Continue) for line in idle) and _stands_in(under, call):
                return guard
    return None


def _stands_in(lines: list[ast.stmt], call: Call) -> bool:
    return any(node is call.node for line in lines for node in walk(line))


def _remainder(guard: Branch, call: Call) -> _Count | None:
    """`i % n` where the call runs unless that is zero."""
    asked = asked_by(call.file, guard.test, call.context)
    arms = (guard.other, guard.held) if asked.turned else (guard.held, guard.other)
    match asked.node:
        case ast.Compare(left=ast.BinOp() as count, ops=[ast.Eq()], comparators=[ast.Constant(value=0)]):
            under = arms[1]
        case ast.BinOp() as count:
            under = arms[0]
        case _:
            return None
    if not isinstance(count.op, ast.Mod) or not _stands_in(under, call) or not _is_many(asked, count.right):
        return None
    return _Count(asked.node, count, count.right)


def _is_many(asked: Asked, number: ast.expr) -> bool:
    """Whether it may be more than 2, where one batch in two is singled out either way."""
    value = asked.file.constant(number, asked.context)
    return value is UNKNOWN or (isinstance(value, int) and value > 2)


def _gathers(call: Call, guard: Branch) -> bool:
    """Whether the gradients are cleared under the test, and computed above it, at each batch."""
    func = call.node.func
    owner = ast.unparse(func.value) if isinstance(func, ast.Attribute) else ""
    lines = [*guard.held, *guard.other]
    under = [node for line in lines for node in walk(line) if isinstance(node, ast.Call)]
    clears = any(ast.unparse(node.func) == f"{owner}.zero_grad" for node in under)
    if not clears or any(last_name(node.func) == "backward" for node in under):
        return False
    backwards = call.file.calls("backward")
    return any(each.loops[:1] == call.loops[:1] and each.node.lineno < guard.node.lineno for each in backwards)
