"""A clipping function of the project's own between the backward of a scaled loss and the step of its scaler."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.clipped_modules import calls_within
from mlcheck.lint.sites.training.clipping import by_hand

_UNSCALES = pattern(r"unscale|get_scale|inv_scale|\bscaler\b")
_LIMITS = pattern(r"clamp|clip_?\(|\bmin\(|maximum\(|minimum\(|[^-]>|<")
_OF_PRECISION = pattern(r"amp|scal|half|16|mixed|precision", re.IGNORECASE)


class Scaled(NamedTuple):
    """The clip, the `scaler.scale(loss).backward()` before it, and the expression of that scaler."""

    clip: Call
    backward: Call
    scaler: ast.expr


def scaled_clips(sites: Sites) -> Iterator[Scaled]:
    """One backward, one step of the same scaler and one clip in a function where nothing else touches the scale."""
    for clip, own in by_hand(sites):
        function = clip.function
        if function is None or "unscale" in function.text or _UNSCALES.search(own.text) or not _LIMITS.search(own.text):
            continue
        backwards = [
            (call, owner) for call in calls_within(function, "backward") if (owner := _scaler(call)) is not None
        ]
        if len(backwards) != 1 or "get_scale" in function.text:
            continue
        backward, scaler = backwards[0]
        named = ast.dump(scaler)
        steps = [
            call for call in calls_within(function, "step") if call.owner is not None and ast.dump(call.owner) == named
        ]
        given = {ast.dump(argument) for argument in (*clip.node.args, *(word.value for word in clip.node.keywords))}
        if len(steps) != 1 or named in given or _is_off(clip, scaler):
            continue
        if backward.node.lineno < clip.node.lineno < steps[0].node.lineno and _leads(
            function.node.body, clip.node, steps[0].node
        ):
            yield Scaled(clip, backward, scaler)


def _scaler(backward: Call) -> ast.expr | None:
    """`scaler` of `scaler.scale(loss).backward()`."""
    match backward.owner:
        case ast.Call(func=ast.Attribute(value=scaler, attr="scale"), args=[_]):
            return scaler
    return None


def _is_off(clip: Call, scaler: ast.expr) -> bool:
    """Whether the scaler may be one that does nothing."""
    made = [origin.node for origin in origins(clip.file, scaler, clip.context)]
    enabled = [
        word.value for call in made if isinstance(call, ast.Call) for word in call.keywords if word.arg == "enabled"
    ]
    return any(isinstance(value, ast.Constant) and not value.value for value in enabled)


def _leads(block: list[ast.stmt], clip: ast.Call, step: ast.Call) -> bool:
    """Whether the clip runs before that step, whatever the precision."""
    for line in block:
        if _stands_in(line, clip):
            if any(_is_statement(other, step) for other in block):
                return _reached(line, clip)
            bodies = (getattr(line, name, []) for name in ("body", "orelse"))
            return any(_leads(inner, clip, step) for inner in bodies)
    return False


def _reached(line: ast.stmt, clip: ast.Call) -> bool:
    """Whether it is the clip, or asks only whether to clip at all: `if args.clip: clip(...)`."""
    if isinstance(line, ast.If) and not line.orelse and not _OF_PRECISION.search(ast.unparse(line.test)):
        return any(_reached(inner, clip) for inner in line.body)
    return _is_statement(line, clip) or (isinstance(line, ast.Assign) and line.value is clip)


def _is_statement(line: ast.stmt, call: ast.Call) -> bool:
    return isinstance(line, ast.Expr) and line.value is call


def _stands_in(line: ast.stmt, call: ast.Call) -> bool:
    return line.lineno <= call.lineno <= (line.end_lineno or line.lineno)
