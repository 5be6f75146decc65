"""Gradients that are clipped, and whose: of the module that the optimizer steps, or of another."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import callers, origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.sites.training.clipping import CLIPS
from mlcheck.lint.sites.training.optimizers import optimizers

_DEPTH = 4


def of_other_module(sites: Sites) -> Iterator[tuple[Call, ast.expr, ast.expr, Call]]:
    """The clip, its module, the module whose optimizer the same function steps, and that step.

    The function runs one backward pass, one clip and one step: nobody else can take the clipped gradients.
    """
    for clip in sites.calls(*CLIPS):
        function = clip.function
        clipped = _module_of(clip.argument("parameters", 0))
        if function is None or clipped is None:
            continue
        steps = calls_within(function, "step")
        if len(steps) != 1 or len(calls_within(function, "backward")) != 1 or steps[0].node.lineno < clip.node.lineno:
            continue
        if len([call for call in sites.calls(*CLIPS) if call.function is function]) != 1:
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
    for clip in sites.calls(*CLIPS):
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
