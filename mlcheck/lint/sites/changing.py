"""What is set from outside: attributes of other objects, and objects that are set by strings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mlcheck.core.patterns import pattern

if TYPE_CHECKING:
    from mlcheck.lint.sites.project import Sites

_SET_BY_NAME = pattern(r"setattr\(\s*(\w+)|namespace\s*=\s*(\w+)")
_UPDATED = pattern(r"\.(?:update|merge_with\w*|merge_from\w*)\(")
_OWNER = pattern(r"(\w+)(?:\.\w+)*$")


def changed(sites: Sites) -> tuple[frozenset[str], frozenset[str]]:
    """The attributes that are set on other objects than `self`, and the names of objects that are set by strings."""
    attributes, names = set[str](), set[str]()
    for file in sites.files.values():
        for found in file.walk.attributes:
            if not isinstance(found.target.value, ast.Name) or found.target.value.id != "self":
                attributes.add(found.target.attr)
        for subscript, _ in file.walk.subscripts:
            key = subscript.slice
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                attributes.add(key.value)
        attributes |= file.walk.mutated_attributes
        names.update(_set_by_strings(file.text))
    return frozenset(attributes), frozenset(names)


def _set_by_strings(text: str) -> Iterator[str]:
    """`args` in `setattr(args, ...)`, `args.data.update(...)` and `namespace=args`."""
    if "setattr" in text or "namespace" in text:
        yield from (name for found in _SET_BY_NAME.findall(text) for name in found if name)
    for found in _UPDATED.finditer(text) if ".update" in text or ".merge_" in text else ():
        before = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        if owner := _OWNER.search(before):
            yield owner[1]
