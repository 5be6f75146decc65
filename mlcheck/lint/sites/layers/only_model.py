"""The model that a training function is for, where the program has a single one and nobody is seen to call it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from itertools import islice

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites.layers.modules import MODULE, learns, module_classes
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.project import Sites

_WORD = pattern(r"\w+")
_OF_LIBRARIES = pattern(
    r"torchvision\.models|from torchvision import .*\bmodels\b|\btimm\b|\bfrom_pretrained\b|\bhub\.load\b"
    r"|\binstantiate\(|\bimport_module\b|^(?:\w+ = |def .*\n.*)nn\.Sequential\(",
    re.MULTILINE,
)
_AS_MODULE = frozenset(["parameters", "train", "eval"])


def only_model(function: Function, parameter: str) -> str:
    """What the file calls the one model that `def train(model, ...)` can be for; "" where it may be another."""
    cls = function.file.sites.once(_only)
    if cls is None or [name for name in function.parameters if _is_module(function, name)] != [parameter]:
        return ""
    bound = function.file.walk.module.scope.bindings
    known_as = (name for name in (cls.name, *function.file.walk.aliases.get(cls.name, ())) if name in bound)
    name = next(known_as, "")
    named = function.file.resolve(ast.Name(name, ast.Load()), function.file.walk.module) if name else None
    return name if named is cls and _fits(function, parameter, cls) else ""


def _only(sites: Sites) -> Class | None:
    """The one module that is no part of another, in a program that takes none from a library."""
    modules = sites.once(module_classes)
    named = Counter(word for cls in modules for word in set(_WORD.findall(cls.text)))
    whole = list(islice((cls for cls in modules if named[cls.name] == 1 and learns(cls)), 2))
    if len(whole) != 1 or whole[0].libraries != {MODULE}:
        return None
    return whole[0] if not any(_OF_LIBRARIES.search(file.text) for file in sites.files.values()) else None


def _is_module(function: Function, name: str) -> bool:
    """Whether the function asks it for its parameters, or puts it into a mode."""
    return any(
        isinstance(call.func, ast.Attribute) and call.func.attr in _AS_MODULE and is_name(call.func.value, name)
        for call in function.all(ast.Call)
    )


def _fits(function: Function, name: str, cls: Class) -> bool:
    """Whether all calls of it give what the `forward` of the class takes, each by its place."""
    forward = cls.find("forward")
    taken = len(forward.parameters) - 1 if forward is not None and not forward.node.args.vararg else -1
    calls = [call for call in function.all(ast.Call) if is_name(call.func, name)]
    return bool(calls) and all(
        len(call.args) == taken and not call.keywords and not any(isinstance(arg, ast.Starred) for arg in call.args)
        for call in calls
    )
