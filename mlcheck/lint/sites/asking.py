"""What a test asks: behind the name that keeps its answer, and in the function of the project that gives it."""

from __future__ import annotations

import ast

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites.branches import positive
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.origins import sole
from mlcheck.lint.sites.scopes import Context

_DEPTH = 4


class Asked(NamedTuple):
    """The question itself, where it stands, and whether the test holds where it does not."""

    file: File
    node: ast.expr
    context: Context
    turned: bool = False


def asked_by(file: File, test: ast.expr, context: Context) -> Asked:
    """`step % n == 0` of `ready`, where `ready = step % n == 0`, and of `self.due(step)`, which returns it."""
    found = Asked(file, test, context)
    for _ in range(_DEPTH):
        node, turned = positive(found.node)
        if isinstance(node, ast.Call) and is_name(node.func, "bool") and len(node.args) == 1:
            node = node.args[0]
        found = found._replace(node=node, turned=found.turned != turned)
        made = sole(found.file, node, found.context) if isinstance(node, ast.Name | ast.Call) else None
        if made is None or made.node is node or made.item >= 0:
            break
        found = Asked(made.file, made.node, made.context, found.turned)
    return found
