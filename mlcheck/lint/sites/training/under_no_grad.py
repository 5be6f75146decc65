"""Parts of a model that an optimizer is given by name, and that the model runs under `torch.no_grad()` alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_attribute, is_name, walk
from mlcheck.lint.sites.layers.modules import is_module
from mlcheck.lint.sites.model import OPEN, Class, Function
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.optimizers import optimizers

_DECORATORS = ("torch.no_grad()", "torch.no_grad", "torch.inference_mode()")
_FROZEN = ("requires_grad", "freeze", "frozen", "torch.enable_grad", "set_grad_enabled")


class Kept(NamedTuple):
    """The part's name, where the optimizer is given it, and a call of it; all stand under `torch.no_grad()`."""

    name: str
    given: Place
    call: Place


def kept_from_gradients(sites: Sites) -> Iterator[Kept]:
    """`with torch.no_grad(): features = self.encoder(x)`, and `{"params": model.encoder.parameters()}`."""
    given = _given(sites)
    for cls in sites.classes if given else ():
        text = cls.text
        if not is_module(cls) or any(word in text for word in _FROZEN):
            continue
        for name in given.keys() & cls.attributes.keys():
            call, (place, giver) = _kept_call(cls, name), given[name]
            owners = [
                other for other in sites.classes if name in other.attributes and (giver is None or is_module(other))
            ]
            if call is not None and owners == [cls] and giver in (None, *cls.line):
                yield Kept(name, place, call)


def _given(sites: Sites) -> dict[str, tuple[Place, Class | None]]:
    """`model.encoder.parameters()` among what optimizers are made of, by the part's name.

    With the class around it where that is the owner: `self.encoder.parameters()`.
    """
    found: dict[str, tuple[Place, Class | None]] = {}
    for call in sites.once(optimizers):
        params = call.argument("params", 0)
        for origin in origins(call.file, params, call.context) if params is not None and params is not OPEN else ():
            for node in walk(origin.node):
                func = node.func if isinstance(node, ast.Call) else None
                if isinstance(func, ast.Attribute) and func.attr == "parameters" and isinstance(node, ast.Call):
                    if isinstance(func.value, ast.Attribute):
                        own = is_name(func.value.value, "self")
                        giver = origin.file.class_around(origin.context) if own else None
                        found[func.value.attr] = origin.file.place(node, origin.context), giver
    return found


def _kept_call(cls: Class, name: str) -> Place | None:
    """The first call of `self.name` in the class, if all stand under `torch.no_grad()`, or its forward pass does."""
    calls: list[Place] = []
    kept: set[ast.AST] = set()
    quiet = _is_quiet(cls, name)
    for method in cls.methods.values():
        if _switches_off(method):
            kept.update(method.nodes)
        for node in method.nodes:
            if isinstance(node, ast.Call) and is_attribute(node.func, method.receiver, name):
                calls.append(method.place(node.func))
            elif isinstance(node, ast.With) and ast.unparse(node.items[0].context_expr) == "torch.no_grad()":
                kept.update(walk(node))
    return calls[0] if calls and (quiet or all(call.node in kept for call in calls)) else None


def _is_quiet(cls: Class, name: str) -> bool:
    """Whether it is of a module of the project whose `forward` has the decorator."""
    sets = cls.attribute(name)
    value = sets[0][1].value if len(sets) == 1 else None
    made = cls.file.resolve(value.func, sets[0][1].context) if isinstance(value, ast.Call) else None
    forward = made.find("forward") if isinstance(made, Class) and is_module(made) else None
    return forward is not None and _switches_off(forward) and not any(word in forward.text for word in _FROZEN)


def _switches_off(function: Function) -> bool:
    return any(ast.unparse(each) in _DECORATORS for each in function.node.decorator_list)
