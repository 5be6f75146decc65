"""Objects of the project's classes: what `engine.fit` means, where `engine` is made here or handed in."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from mlcheck.lint.nodes import before_methods, is_name
from mlcheck.lint.sites.model import OPEN, Call, Class, Function, Named
from mlcheck.lint.sites.returning import returns
from mlcheck.lint.sites.scopes import Binding, Context

if TYPE_CHECKING:
    from mlcheck.lint.sites.file import File
    from mlcheck.lint.sites.project import Sites

_SAME_OBJECT = ("to", "cuda", "cpu", "eval", "train", "float", "double", "half", "requires_grad_")


def method_of_object(file: File, node: ast.Attribute, context: Context, depth: int) -> Named:
    """`engine.fit`, where `engine` is made once, of a class of the project, or handed in; `Engine(...).fit`.

    So for `self.engine.fit`.
    """
    bindings = file.bindings(node.value.id, context) if isinstance(node.value, ast.Name) else []
    if len(bindings) == 1 and bindings[0].kind == "param":
        if (told := _of_annotated(file, bindings[0], node.attr, depth)) is not None:
            return told
        if node.attr not in file.sites.once(_names_of_methods):
            return None
    cls = class_of_object(file, node.value, context, depth)
    return cls.find(node.attr) if cls is not None else None


def class_of_object(file: File, node: ast.AST, context: Context, depth: int) -> Class | None:
    """The class of the project that an expression is certainly an object of."""
    made: ast.AST | None = node
    if depth <= 0:
        return None
    if isinstance(made, ast.Name):
        bindings = file.bindings(made.id, context)
        if len(bindings) != 1 or bindings[0].kind not in ("param", "value", "with"):
            return None
        binding = bindings[0]
        if binding.kind == "param":
            return _handed_in(file, binding, depth)
        made, context = binding.value, binding.context
        if binding.kind == "with":
            cls = class_of_object(file, made, context, depth - 1) if made is not None else None
            return cls if cls is not None and _enters_itself(cls) else None
    elif isinstance(made, ast.Attribute):
        made, context = _kept(file, made, context)
    made = before_methods(made, _SAME_OBJECT) if isinstance(made, ast.expr) else made
    if isinstance(made, ast.Name) and made is not node:
        return class_of_object(file, made, context, depth - 1)
    named = file.resolve(made.func, context, depth - 1) if isinstance(made, ast.Call) else None
    named = _made_by(named, depth - 1) if isinstance(named, Function) else named
    return named if isinstance(named, Class) else None


def _enters_itself(cls: Class) -> bool:
    """`with Run() as run`, where `__enter__` returns the object."""
    enter = cls.find("__enter__")
    return enter is not None and all(is_name(each, enter.receiver) for each in returns(enter))


def _made_by(function: Function, depth: int) -> Named:
    """The class of `return Engine(...)`, where the function returns nothing else."""
    made = list(returns(function)) if depth > 0 and not function.node.decorator_list else []
    if not made or not all(isinstance(each, ast.Call) for each in made):
        return None
    kinds = {function.file.resolve(each.func, function.inner, depth) for each in made if isinstance(each, ast.Call)}
    return kinds.pop() if len(kinds) == 1 else None


def _kept(file: File, node: ast.Attribute, context: Context) -> tuple[ast.AST | None, Context]:
    """What `self.saver` is given, by one assignment in all its class."""
    method = file.method_around(context)
    if method is None or method.cls is None or not is_name(node.value, method.receiver):
        return None, context
    sets = method.cls.attribute(node.attr)
    return (sets[0][1].value, sets[0][1].context) if len(sets) == 1 and sets[0][0].file is file else (None, context)


def _of_annotated(file: File, binding: Binding, name: str, depth: int) -> Named:
    """The method of `def run(engine: Engine)`, where no class derived from that has its own."""
    told = binding.node.annotation if isinstance(binding.node, ast.arg) else None
    cls = file.resolve(told, binding.context, depth - 1) if isinstance(told, ast.Name | ast.Attribute) else None
    found = cls.find(name) if isinstance(cls, Class) else None
    if found is None or any(cls in other.line[1:] and name in other.methods for other in file.sites.classes):
        return None
    return found


def _names_of_methods(sites: Sites) -> frozenset[str]:
    return frozenset(each.name for file in sites.files.values() for each in file.functions if each.cls is not None)


def _handed_in(file: File, binding: Binding, depth: int) -> Class | None:
    """The class of what every call of the function gives for a parameter, as far as it is one, and all are plain.

    Calls of methods of other objects are left out: to know what they call, one has to know their objects first.
    """
    known, key = file.sites.once(_known), id(binding.node)
    if key not in known:
        known[key] = None  # who asks for it meanwhile goes round in a circle
        known[key] = _of_calls(file, binding, depth)
    return known[key]


def _known(_: Sites) -> dict[int, Class | None]:
    """What is found out about parameters, by their nodes."""
    return {}


def _of_calls(file: File, binding: Binding, depth: int) -> Class | None:
    function = file.function_around(binding.context)
    if function is None or not isinstance(binding.node, ast.arg) or binding.node.arg not in function.parameters:
        return None
    wanted: Function | Class | None = function if function.name != "__init__" else function.cls
    position = list(function.parameters).index(binding.node.arg) - (1 if function.receiver else 0)
    calls = file.sites.once_of(_plain_calls, (file.sites, wanted.name)).get(wanted, []) if wanted is not None else []
    found = set[Class | None]()
    for call in calls:
        given = call.argument(binding.node.arg, position) if position >= 0 else None
        known = given is not None and given is not OPEN
        found.add(class_of_object(call.file, given, call.context, depth - 1) if known and given is not None else None)
    return found.pop() if len(found) == 1 else None


def _plain_calls(asked: tuple[Sites, str]) -> dict[Function | Class, list[Call]]:
    """The calls by a name, as `run(...)`, `library.run(...)` and `self.run(...)`."""
    sites, name = asked
    found: dict[Function | Class, list[Call]] = {}
    for file in sites.mentioning([name]):
        for call in file.calls(name, *file.walk.aliases.get(name, ())):
            named = file.resolve(call.node.func, call.context) if _is_plain(call) else None
            if isinstance(named, Function | Class):
                found.setdefault(named, []).append(call)
    return found


def _is_plain(call: Call) -> bool:
    func = call.node.func
    if not isinstance(func, ast.Attribute):
        return isinstance(func, ast.Name)
    method = call.file.method_around(call.context)
    if not isinstance(func.value, ast.Name) or (method is not None and func.value.id == method.receiver):
        return isinstance(func.value, ast.Name)
    bindings = call.file.bindings(func.value.id, call.context)
    return all(binding.kind in ("import", "from") for binding in bindings)
