"""Calls of objects that can be called: where the project makes them, and the names they are kept under or handed to."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import is_attribute, is_none, last_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.objects import class_of_object
from mlcheck.lint.sites.project import Sites

_DEPTH = 8


def calls_of_instances(sites: Sites, function: Function, cls: Class) -> Iterator[Call]:
    """`save(model)`, where `save = Saver(...)` and `Saver` has this `__call__`; of a module, its `forward`."""
    called = cls.find("__call__") or cls.find("forward")
    for file in sites.mentioning([cls.name]):
        for made in file.calls(cls.name, *file.walk.aliases.get(cls.name, ())):
            if file.resolve(made.node.func, made.context) is not cls:
                continue
            for name in file.names_given(made.node):
                for call in file.calls(name):
                    bound = file.bindings(name, call.context) if isinstance(call.node.func, ast.Name) else []
                    if len(bound) == 1 and bound[0].value is made.node and called is function:
                        yield call
            if called is function:
                yield from _calls_of_parts(file, made)
                yield from _calls_in_stack(file, made)
    if called is function:
        yield from sites.once(_calls_of_handed).get(cls, ())


def _calls_of_handed(sites: Sites) -> dict[Class, list[Call]]:
    """`net(x)` in `def train(net)`, and `self.net(x)` where `__init__` is given it, by the class of all it is given."""
    found: dict[Class, list[Call]] = {}
    for file in sites.files.values():
        for call in _of_parameters(file):
            cls = class_of_object(file, call.node.func, call.context, _DEPTH)
            if cls is not None:
                found.setdefault(cls, []).append(call)
    return found


def _of_parameters(file: File) -> Iterator[Call]:
    for name in {parameter for function in file.functions for parameter in function.parameters}:
        for call in file.calls(name):
            func = call.node.func
            bound = file.bindings(func.id, call.context) if isinstance(func, ast.Name) else []
            if len(bound) == 1 and bound[0].kind == "param":
                yield call
    handed = {each.target.attr for each in file.walk.attributes if isinstance(each.value, ast.Name)}
    for call in file.calls(*handed):
        method = file.method_around(call.context)
        if method is not None and is_attribute(call.node.func, method.receiver, last_name(call.node.func)):
            yield call


def _calls_of_parts(file: File, made: Call) -> Iterator[Call]:
    """`self.save(model)`, where `self.save` is what was made there, or None."""
    for assigned in file.walk.attributes:
        if assigned.value is not made.node:
            continue
        for call in file.calls(assigned.target.attr):
            method = file.method_around(call.context)
            if (
                method is None
                or method.cls is None
                or not is_attribute(call.node.func, method.receiver, assigned.target.attr)
            ):
                continue
            values = [each.value for _, each in method.cls.attribute(assigned.target.attr)]
            if made.node in values and all(value is made.node or is_none(value) for value in values):
                yield call


def _calls_in_stack(file: File, made: Call) -> Iterator[Call]:
    """`for layer in self.layers: x = layer(x)`, where `self.layers = nn.ModuleList([Layer(8) for _ in range(6)])`."""
    stack = made.context.node if made.context.kind == "comprehension" else None
    if not isinstance(stack, ast.ListComp | ast.GeneratorExp) or stack.elt is not made.node:
        return
    for assigned in file.walk.attributes:
        method, value = file.method_around(assigned.context), assigned.value
        if method is None or method.cls is None or value is None or not _holds(value, stack):
            continue
        if len(method.cls.attribute(assigned.target.attr)) != 1:
            continue
        for loop, context in file.walk.loops:
            around = file.method_around(context)
            turn = iteration_of(loop) if isinstance(loop, ast.For) else None
            if turn is None or around is None or around.cls is not method.cls or not isinstance(turn.brought, ast.Name):
                continue
            if is_attribute(turn.over, around.receiver, assigned.target.attr):
                calls = (call for call in file.calls(turn.brought.id) if isinstance(call.node.func, ast.Name))
                yield from (call for call in calls if any(outer.node is loop for outer in call.context.outwards()))


def _holds(value: ast.expr, stack: ast.expr) -> bool:
    """`nn.ModuleList(stack)`, `nn.ModuleList([*stack])`, or the stack itself."""
    if isinstance(value, ast.Call) and len(value.args) == 1:
        value = value.args[0]
    return value is stack
