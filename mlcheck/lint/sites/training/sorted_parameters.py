"""Parameters that a loop sorts into lists, one of which no optimizer is given."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.optimizers import optimizers

_LEFT = pattern(r"froz|freez|fix|skip|ignor|rest|other|exclu|unused|untrain|static|non?_")
_OVER = (".parameters(", ".named_parameters(")


def dropped_lists(sites: Sites) -> Iterator[tuple[Place, str, Place]]:
    """`if p.ndim < 2: rest.append(p) else: decayed.append(p)`, and only `{"params": decayed}` behind the loop.

    The list where it begins, its name, and the group that the other list is put into.
    """
    for file in sites.mentioning([*_OVER]):
        for function in file.functions:
            text = file.module.text_of(function.node)
            if ".append(" in text and any(over in text for over in _OVER):
                yield from _dropped(function)
                yield from _left_by_caller(function)


def lists_sorted(function: Function) -> frozenset[str]:
    """The lists of a function that it sorts the parameters of a model into, itself or by one that it calls."""
    loops = (loop for loop in function.all(ast.For) if _sorts(loop) and not _freezes(loop))
    found = {node.id for loop in loops for node in _filled(loop)}
    for line in function.all(ast.Assign):
        named = function.file.resolve(line.value.func, function.inner) if isinstance(line.value, ast.Call) else None
        target = line.targets[0]
        if isinstance(named, Function) and isinstance(target, ast.Tuple):
            pairs = zip(map(last_name, target.elts), _sorted_in(named), strict=False)
            found |= {name for name, sorted_ in pairs if sorted_ and name}
    return frozenset(found)


def _sorted_in(function: Function) -> list[bool]:
    """Which of the things that a function returns are lists that it sorts parameters into."""
    lists = [line.value for line in function.all(ast.Return)]
    given = lists[0].elts if len(lists) == 1 and isinstance(lists[0], ast.Tuple) else []
    loops = [loop for loop in function.all(ast.For) if given and _sorts(loop)]
    filled = {node.id for loop in loops if not _freezes(loop) for node in _filled(loop)}
    return [isinstance(each, ast.Name) and each.id in filled for each in given]


def _dropped(function: Function) -> Iterator[tuple[Place, str, Place]]:
    names = function.all(ast.Name)
    for loop in function.all(ast.For):
        if not _sorts(loop) or _freezes(loop):
            continue
        owners = _filled(loop)
        read = {node.id for node in names if isinstance(node.ctx, ast.Load) and node not in owners}
        filled = {node.id for node in owners}
        group = next((node for node in function.nodes if _is_group_of(node, filled & read)), None)
        if group is None:  # what is left out may be meant to stay
            group = next((each.node for each in _given_whole(function, filled & read)), None)
            filled = {name for name in filled if not _LEFT.search(name)}
        for name in sorted(filled - read) if group is not None else ():
            begun = [node for node in names if node.id == name and isinstance(node.ctx, ast.Store)]
            if len(begun) == 1 and group is not None:
                yield function.place(begun[0]), name, function.place(group)


def _given_whole(function: Function, lists: set[str]) -> Iterator[Call]:
    """`Adam(decayed, lr=1e-3)`."""
    for made in function.file.sites.once(optimizers):
        given = made.argument("params", 0)
        if made.function is function and isinstance(given, ast.Name) and given.id in lists:
            yield made


def _left_by_caller(function: Function) -> Iterator[tuple[Place, str, Place]]:
    """`decayed, rest = split(model)`, where nothing reads `rest`, by all that call a function which sorts them."""
    sorted_ = _sorted_in(function)
    if sum(sorted_) < 2:
        return
    calls = function.file.sites.calls_of(function) or []
    left = [list(_left(call, sorted_)) for call in calls]
    for number in range(len(sorted_)) if left and all(left) else ():
        same = [(place, name, group) for each in left for at, place, name, group in each if at == number]
        if len(same) == len(calls):
            yield same[0]


def _left(call: Call, sorted_: list[bool]) -> Iterator[tuple[int, Place, str, Place]]:
    """The lists that this caller unpacks and never reads, beside one that it makes a group of."""
    caller = call.function
    line = (
        next((n for n in caller.nodes if isinstance(n, ast.Assign) and n.value is call.node), None) if caller else None
    )
    targets = line.targets[0].elts if line is not None and isinstance(line.targets[0], ast.Tuple) else []
    if caller is None or len(targets) != len(sorted_):
        return
    lists = [(n, t) for n, t in enumerate(targets) if sorted_[n] and isinstance(t, ast.Name) and t.id.strip("_")]
    read = {n.id for n in caller.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    group = next((node for node in caller.nodes if _is_group_of(node, {t.id for _, t in lists})), None)
    for number, target in lists if group is not None and "locals()" not in caller.text else ():
        if target.id not in read and group is not None:
            yield number, caller.place(target), target.id, caller.place(group)


def _sorts(loop: ast.AST) -> TypeGuard[ast.For]:
    """`for name, p in model.named_parameters():`."""
    over = loop.iter if isinstance(loop, ast.For) else None
    if not isinstance(over, ast.Call) or not isinstance(over.func, ast.Attribute):
        return False
    return over.func.attr in ("parameters", "named_parameters") and not over.args


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
