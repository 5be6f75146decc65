"""New layers that a model is given before all of it is frozen, and that are left frozen when parts are set free."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.layers.modules import holds_parameters, is_module, learns
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.project import Sites

_ALL = "*"


class Setting(NamedTuple):
    """A statement that freezes or frees a module: which one, as it is written, and whether its weights are free."""

    module: str
    free: bool


class FrozenFresh(NamedTuple):
    """The new layer (* for those that a function puts in), and the statements that make and freeze it."""

    function: Function
    layer: str
    made: ast.stmt
    frozen: ast.stmt


def frozen_fresh(sites: Sites) -> Iterator[FrozenFresh]:
    """`model.fc = nn.Linear(...)`, then the whole `model` is frozen, then `model.layer4` alone is set free."""
    for file in sites.mentioning(["requires_grad"]):
        for function in file.functions:
            if "requires_grad" in function.text or "freeze" in function.text:
                yield from (found for found in _in_block(function) if not _is_freed_elsewhere(sites, function))


def _is_freed_elsewhere(sites: Sites, function: Function) -> bool:
    """Whether other code that runs frees weights: a function that somebody calls, or the top level of a file."""
    for file in sites.mentioning(["requires_grad"]):
        places = [each.context for each in file.walk.attributes if _is_freeing(each.target.attr, each.value)]
        places += [
            call.context for call in file.calls("requires_grad_") if call.constant("requires_grad", 0, True) is True
        ]
        for context in places:
            other = file.function_around(context)
            if other is not function and (
                other is None or any(call.function is not function for call in callers(sites, other))
            ):
                return True
    return False


def _is_freeing(attribute: str, value: ast.expr | None) -> bool:
    frozen = isinstance(value, ast.Constant) and value.value is False
    return attribute == "requires_grad" and not frozen


def _in_block(function: Function) -> Iterator[FrozenFresh]:
    block = function.node.body
    settings = {number: each for number, line in enumerate(block) if (each := _setting(function, line)) is not None}
    for at, frozen in settings.items():
        later = [each for number, each in settings.items() if number > at]
        if frozen.free or not later or not all(each.free for each in later):
            continue
        if any(
            _may_set(function, line) for number, line in enumerate(block[at + 1 :], at + 1) if number not in settings
        ):
            continue
        for number, line in enumerate(block[:at]):
            layer = _made(function, line, frozen.module)
            if layer and not any(_covers(each.module, layer, frozen.module) for each in later):
                if not any(
                    _covers(layer, other, frozen.module) for other in _made_between(function, block[number + 1 : at])
                ):
                    yield FrozenFresh(function, layer, line, block[at])


def _made_between(function: Function, lines: list[ast.stmt]) -> Iterator[str]:
    """What is assigned again before the freeze."""
    for line in lines:
        yield from (ast.unparse(target) for target in line.targets) if isinstance(line, ast.Assign) else ()


def _setting(function: Function, line: ast.stmt) -> Setting | None:
    """`for p in model.parameters(): p.requires_grad = False`, `model.requires_grad_(False)`, `freeze(model)`."""
    match line:
        case ast.For(
            target=ast.Name(id=name),
            iter=ast.Call(func=ast.Attribute(value=module, attr="parameters"), args=[], keywords=[]),
            body=[
                ast.Assign(targets=[ast.Attribute(value=owner, attr="requires_grad")], value=ast.Constant(value=free))
            ],
        ) if is_name(owner, name):
            return Setting(ast.unparse(module), bool(free))
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=module, attr="requires_grad_"), args=given, keywords=[])):
            match given:
                case [] | [ast.Constant(value=True)]:
                    return Setting(ast.unparse(module), True)
                case [ast.Constant(value=False)]:
                    return Setting(ast.unparse(module), False)
        case ast.Expr(value=ast.Call(args=[module], keywords=[]) as call):
            named = function.file.resolve(call.func, function.inner)
            if (
                isinstance(named, Function)
                and not named.receiver
                and len(named.node.body) == 1
                and named is not function
            ):
                inner = _setting(named, named.node.body[0])
                if inner is not None and inner.module == next(iter(named.parameters), ""):
                    return Setting(ast.unparse(module), inner.free)
    return None


def _may_set(function: Function, line: ast.stmt) -> bool:
    """Whether it may free weights in a way that is not read here."""
    if "requires_grad = " in ast.unparse(line) or "requires_grad_(" in ast.unparse(line):
        return True
    for node in walk(line):
        if isinstance(node, ast.Call):
            named = function.file.resolve(node.func, function.inner)
            if "freeze" in last_name(node.func) or "train" in last_name(node.func):
                return True
            if isinstance(named, Function) and ("requires_grad" in named.text or "freeze" in named.text):
                return True
    return False


def _made(function: Function, line: ast.stmt, model: str) -> str:
    """The layer with weights that a line gives the model, or * where a function of the project puts some in."""
    value = line.value if isinstance(line, ast.Assign | ast.Expr) else None
    if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Attribute):
        target = ast.unparse(line.targets[0])
        if target.startswith(f"{model}.") and holds_parameters(function.file, line.value, function.inner):
            return target if _is_new(function.file, line.value, function) else ""
    if isinstance(value, ast.Call) and any(ast.unparse(arg) == model for arg in value.args):
        named = function.file.resolve(value.func, function.inner)
        if isinstance(named, Function) and _puts_in(named):
            return _ALL
    return ""


def _is_new(file: File, value: ast.expr, function: Function) -> bool:
    """Whether it is made right here, of torch's layers, and loads nothing."""
    names = [file.called(node, function.inner) for node in walk(value) if isinstance(node, ast.Call)]
    return bool(names) and all(name.startswith("torch.nn.") for name in names)


def _puts_in(function: Function) -> bool:
    """`setattr(parent, name, LoRALinear(child))` of a module with weights of its own."""
    for node in function.all(ast.Call):
        match node:
            case ast.Call(func=ast.Name(id="setattr"), args=[_, _, ast.Call(func=made)]):
                named = function.file.resolve(made, function.inner)
                if isinstance(named, Class) and is_module(named) and learns(named):
                    return "requires_grad" not in function.text
    return False


def _covers(freed: str, layer: str, model: str) -> bool:
    """Whether freeing one module frees the layer."""
    return freed in (model, layer) or layer.startswith(f"{freed}.") or freed.startswith(f"{layer}.")
