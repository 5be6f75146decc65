"""accelerate-accumulation: the Accelerator divides the loss, and the loop does not accumulate, or divides it again."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites import OPEN, UNKNOWN, Call, File
from mlcheck.lint.sites.guards import conditions

LOOKS_AT = "Accelerator"
WORDS = ("Accelerator",)
_NAMES = ("accelerate.Accelerator", "accelerate.accelerator.Accelerator")
_STEPS = "gradient_accumulation_steps"
_OPTION = pattern(rf"""add_argument\(\s*["']--{_STEPS}["']""")
_SET = pattern(rf"\.{_STEPS} = |ACCELERATE_GRADIENT")
_PLUGGED = pattern(r"deepspeed|gradient_accumulation_plugin|GradientAccumulationPlugin", re.IGNORECASE)
_BY_ITSELF = ("accumulate(", "sync_gradients", "no_sync", "GradientAccumulationPlugin", "gradient_accumulation_plugin")


def check(facts: Facts) -> Iterator[Finding]:
    made = list(facts.sites.calls(*_NAMES))
    facts.sites.seen[LOOKS_AT] = len(made)
    yield from _told_nothing(facts, made)
    divided = [call for call in made if _is_told(call)]
    if len(divided) != len(made):
        return
    if divided or any(_STEPS in file.text for file in facts.sites.files.values()):
        yield from _cleared_past_it(facts)
    texts = [file.text for file in facts.sites.files.values()]
    accumulates = any(word in text for text in texts for word in _BY_ITSELF) or _steps_by_count(facts)
    runs = any(re.search(r"accelerator\.backward\(", text) for text in texts)
    for call in divided:
        if runs and not accumulates:
            yield Finding(
                f"The Accelerator divides every loss by `{_STEPS}`, and nothing accumulates: "
                "the optimizer steps after every batch, with gradients that are too small",
                call.place.location,
                help="run the step under `with accelerator.accumulate(model):`",
            )
    for file in {call.file.path: call.file for call in divided}.values():
        given = [call.argument(_STEPS, None) for call in divided if call.file is file]
        yield from _divided_twice(file, {ast.unparse(each) for each in given if each is not None})
        yield from _cleared_first(file)


def _told_nothing(facts: Facts, made: list[Call]) -> Iterator[Finding]:
    """`with accelerator.accumulate(model):` of an Accelerator that is not told the option that the program has."""
    texts = [file.text for file in facts.sites.files.values()]
    if len(made) != 1 or any(told.search(text) for told in (_PLUGGED, _SET) for text in texts):
        return
    given = made[0].argument(_STEPS, None)
    blocks = [file for file in facts.sites.mentioning([".accumulate("]) if "accelerat" in file.text.lower()]
    if given is None and blocks and any(_OPTION.search(text) for text in texts):
        yield Finding(
            f"`{_STEPS}` is an option of this program, and the Accelerator is not told it: "
            "`accumulate` steps after every batch",
            made[0].place.location,
            help=f"pass `{_STEPS}=args.{_STEPS}`",
        )


def _cleared_first(file: File) -> Iterator[Finding]:
    """`optimizer.zero_grad()` before the backward pass in the body of `with accelerator.accumulate(model):`."""
    for call in file.calls("zero_grad"):
        block = call.context.node
        if not isinstance(block, ast.With) or not _accumulates(block):
            continue
        later = [other for other in file.calls("backward") if other.context.node is block and other.node.args]
        if any(other.node.lineno > call.node.lineno for other in later) and call.node in file.statements:
            yield Finding(
                "The Accelerator clears gradients with the batch that completes a step, and here it does so before "
                "that batch's backward pass: those of the batches before are lost",
                call.place.location,
                help="clear them after `optimizer.step()`",
                related=(later[0].place.location,),
            )


def _cleared_past_it(facts: Facts) -> Iterator[Finding]:
    """`model.zero_grad()` in the body of `with accelerator.accumulate(model):`, where only the optimizer's waits."""
    for file in facts.sites.mentioning([".accumulate("]):
        for call in file.calls("zero_grad") if "accelerat" in file.text.lower() else ():
            func, block = call.node.func, call.context.node
            if not isinstance(func, ast.Attribute) or not isinstance(block, ast.With) or not _accumulates(block):
                continue
            backward = [other for other in file.calls("backward") if other.context.node is block]
            models = [ast.unparse(arg) for item in block.items for arg in _given(item.context_expr)]
            if ast.unparse(func.value) in models and backward:
                yield Finding(
                    f"`{ast.unparse(func.value)}.zero_grad()` clears the gradients of every batch: only the prepared "
                    "optimizer waits until a step is complete",
                    call.place.location,
                    help="call `zero_grad()` of the optimizer that `accelerator.prepare` returned",
                    related=(backward[0].place.location,),
                )


def _given(node: ast.expr) -> list[ast.expr]:
    """The models of `accelerator.accumulate(model)`."""
    accumulates = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "accumulate"
    return node.args if isinstance(node, ast.Call) and accumulates else []


def _steps_by_count(facts: Facts) -> bool:
    """Whether a loop accumulates by itself: `if (i + 1) % steps == 0: optimizer.step()`."""
    return any(
        isinstance(node, ast.Mod)
        for file in facts.sites.mentioning([".step("])
        for call in file.calls("step")
        for test in conditions(call.context)
        for node in ast.walk(test)
    )


def _is_told(call: Call) -> bool:
    """Whether a number of batches is given that is not certainly one."""
    given = call.argument(_STEPS, None)
    number = call.constant(_STEPS)
    if given is None or given is OPEN or any(isinstance(arg, ast.Starred) for arg in call.node.args):
        return False
    return number is UNKNOWN or number not in (None, 0, 1)


def _divided_twice(file: File, steps: set[str]) -> Iterator[Finding]:
    """`loss / steps` in the body of `with accelerator.accumulate(model):`, before `accelerator.backward(loss)`."""
    for call in file.calls("backward"):
        func = call.node.func
        if (
            not isinstance(func, ast.Attribute)
            or not ast.unparse(func.value).endswith("accelerator")
            or not call.node.args
        ):
            continue
        block = next(
            (o.node for o in call.context.outwards() if isinstance(o.node, ast.With) and _accumulates(o.node)), None
        )
        division = _division(call.node.args[0], block, steps) if block is not None else None
        if division is not None:
            yield Finding(
                f"The loss is divided by `{_STEPS}` here, and once more by `accelerator.backward`",
                file.place(division, call.context).location,
                help="leave the division to the Accelerator",
                related=(call.place.location,),
            )


def _accumulates(block: ast.With) -> bool:
    return any(".accumulate(" in ast.unparse(item.context_expr) for item in block.items)


def _division(loss: ast.expr, block: ast.With, steps: set[str]) -> ast.AST | None:
    """The division of what goes into backward, there or in an assignment to its name."""
    if isinstance(loss, ast.BinOp) and _divides(loss.op, loss.right, steps):
        return loss
    for node in (node for line in block.body for node in walk(line) if isinstance(loss, ast.Name)):
        match node:
            case ast.Assign(targets=[target], value=ast.BinOp(op=op, right=number)):
                pass
            case ast.AugAssign(target=target, op=op, value=number):
                pass
            case _:
                continue
        if isinstance(loss, ast.Name) and is_name(target, loss.id) and _divides(op, number, steps):
            return node
    return None


def _divides(op: ast.operator, number: ast.expr, steps: set[str]) -> bool:
    """`... / steps`, by the word of the library or as the Accelerator was told it."""
    written = ast.unparse(number)
    return isinstance(op, ast.Div) and (written in steps or written.endswith(_STEPS))
