"""Calls that are given one variable twice, where the second place is that of another one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.project import Sites

_PIECES = frozenset(["optimizer", "optim", "opt", "scheduler", "model", "net", "network", "criterion", "sampler"])
_PIECES |= {"loader", "dataloader", "dataset", "set", "data"}
_WORD = pattern(r"[a-z]+|\d+")


class Repeated(NamedTuple):
    """The call, its argument, the parameter that it is given for, and the function that has it."""

    call: Call
    given: ast.Name
    wanted: str
    function: Function


def repeated_arguments(sites: Sites) -> Iterator[Repeated]:
    """`train(g_optimizer, g_optimizer)` of `def train(g_optimizer, d_optimizer)`, beside a `d_optimizer`."""
    found: dict[Function, list[Repeated | None]] = {}
    for file in sites.mentioning(["torch"]):
        for calls in file.walk.calls.values():
            for node, context in calls:
                names = [arg.id for arg in _values(node) if isinstance(arg, ast.Name)]
                function = file.resolve(node.func, context) if len(names) > 1 else None
                if isinstance(function, Class):
                    function = function.find("__init__")
                if isinstance(function, Function):
                    call = Call(file, node, context)
                    repeated = _repeated(call, function) if len(set(names)) < len(names) else None
                    found.setdefault(function, []).append(repeated)
    for told in found.values():
        if len(told) == 1 and told[0] is not None:  # where it is called in other ways too, both may be meant
            yield told[0]


def _values(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(word.value for word in node.keywords)]


def _repeated(call: Call, function: Function) -> Repeated | None:
    given = _by_parameter(call, function)
    names = {value.id for value in given.values() if isinstance(value, ast.Name)}
    for wanted, value in given.items():
        if not isinstance(value, ast.Name) or value.id == wanted or wanted in names:
            continue
        own = given.get(value.id)
        if not isinstance(own, ast.Name) or own.id != value.id or not _are_alike(wanted, value.id):
            continue
        if call.file.bindings(wanted, call.context):
            return Repeated(call, value, wanted, function)
    return None


def _by_parameter(call: Call, function: Function) -> dict[str, ast.expr]:
    if any(isinstance(arg, ast.Starred) for arg in call.node.args):
        return {}
    names = list(function.parameters)[1 if function.receiver else 0 :]
    given = dict(zip(names, call.node.args, strict=False))
    return given | {word.arg: word.value for word in call.node.keywords if word.arg}


def _are_alike(one: str, other: str) -> bool:
    """Whether the names are the same but for one word: `g_optimizer` and `d_optimizer`, `optG` and `optD`.

    Of the pieces of a program: `c_in` and `c_out` may well be one number.
    """
    first, second = _words(one), _words(other)
    if _PIECES.isdisjoint(first):
        return False
    return len(first) == len(second) > 1 and sum(a != b for a, b in zip(first, second, strict=True)) == 1


def _words(name: str) -> list[str]:
    return _WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
