"""Weights that were loaded, and that an initialisation overwrites afterwards."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_none, last_name, loads, walk
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.layers.initialising import applies, asked_for, fills, has_any
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.project import Sites

_TORCHVISION = pattern(r"torchvision\.models\.(?:\w+\.)?[a-z]\w*")
_KINDS = frozenset(["Conv2d", "Linear", "BatchNorm2d"])
"""What the networks of torchvision are made of."""
_LEAVES_OUT = ("pretrained", "backbone", "encoder", "skip", "loaded", "load_state_dict", "requires_grad")


def initialised_again(sites: Sites) -> Iterator[Finding]:
    yield from _by_own_method(sites)
    for file in sites.mentioning([".apply("]):
        for call in file.calls("apply"):
            function, func = call.function, call.node.func
            if function is None or not isinstance(func, ast.Attribute) or len(call.node.args) != 1:
                continue
            init = file.resolve(call.node.args[0], call.context)
            top = [line for line in function.node.body if isinstance(line, ast.Expr) and line.value is call.node]
            if not isinstance(init, Function) or not fills(init) or not top or _leaves_out(init):
                continue
            for model, loaded in _loaded(function, asked_for(function, call.node)):
                within = model == ast.unparse(func.value) or model.startswith(ast.unparse(func.value) + ".")
                if within and loaded.lineno < call.node.lineno:
                    yield Finding(
                        f"The weights that `{model}` has been given are overwritten here by `{init.name}`",
                        call.place.location,
                        help="initialise first, and load the weights afterwards",
                        related=(function.place(loaded).location,),
                    )
                    break


def _by_own_method(sites: Sites) -> Iterator[Finding]:
    """`self._init_weights()` at the end of a constructor, which goes through `self.modules()`."""
    for file in sites.mentioning([".modules()"]):
        for function in file.functions:
            for line in function.node.body if function.name == "__init__" and function.cls is not None else ():
                call = line.value if isinstance(line, ast.Expr) and isinstance(line.value, ast.Call) else None
                if call is None or call.args or not applies(call, function):
                    continue
                init = file.resolve(call.func, function.inner)
                if not isinstance(init, Function) or _leaves_out(init):
                    continue
                for model, loaded in _loaded(function, asked_for(function, call)):
                    if loaded.lineno < call.lineno and _is_kept(function, model):
                        yield Finding(
                            f"The weights that `{model}` has been given are overwritten here by `{init.name}`",
                            function.place(call).location,
                            help="initialise first, and load the weights afterwards",
                            related=(function.place(loaded).location,),
                        )
                        break


def _is_kept(init: Function, model: str) -> bool:
    """Whether the module, or parts of it, are attributes of the object."""
    if model.startswith(f"{init.receiver}."):
        return True
    lines = (node for node in init.nodes if isinstance(node, ast.Assign) and own_attribute(node.targets[0], init))
    return any(loads(line.value, model) for line in lines)


def _leaves_out(init: Function) -> bool:
    """Whether it may pass some layers by, for other reasons than their kind."""
    text = init.text
    return any(word in text for word in _LEAVES_OUT)


def _loaded(function: Function, kinds: set[str]) -> Iterator[tuple[str, ast.expr]]:
    """The modules of a function that are given weights with layers of one of the kinds, and where."""
    for node in function.nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="load_state_dict")):
                if _holds(function, owner, kinds):
                    yield ast.unparse(owner), node
            case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=ast.Call() as made):
                if (not kinds or kinds & _KINDS) and _is_pretrained(function, made):
                    yield ast.unparse(target), made


def _holds(function: Function, owner: ast.expr, kinds: set[str]) -> bool:
    """Whether the module that an attribute or a variable is made as has such layers."""
    text = ast.unparse(owner)
    made = [
        node.value
        for node in function.nodes
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [text]
    ]
    return len(made) == 1 and _has_any(function, made[0], kinds)


def _has_any(function: Function, made: ast.expr, kinds: set[str]) -> bool:
    if function.cls is not None:
        return has_any(function.cls, made, kinds)
    named = function.file.resolve(made.func, function.inner) if isinstance(made, ast.Call) else None
    if named == "torch.nn.Sequential":
        layers = {last_name(node.func) for node in walk(made) if isinstance(node, ast.Call)}
        return not kinds or not kinds.isdisjoint(layers)
    return isinstance(named, Class) and has_any(named, made, kinds)


def _is_pretrained(function: Function, made: ast.Call) -> bool:
    """`resnet50(weights="DEFAULT")`, `models.vgg16(pretrained=True)`, `timm.create_model(name, pretrained=True)`."""
    call = Call(function.file, made, function.inner)
    name = function.file.called(made, function.inner)
    if name != "timm.create_model" and _TORCHVISION.fullmatch(name) is None:
        return False
    given = call.argument("weights")
    given = (
        given.body if isinstance(given, ast.IfExp) and is_none(given.orelse) else given
    )  # `"DEFAULT" if asked else None`
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        return True
    if call.constant("pretrained", None, False) is True or isinstance(call.constant("weights"), str):
        return True
    return isinstance(given, ast.Attribute) and "Weights." in ast.unparse(given)
