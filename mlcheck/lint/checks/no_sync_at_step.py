"""no-sync-at-step: the backward pass that the optimizer steps on keeps its gradients to its own rank."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import OPEN, Call, Context
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.training.counting import Branch, are_alike, branches, meet

LOOKS_AT = "no_sync context"
WORDS = ("no_sync",)
_EXCHANGES = ("all_reduce", "require_backward_grad_sync", "reduce_scatter", "all_gather")


def check(facts: Facts) -> Iterator[Finding]:
    steps = {step.place.spot for step in facts.steps}
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning([".no_sync("]):
        if any(word in file.text for word in _EXCHANGES):
            continue
        for call in file.calls("no_sync"):
            facts.sites.seen[LOOKS_AT] += 1
            if _is_the_programs_own(call):
                continue
            made = [step for step in file.calls("step") if step.place.spot in steps and _follows(step, call)]
            if len(made) != 1 or not _is_for_step(call, made[0]):
                made = [step for step in _steps_of_callers(call) if step.place.spot in steps]
            if len(made) == 1:
                yield Finding(
                    "The gradients of the batch that the optimizer steps on are not exchanged: "
                    "each rank steps on its own, and the models drift apart",
                    call.place.location,
                    help="enter `no_sync` for the batches before that one alone",
                    related=(made[0].place.location,),
                )


def _is_the_programs_own(call: Call) -> bool:
    """`with self.no_sync(not should_step)`: PyTorch's takes no arguments, and Accelerate's takes a model."""
    return bool(call.node.args or call.node.keywords) and "accel" not in ast.unparse(call.node.func).lower()


def _follows(step: Call, call: Call) -> bool:
    return step.function is call.function and step.node.lineno > call.node.lineno


def _is_for_step(call: Call, step: Call) -> bool:
    """Whether `no_sync` holds for a batch that the optimizer steps after."""
    loop = call.loops[0] if call.loops else None
    entered = branches(call.context, loop)
    if not entered:
        return _surrounds_all(call)
    if (loop is not None and loop not in step.loops) or not _runs_backward(call, loop):
        return False
    stepped = branches(step.context, loop)
    if loop is None:  # a method that gets one batch
        return are_alike(call.file, entered, stepped) and not _counts_between(call, step, entered[0].test)
    return are_alike(call.file, entered, stepped) or (bool(stepped) and meet(call.file, loop, entered, stepped))


def _counts_between(call: Call, step: Call, test: ast.expr) -> bool:
    """Whether the object's state, or what the test names, changes on the way, and with it the answer."""
    asked = {node.id for node in walk(test) if isinstance(node, ast.Name)}
    for node in call.function.nodes if call.function is not None else ():
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store):
            if call.node.lineno <= node.lineno <= step.node.lineno:
                if isinstance(node, ast.Attribute) or node.id in asked:
                    return True
    return False


def _steps_of_callers(call: Call) -> Iterator[Call]:
    """The steps behind the very test that a helper asks before it enters `no_sync`: `with syncing(model, last):`."""
    entered = branches(call.context, None)
    if call.function is None or len(entered) != 1:
        return
    asked, holds = entered[0].test, entered[0].holds
    while isinstance(asked, ast.UnaryOp) and isinstance(asked.op, ast.Not):
        asked, holds = asked.operand, not holds
    names = list(call.function.parameters)
    if not isinstance(asked, ast.Name) or asked.id not in names:
        return
    position = names.index(asked.id) - (1 if call.function.receiver else 0)
    for caller in callers(call.file.sites, call.function):
        given = caller.argument(asked.id, position)
        loop = caller.loops[0] if caller.loops else None
        if given is None or given is OPEN or loop is None or not _enters(caller):
            continue
        for step in caller.file.calls("step"):
            if loop in step.loops and step.node.lineno > caller.node.lineno:
                if are_alike(caller.file, [Branch(given, holds, caller.context)], branches(step.context, loop)):
                    yield step


def _enters(call: Call) -> bool:
    blocks = call.function.all(ast.With) if call.function is not None else []
    return any(item.context_expr is call.node for block in blocks for item in block.items)


def _surrounds_all(call: Call) -> bool:
    """`with model.no_sync():` around every backward pass of the function."""
    blocks = [
        node
        for node in (call.function.nodes if call.function is not None else walk(call.file.module.source.tree))
        if isinstance(node, ast.With) and any(item.context_expr is call.node for item in node.items)
    ]
    inside = {node for block in blocks for node in walk(block)}
    ran = [other for other in call.file.calls("backward") if other.function is call.function]
    return bool(ran) and all(other.node in inside for other in ran)


def _runs_backward(call: Call, loop: Context | None) -> bool:
    """Whether the loop, or the function, runs one backward pass where this is entered, which stands below."""
    passes = call.file.calls("backward")
    passes = [other for other in passes if (loop in other.loops if loop else other.function is call.function)]
    ran = [other for other in passes if not other.context.excludes(call.context)]
    return len(ran) == 1 and ran[0].node.lineno > call.node.lineno
