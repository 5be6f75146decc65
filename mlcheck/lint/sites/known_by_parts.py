"""What a parameter must be that no call in sight gives: the one class that has the parts which are asked of it."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Class
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context


def known_by_parts(file: File, node: ast.expr, context: Context) -> Class | None:
    """The class of `model` in `def fit(model): Adam(model.head.parameters())`, where one alone has a `head`."""
    bound = file.bindings(node.id, context) if isinstance(node, ast.Name) else []
    function = file.function_around(context)
    if len(bound) != 1 or bound[0].kind != "param" or function is None or not isinstance(node, ast.Name):
        return None
    if any(True for _ in callers(file.sites, function)):
        return None
    owners = file.sites.once(_owners)
    asked = {part.attr for part in function.all(ast.Attribute) if is_name(part.value, node.id)}
    found = [owners[name] for name in asked if name in owners]
    first = found[0] if found else None
    return first if isinstance(first, Class) and all(each is first for each in found) else None


def _owners(sites: Sites) -> dict[str, Class | None]:
    """The class whose objects have an attribute of a name; None where several have."""
    found: dict[str, Class | None] = {}
    for cls in sites.classes:
        for name in cls.attributes:
            found[name] = None if name in found else cls
    return found
