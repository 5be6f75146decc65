"""accumulation-destroyed: gradients gathered over several batches are cleared at every one of them."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Grads, Place
from mlcheck.lint.nodes import stores, walk
from mlcheck.lint.sites.guards import on_failure
from mlcheck.lint.sites.training.one_batch import cleared_each_call, owner_of
from mlcheck.lint.sites.training.pieces import dropped
from mlcheck.lint.training import Choice, Clearing, steps_by_choice

LOOKS_AT = "optimizer step"
_LEFT_WITHIN = (ast.Break, ast.Yield, ast.YieldFrom)
"""What may let the step run before the loop is through: who asks a generator for more runs between its turns."""


def check(facts: Facts) -> Iterator[Finding]:
    yield from _after_the_loop(facts)
    yield from _before_the_last(facts)
    for cleared in cleared_each_call(facts.sites):
        yield _finding(cleared.clearing, cleared.step)
    for piece in dropped(facts.sites):
        yield Finding(
            f"Each iteration of the loop above replaces `{piece.name}`: only the last micro-batch gives gradients",
            piece.backward.location,
            help=f"run `{piece.name}.backward()` in each turn: gradients add up by themselves",
            related=(piece.divided.location,),
        )
    steps = steps_by_choice(facts)
    for clearing in facts.training.clearings:
        around = {loop.node for loop, turn in clearing.when.loops if turn > 1}
        for grads in clearing.grads:
            choice = _asked_last(grads, clearing)
            if grads.kind != "fresh" or choice is None or grads.loop not in around:
                continue
            if (
                _after_a_failure(facts, clearing)
                or (clearing.key, choice.spot, choice.holds) in steps
                or _counts_too(clearing, choice, grads.loop)
            ):
                continue
            if step := steps.get((clearing.key, choice.spot, not choice.holds)):
                yield _finding(clearing.place, step.place)


def _finding(clearing: Place, step: Place) -> Finding:
    return Finding(
        "This clears the gradients of every batch, and the step comes only after several of them",
        clearing.location,
        help="clear the gradients where the optimizer steps, right after the step",
        related=(step.location,),
    )


def _after_a_failure(facts: Facts, clearing: Clearing) -> bool:
    """`except RuntimeError: optimizer.zero_grad()`: it clears what a batch left that could not be finished."""
    call = facts.sites.call_at(clearing.place)
    return call is not None and on_failure(call.context)


def _asked_last(grads: Grads, clearing: Clearing) -> Choice | None:
    """The last test that told the gradients that are cleared here from others; any later one was answered both ways."""
    choice = grads.choice
    answers = {(other.choice.spot, other.choice.holds) for other in clearing.grads if other.choice is not None}
    if choice is not None and choice.earlier is not None and {(choice.spot, True), (choice.spot, False)} <= answers:
        return choice.earlier
    return choice


def _counts_too(clearing: Clearing, choice: Choice, loop: ast.AST) -> bool:
    """Whether what it clears hangs on the same count: `if micro == 1: zero_grad()`, `if micro % n == 0: step()`."""
    branches = [node for node in walk(loop) if isinstance(node, ast.If)]
    asked = [branch.test for branch in branches if (branch.test.lineno, branch.test.col_offset) == choice.spot[1:]]
    counted = {node.id for test in asked for node in walk(test) if isinstance(node, ast.Name)}
    for branch in branches:
        inside = any(clearing.place.node in walk(line) for line in branch.body) and not branch.orelse
        names = {node.id for node in walk(branch.test) if isinstance(node, ast.Name)}
        if inside and branch.test not in asked and not names.isdisjoint(counted):
            return True
    return False


def _before_the_last(facts: Facts) -> Iterator[Finding]:
    """Cleared where the same test lets the optimizer step, above the backward: what was gathered is gone."""
    for file in facts.sites.mentioning(["zero_grad"]):
        for call in file.calls("zero_grad"):
            branch, loop = call.context.node, call.loops[0].node if call.loops else None
            if not isinstance(branch, ast.If) or not isinstance(loop, ast.For | ast.While) or branch not in loop.body:
                continue
            owner = owner_of(branch.body[0], "zero_grad")
            if len(branch.body) > 1 or branch.orelse or not owner or not _counts(branch.test):
                continue
            later = loop.body[loop.body.index(branch) + 1 :]
            steps = [line for line in later if isinstance(line, ast.If) and _is_same(line.test, branch.test)]
            text = "".join(ast.unparse(line) for line in steps)
            if len(steps) != 1 or "zero_grad" in text:
                continue
            if f"{owner}.step" not in text and f".step({owner})" not in text:
                continue
            between = later[: later.index(steps[0])]
            if _changes(loop.body, branch.test):
                continue
            if any(".backward(" in ast.unparse(line) for line in between if isinstance(line, ast.Expr)):
                yield Finding(
                    "This clears the accumulated gradients right before the step that should use them",
                    call.place.location,
                    help="clear the gradients after the step",
                    related=(file.place(steps[0], call.context).location,),
                )


def _counts(test: ast.expr) -> bool:
    """`(i + 1) % every == 0`, and nothing else."""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.BinOp)
        and isinstance(test.left.op, ast.Mod)
        and isinstance(test.ops[0], ast.Eq)
        and not (isinstance(test.left.right, ast.Constant) and test.left.right.value == 1)
    )


def _changes(body: list[ast.stmt], test: ast.expr) -> bool:
    """Whether anything that the test asks is set anew in between, as a counter is."""
    names = {node.id for node in walk(test) if isinstance(node, ast.Name)}
    return any(
        stores(node, name) for line in body for node in walk(line) if isinstance(node, ast.stmt) for name in names
    )


def _is_same(one: ast.expr, other: ast.expr) -> bool:
    return ast.unparse(one) == ast.unparse(other)


def _after_the_loop(facts: Facts) -> Iterator[Finding]:
    """The step slipped out of the loop that clears: of all batches, only the last is left for it."""
    cleared = {
        (clearing.key, grads.loop): clearing
        for clearing in facts.training.clearings
        for grads in clearing.grads
        if clearing.always
        and grads.kind == "fresh"
        and grads.choice is None
        and grads.loop in {loop.node for loop, _ in clearing.when.loops}
    }
    stepped = {(step.key, loop.node) for step in facts.steps for loop, _ in step.when.loops}
    for step in facts.steps:
        for grads in step.grads:
            if grads.kind != "fresh" or grads.loop is None or (step.key, grads.loop) in stepped:
                continue
            if not step.scaler and isinstance(step.place.node, ast.Call) and step.place.node.args:
                continue  # a closure computes the gradients of this step anew
            clearing = cleared.get((step.key, grads.loop))
            if clearing is None:
                continue
            if any(isinstance(node, _LEFT_WITHIN) for node in walk(grads.loop)):
                continue
            yield Finding(
                "This step comes after the loop, which clears the gradients of each batch: only the last one trains",
                step.place.location,
                help="step inside the loop, after every `backward()`",
                related=(clearing.place.location,),
            )
