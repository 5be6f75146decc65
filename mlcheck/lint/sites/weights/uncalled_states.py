"""States that are saved as the method that would tell them: `net.state_dict` without its call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TypeGuard

from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context


def uncalled_states(sites: Sites) -> Iterator[tuple[Place, str]]:
    """Where the method is named, and how."""
    for call in sites.calls("torch.save"):
        for node, file, context in _parts(call):
            if _is_state(node) and _is_method(file, node.value):
                yield file.place(node, context), ast.unparse(node)
    for file in sites.mentioning([".state_dict,", ".state_dict)", ".state_dict}", ".state_dict\n"]):
        for table in walk(file.module.source.tree):
            for named in _named_among_called(table):
                yield file.place(named, file.walk.module), ast.unparse(named)


def _parts(call: Call) -> Iterator[tuple[ast.expr, File, Context]]:
    """What is saved: the object, or the values of the dictionary."""
    given = call.argument("obj", 0)
    for origin in origins(call.file, given, call.context) if given is not None else ():
        values = origin.node.values if isinstance(origin.node, ast.Dict) else [origin.node]
        yield from ((value, origin.file, origin.context) for value in values)


def _named_among_called(node: ast.AST) -> Iterator[ast.Attribute]:
    """`b.state_dict` of `dict(a=a.state_dict(), b=b.state_dict)`."""
    match node:
        case ast.Dict(values=values):
            parts: list[ast.expr] = values
        case ast.Call(func=ast.Name(id="dict"), keywords=keywords):
            parts = [keyword.value for keyword in keywords]
        case _:
            return
    if any(isinstance(part, ast.Call) and _is_state(part.func) for part in parts):
        yield from filter(_is_state, parts)


def _is_state(node: ast.expr) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and node.attr == "state_dict"


def _is_method(file: File, owner: ast.expr) -> bool:
    """Whether the owner is named as a module, or used as one or as an optimizer elsewhere in the file."""
    if ast.unparse(owner).rpartition(".")[2] in ("model", "net", "network", "module", "optimizer"):
        return True
    name = re.escape(ast.unparse(owner))
    used = rf"(?<![\w.]){name}\.(?:state_dict|load_state_dict|parameters|zero_grad|train|eval|step)\("
    return re.search(used, file.text) is not None
