"""Iterators that are made once and gone over again and again: every pass but the first finds nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name, reads_of, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.origins import callers, origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Binding, Context

_MAKERS = tuple(f"builtins.{name}" for name in ("iter", "zip", "map", "filter", "enumerate", "reversed"))
_RESTARTING = pattern(r"dali|prefetch", re.IGNORECASE)


class UsedUp(NamedTuple):
    """A pass over what is used up, the iterator as it is called there, and where it was made."""

    file: File
    over: ast.expr
    context: Context
    made: ast.expr
    made_in: Context


def used_up(sites: Sites) -> Iterator[UsedUp]:
    """`batches = zip(source, target)` above `for epoch in ...: for s, t in batches:`."""
    for file in sites.mentioning(["torch"]):
        for loop, inside in file.walk.loops:
            over = iteration_of(loop).over if isinstance(loop, ast.For) else None
            if isinstance(over, ast.Name | ast.Attribute) and inside.outer is not None:
                found = list(_gone_over_again(file, over, inside.outer))
                yield from found if found and not _may_leave(loop) else ()


def _gone_over_again(file: File, over: ast.expr, context: Context) -> Iterator[UsedUp]:
    function = file.function_around(context)
    if isinstance(over, ast.Attribute):
        held = _kept(file, over, function)
        alone = function is not None and function.cls is not None and function.cls.text.count(ast.unparse(over)) == 2
        if held is not None and alone and function is not None and (_loops(context) or _is_called_again(function)):
            yield UsedUp(file, over, context, *held)
        elif held is None and isinstance(over.value, ast.Name) and _loops(context):
            yield from _held_by_other(file, over, context)
        return
    assert isinstance(over, ast.Name)
    bindings = file.bindings(over.id, context)
    if len(bindings) != 1 or function is not file.function_around(bindings[0].context):
        return
    if bindings[0].kind == "param" and function is not None:
        yield from _handed_over(function, over.id) if not _loops(context) else ()
    elif (made := _maker(file, bindings[0])) is not None and _is_left_out(bindings[0], _loops(context)):
        if _is_read_once(file, over.id, context):
            yield UsedUp(file, over, context, made, bindings[0].context)


def _is_read_once(file: File, name: str, context: Context) -> bool:
    """Whether nothing else takes items of it, such as `next(rows)`."""
    function = file.function_around(context)
    nodes = function.nodes if function is not None else walk(file.module.source.tree)
    others = (node for node in nodes if isinstance(node, ast.FunctionDef) and name in _parameters(node))
    theirs = {id(part) for other in others for part in walk(other)}
    return len([read for read in reads_of(nodes, name) if id(read) not in theirs]) == 1


def _parameters(function: ast.FunctionDef) -> set[str]:
    return {arg.arg for arg in walk(function.args) if isinstance(arg, ast.arg)}


def _handed_over(function: Function, parameter: str) -> Iterator[UsedUp]:
    """`train_epoch(model, batches)` in a loop, of a `batches` that was made before it."""
    names = list(function.parameters)
    for call in callers(function.file.sites, function) if parameter in names else ():
        given = call.argument(parameter, names.index(parameter) - bool(function.receiver))
        bindings = call.file.bindings(given.id, call.context) if isinstance(given, ast.Name) else []
        if not isinstance(given, ast.Name) or len(bindings) != 1:
            continue
        made = _maker(call.file, bindings[0])
        here = call.function is call.file.function_around(bindings[0].context)
        if made is not None and here and _is_left_out(bindings[0], _loops(call.context)):
            if _is_read_once(call.file, given.id, call.context):
                yield UsedUp(call.file, given, call.context, made, bindings[0].context)


def _loops(context: Context) -> list[Context]:
    """The loops around a place in its function that come round to it for certain: each batch, or each epoch."""
    inner = takewhile(lambda outer: outer.kind in ("loop", "with"), context.outwards())
    return [outer for outer in inner if outer.kind == "loop" and _comes_round(outer.node)]


def _comes_round(loop: ast.AST) -> bool:
    """`for epoch in range(n)`; of a `while` only one that nothing but its test ends."""
    return isinstance(loop, ast.For) or (isinstance(loop, ast.While) and not _may_leave(loop))


def _maker(file: File, binding: Binding) -> ast.expr | None:
    """The iterator that a name is given."""
    made = binding.value if binding.kind == "value" else None
    return made if isinstance(made, ast.expr) and _is_used_up(file, made, binding.context) else None


def _is_left_out(binding: Binding, again: list[Context]) -> bool:
    """Whether one of the loops comes round without making it anew."""
    return any(loop not in binding.context.outwards() for loop in again)


def _kept(file: File, over: ast.Attribute, function: Function | None) -> tuple[ast.expr, Context] | None:
    """What the constructor made an attribute of `self`, if nothing else assigns it."""
    name = own_attribute(over, function)
    cls = function.cls if function is not None else None
    sets = cls.attribute(name) if cls is not None and name else []
    if len(sets) != 1 or sets[0][0].name != "__init__" or sets[0][1].value is None or function is sets[0][0]:
        return None
    value = sets[0][1].value
    named_elsewhere = any(f".{name} =" in each.text for each in file.sites.mentioning([name]) if each is not file)
    return (value, sets[0][1].context) if not named_elsewhere and _is_used_up(file, value, sets[0][1].context) else None


def _held_by_other(file: File, over: ast.Attribute, context: Context) -> Iterator[UsedUp]:
    """`reader.rows` in each epoch, of a `reader` whose constructor made them, once for all."""
    found = origins(file, over.value, context)
    made = found[0] if len(found) == 1 else None
    cls = (
        made.file.resolve(made.node.func, made.context)
        if made is not None and isinstance(made.node, ast.Call)
        else None
    )
    if made is None or not isinstance(cls, Class) or not set(_loops(context)).isdisjoint(made.context.outwards()):
        return
    sets, word = cls.attribute(over.attr), re.compile(rf"\.{over.attr}\b")
    named = sum(len(word.findall(each.text)) for each in file.sites.mentioning([over.attr], tests=True))
    value = sets[0][1].value if len(sets) == 1 and sets[0][0].name == "__init__" else None
    if value is not None and named == 2 and _is_used_up(cls.file, value, sets[0][1].context):
        yield UsedUp(file, over, context, value, sets[0][1].context)


def _is_called_again(function: Function) -> bool:
    """Whether another method of the object calls this one in each turn of a loop."""
    return any(
        call.cls is function.cls
        and own_attribute(call.node.func, call.function) == function.name
        and any(_loops(call.context))
        for call in callers(function.file.sites, function)
    )


def _is_used_up(file: File, made: ast.expr, context: Context) -> bool:
    """Whether it can be gone over a single time, and comes to an end."""
    if isinstance(made, ast.GeneratorExp):
        return "parameters()" not in ast.unparse(made)  # of which another rule speaks
    if not isinstance(made, ast.Call) or _RESTARTING.search(ast.unparse(made)):
        return False
    if last_name(made.func) == "tqdm" and made.args:
        return _is_used_up(file, made.args[0], context)
    named = file.resolve(made.func, context)
    if isinstance(named, Function):
        return _is_generator(named)
    if named not in _MAKERS:
        return False
    return named != "builtins.iter" or (len(made.args) == 1 and not _restarts(file, made.args[0], context))


def _restarts(file: File, given: ast.expr, context: Context) -> bool:
    """Whether `iter(x)` may be `x` itself, an object of the project that begins again by itself."""
    kinds = [
        origin.file.resolve(origin.node.func, origin.context)
        for origin in origins(file, given, context)
        if isinstance(origin.node, ast.Call)
    ]
    return any(isinstance(kind, Class) and kind.find("__next__") is not None for kind in kinds)


def _is_generator(function: Function) -> bool:
    nodes = function.file.nodes_in(function.node)
    endless = any(isinstance(node, ast.While) for node in nodes)
    yields = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in nodes)
    return yields and not endless and not function.node.decorator_list


def _may_leave(loop: ast.For | ast.While) -> bool:
    """Whether a pass may end before the iterator does."""
    return any(isinstance(node, ast.Break | ast.Return | ast.Yield | ast.YieldFrom) for node in walk(loop))
