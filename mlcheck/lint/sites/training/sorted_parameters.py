"""Parameters that a loop sorts into lists, one of which no optimizer is given."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.project import Sites

_OVER = (".parameters()", ".named_parameters()")


def dropped_lists(sites: Sites) -> Iterator[tuple[Place, str, Place]]:
    """`if p.ndim < 2: rest.append(p) else: decayed.append(p)`, and only `{"params": decayed}` behind the loop.

    The list where it begins, its name, and the group that the other list is put into.
    """
    for file in sites.mentioning([*_OVER]):
        for function in file.functions:
            text = file.module.text_of(function.node)
            if ".append(" in text and "params" in text and any(over in text for over in _OVER):
                yield from _dropped(function)


def _dropped(function: Function) -> Iterator[tuple[Place, str, Place]]:
    names = [node for node in walk(function.node) if isinstance(node, ast.Name)]
    for loop in function.nodes:
        if not isinstance(loop, ast.For) or not ast.unparse(loop.iter).endswith(_OVER) or _freezes(loop):
            continue
        owners = _filled(loop)
        read = {node.id for node in names if isinstance(node.ctx, ast.Load) and node not in owners}
        filled = {node.id for node in owners}
        group = next((node for node in function.nodes if _is_group_of(node, filled & read)), None)
        for name in sorted(filled - read) if group is not None else ():
            begun = [node for node in names if node.id == name and isinstance(node.ctx, ast.Store)]
            if len(begun) == 1 and group is not None:
                yield function.place(begun[0]), name, function.place(group)


def _freezes(loop: ast.For) -> bool:
    """Whether some of the parameters are meant to stay as they are."""
    return any("requires_grad" in ast.unparse(node) for node in walk(loop) if isinstance(node, ast.Assign | ast.Call))


def _filled(loop: ast.For) -> list[ast.Name]:
    """The lists that the loop's own parameter is appended to: `a.append(p)`, `(a if test else b).append(p)`."""
    last = loop.target.elts[-1] if isinstance(loop.target, ast.Tuple) else loop.target
    found: list[ast.Name] = []
    for node in walk(loop):
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="append"), args=[ast.Name(id=given)]):
                arms = [owner.body, owner.orelse] if isinstance(owner, ast.IfExp) else [owner]
                if isinstance(last, ast.Name) and given == last.id:
                    found += [arm for arm in arms if isinstance(arm, ast.Name)]
    return found


def _is_group_of(node: ast.AST, lists: set[str]) -> bool:
    """`{"params": decayed, ...}`."""
    if not isinstance(node, ast.Dict):
        return False
    entries = zip(node.keys, node.values, strict=True)
    return any(
        isinstance(key, ast.Constant) and key.value == "params" and isinstance(value, ast.Name) and value.id in lists
        for key, value in entries
    )
