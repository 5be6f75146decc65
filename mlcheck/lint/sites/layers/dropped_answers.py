"""Functions that hand back something new and change nothing, called as if they did: `repackage(hidden)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import callers, returns
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.straight import read_after

_ANSWERS = frozenset(["detach", "clone", "cpu", "tuple", "list", "dict", "isinstance", "is_tensor", "type", "items"])
_ANSWERS |= {"startswith", "endswith", "removeprefix", "removesuffix", "replace", "len", "split", "join", "sub", "str"}


def dropped_answers(sites: Sites) -> Iterator[tuple[Call, ast.Name]]:
    """The calls whose result nobody takes, with the variable that is read afterwards as it was."""
    for file in sites.mentioning([".detach()", ".items()"]):
        for function in file.functions:
            text = function.text
            if (".detach()" in text or (".items()" in text and _renames(function))) and _only_answers(function):
                for call in callers(sites, function):
                    given = call.node.args[0] if call.node.args else None
                    if call.node in call.file.statements and isinstance(given, ast.Name) and call.function is not None:
                        if read_after(call.function.node, call.node, given.id) is not None:
                            yield call, given


def _renames(function: Function) -> bool:
    """Whether it answers with a new dictionary of what it is given: `{key.removeprefix("module."): ...}`."""
    given, answers = next(iter(function.parameters), ""), list(returns(function))
    return bool(given) and all(
        isinstance(each, ast.DictComp) and ast.unparse(each.generators[0].iter) == f"{given}.items()"
        for each in answers
    )


def _only_answers(function: Function) -> bool:
    """Whether all it does is to return something, and nothing it calls changes anything."""
    if function.cls is not None or function.node.decorator_list or not all(map(_is_plain, function.node.body)):
        return False
    calls = [last_name(node.func) for node in function.nodes if isinstance(node, ast.Call)]
    return all(name in _ANSWERS or name == function.name for name in calls)


def _is_plain(line: ast.stmt) -> bool:
    if isinstance(line, ast.If):
        return all(map(_is_plain, (*line.body, *line.orelse)))
    return isinstance(line, ast.Return) or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
