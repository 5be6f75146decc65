"""An optimizer whose gradients are cleared and computed, in a program that steps nothing at all."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.origins import callers, returns
from mlcheck.lint.sites.project import Sites

_STEPS = pattern(r"(?<!sched)(?<!scheduler)\.step\b|\.grad\b(?!\s*=\s*None)|getattr\([^()\n]*['\"]\w*step")
_SCHEDULES = ("torch.optim.lr_scheduler.", "transformers.get_", "transformers.optimization.get_")
_PLAIN = frozenset(["torch.nn.Module", "abc.ABC", "builtins.object", "object"])
_ROUNDS = 4


def cleared_in_vain(made: Call) -> Iterator[tuple[Call, Call]]:
    """A clearing and the backward pass behind it in its function, where nobody but the program could step."""
    sites = made.file.sites
    if sites.once(_steps) or made.file.is_test or (made.cls is not None and not made.cls.libraries <= _PLAIN):
        return
    names = _names_of(sites, made)
    if not names or any(_is_handed_out(file, name) for file in sites.files.values() for name in names):
        return
    for file in sites.mentioning([".zero_grad("]):
        for clear in file.calls("zero_grad"):
            owner = clear.owner
            after = [
                b for b in file.calls("backward") if b.function is clear.function and b.node.lineno > clear.node.lineno
            ]
            if last_name(owner) in names and after and clear.function is not None:
                yield clear, after[0]


def _steps(sites: Sites) -> bool:
    """Whether any text of the program may step an optimizer, or do its work by hand."""
    return any(_STEPS.search(file.text) for file in sites.files.values())


def _names_of(sites: Sites, made: Call) -> set[str]:
    """The names it goes by: where it is made, as a parameter, an attribute, and as what a function returns."""
    names = set(made.file.names_given(made.node))
    for _ in range(_ROUNDS):
        before = len(names)
        for file in sites.files.values():
            names |= _given_on(file, names) | _kept(file, names)
            for function in file.functions:
                names |= _returned_as(function, names, made)
        if len(names) == before:
            break
    return names


def _given_on(file: File, names: set[str]) -> set[str]:
    found = set()
    for calls in file.walk.calls.values():
        for call, context in calls:
            named = file.resolve(call.func, context)
            called = named.find("__init__") if isinstance(named, Class) else named
            if isinstance(called, Function):
                shift = 1 if called.receiver else 0
                for position, parameter in enumerate(list(called.parameters)[shift:]):
                    if last_name(Call(file, call, context).argument(parameter, position)) in names:
                        found.add(parameter)
    return found


def _kept(file: File, names: set[str]) -> set[str]:
    """`opt` of `self.opt = optimizer`."""
    lines = (node for node in walk(file.module.source.tree) if isinstance(node, ast.Assign))
    return {
        last_name(target)
        for line in lines
        if isinstance(line.value, ast.Name | ast.Attribute) and last_name(line.value) in names
        for target in line.targets
    }


def _returned_as(function: Function, names: set[str], made: Call) -> set[str]:
    """The names that callers give what a function returns, alone or among others."""
    found = set()
    for value in returns(function):
        items = value.elts if isinstance(value, ast.Tuple) else [value]
        for number, item in enumerate(items):
            item = item.value if isinstance(item, ast.NamedExpr) else item
            named = isinstance(item, ast.Name | ast.Attribute) and last_name(item) in names
            if named or item is made.node:
                for call in callers(function.file.sites, function):
                    found |= _taken(call, number if isinstance(value, ast.Tuple) else -1)
    return found


def _taken(call: Call, number: int) -> set[str]:
    """The names of the item that is unpacked from a call; of all of it, where the number is -1."""
    found = set()
    for line in walk(call.file.module.source.tree):
        if isinstance(line, ast.Assign) and line.value is call.node:
            for target in line.targets:
                unpacked = target.elts if isinstance(target, ast.Tuple | ast.List) else None
                if number < 0 or unpacked is None:
                    found.add(last_name(target))
                elif number < len(unpacked):
                    found.add(last_name(unpacked[number]))
    return found


def _is_handed_out(file: File, name: str) -> bool:
    """Whether somebody else gets it, who may step it: a library, a list, a framework's own class."""
    allowed: set[int] = set()
    for node in walk(file.module.source.tree):
        if isinstance(node, ast.Attribute | ast.Assign):
            allowed.add(id(node.value))
        elif isinstance(node, ast.Compare):
            allowed |= {id(node.left), *map(id, node.comparators)}
    for function in file.functions:
        if function.cls is None or function.cls.libraries <= _PLAIN:
            for value in returns(function):
                allowed |= {id(item) for item in (value.elts if isinstance(value, ast.Tuple) else [value])}
    for calls in file.walk.calls.values():
        for call, context in calls:
            named = file.resolve(call.func, context)
            known = isinstance(named, Function) or (isinstance(named, Class) and named.libraries <= _PLAIN)
            if known or (isinstance(named, str) and named.startswith(_SCHEDULES)):
                allowed |= {id(part) for part in (*call.args, *(keyword.value for keyword in call.keywords))}
    return any(
        id(node) not in allowed
        and (
            is_name(node.target, name)
            if isinstance(node, ast.NamedExpr)
            else isinstance(node, ast.Name | ast.Attribute)
            and isinstance(node.ctx, ast.Load)
            and last_name(node) == name
        )
        for node in walk(file.module.source.tree)
    )
