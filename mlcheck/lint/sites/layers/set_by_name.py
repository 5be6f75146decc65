"""Attributes of modules that are set and read by names which are made up: `setattr(self, f"mask{i}", ...)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites.layers.in_place import operands, plain
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.scopes import AttributeSet, Context


class SetByName(NamedTuple):
    """The call of `setattr`, as an assignment, and where `forward` reads what it set: the `getattr`."""

    function: Function
    assigned: AttributeSet
    name: str
    reader: Function
    read: ast.Call


def set_by_name(cls: Class) -> Iterator[SetByName]:
    """Those of the constructor, each with a `getattr` of a name that begins alike."""
    init = cls.methods.get("__init__")
    if init is None or "setattr(" not in init.text:
        return
    reads = [
        (method, call)
        for method in cls.methods.values()
        if method is not init
        for call in method.all(ast.Call)
        if _begins(call, "getattr", method)
    ]
    for call in init.all(ast.Call):
        name = _begins(call, "setattr", init)
        if name and len(call.args) == 3:
            target = ast.Attribute(call.args[0], name, ast.Store())
            assigned = AttributeSet(target, call.args[2], _context(init, call), call)
            for method, read in reads:
                if _begins(read, "getattr", method) == name:
                    yield SetByName(init, assigned, name, method, read)
                    break


def _begins(call: ast.Call, function: str, method: Function) -> str:
    """`mask` of `setattr(self, f"mask{i}", ...)` and of `setattr(self, "mask", ...)`."""
    if not is_name(call.func, function) or len(call.args) < 2 or not is_name(call.args[0], method.receiver):
        return ""
    name = call.args[1].values[0] if isinstance(call.args[1], ast.JoinedStr) else call.args[1]
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else ""


def _context(function: Function, call: ast.Call) -> Context:
    found = (each.context for each in function.file.calls("setattr") if each.node is call)
    return next(found, function.inner)


def is_operand(found: SetByName, moves: tuple[str, ...]) -> bool:
    """Whether it is computed with as it is: `x + getattr(self, name)`, or under a name; nothing there moves it."""
    if any(word in found.reader.text for word in moves):
        return False
    lines = found.reader.all(ast.Assign)
    names = {line.targets[0].id for line in lines if line.value is found.read and isinstance(line.targets[0], ast.Name)}
    sides = [plain(part) for node in found.reader.all(ast.BinOp) for part in operands(node)]
    return any(side is found.read or (isinstance(side, ast.Name) and side.id in names) for side in sides)
