"""Functions made in a loop that read its variable when they run: after the loop, and all of them its last value."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import stores, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

Closure = ast.Lambda | ast.FunctionDef
_HOOKS = (
    *("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook", "register_backward_hook"),
    *("register_hook", "register_post_accumulate_grad_hook", "register_full_backward_pre_hook"),
)
_SHARED = ("device", "dtype", "training")
"""What the last one has, the others have as well: `layer.weight.to(layer.device)`."""
_LISTED = pattern(r"lambda\b[\s\S]{0,200}?\sfor\s")


class Late(NamedTuple):
    """The read of the variable, its name, and the function it stands in."""

    file: File
    read: ast.Name
    context: Context
    name: str
    closure: Closure


def late_closures(sites: Sites) -> Iterator[Late]:
    """`layer.register_forward_hook(lambda m, i, o: kept.update({name: o}))` in `for name, layer in ...`."""
    for file in sites.mentioning([*_HOOKS, "lambda", "append"]):
        if "torch" not in file.text:
            continue
        for call in file.calls(*_HOOKS):
            yield from _of_call(call, outlives=not _is_taken_off(call))
        for call in file.calls("append"):
            yield from _of_call(call, outlives=_is_made_outside(call))
        if _LISTED.search(file.text):
            yield from _in_comprehensions(file)


def _of_call(call: Call, outlives: bool) -> Iterator[Late]:
    loop = call.loops[0].node if call.loops and outlives and call.node.args else None
    if not isinstance(loop, ast.For):
        return
    given = call.node.args[0]
    closure = given if isinstance(given, ast.Lambda) else _defined_in(call, given)
    if closure is not None and not _ends_with(loop, call.node):
        yield from _reads(
            call.file, closure, {n.id for n in walk(loop.target) if isinstance(n, ast.Name)}, call.context
        )


def _is_made_outside(append: Call) -> bool:
    """Whether the list is there for longer than a turn of the loop."""
    kept, loop = append.owner, append.loops[0] if append.loops else None
    bound = append.file.bindings(kept.id, append.context) if isinstance(kept, ast.Name) else []
    return loop is not None and bool(bound) and not any(loop in each.context.outwards() for each in bound)


def _is_taken_off(call: Call) -> bool:
    """Whether the hook may be removed in the very turn, after the model ran once."""
    text = call.function.text if call.function is not None else call.file.text
    return bool(call.loops) and ".remove()" in text and ".remove()" in ast.unparse(call.loops[0].node)


def _ends_with(loop: ast.For, call: ast.Call) -> bool:
    """Whether the loop is left after the turn that comes here."""
    leaves = (node for node in walk(loop) if isinstance(node, ast.Break | ast.Return))
    return any(node.lineno > call.lineno for node in leaves)


def _defined_in(call: Call, given: ast.expr) -> ast.FunctionDef | None:
    """The function of that name that each turn of the loop defines."""
    bound = call.file.bindings(given.id, call.context) if isinstance(given, ast.Name) else []
    found = [each.node for each in bound if call.loops[0] in each.context.outwards()]
    return found[0] if len(found) == 1 and isinstance(found[0], ast.FunctionDef) else None


def _in_comprehensions(file: File) -> Iterator[Late]:
    """`[lambda step: scale * step for scale in scales]`."""
    for node in walk(file.module.source.tree):
        made = node.elt if isinstance(node, ast.ListComp) else node.value if isinstance(node, ast.DictComp) else None
        if isinstance(made, ast.Lambda) and isinstance(node, ast.ListComp | ast.DictComp):
            targets = [part for each in node.generators for part in walk(each.target)]
            yield from _reads(file, made, {n.id for n in targets if isinstance(n, ast.Name)}, file.walk.module)


def _reads(file: File, closure: Closure, names: set[str], context: Context) -> Iterator[Late]:
    """The first read of a variable of the loop that is neither a parameter of the function nor set in it."""
    own = {arg.arg for arg in walk(closure.args) if isinstance(arg, ast.arg)}
    body = closure.body if isinstance(closure.body, list) else [closure.body]
    shared = {n.value for line in body for n in walk(line) if isinstance(n, ast.Attribute) and n.attr in _SHARED}
    for line in body:
        for node in walk(line):
            if isinstance(node, ast.Name) and node.id in names - own and isinstance(node.ctx, ast.Load):
                if node in shared:
                    continue
                if not any(stores(each, node.id) for each in body):
                    yield Late(file, node, context, node.id, closure)
                    return
