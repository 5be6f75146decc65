"""Windows of gradient accumulation: loops over batches whose step stands behind a test that counts them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.iteration import counter_of
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_STEPS_OR_LEAVES = pattern(r"\.step\(|zero_grad|backward|\b(?:continue|break|return)\b")
_CLIPPING = pattern(r"\bclip_grad|\bunscale_\(")
_CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_")


class Window(NamedTuple):
    """The step, the test that it stands behind, the loop, and the one backward pass above the test in each turn."""

    step: Call
    guard: ast.If
    loop: Context
    backward: Call


def windows(sites: Sites) -> tuple[Window, ...]:
    """`sites.once(windows)`."""
    return tuple(_found(sites))


def _found(sites: Sites) -> Iterator[Window]:
    for file in sites.mentioning([".step("]):
        for step in file.calls("step") if ".backward(" in file.text else ():
            loop = step.loops[0] if step.loops else None
            guard = _counting(step.context, loop) if loop is not None else None
            if loop is None or guard is None or not _clears(step, guard):
                continue
            passes = [call for call in file.calls("backward") if loop in call.loops]
            if len(passes) == 1 and _runs_each_turn(passes[0], loop) and passes[0].node.lineno < guard.lineno:
                yield Window(step, guard, loop, passes[0])


def _counting(context: Context, loop: Context) -> ast.If | None:
    """The innermost `if (i + 1) % n == 0` around a place, in this loop."""
    for outer in context.outwards():
        if outer is loop:
            return None
        if isinstance(outer.node, ast.If) and outer.arm == "body":
            counts = any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) for part in walk(outer.node.test))
            return outer.node if counts else None
    return None


def _clears(step: Call, guard: ast.If) -> bool:
    """Whether the optimizer, or a model by itself, clears the gradients there."""
    under = [node for line in guard.body for node in walk(line)]
    return step.owner is not None and any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "zero_grad"
        for node in under
    )


def _runs_each_turn(call: Call, loop: Context) -> bool:
    around = (outer for outer in call.context.outwards() if outer.kind != "with")
    return next(around, None) is loop


def begun_by_one(sites: Sites) -> Iterator[Window]:
    """`for i, batch in enumerate(loader)` and `if i % n == 0: optimizer.step()`, of losses that are divided by `n`."""
    for window in sites.once(windows):
        counter = counter_of(window.loop.node)
        match window.guard.test:
            case ast.Compare(
                left=ast.BinOp(left=ast.Name(id=name), op=ast.Mod(), right=number),
                ops=[ast.Eq()],
                comparators=[ast.Constant(value=0)],
            ) if counter == (name, 0) and _divides_by(window.loop.node, ast.unparse(number)):
                yield window


def stepped_in_each_turn(sites: Sites) -> Iterator[tuple[Call, ast.If]]:
    """A step and a clearing after each batch, of a loss that is divided by the number that a test beside them counts.

    `loss = loss / n`, `if (i + 1) % n == 0: clip_grad_norm_(...)`, and below that `optimizer.step()`. What else such a
    test may be for is nobody's concern: a report, weights that are averaged over ranks or into slow ones.
    """
    for file in sites.mentioning([".step("]):
        for step in file.calls("step") if ".backward(" in file.text and "ccelerat" not in file.text else ():
            loop, owner = step.loops[0] if step.loops else None, step.owner
            if loop is None or owner is None or not _runs_each_turn(step, loop):
                continue
            clears = [call.owner for call in file.calls("zero_grad") if _runs_each_turn(call, loop)]
            if not any(each is not None and ast.unparse(each) == ast.unparse(owner) for each in clears):
                continue
            for line in getattr(loop.node, "body", []):
                number = _counted_by(line.test) if isinstance(line, ast.If) else ""
                written = file.module.text_of(line) if number else ""
                if _CLIPPING.search(written) and not _STEPS_OR_LEAVES.search(written):
                    if _loss_divided_by(file, loop, number):
                        yield step, line


def _counted_by(test: ast.expr) -> str:
    """`n` of `(i + 1) % n == 0`."""
    match test:
        case ast.Compare(
            left=ast.BinOp(op=ast.Mod(), right=ast.Name() | ast.Attribute() as number),
            ops=[ast.Eq()],
            comparators=[ast.Constant(value=0)],
        ):
            return ast.unparse(number)
    return ""


def _loss_divided_by(file: File, loop: Context, number: str) -> bool:
    """Whether each turn of the loop runs a backward pass through a loss that it divides by that."""
    for loss in (call.owner for call in file.calls("backward") if _runs_each_turn(call, loop)):
        if loss is not None and _divides_by(loss, number):
            return True
        for line in walk(loop.node) if isinstance(loss, ast.Name) else ():
            target = line.targets[0] if isinstance(line, ast.Assign) else getattr(line, "target", None)
            if isinstance(line, ast.Assign | ast.AugAssign) and isinstance(loss, ast.Name) and is_name(target, loss.id):
                if _divides_by(line, number):
                    return True
    return False


def _divides_by(loop: ast.AST, number: str) -> bool:
    for node in walk(loop):
        match node:
            case ast.BinOp(op=ast.Div(), right=by) | ast.AugAssign(op=ast.Div(), value=by):
                if ast.unparse(by) == number:
                    return True
    return False


def clipped_in_each_turn(sites: Sites) -> Iterator[tuple[Call, Window]]:
    """A clip after every backward pass of a window, of gradients to which others are added before the step."""
    found = sites.once(windows)
    for clip in sites.calls(*_CLIPS) if found else ():
        for window in found:
            below = clip.file is window.step.file and clip.node.lineno > window.backward.node.lineno
            if below and clip.node.lineno < window.guard.lineno and _runs_each_turn(clip, window.loop):
                if not _is_left_out(clip, window):
                    yield clip, window


def measures(clip: Call | None) -> bool:
    """An infinite limit asks for the norm alone."""
    if clip is None:
        return False
    given = [*clip.node.args[1:2], *(keyword.value for keyword in clip.node.keywords)]
    return any("inf" in ast.unparse(each.node) for limit in given for each in origins(clip.file, limit, clip.context))


def _is_left_out(clip: Call, window: Window) -> bool:
    """Whether the turns that only gather have ended above: `if (i + 1) % n: continue`."""
    body = getattr(window.loop.node, "body", [])
    return any(
        isinstance(line, ast.If) and line.lineno < clip.node.lineno and isinstance(line.body[-1], ast.Continue)
        for line in body
    )
