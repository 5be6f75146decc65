"""Initialisations of layers that are called on a whole model, which is none of the layers that they ask for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites.layers.initialising import fills, kinds_named, kinds_told_apart
from mlcheck.lint.sites.layers.modules import MODULE
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.objects import class_of_object
from mlcheck.lint.sites.project import Sites

_GOES_THROUGH = pattern(
    r"modules\(|children\(|parameters\(|\.apply\(|isinstance\(\w+, nn\.Module\)|hasattr\(\w+, .children"
)
_DEPTH = 6


class FilledAlone(NamedTuple):
    """The call, the initialisation, and the class of the model that it is given."""

    call: Call
    init: Function
    model: Class


def filled_alone(sites: Sites) -> Iterator[FilledAlone]:
    """`init_weights(model)`, where `init_weights(m)` asks `isinstance(m, nn.Conv2d)`: it was meant for `apply`."""
    for file in sites.mentioning(["init"]):
        for init in file.functions:
            if not fills(init) or not _asks_for_layers(init):
                continue
            for call in _calls(sites, init):
                model = _model(call)
                if model is not None and not _is_meant(init, model):
                    yield FilledAlone(call, init, model)


def _is_meant(init: Function, model: Class) -> bool:
    """Whether it asks for this very class, or for a word that stands in its name."""
    kinds, words = kinds_told_apart(init), kinds_named(init)
    return any(cls.name in kinds or any(word in cls.name for word in words) for cls in model.line)


def _calls(sites: Sites, init: Function) -> Iterator[Call]:
    """The calls of a function, of one inside another too."""
    inner = init.file.function_around(init.defined.context) is not None
    for file in [init.file] if inner else sites.mentioning([init.name]):
        for call in file.calls(init.name):
            if file.resolve(call.node.func, call.context) is init:
                yield call


def _asks_for_layers(init: Function) -> bool:
    """Whether all that it does stands under tests for the kind of its one argument."""
    names = [name for name, default in init.parameters.items() if default is None and name != init.receiver]
    lines = [
        line for line in init.node.body if not isinstance(line, ast.Expr) or not isinstance(line.value, ast.Constant)
    ]
    tested = [line for line in lines if isinstance(line, ast.If)]
    others = [line for line in lines if not isinstance(line, ast.If)]
    if len(names) != 1 or not tested or _GOES_THROUGH.search(init.text) or not all(map(_names_class, others)):
        return False
    return all(_is_of_kind(line, names[0], others) for line in tested)


def _names_class(line: ast.stmt) -> bool:
    """`name = m.__class__.__name__`."""
    return isinstance(line, ast.Assign) and "__name__" in ast.unparse(line.value)


def _is_of_kind(line: ast.If, name: str, others: list[ast.stmt]) -> bool:
    """Whether its test, and those of its other arms, ask for a class of PyTorch's layers."""
    text = ast.unparse(line.test)
    kind = f"isinstance({name}, " in text or f"type({name})" in text or f"{name}.__class__" in text
    kind = kind or any(
        is_name(node, ast.unparse(each.targets[0]))
        for each in others
        if isinstance(each, ast.Assign)
        for node in walk(line.test)
    )
    if not line.orelse:
        return kind
    rest = line.orelse[0]
    return kind and len(line.orelse) == 1 and isinstance(rest, ast.If) and _is_of_kind(rest, name, others)


def _model(call: Call) -> Class | None:
    """The class of the project that the argument is an object of, if that is a plain module with parts of its own."""
    arg = call.node.args[0] if len(call.node.args) == 1 and not call.node.keywords else None
    if not isinstance(arg, ast.Name | ast.Attribute):
        return None
    method = call.file.method_around(call.context)
    if method is not None and is_name(arg, method.receiver):
        made = method.cls
    else:
        made = class_of_object(call.file, arg, call.context, _DEPTH)
    return made if made is not None and made.libraries == {MODULE} and made.attributes else None
