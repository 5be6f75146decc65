"""Methods of modules that change a tensor they are given, which their caller still reads as it was."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites.layers.overwriting import Overwriting, overwritings
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.straight import read_after, rebound_between


def changed_for_the_caller(sites: Sites, cls: Class) -> Iterator[Finding]:
    """`std = logvar.mul_(0.5).exp()` of an argument that the caller goes on to read."""
    for method in cls.methods.values():
        names = list(method.parameters)
        if "_(" not in method.text or not method.receiver or method.node.decorator_list:
            continue
        for change in overwritings(method):
            if change.is_layer or not change.certain or change.name not in names[1:] or _is_asked_for(method, change):
                continue
            for call in callers(sites, method):
                given = call.argument(change.name, names.index(change.name) - 1)
                if call.function is None or call.cls is not cls or not isinstance(given, ast.Name):
                    continue
                later = _read_later(call, given.id)
                if later is not None:
                    yield Finding(
                        f"This changes `{change.name}` in place, and `{later.id}` of the caller with it, which line "
                        f"{later.lineno} reads as if it were unchanged",
                        method.place(change.node).location,
                        help="compute a new tensor, without the `_`",
                        related=(call.place.location, call.file.place(later, call.context).location),
                    )


def _is_asked_for(method: Function, change: Overwriting) -> bool:
    """A result under the same name, a statement by itself, a name that says so; or another tensor by then."""
    if method.name.endswith("_") or change.result in ("", change.name) or "no_grad" in method.text:
        return True
    stores = (node for node in method.nodes if is_name(node, change.name))
    return any(isinstance(node.ctx, ast.Store) for node in stores)


def _read_later(call: Call, name: str) -> ast.Name | None:
    """The first use after the call, in the rest of its statement too."""
    function = call.function
    assert function is not None
    end = (call.node.end_lineno or 0, call.node.end_col_offset or 0)
    for statement in function.nodes:
        if not isinstance(statement, ast.Return | ast.Expr) or not any(part is call.node for part in walk(statement)):
            continue
        for node in walk(statement):
            if is_name(node, name) and (node.lineno, node.col_offset) > end:
                return node
    later = read_after(function.node, call.node, name)
    return None if later is None or rebound_between(function.node, call.node, later, name) else later
