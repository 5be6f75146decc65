"""non-finite-check-too-late: a batch with a NaN loss is passed over after its step has been taken."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, last_name, stores, walk
from mlcheck.lint.sites.blocks import blocks
from mlcheck.lint.sites.branches import branches_of

LOOKS_AT = "test for a finite loss"
WORDS = ("isnan", "isfinite", "isinf")
_ASKS = ("isnan", "isfinite", "isinf")


def check(facts: Facts) -> Iterator[Finding]:
    steps = {step.place.spot for step in facts.steps}
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(_ASKS):
        if ".backward(" not in file.text:
            continue
        for loop, context in file.walk.loops:
            for block in _blocks(loop):
                for test, step in _kept(loop, block):
                    if file.place(step, context).spot in steps:
                        yield Finding(
                            "The step is skipped, but its gradients stay: the next backward pass adds to them",
                            file.place(test, context).location,
                            help="call `zero_grad()` before `continue`, or before each `backward()`",
                            related=(file.place(step, context).location,),
                        )
                for test, name, step in _late(block):
                    facts.sites.seen[LOOKS_AT] += 1
                    if file.place(step, context).spot not in steps:
                        continue
                    yield Finding(
                        f"`{name}` is tested after the step: if it is NaN, the weights are already NaN",
                        file.place(test, context).location,
                        help="test it before `backward()`, and `continue` there",
                        related=(file.place(step, context).location,),
                    )


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements that one turn of a loop runs, those of loops inside it left out."""
    for block in blocks(node):
        yield block
        for statement in block:
            if isinstance(statement, ast.If | ast.With | ast.Try):
                yield from _blocks(statement)


def _late(block: list[ast.stmt]) -> Iterator[tuple[ast.If, str, ast.Call]]:
    """`loss.backward()`, `optimizer.step()`, `if torch.isnan(loss): continue`, in this order."""
    lost: dict[str, ast.Call | None] = {}
    for statement in block:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            if call.func.attr == "backward" and isinstance(call.func.value, ast.Name):
                lost[call.func.value.id] = None
            elif call.func.attr == "step" and not call.args:
                lost = {name: step or call for name, step in lost.items()}
        if isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Continue):
            for name, step in lost.items():
                if step is not None and _asks(statement.test, name) and not _goes_on(statement):
                    yield statement, name, step
        lost = {name: step for name, step in lost.items() if not stores(statement, name)}


def _kept(loop: ast.AST, block: list[ast.stmt]) -> Iterator[tuple[ast.If, ast.Call]]:
    """`backward()`, `if not isfinite(norm): continue`, `optimizer.step()`, `optimizer.zero_grad()`, in this order."""
    ran, left = False, None
    for statement in block:
        call = statement.value if isinstance(statement, ast.Expr) else None
        name = last_name(call.func) if isinstance(call, ast.Call) else ""
        ran = ran or (name == "backward" and isinstance(call, ast.Call) and not call.keywords)
        leaves = isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Continue)
        if isinstance(statement, ast.If) and leaves and ran and left is None and _tests(statement.test):
            left = statement
        elif left is not None and isinstance(call, ast.Call) and name == "step" and not call.args:
            clears = [n.lineno for n in walk(loop) if isinstance(n, ast.Attribute) and n.attr in ("zero_grad", "grad")]
            if clears and min(clears) > call.lineno:
                yield left, call
            return


def _goes_on(line: ast.If) -> bool:
    """`if torch.isfinite(loss): continue`, above what is done about a loss that is not."""
    (branch,) = branches_of([line])
    asked = {last_name(node.func) for node in walk(branch.test) if isinstance(node, ast.Call)} & {*_ASKS}
    if not isinstance(branch.test, ast.Call) or len(asked) != 1:
        return False
    return ("isfinite" in asked) == (branch.held is line.body)


def _tests(test: ast.expr) -> bool:
    return any(isinstance(node, ast.Call) and last_name(node.func) in _ASKS for node in walk(test))


def _asks(test: ast.expr, name: str) -> bool:
    """`torch.isnan(loss)`, `not math.isfinite(loss.item())`: of this very name."""
    return any(
        isinstance(node, ast.Call) and last_name(node.func) in _ASKS and any(is_name(part, name) for part in walk(node))
        for node in walk(test)
    )
