"""Attributes of modules that hold layers in an object which is no module itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.sites.layers.modules import flat, holds_parameters, text_of
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import AttributeSet

_KNOWN = frozenset(["builtins.object", "abc.ABC", "typing.Generic"])
_OPENS = ("parameters", "state_dict", "modules", "register", "setattr", "__dict__", "nn.Module")


class Hidden(NamedTuple):
    """`self.heads = Heads(...)`, where `Heads` makes layers and is no module; one attribute of its that has some."""

    function: Function
    assigned: AttributeSet
    holder: Class
    inside: str


def hidden_in_objects(sites: Sites, cls: Class, name: str) -> Iterator[Hidden]:
    """The objects that this attribute of a module holds, if nobody reaches into them for their layers."""
    for function, assigned in cls.attributes[name]:
        value = assigned.value
        named = cls.file.resolve(value.func, assigned.context) if isinstance(value, ast.Call) else None
        if not isinstance(named, Class) or not named.libraries <= _KNOWN or named.node.decorator_list:
            continue
        if any(word in text_of(named) for word in _OPENS):
            continue
        inside = next(_with_layers(named), "")
        if inside and not any(
            _reaches_in(file.text, name, inside, file is named.file) for file in sites.files.values()
        ):
            yield Hidden(function, assigned, named, inside)


def _reaches_in(text: str, name: str, inside: str, is_own: bool) -> bool:
    """Whether a file names the layers from without; where the object's class stands, by the way to them."""
    return re.search(rf"\b{name}\.{inside}\b" if is_own else rf"\.{inside}", text) is not None


def _with_layers(cls: Class) -> Iterator[str]:
    """The attributes that its constructor gives layers, alone or in a list or dictionary."""
    for name, assignments in cls.attributes.items():
        for function, assigned in assignments:
            if function.name == "__init__" and assigned.value is not None:
                parts = flat([assigned.value])
                if any(holds_parameters(cls.file, part, assigned.context) for part in parts):
                    yield name
