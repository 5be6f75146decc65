"""Gradients that are clipped at the wrong time, and functions of the project that clip."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.plain_optimizers import is_plain_optimizer
from mlcheck.lint.sites.training.written_steps import straight

CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_", "torch.nn.utils.clip_grad_norm")
_OWN = pattern(r"clip|clamp|limit|bound|rescale|norm", re.IGNORECASE)
_SHRINKS = ("mul_", "div_", "clamp_", "clip_")


class Written(NamedTuple):
    """The one clip, backward, clearing and step of a loop. `always`: each of them runs once in each turn."""

    clip: Call
    backward: Call
    clear: Call
    step: Call
    loop: ast.For | ast.While
    always: bool


def after_step(sites: Sites) -> Iterator[Written]:
    """A clip that stands behind the step in its block, told by the order of the statements of one loop.

    So it matters little what model and optimizer are.
    """
    for each in sites.once(_written):
        block = _block_of(each.loop, each.step.node)
        behind = block[block.index(stepped) + 1 :] if (stepped := _statement(block, each.step.node)) else []
        inside = {id(node) for line in behind for node in _straight(line)}
        if id(each.clip.node) in inside and each.backward.node.lineno < each.step.node.lineno:
            yield each


def before_backward(sites: Sites) -> Iterator[Written]:
    """A clip in each turn, before the backward pass: what it finds is cleared or used up."""
    for each in sites.once(_written):
        if each.always and each.clip.node.lineno < each.backward.node.lineno < each.step.node.lineno:
            yield each


def _written(sites: Sites) -> tuple[Written, ...]:
    return tuple(_loops_with_clip(sites))


def by_hand(sites: Sites) -> Iterator[tuple[Call, Function]]:
    """Calls of the project's own functions that shrink gradients in place."""
    for file in sites.mentioning([".grad"]):
        for function in file.functions:
            if _OWN.search(function.name) and _shrinks(function):
                yield from ((call, function) for call in callers(sites, function))


def _clips(sites: Sites) -> tuple[Call, ...]:
    """Calls of torch's functions, and of the project's own."""
    return (*sites.calls(*CLIPS), *(call for call, _ in by_hand(sites)))


def _shrinks(function: Function) -> bool:
    """Whether it changes gradients in place, `p.grad.mul_(scale)`, and neither computes nor uses them."""
    text = function.text
    if ".grad" not in text or any(word in text for word in (*CLIPS, "clip_grad", "backward(", ".step(", "autograd")):
        return False
    held = {
        name.id
        for node in function.nodes
        if isinstance(node, ast.For | ast.comprehension)
        for name in walk(node.target)
        if isinstance(name, ast.Name)
    }
    for node in function.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SHRINKS:
            changed: ast.expr = node.func.value
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Mult | ast.Div):
            changed = node.target
        else:
            continue
        if any(isinstance(part, ast.Attribute) and part.attr == "grad" for part in walk(changed)):
            return True
        if isinstance(changed, ast.Name) and changed.id in held and ".grad for " in text:
            return True
    return False


def _loops_with_clip(sites: Sites) -> Iterator[Written]:
    every = _clips(sites)
    for clip in every:
        loop = clip.loops[0].node if clip.loops else None
        if not isinstance(loop, ast.For | ast.While):
            continue
        inside = {id(node) for node in walk(loop)}
        backwards, steps, clears = (
            [call for call in clip.file.calls(name) if id(call.node) in inside]
            for name in ("backward", "step", "zero_grad")
        )
        owners = {ast.unparse(call.node.func.value) for call in clears if isinstance(call.node.func, ast.Attribute)}
        stepping = [call for call in steps if _owner(call) in owners]
        stepping = stepping or [call for call in steps if _may_optimize(call) and is_plain_optimizer(call)]
        clips = [call for call in every if id(call.node) in inside]
        if not len(backwards) == len(stepping) == len(clips) == len(clears) == 1:
            continue
        if any(_may_optimize(call) and call.node is not stepping[0].node for call in steps):
            continue
        always = {id(line.value) for line in straight(loop.body) if isinstance(line, ast.Expr | ast.Assign)}
        found = clip, backwards[0], clears[0], stepping[0]
        yield Written(*found, loop, always.issuperset(id(call.node) for call in found))


def _may_optimize(step: Call) -> bool:
    return not step.node.args and not step.node.keywords and "sched" not in _owner(step)


def _owner(call: Call) -> str:
    func = call.node.func
    return ast.unparse(func.value) if isinstance(func, ast.Attribute) else ""


def _block_of(loop: ast.For | ast.While, node: ast.Call) -> list[ast.stmt]:
    """The statements among which `node` is one."""
    for outer in walk(loop):
        for _, block in ast.iter_fields(outer):
            if isinstance(block, list) and _statement(block, node) is not None:
                return block
    return []


def _statement(block: list[ast.stmt], node: ast.Call) -> ast.stmt | None:
    return next((line for line in block if isinstance(line, ast.Expr) and line.value is node), None)


def _straight(line: ast.stmt) -> Iterator[ast.AST]:
    """What a statement computes, in its branches too, but not in a loop or a function of its own."""
    if isinstance(line, ast.Expr | ast.Assign):
        yield from walk(line)
    elif isinstance(line, ast.If | ast.With):
        for inner in (*line.body, *getattr(line, "orelse", ())):
            yield from _straight(inner)
