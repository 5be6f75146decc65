"""Gradients that are clipped, and whose: of the module that the optimizer steps, or of another."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import callers, origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.sites.training.optimizers import optimizers
from mlcheck.lint.sites.training.plain_optimizers import is_plain_optimizer
from mlcheck.lint.sites.training.written_steps import straight

_DEPTH = 4
_CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_", "torch.nn.utils.clip_grad_norm")
_OWN = pattern(r"clip|clamp|limit|bound|rescale|norm", re.IGNORECASE)
_SHRINKS = ("mul_", "div_", "clamp_", "clip_")


def of_other_module(sites: Sites) -> Iterator[tuple[Call, ast.expr, ast.expr, Call]]:
    """The clip, its module, the module whose optimizer the same function steps, and that step.

    The function runs one backward pass, one clip and one step: nobody else can take the clipped gradients.
    """
    for clip in sites.calls(*_CLIPS):
        function = clip.function
        clipped = _module_of(clip.argument("parameters", 0))
        if function is None or clipped is None:
            continue
        steps = calls_within(function, "step")
        if len(steps) != 1 or len(calls_within(function, "backward")) != 1 or steps[0].node.lineno < clip.node.lineno:
            continue
        if len([call for call in sites.calls(*_CLIPS) if call.function is function]) != 1:
            continue
        stepped = _stepped(sites, steps[0])
        if stepped is None:
            continue
        file, module, context = stepped
        one, other = _module(clip.file, clipped, clip.context), _module(file, module, context)
        if one is not None and other is not None and _are_apart(one, other):
            yield clip, clipped, module, steps[0]


def of_other_argument(sites: Sites) -> Iterator[tuple[Call, ast.expr, ast.expr, Call]]:
    """`update(loss, opt_g, critic)`, of a function that clips the module and steps the optimizer it is given.

    The call, its module, and the module whose parameters its optimizer holds; the clip.
    """
    for clip in sites.calls(*_CLIPS):
        function, clipped = clip.function, _module_of(clip.argument("parameters", 0))
        steps = calls_within(function, "step") if function is not None else []
        if function is None or not isinstance(clipped, ast.Name) or clipped.id not in function.parameters:
            continue
        owner = steps[0].owner if len(steps) == 1 else None
        if not isinstance(owner, ast.Name) or owner.id not in function.parameters:
            continue
        names = list(function.parameters)[bool(function.receiver) :]
        for call in callers(sites, function):
            module, optimizer = (call.argument(name, names.index(name)) for name in (clipped.id, owner.id))
            made = _made_of(sites, call.file, optimizer, call.context)
            if made is None or not isinstance(module, ast.Name | ast.Attribute):
                continue
            one, other = _module(call.file, module, call.context), _module(*made)
            if one is not None and other is not None and _are_apart(one, other):
                yield call, module, made[1], clip


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
    return (*sites.calls(*_CLIPS), *(call for call, _ in by_hand(sites)))


def _shrinks(function: Function) -> bool:
    """Whether it changes gradients in place, `p.grad.mul_(scale)`, and neither computes nor uses them."""
    text = function.text
    if ".grad" not in text or any(word in text for word in (*_CLIPS, "clip_grad", "backward(", ".step(", "autograd")):
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


def calls_within(function: Function, name: str) -> list[Call]:
    return [call for call in function.file.calls(name) if call.function is function]


def _module_of(node: ast.expr | None) -> ast.expr | None:
    """`net` of `net.parameters()`."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="parameters"), args=[], keywords=[]):
            return owner
    return None


def _stepped(sites: Sites, step: Call) -> tuple[File, ast.expr, Context] | None:
    """The module whose parameters the optimizer was made with, and nothing else; where that stands."""
    return _made_of(sites, step.file, step.node.args[0] if step.node.args else step.owner, step.context)


def _made_of(
    sites: Sites, file: File, optimizer: ast.expr | None, context: Context
) -> tuple[File, ast.expr, Context] | None:
    found = origins(file, optimizer, context) if optimizer is not None else []
    made = {id(call.node): call for call in sites.once(optimizers)}
    if len(found) != 1 or id(found[0].node) not in made:
        return None
    call = made[id(found[0].node)]
    module = _module_of(call.argument("params", 0))
    return (call.file, module, call.context) if module is not None else None


class _Module(NamedTuple):
    """What tells a module from others: a parameter of a function, or the call in it that makes the module.

    `family`: itself and what it is made of.
    """

    key: int
    function: Function | None
    family: frozenset[int]


def _are_apart(one: _Module, other: _Module) -> bool:
    """Whether they are two for certain: one function has both, and neither is a part of the other."""
    same = one.function is other.function
    return same and one.key not in other.family and other.key not in one.family


def _module(file: File, node: ast.expr, context: Context, depth: int = _DEPTH) -> _Module | None:
    """The module that a name or an attribute certainly holds; None where it may be one of several."""
    function = file.function_around(context)
    if depth == 0:
        return None
    if name := own_attribute(node, function):
        sets = function.cls.attribute(name) if function is not None and function.cls is not None else []
        if len(sets) != 1 or sets[0][1].value is None:
            return None
        file, value, context = sets[0][0].file, sets[0][1].value, sets[0][1].context
    else:
        bound = file.bindings(node.id, context) if isinstance(node, ast.Name) else []
        if len(bound) == 1 and bound[0].kind == "param":
            return _Module(id(bound[0].node), function, frozenset([id(bound[0].node)]))
        if len(bound) != 1 or bound[0].kind != "value" or not isinstance(bound[0].value, ast.expr):
            return None
        value, context = bound[0].value, bound[0].context
    if isinstance(value, ast.Name):
        return _module(file, value, context, depth - 1)
    if not isinstance(value, ast.Call):
        return None
    inner = [part for part in walk(value) if isinstance(part, ast.Name | ast.Attribute)]
    parts = [found for part in inner if (found := _module(file, part, context, depth - 1)) is not None]
    family = frozenset([id(value), *(key for part in parts for key in part.family)])
    return _Module(id(value), file.function_around(context), family)
