"""What a class declares in its body: `best: float = 0.0`, `prefixes = ("stem.",)`."""

from __future__ import annotations

import ast
from typing import TypeGuard

from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites.model import OPEN, Class
from mlcheck.lint.sites.origins import Origin


def declared(cls: Class, name: str) -> Origin | None:
    """The value of the one declaration, where nothing in the class gives another."""
    if len(cls.line) != 1 or cls.attribute(name):
        return None
    found = [line.value for line in cls.node.body if _declares(line, name)]
    match found:
        case [ast.expr() as value] if value is not OPEN:
            return Origin(cls.file, value, cls.defined.inner)
    return None


def _declares(line: ast.stmt, name: str) -> TypeGuard[ast.AnnAssign | ast.Assign]:
    targets = line.targets if isinstance(line, ast.Assign) else [line.target] if isinstance(line, ast.AnnAssign) else []
    return any(is_name(target, name) for target in targets)
