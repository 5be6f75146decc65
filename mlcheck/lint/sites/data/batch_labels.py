"""Labels made of what a loader brings."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import before_methods
from mlcheck.lint.sites.data.loaders import LOADER
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.iteration import item_of_iteration
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.scopes import Context

_MOVES = ("to", "cuda", "cpu", "long", "float")


def names_samples(file: File, node: ast.expr, context: Context) -> bool:
    """`y.argmax(dim=0)` of the labels in a batch: an index of a sample for each of their columns."""
    node, context = source(file, before_methods(node, _MOVES), context)
    node = before_methods(node, _MOVES)
    if not isinstance(node, ast.Call) or getattr(node.func, "attr", "") != "argmax":
        return False
    call = Call(file, node, context)
    of_library = file.called(node, context) == "torch.argmax"
    labels = call.argument("input", 0) if of_library else call.owner
    dim = call.constant("dim", int(of_library))
    if dim != 0 or isinstance(dim, bool) or not isinstance(labels, ast.expr):
        return False
    labels, context = source(file, before_methods(labels, _MOVES), context)
    item = item_of_iteration(before_methods(labels, _MOVES), context)
    return item is not None and any(each.name == LOADER for each in origins(file, item.over, item.loop))
